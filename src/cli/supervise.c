/*
 * supervise.c - keeps a child and its lease together.
 *
 *        ttl_at                       deadline - grace          deadline      transition_at
 *   -------|------------------------------|------------------------|------------|-------->
 *          | renewals are tried           | SIGTERM                | SIGKILL    | others may own
 *
 * A renewal moves the deadline on, so that a hiccup shorter than the window is not noticed here. The
 * child is killed at the deadline at the latest, not when the store says that somebody else owns.
 */
#include "cli/supervise.h"

#include "cli/cli.h"
#include "cli/say.h"
#include "cli/signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

/* How late a loss that the store tells of, or the end of a suspend of the machine, may be noticed. */
#define TICK_MS 100

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

/* Until the lease wants attention, at most a tick. */
static int patience_ms(const struct supervision *supervision)
{
    int64_t left_ms = supervision->deadline_ms - simba_now_ms();

    if (supervision->phase == PHASE_RUNS)
        left_ms -= supervision->lease->grace_ms;
    if (supervision->phase == PHASE_KILLED || left_ms > TICK_MS)
        return TICK_MS;
    return left_ms > 0 ? (int)left_ms : 0;
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

int cli_supervise(struct cli_child *child, const struct cli_lease *lease, int signals_fd)
{
    struct supervision supervision = {
        .child = child, .lease = lease, .signals_fd = signals_fd, .phase = PHASE_RUNS};

    for (;;) {
        /* First the lease: after a stop of this process it may be over, and then the child must not be
         * continued. */
        check_lease(&supervision);
        if (supervision.phase == PHASE_ESCAPED) {
            cli_child_abandon(child);
            return CLI_EXIT_LOST;
        }
        enum cli_child_event event = cli_child_look(child);
        if (event == CLI_CHILD_ENDED)
            return conclude(&supervision);
        if (event == CLI_CHILD_STOPPED && supervision.phase == PHASE_RUNS) {
            cli_child_follow_stop(child);
            continue;
        }
        struct pollfd wait = {.fd = signals_fd, .events = POLLIN};
        poll(&wait, 1, patience_ms(&supervision));
        check_lease(&supervision);
        pass_signals(&supervision);
    }
}
