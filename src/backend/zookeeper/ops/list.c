/*
 * list.c - LIST and QUEUE, and their time limits.
 *
 * LIST: the children of the base are the mutexes, and a READ tells about each. QUEUE: the
 * participants of a mutex behind the first, in their order, by the ids in their nodes.
 */
#include "backend/zookeeper/handle/call.h"
#include "backend/zookeeper/ops/ops.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 1000000 /* in the list of all mutexes */
#define READS_MAX 256     /* at once */
#define UNKNOWN_OWNER "?"

/* ---- Time limits ----------------------------------------------------------------------------- */

static void answer(struct sb_zk_listing *i, const struct simba_reply *reply)
{
    const struct simba_backend_host *host = i->store->host;
    struct simba_request *request = i->request;

    i->request = NULL;
    i->deadline_ms = SIMBA_INFINITE;
    if (request != NULL)
        host->reply(host, request, reply);
}

void sb_zk_listing_begin(struct sb_zk_listing *i, simba_backend *store,
                         struct simba_request *request)
{
    i->store = store;
    i->request = request;
    i->deadline_ms = sb_later(simba_now_ms(), request->timeout_ms);
    i->next = store->listings;
    i->link = &store->listings;
    if (i->next != NULL)
        i->next->link = &i->next;
    store->listings = i;
    sb_zk_wake_at(store, i->deadline_ms);
}

void sb_zk_listing_reply(struct sb_zk_listing *i, const struct simba_reply *reply)
{
    *i->link = i->next;
    if (i->next != NULL)
        i->next->link = i->link;
    answer(i, reply);
}

/* Answers with the list, or with the error where it has a code; nothing where the time was over
 * before. */
static void end_listing(struct sb_zk_listing *i, const struct simba_mutex_status *list,
                        size_t count, const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.code = error->code;
    if (reply.code == SIMBA_OK) {
        reply.list = list;
        reply.list_count = count;
    } else {
        reply.error = error;
    }
    sb_zk_listing_reply(i, &reply);
}

/* A caller that is answered may ask again at once; the new request is not due. */
void sb_zk_listings_expire(simba_backend *store, int64_t now_ms)
{
    struct sb_zk_listing *i = store->listings;

    while (i != NULL) {
        struct sb_zk_listing *next = i->next;

        if (i->deadline_ms <= now_ms) {
            struct simba_reply reply = SIMBA_REPLY_INIT;
            struct simba_error error;

            sb_zk_fail(&error, ZOPERATIONTIMEOUT);
            if (i->request != NULL && i->request->op == SIMBA_OP_SET_PROPERTY)
                error.code = SIMBA_EUNKNOWN;
            reply.code = error.code;
            reply.error = &error;
            answer(i, &reply);
        }
        sb_zk_wake_at(store, i->deadline_ms);
        i = next;
    }
}

void sb_zk_listing_refuse(simba_backend *store, struct simba_request *request)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.code = SIMBA_ENOMEM;
    store->host->reply(store->host, request, &reply);
}

/* ---- All mutexes ----------------------------------------------------------------------------- */

struct mutex_list;

struct reading {
    struct simba_request request; /* first: the request is the reading */
    struct mutex_list *owner;
    size_t index;
};

struct mutex_list {
    struct sb_zk_call call; /* first */
    simba_backend *store;
    struct sb_zk_proof *proof; /* that all reads share; NULL: each has its own */
    struct sb_zk_listing listing;
    int64_t deadline_ms; /* of all reads */
    struct simba_mutex_status *list;
    size_t count;
    struct reading *readings; /* as many as may be under way */
    size_t next;              /* to be read */
    size_t under_way;
    size_t denied;
    struct simba_error denial; /* the last one */
    struct simba_error error;  /* the first one of another kind */
};

/* ---- The end --------------------------------------------------------------------------------- */

static void finish(struct mutex_list *l)
{
    if (l->error.code == SIMBA_OK && l->denied > 0 && l->denied == l->count)
        l->error = l->denial;
    end_listing(&l->listing, l->list, l->count, &l->error);
    sb_zk_proof_drop(l->proof);
    sb_free(l->readings);
    sb_free(l->list);
    sb_free(l);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_next(struct mutex_list *l, struct reading *reading);

static void take_status(struct simba_mutex_status *status, const struct simba_reply *reply)
{
    status->waiters = reply->waiters;
    if (reply->owner == NULL || reply->owner[0] == '\0')
        return;
    sb_text_copy(status->owner.id, sizeof status->owner.id, reply->owner);
    status->owner.acquired_at_ms = simba_now_ms();
    status->owner.ttl_at_ms = SIMBA_INFINITE;
    status->owner.transition_at_ms = SIMBA_INFINITE;
    status->owner.fence = reply->fence;
}

/* One mutex that may not be read, or has foreign nodes, must not hide the others. */
static void take_denial(struct mutex_list *l, size_t index, const struct simba_error *error)
{
    l->denied++;
    l->denial = *error;
    sb_text_copy(l->list[index].owner.id, sizeof l->list[index].owner.id, UNKNOWN_OWNER);
    l->list[index].owner.ttl_at_ms = SIMBA_INFINITE;
    l->list[index].owner.transition_at_ms = SIMBA_INFINITE;
}

/* A name that our rules do not allow belongs to a foreign node; it is reported without an owner. */
static void on_read(struct sb_zk_job *job, const struct simba_reply *reply)
{
    struct reading *reading = job->user;
    struct mutex_list *l = reading->owner;

    SB_CHECK(l->under_way > 0, "a read is answered once");
    l->under_way--;
    if (reply->code == SIMBA_OK)
        take_status(&l->list[reading->index], reply);
    else if (reply->code == SIMBA_EDENIED || reply->code == SIMBA_ESTORE)
        take_denial(l, reading->index, reply->error);
    else if (l->error.code == SIMBA_OK)
        l->error = *reply->error;
    if (l->error.code == SIMBA_OK && l->next < l->count)
        read_next(l, reading);
    else if (l->under_way == 0)
        finish(l);
}

/* The list may be gone when it returns. */
static void read_next(struct mutex_list *l, struct reading *reading)
{
    struct sb_zk_proof *batch = l->store->proof;
    simba_backend *store = l->store;
    size_t index = l->next++;

    SB_CHECK(index < l->count, "a mutex that is read is in the list");
    memset(reading, 0, sizeof *reading);
    reading->owner = l;
    reading->index = index;
    reading->request.op = SIMBA_OP_READ;
    reading->request.mutex = l->list[index].mutex;
    reading->request.timeout_ms = sb_time_left(l->deadline_ms, simba_now_ms());
    l->under_way++;
    if (l->proof != NULL)
        store->proof = l->proof;
    sb_zk_request_start(store, &reading->request, on_read, reading);
    store->proof = batch;
}

/* One more counts as under way until all have begun, because reads can end at once. */
static void read_all(struct mutex_list *l)
{
    size_t count = l->count < READS_MAX ? l->count : READS_MAX;

    l->readings = sb_alloc_zero((count + 1) * sizeof *l->readings);
    if (l->readings == NULL) {
        sb_error_plain(&l->error, SIMBA_ENOMEM);
        finish(l);
        return;
    }
    l->under_way = 1;
    for (size_t i = 0; i < count && l->next < l->count && l->error.code == SIMBA_OK; i++)
        read_next(l, &l->readings[i]);
    if (--l->under_way == 0)
        finish(l);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct simba_mutex_status *left = a;
    const struct simba_mutex_status *right = b;

    return strcmp(left->mutex, right->mutex);
}

static void on_names(struct sb_zk_call *call)
{
    struct mutex_list *l = (struct mutex_list *)call;

    if (call->count <= NAMES_MAX)
        l->list = sb_alloc_zero((call->count + 1) * sizeof *l->list);
    if (call->code != ZOK && call->code != ZNONODE)
        sb_zk_fail(&l->error, call->code);
    else if (call->count > NAMES_MAX)
        sb_error_set(&l->error, SIMBA_ESTORE, "the server lists more than %d mutexes", NAMES_MAX);
    else if (l->list == NULL)
        sb_error_plain(&l->error, SIMBA_ENOMEM);
    for (size_t i = 0; i < call->count && l->error.code == SIMBA_OK; i++)
        if (simba_mutex_validate(call->names[i], NULL) == SIMBA_OK)
            sb_text_copy(l->list[l->count++].mutex, sizeof l->list->mutex, call->names[i]);
    if (l->count > 0)
        qsort(l->list, l->count, sizeof *l->list, compare);
    sb_zk_free_names(call->names, call->count);
    if (l->error.code != SIMBA_OK)
        finish(l);
    else
        read_all(l);
}

void sb_zk_list_start(simba_backend *store, struct simba_request *request)
{
    struct mutex_list *l = sb_alloc_zero(sizeof *l);

    if (l == NULL) {
        sb_zk_listing_refuse(store, request);
        return;
    }
    l->store = store;
    sb_zk_listing_begin(&l->listing, store, request);
    l->deadline_ms = l->listing.deadline_ms;
    l->call.done = on_names;
    l->call.session = &store->session;
    l->proof = sb_zk_proof_send(store); /* first: what is listed is at least as new */
    sb_zk_name_children(&l->call, store->options.base);
}

struct queue;

struct node_reading {
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
    struct node_reading *readings;   /* as many as may be under way */
    size_t next;                     /* to be read */
    size_t under_way;
    struct simba_error error; /* the first one */
};

/* ---- The end --------------------------------------------------------------------------------- */

static void finish_queue(struct queue *q)
{
    size_t kept = 0;

    for (size_t i = 0; q->list != NULL && i < q->count; i++)
        if (q->list[i].owner.id[0] != '\0')
            q->list[kept++] = q->list[i];
    end_listing(&q->listing, q->list, kept, &q->error);
    sb_zk_free_names(q->names, q->count);
    sb_free(q->readings);
    sb_free(q->list);
    sb_free(q);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_more_nodes(struct queue *q, struct node_reading *reading);

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
        sb_text_copy(waiter->id, sizeof waiter->id, UNKNOWN_OWNER);
    else if (call->code != ZNONODE && q->error.code == SIMBA_OK)
        sb_zk_fail(&q->error, call->code);
}

static void on_node_read(struct sb_zk_call *call)
{
    struct node_reading *reading = (struct node_reading *)call;
    struct queue *q = reading->queue;

    SB_CHECK(q->under_way > 0, "a read ends once");
    take_id(q, reading->index, call);
    q->under_way--;
    read_more_nodes(q, reading);
    if (q->under_way == 0)
        finish_queue(q);
}

/* False if the name is too long for a path; the owner of that node stays unknown. */
static bool read_node(struct queue *q, struct node_reading *reading)
{
    char path[SB_ZK_PATH_SIZE];
    size_t index = q->next++;

    if (!sb_zk_node_path(path, q->store->options.base, q->mutex, q->names[index])) {
        sb_text_copy(q->list[index].owner.id, sizeof q->list->owner.id, UNKNOWN_OWNER);
        return false;
    }
    memset(reading, 0, sizeof *reading);
    reading->queue = q;
    reading->index = index;
    reading->call.done = on_node_read;
    reading->call.session = &q->store->session;
    q->under_way++;
    sb_zk_get(&reading->call, path, false);
    return true;
}

static void read_more_nodes(struct queue *q, struct node_reading *reading)
{
    while (!is_complete(q) && !read_node(q, reading))
        continue;
}

/* The first one is the leader's. Calls end on a later turn of the loop. */
static void read_nodes(struct queue *q)
{
    size_t most = q->count < READS_MAX ? q->count : READS_MAX;

    q->list = sb_alloc_zero((q->count + 1) * sizeof *q->list);
    q->readings = sb_alloc_zero((most + 1) * sizeof *q->readings);
    if (q->list == NULL || q->readings == NULL)
        sb_error_plain(&q->error, SIMBA_ENOMEM);
    q->next = 1;
    for (size_t i = 0; i < most; i++)
        read_more_nodes(q, &q->readings[i]);
    if (q->under_way == 0)
        finish_queue(q);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int compare_nodes(const void *a, const void *b)
{
    return sb_zk_compare(*(const char *const *)a, *(const char *const *)b);
}

static void on_nodes(struct sb_zk_call *call)
{
    struct queue *q = (struct queue *)call;

    q->names = call->names;
    q->count = call->count;
    if (q->count > 0)
        qsort(q->names, q->count, sizeof *q->names, compare_nodes);
    if (call->code != ZOK && call->code != ZNONODE)
        sb_zk_fail(&q->error, call->code);
    read_nodes(q);
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
        finish_queue(q);
        return;
    }
    q->call.done = on_nodes;
    q->call.session = &store->session;
    sb_zk_mutex_path(path, store->options.base, q->mutex);
    sb_zk_proof_drop(sb_zk_proof_send(store)); /* first: what is listed is at least as new */
    sb_zk_name_children(&q->call, path);
}
