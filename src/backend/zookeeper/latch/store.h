/*
 * store.h - a client of the backend, and its watches.
 */
#ifndef SB_ZK_STORE_H
#define SB_ZK_STORE_H

#include "backend/zookeeper/handle/session.h"
#include "backend/zookeeper/latch/latch.h"

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
