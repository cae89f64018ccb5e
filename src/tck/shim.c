/*
 * shim.c - stands between library and backend: requests pass one way, answers the other, and each
 * is held, refused or let through as the cases have set it. It also sends requests of its own.
 *
 * One lock guards all of a shim. Nothing foreign is called with it held: the backend may answer
 * from within submit, and the library may submit from within a reply.
 */
#include "tck/shim.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What the backend is given in place of the library's host. The host stands first, so that the
 * backend's pointer to it leads back to the shim. */
struct shim_host {
    struct simba_backend_host host;
    struct sb_shim *shim;
};

struct held_reply {
    struct held_reply *next;
    struct simba_request *request;
    struct simba_reply reply; /* its strings stand below */
    struct simba_error error;
    char owner[SIMBA_ID_MAX + 1];
    int64_t sent_at_ms;
};

struct request_queue {
    struct simba_request *head;
    struct simba_request **tail;
};

/* A request of the shim's own. The last user, its waiter or its answer, frees it. */
struct shim_call {
    struct simba_task task; /* first: the task's pointer leads back to the call */
    struct sb_shim *shim;
    struct simba_request request; /* its strings stand below */
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];
    struct sb_shim_answer answer;
    bool answered;
    bool abandoned;
};

struct sb_shim {
    struct simba_backend_ops ops;         /* what the library sees */
    const struct simba_backend_ops *real; /* the backend behind it */
    simba_backend *backend;
    const struct simba_backend_host *host; /* the library's */
    struct shim_host wrapped;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    unsigned hold_requests;
    unsigned hold_replies;
    unsigned refuse;
    int refuse_code;
    struct request_queue requests; /* that wait */
    struct held_reply *replies;    /* that wait, the oldest first */
    unsigned reply_count;
    struct shim_call *call; /* under way */
    int64_t sent_at_ms;     /* of the latest ACQUIRE or GUARD */
    int64_t leased_at_ms;
    bool sessions;
};

/* `open` gets no pointer of ours, so the shim whose client is being opened is found here. */
static pthread_mutex_t opening_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sb_shim *opening;

static struct sb_shim *shim_of(simba_backend *backend)
{
    return (struct sb_shim *)(void *)backend;
}

static struct sb_shim *shim_of_host(const struct simba_backend_host *host)
{
    return ((const struct shim_host *)(const void *)host)->shim;
}

static void queue_init(struct request_queue *queue)
{
    queue->head = NULL;
    queue->tail = &queue->head;
}

static void queue_add(struct request_queue *queue, struct simba_request *request)
{
    request->next = NULL;
    *queue->tail = request;
    queue->tail = &request->next;
}

/* ---- Towards the backend --------------------------------------------------------------------- */

static bool is_lease_op(enum simba_op op)
{
    return op == SIMBA_OP_ACQUIRE || op == SIMBA_OP_GUARD;
}

/* Answers a batch with `code` in place of the backend. Without the lock. */
static void answer_refused(struct sb_shim *shim, struct simba_request *batch, int code)
{
    while (batch != NULL) {
        struct simba_request *next = batch->next;
        struct simba_reply reply = SIMBA_REPLY_INIT;
        struct simba_error error = {0};

        batch->next = NULL;
        reply.code = sb_error_set(&error, code, "the compatibility kit refused the request");
        reply.error = &error;
        shim->host->reply(shim->host, batch, &reply);
        batch = next;
    }
}

static void shim_submit(simba_backend *backend, struct simba_request *batch)
{
    struct sb_shim *shim = shim_of(backend);
    struct request_queue passed;
    struct request_queue refused;

    queue_init(&passed);
    queue_init(&refused);
    pthread_mutex_lock(&shim->lock);
    int code = shim->refuse_code;
    while (batch != NULL) {
        struct simba_request *next = batch->next;
        unsigned set = SB_SHIM_OP(batch->op);

        if (is_lease_op(batch->op))
            shim->sent_at_ms = simba_now_ms();
        if ((shim->refuse & set) != 0)
            queue_add(&refused, batch);
        else if ((shim->hold_requests & set) != 0)
            queue_add(&shim->requests, batch);
        else
            queue_add(&passed, batch);
        batch = next;
    }
    pthread_mutex_unlock(&shim->lock);
    answer_refused(shim, refused.head, code);
    if (passed.head != NULL)
        shim->real->submit(shim->backend, passed.head);
}

static void shim_listen(simba_backend *backend, const char *mutex, const char *id, bool on)
{
    struct sb_shim *shim = shim_of(backend);

    shim->real->listen(shim->backend, mutex, id, on);
}

static void shim_close(simba_backend *backend, void (*closed)(void *argument), void *argument)
{
    struct sb_shim *shim = shim_of(backend);

    shim->real->close(shim->backend, closed, argument);
}

static bool shim_serves(const char *scheme)
{
    (void)scheme;
    return true;
}

/* ---- Towards the library --------------------------------------------------------------------- */

static bool makes_owner(const struct simba_request *request, const struct simba_reply *reply)
{
    return is_lease_op(request->op) && reply->code == SIMBA_OK && reply->owner != NULL &&
           strcmp(reply->owner, request->id) == 0;
}

static void note_lease(struct sb_shim *shim, const struct simba_request *request,
                       const struct simba_reply *reply, int64_t sent_at_ms)
{
    int64_t begin_ms = reply->as_of_ms != 0 ? reply->as_of_ms : sent_at_ms;

    if (!makes_owner(request, reply))
        return;
    if (begin_ms > shim->leased_at_ms)
        shim->leased_at_ms = begin_ms;
    if (reply->transition_left_ms == SIMBA_INFINITE)
        shim->sessions = true;
}

static struct held_reply *copy_reply(struct simba_request *request, const struct simba_reply *reply)
{
    struct held_reply *held = sb_alloc_zero(sizeof(*held));

    if (held == NULL)
        return NULL;
    held->request = request;
    held->reply = *reply;
    sb_text_copy(held->owner, sizeof(held->owner), reply->owner != NULL ? reply->owner : "");
    held->reply.owner = held->owner;
    if (reply->error != NULL) {
        held->error = *reply->error;
        held->reply.error = &held->error;
    }
    return held;
}

/* Whether the answer now waits. Out of memory it goes on its way instead. */
static bool hold_reply(struct sb_shim *shim, struct simba_request *request,
                       const struct simba_reply *reply)
{
    struct held_reply **link = &shim->replies;
    struct held_reply *held;

    if ((shim->hold_replies & SB_SHIM_OP(request->op)) == 0)
        return false;
    held = copy_reply(request, reply);
    if (held == NULL)
        return false;
    held->sent_at_ms = shim->sent_at_ms;
    while (*link != NULL)
        link = &(*link)->next;
    *link = held;
    shim->reply_count++;
    return true;
}

static void fill_answer(struct sb_shim_answer *answer, const struct simba_reply *reply)
{
    const char *text = reply->error != NULL ? reply->error->text : simba_strerror(reply->code);

    answer->code = reply->code;
    answer->ttl_left_ms = reply->ttl_left_ms;
    answer->transition_left_ms = reply->transition_left_ms;
    answer->revision = reply->revision;
    answer->missed = reply->missed;
    sb_text_copy(answer->owner, sizeof(answer->owner), reply->owner != NULL ? reply->owner : "");
    sb_text_copy(answer->text, sizeof(answer->text), text);
}

/* With the lock held. Returns a call whose waiter has gone, to be freed without the lock. */
static struct shim_call *end_call(struct shim_call *call, const struct simba_reply *reply)
{
    struct sb_shim *shim = call->shim;

    fill_answer(&call->answer, reply);
    if (reply->transition_left_ms == SIMBA_INFINITE)
        shim->sessions = true;
    call->answered = true;
    shim->call = NULL;
    pthread_cond_broadcast(&shim->changed);
    return call->abandoned ? call : NULL;
}

static void wrapped_reply(const struct simba_backend_host *host, struct simba_request *request,
                          const struct simba_reply *reply)
{
    struct sb_shim *shim = shim_of_host(host);
    struct shim_call *ended = NULL;
    bool kept = true;

    pthread_mutex_lock(&shim->lock);
    if (shim->call != NULL && request == &shim->call->request) {
        ended = end_call(shim->call, reply);
    } else if (!hold_reply(shim, request, reply)) {
        note_lease(shim, request, reply, shim->sent_at_ms);
        kept = false;
    }
    pthread_mutex_unlock(&shim->lock);
    sb_free(ended);
    if (!kept)
        shim->host->reply(shim->host, request, reply);
}

static void wrapped_notice(const struct simba_backend_host *host, enum simba_notice notice,
                           const char *mutex, const char *id)
{
    const struct simba_backend_host *real = shim_of_host(host)->host;

    real->notice(real, notice, mutex, id);
}

static void wrapped_session_lost(const struct simba_backend_host *host, const char *mutex)
{
    const struct simba_backend_host *real = shim_of_host(host)->host;

    real->session_lost(real, mutex);
}

static void wrapped_post(const struct simba_backend_host *host, struct simba_task *task)
{
    const struct simba_backend_host *real = shim_of_host(host)->host;

    real->post(real, task);
}

static void wrapped_log(const struct simba_backend_host *host, enum simba_log_level level,
                        const char *format, ...)
{
    const struct simba_backend_host *real = shim_of_host(host)->host;
    char line[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    real->log(real, level, "%s", line);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void wrap_host(struct sb_shim *shim, const struct simba_backend_host *host)
{
    shim->host = host;
    shim->wrapped.shim = shim;
    shim->wrapped.host = *host; /* the loop and whatever a later version adds */
    shim->wrapped.host.reply = wrapped_reply;
    shim->wrapped.host.notice = wrapped_notice;
    shim->wrapped.host.session_lost = wrapped_session_lost;
    shim->wrapped.host.post = wrapped_post;
    shim->wrapped.host.log = wrapped_log;
}

static int shim_open(const struct simba_backend_config *config,
                     const struct simba_backend_host *host, simba_backend **ret_backend,
                     struct simba_error *error)
{
    struct sb_shim *shim = opening;
    int code;

    wrap_host(shim, host);
    code = shim->real->open(config, &shim->wrapped.host, &shim->backend, error);
    if (code == SIMBA_OK)
        *ret_backend = (simba_backend *)(void *)shim;
    return code;
}

static const struct simba_backend_ops *find_backend(const char *url)
{
    char scheme[32];
    size_t length = strcspn(url, ":");

    if (length >= sizeof(scheme))
        return NULL;
    memcpy(scheme, url, length);
    scheme[length] = '\0';
    return simba_backend_find(scheme);
}

static void init_ops(struct sb_shim *shim)
{
    shim->ops.abi = SIMBA_BACKEND_ABI;
    shim->ops.name = shim->real->name;
    shim->ops.serves = shim_serves;
    shim->ops.open = shim_open;
    shim->ops.submit = shim_submit;
    shim->ops.listen = shim->real->listen != NULL ? shim_listen : NULL;
    shim->ops.close = shim_close;
}

int sb_shim_create(const char *url, const struct simba_backend_ops *backend,
                   struct sb_shim **ret_shim, struct simba_error *error)
{
    const struct simba_backend_ops *real = backend != NULL ? backend : find_backend(url);
    struct sb_shim *shim;

    if (real == NULL)
        return sb_error_set(error, SIMBA_EINVAL, "no backend serves the URL");
    shim = sb_alloc_zero(sizeof(*shim));
    if (shim == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    shim->real = real;
    init_ops(shim);
    queue_init(&shim->requests);
    pthread_mutex_init(&shim->lock, NULL);
    pthread_cond_init(&shim->changed, NULL);
    *ret_shim = shim;
    return SIMBA_OK;
}

int sb_shim_open(struct sb_shim *shim, const char *url, const struct simba_client_options *options,
                 simba_client **ret_client, struct simba_error *error)
{
    struct simba_client_options with_shim = *options;
    int code;

    with_shim.backend = &shim->ops;
    pthread_mutex_lock(&opening_lock);
    opening = shim;
    code = simba_client_open(url, &with_shim, ret_client, error);
    opening = NULL;
    pthread_mutex_unlock(&opening_lock);
    return code;
}

void sb_shim_free(struct sb_shim *shim)
{
    if (shim == NULL || shim->call != NULL)
        return; /* a backend that never answered may still do so: better a leak than a crash */
    pthread_cond_destroy(&shim->changed);
    pthread_mutex_destroy(&shim->lock);
    sb_free(shim);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

void sb_shim_hold_requests(struct sb_shim *shim, unsigned set)
{
    pthread_mutex_lock(&shim->lock);
    shim->hold_requests = set;
    pthread_mutex_unlock(&shim->lock);
}

void sb_shim_hold_replies(struct sb_shim *shim, unsigned set)
{
    pthread_mutex_lock(&shim->lock);
    shim->hold_replies = set;
    pthread_mutex_unlock(&shim->lock);
}

void sb_shim_refuse(struct sb_shim *shim, unsigned set, int code)
{
    pthread_mutex_lock(&shim->lock);
    shim->refuse = set;
    shim->refuse_code = code;
    pthread_mutex_unlock(&shim->lock);
}

void sb_shim_let_go_first(struct sb_shim *shim)
{
    struct held_reply *held;

    pthread_mutex_lock(&shim->lock);
    held = shim->replies;
    if (held != NULL) {
        shim->replies = held->next;
        shim->reply_count--;
        note_lease(shim, held->request, &held->reply, held->sent_at_ms);
    }
    pthread_mutex_unlock(&shim->lock);
    if (held == NULL)
        return;
    shim->host->reply(shim->host, held->request, &held->reply);
    sb_free(held);
}

/* Requests that waited are handed to the backend on the loop thread, as it may expect. */
struct flush {
    struct simba_task task;
    struct sb_shim *shim;
    struct simba_request *batch;
};

static void run_flush(struct simba_task *task)
{
    struct flush *flush = (struct flush *)(void *)task;

    flush->shim->real->submit(flush->shim->backend, flush->batch);
    sb_free(flush);
}

static void let_go_requests(struct sb_shim *shim, struct simba_request *batch)
{
    struct flush *flush;

    if (batch == NULL)
        return;
    flush = sb_alloc_zero(sizeof(*flush));
    if (flush == NULL) {
        answer_refused(shim, batch, SIMBA_ENOMEM);
        return;
    }
    flush->task.run = run_flush;
    flush->shim = shim;
    flush->batch = batch;
    shim->host->post(shim->host, &flush->task);
}

void sb_shim_let_go(struct sb_shim *shim)
{
    struct simba_request *batch;

    if (shim == NULL)
        return;
    pthread_mutex_lock(&shim->lock);
    shim->hold_requests = 0;
    shim->hold_replies = 0;
    shim->refuse = 0;
    batch = shim->requests.head;
    queue_init(&shim->requests);
    pthread_mutex_unlock(&shim->lock);
    let_go_requests(shim, batch);
    while (sb_shim_held_replies(shim) > 0)
        sb_shim_let_go_first(shim);
}

unsigned sb_shim_held_replies(struct sb_shim *shim)
{
    unsigned count;

    pthread_mutex_lock(&shim->lock);
    count = shim->reply_count;
    pthread_mutex_unlock(&shim->lock);
    return count;
}

int64_t sb_shim_leased_at_ms(struct sb_shim *shim)
{
    int64_t at_ms;

    pthread_mutex_lock(&shim->lock);
    at_ms = shim->leased_at_ms;
    pthread_mutex_unlock(&shim->lock);
    return at_ms;
}

bool sb_shim_has_sessions(struct sb_shim *shim)
{
    bool sessions;

    pthread_mutex_lock(&shim->lock);
    sessions = shim->sessions;
    pthread_mutex_unlock(&shim->lock);
    return sessions;
}

/* ---- Requests of its own --------------------------------------------------------------------- */

static void run_call(struct simba_task *task)
{
    struct shim_call *call = (struct shim_call *)(void *)task;

    call->shim->real->submit(call->shim->backend, &call->request);
}

static bool await_answer(struct sb_shim *shim, struct shim_call *call, int64_t patience_ms)
{
    int64_t until_ms = simba_now_ms() + patience_ms;

    pthread_mutex_lock(&shim->lock);
    while (!call->answered && sb_cond_wait(&shim->changed, &shim->lock, until_ms))
        continue;
    bool answered = call->answered; /* the call may be gone once the lock is */
    call->abandoned = !answered;
    pthread_mutex_unlock(&shim->lock);
    return answered;
}

static struct shim_call *create_call(struct sb_shim *shim, const struct simba_request *request)
{
    struct shim_call *call = sb_alloc_zero(sizeof(*call));

    if (call == NULL)
        return NULL;
    call->task.run = run_call;
    call->shim = shim;
    call->request = *request;
    if (request->mutex != NULL) {
        sb_text_copy(call->mutex, sizeof(call->mutex), request->mutex);
        call->request.mutex = call->mutex;
    }
    if (request->id != NULL) {
        sb_text_copy(call->id, sizeof(call->id), request->id);
        call->request.id = call->id;
    }
    return call;
}

int sb_shim_call(struct sb_shim *shim, const struct simba_request *request, int64_t patience_ms,
                 struct sb_shim_answer *ret_answer)
{
    struct shim_call *call = create_call(shim, request);

    if (call == NULL)
        return SIMBA_ENOMEM;
    pthread_mutex_lock(&shim->lock);
    shim->call = call;
    pthread_mutex_unlock(&shim->lock);
    shim->host->post(shim->host, &call->task);
    if (!await_answer(shim, call, patience_ms))
        return SIMBA_ETIMEDOUT;
    *ret_answer = call->answer;
    sb_free(call);
    return SIMBA_OK;
}
