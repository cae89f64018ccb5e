/*
 * background.c - runs what may have to wait for the store on a thread of its own.
 */
#include "cli/background.h"

#include "cli/cli.h"
#include "cli/events.h"
#include "cli/printer.h"
#include "cli/say.h"
#include "cli/signals.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *run(void *argument)
{
    struct cli_background *background = argument;

    background->run(background->user);
    eventfd_write(background->done_fd, 1);
    return NULL;
}

bool cli_background_start(struct cli_background *background, void (*run_this)(void *user),
                          void *user)
{
    background->run = run_this;
    background->user = user;
    background->ends = cli_signal_ends;
    background->done_fd = eventfd(0, EFD_CLOEXEC);
    if (background->done_fd < 0)
        return false;
    int failure = pthread_create(&background->thread, NULL, run, background);
    if (failure == 0)
        return true;
    close(background->done_fd);
    errno = failure;
    return false;
}

/* The signal that asks to end, 0 where none has come. */
static int ending_signal(const struct cli_background *background, int signals_fd)
{
    for (int signal; (signal = cli_signals_next(signals_fd)) != 0;) {
        if (background->ends(signal))
            return signal;
        if (cli_signal_stops(signal))
            raise(SIGSTOP);
    }
    return 0;
}

static int poll_limit(int64_t until_ms)
{
    if (until_ms == SIMBA_INFINITE)
        return -1;
    int64_t left_ms = until_ms - simba_now_ms();
    if (left_ms <= 0)
        return 0;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

int cli_background_wait(struct cli_background *background, int signals_fd, int64_t limit_ms)
{
    struct pollfd fds[] = {
        {.fd = background->done_fd, .events = POLLIN},
        {.fd = signals_fd, .events = POLLIN},
    };
    int64_t until_ms = cli_instant_after(simba_now_ms(), limit_ms);

    for (;;) {
        int ready = poll(fds, 2, poll_limit(until_ms));
        int signal = ending_signal(background, signals_fd);
        if (signal != 0)
            return signal;
        if (ready > 0 && fds[0].revents != 0)
            break;
        if (ready == 0 && poll_limit(until_ms) == 0)
            return CLI_BACKGROUND_LATE;
    }
    pthread_join(background->thread, NULL);
    close(background->done_fd);
    return CLI_BACKGROUND_DONE;
}

noreturn void cli_background_leave(const struct cli_background *background, int status)
{
    pthread_detach(background->thread);
    cli_printer_finish(CLI_PATIENCE_MS);
    _exit(status);
}

static void say_held(const struct cli_finish *finish)
{
    if (finish->held != NULL)
        cli_say("warning: '%s' was not given back and is free when its lease ends", finish->held);
}

/* Other signals were meant for the command, which has ended. */
void cli_background_finish(const struct cli_finish *finish, int signals_fd, int status)
{
    struct cli_background background;

    if (!cli_background_start(&background, finish->run, finish->user)) {
        say_held(finish);
        cli_printer_finish(CLI_PATIENCE_MS);
        _exit(status);
    }
    background.ends = cli_signal_tells_to_end;
    if (cli_background_wait(&background, signals_fd, finish->limit_ms) == CLI_BACKGROUND_DONE)
        return;
    say_held(finish);
    cli_background_leave(&background, status);
}
