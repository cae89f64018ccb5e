/*
 * inquiry.h - a request that asks about more than one node, with its time limit. When that is over it is answered,
 * and what was asked goes on without it until the servers have answered or the connection is gone.
 */
#ifndef SB_BACKEND_ZOOKEEPER_INQUIRY_H
#define SB_BACKEND_ZOOKEEPER_INQUIRY_H

#include "backend/zookeeper/store.h"

struct sb_zk_inquiry {
    struct sb_zk_inquiry *next; /* of the store */
    struct sb_zk_inquiry **link;
    simba_backend *store;
    struct simba_request *request; /* NULL: answered */
    int64_t deadline_ms;
};

void sb_zk_inquiry_begin(struct sb_zk_inquiry *inquiry, simba_backend *store,
                         struct simba_request *request);

/* Answers with the list, or with the error where it has a code; nothing where the time was over before. */
void sb_zk_inquiry_end(struct sb_zk_inquiry *inquiry, const struct simba_mutex_status *list,
                       size_t count, const struct simba_error *error);

/* Answers those whose time is over, and names the next instant to be called at. */
void sb_zk_inquiries_expire(simba_backend *store, int64_t now_ms);

/* A request that nothing could be begun for: no memory. */
void sb_zk_inquiry_refuse(simba_backend *store, struct simba_request *request);

/* list.c, queue.c */
void sb_zk_list_start(simba_backend *store, struct simba_request *request);
void sb_zk_queue_start(simba_backend *store, struct simba_request *request);

#endif
