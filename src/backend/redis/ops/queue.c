/*
 * queue.c - QUEUE: a READ finds the server that the mutex is on, and ZRANGE tells who waits there,
 * the oldest first.
 *
 * The READ goes the way of everybody's requests, so that scripts, reconnections and nodes that
 * moved long ago are no matter of this file; a slot that is on the move just now sends the ZRANGE
 * on. What the set holds comes from outside: anybody can write it.
 */
#include "backend/redis/ops/ops.h"

#include "backend/redis/failure.h"
#include "backend/redis/request/request.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define LAST_PLACE "9999" /* of those that are told */
#define WAYS_MAX 8        /* nodes that one ZRANGE is sent to */

struct queue {
    struct sb_redis_command command; /* first: ZRANGE */
    struct simba_request read;       /* of the mutex */
    simba_backend *store;
    struct simba_request *request;
    struct sb_redis_keys keys;
    unsigned ways; /* so far */
};

/* ---- The end --------------------------------------------------------------------------------- */

static void fail(struct queue *q, const struct simba_error *error)
{
    sb_redis_request_reply(q->store, q->request, NULL, error);
    sb_free(q);
}

/* ---- The set --------------------------------------------------------------------------------- */

static void read_id(const redisReply *text, char id[SIMBA_ID_MAX + 1])
{
    size_t length = text->len < SIMBA_ID_MAX ? text->len : SIMBA_ID_MAX;

    memcpy(id, text->str, length);
    id[length] = '\0';
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)id[i] < 0x20 || id[i] == 0x7f)
            id[i] = '?';
    if (length == 0)
        memcpy(id, "?", 2);
}

static void take_ids(struct queue *q, const redisReply *ids)
{
    struct simba_mutex_status *list = sb_alloc_zero((ids->elements + 1) * sizeof *list);
    const struct simba_backend_host *host = q->store->host;
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct simba_error error;
    size_t count = 0;

    if (list == NULL) {
        sb_error_plain(&error, SIMBA_ENOMEM);
        fail(q, &error);
        return;
    }
    for (size_t i = 0; i < ids->elements; i++)
        if (ids->element[i]->type == REDIS_REPLY_STRING)
            read_id(ids->element[i], list[count++].owner.id);
    reply.list = list;
    reply.list_count = count;
    host->reply(host, q->request, &reply);
    sb_free(list);
    sb_free(q);
}

static void range(struct queue *q, struct sb_redis_node *node, bool asking)
{
    const struct sb_redis_argument arguments[] = {
        {"ZRANGE", 6}, q->keys.arguments[1], {"0", 1}, {LAST_PLACE, sizeof LAST_PLACE - 1}};
    struct simba_error error;
    int code = SIMBA_OK;

    SB_CHECK(q->ways < WAYS_MAX, "the nodes that a ZRANGE is sent to are bounded");
    q->ways++;
    if (asking)
        code = sb_redis_call_send_asking(node, q->command.deadline_ms, &error);
    if (code == SIMBA_OK)
        code = sb_redis_reconnecting_send(node->commands, &q->command, arguments, 4, &error);
    if (code != SIMBA_OK)
        fail(q, &error);
    else
        sb_redis_reconnecting_flush(node->commands);
}

static void take_failure(struct queue *q, const struct sb_redis_answer *answer)
{
    struct sb_redis_cluster *cluster = q->store->nodes.cluster;
    const char *text = answer->reply->str;
    struct sb_redis_node *node = NULL;
    struct simba_error error;
    bool asking = false;

    if (cluster != NULL && sb_redis_is_redirection(text) && q->ways < WAYS_MAX)
        node = sb_redis_cluster_redirect(cluster, text, answer->place, &asking, &error);
    else
        sb_redis_fail(answer->place, text, &error);
    if (node == NULL)
        fail(q, &error);
    else
        range(q, node, asking);
}

static void on_ranged(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct queue *q = (struct queue *)command;
    const redisReply *reply = answer->reply;
    struct simba_error error;

    if (reply == NULL) {
        fail(q, answer->error);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        take_failure(q, answer);
    } else if (reply->type != REDIS_REPLY_ARRAY) {
        sb_error_set(&error, SIMBA_ESTORE, "the server sent a reply that makes no sense");
        fail(q, &error);
    } else {
        take_ids(q, reply);
    }
}

/* ---- The way there --------------------------------------------------------------------------- */

static void on_read(simba_backend *store, struct simba_request *request,
                    const struct sb_redis_record *record, const struct simba_error *error)
{
    struct queue *q = request->backend_data;
    struct simba_error no_route;
    struct sb_redis_node *node;

    if (record == NULL) {
        fail(q, error);
        return;
    }
    node = sb_redis_nodes_route(&store->nodes, q->request->mutex, &no_route);
    if (node == NULL)
        fail(q, &no_route);
    else
        range(q, node, false);
}

void sb_redis_queue_start(simba_backend *store, struct simba_request *request)
{
    struct queue *q = sb_alloc_zero(sizeof *q);
    struct simba_error error;

    if (q == NULL) {
        sb_error_plain(&error, SIMBA_ENOMEM);
        sb_redis_request_reply(store, request, NULL, &error);
        return;
    }
    q->store = store;
    q->request = request;
    q->command.answered = on_ranged;
    q->command.deadline_ms = sb_later(simba_now_ms(), request->timeout_ms);
    sb_redis_keys_make(&q->keys, request->mutex);
    q->read.op = SIMBA_OP_READ;
    q->read.mutex = request->mutex;
    q->read.timeout_ms = request->timeout_ms;
    q->read.backend_data = q;
    sb_redis_request_start(store, &q->read, on_read);
}
