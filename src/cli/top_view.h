/*
 * top_view.h - what `simba top` shows: the head, the table, the queue, the help, the last line.
 */
#ifndef CLI_TOP_VIEW_H
#define CLI_TOP_VIEW_H

#include "cli/top_model.h"

#include <time.h>

#define CLI_TOP_TEXT_MAX 1024

struct cli_top_view {
    struct cli_top_model model;
    bool live; /* on a screen; otherwise it is printed once, as lines */
    bool help;
    bool shows_queue;           /* of the selected mutex */
    bool has_queue;             /* the store has told it */
    struct simba_waiter *queue; /* by simba_client_queue */
    size_t queue_count;
    char queue_of[SIMBA_MUTEX_MAX + 1];
    time_t answered_at;             /* the last answer of the store; 0: none yet */
    time_t away_at;                 /* since when the store does not answer; 0: it does */
    char reason[CLI_TOP_TEXT_MAX];  /* why */
    char message[CLI_TOP_TEXT_MAX]; /* the last line: a question or a result; "": the keys */
    size_t first;                   /* the row of the table that is shown first */
};

/* Shows all of it. Returns how many rows of the table there is room for. */
size_t cli_top_show(struct cli_top_view *view, int64_t now_ms);

#endif
