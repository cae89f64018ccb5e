/*
 * ops.h - the operations of the backend, on jobs and on lists of many nodes.
 */
#ifndef SB_ZK_OPS_H
#define SB_ZK_OPS_H

#include "backend/zookeeper/ops/job.h"

/* acquire.c, guard.c, release.c */
void sb_zk_acquire(struct sb_zk_job *job);
void sb_zk_guard(struct sb_zk_job *job);
void sb_zk_release(struct sb_zk_job *job);

/* Deletes the latch's node, then goes on. */
void sb_zk_drop_node(struct sb_zk_job *job, void (*then)(struct sb_zk_job *job));

/* request.c */
void sb_zk_request_start(simba_backend *store, struct simba_request *request,
                         void (*take)(struct sb_zk_job *job, const struct simba_reply *reply),
                         void *user);
void sb_zk_request_begin(struct sb_zk_job *job);  /* store->begin */
void sb_zk_request_expire(struct sb_zk_job *job); /* its time is over */

/* A LIST or QUEUE, with its time limit. When that is over it is answered, and what was asked goes
 * on without it until the servers have answered or the connection is gone. */
struct sb_zk_listing {
    struct sb_zk_listing *next; /* of the store */
    struct sb_zk_listing **link;
    simba_backend *store;
    struct simba_request *request; /* NULL: answered */
    int64_t deadline_ms;
};

/* list.c */
void sb_zk_listing_begin(struct sb_zk_listing *listing, simba_backend *store,
                         struct simba_request *request);

/* Answers with the list, or with the error where it has a code; nothing where the time was over
 * before. */
void sb_zk_listing_end(struct sb_zk_listing *listing, const struct simba_mutex_status *list,
                       size_t count, const struct simba_error *error);

/* Answers those whose time is over, and names the next instant to be called at. */
void sb_zk_listings_expire(simba_backend *store, int64_t now_ms);

/* A request that nothing could be begun for: no memory. */
void sb_zk_listing_refuse(simba_backend *store, struct simba_request *request);

void sb_zk_list_start(simba_backend *store, struct simba_request *request);

/* queue.c */
void sb_zk_queue_start(simba_backend *store, struct simba_request *request);

/* events.c: what the timer, the session and its watches tell */
void sb_zk_on_timer(uv_timer_t *timer); /* store->due */
void sb_zk_on_session(void *store, enum sb_zk_session_event event);
void sb_zk_on_watch(void *store, const char *path, bool deleted);

#endif
