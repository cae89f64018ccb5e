/*
 * progress.h - tells the user who owns the mutex that is waited for.
 *
 * On a terminal it is one line, no wider than that, which is updated in place; elsewhere it is one
 * message.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <simba/simba.h>

struct cli_progress {
    const char *mutex;
    bool quiet;
    int64_t begun_ms;
    bool told;                /* the one line */
    bool shown;               /* a line in its place */
    simba_client *client;     /* to follow the owner with, once such a line is shown */
    simba_observer *observer; /* while it is followed */

    struct simba_owner owner; /* as it was seen last */
    int64_t seen_ms;          /* since when its term was; 0: none was */
    bool succeeded;           /* it is not older than that: the store has told, or another one
                               * was seen before */
    bool renewed;             /* since it was first seen */
};

/* Room for what cli_progress_describe writes. */
#define CLI_PROGRESS_OWNER_MAX (SIMBA_ID_MAX + 128)

void cli_progress_begin(struct cli_progress *progress, const char *mutex, bool quiet);

/* When cli_progress_show wants to be called next; SIMBA_INFINITE: never again. */
int64_t cli_progress_next_ms(const struct cli_progress *progress);

/* From now on a line that is updated in place tells of the owner what an observer knows: a waiter
 * far back in the queue does not hear who owns. The client stays open until the end. */
void cli_progress_follow(struct cli_progress *progress, simba_client *client);

/* An empty id of the owner: there is none, or it is not known. `place` in the wait queue; 0: it is
 * not known. */
void cli_progress_show(struct cli_progress *progress, const struct simba_owner *owner,
                       int64_t place);

/* The wait is over: removes the line. */
void cli_progress_end(struct cli_progress *progress);

/* The store has told since when the owner owns. */
void cli_progress_date(struct cli_progress *progress, const struct simba_owner *owner,
                       int64_t since_ms);

/* "held by ID for at least 2m; lease renewed 3s ago", of an owner that was read from the store just
 * now. */
void cli_progress_describe(struct cli_progress *progress, const struct simba_owner *owner,
                           char *buffer, size_t size);

#endif
