/*
 * look.h - looks at a store at intervals, for `simba top` and `simba dashboard`.
 *
 * A look waits for the store, so it runs on the background thread. While it runs, what it asks and
 * what it brings are that thread's; the rest is the main thread's.
 */
#ifndef CLI_LOOK_H
#define CLI_LOOK_H

#include "cli/background.h"
#include "cli/last_run.h"

#include <simba/simba.h>

#include <stdbool.h>

/* A store that has not answered a look for so long is away. */
#define CLI_LOOK_AWAY_MS 2500

/* Queues and runs are asked for each mutex alone: of so many in a look. */
#define CLI_LOOK_DETAILS_MAX 24

struct cli_look_detail {
    char mutex[SIMBA_MUTEX_MAX + 1];
    bool asks_queue;
    bool asks_runs;

    int queue_code;
    struct simba_waiter *queue; /* for simba_free */
    size_t queue_count;
    int run_code;
    struct cli_last_run run;
    int64_t next_run_ms;
};

enum cli_look_what { CLI_LOOK_NOTHING, CLI_LOOK_HANDOVER, CLI_LOOK_RELEASE };

/* What a user wants. */
struct cli_look_action {
    enum cli_look_what what;
    char mutex[SIMBA_MUTEX_MAX + 1];
    struct simba_owner owner; /* the term that the user has seen */
    char client[64];          /* of the dashboard */
};

struct cli_look {
    const struct cli *cli;
    int64_t interval_ms;
    bool counts_waiters; /* also where the store does that only by listing them */

    struct cli_background background;
    bool runs;
    int64_t asked_ms; /* when it began, as the main thread knows */
    int64_t next_ms;  /* when the next one is due */

    /* What it asks. */
    struct cli_look_action action; /* comes first */
    struct cli_look_detail details[CLI_LOOK_DETAILS_MAX];
    size_t detail_count;

    /* What it brings. */
    simba_client *client; /* NULL: the store was not opened yet */
    int64_t begun_ms;
    int64_t ended_ms;
    int code;
    struct simba_error error;
    struct simba_mutex_status *list; /* for simba_free */
    size_t count;
    int action_code;
    struct simba_error action_error;
    int64_t handover_left_ms; /* until the request to hand over is void */
};

/* Starts one. Returns false, with errno, when it cannot start a thread. */
bool cli_look_start(struct cli_look *look);

/* Whether one has ended since the last call: then its answer can be taken, and next_ms is set. */
bool cli_look_has_ended(struct cli_look *look);

/* Whether the store takes too long to answer the one that runs. */
bool cli_look_hangs(const struct cli_look *look, int64_t now_ms);

/* Looks on this thread. */
void cli_look_now(struct cli_look *look);

/* Why the action failed; "": it did not. */
const char *cli_look_action_failure(const struct cli_look *look);

/* Frees what a look has brought, and forgets what it was asked. */
void cli_look_clear(struct cli_look *look);

/* Closes the store. A look that hangs ends the program with `status`. */
void cli_look_finish(struct cli_look *look, int signals_fd, int status);

#endif
