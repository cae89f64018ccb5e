/*
 * top_model.h - what `simba top` knows of the mutexes: their rows, what has happened between two
 * looks at the store, and which rows are shown in which order.
 *
 * Pure: time and the answers of the store are inputs.
 */
#ifndef CLI_TOP_MODEL_H
#define CLI_TOP_MODEL_H

#include <simba/simba.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A mutex that became free stays on the screen for so long, and hand-overs are counted over it. */
#define CLI_TOP_MINUTE_MS 60000
#define CLI_TOP_MINUTE_S 60

#define CLI_TOP_FILTER_MAX 80

enum cli_top_sort {
    CLI_TOP_BY_NAME,
    CLI_TOP_BY_SINCE,   /* the oldest term first */
    CLI_TOP_BY_WAITERS, /* the most first */
    CLI_TOP_BY_HANDOVERS,
    CLI_TOP_SORTS
};

struct cli_top_row {
    struct simba_mutex_status now; /* with an empty id of the owner where it is free */
    bool overdue;                  /* its owner should have renewed its lease */
    struct simba_owner last;       /* the last term that was seen; an empty id: none */
    int64_t ended_ms;              /* when it was seen to have ended; 0: not yet */
    uint64_t handovers;            /* since the first look */
};

enum cli_top_change { CLI_TOP_NOTHING, CLI_TOP_HANDED_OVER, CLI_TOP_LOST };

/* What was seen last. */
struct cli_top_event {
    enum cli_top_change what;
    int64_t at_ms; /* when the store was asked */
    char mutex[SIMBA_MUTEX_MAX + 1];
    char from[SIMBA_ID_MAX + 1];
    char to[SIMBA_ID_MAX + 1]; /* empty: nobody */
};

/* Zeroed memory is a model without a look. */
struct cli_top_model {
    struct cli_top_row *rows; /* in the order of their names */
    size_t count;
    const struct cli_top_row **shown; /* those that are shown, in their order */
    size_t shown_count;
    enum cli_top_sort sort;
    bool all; /* show those that are free, too */
    char filter[CLI_TOP_FILTER_MAX];
    char selected[SIMBA_MUTEX_MAX + 1];
    size_t place; /* of the selected one in `shown` */

    uint64_t looks;
    size_t held;
    int64_t waiting; /* -1: the store does not know */
    uint64_t losses; /* since the first look: terms whose lease ended without a release */
    uint64_t per_second[CLI_TOP_MINUTE_S]; /* hand-overs, at the second modulo 60 */
    int64_t counted_s;                     /* the last second of them */
    struct cli_top_event event;
};

/* Takes an answer of the store, which was asked at `now_ms`. Returns false without memory; nothing
 * has changed then. */
bool cli_top_look(struct cli_top_model *model, const struct simba_mutex_status *list, size_t count,
                  int64_t now_ms);

/* Chooses and sorts the rows again, after a look or a change of sort, all or filter. The selected
 * mutex stays selected; where it is not shown, the one at its place is. */
void cli_top_arrange(struct cli_top_model *model, int64_t now_ms);

/* Moves the selection by so many rows, within them. */
void cli_top_move(struct cli_top_model *model, int64_t by);

/* NULL: none is shown. */
const struct cli_top_row *cli_top_selected(const struct cli_top_model *model);

/* Hand-overs of the last minute. */
uint64_t cli_top_handovers(struct cli_top_model *model, int64_t now_ms);

void cli_top_free(struct cli_top_model *model);

#endif
