/*
 * events.c - what the main thread sleeps on: signals, taken as events in place of interruptions,
 * and the clock of the leases.
 */
#include "cli/events.h"

#include "base/check.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/orphans.h"

#include <simba/simba.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* What the program was started with. Written once, before any thread exists. */
static struct {
    sigset_t mask;
    struct sigaction child;
    struct sigaction pipe;
    bool terminal; /* a terminal controls this process */
} inherited;

/* Signals that tell to end within this time are one request. */
#define ONE_REQUEST_MS 500

static struct {
    int count;       /* of requests */
    bool repeated;   /* the last signal belongs to the request before */
    int64_t told_ms; /* when the last request came */
} request;

static int ended_by; /* the signal that has ended the command or the wait for it; 0: none */

/* Ignoring SIGCHLD can be inherited, too, and would make the child's status disappear. */
void cli_signals_init(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction standard = {.sa_handler = SIG_DFL};

    sigprocmask(SIG_SETMASK, NULL, &inherited.mask);
    sigaction(SIGPIPE, &ignore, &inherited.pipe);
    sigaction(SIGCHLD, &standard, &inherited.child);
    int terminal_fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    inherited.terminal = terminal_fd >= 0;
    if (terminal_fd >= 0)
        close(terminal_fd);
}

void cli_signals_restore(void)
{
    sigaction(SIGPIPE, &inherited.pipe, NULL);
    sigaction(SIGCHLD, &inherited.child, NULL);
    sigprocmask(SIG_SETMASK, &inherited.mask, NULL);
}

/* Faults of the program itself, which blocking would only hide, and what was ignored (nohup). */
static bool is_left_alone(int signal)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    struct sigaction action;

    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (signal == faults[i])
            return true;
    }
    if (signal == SIGPIPE)
        return inherited.pipe.sa_handler == SIG_IGN;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool cli_signals_take(int *ret_fd)
{
    sigset_t set;

    sigfillset(&set);
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        if (is_left_alone(signal))
            sigdelset(&set, signal);
    }
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return false;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return false;
    *ret_fd = fd;
    return true;
}

int cli_signals_next(int fd)
{
    struct signalfd_siginfo info;

    SB_CHECK(gettid() == getpid(), "the main thread reads the signals");
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int64_t now_ms = simba_now_ms();
        if (info.ssi_signo == SIGPIPE && info.ssi_pid == (uint32_t)getpid())
            continue;
        if (cli_signal_tells_to_end((int)info.ssi_signo)) {
            request.repeated = request.count > 0 && now_ms - request.told_ms < ONE_REQUEST_MS;
            if (!request.repeated) {
                request.told_ms = now_ms;
                request.count++;
            }
        }
        return (int)info.ssi_signo;
    }
    return 0;
}

bool cli_signal_is_pending(int signal)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

bool cli_signal_stops(int signal)
{
    return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* Daemons read their configuration again at SIGHUP. */
bool cli_signal_tells_to_end(int signal)
{
    return signal == SIGTERM || signal == SIGINT || signal == SIGQUIT ||
           (signal == SIGHUP && inherited.terminal);
}

bool cli_signal_insists(int signal)
{
    return cli_signal_tells_to_end(signal) && !request.repeated;
}

bool cli_signal_insists_again(int signal)
{
    return cli_signal_insists(signal) && request.count > 1;
}

int cli_signal_exit_code(int signal)
{
    return signal == SIGTERM || signal == SIGINT ? CLI_EXIT_OK : cli_signals_ended_by(signal);
}

bool cli_signal_ends(int signal)
{
    return !cli_signal_stops(signal) && signal != SIGCHLD && signal != SIGCONT &&
           signal != SIGURG && signal != SIGWINCH;
}

/* ---- Doing what a signal does by default ----------------------------------------------------- */

/* All other threads have it blocked, so it is delivered to this one before the call returns. */
static void take_default_action(pid_t target, int signal)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    struct sigaction before;
    sigset_t set;
    sigset_t mask;

    SB_CHECK(gettid() == getpid(), "the main thread takes the action of a signal");
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigaction(signal, &standard, &before);
    pthread_sigmask(SIG_UNBLOCK, &set, &mask);
    kill(target, signal);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    sigaction(signal, &before, NULL);
}

/* A process that was stopped has got a SIGCONT, which is blocked. */
bool cli_signals_stop(void)
{
    take_default_action(getpid(), SIGTSTP);
    return cli_signal_is_pending(SIGCONT);
}

bool cli_signals_stop_job(int signal)
{
    take_default_action(0, signal);
    return cli_signal_is_pending(SIGCONT);
}

bool cli_signals_stop_job_for(int signal, int64_t limit_ms)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
    struct itimerspec after = {
        .it_value = {.tv_sec = limit_ms / 1000, .tv_nsec = limit_ms % 1000 * 1000000}};
    sigset_t set;
    timer_t timer;

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        return cli_signals_stop_job(signal);
    timer_settime(timer, 0, &after, NULL);
    bool continued = cli_signals_stop_job(signal);
    timer_delete(timer); /* also drops its SIGCONT, so that is sent again */
    if (continued) {
        sigemptyset(&set);
        sigaddset(&set, SIGCONT);
        sigtimedwait(&set, NULL, &(struct timespec){0, 0});
        kill(getpid(), SIGCONT);
    }
    return continued;
}

int cli_signals_ended_by(int signal)
{
    ended_by = signal;
    return CLI_EXIT_SIGNAL + signal;
}

int cli_signals_take_end(int fd, bool (*ends)(int signal))
{
    for (int signal; (signal = cli_signals_next(fd)) != 0;) {
        if (ends(signal))
            return signal;
        if (cli_signal_stops(signal))
            cli_signals_stop();
    }
    return 0;
}

/* Not dumpable: a limit of 0 for core files does not hold where a program takes them. */
int cli_signals_leave(int status)
{
    bool interrupted = ended_by == SIGINT || ended_by == SIGQUIT;

    if (interrupted && status == CLI_EXIT_SIGNAL + ended_by) {
        prctl(PR_SET_DUMPABLE, 0);
        take_default_action(getpid(), ended_by);
    }
    return status;
}

/* ---- Sleeping -------------------------------------------------------------------------------- */

/* The longest sleep: a store without leases has deadlines that no timer can hold. */
#define SLEEP_MAX_MS (24 * 3600 * 1000)

bool cli_events_open(struct cli_events *events)
{
    events->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (events->timer_fd < 0)
        return false;
    if (cli_signals_take(&events->signals_fd))
        return true;
    int failure = errno;
    close(events->timer_fd);
    errno = failure;
    return false;
}

void cli_events_close(const struct cli_events *events)
{
    close(events->signals_fd);
    close(events->timer_fd);
}

bool cli_events_sleep(const struct cli_events *events, int wake_fd, int64_t until_ms)
{
    struct pollfd fds[] = {
        {.fd = events->signals_fd, .events = POLLIN},
        {.fd = events->timer_fd, .events = POLLIN},
        {.fd = wake_fd, .events = POLLIN},
    };

    SB_CHECK(gettid() == getpid(), "the main thread sleeps on the events");
    until_ms = sb_earlier(until_ms, cli_notify_retry());
    if (events->before_sleep != NULL)
        until_ms = sb_earlier(until_ms, events->before_sleep(events->user));
    int64_t ms = sb_earlier(until_ms - simba_now_ms(), SLEEP_MAX_MS);
    if (ms < 1)
        ms = 1; /* 0 would disarm the timer */
    struct itimerspec timer = {
        .it_value = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}};
    timerfd_settime(events->timer_fd, 0, &timer, NULL); /* also makes it unreadable again */
    return poll(fds, 3, -1) > 0 && fds[2].revents != 0;
}

/* Drops the signals that do not end the program: there is no command that could get them. */
static int take_signals(const struct cli_events *events)
{
    static const struct cli_known_children nobody = {0, 0};

    for (int signal; (signal = cli_signals_next(events->signals_fd)) != 0;) {
        if (cli_signal_insists(signal))
            return signal;
        if (cli_signal_stops(signal))
            cli_signals_stop();
        if (signal == SIGCHLD && events->reaps)
            cli_orphans_reap(&nobody);
    }
    return 0;
}

int cli_events_pause(const struct cli_events *events, int wake_fd, int64_t until_ms)
{
    for (;;) {
        int signal = take_signals(events);
        if (signal != 0)
            return signal;
        if (simba_now_ms() >= until_ms)
            return CLI_PAUSE_OVER;
        cli_notify_healthy();
        if (cli_events_sleep(events, wake_fd, sb_earlier(until_ms, cli_notify_healthy_at_ms())))
            return CLI_PAUSE_WOKEN;
    }
}

int cli_events_drain(const struct cli_events *events)
{
    int telling = 0;

    for (int signal; (signal = cli_signals_next(events->signals_fd)) != 0;) {
        if (cli_signal_tells_to_end(signal))
            telling = signal;
    }
    return telling;
}
