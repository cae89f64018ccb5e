/*
 * dispatcher.c - lanes on a few threads.
 *
 * One lock for all lanes: callbacks are rare beside what they do. A lane is in the queue, or on a thread,
 * or idle; never in two places, which is what keeps its calls in order.
 */
#include "runtime/dispatcher.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"

#include <assert.h>
#include <pthread.h>

struct worker {
    pthread_t thread;
    struct worker *next;
};

struct sb_dispatcher {
    pthread_mutex_t lock;
    pthread_cond_t ready;
    struct sb_lane *first;
    struct sb_lane *last;
    struct worker *workers;
    struct simba_executor executor;
    int most;    /* threads that may run at once */
    int running; /* threads that exist */
    int idle;    /* of those, the ones that wait for a lane */
    int waiting; /* of those, the ones whose callback waits for others */
    int queued;  /* lanes in the queue */
    bool closing;
};

/* The lane whose call this thread is running. */
static _Thread_local struct sb_lane *current;

bool sb_dispatcher_is_on(const struct sb_lane *lane)
{
    return current == lane;
}

bool sb_dispatcher_is_on_any(void)
{
    return current != NULL;
}

/* ---- Running -------------------------------------------------------------------------------- */

static void enqueue(struct sb_dispatcher *d, struct sb_lane *lane)
{
    lane->next = NULL;
    if (d->last != NULL)
        d->last->next = lane;
    else
        d->first = lane;
    d->last = lane;
    d->queued++;
}

static struct sb_lane *dequeue(struct sb_dispatcher *d)
{
    struct sb_lane *lane = d->first;

    d->first = lane->next;
    if (d->first == NULL)
        d->last = NULL;
    d->queued--;
    return lane;
}

/* Runs the first call of a lane. Returns whether the lane has more; if not, it is out of our hands. */
static bool run_one(struct sb_dispatcher *d, struct sb_lane *lane)
{
    struct sb_lane *outer = current;
    struct sb_call *call;
    bool more;

    pthread_mutex_lock(&d->lock);
    call = lane->first;
    lane->first = call->next;
    if (lane->first == NULL)
        lane->last = NULL;
    pthread_mutex_unlock(&d->lock);

    current = lane;
    call->run(call);
    current = outer;

    pthread_mutex_lock(&d->lock);
    more = lane->first != NULL;
    lane->busy = more;
    pthread_mutex_unlock(&d->lock);
    if (!more)
        lane->idle(lane);
    return more;
}

static void *run_worker(void *argument)
{
    struct sb_dispatcher *d = argument;

    pthread_mutex_lock(&d->lock);
    for (;;) {
        struct sb_lane *lane;
        bool more;

        while (d->first == NULL && !d->closing) {
            d->idle++;
            pthread_cond_wait(&d->ready, &d->lock);
            d->idle--;
        }
        if (d->first == NULL)
            break;
        lane = dequeue(d);
        pthread_mutex_unlock(&d->lock);
        more = run_one(d, lane);
        pthread_mutex_lock(&d->lock);
        if (more)
            enqueue(d, lane);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static void run_on_executor(void *argument)
{
    struct sb_lane *lane = argument;
    struct sb_dispatcher *d = lane->dispatcher;

    if (run_one(d, lane))
        d->executor.execute(d->executor.user, run_on_executor, lane);
}

/* ---- Threads -------------------------------------------------------------------------------- */

static int add_worker(struct sb_dispatcher *d)
{
    struct worker *worker = sb_alloc(sizeof *worker);
    int code;

    if (worker == NULL)
        return SIMBA_ENOMEM;
    code = sb_thread_start(&worker->thread, "simba-callback", run_worker, d);
    if (code != 0) {
        sb_free(worker);
        return SIMBA_ENOMEM;
    }
    worker->next = d->workers;
    d->workers = worker;
    d->running++;
    return SIMBA_OK;
}

/* Somebody must take the last lane of the queue. An idle thread that was woken for an earlier lane still
 * counts as idle, hence the comparison. When no thread can be added, one that exists will come to it. */
static void wake_or_add_worker(struct sb_dispatcher *d)
{
    if (d->queued > d->idle && d->running - d->waiting < d->most)
        add_worker(d);
    else
        pthread_cond_signal(&d->ready);
}

bool sb_dispatcher_call(struct sb_lane *lane, struct sb_call *call)
{
    struct sb_dispatcher *d = lane->dispatcher;
    bool was_idle;

    call->next = NULL;
    pthread_mutex_lock(&d->lock);
    if (lane->last != NULL)
        lane->last->next = call;
    else
        lane->first = call;
    lane->last = call;
    was_idle = !lane->busy;
    lane->busy = true;
    if (was_idle && d->executor.execute == NULL) {
        enqueue(d, lane);
        wake_or_add_worker(d);
    }
    pthread_mutex_unlock(&d->lock);
    if (was_idle && d->executor.execute != NULL)
        d->executor.execute(d->executor.user, run_on_executor, lane);
    return was_idle;
}

void sb_dispatcher_wait_begin(struct sb_dispatcher *d)
{
    if (current == NULL || current->dispatcher != d)
        return;
    pthread_mutex_lock(&d->lock);
    d->waiting++;
    if (d->first != NULL)
        wake_or_add_worker(d);
    pthread_mutex_unlock(&d->lock);
}

void sb_dispatcher_wait_end(struct sb_dispatcher *d)
{
    if (current == NULL || current->dispatcher != d)
        return;
    pthread_mutex_lock(&d->lock);
    d->waiting--;
    pthread_mutex_unlock(&d->lock);
}

/* ---- Creation ------------------------------------------------------------------------------- */

int sb_dispatcher_create(int threads, const struct simba_executor *executor,
                         struct sb_dispatcher **ret_dispatcher, struct simba_error *error)
{
    struct sb_dispatcher *d = sb_alloc_zero(sizeof *d);
    int code;

    if (d == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->ready, NULL);
    d->most = threads;
    d->executor = *executor;
    code = d->executor.execute == NULL ? add_worker(d) : SIMBA_OK;
    if (code != SIMBA_OK) {
        sb_dispatcher_destroy(d);
        return sb_error_set(error, code, "cannot start a thread for callbacks");
    }
    *ret_dispatcher = d;
    return SIMBA_OK;
}

void sb_dispatcher_destroy(struct sb_dispatcher *d)
{
    if (d == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    assert(d->first == NULL);
    d->closing = true;
    pthread_cond_broadcast(&d->ready);
    pthread_mutex_unlock(&d->lock);
    while (d->workers != NULL) {
        struct worker *worker = d->workers;

        d->workers = worker->next;
        pthread_join(worker->thread, NULL);
        sb_free(worker);
    }
    pthread_cond_destroy(&d->ready);
    pthread_mutex_destroy(&d->lock);
    sb_free(d);
}
