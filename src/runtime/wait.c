/*
 * wait.c - waits by running the loop where it can be borrowed, and on a condition variable
 * elsewhere.
 *
 * A thread of the application is not like the loop's own: it takes signals, and it can be
 * cancelled. Neither may end the process or take the loop or a lock away with it. So a cancellation
 * waits for the end of the wait, whichever way the thread waits.
 */
#include "runtime/wait.h"

#include "base/clock.h"
#include "base/signals.h"

#include <time.h>

void sb_wait_init_cond(pthread_cond_t *changed)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

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

/* It has done its work by going off: the round is over. */
static void on_limit(struct sb_timer *limit)
{
    (void)limit;
}

/* libuv and client libraries write to sockets without MSG_NOSIGNAL; some stores do not, or have no
 * sockets. Other signals must come through: the thread may be the only one of the process that
 * takes them. */
static void turn_until_over(struct sb_loop *loop, const struct sb_wait *wait)
{
    struct sb_timer limit = {.fire = on_limit};
    bool may_raise = !sb_loop_has_no_sigpipe(loop);
    struct sb_signal_hold hold;

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

    return wait->look_ms > 0 && wait->look_ms < left_ms ? wait->look_ms : left_ms;
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
