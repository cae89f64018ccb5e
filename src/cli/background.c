/*
 * background.c - calls that may wait for the store, on a thread of their own.
 */
#include "cli/background.h"

#include "base/check.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/events.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- The thread ------------------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t given;              /* there is something to run */
    const struct cli_background *next; /* NULL: nothing */
    bool idle;                         /* it waits for it */
} worker = {.lock = PTHREAD_MUTEX_INITIALIZER, .given = PTHREAD_COND_INITIALIZER};

static void *run_given(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&worker.lock);
    for (;;) {
        while (worker.next == NULL)
            pthread_cond_wait(&worker.given, &worker.lock);
        struct cli_background taken = *worker.next;
        worker.next = NULL;
        worker.idle = false;
        pthread_mutex_unlock(&worker.lock);
        taken.run(taken.user);
        /* The waiter may start the next call at once: so the thread is idle before it reports. */
        pthread_mutex_lock(&worker.lock);
        worker.idle = true;
        eventfd_write(taken.done_fd, 1);
    }
    return NULL;
}

/* A thread that is busy is one that nobody waits for any longer: another one is started then. */
static int give(const struct cli_background *background)
{
    pthread_t thread;
    int failure = 0;

    pthread_mutex_lock(&worker.lock);
    SB_CHECK(worker.next == NULL, "the call before this one was taken");
    worker.next = background;
    if (worker.idle)
        pthread_cond_signal(&worker.given);
    else
        failure = pthread_create(&thread, NULL, run_given, NULL);
    if (failure != 0)
        worker.next = NULL;
    else if (!worker.idle)
        pthread_detach(thread);
    pthread_mutex_unlock(&worker.lock);
    return failure;
}

/* ---- The main thread ------------------------------------------------------------------------- */

bool cli_background_start(struct cli_background *background, void (*run)(void *user), void *user)
{
    background->run = run;
    background->user = user;
    background->ends = cli_signal_ends;
    background->done_fd = eventfd(0, EFD_CLOEXEC);
    if (background->done_fd < 0)
        return false;
    int failure = give(background);
    if (failure == 0)
        return true;
    close(background->done_fd);
    errno = failure;
    return false;
}

static int poll_limit(int64_t until_ms)
{
    int64_t left_ms = sb_time_left(until_ms, simba_now_ms());

    return left_ms == SIMBA_INFINITE ? -1 : (int)sb_earlier(left_ms, INT_MAX);
}

bool cli_background_is_done(struct cli_background *background)
{
    struct pollfd done = {.fd = background->done_fd, .events = POLLIN};
    eventfd_t count;

    if (poll(&done, 1, 0) <= 0)
        return false;
    eventfd_read(background->done_fd, &count); /* orders what the thread has done before this */
    close(background->done_fd);
    return true;
}

int cli_background_wait(struct cli_background *background, int signals_fd, int64_t limit_ms)
{
    struct pollfd fds[] = {
        {.fd = background->done_fd, .events = POLLIN},
        {.fd = signals_fd, .events = POLLIN},
    };
    int64_t until_ms = sb_later(simba_now_ms(), limit_ms);

    for (;;) {
        int ready = poll(fds, 2, poll_limit(until_ms));
        int signal = cli_signals_take_end(signals_fd, background->ends);
        if (signal != 0)
            return signal;
        if (ready > 0 && fds[0].revents != 0 && cli_background_is_done(background))
            return CLI_BACKGROUND_DONE;
        if (ready == 0 && poll_limit(until_ms) == 0)
            return CLI_BACKGROUND_LATE;
    }
}

noreturn void cli_background_leave(int status)
{
    cli_message_flush(CLI_PATIENCE_MS);
    _exit(cli_signals_leave(status));
}

int cli_background_run(const struct cli_background_work *work)
{
    struct cli_background background;
    int signals_fd = -1;

    if (!cli_signals_take(&signals_fd) || !cli_background_start(&background, work->run, work->user))
        return cli_fail_system("cannot start a thread");
    int ended = cli_background_wait(&background, signals_fd, SIMBA_INFINITE);
    if (ended == CLI_BACKGROUND_DONE)
        return CLI_CONTINUE;
    work->cancel(work->user);
    background.ends = cli_signal_insists_again;
    if (cli_background_wait(&background, signals_fd, work->end_ms) != CLI_BACKGROUND_DONE)
        cli_background_leave(cli_signals_ended_by(ended));
    return cli_signals_ended_by(ended);
}

static void warn_not_released(const struct cli_finish *finish)
{
    if (finish->held != NULL)
        cli_message("warning: '%s' was not released; it becomes free when its lease ends",
                    finish->held);
}

/* Other signals were for the command, which has ended; so may have been the first that tells to
 * end. */
void cli_background_finish(const struct cli_finish *finish, int signals_fd, int status)
{
    struct cli_background background;

    if (!cli_background_start(&background, finish->run, finish->user)) {
        warn_not_released(finish);
        cli_background_leave(status);
    }
    background.ends = cli_signal_insists_again;
    if (finish->meanwhile != NULL)
        finish->meanwhile();
    if (cli_background_wait(&background, signals_fd, finish->limit_ms) == CLI_BACKGROUND_DONE)
        return;
    warn_not_released(finish);
    cli_background_leave(status);
}
