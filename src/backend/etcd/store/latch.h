/*
 * latch.h - what a client has on the store: for each mutex its contenders, for each contender a
 * latch with its key; and the client itself.
 *
 *     NONE --create--> THERE --delete--> NONE        a lease that ends takes all its keys with it
 *       |   lost reply   ^
 *       +---> UNSURE ----+ the next transaction finds it or makes it
 *
 * A key that must go is `leaving` until the server has confirmed it. One job at a time works on a
 * latch; others wait in its queue.
 *
 * A creation whose reply was lost may be carried out later, when the key was deleted meanwhile: it
 * would wait in the queue for nobody. So for a while such a latch is in doubt: its key is deleted
 * again and again.
 */
#ifndef SB_ETCD_LATCH_H
#define SB_ETCD_LATCH_H

#include "backend/etcd/names.h"
#include "backend/etcd/rpc/message.h"
#include "backend/etcd/store/leases.h"
#include "backend/etcd/store/watches.h"
#include "base/hash.h"

struct sb_etcd_job;

enum sb_etcd_key_state { SB_ETCD_KEY_NONE, SB_ETCD_KEY_UNSURE, SB_ETCD_KEY_THERE };

/* A mutex that this client has to do with. */
struct sb_etcd_mutex {
    struct sb_hash_node node;
    simba_backend *store;
    struct sb_etcd_latch *latches;
    unsigned users;                  /* jobs that are about it, and functions that go on with it */
    unsigned observers;              /* that want to hear of changes */
    struct sb_etcd_watcher *watcher; /* for them; NULL: none */
    struct sb_etcd_watcher *properties; /* the same, of what is remembered of the mutex */
    int64_t owner_lease;                /* of the first key, when it was looked at last; 0: none */
    int64_t event_revision;             /* of the last change that the watcher was told of */
    char name[];
};

/* A contender and its key. */
struct sb_etcd_latch {
    struct sb_etcd_latch *next;
    struct sb_etcd_mutex *mutex;
    struct sb_etcd_lease *lease;
    enum sb_etcd_key_state key;
    bool listening;  /* a contender wants to be woken */
    bool abandoned;  /* it has stopped since: what is there without having been granted goes */
    bool granted;    /* its contender was told that it owns */
    bool leaving;    /* the key must go */
    bool stuck;      /* to delete it has failed */
    int64_t created; /* THERE: the revision of its creation */
    uint64_t fence;  /* granted: the token of the term */
    uint64_t untold_release; /* the token of a term that may have been given back without the
                              * contender being told; 0: none */
    int64_t untold_until_ms; /* then the contender does not ask any more */
    int64_t withdraw_ms;     /* when the key goes unless its contender is heard of */
    int64_t doubt_until_ms;  /* 0: none */
    struct sb_etcd_job *active;
    struct sb_etcd_job *queue;
    struct sb_etcd_watcher *watcher; /* of the key before mine; NULL: none */
    int64_t before;                  /* the revision of its creation; 0: none is watched */
    char id[];
};

void sb_etcd_mutexes_free(struct sb_hash_table *mutexes);
struct sb_etcd_mutex *sb_etcd_mutex_find(const struct sb_hash_table *mutexes, const char *name);

/* NULL: no memory. */
struct sb_etcd_mutex *sb_etcd_mutex_ensure(simba_backend *store, const char *name);

/* Frees the mutex when nobody needs it any more. */
void sb_etcd_mutex_drop(struct sb_etcd_mutex *mutex);

struct sb_etcd_latch *sb_etcd_latch_find(const struct sb_etcd_mutex *mutex, const char *id);

/* NULL: no memory. It has a lease that no other contender of this client has for the mutex. */
struct sb_etcd_latch *sb_etcd_latch_ensure(struct sb_etcd_mutex *mutex, const char *id);

/* Frees the latch when it has no key, no job, no listener, no doubt and no untold release; its
 * mutex stays. */
void sb_etcd_latch_drop(struct sb_etcd_latch *latch);

/* The key is gone: forgets what was known of it. */
void sb_etcd_latch_forget(struct sb_etcd_latch *latch);

/* The key of the latch, whose lease has been granted. */
void sb_etcd_latch_key(char ret_key[SB_ETCD_KEY_SIZE], const struct sb_etcd_latch *latch);

/* Calls visit for each latch. It may drop latches, but not add any. */
void sb_etcd_latches_each(simba_backend *store,
                          void (*visit)(void *argument, struct sb_etcd_latch *latch),
                          void *argument);

/* ---- The client ------------------------------------------------------------------------------ */

struct simba_backend {
    const struct simba_backend_host *host;
    struct sb_etcd_options options;
    struct sb_wire_tls *tls;
    struct sb_etcd_link link;
    struct sb_etcd_leases leases;
    struct sb_etcd_watches watches;
    struct sb_hash_table mutexes;
    struct sb_etcd_job *jobs;
    struct sb_etcd_txn *txn;     /* to put one together */
    struct sb_etcd_job *guards;  /* that share a transaction, linked by `queued` */
    struct sb_etcd_job *waiting; /* for a permit, the first one, linked by `queued` */
    struct sb_etcd_job **waiting_end;
    unsigned permits_taken;
    bool giving_permits;
    uv_timer_t timer;
    int64_t timer_ms;                       /* when it fires; SIMBA_INFINITE: not at all */
    int64_t sweep_ms;                       /* when the latches are looked through */
    void (*due)(uv_timer_t *timer);         /* then */
    void (*begin)(struct sb_etcd_job *job); /* its turn on its latch has come */
    bool closing;
    void (*closed)(void *argument);
    void *argument;
};

#endif
