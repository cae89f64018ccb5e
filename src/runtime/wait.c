/*
 * wait.c - threads of the application that wait for what happens on a loop: they run the loop where
 * it can be borrowed, and wait on a condition variable elsewhere. Also what is pending on an
 * engine's loop. Must not know services.
 *
 * A thread of the application is not like the loop's own: it takes signals, and it can be
 * cancelled. Neither may end the process or take the loop or a lock away with it. So a cancellation
 * waits for the end of the wait, whichever way the thread waits.
 */
#include "runtime/wait.h"

#include "base/check.h"
#include "base/time.h"
#include "base/error.h"
#include "base/thread.h"
#include "runtime/engine_state.h"

#include <time.h>

void sb_wait_init_cond(pthread_cond_t *changed)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* ---- Waiting for the loop -------------------------------------------------------------------- */

static bool is_late(const struct sb_wait *wait)
{
    return wait->until_ms != SIMBA_INFINITE && simba_now_ms() >= wait->until_ms;
}

static bool is_over(void *argument)
{
    const struct sb_wait *wait = argument;
    bool over;

    pthread_mutex_lock(wait->lock);
    over = wait->done(wait->argument) || is_late(wait);
    pthread_mutex_unlock(wait->lock);
    return over;
}

static void on_limit(struct sb_timer *limit)
{
    (void)limit;
}

/* libuv and client libraries write to sockets without MSG_NOSIGNAL; some stores do not, or have no
 * sockets. Other signals must come through: the thread may be the only one of the process that
 * takes them. */
static void turn_until_over(struct sb_loop *loop, const struct sb_wait *wait)
{
    struct sb_timer limit = {.fire = on_limit}; /* wakes the loop when the time is up */
    bool may_raise = !sb_loop_has_no_sigpipe(loop);
    struct sb_signal_hold hold;

    SB_CHECK(sb_loop_is_current(loop), "a borrower owns the loop that it runs");
    if (may_raise)
        sb_signal_hold(&hold, SIGPIPE);
    sb_loop_arm(loop, &limit, wait->until_ms);
    sb_loop_turn(loop, is_over, (void *)wait);
    sb_loop_cancel(loop, &limit);
    if (may_raise)
        sb_signal_let_go(&hold);
}

/* How long the thread may sleep. */
static int64_t sleep_ms(const struct sb_wait *wait)
{
    int64_t left_ms =
        wait->until_ms != SIMBA_INFINITE ? wait->until_ms - simba_now_ms() : SIMBA_INFINITE;

    return wait->check_ms > 0 && wait->check_ms < left_ms ? wait->check_ms : left_ms;
}

static void sleep_until_over(const struct sb_wait *wait)
{
    pthread_mutex_lock(wait->lock);
    while (!wait->done(wait->argument) && !is_late(wait)) {
        int64_t left_ms = sleep_ms(wait);
        struct timespec until;

        if (left_ms == SIMBA_INFINITE) {
            pthread_cond_wait(wait->changed, wait->lock);
            continue;
        }
        until = sb_clock_deadline(left_ms);
        pthread_cond_timedwait(wait->changed, wait->lock, &until);
    }
    pthread_mutex_unlock(wait->lock);
}

static void wait_until_over(struct sb_loop *loop, const struct sb_wait *wait)
{
    bool is_borrower = sb_loop_join(loop);

    if (is_borrower)
        turn_until_over(loop, wait);
    else
        sleep_until_over(wait);
    sb_loop_leave(loop, is_borrower);
}

/* The loop is joined without the lock, which the thread that owns it may want. What is done can be
 * undone before the lock is held again. */
bool sb_wait(struct sb_loop *loop, const struct sb_wait *wait)
{
    int cancel_state;
    bool done;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    while (!(done = wait->done(wait->argument)) && !is_late(wait)) {
        pthread_mutex_unlock(wait->lock);
        wait_until_over(loop, wait);
        pthread_mutex_lock(wait->lock);
    }
    sb_loop_wake_for_tasks(loop);
    pthread_setcancelstate(cancel_state, NULL);
    return done;
}

/* ---- The process ----------------------------------------------------------------------------- */

int sb_engine_check_process(const struct sb_engine *engine, struct simba_error *error)
{
    if (engine->forks == sb_fork_count())
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EFORKED,
                        "the handle was made before fork() and belongs to the parent process");
}

/* ---- What is pending ------------------------------------------------------------------------- */

void sb_engine_pending_add(struct sb_engine *engine)
{
    sb_lock_take(&engine->lock);
    engine->pending++;
    sb_lock_release(&engine->lock);
}

/* The loop is woken under the lock: the thread that waits for this may free it. */
void sb_engine_pending_remove(struct sb_engine *engine)
{
    sb_lock_take(&engine->lock);
    SB_CHECK(engine->pending > 0, "what is pending ends once");
    if (--engine->pending == 0) {
        pthread_cond_broadcast(&engine->progress);
        sb_loop_wake(engine->loop);
    }
    sb_lock_release(&engine->lock);
}

/* ---- Waiting and helping --------------------------------------------------------------------- */

/* How long a thread waits before it takes itself for one of the executor's, while none has shown
 * itself; and how often a thread of the executor asks whether it can help, while it does not turn
 * the loop. */
#define UNSEEN_MS 100
#define HELP_MS 20

struct helper {
    const struct sb_wait *wait;
    const struct sb_help *help;
    struct sb_dispatcher *dispatcher;
};

static bool is_done_or_can_help(void *argument)
{
    const struct helper *helper = argument;

    return helper->wait->done(helper->wait->argument) ||
           sb_dispatcher_can_help(helper->dispatcher, helper->help);
}

/* With wait->lock held, and again when it returns; callbacks run without it. */
static bool wait_and_help(struct sb_engine *engine, const struct sb_wait *wait,
                          const struct sb_help *help)
{
    struct helper helper = {wait, help, engine->dispatcher};
    struct sb_wait either = {.lock = wait->lock,
                             .changed = wait->changed,
                             .done = is_done_or_can_help,
                             .argument = &helper,
                             .until_ms = wait->until_ms,
                             .check_ms = HELP_MS};

    while (sb_wait(engine->loop, &either) && !wait->done(wait->argument)) {
        int cancel_state;

        pthread_mutex_unlock(wait->lock);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
        sb_dispatcher_help(engine->dispatcher, help);
        pthread_setcancelstate(cancel_state, NULL);
        pthread_mutex_lock(wait->lock);
    }
    return wait->done(wait->argument);
}

/* A program that has one thread may wait before it has run any callback. */
static bool wait_as_unseen(struct sb_engine *engine, const struct sb_wait *wait,
                           const struct sb_help *help)
{
    struct sb_wait first = *wait;

    SB_CHECK(wait->check_ms == 0, "only a thread that helps asks by the clock");
    first.until_ms = sb_later(simba_now_ms(), UNSEEN_MS);
    if (first.until_ms > wait->until_ms)
        first.until_ms = wait->until_ms;
    if (sb_wait(engine->loop, &first))
        return true;
    return sb_dispatcher_is_executor_unseen(engine->dispatcher) ? wait_and_help(engine, wait, help)
                                                                : sb_wait(engine->loop, wait);
}

bool sb_engine_wait(struct sb_engine *engine, const struct sb_wait *wait,
                    const struct sb_help *help)
{
    struct sb_dispatcher *left = sb_dispatcher_wait_begin();
    bool done;

    if (help != NULL && sb_dispatcher_may_help(engine->dispatcher))
        done = wait_and_help(engine, wait, help);
    else if (help != NULL && sb_dispatcher_is_executor_unseen(engine->dispatcher))
        done = wait_as_unseen(engine, wait, help);
    else
        done = sb_wait(engine->loop, wait);
    sb_dispatcher_wait_end(left);
    return done;
}

bool sb_engine_pull(struct sb_engine *engine)
{
    const struct sb_help any = {NULL, NULL};

    return sb_dispatcher_help(engine->dispatcher, &any);
}

void sb_engine_lock(struct sb_engine *engine)
{
    sb_lock_take(&engine->lock);
}

void sb_engine_unlock(struct sb_engine *engine)
{
    sb_lock_release(&engine->lock);
}

void sb_engine_unlock_after_progress(struct sb_engine *engine)
{
    SB_CHECK(sb_lock_is_mine(&engine->lock), "progress is told with the lock held");
    pthread_cond_broadcast(&engine->progress);
    sb_lock_release(&engine->lock);
}

void sb_engine_tell_progress(struct sb_engine *engine)
{
    sb_engine_lock(engine);
    sb_engine_unlock_after_progress(engine);
    sb_loop_wake(engine->loop);
}

bool sb_engine_wait_locked(struct sb_engine *engine, bool (*done)(void *argument), void *argument,
                           int64_t until_ms, const struct sb_help *help)
{
    struct sb_wait wait = {.lock = &engine->lock,
                           .changed = &engine->progress,
                           .done = done,
                           .argument = argument,
                           .until_ms = until_ms};

    SB_CHECK(sb_lock_is_mine(&engine->lock), "what the lock guards is waited for with it held");
    return sb_engine_wait(engine, &wait, help);
}

bool sb_engine_wait_progress(struct sb_engine *engine, bool (*done)(void *argument), void *argument,
                             int64_t until_ms, const struct sb_help *help)
{
    bool is_done;

    sb_engine_lock(engine);
    is_done = sb_engine_wait_locked(engine, done, argument, until_ms, help);
    sb_engine_unlock(engine);
    return is_done;
}
