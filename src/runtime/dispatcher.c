/*
 * dispatcher.c - lanes on a few threads.
 *
 * One lock for all lanes: callbacks are rare beside what they do. A lane is in the queue, or on a thread,
 * or idle; never in two places, which is what keeps its calls in order. With an executor the queue holds the lanes that
 * the executor has and has not begun. A lane with a thread of its own is never in the queue.
 */
#include "runtime/dispatcher.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/thread.h"
#include "runtime/executor.h"
#include "runtime/lane_thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

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
    struct sb_lane_threads lane_threads;
    struct simba_executor executor;
    int most;    /* threads that may run at once */
    int running; /* threads that exist */
    int idle;    /* of those, the ones that wait for a lane */
    int waiting; /* of those, the ones whose callback waits for others */
    int queued;  /* lanes in the queue */
    size_t busy; /* lanes that have calls */
    bool closing;
    _Atomic bool seen;        /* the executor has run a lane */
    _Atomic unsigned handing; /* threads that are giving a lane to the executor */
};

/* The calls that this thread is running: a callback that waits may run others. */
struct frame {
    const struct sb_lane *lane;
    struct frame *outer;
    unsigned forks;
    bool shared; /* on one of the dispatcher's threads */
};

static _Thread_local struct frame *innermost;

static const struct frame *current(void)
{
    return innermost != NULL && innermost->forks == sb_fork_count() ? innermost : NULL;
}

bool sb_dispatcher_is_on(const struct sb_lane *lane)
{
    for (const struct frame *frame = current(); frame != NULL; frame = frame->outer)
        if (frame->lane == lane)
            return true;
    return false;
}

bool sb_dispatcher_is_on_any(void)
{
    return current() != NULL;
}

static bool has_executor(const struct sb_dispatcher *d)
{
    return d->executor.execute != NULL;
}

/* ---- Running -------------------------------------------------------------------------------- */

static void enqueue(struct sb_dispatcher *d, struct sb_lane *lane)
{
    lane->next = NULL;
    lane->previous = d->last;
    if (d->last != NULL)
        d->last->next = lane;
    else
        d->first = lane;
    d->last = lane;
    d->queued++;
}

static void dequeue(struct sb_dispatcher *d, struct sb_lane *lane)
{
    if (lane->previous != NULL)
        lane->previous->next = lane->next;
    else
        d->first = lane->next;
    if (lane->next != NULL)
        lane->next->previous = lane->previous;
    else
        d->last = lane->previous;
    d->queued--;
}

/* Runs the first call of a lane. Returns whether the lane has more; if not, it is out of our hands. */
static bool run_one(struct sb_dispatcher *d, struct sb_lane *lane, bool shared)
{
    struct frame frame = {lane, innermost, sb_fork_count(), shared};
    struct sb_call *call;
    bool more;

    pthread_mutex_lock(&d->lock);
    call = lane->first;
    lane->first = call->next;
    if (lane->first == NULL)
        lane->last = NULL;
    pthread_mutex_unlock(&d->lock);

    innermost = &frame;
    call->run(call);
    innermost = frame.outer;

    pthread_mutex_lock(&d->lock);
    more = lane->first != NULL;
    lane->busy = more;
    d->busy -= more ? 0 : 1;
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
        lane = d->first;
        dequeue(d, lane);
        pthread_mutex_unlock(&d->lock);
        more = run_one(d, lane, true);
        pthread_mutex_lock(&d->lock);
        if (more)
            enqueue(d, lane);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- An executor ---------------------------------------------------------------------------- */

/* Counted, because the lane may run, and all that it belongs to may go, before the executor has returned. */
static void hand_over(struct sb_dispatcher *d, struct sb_lane *lane)
{
    atomic_fetch_add(&d->handing, 1);
    pthread_mutex_lock(&d->lock);
    enqueue(d, lane);
    pthread_mutex_unlock(&d->lock);
    sb_ticket_hand_over(lane->ticket);
    atomic_fetch_sub(&d->handing, 1);
}

static void run_handed_over(struct sb_dispatcher *d, struct sb_lane *lane)
{
    if (run_one(d, lane, false))
        hand_over(d, lane);
}

static void run_on_executor(struct sb_lane *lane)
{
    struct sb_dispatcher *d = lane->dispatcher;

    atomic_store(&d->seen, true);
    pthread_mutex_lock(&d->lock);
    dequeue(d, lane);
    pthread_mutex_unlock(&d->lock);
    run_handed_over(d, lane);
}

bool sb_dispatcher_is_on_executor(const struct sb_dispatcher *d)
{
    return has_executor(d) && sb_executor_has_run_here(&d->executor);
}

bool sb_dispatcher_is_executor_unseen(const struct sb_dispatcher *d)
{
    return has_executor(d) && !atomic_load(&d->seen);
}

static bool may_help(const struct sb_lane *lane, const struct sb_help *help)
{
    return sb_ticket_is_queued(lane->ticket) &&
           (help->matches == NULL || help->matches(lane, help->argument));
}

/* With the lock held. The first lane from `lane` on that may be helped with. */
static struct sb_lane *find_match(struct sb_lane *lane, const struct sb_help *help)
{
    while (lane != NULL && !may_help(lane, help))
        lane = lane->next;
    return lane;
}

bool sb_dispatcher_can_help(struct sb_dispatcher *d, const struct sb_help *help)
{
    bool can;

    pthread_mutex_lock(&d->lock);
    can = find_match(d->first, help) != NULL;
    pthread_mutex_unlock(&d->lock);
    return can;
}

/* A lane that the executor begins at this moment is still in the queue; it is the executor's. */
bool sb_dispatcher_help(struct sb_dispatcher *d, const struct sb_help *help)
{
    struct sb_lane *lane;

    pthread_mutex_lock(&d->lock);
    lane = find_match(d->first, help);
    while (lane != NULL && !sb_ticket_take_back(lane->ticket))
        lane = find_match(lane->next, help);
    if (lane != NULL)
        dequeue(d, lane);
    pthread_mutex_unlock(&d->lock);
    if (lane != NULL)
        run_handed_over(d, lane);
    return lane != NULL;
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
    d->busy += was_idle ? 1 : 0;
    if (was_idle && lane->thread != NULL) {
        sb_lane_thread_give(lane->thread, lane);
    } else if (was_idle && !has_executor(d)) {
        enqueue(d, lane);
        wake_or_add_worker(d);
    }
    pthread_mutex_unlock(&d->lock);
    if (was_idle && has_executor(d))
        hand_over(d, lane);
    return was_idle;
}

struct sb_dispatcher *sb_dispatcher_wait_begin(void)
{
    const struct frame *frame = current();
    struct sb_dispatcher *d = frame != NULL ? frame->lane->dispatcher : NULL;

    if (d == NULL || !frame->shared)
        return NULL;
    pthread_mutex_lock(&d->lock);
    d->waiting++;
    if (d->first != NULL)
        wake_or_add_worker(d);
    pthread_mutex_unlock(&d->lock);
    return d;
}

void sb_dispatcher_wait_end(struct sb_dispatcher *d)
{
    if (d == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    d->waiting--;
    pthread_mutex_unlock(&d->lock);
}

/* ---- Lanes ---------------------------------------------------------------------------------- */

int sb_lane_init(struct sb_lane *lane, struct sb_dispatcher *d, void (*idle)(struct sb_lane *lane))
{
    lane->dispatcher = d;
    lane->idle = idle;
    if (!has_executor(d))
        return SIMBA_OK;
    lane->ticket = sb_ticket_create(lane, run_on_executor, &d->executor);
    return lane->ticket != NULL ? SIMBA_OK : SIMBA_ENOMEM;
}

void sb_lane_end(struct sb_lane *lane)
{
    SB_CHECK(!lane->busy, "a lane is freed when nothing of it runs");
    SB_CHECK(lane->thread == NULL, "a lane is freed when it has no thread of its own");
    sb_ticket_drop(lane->ticket);
}

static bool run_on_lane_thread(struct sb_lane *lane)
{
    return run_one(lane->dispatcher, lane, false);
}

bool sb_lane_begin_thread(struct sb_lane *lane, const char *name)
{
    struct sb_dispatcher *d = lane->dispatcher;
    bool has_one;

    if (has_executor(d))
        return true;
    pthread_mutex_lock(&d->lock);
    if (lane->thread == NULL)
        lane->thread = sb_lane_thread_start(&d->lane_threads, name);
    has_one = lane->thread != NULL;
    pthread_mutex_unlock(&d->lock);
    return has_one;
}

/* Nothing is given to the thread any more once the lane has it no more. */
void sb_lane_end_thread(struct sb_lane *lane)
{
    struct sb_dispatcher *d = lane->dispatcher;
    struct sb_lane_thread *thread;

    pthread_mutex_lock(&d->lock);
    thread = lane->thread;
    lane->thread = NULL;
    pthread_mutex_unlock(&d->lock);
    if (thread != NULL)
        sb_lane_thread_end(thread);
}

bool sb_lane_is_busy(struct sb_lane *lane)
{
    struct sb_dispatcher *d = lane->dispatcher;
    bool busy;

    pthread_mutex_lock(&d->lock);
    busy = lane->busy;
    pthread_mutex_unlock(&d->lock);
    return busy;
}

bool sb_dispatcher_is_busy(struct sb_dispatcher *d)
{
    bool busy;

    pthread_mutex_lock(&d->lock);
    busy = d->busy > 0;
    pthread_mutex_unlock(&d->lock);
    return busy;
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
    sb_lane_threads_init(&d->lane_threads, run_on_lane_thread);
    d->most = threads;
    d->executor = *executor;
    code = has_executor(d) ? SIMBA_OK : add_worker(d);
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
    while (atomic_load(&d->handing) > 0)
        sched_yield();
    sb_lane_threads_destroy(&d->lane_threads);
    pthread_mutex_lock(&d->lock);
    SB_CHECK(d->first == NULL, "a dispatcher is freed when nothing waits in it");
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
