/*
 * dash_site.h - what `simba dashboard` serves: the page, its events, queues, metrics, and what a
 * user wants who has the token.
 *
 * The main thread looks at the store and tells the site what it has seen. The web server's thread
 * answers. One lock guards what both use.
 */
#ifndef CLI_DASH_SITE_H
#define CLI_DASH_SITE_H

#include "cli/dash_json.h"
#include "cli/look.h"
#include "cli/listen.h"

#include <pthread.h>

#define CLI_DASH_TOKEN_MIN 16
#define CLI_DASH_TOKEN_MAX 256

/* Messages that are kept for pages that read slowly; a page that missed one gets all anew. */
#define CLI_DASH_FRAMES 32

/* Mutexes whose queues pages show, and for how long they are asked after the last request. */
#define CLI_DASH_WATCHED_MAX 8
#define CLI_DASH_WATCHED_MS 5000

struct cli_dash_frame;

struct cli_dash_watched {
    char mutex[SIMBA_MUTEX_MAX + 1];
    int64_t until_ms; /* 0: the place is free */
    bool is_known;    /* the store has answered */
    int code;
    struct simba_waiter *queue;
    size_t count;
};

struct cli_dash_site {
    struct cli_listen listen;
    char token[CLI_DASH_TOKEN_MAX + 1]; /* empty: read only; before the start */
    int wake_fd;                        /* an eventfd: the main thread should look at once */

    pthread_mutex_t lock; /* of the rest */
    struct cli_dash_model model;
    char why[512]; /* the store is away */
    struct cli_dash_frame *frames[CLI_DASH_FRAMES];
    uint64_t frames_end;
    struct cli_dash_frame *whole; /* for pages that begin; NULL: none was made */
    uint64_t whole_at;            /* frames_end when it was made */
    struct cli_dash_watched watched[CLI_DASH_WATCHED_MAX];
    struct cli_look_action action; /* that is to be done with the next look */
};

/* Reads the token: SIMBA_OK, or an error of the library. */
int cli_dash_read_token(struct cli_dash_site *site, const char *path, struct simba_error *error);

/* Returns CLI_CONTINUE or, after a message, an exit code. */
int cli_dash_site_start(struct cli_dash_site *site, const char *address, bool quiet);
void cli_dash_site_stop(struct cli_dash_site *site);

/* With the lock held: tells all pages what has changed; and of an action that was done. */
void cli_dash_tell_changes(struct cli_dash_site *site);
void cli_dash_tell_action(struct cli_dash_site *site, const struct cli_look_action *action,
                          const char *failure);

#endif
