/*
 * supervise.c - keeps a child and its lease together.
 *
 *        ttl_at                       deadline - grace          deadline      transition_at
 *   -------|------------------------------|------------------------|------------|-------->
 *          | renewals are tried           | SIGTERM                | SIGKILL    | others may own
 *
 * A renewal moves the deadline on, so that a hiccup shorter than the window is not noticed here. The
 * child is killed at the deadline at the latest, not when the store says that somebody else owns. The
 * own clock decides; that the library tells of a loss only makes the SIGTERM come sooner.
 */
#include "cli/supervise.h"

#include "cli/cli.h"
#include "cli/say.h"
#include "cli/signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* The longest sleep. A store without leases has deadlines that no timer can hold. */
#define SLEEP_MAX_MS (24 * 3600 * 1000)

enum phase {
    PHASE_RUNS,
    PHASE_ASKED, /* SIGTERM was sent */
    PHASE_KILLED,
    PHASE_ESCAPED /* it cannot be killed */
};

struct supervision {
    struct cli_child *child;
    const struct cli_lease *lease;
    int signals_fd;
    int timer_fd; /* on the clock of the leases, which goes on while the machine is suspended */
    enum phase phase;
    bool lost;           /* once lost, the deadline of a later term does not count */
    int64_t deadline_ms; /* the last one that was known */
};

static void pass_signal(const struct supervision *supervision, int signal)
{
    if (!cli_child_signal(supervision->child, signal))
        cli_say("the command cannot be sent signal %d: %s", signal, strerror(errno));
}

/* First the signal, then the words. SIGCONT lets a stopped child act on it. */
static void ask_to_end(struct supervision *supervision)
{
    const char *mutex = supervision->lease->mutex;

    pass_signal(supervision, SIGTERM);
    cli_child_signal(supervision->child, SIGCONT);
    supervision->phase = PHASE_ASKED;
    if (supervision->lost)
        cli_say("the lease of '%s' is lost: stopping the command", mutex);
    else
        cli_say("the lease of '%s' could not be renewed: stopping the command", mutex);
}

static void kill_now(struct supervision *supervision)
{
    const char *mutex = supervision->lease->mutex;
    bool killed = cli_child_kill(supervision->child);

    supervision->lost = true;
    supervision->phase = killed ? PHASE_KILLED : PHASE_ESCAPED;
    if (killed)
        cli_say("the lease of '%s' is over: killing the command", mutex);
    else
        cli_say("the lease of '%s' is over, but the command cannot be killed (%s): it may go on "
                "without the mutex",
                mutex, strerror(errno));
}

static void refresh_deadline(struct supervision *supervision)
{
    int64_t deadline_ms = supervision->lease->deadline_ms(supervision->lease->user);

    if (deadline_ms == 0)
        supervision->lost = true;
    if (!supervision->lost && deadline_ms > supervision->deadline_ms)
        supervision->deadline_ms = deadline_ms;
}

static void check_lease(struct supervision *supervision)
{
    if (supervision->phase >= PHASE_KILLED)
        return;
    refresh_deadline(supervision);
    int64_t left_ms = supervision->deadline_ms - simba_now_ms();
    if (left_ms <= 0)
        kill_now(supervision);
    else if (supervision->phase == PHASE_RUNS &&
             (supervision->lost || left_ms <= supervision->lease->grace_ms))
        ask_to_end(supervision);
}

/* Until the lease wants attention; 0: never again. */
static int64_t attention_ms(const struct supervision *supervision)
{
    int64_t left_ms = supervision->deadline_ms - simba_now_ms();

    if (supervision->phase >= PHASE_KILLED)
        return 0;
    if (supervision->phase == PHASE_RUNS)
        left_ms -= supervision->lease->grace_ms;
    if (left_ms > SLEEP_MAX_MS)
        return SLEEP_MAX_MS;
    return left_ms > 0 ? left_ms : 1;
}

/* Sleeps until the lease wants attention, is lost, or a signal comes: SIGCHLD is one. A renewal does not
 * wake it; the timer of the old deadline finds the new one. */
static void sleep_until_event(struct supervision *supervision)
{
    int64_t ms = attention_ms(supervision);
    struct itimerspec timer = {
        .it_value = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}};
    struct pollfd fds[] = {
        {.fd = supervision->signals_fd, .events = POLLIN},
        {.fd = supervision->timer_fd, .events = POLLIN},
        {.fd = supervision->lost ? -1 : supervision->lease->lost_fd, .events = POLLIN},
    };

    /* Setting the timer also makes it unreadable again. */
    timerfd_settime(supervision->timer_fd, 0, &timer, NULL);
    if (poll(fds, 3, -1) > 0 && fds[2].revents != 0)
        supervision->lost = true;
}

static void pass_signals(struct supervision *supervision)
{
    for (int signal; (signal = cli_signals_next(supervision->signals_fd)) != 0;) {
        if (signal == SIGCHLD)
            continue;
        if (signal == SIGCONT)
            cli_child_continue(supervision->child);
        else
            pass_signal(supervision, signal);
    }
}

static int conclude(struct supervision *supervision)
{
    /* What is left of the group of a command that had to end must not go on without the lease. The
     * child is not collected yet, so that the id of its group cannot be another's. */
    refresh_deadline(supervision);
    bool lost = supervision->lost || supervision->phase != PHASE_RUNS;
    if (lost)
        cli_child_kill(supervision->child);
    if (lost && supervision->phase == PHASE_RUNS)
        cli_say("the lease of '%s' was lost before the command ended", supervision->lease->mutex);
    int status = cli_child_collect(supervision->child);
    if (lost && cli_child_left_others(supervision->child))
        cli_say("processes of the command cannot be killed: they may go on without '%s'",
                supervision->lease->mutex);
    return lost ? CLI_EXIT_LOST : status;
}

static int supervise(struct supervision *supervision)
{
    for (;;) {
        /* First the lease: after a stop of this process it may be over, and then the child must not be
         * continued. */
        check_lease(supervision);
        if (supervision->phase == PHASE_ESCAPED) {
            cli_child_abandon(supervision->child);
            return CLI_EXIT_LOST;
        }
        enum cli_child_event event = cli_child_look(supervision->child);
        if (event == CLI_CHILD_ENDED)
            return conclude(supervision);
        if (event == CLI_CHILD_STOPPED && supervision->phase == PHASE_RUNS) {
            cli_child_follow_stop(supervision->child);
            continue;
        }
        sleep_until_event(supervision);
        check_lease(supervision);
        pass_signals(supervision);
    }
}

int cli_supervise(char **command, const struct cli_child_lease *shown,
                  const struct cli_lease *lease, int signals_fd)
{
    struct cli_child child;
    struct supervision supervision = {
        .child = &child, .lease = lease, .signals_fd = signals_fd, .phase = PHASE_RUNS};

    supervision.timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    if (supervision.timer_fd < 0)
        return cli_fail_system("timer");
    int status = cli_child_start(&child, command, shown)
                     ? supervise(&supervision)
                     : cli_fail_system("cannot start a process");
    close(supervision.timer_fd);
    return status;
}
