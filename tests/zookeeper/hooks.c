/*
 * hooks.c - the wrapped functions. The definitions here take the place of those in the shared
 * library, which are found behind them.
 */
#include "hooks.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>

struct hooks hooks;

/* ---- Replies that wait ----------------------------------------------------------------------- */

struct creation {
    struct creation *next;
    zhandle_t *handle;
    string_stat_completion_t completion;
    const void *data;
    bool lose;
    int code;
    bool has_result;
    char path[1024];
    struct Stat stat;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct creation *waiting;
static _Thread_local bool makes_handles; /* true on the thread of the backend that does */
static zhandle_t *handle; /* the last one that the backend made; NULL once it is closed */

static void *next_function(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    assert_non_null(function);
    return function;
}

static void deliver(struct creation *c)
{
    if (c->lose)
        c->completion(ZCONNECTIONLOSS, NULL, NULL, c->data);
    else
        c->completion(c->code, c->has_result ? c->path : NULL, c->has_result ? &c->stat : NULL,
                      c->data);
    free(c);
}

static void on_created(int code, const char *path, const struct Stat *stat, const void *data)
{
    struct creation *c = (struct creation *)(uintptr_t)data;

    c->code = code;
    c->has_result = path != NULL && stat != NULL;
    if (c->has_result) {
        snprintf(c->path, sizeof c->path, "%s", path);
        c->stat = *stat;
    }
    if (!atomic_load(&hooks.hold_creates)) {
        deliver(c);
        return;
    }
    pthread_mutex_lock(&lock);
    c->next = waiting;
    waiting = c;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&hooks.held, 1);
}

/* Takes out the first one of a handle; NULL: of any. */
static struct creation *take_waiting(const zhandle_t *of)
{
    struct creation **link = &waiting;
    struct creation *c;

    pthread_mutex_lock(&lock);
    while (*link != NULL && of != NULL && (*link)->handle != of)
        link = &(*link)->next;
    c = *link;
    if (c != NULL)
        *link = c->next;
    pthread_mutex_unlock(&lock);
    return c;
}

static void end_waiting(const zhandle_t *of, bool forget)
{
    struct creation *c;

    while ((c = take_waiting(of)) != NULL)
        if (forget)
            free(c);
        else
            deliver(c);
}

void hooks_let_go(void)
{
    atomic_store(&hooks.hold_creates, false);
    end_waiting(NULL, false);
}

void hooks_reset(void)
{
    hooks_let_go();
    hooks.before_get = NULL;
    hooks.before_close = NULL;
    atomic_store(&hooks.lose_creates, 0);
    atomic_store(&hooks.lose_deletes, 0);
    atomic_store(&hooks.forget_deletes, 0);
    atomic_store(&hooks.forget_lists, 0);
    atomic_store(&hooks.deletes, 0);
    atomic_store(&hooks.syncs, 0);
    atomic_store(&hooks.lists, 0);
    atomic_store(&hooks.held, 0);
    atomic_store(&hooks.forget_held, false);
    atomic_store(&hooks.resolutions, 0);
    atomic_store(&hooks.resolve_ms, 0);
    atomic_store(&hooks.hold_closes, false);
    atomic_store(&hooks.closes_waiting, 0);
}

clientid_t hooks_session(void)
{
    clientid_t id = {0};

    pthread_mutex_lock(&lock);
    if (handle != NULL)
        id = *zoo_client_id(handle);
    pthread_mutex_unlock(&lock);
    return id;
}

static int state_of(zhandle_t *zh)
{
    int (*real)(zhandle_t *);

    *(void **)&real = next_function("zoo_state");
    return real(zh);
}

bool hooks_is_connected(void *unused)
{
    bool connected;

    (void)unused;
    pthread_mutex_lock(&lock);
    connected = handle != NULL && state_of(handle) == ZOO_CONNECTED_STATE;
    pthread_mutex_unlock(&lock);
    return connected;
}

/* Counts down, and says whether there was anything left. */
static bool take(atomic_int *counter)
{
    int left = atomic_load(counter);

    while (left > 0)
        if (atomic_compare_exchange_weak(counter, &left, left - 1))
            return true;
    return false;
}

/* ---- The wrapped functions ------------------------------------------------------------------- */

zhandle_t *zookeeper_init2(const char *host, watcher_fn fn, int recv_timeout,
                           const clientid_t *clientid, void *context, int flags,
                           log_callback_fn log_callback)
{
    zhandle_t *(*real)(const char *, watcher_fn, int, const clientid_t *, void *, int,
                       log_callback_fn);
    zhandle_t *made;

    *(void **)&real = next_function("zookeeper_init2");
    makes_handles = true;
    made = real(host, fn, recv_timeout, clientid, context, flags, log_callback);
    pthread_mutex_lock(&lock);
    handle = made;
    pthread_mutex_unlock(&lock);
    return made;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **result)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    *(void **)&real = next_function("getaddrinfo");
    atomic_fetch_add(&hooks.resolutions, 1);
    if (makes_handles)
        test_pause_ms(atomic_load(&hooks.resolve_ms));
    return real(node, service, hints, result);
}

int zoo_state(zhandle_t *zh)
{
    if (makes_handles && atomic_load(&hooks.hold_closes)) {
        atomic_fetch_add(&hooks.closes_waiting, 1);
        while (atomic_load(&hooks.hold_closes))
            test_pause_ms(1);
    }
    return state_of(zh);
}

int zookeeper_close(zhandle_t *zh)
{
    void (*before)(void) = hooks.before_close;
    int (*real)(zhandle_t *);

    *(void **)&real = next_function("zookeeper_close");
    pthread_mutex_lock(&lock);
    if (handle == zh)
        handle = NULL;
    pthread_mutex_unlock(&lock);
    if (before != NULL)
        before();
    end_waiting(zh, atomic_load(&hooks.forget_held));
    return real(zh);
}

int zoo_acreate2(zhandle_t *zh, const char *path, const char *value, int valuelen,
                 const struct ACL_vector *acl, int mode, string_stat_completion_t completion,
                 const void *data)
{
    int (*real)(zhandle_t *, const char *, const char *, int, const struct ACL_vector *, int,
                string_stat_completion_t, const void *);
    struct creation *c = calloc(1, sizeof *c);

    *(void **)&real = next_function("zoo_acreate2");
    if (mode != ZOO_EPHEMERAL_SEQUENTIAL) {
        free(c);
        return real(zh, path, value, valuelen, acl, mode, completion, data);
    }
    c->handle = zh;
    c->completion = completion;
    c->data = data;
    c->lose = take(&hooks.lose_creates);
    return real(zh, path, value, valuelen, acl, mode, on_created, c);
}

int zoo_awget(zhandle_t *zh, const char *path, watcher_fn watcher, void *context,
              data_completion_t completion, const void *data)
{
    int (*real)(zhandle_t *, const char *, watcher_fn, void *, data_completion_t, const void *);

    *(void **)&real = next_function("zoo_awget");
    if (hooks.before_get != NULL)
        hooks.before_get(path);
    return real(zh, path, watcher, context, completion, data);
}

static void on_forgotten_list(int code, const struct String_vector *strings, const void *data)
{
    (void)code;
    (void)strings;
    (void)data;
}

int zoo_awget_children(zhandle_t *zh, const char *path, watcher_fn watcher, void *context,
                       strings_completion_t completion, const void *data)
{
    int (*real)(zhandle_t *, const char *, watcher_fn, void *, strings_completion_t, const void *);

    *(void **)&real = next_function("zoo_awget_children");
    atomic_fetch_add(&hooks.lists, 1);
    if (take(&hooks.forget_lists))
        return real(zh, path, watcher, context, on_forgotten_list, NULL);
    return real(zh, path, watcher, context, completion, data);
}

int zoo_async(zhandle_t *zh, const char *path, string_completion_t completion, const void *data)
{
    int (*real)(zhandle_t *, const char *, string_completion_t, const void *);

    *(void **)&real = next_function("zoo_async");
    atomic_fetch_add(&hooks.syncs, 1);
    return real(zh, path, completion, data);
}

struct deletion {
    void_completion_t completion;
    const void *data;
};

static void on_nothing(int code, const char *value, const void *data)
{
    struct deletion *d = (struct deletion *)(uintptr_t)data;

    (void)code;
    (void)value;
    d->completion(ZCONNECTIONLOSS, d->data);
    free(d);
}

static void on_forgotten(int code, const void *data)
{
    (void)code;
    (void)data;
}

int zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t completion,
                const void *data)
{
    int (*real)(zhandle_t *, const char *, int, void_completion_t, const void *);
    struct deletion *d;

    *(void **)&real = next_function("zoo_adelete");
    atomic_fetch_add(&hooks.deletes, 1);
    if (take(&hooks.forget_deletes))
        return real(zh, path, version, on_forgotten, NULL);
    if (!take(&hooks.lose_deletes))
        return real(zh, path, version, completion, data);
    d = calloc(1, sizeof *d);
    d->completion = completion;
    d->data = data;
    return zoo_async(zh, "/", on_nothing, d);
}
