/*
 * list.c - LIST and QUEUE.
 *
 * LIST: SCAN finds the names of the mutexes, node by node, and a READ tells about each. A mutex
 * whose keys the server does not let this client read, or under whose keys is something else, is
 * left out with a warning: it must not hide the others.
 *
 * QUEUE: a READ that tells the waiters, too, the oldest first.
 *
 * The READs pass the stages of all requests, which handle missing scripts, reconnections and nodes
 * that moved. Any client can write the keys, so replies are checked.
 */
#include "backend/redis/ops/ops.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#define SCAN_COUNT "1000"
#define NAMES_MAX 1000000 /* in the list of all mutexes */
#define READS_MAX 256     /* at once */

struct listing;

struct reading {
    struct simba_request request; /* first: the request is the reading */
    struct listing *listing;
    size_t index;
};

struct listing {
    struct sb_redis_command command; /* first: SCAN */
    simba_backend *store;
    struct simba_request *request;
    struct sb_redis_node *node; /* that is being scanned */
    struct simba_request turn;  /* on that node */
    int64_t deadline_ms;
    struct simba_mutex_status *list;
    size_t count;
    size_t capacity;
    struct reading *readings; /* as many as may be under way */
    size_t next;              /* to be read */
    size_t under_way;
    struct simba_error error;            /* the first that ends the listing */
    size_t unreadable;                   /* mutexes that are left out */
    struct simba_error unreadable_error; /* of the first of them */
    char unreadable_mutex[SIMBA_MUTEX_MAX + 1];
};

static void scan_node(struct listing *l);
static void scan(struct listing *l, const char *cursor, size_t length);

/* ---- The end --------------------------------------------------------------------------------- */

static void finish(struct listing *l)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;
    const struct simba_backend_host *host = l->store->host;

    SB_CHECK(l->under_way == 0, "a list ends behind its reads");
    reply.code = l->error.code;
    if (reply.code == SIMBA_OK) {
        reply.list = l->list;
        reply.list_count = l->count;
    } else {
        reply.error = &l->error;
    }
    host->reply(host, l->request, &reply);
    sb_free(l->readings);
    sb_free(l->list);
    sb_free(l);
}

/* Mutexes that are left out have empty names. If none can be read the list fails, because an empty
 * list would be wrong. One warning for all of them. */
static void leave_out_unreadable(struct listing *l)
{
    const struct simba_backend_host *host = l->store->host;
    size_t kept = 0;

    if (l->unreadable == 0 || l->error.code != SIMBA_OK)
        return;
    for (size_t i = 0; i < l->count; i++)
        if (l->list[i].mutex[0] != '\0')
            l->list[kept++] = l->list[i];
    l->count = kept;
    if (kept == 0)
        l->error = l->unreadable_error;
    else if (l->unreadable == 1)
        host->log(host, SIMBA_LOG_WARN, "the mutex '%s' is left out of the list: %s",
                  l->unreadable_mutex, l->unreadable_error.text);
    else
        host->log(host, SIMBA_LOG_WARN, "the mutex '%s' and %zu more are left out of the list: %s",
                  l->unreadable_mutex, l->unreadable - 1, l->unreadable_error.text);
}

static void fail(struct listing *l, const struct simba_error *error)
{
    l->error = *error;
    finish(l);
}

static void fail_memory(struct listing *l)
{
    struct simba_error error;

    sb_error_plain(&error, SIMBA_ENOMEM);
    fail(l, &error);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_more(struct listing *l);

static void take_record(struct listing *l, size_t index, const struct sb_redis_record *record)
{
    struct simba_mutex_status *status = &l->list[index];
    status->waiters = record->waiters;
    if (!record->owned)
        return;
    sb_text_copy(status->owner.id, sizeof status->owner.id, record->owner);
    status->owner.transition_at_ms = sb_later(simba_now_ms(), record->left_ms);
    status->owner.ttl_at_ms = status->owner.transition_at_ms - l->store->options.transition_ms;
    status->owner.fence = record->revision;
    if (record->held_ms >= 0)
        status->since_ms = sb_max(1, sb_later(simba_now_ms(), -record->held_ms));
}

static void note_unreadable(struct listing *l, size_t index, const struct simba_error *error)
{
    char *mutex = l->list[index].mutex;

    if (l->unreadable++ == 0) {
        l->unreadable_error = *error;
        sb_text_copy(l->unreadable_mutex, sizeof l->unreadable_mutex, mutex);
    }
    mutex[0] = '\0';
}

static void on_read(simba_backend *store, struct simba_request *request,
                    const struct sb_redis_record *record, const struct simba_error *error)
{
    struct reading *reading = (struct reading *)request;
    struct listing *l = reading->listing;

    (void)store;
    SB_CHECK(l->under_way > 0, "a read is answered once");
    l->under_way--;
    if (record != NULL)
        take_record(l, reading->index, record);
    else if (error->code == SIMBA_ESTORE || error->code == SIMBA_EDENIED)
        note_unreadable(l, reading->index, error);
    else if (l->error.code == SIMBA_OK)
        l->error = *error;
    if (l->under_way == 0)
        read_more(l);
}

static void read_next(struct listing *l, struct reading *reading)
{
    size_t index = l->next++;

    SB_CHECK(index < l->count, "a mutex that is read is in the list");
    memset(reading, 0, sizeof *reading);
    reading->listing = l;
    reading->index = index;
    reading->request.op = SIMBA_OP_READ;
    reading->request.mutex = l->list[index].mutex;
    reading->request.timeout_ms = sb_time_left(l->deadline_ms, simba_now_ms());
    l->under_way++;
    sb_redis_request_start(l->store, &reading->request, on_read);
}

static bool is_complete(const struct listing *l)
{
    return l->next == l->count || l->error.code != SIMBA_OK;
}

/* As many as may be under way at once, and the next of them when all have ended: they are on all
 * nodes, so that one answer does not tell which connection is to be flushed. One more counts as
 * under way until all have begun, because reads can end at once. */
static void read_more(struct listing *l)
{
    simba_backend *store = l->store;

    while (l->under_way == 0 && !is_complete(l)) {
        l->under_way = 1;
        for (size_t i = 0; i < READS_MAX && !is_complete(l); i++)
            read_next(l, &l->readings[i]);
        l->under_way--;
    }
    if (l->under_way == 0) {
        leave_out_unreadable(l);
        finish(l);
    }
    sb_redis_nodes_flush(&store->nodes);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct simba_mutex_status *left = a;
    const struct simba_mutex_status *right = b;

    return strcmp(left->mutex, right->mutex);
}

/* A mutex has up to four keys, and SCAN may tell a key twice. */
static void sort_names(struct listing *l)
{
    size_t kept = 0;

    if (l->count > 0)
        qsort(l->list, l->count, sizeof *l->list, compare);
    for (size_t i = 0; i < l->count; i++)
        if (kept == 0 || compare(&l->list[kept - 1], &l->list[i]) != 0)
            l->list[kept++] = l->list[i];
    l->count = kept;
}

/* A full list drops the names that it has twice. It must become a tenth shorter: otherwise a server
 * could have it sorted for every key. */
static int make_room(struct listing *l, struct simba_error *error)
{
    size_t capacity = l->capacity > 0 ? l->capacity * 2 : 64;
    struct simba_mutex_status *list;

    if (l->count == NAMES_MAX) {
        sort_names(l);
        return l->count <= NAMES_MAX / 10 * 9
                   ? SIMBA_OK
                   : sb_error_set(error, SIMBA_ESTORE, "the server lists more than %d mutexes",
                                  NAMES_MAX / 10 * 9);
    }
    if (capacity > NAMES_MAX)
        capacity = NAMES_MAX;
    list = sb_realloc(l->list, capacity * sizeof *list);
    if (list == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    l->list = list;
    l->capacity = capacity;
    return SIMBA_OK;
}

static int add_keys(struct listing *l, const redisReply *keys, struct simba_error *error)
{
    char mutex[SIMBA_MUTEX_MAX + 1];

    for (size_t i = 0; i < keys->elements; i++) {
        const redisReply *key = keys->element[i];
        int code;

        if (key->type != REDIS_REPLY_STRING || !sb_redis_key_mutex(key->str, key->len, mutex))
            continue;
        code = l->count == l->capacity ? make_room(l, error) : SIMBA_OK;
        if (code != SIMBA_OK)
            return code;
        memset(&l->list[l->count], 0, sizeof *l->list);
        sb_text_copy(l->list[l->count++].mutex, sizeof l->list->mutex, mutex);
    }
    return SIMBA_OK;
}

/* ---- Scanning -------------------------------------------------------------------------------- */

static void go_on(struct listing *l, const redisReply *cursor)
{
    if (strcmp(cursor->str, "0") != 0) {
        scan(l, cursor->str, cursor->len);
    } else if (l->node->next != NULL) {
        l->node = l->node->next;
        scan_node(l);
    } else {
        sort_names(l);
        l->readings = sb_alloc_zero(READS_MAX * sizeof *l->readings);
        if (l->readings == NULL)
            fail_memory(l);
        else
            read_more(l);
    }
}

static void on_scanned(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct listing *l = (struct listing *)command;
    const redisReply *reply = answer->reply;
    struct simba_error error;

    if (reply == NULL) {
        fail(l, answer->error);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        sb_redis_fail(answer->place, reply->str, &error);
        fail(l, &error);
    } else if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
               reply->element[0]->type != REDIS_REPLY_STRING ||
               reply->element[1]->type != REDIS_REPLY_ARRAY) {
        sb_error_set(&error, SIMBA_ESTORE, "the server sent an invalid reply");
        fail(l, &error);
    } else if (add_keys(l, reply->element[1], &error) != SIMBA_OK) {
        fail(l, &error);
    } else {
        go_on(l, reply->element[0]);
    }
}

static void scan(struct listing *l, const char *cursor, size_t length)
{
    const struct sb_redis_argument arguments[] = {
        {"SCAN", 4},  {cursor, length},
        {"MATCH", 5}, {SB_REDIS_KEY_PATTERN, sizeof SB_REDIS_KEY_PATTERN - 1},
        {"COUNT", 5}, {SCAN_COUNT, sizeof SCAN_COUNT - 1}};
    struct sb_redis_reconnecting *commands = l->node->commands;
    struct simba_error error;

    if (sb_redis_reconnecting_send(commands, &l->command, arguments, 6, &error) != SIMBA_OK)
        fail(l, &error);
    else
        sb_redis_reconnecting_flush(commands);
}

static void on_turn(simba_backend *store, struct simba_request *request,
                    const struct sb_redis_record *record, const struct simba_error *error)
{
    struct listing *l = request->backend_data;

    (void)store;
    (void)record;
    if (error != NULL)
        fail(l, error);
    else
        scan(l, "0", 1);
}

/* It may be the first use of the node. */
static void scan_node(struct listing *l)
{
    l->turn = (struct simba_request){
        .op = SIMBA_OP_LIST,
        .timeout_ms = sb_time_left(l->deadline_ms, simba_now_ms()),
        .backend_data = l,
    };
    sb_redis_request_await_turn(l->node, l->store, &l->turn, on_turn);
}

void sb_redis_list_start(simba_backend *store, struct simba_request *request)
{
    struct listing *l = sb_alloc_zero(sizeof *l);
    struct simba_error error;

    if (l == NULL || store->nodes.first == NULL) {
        sb_free(l);
        sb_error_plain(&error, SIMBA_ENOMEM);
        sb_redis_request_reply(store, request, NULL, &error);
        return;
    }
    l->store = store;
    l->request = request;
    l->node = store->nodes.first;
    l->deadline_ms = sb_later(simba_now_ms(), request->timeout_ms);
    l->command.answered = on_scanned;
    l->command.deadline_ms = l->deadline_ms;
    scan_node(l);
}

/* ---- Waiters --------------------------------------------------------------------------------- */

/* Since when a waiter waits, on our clock; 0 where its score cannot tell. A score is half a second
 * before the time. */
static int64_t read_since(const redisReply *score, int64_t store_us, int64_t now_ms)
{
    double since_s = score->type == REDIS_REPLY_STRING ? strtod(score->str, NULL) + 0.5 : 0;
    double waited_ms = ((double)store_us - since_s * 1e6) / 1e3;

    if (!(since_s >= 1 && waited_ms > -1000 && waited_ms < (double)now_ms))
        return 0;
    return now_ms - sb_max((int64_t)waited_ms, 0);
}

/* The owner may be in its own queue: one of the JVM stays there. */
static size_t read_waiters(const struct sb_redis_record *record, struct simba_mutex_status *list)
{
    const redisReply *waiters = record->queue;
    int64_t now_ms = simba_now_ms();
    size_t count = 0;

    for (size_t i = 0; i + 1 < waiters->elements; i += 2) {
        const redisReply *id = waiters->element[i];
        struct simba_owner *waiter = &list[count].owner;

        if (id->type != REDIS_REPLY_STRING)
            continue;
        sb_text_printable(waiter->id, sizeof waiter->id, id->str, id->len);
        if (sb_redis_record_is_owned_by(record, waiter->id))
            continue;
        waiter->acquired_at_ms = read_since(waiters->element[i + 1], record->since_us, now_ms);
        count++;
    }
    return count;
}

void sb_redis_queue_take(simba_backend *store, struct simba_request *request,
                         const struct sb_redis_record *record, const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct simba_mutex_status *list;
    struct simba_error shortage;

    if (record == NULL) {
        sb_redis_request_reply(store, request, NULL, error);
        return;
    }
    list = sb_alloc_zero((record->queue->elements / 2 + 1) * sizeof *list);
    if (list == NULL) {
        sb_error_plain(&shortage, SIMBA_ENOMEM);
        sb_redis_request_reply(store, request, NULL, &shortage);
        return;
    }
    reply.list = list;
    reply.list_count = read_waiters(record, list);
    store->host->reply(store->host, request, &reply);
    sb_free(list);
}
