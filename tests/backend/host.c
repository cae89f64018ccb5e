/*
 * host.c - the smallest host that a backend can live in.
 */
#include "host.h"

#include "base/url.h"

/* ---- What the backend calls ------------------------------------------------------------------ */

static struct host *host_of(const struct simba_backend_host *base)
{
    return (struct host *)(uintptr_t)base;
}

static void copy_list(struct call *call, const struct simba_reply *reply)
{
    call->list_count = reply->list_count;
    for (size_t i = 0; i < reply->list_count && i < TEST_COUNT(call->list); i++)
        call->list[i] = reply->list[i];
}

static void on_reply(const struct simba_backend_host *base, struct simba_request *request,
                     const struct simba_reply *reply)
{
    struct host *host = host_of(base);
    struct call *call = (struct call *)request;

    pthread_mutex_lock(&host->lock);
    call->code = reply->code;
    snprintf(call->owner, sizeof call->owner, "%s", reply->owner != NULL ? reply->owner : "");
    call->ttl_left_ms = reply->ttl_left_ms;
    call->transition_left_ms = reply->transition_left_ms;
    call->reserved_left_ms = reply->reserved_left_ms;
    call->revision = reply->revision;
    call->missed = reply->missed;
    call->fence = reply->fence;
    call->as_of_ms = reply->as_of_ms;
    call->waiters = reply->waiters;
    call->held_ms = reply->held_ms;
    call->place = reply->place;
    copy_list(call, reply);
    if (reply->error != NULL)
        call->error = *reply->error;
    call->on_loop = pthread_equal(pthread_self(), host->thread) != 0;
    call->answered = true;
    call->answers++;
    pthread_mutex_unlock(&host->lock);
    uv_async_send(&host->signal);
}

static void on_notice(const struct simba_backend_host *base, enum simba_notice notice,
                      const char *mutex, const char *id)
{
    struct host *host = host_of(base);

    pthread_mutex_lock(&host->lock);
    if (host->notice_count < HOST_NOTICES_MAX) {
        struct host_notice *entry = &host->notices[host->notice_count++];

        entry->notice = notice;
        snprintf(entry->mutex, sizeof entry->mutex, "%s", mutex != NULL ? mutex : "");
        snprintf(entry->id, sizeof entry->id, "%s", id != NULL ? id : "");
    }
    pthread_mutex_unlock(&host->lock);
    uv_async_send(&host->signal);
}

static void on_session_lost(const struct simba_backend_host *base, const char *mutex)
{
    (void)base;
    (void)mutex;
}

static void on_post(const struct simba_backend_host *base, struct simba_task *task)
{
    struct host *host = host_of(base);
    struct simba_task **end = &host->tasks;

    pthread_mutex_lock(&host->lock);
    task->next = NULL;
    while (*end != NULL)
        end = &(*end)->next;
    *end = task;
    pthread_mutex_unlock(&host->lock);
    uv_async_send(&host->signal);
}

static void on_log(const struct simba_backend_host *base, enum simba_log_level level,
                   const char *format, ...)
{
    struct host *host = host_of(base);
    va_list arguments;

    (void)level;
    va_start(arguments, format);
    pthread_mutex_lock(&host->lock);
    vsnprintf(host->log, sizeof host->log, format, arguments);
    host->log_count++;
    pthread_mutex_unlock(&host->lock);
    va_end(arguments);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void on_signal(uv_async_t *signal)
{
    struct host *host = signal->data;

    for (;;) {
        struct simba_task *task;

        pthread_mutex_lock(&host->lock);
        task = host->tasks;
        if (task != NULL)
            host->tasks = task->next;
        pthread_mutex_unlock(&host->lock);
        if (task == NULL)
            return;
        task->run(task);
    }
}

static void on_pulse(uv_timer_t *timer)
{
    (void)timer;
}

bool host_run_until(struct host *host, bool (*condition)(void *user), void *user)
{
    int64_t end = test_now_ms() + TEST_PATIENCE_MS;
    bool met = condition(user);

    while (!met && test_now_ms() < end) {
        uv_timer_start(&host->pulse, on_pulse, 5,
                       5); /* a condition that waits itself has stopped it */
        uv_run(&host->loop, UV_RUN_ONCE);
        met = condition(user);
    }
    uv_timer_stop(&host->pulse);
    return met;
}

/* libuv closes descriptors past the C library, so that a thread sanitizer takes their reuse by
 * another thread for a race. One loop at a time comes or goes. */
static pthread_mutex_t loops_lock = PTHREAD_MUTEX_INITIALIZER;

static void start_loop(struct host *host)
{
    memset(host, 0, sizeof *host);
    pthread_mutex_lock(&loops_lock);
    uv_loop_init(&host->loop);
    uv_async_init(&host->loop, &host->signal, on_signal);
    uv_timer_init(&host->loop, &host->pulse);
    pthread_mutex_unlock(&loops_lock);
    host->signal.data = host;
    pthread_mutex_init(&host->lock, NULL);
    host->base.loop = &host->loop;
    host->base.reply = on_reply;
    host->base.notice = on_notice;
    host->base.session_lost = on_session_lost;
    host->base.post = on_post;
    host->base.log = on_log;
}

/* Returns whether nothing but our own handles had been left on it. */
static bool stop_loop(struct host *host)
{
    bool empty;

    uv_close((uv_handle_t *)&host->signal, NULL);
    uv_close((uv_handle_t *)&host->pulse, NULL);
    uv_run(&host->loop, UV_RUN_NOWAIT);
    pthread_mutex_destroy(&host->lock);
    pthread_mutex_lock(&loops_lock);
    empty = uv_loop_close(&host->loop) == 0;
    pthread_mutex_unlock(&loops_lock);
    return empty;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static int open_backend(struct host *host, simba_url *url)
{
    struct simba_backend_config config = {url, HOST_TTL_MS, HOST_TRANSITION_MS};

    host->ops = simba_backend_find(simba_url_scheme(url));
    if (host->ops == NULL)
        return SIMBA_EUNSUPPORTED;
    return host->ops->open(&config, &host->base, &host->backend, &host->open_error);
}

int host_open(struct host *host, const char *url_text)
{
    simba_url *url = NULL;
    int code;

    start_loop(host);
    host->thread = pthread_self();
    code = sb_url_parse(url_text, &url, &host->open_error);
    if (code == SIMBA_OK)
        code = sb_url_resolve(url, &host->open_error);
    if (code == SIMBA_OK)
        code = open_backend(host, url);
    sb_url_free(url);
    if (code != SIMBA_OK && !stop_loop(host))
        return HOST_NO_ANSWER;
    return code;
}

static void on_closed(void *argument)
{
    struct host *host = argument;

    host->closed = true;
}

static bool is_closed(void *user)
{
    const struct host *host = user;

    return host->closed;
}

bool host_close(struct host *host)
{
    host->ops->close(host->backend, on_closed, host);
    return host_run_until(host, is_closed, host) && stop_loop(host);
}

void host_expect_failure(const char *url, int code, const char *sentence)
{
    struct host host;
    int got = host_open(&host, url);

    if (got == SIMBA_OK)
        host_close(&host);
    if (got != code || strstr(host.open_error.text, sentence) == NULL)
        fail_msg("%s: code %d (%s), not %d with '%s'", url, got, host.open_error.text, code,
                 sentence);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

struct call host_call(enum simba_op op, const char *mutex, const char *id, uint64_t revision)
{
    struct call call;

    memset(&call, 0, sizeof call);
    call.request.op = op;
    call.request.mutex = mutex;
    call.request.id = id;
    call.request.revision = revision;
    call.request.fence = op == SIMBA_OP_GUARD ? revision : 0;
    call.request.ttl_ms = HOST_TTL_MS;
    call.request.transition_ms = HOST_TRANSITION_MS;
    call.request.timeout_ms = TEST_PATIENCE_MS / 2;
    call.code = HOST_NO_ANSWER;
    return call;
}

void host_submit(struct host *host, struct call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        calls[i].host = host;
        calls[i].request.next = i + 1 < count ? &calls[i + 1].request : NULL;
    }
    host->ops->submit(host->backend, &calls[0].request);
}

struct waiting {
    struct host *host;
    struct call *calls;
    size_t count;
};

static bool are_answered(void *user)
{
    struct waiting *waiting = user;
    bool all = true;

    pthread_mutex_lock(&waiting->host->lock);
    for (size_t i = 0; i < waiting->count; i++)
        all = all && waiting->calls[i].answered;
    pthread_mutex_unlock(&waiting->host->lock);
    return all;
}

bool host_wait(struct host *host, struct call *calls, size_t count)
{
    struct waiting waiting = {host, calls, count};

    return host_run_until(host, are_answered, &waiting);
}

bool host_is_answered(struct host *host, const struct call *call)
{
    bool answered;

    pthread_mutex_lock(&host->lock);
    answered = call->answered;
    pthread_mutex_unlock(&host->lock);
    return answered;
}

struct call host_do(struct host *host, enum simba_op op, const char *mutex, const char *id,
                    uint64_t revision)
{
    struct call call = host_call(op, mutex, id, revision);

    host_submit(host, &call, 1);
    host_wait(host, &call, 1);
    return call;
}

struct call host_reserve(struct host *host, enum simba_op op, const char *mutex, const char *id,
                         uint64_t revision, int64_t reserve_ms)
{
    struct call call = host_call(op, mutex, id, revision);

    call.request.asks_place = op == SIMBA_OP_ACQUIRE;
    call.request.reserve_ms = reserve_ms;
    host_submit(host, &call, 1);
    host_wait(host, &call, 1);
    return call;
}

int64_t host_place(struct host *host, const char *mutex, const char *id)
{
    struct call call = host_call(SIMBA_OP_ACQUIRE, mutex, id, 0);

    call.request.asks_place = true;
    host_submit(host, &call, 1);
    host_wait(host, &call, 1);
    return call.code == SIMBA_OK ? call.place : -1;
}

/* ---- Notices --------------------------------------------------------------------------------- */

size_t host_notices(struct host *host, enum simba_notice notice, const char *mutex, const char *id)
{
    size_t count = 0;

    pthread_mutex_lock(&host->lock);
    for (size_t i = 0; i < host->notice_count; i++) {
        const struct host_notice *entry = &host->notices[i];

        if (entry->notice == notice && strcmp(entry->mutex, mutex) == 0 &&
            (id == NULL || strcmp(entry->id, id) == 0))
            count++;
    }
    pthread_mutex_unlock(&host->lock);
    return count;
}

void host_forget_notices(struct host *host)
{
    pthread_mutex_lock(&host->lock);
    host->notice_count = 0;
    pthread_mutex_unlock(&host->lock);
}

struct expected {
    struct host *host;
    enum simba_notice notice;
    const char *mutex;
    const char *id;
};

static bool has_come(void *user)
{
    const struct expected *expected = user;

    return host_notices(expected->host, expected->notice, expected->mutex, expected->id) > 0;
}

bool host_wait_notice(struct host *host, enum simba_notice notice, const char *mutex,
                      const char *id)
{
    struct expected expected = {host, notice, mutex, id};

    return host_run_until(host, has_come, &expected);
}

void host_check_longest_name(struct host *host)
{
    char name[SIMBA_MUTEX_MAX + 1];
    struct call held;
    struct call list;
    bool found = false;

    memset(name, 'n', SIMBA_MUTEX_MAX);
    name[SIMBA_MUTEX_MAX] = '\0';
    held = host_do(host, SIMBA_OP_ACQUIRE, name, "a", 0);
    assert_int_equal(held.code, SIMBA_OK);
    assert_string_equal(held.owner, "a");
    assert_string_equal(host_do(host, SIMBA_OP_ACQUIRE, name, "b", 0).owner, "a");
    assert_string_equal(host_do(host, SIMBA_OP_READ, name, NULL, 0).owner, "a");
    list = host_do(host, SIMBA_OP_LIST, NULL, NULL, 0);
    for (size_t i = 0; i < list.list_count; i++)
        found |= strcmp(list.list[i].mutex, name) == 0;
    assert_true(found);
    assert_int_equal(host_do(host, SIMBA_OP_RELEASE, name, "b", 0).code, SIMBA_OK);
    assert_string_equal(host_do(host, SIMBA_OP_RELEASE, name, "a", held.revision).owner, "");
}
