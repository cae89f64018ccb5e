/*
 * queue.c - QUEUE: the participants of a mutex behind the first, in their order, by the ids in
 * their nodes.
 */
#include "backend/zookeeper/failure.h"
#include "backend/zookeeper/ops/ops.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define READS_MAX 256 /* at once */
#define UNKNOWN_ID "?"

struct queue;

struct reading {
    struct sb_zk_call call; /* first */
    struct queue *queue;
    size_t index;
};

struct queue {
    struct sb_zk_call call; /* first */
    struct sb_zk_listing listing;
    simba_backend *store;
    char mutex[SIMBA_MUTEX_MAX + 1];
    char **names; /* of all nodes, in order */
    size_t count;
    struct simba_mutex_status *list; /* one for each node; an empty id: it has gone */
    struct reading *readings;        /* as many as may be under way */
    size_t next;                     /* to be read */
    size_t under_way;
    struct simba_error error; /* the first one */
};

/* ---- The end --------------------------------------------------------------------------------- */

static void finish(struct queue *q)
{
    size_t kept = 0;

    for (size_t i = 0; q->list != NULL && i < q->count; i++)
        if (q->list[i].owner.id[0] != '\0')
            q->list[kept++] = q->list[i];
    sb_zk_listing_end(&q->listing, q->list, kept, &q->error);
    sb_zk_free_names(q->names, q->count);
    sb_free(q->readings);
    sb_free(q->list);
    sb_free(q);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_more(struct queue *q, struct reading *reading);

static bool is_complete(const struct queue *q)
{
    return q->next >= q->count || q->error.code != SIMBA_OK || q->listing.request == NULL;
}

static void take_id(struct queue *q, size_t index, const struct sb_zk_call *call)
{
    struct simba_owner *waiter = &q->list[index].owner;

    if (call->code == ZOK)
        sb_text_copy(waiter->id, sizeof waiter->id, call->text);
    else if (call->code == ZNOAUTH)
        sb_text_copy(waiter->id, sizeof waiter->id, UNKNOWN_ID);
    else if (call->code != ZNONODE && q->error.code == SIMBA_OK)
        sb_zk_fail(&q->error, call->code);
}

static void on_read(struct sb_zk_call *call)
{
    struct reading *reading = (struct reading *)call;
    struct queue *q = reading->queue;

    take_id(q, reading->index, call);
    q->under_way--;
    read_more(q, reading);
    if (q->under_way == 0)
        finish(q);
}

/* False where the name is too long for a path: whose it is stays unknown. */
static bool read_next(struct queue *q, struct reading *reading)
{
    char path[SB_ZK_PATH_SIZE];
    size_t index = q->next++;

    if (!sb_zk_node_path(path, q->store->options.base, q->mutex, q->names[index])) {
        sb_text_copy(q->list[index].owner.id, sizeof q->list->owner.id, UNKNOWN_ID);
        return false;
    }
    memset(reading, 0, sizeof *reading);
    reading->queue = q;
    reading->index = index;
    reading->call.done = on_read;
    reading->call.session = &q->store->session;
    q->under_way++;
    sb_zk_get(&reading->call, path, false);
    return true;
}

static void read_more(struct queue *q, struct reading *reading)
{
    while (!is_complete(q) && !read_next(q, reading))
        continue;
}

/* The first one is the leader's. Calls end on a later turn of the loop. */
static void read_all(struct queue *q)
{
    size_t most = q->count < READS_MAX ? q->count : READS_MAX;

    q->list = sb_alloc_zero((q->count + 1) * sizeof *q->list);
    q->readings = sb_alloc_zero((most + 1) * sizeof *q->readings);
    if (q->list == NULL || q->readings == NULL)
        sb_error_plain(&q->error, SIMBA_ENOMEM);
    q->next = 1;
    for (size_t i = 0; i < most; i++)
        read_more(q, &q->readings[i]);
    if (q->under_way == 0)
        finish(q);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    return sb_zk_compare(*(const char *const *)a, *(const char *const *)b);
}

static void on_names(struct sb_zk_call *call)
{
    struct queue *q = (struct queue *)call;

    q->names = call->names;
    q->count = call->count;
    if (q->count > 0)
        qsort(q->names, q->count, sizeof *q->names, compare);
    if (call->code != ZOK && call->code != ZNONODE)
        sb_zk_fail(&q->error, call->code);
    read_all(q);
}

void sb_zk_queue_start(simba_backend *store, struct simba_request *request)
{
    struct queue *q = sb_alloc_zero(sizeof *q);
    char path[SB_ZK_PATH_SIZE];

    if (q == NULL) {
        sb_zk_listing_refuse(store, request);
        return;
    }
    q->store = store;
    sb_zk_listing_begin(&q->listing, store, request);
    sb_text_copy(q->mutex, sizeof q->mutex, request->mutex);
    if (sb_zk_check_mutex(q->mutex, &q->error) != SIMBA_OK) {
        finish(q);
        return;
    }
    q->call.done = on_names;
    q->call.session = &store->session;
    sb_zk_mutex_path(path, store->options.base, q->mutex);
    sb_zk_proof_drop(sb_zk_proof_send(store)); /* first: what is listed is at least as new */
    sb_zk_name_children(&q->call, path);
}
