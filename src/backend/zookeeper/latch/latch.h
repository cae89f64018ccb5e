/*
 * latch.h - what a client has on the store: for each mutex its contenders, for each contender a
 * latch with its node; and the client itself.
 *
 *     NONE --create--> THERE --delete--> NONE        a session that ends takes all nodes with it
 *       |   lost reply   ^
 *       +---> UNSURE ----+ found by its uuid
 *
 * A node that must go is `leaving` until the server has confirmed it. One job at a time works on a
 * latch; others wait in its queue.
 */
#ifndef SB_ZK_LATCH_H
#define SB_ZK_LATCH_H

#include "backend/zookeeper/handle/session.h"
#include "backend/zookeeper/names.h"
#include "base/hash.h"

struct sb_zk_job;

enum sb_zk_node_state {
    SB_ZK_NODE_NONE,
    SB_ZK_NODE_UNSURE, /* the reply to its creation was lost */
    SB_ZK_NODE_THERE
};

/* A mutex that this client has to do with. */
struct sb_zk_mutex {
    struct sb_hash_node node;
    struct sb_zk_latch *latches;
    unsigned users;     /* jobs that are about it, and functions that go on with it */
    unsigned observers; /* that want to hear of changes */
    /* Watches for the observers; those that have not fired: */
    bool watches_children;
    bool watches_parent;
    char watched[SB_ZK_NODE_MAX + 1];           /* the leader's node; empty: none */
    char property[SIMBA_PROPERTY_NAME_MAX + 1]; /* the one that was read last; empty: none */
    char name[SIMBA_MUTEX_MAX + 1];
};

/* A contender and its node. */
struct sb_zk_latch {
    struct sb_zk_latch *next;
    struct sb_zk_mutex *mutex;
    enum sb_zk_node_state node;
    bool listening; /* a contender wants to be woken */
    bool abandoned; /* it has stopped since: what is there without having been granted goes */
    bool granted;   /* its contender was told that it owns */
    bool leaving;   /* the node must go */
    bool refused;   /* the node must never count as a place in the queue */
    bool checked;   /* the rights above its node are those that were asked for */
    bool stuck;     /* the server refused to delete it, and that was logged */
    /* The next in the queue need not ask whether its turn has come; see succession.c. */
    bool watches_self;   /* the loss of its own node would be told */
    bool second;         /* only the node that it watches comes before its own */
    bool first;          /* that one has been deleted since */
    uint64_t czxid;      /* THERE: of the node's creation, the fence */
    int64_t withdraw_ms; /* when the node goes unless its contender is heard of */
    struct sb_zk_job *active;
    struct sb_zk_job *queue;
    char uuid[SB_ZK_UUID_SIZE];
    char name[SB_ZK_NODE_MAX + 1];    /* THERE */
    char watched[SB_ZK_NODE_MAX + 1]; /* the node before mine; empty: no watch waits */
    char id[SIMBA_ID_MAX + 1];
};

/* The table holds mutexes only. One that could not be made may be freed. */
void sb_zk_mutexes_free(struct sb_hash_table *mutexes);

struct sb_zk_mutex *sb_zk_mutex_find(const struct sb_hash_table *mutexes, const char *name);
struct sb_zk_mutex *sb_zk_mutex_ensure(struct sb_hash_table *mutexes,
                                       const char *name); /* NULL: no memory */

/* Frees the mutex when nobody needs it any more. */
void sb_zk_mutex_drop(struct sb_hash_table *mutexes, struct sb_zk_mutex *mutex);

struct sb_zk_latch *sb_zk_latch_find(const struct sb_zk_mutex *mutex, const char *id);
struct sb_zk_latch *sb_zk_latch_ensure(struct sb_zk_mutex *mutex,
                                       const char *id); /* NULL: no memory */

/* Frees the latch when it has no node, no job and no listener; its mutex stays. */
void sb_zk_latch_drop(struct sb_zk_latch *latch);

/* The node is known to be there. */
void sb_zk_latch_set_node(struct sb_zk_latch *latch, const char *name, const struct Stat *stat);

/* The node is gone: forgets what was known of it. */
void sb_zk_latch_forget_node(struct sb_zk_latch *latch);

/* Whether it is the first has to be asked again. */
void sb_zk_latch_forget_succession(struct sb_zk_latch *latch);

/* Calls visit for each latch. It may drop latches, but not add any. */
void sb_zk_latches_each(struct sb_hash_table *mutexes,
                        void (*visit)(void *argument, struct sb_zk_latch *latch), void *argument);

/* ---- The client ------------------------------------------------------------------------------ */

struct sb_zk_listing;
struct sb_zk_job;
struct sb_zk_proof;

struct simba_backend {
    const struct simba_backend_host *host;
    struct sb_zk_options options;
    struct sb_zk_session session;
    struct sb_hash_table mutexes;
    struct sb_zk_job *jobs;
    struct sb_zk_listing *listings;
    struct sb_zk_proof *proof; /* that a batch shares */
    bool taking;               /* a batch is being taken */
    bool no_containers;        /* the servers do not know them */
    uv_timer_t timer;          /* deadlines of requests, and of nodes that nobody is heard of */
    int64_t timer_ms;          /* when it fires; SIMBA_INFINITE: not at all */
    void (*due)(uv_timer_t *timer);       /* then */
    void (*begin)(struct sb_zk_job *job); /* its turn on its latch has come */
    void (*closed)(void *argument);
    void *argument;
};

/* Takes the watch on the node before the latch's back, or on its own, or those for observers. */
void sb_zk_unwatch_before(simba_backend *store, struct sb_zk_latch *latch);
void sb_zk_unwatch_self(simba_backend *store, struct sb_zk_latch *latch);
void sb_zk_unwatch_observed(simba_backend *store, struct sb_zk_mutex *mutex);

/* All of them are gone, with their handle. */
void sb_zk_watches_lost(simba_backend *store);

#endif
