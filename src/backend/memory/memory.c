/*
 * memory.c - the backend `memory:NAME`. Owns the stores of the process and their clients; the
 * records are in store.c.
 *
 * Clients of one store live on different loop threads. An operation collects its notices under the
 * store's lock and sends them after it is unlocked, because a notice runs foreign code. The
 * receiving client counts the threads that are sending, and its close waits for the last of them.
 */
#include "backend/module.h"

#include "backend/memory/store.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/text.h"
#include "base/time.h"

#include <pthread.h>
#include <string.h>

struct store {
    struct store *next;
    unsigned clients; /* guarded by stores_lock */
    char *name;
    pthread_mutex_t lock; /* guards the records and the notifiers of all clients */
    struct sb_memory_records records;
};

struct simba_backend {
    const struct simba_backend_host *host;
    struct store *store;
    unsigned notifiers; /* threads that are about to call a function of the host */
    bool closing;
    void (*closed)(void *argument);
    void *argument;
    struct simba_task last_task;
};

static pthread_mutex_t stores_lock = PTHREAD_MUTEX_INITIALIZER;
static struct store *stores;

/* The stores of the parent are not the child's: their locks may be held, and by threads that it
 * does not have. Nobody there can use or free them. */
static void forget_stores(void)
{
    stores = NULL;
}

static struct sb_fork_guard stores_guard = {.lock = &stores_lock, .in_child = forget_stores};

/* ---- Stores ---------------------------------------------------------------------------------- */

static struct store *create_store(const char *name)
{
    struct store *store = sb_alloc_zero(sizeof *store);

    if (store == NULL)
        return NULL;
    store->name = sb_strdup(name);
    if (store->name == NULL) {
        sb_free(store);
        return NULL;
    }
    pthread_mutex_init(&store->lock, NULL);
    return store;
}

static void destroy_store(struct store *store)
{
    sb_memory_records_free(&store->records);
    pthread_mutex_destroy(&store->lock);
    sb_free(store->name);
    sb_free(store);
}

/* The store of that name, created for its first client; NULL when memory is short. */
static struct store *enter_store(const char *name)
{
    struct store *store;

    sb_fork_guard(&stores_guard);
    pthread_mutex_lock(&stores_lock);
    for (store = stores; store != NULL; store = store->next)
        if (strcmp(store->name, name) == 0)
            break;
    if (store == NULL && (store = create_store(name)) != NULL) {
        store->next = stores;
        stores = store;
    }
    if (store != NULL)
        store->clients++;
    pthread_mutex_unlock(&stores_lock);
    return store;
}

static void leave_store(struct store *store)
{
    struct store **link = &stores;

    pthread_mutex_lock(&stores_lock);
    SB_CHECK(store->clients > 0, "a store is left by its clients");
    if (--store->clients == 0) {
        while (*link != NULL && *link != store)
            link = &(*link)->next;
        SB_CHECK(*link == store, "a store with clients is in the list");
        *link = store->next;
        destroy_store(store);
    }
    pthread_mutex_unlock(&stores_lock);
}

/* ---- Notices, written down under the lock and sent after it ---------------------------------- */

struct notice {
    struct notice *next;
    simba_backend *client;
    enum simba_notice kind;
    bool to_one; /* to `id`, not to all */
    char id[SIMBA_ID_MAX + 1];
};

/* With the store's lock held. A notice is only a hint: where memory is short it is dropped. */
static void add_notice(struct notice **notices, simba_backend *client, enum simba_notice kind,
                       const char *id)
{
    struct notice *notice = sb_alloc_zero(sizeof *notice);

    if (notice == NULL)
        return;
    notice->client = client;
    notice->kind = kind;
    notice->to_one = id != NULL;
    if (id != NULL)
        sb_text_copy(notice->id, sizeof notice->id, id);
    notice->next = *notices;
    *notices = notice;
    client->notifiers++;
}

static void add_change(struct notice **notices, const struct sb_memory_record *record)
{
    for (const struct sb_memory_watcher *watcher = record->watchers; watcher != NULL;
         watcher = watcher->next)
        add_notice(notices, watcher->client, SIMBA_NOTICE_CHANGED, NULL);
}

/* Without the lock. */
static void send_notices(struct store *store, struct notice *notices, const char *mutex)
{
    while (notices != NULL) {
        struct notice *notice = notices;
        simba_backend *client = notice->client;
        bool last;

        client->host->notice(client->host, notice->kind, mutex, notice->to_one ? notice->id : NULL);
        pthread_mutex_lock(&store->lock);
        SB_CHECK(client->notifiers > 0, "a client counts the notices on their way");
        last = --client->notifiers == 0 && client->closing;
        pthread_mutex_unlock(&store->lock);
        if (last)
            client->host->post(client->host, &client->last_task);
        notices = notice->next;
        sb_free(notice);
    }
}

/* ---- Operations, all with the store's lock held ---------------------------------------------- */

static bool is_mine(const struct sb_memory_record *record, const char *id)
{
    return strcmp(record->owner.id, id) == 0;
}

/* A mutex that is free is left to the waiter that it is reserved for. */
static int acquire(simba_backend *client, const struct simba_request *request,
                   struct sb_memory_record **record, int64_t now_ms, struct notice **notices)
{
    struct sb_memory_records *records = &client->store->records;

    *record = sb_memory_ensure(records, request->mutex);
    if (*record == NULL)
        return SIMBA_ENOMEM;
    if (sb_memory_is_owned(*record, now_ms)
            ? !is_mine(*record, request->id)
            : request->reserve_ms > 0 &&
                  sb_memory_reserved_ms(*record, client, request->id, now_ms) > 0) {
        sb_memory_join(*record, client, request->id, now_ms);
        return SIMBA_OK;
    }
    sb_memory_leave(*record, client, request->id);
    sb_memory_grant(records, *record, request, now_ms);
    add_change(notices, *record);
    return SIMBA_OK;
}

static void guard(const struct simba_request *request, struct sb_memory_record *record,
                  int64_t now_ms)
{
    bool its_term = request->fence == 0 || request->fence == record->owner.fence;

    if (its_term && is_mine(record, request->id) && record->owner.transition_at_ms > now_ms)
        sb_memory_renew(record, request, now_ms);
}

/* The waiter behind the one that it is reserved for comes when the reservation is over, and the
 * last one if neither does. */
static void wake_next(const struct simba_request *request, struct sb_memory_record *record,
                      int64_t now_ms, struct notice **notices)
{
    const struct sb_memory_waiter *first = record->waiters;
    const struct sb_memory_waiter *last;

    if (first == NULL)
        return;
    add_notice(notices, first->client, SIMBA_NOTICE_RELEASED, first->id);
    if (request->reserve_ms == 0)
        return;
    sb_memory_reserve(record, sb_later(now_ms, request->reserve_ms));
    if (record->waiters == NULL)
        return;
    add_notice(notices, record->waiters->client, SIMBA_NOTICE_RESERVED, record->waiters->id);
    for (last = record->waiters; last->next != NULL;)
        last = last->next;
    if (last != record->waiters)
        add_notice(notices, last->client, SIMBA_NOTICE_STANDBY, last->id);
}

/* A waiter that gives up while the mutex is free may be the one that was woken, so the next waiter
 * is woken. Returns whether the record was released. */
static bool release(simba_backend *client, const struct simba_request *request,
                    struct sb_memory_record *record, int64_t now_ms, struct notice **notices)
{
    bool hit = request->revision > 0 && is_mine(record, request->id) &&
               record->owner.fence == request->revision;

    sb_memory_leave(record, client, request->id);
    if (hit) {
        sb_memory_clear(record);
        add_change(notices, record);
    }
    if (!sb_memory_is_owned(record, now_ms) && sb_memory_reserved_ms(record, NULL, "", now_ms) == 0)
        wake_next(request, record, now_ms, notices);
    return hit;
}

/* Carries the request out; *ret_record is NULL where the store has no such mutex. */
static int carry_out(simba_backend *client, const struct simba_request *request, int64_t now_ms,
                     struct sb_memory_record **ret_record, bool *ret_missed,
                     struct notice **notices)
{
    struct sb_memory_record *record = sb_memory_find(&client->store->records, request->mutex);
    int code = SIMBA_OK;
    bool released = false;

    if (request->op == SIMBA_OP_ACQUIRE)
        code = acquire(client, request, &record, now_ms, notices);
    else if (request->op == SIMBA_OP_GUARD && record != NULL)
        guard(request, record, now_ms);
    else if (request->op == SIMBA_OP_RELEASE && record != NULL)
        released = release(client, request, record, now_ms, notices);
    *ret_record = record;
    *ret_missed = request->op == SIMBA_OP_RELEASE && request->revision > 0 && !released;
    return code;
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void answer(simba_backend *client, struct simba_request *request)
{
    struct store *store = client->store;
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct simba_owner owner = SIMBA_OWNER_NONE;
    struct sb_memory_record *record = NULL;
    struct notice *notices = NULL;
    int64_t now_ms;

    pthread_mutex_lock(&store->lock);
    now_ms = simba_now_ms();
    reply.code = carry_out(client, request, now_ms, &record, &reply.missed, &notices);
    reply.waiters = 0;
    if (record != NULL) {
        reply.revision = record->owner.fence;
        reply.waiters = (int64_t)sb_memory_waiters(record);
        if (request->asks_place)
            reply.place = sb_memory_place(record, client, request->id);
        if (sb_memory_is_owned(record, now_ms))
            owner = record->owner;
        else if (request->op == SIMBA_OP_ACQUIRE)
            reply.reserved_left_ms = sb_memory_reserved_ms(record, client, request->id, now_ms);
    }
    pthread_mutex_unlock(&store->lock);

    send_notices(store, notices, request->mutex);
    if (owner.id[0] != '\0') {
        reply.owner = owner.id;
        reply.fence = owner.fence;
        reply.ttl_left_ms = owner.ttl_at_ms - now_ms;
        reply.transition_left_ms = owner.transition_at_ms - now_ms;
    }
    client->host->reply(client->host, request, &reply);
}

static void answer_list(simba_backend *client, struct simba_request *request)
{
    struct sb_memory_records *records = &client->store->records;
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct simba_mutex_status *list = NULL;

    pthread_mutex_lock(&client->store->lock);
    if (request->op == SIMBA_OP_LIST)
        reply.code = sb_memory_list(records, simba_now_ms(), &list, &reply.list_count);
    else
        reply.code =
            sb_memory_queue(sb_memory_find(records, request->mutex), &list, &reply.list_count);
    pthread_mutex_unlock(&client->store->lock);
    reply.list = list;
    client->host->reply(client->host, request, &reply);
    sb_free(list);
}

/* With the store's lock held. */
static int write_property(struct sb_memory_records *records, const struct simba_request *request,
                          int64_t now_ms, struct notice **notices)
{
    struct sb_memory_record *record = sb_memory_ensure(records, request->mutex);

    if (record == NULL)
        return SIMBA_ENOMEM;
    if (request->id != NULL &&
        !(sb_memory_is_owned(record, now_ms) && is_mine(record, request->id)))
        return SIMBA_ELOST;
    if (request->id == NULL)
        add_change(notices, record);
    return sb_memory_property_set(record, request->property, request->value, simba_wall_ms(now_ms));
}

static void answer_property(simba_backend *client, struct simba_request *request)
{
    struct sb_memory_records *records = &client->store->records;
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct simba_property property;
    struct notice *notices = NULL;
    int64_t now_ms;

    pthread_mutex_lock(&client->store->lock);
    now_ms = simba_now_ms();
    if (request->op == SIMBA_OP_SET_PROPERTY)
        reply.code = write_property(records, request, now_ms, &notices);
    sb_memory_property_get(sb_memory_find(records, request->mutex), request->property,
                           simba_wall_ms(now_ms), &property);
    pthread_mutex_unlock(&client->store->lock);
    send_notices(client->store, notices, request->mutex);
    reply.property = &property;
    client->host->reply(client->host, request, &reply);
}

/* With the store's lock held. All mutexes have their revisions from one counter. */
static bool tend(struct sb_memory_records *records, const struct simba_request *request,
                 int64_t now_ms)
{
    struct sb_memory_record *record = sb_memory_find(records, request->mutex);
    bool owned = record != NULL && sb_memory_is_owned(record, now_ms);

    if (request->op == SIMBA_OP_RAISE) {
        if (records->revision < request->revision)
            records->revision = request->revision;
        return true;
    }
    if (owned || record == NULL || record->owner.fence != request->revision)
        return false;
    sb_memory_properties_free(record);
    record->owner = (struct simba_owner)SIMBA_OWNER_NONE;
    return true;
}

static void answer_tending(simba_backend *client, struct simba_request *request)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    pthread_mutex_lock(&client->store->lock);
    reply.missed = !tend(&client->store->records, request, simba_now_ms());
    pthread_mutex_unlock(&client->store->lock);
    client->host->reply(client->host, request, &reply);
}

static void submit(simba_backend *client, struct simba_request *batch)
{
    while (batch != NULL) {
        struct simba_request *next = batch->next; /* the request is gone once it is answered */

        if (batch->op == SIMBA_OP_LIST || batch->op == SIMBA_OP_QUEUE)
            answer_list(client, batch);
        else if (batch->op == SIMBA_OP_GET_PROPERTY || batch->op == SIMBA_OP_SET_PROPERTY)
            answer_property(client, batch);
        else if (batch->op == SIMBA_OP_FORGET || batch->op == SIMBA_OP_RAISE)
            answer_tending(client, batch);
        else
            answer(client, batch);
        batch = next;
    }
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static bool serves(const char *scheme)
{
    return strcmp(scheme, "memory") == 0;
}

static void finish_close(struct simba_task *task)
{
    simba_backend *client = SB_CONTAINER(struct simba_backend, last_task, task);
    void (*closed)(void *argument) = client->closed;
    void *argument = client->argument;

    leave_store(client->store);
    sb_free(client);
    closed(argument);
}

static int open_client(const struct simba_backend_config *config,
                       const struct simba_backend_host *host, simba_backend **ret_backend,
                       struct simba_error *error)
{
    simba_backend *client;
    int code = simba_url_check_params(config->url, error);

    if (code != SIMBA_OK)
        return code;
    client = sb_alloc_zero(sizeof *client);
    if (client == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    client->host = host;
    client->last_task.run = finish_close;
    client->store = enter_store(simba_url_path(config->url));
    if (client->store == NULL) {
        sb_free(client);
        return sb_error_plain(error, SIMBA_ENOMEM);
    }
    *ret_backend = client;
    return SIMBA_OK;
}

/* A contender needs no entry: it is in the wait queue from its first lost attempt on. */
static void listen_to(simba_backend *client, const char *mutex, const char *id, bool on)
{
    struct store *store = client->store;
    struct sb_memory_record *record;

    pthread_mutex_lock(&store->lock);
    record = on && id == NULL ? sb_memory_ensure(&store->records, mutex)
                              : sb_memory_find(&store->records, mutex);
    if (record != NULL && id == NULL && on)
        sb_memory_watch(record, client);
    else if (record != NULL && id == NULL)
        sb_memory_unwatch(record, client);
    else if (record != NULL && !on)
        sb_memory_leave(record, client, id);
    pthread_mutex_unlock(&store->lock);
}

static void close_client(simba_backend *client, void (*closed)(void *argument), void *argument)
{
    struct store *store = client->store;
    bool notified;

    client->closed = closed;
    client->argument = argument;
    pthread_mutex_lock(&store->lock);
    sb_memory_forget(&store->records, client);
    client->closing = true;
    notified = client->notifiers > 0;
    pthread_mutex_unlock(&store->lock);
    if (!notified)
        finish_close(&client->last_task);
}

static const struct simba_backend_option options[] = {
    {NULL, SIMBA_OPTION_TEXT, NULL},
};

static const struct simba_backend_ops ops = {
    .abi = SIMBA_BACKEND_ABI,
    .name = "memory",
    .serves = serves,
    .open = open_client,
    .submit = submit,
    .listen = listen_to,
    .close = close_client,
    .options = options,
    .has_queue = true,
    .has_properties = true,
    .can_forget = true,
    .no_sigpipe = true,
};

const struct sb_module sb_module_memory = {SB_MODULE_LIBRARY, &ops, NULL};
