/*
 * move.h - moves one mutex from a store to another, for `simba migrate`.
 */
#ifndef CLI_MOVE_H
#define CLI_MOVE_H

#include "cli/cli.h"

#include <pthread.h>

struct cli_move_side {
    simba_client *client;
    char shown[SIMBA_ID_MAX + 1]; /* its URL without password and options; perhaps cut */
    bool detaches;                /* a lease can outlive its client: not on ZooKeeper */
};

struct cli_move {
    struct cli_move_side from;
    struct cli_move_side to;
    bool try_once;   /* leave what is held, on either store */
    int64_t wait_ms; /* for each store; SIMBA_UNSET: no limit */
    bool dry_run;
    bool quiet;

    pthread_mutex_t lock;  /* guards the rest */
    simba_locker *waiting; /* what the thread that moves may wait for */
    bool cancelled;
};

enum cli_moved_state {
    CLI_MOVED,
    CLI_MOVED_BEFORE,
    CLI_MOVED_HELD, /* nothing was changed: it is in use */
    CLI_MOVED_STATES
};

struct cli_moved {
    enum cli_moved_state state;
    uint64_t fence; /* the highest token on FROM; 0: not known */
    uint64_t above; /* later tokens on TO are larger than this; 0: not known */
    /* Who holds it, or held it before it was moved; of one that was moved before its mark. */
    char owner[SIMBA_ID_MAX + 1];
    const struct cli_move_side *on; /* where that is */
    simba_locker *kept; /* FROM without leases: the mutex is marked as long as this is held. The
                           caller closes it */
};

/* Learns what the two open stores can do. `url`s are shown. */
int cli_move_prepare(struct cli_move *move, const char *from_url, const char *to_url,
                     struct simba_error *error);

/* Moves one mutex, or finds out why not. Waits for both stores. A failure leaves both as they
 * were. SIMBA_ECANCELED: see below. */
int cli_move_mutex(struct cli_move *move, const char *mutex, struct cli_moved *ret_moved,
                   struct simba_error *error);

/* Ends a wait for a mutex, now and in later calls. A move that holds both is carried out. Any
 * thread. */
void cli_move_cancel(struct cli_move *move);
bool cli_move_is_cancelled(struct cli_move *move);

#endif
