/*
 * inquiry.c - the answers and time limits of LIST and QUEUE.
 */
#include "backend/zookeeper/inquiry.h"

#include "backend/zookeeper/failure.h"

static void answer(struct sb_zk_inquiry *i, const struct simba_reply *reply)
{
    const struct simba_backend_host *host = i->store->host;
    struct simba_request *request = i->request;

    i->request = NULL;
    i->deadline_ms = SIMBA_INFINITE;
    if (request != NULL)
        host->reply(host, request, reply);
}

void sb_zk_inquiry_begin(struct sb_zk_inquiry *i, simba_backend *store,
                         struct simba_request *request)
{
    int64_t now_ms = simba_now_ms();

    i->store = store;
    i->request = request;
    i->deadline_ms = request->timeout_ms < SIMBA_INFINITE - now_ms ? now_ms + request->timeout_ms
                                                                   : SIMBA_INFINITE;
    i->next = store->inquiries;
    i->link = &store->inquiries;
    if (i->next != NULL)
        i->next->link = &i->next;
    store->inquiries = i;
    sb_zk_store_wake_at(store, i->deadline_ms);
}

void sb_zk_inquiry_end(struct sb_zk_inquiry *i, const struct simba_mutex_status *list, size_t count,
                       const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.code = error->code;
    if (reply.code == SIMBA_OK) {
        reply.list = list;
        reply.list_count = count;
    } else {
        reply.error = error;
    }
    *i->link = i->next;
    if (i->next != NULL)
        i->next->link = i->link;
    answer(i, &reply);
}

/* A caller that is answered may ask again at once; the new request is not due. */
void sb_zk_inquiries_expire(simba_backend *store, int64_t now_ms)
{
    struct sb_zk_inquiry *i = store->inquiries;

    while (i != NULL) {
        struct sb_zk_inquiry *next = i->next;

        if (i->deadline_ms <= now_ms) {
            struct simba_reply reply = SIMBA_REPLY_INIT;
            struct simba_error error;

            sb_zk_fail(&error, ZOPERATIONTIMEOUT);
            reply.code = error.code;
            reply.error = &error;
            answer(i, &reply);
        }
        sb_zk_store_wake_at(store, i->deadline_ms);
        i = next;
    }
}

void sb_zk_inquiry_refuse(simba_backend *store, struct simba_request *request)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.code = SIMBA_ENOMEM;
    store->host->reply(store->host, request, &reply);
}
