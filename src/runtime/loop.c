/*
 * loop.c - a libuv loop that is run by the thread that owns it.
 *
 * Its own thread never sleeps inside libuv: it gives the loop up first and waits on the descriptor
 * that libuv waits on. So a thread of the application can borrow the loop without waking anybody.
 *
 * Deadlines hang on one timerfd of the suspend-aware clock: libuv's timers stand still while the
 * machine sleeps, and an owner must learn on waking that its lease is over.
 */
#include "runtime/loop.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "base/check.h"
#include "base/error.h"
#include "base/time.h"
#include "runtime/loop_owner.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

#define BATCH_MAX 256 /* tasks between two looks at the clock */
#define ROUNDS_MAX 16 /* of tasks, before the loop looks at its descriptors again */

struct sb_loop {
    uv_loop_t uv;
    uv_async_t inbox_signal;
    uv_poll_t clock_poll;
    uv_prepare_t before_wait;
    uv_check_t after_wait;
    pthread_t thread;
    struct sb_loop_owner owner;
    _Atomic(struct simba_task *) inbox; /* newest first */
    _Atomic unsigned posting;           /* threads inside sb_loop_post */
    struct sb_timers timers;
    _Atomic int64_t armed_for_ms; /* what the timerfd is set to: the first deadline, or before it;
                                     written on the loop thread */
    int clock_fd;
    void (*turn)(void *argument);
    void *argument;
    bool (*borrower_done)(void *argument); /* NULL: there is no borrower */
    void *borrower_argument;
    bool no_sigpipe;
};

/* ---- Inbox ----------------------------------------------------------------------------------- */

void sb_loop_push(struct sb_loop *loop, struct simba_task *task)
{
    struct simba_task *head = atomic_load_explicit(&loop->inbox, memory_order_relaxed);

    SB_CHECK(task->run != NULL && task != head, "a task that is posted can run, and runs once");
    do {
        task->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&loop->inbox, &head, task, memory_order_release,
                                                    memory_order_relaxed));
}

static bool has_tasks(struct sb_loop *loop)
{
    return atomic_load_explicit(&loop->inbox, memory_order_relaxed) != NULL;
}

/* A write, in which a thread could be cancelled: with the lock of its caller, and counted as one
 * that posts. */
static void signal_inbox(struct sb_loop *loop)
{
    int cancel_state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    uv_async_send(&loop->inbox_signal);
    pthread_setcancelstate(cancel_state, NULL);
}

/* The thread that owns the loop empties the inbox before it waits or leaves. */
void sb_loop_wake(struct sb_loop *loop)
{
    if (sb_loop_owner_is_me(&loop->owner))
        return;
    signal_inbox(loop);
    sb_loop_owner_wake(&loop->owner);
}

void sb_loop_wake_for_tasks(struct sb_loop *loop)
{
    if (has_tasks(loop))
        sb_loop_wake(loop);
}

/* Once it is pushed the task may run, and what it does may end the loop: hence the count, which the
 * end waits for. */
void sb_loop_post(struct sb_loop *loop, struct simba_task *task)
{
    atomic_fetch_add(&loop->posting, 1);
    sb_loop_push(loop, task);
    sb_loop_wake(loop);
    atomic_fetch_sub(&loop->posting, 1);
}

static struct simba_task *take_inbox(struct sb_loop *loop)
{
    struct simba_task *newest = atomic_exchange_explicit(&loop->inbox, NULL, memory_order_acquire);
    struct simba_task *oldest = NULL;

    while (newest != NULL) {
        struct simba_task *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

/* ---- Clock ----------------------------------------------------------------------------------- */

/* Moves it forward only: deadlines that are put off with every request cost nothing. Where it goes
 * off too early it is set again. */
void sb_loop_set_clock(struct sb_loop *loop)
{
    const struct sb_timer *first = sb_timers_first(&loop->timers);
    struct itimerspec when = {0};
    int64_t ms;

    if (first == NULL ||
        first->at_ms >= atomic_load_explicit(&loop->armed_for_ms, memory_order_relaxed))
        return;
    SB_CHECK(sb_loop_is_current(loop), "the clock is set on the loop thread");
    atomic_store_explicit(&loop->armed_for_ms, first->at_ms, memory_order_relaxed);
    ms = first->at_ms > 0 ? first->at_ms : 1; /* zero would disarm it */
    when.it_value.tv_sec = ms / 1000;
    when.it_value.tv_nsec = ms % 1000 * 1000000;
    timerfd_settime(loop->clock_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

int64_t sb_loop_late_ms(const struct sb_loop *loop)
{
    int64_t due_ms = atomic_load_explicit(&loop->armed_for_ms, memory_order_relaxed);

    return sb_max(sb_time_between(simba_now_ms(), due_ms), 0);
}

static void fire_timers(struct sb_loop *loop)
{
    int64_t now_ms = simba_now_ms();
    struct sb_timer *timer;

    SB_CHECK(sb_loop_is_current(loop), "timers fire on the loop thread");
    while ((timer = sb_timers_first(&loop->timers)) != NULL && timer->at_ms <= now_ms) {
        sb_timers_cancel(&loop->timers, timer);
        SB_CHECK(!timer->armed, "a timer that fires is not armed any more");
        timer->fire(timer);
    }
}

static void on_clock(uv_poll_t *poll, int status, int events)
{
    struct sb_loop *loop = poll->data;
    uint64_t expirations;

    (void)status;
    (void)events;
    SB_CHECK(sb_loop_is_current(loop), "the clock is read on the loop thread");
    if (read(loop->clock_fd, &expirations, sizeof expirations) < 0 && errno == EAGAIN)
        return;
    atomic_store_explicit(&loop->armed_for_ms, SIMBA_INFINITE, memory_order_relaxed);
    fire_timers(loop);
}

void sb_loop_arm(struct sb_loop *loop, struct sb_timer *timer, int64_t at_ms)
{
    SB_CHECK(sb_loop_is_current(loop), "timers are set on the loop thread");
    if (at_ms == SIMBA_INFINITE)
        sb_timers_cancel(&loop->timers, timer);
    else
        sb_timers_arm(&loop->timers, timer, at_ms);
}

void sb_loop_cancel(struct sb_loop *loop, struct sb_timer *timer)
{
    SB_CHECK(!timer->armed || sb_loop_is_current(loop), "timers are cancelled on the loop thread");
    sb_timers_cancel(&loop->timers, timer);
}

/* ---- Turning --------------------------------------------------------------------------------- */

/* However many tasks there are, timers fire in time: one may end the belief of an owner. */
static void run_tasks(struct sb_loop *loop)
{
    struct simba_task *task = has_tasks(loop) ? take_inbox(loop) : NULL;

    SB_CHECK(task == NULL || sb_loop_is_current(loop), "tasks run on the loop thread");
    for (unsigned count = 1; task != NULL; count++) {
        struct simba_task *next = task->next;

        task->run(task);
        task = next;
        if (count % BATCH_MAX == 0)
            fire_timers(loop);
    }
}

static void on_inbox(uv_async_t *signal)
{
    run_tasks(signal->data);
}

/* What may be done at the end of a round or before one. Tasks lead to requests and requests to
 * tasks. Where this does not end the loop goes round once, without a wait, and then goes on. */
static void catch_up(struct sb_loop *loop)
{
    unsigned rounds = 0;

    SB_CHECK(sb_loop_is_current(loop), "a round ends on the loop thread");
    do {
        run_tasks(loop);
        loop->turn(loop->argument);
    } while (has_tasks(loop) && ++rounds < ROUNDS_MAX);
    if (has_tasks(loop) && !uv_is_closing((const uv_handle_t *)&loop->inbox_signal))
        signal_inbox(loop);
}

static void on_after_wait(uv_check_t *check)
{
    struct sb_loop *loop = check->data;

    SB_CHECK(sb_loop_is_current(loop), "a round ends on the loop thread");
    loop->turn(loop->argument);
}

static void on_before_wait(uv_prepare_t *prepare)
{
    struct sb_loop *loop = prepare->data;

    catch_up(loop);
    sb_loop_set_clock(loop);
    if (loop->borrower_done != NULL && loop->borrower_done(loop->borrower_argument))
        uv_stop(&loop->uv);
}

struct search {
    const uv_prepare_t *own;
    bool found;
};

static void find_preparer(uv_handle_t *handle, void *argument)
{
    struct search *search = argument;

    if (handle->type == UV_PREPARE && handle != (const uv_handle_t *)search->own)
        search->found |= uv_is_active(handle) != 0;
}

/* Somebody wants to be called before the loop waits. */
static bool has_preparer(struct sb_loop *loop)
{
    struct search search = {.own = &loop->before_wait};

    uv_walk(&loop->uv, find_preparer, &search);
    return search.found;
}

/* How long there is nothing to do, as far as we know; -1 for good. */
static int quiet_ms(struct sb_loop *loop)
{
    SB_CHECK(sb_loop_is_current(loop), "the owner asks how long a loop is quiet");
    SB_CHECK(loop->borrower_done == NULL, "the loop's thread waits when nobody borrows the loop");
    catch_up(loop);
    sb_loop_set_clock(loop);
    if (has_preparer(loop))
        return 0;
    uv_update_time(&loop->uv);
    return uv_backend_timeout(&loop->uv);
}

static void *run_thread(void *argument)
{
    struct sb_loop *loop = argument;

    sb_loop_owner_take(&loop->owner);
    while (uv_run(&loop->uv, UV_RUN_NOWAIT) != 0) {
        sb_loop_owner_wait(&loop->owner, quiet_ms(loop));
        sb_loop_owner_take(&loop->owner);
    }
    return NULL;
}

bool sb_loop_join(struct sb_loop *loop)
{
    bool is_borrower = sb_loop_owner_join(&loop->owner);

    SB_CHECK(!is_borrower || sb_loop_is_current(loop), "a borrower owns the loop");
    if (!is_borrower)
        sb_loop_wake_for_tasks(loop);
    return is_borrower;
}

/* The loop's thread is let sleep when the request has left, so that it stands neither before the
 * request nor between the answer and its waiter. */
void sb_loop_turn(struct sb_loop *loop, bool (*done)(void *argument), void *argument)
{
    SB_CHECK(loop->borrower_done == NULL, "a loop has one borrower");
    SB_CHECK(sb_loop_is_current(loop), "a borrower owns the loop that it runs");
    loop->borrower_done = done;
    loop->borrower_argument = argument;
    uv_update_time(&loop->uv);
    catch_up(loop);
    while (!done(argument)) {
        sb_loop_owner_note_use(&loop->owner);
        sb_loop_owner_let_sleep(&loop->owner);
        uv_run(&loop->uv, UV_RUN_ONCE);
        catch_up(loop);
    }
    loop->borrower_done = NULL;
}

/* A thread that posted a task before the borrower was gone has relied on it. */
void sb_loop_leave(struct sb_loop *loop, bool is_borrower)
{
    SB_CHECK(!is_borrower || loop->borrower_done == NULL, "a borrower leaves when it is done");
    sb_loop_owner_leave(&loop->owner, is_borrower);
    if (is_borrower && has_tasks(loop))
        sb_loop_owner_wake(&loop->owner);
}

bool sb_loop_is_current(const struct sb_loop *loop)
{
    return sb_loop_owner_is_me(&loop->owner);
}

bool sb_loop_has_no_sigpipe(const struct sb_loop *loop)
{
    return loop->no_sigpipe;
}

struct uv_loop_s *sb_loop_uv(struct sb_loop *loop)
{
    return &loop->uv;
}

/* ---- Calls that wait ------------------------------------------------------------------------- */

struct call {
    struct simba_task task; /* first: the task is the call */
    void (*function)(void *argument);
    void *argument;
    uv_sem_t done;
};

static void run_call(struct simba_task *task)
{
    struct call *call = (struct call *)task;

    call->function(call->argument);
    uv_sem_post(&call->done);
}

/* The call is on the stack of a thread that must not be cancelled before it has run. */
void sb_loop_call(struct sb_loop *loop, void (*function)(void *argument), void *argument)
{
    struct call call = {.task.run = run_call, .function = function, .argument = argument};
    int cancel_state;

    if (sb_loop_is_current(loop)) {
        function(argument);
        return;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    uv_sem_init(&call.done, 0);
    sb_loop_post(loop, &call.task);
    uv_sem_wait(&call.done);
    uv_sem_destroy(&call.done);
    pthread_setcancelstate(cancel_state, NULL);
}

struct opening {
    struct sb_loop *loop;
    const struct simba_backend_ops *ops;
    const struct simba_backend_config *config;
    struct simba_backend_host *host;
    simba_backend **ret_backend;
    struct simba_error *error;
    int code;
};

static void open_backend(void *argument)
{
    struct opening *o = argument;

    SB_CHECK(sb_loop_is_current(o->loop), "a store is opened on the loop thread");
    o->host->loop = &o->loop->uv;
    o->loop->no_sigpipe = o->ops->no_sigpipe;
    o->code = o->ops->open(o->config, o->host, o->ret_backend, o->error);
    if (o->code != SIMBA_OK && o->error->code == SIMBA_OK)
        sb_error_plain(o->error, o->code);
}

int sb_loop_open_backend(struct sb_loop *loop, const struct simba_backend_ops *ops,
                         const struct simba_backend_config *config, struct simba_backend_host *host,
                         simba_backend **ret_backend, struct simba_error *error)
{
    struct opening opening = {loop, ops, config, host, ret_backend, error, SIMBA_OK};

    sb_loop_call(loop, open_backend, &opening);
    return opening.code;
}

/* ---- Creation -------------------------------------------------------------------------------- */

static int init_handles(struct sb_loop *loop)
{
    int code;

    if ((code = uv_async_init(&loop->uv, &loop->inbox_signal, on_inbox)) < 0)
        return code;
    if ((code = uv_poll_init(&loop->uv, &loop->clock_poll, loop->clock_fd)) < 0) {
        uv_close((uv_handle_t *)&loop->inbox_signal, NULL);
        return code;
    }
    uv_prepare_init(&loop->uv, &loop->before_wait);
    uv_check_init(&loop->uv, &loop->after_wait);
    loop->inbox_signal.data = loop;
    loop->clock_poll.data = loop;
    loop->before_wait.data = loop;
    loop->after_wait.data = loop;
    uv_poll_start(&loop->clock_poll, UV_READABLE, on_clock);
    uv_prepare_start(&loop->before_wait, on_before_wait);
    uv_check_start(&loop->after_wait, on_after_wait);
    return 0;
}

static void close_handles(struct sb_loop *loop)
{
    SB_CHECK(!uv_is_closing((const uv_handle_t *)&loop->inbox_signal), "a loop is ended once");
    uv_close((uv_handle_t *)&loop->inbox_signal, NULL);
    uv_close((uv_handle_t *)&loop->clock_poll, NULL);
    uv_close((uv_handle_t *)&loop->before_wait, NULL);
    uv_close((uv_handle_t *)&loop->after_wait, NULL);
}

static void free_loop(struct sb_loop *loop)
{
    SB_CHECK(loop->borrower_done == NULL, "a loop is freed when nobody borrows it");
    uv_run(&loop->uv, UV_RUN_DEFAULT); /* lets closing handles close */
    uv_loop_close(&loop->uv);
    sb_loop_owner_destroy(&loop->owner);
    close(loop->clock_fd);
    sb_free(loop);
}

#define SPARE_DESCRIPTORS 4 /* its ownership has two; other threads may open some */

/* Where descriptors are short libuv ends the process in its first loop and leaks in later ones, so
 * we find out whether it can have them. Another thread may still take them before libuv does. */
static int init_turning(struct sb_loop *loop)
{
    int code = sb_descriptors_check(SB_DESCRIPTORS_OF_LOOP + SPARE_DESCRIPTORS);

    if (code == 0)
        code = uv_loop_init(&loop->uv);
    if (code == 0 && (code = sb_loop_owner_init(&loop->owner, uv_backend_fd(&loop->uv))) < 0)
        uv_loop_close(&loop->uv);
    return code;
}

int sb_loop_create(void (*turn)(void *argument), void *argument, struct sb_loop **ret_loop,
                   struct simba_error *error)
{
    struct sb_loop *loop = sb_alloc_zero(sizeof *loop);
    int code;

    if (loop == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    loop->turn = turn;
    loop->argument = argument;
    atomic_init(&loop->armed_for_ms, SIMBA_INFINITE);
    loop->clock_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (loop->clock_fd < 0) {
        code = errno;
        sb_free(loop);
        return sb_error_set_backend(error, SIMBA_ENOMEM, code, "cannot create a timer: %s",
                                    strerror(code));
    }
    if ((code = init_turning(loop)) < 0) {
        close(loop->clock_fd);
        sb_free(loop);
        return sb_error_set_backend(error, SIMBA_ENOMEM, code, "cannot create an event loop: %s",
                                    uv_strerror(code));
    }
    code = init_handles(loop);
    if (code == 0 && (code = -sb_thread_start(&loop->thread, "simba-loop", run_thread, loop)) < 0)
        close_handles(loop);
    if (code < 0) {
        free_loop(loop);
        return sb_error_set_backend(error, SIMBA_ENOMEM, code, "cannot start the event loop: %s",
                                    uv_strerror(code));
    }
    *ret_loop = loop;
    return SIMBA_OK;
}

static void stop_loop(struct simba_task *task)
{
    struct call *call = (struct call *)task;
    struct sb_loop *loop = call->argument;

    SB_CHECK(sb_loop_is_current(loop), "a loop is stopped by the thread that runs it");
    while (atomic_load(&loop->posting) > 0)
        sched_yield();
    close_handles(loop);
}

void sb_loop_destroy(struct sb_loop *loop)
{
    struct call last = {.task.run = stop_loop, .argument = loop};

    if (loop == NULL)
        return;
    SB_CHECK(!sb_loop_is_current(loop), "a loop is not freed by the thread that runs it");
    sb_loop_post(loop, &last.task);
    pthread_join(loop->thread, NULL);
    free_loop(loop);
}
