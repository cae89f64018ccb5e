/*
 * store.h - a client of the backend.
 */
#ifndef SB_BACKEND_ZOOKEEPER_STORE_H
#define SB_BACKEND_ZOOKEEPER_STORE_H

#include "backend/zookeeper/latch.h"
#include "backend/zookeeper/session.h"

struct sb_zk_inquiry;
struct sb_zk_job;
struct sb_zk_proof;

struct simba_backend {
    const struct simba_backend_host *host;
    struct sb_zk_options options;
    struct sb_zk_session session;
    struct sb_zk_places places;
    struct sb_zk_job *jobs;
    struct sb_zk_inquiry *inquiries;
    struct sb_zk_proof *proof; /* that a batch shares */
    bool taking;               /* a batch is being taken */
    bool no_containers;        /* the servers do not know them */
    uv_timer_t timer;          /* deadlines of requests, and of nodes that nobody is heard of */
    int64_t timer_ms;          /* when it fires; SIMBA_INFINITE: not at all */
    void (*closed)(void *argument);
    void *argument;
};

/* Makes sure that sb_zk_store_sweep runs at that time. */
void sb_zk_store_wake_at(simba_backend *store, int64_t at_ms);

/* Asks the ensemble's leader for a proof that the session lives. */
void sb_zk_store_prove(simba_backend *store);

/* watch.c: what became of watches */
void sb_zk_watch_fired(simba_backend *store, const char *path, bool deleted);
void sb_zk_watch_before(simba_backend *store,
                        struct sb_zk_latch *latch); /* looks at the one before no more */
void sb_zk_watch_self(simba_backend *store, struct sb_zk_latch *latch); /* nor at its own */
void sb_zk_watch_observers(simba_backend *store, struct sb_zk_place *place);
void sb_zk_watches_lost(simba_backend *store); /* all of them, with their line */
bool sb_zk_watch_is_wanted(const struct sb_zk_place *place, const char *node);

#endif
