/*
 * engine_wait.c - threads of the application that wait for what happens on the engine's loop, and
 * what is pending there. Must not know services.
 */
#include "base/check.h"
#include "base/fork.h"
#include "base/error.h"
#include "base/time.h"
#include "runtime/engine_state.h"

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
    pthread_mutex_lock(&engine->lock);
    engine->pending++;
    pthread_mutex_unlock(&engine->lock);
}

/* The loop is woken under the lock: the thread that waits for this may free it. */
void sb_engine_pending_remove(struct sb_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    SB_CHECK(engine->pending > 0, "what is pending ends once");
    if (--engine->pending == 0) {
        pthread_cond_broadcast(&engine->progress);
        sb_loop_wake(engine->loop);
    }
    pthread_mutex_unlock(&engine->lock);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* How long a thread waits before it takes itself for one of the executor's, while none has shown
 * itself; and how often a thread of the executor looks whether it can help, while it does not turn
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
                             .look_ms = HELP_MS};

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

    if (help != NULL && sb_dispatcher_is_on_executor(engine->dispatcher))
        done = wait_and_help(engine, wait, help);
    else if (help != NULL && sb_dispatcher_is_executor_unseen(engine->dispatcher))
        done = wait_as_unseen(engine, wait, help);
    else
        done = sb_wait(engine->loop, wait);
    sb_dispatcher_wait_end(left);
    return done;
}

void sb_engine_lock(struct sb_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
}

void sb_engine_unlock(struct sb_engine *engine)
{
    pthread_mutex_unlock(&engine->lock);
}

void sb_engine_unlock_after_progress(struct sb_engine *engine)
{
    pthread_cond_broadcast(&engine->progress);
    pthread_mutex_unlock(&engine->lock);
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
