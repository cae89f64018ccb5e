/*
 * events.c - what the main thread of a verb that runs commands sleeps on: signals and a clock.
 */
#include "cli/events.h"

#include "cli/notify.h"
#include "cli/orphans.h"
#include "cli/signals.h"

#include <simba/simba.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* The longest sleep. A store without leases has deadlines that no timer can hold. */
#define SLEEP_MAX_MS (24 * 3600 * 1000)

int64_t cli_instant_after(int64_t at_ms, int64_t ms)
{
    return ms < SIMBA_INFINITE - at_ms ? at_ms + ms : SIMBA_INFINITE;
}

int64_t cli_instant_earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

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

/* Setting the timer also makes it unreadable again. A time of 0 would disarm it. */
static void set_timer(const struct cli_events *events, int64_t until_ms)
{
    int64_t ms = until_ms - simba_now_ms();

    if (ms < 1)
        ms = 1;
    if (ms > SLEEP_MAX_MS)
        ms = SLEEP_MAX_MS;
    struct itimerspec timer = {
        .it_value = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}};
    timerfd_settime(events->timer_fd, 0, &timer, NULL);
}

bool cli_events_sleep(const struct cli_events *events, int wake_fd, int64_t until_ms)
{
    struct pollfd fds[] = {
        {.fd = events->signals_fd, .events = POLLIN},
        {.fd = events->timer_fd, .events = POLLIN},
        {.fd = wake_fd, .events = POLLIN},
    };

    until_ms = cli_instant_earlier(until_ms, cli_notify_retry());
    if (events->tend != NULL)
        until_ms = cli_instant_earlier(until_ms, events->tend(events->user));
    set_timer(events, until_ms);
    return poll(fds, 3, -1) > 0 && fds[2].revents != 0;
}

/* Those that have no command to go to and do not end the program are dropped. */
static int take_signals(const struct cli_events *events)
{
    static const struct cli_relatives nobody = {0, 0};

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
        if (cli_events_sleep(events, wake_fd,
                             cli_instant_earlier(until_ms, cli_notify_healthy_at_ms())))
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
