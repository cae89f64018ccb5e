/*
 * dispatcher.c - strands on a few threads.
 *
 * One lock for all strands: callbacks are rare beside what they do. A strand is in a queue, or on a
 * thread, or idle; never in two places, which is what keeps its calls in order. With an executor
 * the shared queue holds the strands that the executor has and has not begun; where calls are
 * pulled, those that nobody has pulled yet. A thread of one strand has a queue of its own, for that
 * strand.
 */
#include "runtime/dispatcher.h"

#include "base/alloc.h"
#include "base/check.h"
#include "runtime/lock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/text.h"
#include "runtime/executor.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* Strands that wait for a thread. */
struct queue {
    pthread_cond_t ready;
    struct sb_strand *first;
    struct sb_strand *last;
    int length;
    int idle;    /* threads that wait for a strand */
    bool ending; /* its threads end when it is empty */
};

struct sb_worker {
    struct sb_dispatcher *dispatcher;
    struct queue *queue; /* the shared one, or its own */
    struct queue own;
    pthread_t thread;
    struct sb_worker *next;
    bool ended; /* and to be joined */
    char name[SB_THREAD_NAME_SIZE];
};

struct sb_dispatcher {
    pthread_mutex_t lock;
    struct queue shared;
    struct sb_worker *workers;
    struct simba_executor executor;
    struct sb_pull pull;
    void (*idle)(struct sb_strand *strand);
    int most;                 /* threads of the shared queue that may run at once */
    int running;              /* threads of the shared queue */
    int waiting;              /* of those, the ones whose callback waits for others */
    size_t busy;              /* strands that have calls */
    _Atomic bool seen;        /* the executor has run a strand */
    _Atomic unsigned handing; /* threads that are giving a strand to the executor */
};

/* The calls that this thread is running: a callback that waits may run others. */
struct frame {
    const struct sb_strand *strand;
    struct frame *outer;
    unsigned forks;
    bool shared; /* on one of the dispatcher's threads */
};

static _Thread_local struct frame *innermost;

static const struct frame *current(void)
{
    return innermost != NULL && innermost->forks == sb_fork_count() ? innermost : NULL;
}

bool sb_dispatcher_is_on(const struct sb_strand *strand)
{
    for (const struct frame *frame = current(); frame != NULL; frame = frame->outer)
        if (frame->strand == strand)
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

static bool is_pulled(const struct sb_dispatcher *d)
{
    return d->pull.wake != NULL;
}

/* ---- Running --------------------------------------------------------------------------------- */

static void enqueue(struct queue *queue, struct sb_strand *strand)
{
    SB_CHECK(strand->busy && strand->first != NULL, "a strand that waits for a thread has calls");
    SB_CHECK(sb_lock_is_mine(&strand->dispatcher->lock), "strands are queued with the lock held");
    SB_CHECK((queue->first == NULL) == (queue->length == 0), "a queue knows its length");
    strand->next = NULL;
    strand->previous = queue->last;
    if (queue->last != NULL)
        queue->last->next = strand;
    else
        queue->first = strand;
    queue->last = strand;
    queue->length++;
}

static void dequeue(struct queue *queue, struct sb_strand *strand)
{
    SB_CHECK(sb_lock_is_mine(&strand->dispatcher->lock), "strands are queued with the lock held");
    if (strand->previous != NULL)
        strand->previous->next = strand->next;
    else
        queue->first = strand->next;
    if (strand->next != NULL)
        strand->next->previous = strand->previous;
    else
        queue->last = strand->previous;
    SB_CHECK(queue->length > 0, "a strand is taken from the queue that it is in");
    queue->length--;
    SB_CHECK((queue->first == NULL) == (queue->length == 0), "a queue knows its length");
}

/* With the lock held. */
static void append(struct sb_strand *strand, struct sb_call *call)
{
    struct sb_call **end = &strand->first;

    SB_CHECK(sb_lock_is_mine(&strand->dispatcher->lock), "calls are queued with the lock held");
    while (*end != NULL) {
        SB_CHECK(*end != call, "a call waits once");
        end = &(*end)->next;
    }
    call->next = NULL;
    *end = call;
}

/* Runs the first call of a strand. Returns whether the strand has more; if not, it is out of our
 * hands. */
static bool run_one(struct sb_dispatcher *d, struct sb_strand *strand, bool shared)
{
    struct frame frame = {strand, innermost, sb_fork_count(), shared};
    struct sb_call *call;
    bool more;

    sb_lock_take(&d->lock);
    call = strand->first;
    SB_CHECK(strand->busy && call != NULL, "a strand that runs has a call");
    strand->first = call->next;
    sb_lock_release(&d->lock);

    innermost = &frame;
    call->run(call);
    SB_CHECK(innermost == &frame, "calls that a call has run have returned before it");
    innermost = frame.outer;

    sb_lock_take(&d->lock);
    more = strand->first != NULL;
    SB_CHECK(d->busy > 0, "a strand that has run counts as busy");
    strand->busy = more;
    d->busy -= more ? 0 : 1;
    sb_lock_release(&d->lock);
    if (!more)
        d->idle(strand);
    return more;
}

/* ---- An executor, or calls that are pulled --------------------------------------------------- */

/* With the lock held. */
static void offer(struct sb_dispatcher *d, struct sb_strand *strand)
{
    SB_CHECK(is_pulled(d), "a strand is offered where calls are pulled");
    enqueue(&d->shared, strand);
    d->pull.wake(d->pull.user);
}

/* Counted, because the strand may run, and all that it belongs to may go, before the executor has
 * returned. */
static void hand_over(struct sb_dispatcher *d, struct sb_strand *strand)
{
    SB_CHECK(has_executor(d), "a strand is handed over where there is an executor");
    atomic_fetch_add(&d->handing, 1);
    sb_lock_take(&d->lock);
    enqueue(&d->shared, strand);
    sb_lock_release(&d->lock);
    sb_ticket_hand_over(strand->ticket);
    atomic_fetch_sub(&d->handing, 1);
}

static void run_elsewhere(struct sb_dispatcher *d, struct sb_strand *strand)
{
    if (!run_one(d, strand, false))
        return;
    if (has_executor(d)) {
        hand_over(d, strand);
        return;
    }
    sb_lock_take(&d->lock);
    offer(d, strand);
    sb_lock_release(&d->lock);
}

static void run_on_executor(struct sb_strand *strand)
{
    struct sb_dispatcher *d = strand->dispatcher;

    atomic_store(&d->seen, true);
    sb_lock_take(&d->lock);
    dequeue(&d->shared, strand);
    sb_lock_release(&d->lock);
    run_elsewhere(d, strand);
}

bool sb_dispatcher_may_help(const struct sb_dispatcher *d)
{
    return is_pulled(d) || (has_executor(d) && sb_executor_has_run_here(&d->executor));
}

bool sb_dispatcher_is_executor_unseen(const struct sb_dispatcher *d)
{
    return has_executor(d) && !atomic_load(&d->seen);
}

static bool may_help(const struct sb_strand *strand, const struct sb_help *help)
{
    return (!has_executor(strand->dispatcher) || sb_ticket_is_queued(strand->ticket)) &&
           (help->matches == NULL || help->matches(strand, help->argument));
}

/* With the lock held. The first strand from `strand` on that may be helped with. */
static struct sb_strand *find_match(struct sb_strand *strand, const struct sb_help *help)
{
    SB_CHECK(strand == NULL || sb_lock_is_mine(&strand->dispatcher->lock),
             "strands are searched with the lock held");
    while (strand != NULL && !may_help(strand, help))
        strand = strand->next;
    return strand;
}

bool sb_dispatcher_can_help(struct sb_dispatcher *d, const struct sb_help *help)
{
    bool can;

    sb_lock_take(&d->lock);
    can = find_match(d->shared.first, help) != NULL;
    sb_lock_release(&d->lock);
    return can;
}

/* A strand that the executor begins at this moment is still in the queue; it is the executor's. */
bool sb_dispatcher_help(struct sb_dispatcher *d, const struct sb_help *help)
{
    struct sb_strand *strand;

    sb_lock_take(&d->lock);
    strand = find_match(d->shared.first, help);
    while (strand != NULL && has_executor(d) && !sb_ticket_take_back(strand->ticket))
        strand = find_match(strand->next, help);
    if (strand != NULL)
        dequeue(&d->shared, strand);
    sb_lock_release(&d->lock);
    if (strand != NULL)
        run_elsewhere(d, strand);
    return strand != NULL;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *run_worker(void *argument);

/* With the lock held. `name` NULL: a thread of the shared queue. Returns NULL when the system gives
 * no memory or no thread. */
static struct sb_worker *add_worker(struct sb_dispatcher *d, const char *name)
{
    struct sb_worker *w = sb_alloc_zero(sizeof *w);

    SB_CHECK(sb_lock_is_mine(&d->lock), "a thread is added with the lock held");
    SB_CHECK(!has_executor(d) && !is_pulled(d), "the application has the threads");
    if (w == NULL)
        return NULL;
    w->dispatcher = d;
    w->queue = name != NULL ? &w->own : &d->shared;
    sb_text_copy(w->name, sizeof w->name, name != NULL ? name : "simba-callback");
    if (sb_thread_start(&w->thread, w->name, run_worker, w) != 0) {
        sb_free(w);
        return NULL;
    }
    pthread_cond_init(&w->own.ready, NULL);
    w->next = d->workers;
    d->workers = w;
    d->running += name == NULL ? 1 : 0;
    return w;
}

/* NULL is allowed. */
static void join_worker(struct sb_worker *w)
{
    if (w == NULL)
        return;
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->own.ready);
    sb_free(w);
}

/* Some thread must take the last strand of the queue. An idle thread that was woken for an earlier
 * strand still counts as idle, hence the comparison. When no thread can be added, one that exists
 * will come to it. */
static void wake_or_add_worker(struct sb_dispatcher *d)
{
    SB_CHECK(sb_lock_is_mine(&d->lock), "threads are counted with the lock held");
    SB_CHECK(d->running >= d->waiting && d->shared.idle >= 0, "threads are counted in and out");
    if (d->shared.length > d->shared.idle && d->running - d->waiting < d->most)
        add_worker(d, NULL);
    else
        pthread_cond_signal(&d->shared.ready);
}

/* With the lock held, for a strand that has calls and is nowhere. `here`: by a thread of the shared
 * queue, which comes back to it. */
static void place(struct sb_dispatcher *d, struct sb_strand *strand, bool here)
{
    struct sb_worker *w = strand->worker;

    SB_CHECK(sb_lock_is_mine(&d->lock), "strands are queued with the lock held");
    SB_CHECK(!has_executor(d), "an executor is handed its strands");
    if (is_pulled(d)) {
        offer(d, strand);
        return;
    }
    if (w != NULL) {
        SB_CHECK(!w->own.ending, "a strand goes to a thread that stays");
        enqueue(&w->own, strand);
        pthread_cond_signal(&w->own.ready);
        return;
    }
    enqueue(&d->shared, strand);
    if (!here)
        wake_or_add_worker(d);
}

/* With the lock held. A thread that has ended is joined by the next one that ends, or with the
 * dispatcher. */
static struct sb_worker *take_ended(struct sb_dispatcher *d)
{
    struct sb_worker **at = &d->workers;
    struct sb_worker *w;

    SB_CHECK(sb_lock_is_mine(&d->lock), "threads are listed with the lock held");
    while (*at != NULL && !(*at)->ended)
        at = &(*at)->next;
    w = *at;
    if (w != NULL)
        *at = w->next;
    return w;
}

static void *run_worker(void *argument)
{
    struct sb_worker *w = argument;
    struct sb_dispatcher *d = w->dispatcher;
    struct queue *queue = w->queue;
    struct sb_worker *before;

    sb_lock_take(&d->lock);
    for (;;) {
        struct sb_strand *strand;
        bool more;

        while (queue->first == NULL && !queue->ending) {
            queue->idle++;
            pthread_cond_wait(&queue->ready, &d->lock);
            SB_CHECK(queue->idle > 0, "a thread that goes on was idle");
            queue->idle--;
        }
        if (queue->first == NULL)
            break;
        strand = queue->first;
        dequeue(queue, strand);
        sb_lock_release(&d->lock);
        more = run_one(d, strand, queue == &d->shared);
        sb_lock_take(&d->lock);
        if (more)
            place(d, strand, queue == &d->shared);
    }
    before = take_ended(d);
    w->ended = true;
    sb_lock_release(&d->lock);
    join_worker(before);
    return NULL;
}

bool sb_dispatcher_call(struct sb_strand *strand, struct sb_call *call)
{
    struct sb_dispatcher *d = strand->dispatcher;
    bool was_idle;

    SB_CHECK(call->run != NULL, "a call that is queued can run");
    sb_lock_take(&d->lock);
    append(strand, call);
    was_idle = !strand->busy;
    strand->busy = true;
    d->busy += was_idle ? 1 : 0;
    SB_CHECK(!was_idle || strand->first == call, "an idle strand has no call before this one");
    if (was_idle && !has_executor(d))
        place(d, strand, false);
    sb_lock_release(&d->lock);
    if (was_idle && has_executor(d))
        hand_over(d, strand);
    return was_idle;
}

struct sb_dispatcher *sb_dispatcher_wait_begin(void)
{
    const struct frame *frame = current();
    struct sb_dispatcher *d = frame != NULL ? frame->strand->dispatcher : NULL;

    if (d == NULL || !frame->shared)
        return NULL;
    sb_lock_take(&d->lock);
    d->waiting++;
    SB_CHECK(d->waiting <= d->running, "only threads of the dispatcher wait in its callbacks");
    if (d->shared.first != NULL)
        wake_or_add_worker(d);
    sb_lock_release(&d->lock);
    return d;
}

void sb_dispatcher_wait_end(struct sb_dispatcher *d)
{
    if (d == NULL)
        return;
    sb_lock_take(&d->lock);
    SB_CHECK(d->waiting > 0, "a wait that ends has begun");
    d->waiting--;
    sb_lock_release(&d->lock);
}

/* ---- Strands --------------------------------------------------------------------------------- */

int sb_strand_init(struct sb_strand *strand, struct sb_dispatcher *d)
{
    SB_CHECK(!strand->busy && strand->worker == NULL, "a strand is made of zeroed memory");
    strand->dispatcher = d;
    if (!has_executor(d))
        return SIMBA_OK;
    strand->ticket = sb_ticket_create(strand, run_on_executor, &d->executor);
    return strand->ticket != NULL ? SIMBA_OK : SIMBA_ENOMEM;
}

void sb_strand_end(struct sb_strand *strand)
{
    SB_CHECK(!strand->busy, "a strand is freed when nothing of it runs");
    if (has_executor(strand->dispatcher))
        sb_ticket_drop(strand->ticket);
    else
        SB_CHECK(strand->worker == NULL, "a strand is freed when it has no thread of its own");
}

bool sb_strand_begin_thread(struct sb_strand *strand, const char *name)
{
    struct sb_dispatcher *d = strand->dispatcher;
    bool has_one;

    if (has_executor(d) || is_pulled(d))
        return true;
    sb_lock_take(&d->lock);
    if (strand->worker == NULL)
        strand->worker = add_worker(d, name);
    has_one = strand->worker != NULL;
    sb_lock_release(&d->lock);
    return has_one;
}

void sb_strand_end_thread(struct sb_strand *strand)
{
    struct sb_dispatcher *d = strand->dispatcher;

    if (has_executor(d))
        return;
    sb_lock_take(&d->lock);
    if (strand->worker != NULL) {
        SB_CHECK(!strand->worker->own.ending, "a thread of one strand is ended once");
        strand->worker->own.ending = true;
        pthread_cond_signal(&strand->worker->own.ready);
        strand->worker = NULL;
    }
    sb_lock_release(&d->lock);
}

bool sb_strand_is_busy(struct sb_strand *strand)
{
    struct sb_dispatcher *d = strand->dispatcher;
    bool busy;

    sb_lock_take(&d->lock);
    busy = strand->busy;
    SB_CHECK(busy || strand->first == NULL, "a strand that has calls is busy");
    sb_lock_release(&d->lock);
    return busy;
}

bool sb_dispatcher_is_busy(struct sb_dispatcher *d)
{
    bool busy;

    sb_lock_take(&d->lock);
    busy = d->busy > 0;
    SB_CHECK(busy || d->shared.first == NULL, "a strand that waits for a thread is busy");
    sb_lock_release(&d->lock);
    return busy;
}

/* ---- Creation -------------------------------------------------------------------------------- */

int sb_dispatcher_create(int threads, const struct simba_executor *executor,
                         const struct sb_pull *pull, void (*idle)(struct sb_strand *strand),
                         struct sb_dispatcher **ret_dispatcher, struct simba_error *error)
{
    struct sb_dispatcher *d = sb_alloc_zero(sizeof *d);
    bool has_thread;

    if (d == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    sb_lock_init(&d->lock);
    pthread_cond_init(&d->shared.ready, NULL);
    d->most = threads;
    d->executor = *executor;
    d->pull = *pull;
    d->idle = idle;
    SB_CHECK(!has_executor(d) || !is_pulled(d), "calls are pulled, or an executor has them");
    sb_lock_take(&d->lock);
    has_thread = has_executor(d) || is_pulled(d) || add_worker(d, NULL) != NULL;
    sb_lock_release(&d->lock);
    if (!has_thread) {
        sb_dispatcher_destroy(d);
        return sb_error_set(error, SIMBA_ENOMEM, "cannot start a thread for callbacks");
    }
    *ret_dispatcher = d;
    return SIMBA_OK;
}

/* A worker that is out of the list is joined here, and by no other worker. */
static struct sb_worker *take_worker(struct sb_dispatcher *d)
{
    struct sb_worker *w;

    sb_lock_take(&d->lock);
    SB_CHECK(d->shared.ending, "threads are joined when the dispatcher ends");
    w = d->workers;
    if (w != NULL)
        d->workers = w->next;
    sb_lock_release(&d->lock);
    SB_CHECK(w == NULL || w->queue == &d->shared || w->own.ending,
             "a dispatcher is freed when no strand has a thread");
    return w;
}

void sb_dispatcher_destroy(struct sb_dispatcher *d)
{
    struct sb_worker *w;

    if (d == NULL)
        return;
    while (atomic_load(&d->handing) > 0)
        sched_yield();
    sb_lock_take(&d->lock);
    SB_CHECK(d->shared.first == NULL, "a dispatcher is freed when nothing waits in it");
    SB_CHECK(d->busy == 0, "a dispatcher is freed when nothing runs in it");
    d->shared.ending = true;
    pthread_cond_broadcast(&d->shared.ready);
    sb_lock_release(&d->lock);
    while ((w = take_worker(d)) != NULL)
        join_worker(w);
    pthread_cond_destroy(&d->shared.ready);
    pthread_mutex_destroy(&d->lock);
    sb_free(d);
}
