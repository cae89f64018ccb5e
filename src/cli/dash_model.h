/*
 * dash_model.h - what `simba dashboard` knows of the mutexes of a store: their rows, and the terms
 * of the last hour. Pure: time and the answers of the store are inputs.
 *
 * Times that the page shows are milliseconds since 1970 by this host's clock.
 */
#ifndef CLI_DASH_MODEL_H
#define CLI_DASH_MODEL_H

#include "cli/last_run.h"

#include <simba/simba.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_DASH_HOUR_MS 3600000
#define CLI_DASH_ROWS_MAX 50000
#define CLI_DASH_TERMS_MAX 32768 /* that have ended; later ones replace the oldest */
#define CLI_DASH_AWAYS_MAX 64    /* times without an answer, the same */

enum cli_dash_end {
    CLI_DASH_RELEASED,    /* nobody owned at the next look */
    CLI_DASH_HANDED_OVER, /* another owned */
    CLI_DASH_LOST         /* its lease had run out */
};

struct cli_dash_term {
    char owner[SIMBA_ID_MAX + 1];
    uint64_t fence;
    int64_t begin_ms;
    int64_t end_ms;
    enum cli_dash_end how;
    uint64_t older; /* the number of the term before it, of the same mutex; 0: none is kept */
};

struct cli_dash_row {
    struct simba_mutex_status now; /* an empty id of the owner: it is free */
    int64_t begin_ms;              /* of the owner's term */
    int64_t end_ms;                /* of its lease; SIMBA_INFINITE: it has none */
    bool overdue;                  /* its owner should have renewed */
    uint64_t newest;               /* the number of its last term; 0: there is none */
    uint64_t told;                 /* the number of the last term that the pages know */
    int64_t oldest_wait_ms;        /* since when the first in line waits; 0: not known */
    struct cli_last_run run;
    int64_t next_run_ms; /* 0: not known */
    bool is_scheduled;   /* the store has told a run */
    bool is_changed;     /* since the last message */
};

struct cli_dash_span {
    int64_t from_ms;
    int64_t to_ms; /* 0: it goes on */
};

struct cli_dash_model {
    struct cli_dash_row **rows; /* in the order of their names */
    size_t count;
    bool is_cut;                 /* there are more mutexes */
    bool counts_waiters;         /* the store does, in its list */
    struct cli_dash_term *terms; /* the term of number n is at (n - 1) modulo their maximum */
    uint64_t terms_end;          /* the number of the last one */
    struct cli_dash_span aways[CLI_DASH_AWAYS_MAX];
    uint64_t aways_end;
    int64_t watched_ms; /* since when; 0: there was no answer yet */
    uint64_t handovers; /* since the start */
    uint64_t losses;
};

/* Zeroed memory is a model; false without memory for its terms. */
bool cli_dash_init(struct cli_dash_model *model);
void cli_dash_free(struct cli_dash_model *model);

/* Takes the list of a store that was asked at `now_ms` on simba_now_ms(), in the order of names.
 * Returns false without memory; then some rows may be missing until the next look. */
bool cli_dash_look(struct cli_dash_model *model, const struct simba_mutex_status *list,
                   size_t count, int64_t now_ms);

/* The store gave no answer, since `since_ms`. */
void cli_dash_miss(struct cli_dash_model *model, int64_t since_ms);

/* Since when the store is away; 0: it is not. */
int64_t cli_dash_away_ms(const struct cli_dash_model *model);

/* NULL: there is none. */
struct cli_dash_row *cli_dash_find(const struct cli_dash_model *model, const char *mutex);

/* NULL: it is not kept any more, or the number is 0. */
const struct cli_dash_term *cli_dash_term(const struct cli_dash_model *model, uint64_t number);

/* A term that a history has told, before the first look. */
bool cli_dash_recall(struct cli_dash_model *model, const char *mutex,
                     const struct cli_dash_term *term);

/* A time in which nobody watched. */
void cli_dash_add_away(struct cli_dash_model *model, int64_t from_ms, int64_t to_ms);

#endif
