/*
 * shim_control.c - the shim as the cases see it: sets and ends faults, and puts requests of its own
 * to the backend.
 */
#include "tck/shim.h"

#include "base/alloc.h"
#include "base/text.h"
#include "tck/shim_state.h"

#include <time.h>

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
        sb_shim_note_lease(shim, held->request, &held->reply, held->sent_at_ms);
    }
    pthread_mutex_unlock(&shim->lock);
    if (held == NULL)
        return;
    shim->host->reply(shim->host, held->request, &held->reply);
    sb_free(held);
}

/* Moves a queue out of the shim, so that it can be worked off without the lock. */
static struct simba_request *queue_take(struct request_queue *queue)
{
    struct simba_request *head = queue->head;

    sb_shim_queue_init(queue);
    return head;
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
        sb_shim_answer_refused(shim, batch, SIMBA_ENOMEM);
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
    batch = queue_take(&shim->requests);
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

static struct timespec monotonic_in(int64_t ms)
{
    struct timespec when;

    clock_gettime(CLOCK_MONOTONIC, &when);
    when.tv_sec += (time_t)(ms / 1000) + 1; /* rounded up */
    return when;
}

static bool await_answer(struct sb_shim *shim, struct shim_call *call, int64_t patience_ms)
{
    struct timespec until = monotonic_in(patience_ms);
    int late = 0;

    pthread_mutex_lock(&shim->lock);
    while (!call->answered && late == 0)
        late = pthread_cond_timedwait(&shim->changed, &shim->lock, &until);
    call->abandoned = !call->answered;
    late = call->abandoned; /* the call may be gone once the lock is */
    pthread_mutex_unlock(&shim->lock);
    return late == 0;
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
