/*
 * supervise.c - keeps a command and its lease together.
 *
 *        ttl_at                                               deadline    transition_at
 *   -------|---------------------------|-- grace --|-- reserve --|-- margin --|-------->
 *          | renewals are tried        | SIGTERM   | SIGKILL                  | others may own
 *
 * A renewal moves all of this on, so an outage shorter than the window changes nothing here. The
 * command is killed a reserve before the deadline at the latest, by the clock of this process: it
 * does not wait for the store to name another owner. When the library reports a loss, the SIGTERM
 * only comes sooner.
 *
 * --hold-at-most, a request to hand over and a signal that tells this program to end stop the
 * command in the same two steps.
 */
#include "cli/child.h"

#include "base/check.h"
#include "base/time.h"
#include "cli/background.h"
#include "cli/cli.h"
#include "cli/events.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* From a signal that tells to end to the message that the command has not ended. */
#define REMIND_AFTER_MS 2000

/* How long the owner of the terminal gets to give it to a command that asks. */
#define ASK_MS 300

/* A command goes through them in this order, and may skip some. */
enum phase {
    PHASE_RUNS,
    PHASE_ASKED, /* to end */
    PHASE_KILLED,
    PHASE_UNKILLABLE /* the lease is over, and the kernel does not permit to kill it */
};

struct supervision {
    const struct cli_run *run;
    struct cli_child child;
    enum phase phase;
    bool terminal_refused; /* the command has asked for the terminal, and did not get it */
    bool lost;             /* stays set: the deadline of a later term does not count */
    int64_t end_ms;        /* the last known deadline, less the reserve */
    int64_t kill_at_ms;    /* SIMBA_INFINITE: it has not been asked to end */
    struct cli_environment environment; /* of health checks */
    int64_t remind_at_ms; /* when to print that the command has not ended; SIMBA_INFINITE: never */
    struct cli_outcome outcome;
};

static void pass_signal(const struct supervision *supervision, int signal)
{
    if (!cli_child_signal(&supervision->child, signal))
        cli_message("the command cannot be sent signal %d: %s", signal, strerror(errno));
}

static void set_phase(struct supervision *supervision, enum phase phase)
{
    SB_CHECK(phase >= supervision->phase, "a command that was told to end does not run again");
    supervision->phase = phase;
}

/* The last reason is the one that is reported. A later reason can only shorten the grace. */
static void note_asked(struct supervision *supervision, enum cli_ending how, int64_t grace_ms)
{
    int64_t now_ms = simba_now_ms();

    SB_CHECK(supervision->outcome.how != CLI_ENDED_LOST, "nothing is reported in place of a loss");
    set_phase(supervision, PHASE_ASKED);
    supervision->outcome.how = how;
    if (grace_ms < supervision->kill_at_ms - now_ms)
        supervision->kill_at_ms = now_ms + grace_ms;
}

/* First the signal, then the message. SIGCONT lets a stopped command act on SIGTERM. */
static void ask_to_end(struct supervision *supervision, enum cli_ending how)
{
    const char *mutex = supervision->run->lease.mutex;

    if (supervision->phase == PHASE_RUNS) {
        pass_signal(supervision, SIGTERM);
        cli_child_signal(&supervision->child, SIGCONT);
    }
    note_asked(supervision, how, supervision->run->lease.grace_ms);
    if (how == CLI_ENDED_OVERDUE)
        cli_message("the time of --hold-at-most for '%s' is over: stopping the command", mutex);
    else if (how == CLI_ENDED_UNHEALTHY)
        cli_message("the health check of '%s' failed: stopping the command", mutex);
    else if (how == CLI_ENDED_HANDOVER)
        cli_message("'%s' is to be handed over: stopping the command", mutex);
    else if (supervision->lost)
        cli_message("the lease of '%s' is lost: stopping the command", mutex);
    else
        cli_message("the lease of '%s' could not be renewed: stopping the command", mutex);
}

/* `over`: the lease is. A command that cannot be killed keeps the mutex only while there is a
 * lease. */
static void kill_now(struct supervision *supervision, bool over)
{
    const char *mutex = supervision->run->lease.mutex;
    bool killed = cli_child_kill(&supervision->child);
    int failure = errno;

    supervision->kill_at_ms = SIMBA_INFINITE;
    if (over) {
        supervision->lost = true;
        supervision->outcome.how = CLI_ENDED_LOST;
    }
    if (killed)
        set_phase(supervision, PHASE_KILLED);
    else
        set_phase(supervision, over ? PHASE_UNKILLABLE : PHASE_ASKED);
    if (killed && over)
        cli_message("the lease of '%s' is over: killing the command", mutex);
    else if (killed)
        cli_message("the command has not ended in time: killing it");
    else if (over)
        cli_message(
            "the lease of '%s' is over, but the command cannot be killed (%s): it may go on "
            "without the mutex",
            mutex, strerror(failure));
    else
        cli_message("the command cannot be killed: %s", strerror(failure));
}

static void refresh_end(struct supervision *supervision)
{
    const struct cli_lease *lease = &supervision->run->lease;
    int64_t deadline_ms = lease->deadline_ms(lease->user);

    if (deadline_ms == 0)
        supervision->lost = true;
    if (!supervision->lost && deadline_ms - lease->reserve_ms > supervision->end_ms) {
        supervision->end_ms = deadline_ms - lease->reserve_ms;
        cli_child_guard(&supervision->child, deadline_ms);
    }
}

/* The limit also holds for a command that a signal has told to end. */
static bool may_be_overdue(const struct supervision *supervision)
{
    return supervision->outcome.how == CLI_ENDED || supervision->outcome.how == CLI_ENDED_TOLD;
}

static void check_time(struct supervision *supervision)
{
    const struct cli_run *run = supervision->run;

    if (supervision->phase >= PHASE_KILLED)
        return;
    refresh_end(supervision);
    int64_t now_ms = simba_now_ms();
    if (now_ms >= supervision->remind_at_ms) {
        supervision->remind_at_ms = SIMBA_INFINITE;
        cli_message("waiting for the command, which was told to end");
    }
    bool over = now_ms >= supervision->end_ms;
    bool is_short = supervision->lost || supervision->end_ms - now_ms <= run->lease.grace_ms;
    if (over || now_ms >= supervision->kill_at_ms)
        kill_now(supervision, over || supervision->outcome.how == CLI_ENDED_LOST);
    else if (supervision->outcome.how != CLI_ENDED_LOST && is_short)
        ask_to_end(supervision, CLI_ENDED_LOST);
    else if (may_be_overdue(supervision) && now_ms >= run->limit_at_ms)
        ask_to_end(supervision, CLI_ENDED_OVERDUE);
    else if (supervision->phase == PHASE_RUNS && run->health != NULL && run->health->failed)
        ask_to_end(supervision, CLI_ENDED_UNHEALTHY);
    else if (supervision->phase == PHASE_RUNS && run->lease.is_asked(run->lease.user))
        ask_to_end(supervision, CLI_ENDED_HANDOVER);
}

/* When check_time has something to do. A renewal wakes nobody: at the old deadline check_time finds
 * the new one. */
static int64_t next_check_ms(const struct supervision *supervision)
{
    const struct cli_run *run = supervision->run;

    if (supervision->phase >= PHASE_KILLED)
        return SIMBA_INFINITE;
    int64_t at_ms = sb_earlier(supervision->kill_at_ms, supervision->end_ms);
    at_ms = sb_earlier(at_ms, supervision->remind_at_ms);
    if (supervision->outcome.how != CLI_ENDED_LOST)
        at_ms = sb_earlier(at_ms, supervision->end_ms - run->lease.grace_ms);
    return may_be_overdue(supervision) ? sb_earlier(at_ms, run->limit_at_ms) : at_ms;
}

/* SIGCHLD is one of the signals that end the sleep. */
static void sleep_until_event(struct supervision *supervision)
{
    const struct cli_run *run = supervision->run;
    int wake_fd = supervision->lost ? -1 : run->lease.wake_fd;
    int64_t until_ms =
        sb_earlier(next_check_ms(supervision), cli_child_check_guardian(&supervision->child));

    if (run->health != NULL && supervision->phase == PHASE_RUNS)
        until_ms =
            sb_earlier(until_ms, cli_health_step(run->health, supervision->environment.list));
    /* The watchdog of the service manager hears that all is well while the command runs under a
     * lease, and in its grace: to kill simba then would take the grace from the command. */
    if (supervision->phase < PHASE_KILLED) {
        cli_notify_healthy();
        until_ms = sb_earlier(until_ms, cli_notify_healthy_at_ms());
    }
    if (cli_events_sleep(run->events, wake_fd, until_ms)) {
        eventfd_t count;
        eventfd_read(wake_fd, &count); /* it has no more to say than that it woke this thread */
        supervision->lost = run->lease.deadline_ms(run->lease.user) == 0;
    }
}

/* The command has got the signal already; SIGCONT lets a stopped one act on it. */
static void note_told(struct supervision *supervision, int signal)
{
    cli_child_signal(&supervision->child, SIGCONT);
    if (supervision->outcome.signal == 0)
        supervision->remind_at_ms = sb_later(simba_now_ms(), REMIND_AFTER_MS);
    supervision->outcome.signal = signal;
    if (supervision->run->stop_timeout_ms != SIMBA_INFINITE && supervision->phase == PHASE_RUNS)
        note_asked(supervision, CLI_ENDED_TOLD, supervision->run->stop_timeout_ms);
}

static void pass_signals(struct supervision *supervision)
{
    struct cli_child *child = &supervision->child;

    for (int signal; (signal = cli_signals_next(supervision->run->events->signals_fd)) != 0;) {
        if (signal == SIGCHLD) {
            cli_child_reap(child);
        } else if (signal == SIGCONT) {
            cli_child_continue(child);
        } else if ((signal != SIGTTIN && signal != SIGTTOU) || !cli_child_return_terminal(child)) {
            pass_signal(supervision, signal);
            if (cli_signal_tells_to_end(signal))
                note_told(supervision, signal);
        }
    }
}

/* ---- The end --------------------------------------------------------------------------------- */

/* A mutex under which processes may still work is not released: its lease runs out. */
static void leave_unreleased(const struct supervision *supervision, const char *why)
{
    cli_message("processes of the command %s: '%s' is not released and becomes free when its lease "
                "ends; they may go on without it",
                why, supervision->run->lease.mutex);
    cli_background_leave(CLI_EXIT_LOST);
}

/* Before the child is collected: until then no other group can get the id of its group. */
static void end_the_rest(struct supervision *supervision)
{
    const struct cli_lease *lease = &supervision->run->lease;

    if (supervision->outcome.how == CLI_ENDED && cli_child_leaves_others(&supervision->child))
        cli_message("the command has left processes running: killing them");
    if (!cli_child_sweep(&supervision->child, lease))
        return;
    cli_child_collect(&supervision->child);
    leave_unreleased(supervision, "cannot be killed");
}

static void conclude(struct supervision *supervision)
{
    struct cli_outcome *outcome = &supervision->outcome;

    refresh_end(supervision);
    if (supervision->lost && outcome->how != CLI_ENDED_LOST) {
        outcome->how = CLI_ENDED_LOST;
        cli_message("the lease of '%s' was lost before the command ended",
                    supervision->run->lease.mutex);
    }
    if (supervision->run->health != NULL)
        cli_health_end(supervision->run->health);
    bool sweeps = outcome->how != CLI_ENDED || supervision->run->sweep;
    if (sweeps)
        end_the_rest(supervision);
    outcome->status = cli_child_collect(&supervision->child);
    if (sweeps && cli_child_leaves_unlisted(&supervision->child))
        leave_unreleased(supervision, "cannot be found without a /proc of their pid namespace");
    if (outcome->how == CLI_ENDED_LOST)
        outcome->status = CLI_EXIT_LOST;
    else if (outcome->how == CLI_ENDED_OVERDUE)
        outcome->status = CLI_EXIT_OVERDUE;
    else if (outcome->how == CLI_ENDED_UNHEALTHY)
        outcome->status = CLI_EXIT_FAILED;
    else if (outcome->how == CLI_ENDED && supervision->child.failed)
        outcome->how = CLI_ENDED_NOT_STARTED;
}

/* ---- Job control ----------------------------------------------------------------------------- */

static void report_stopped(const struct supervision *supervision)
{
    int64_t left_ms = supervision->end_ms - simba_now_ms();
    char left[32];

    if (left_ms >= 1000)
        left_ms -= left_ms % 1000;
    if (supervision->end_ms < SIMBA_INFINITE - supervision->run->lease.reserve_ms)
        cli_message("stopped: the command is killed and '%s' passes to others in %s unless it is "
                    "continued",
                    supervision->run->lease.mutex,
                    simba_duration_format(left_ms, left, sizeof left));
    cli_message_flush(CLI_PATIENCE_MS);
}

/* A stopped simba does not renew the lease, but its guardian goes on. The message has to be out
 * before the stop; a SIGCONT that has come meanwhile cancels the stop. Without a shell that could
 * continue both, the command goes on at once. */
static void stop_with_child(struct supervision *supervision)
{
    report_stopped(supervision);
    if (cli_signal_is_pending(SIGCONT) || cli_child_follow_stop(&supervision->child))
        return;
    cli_message("not stopped: there is no shell that could continue it");
    cli_child_continue(&supervision->child);
}

/* The kernel does the same to a job that nobody will continue. A command that ignores SIGHUP would
 * stop again for ever, so it is killed after the grace. */
static void hang_up(struct supervision *supervision)
{
    cli_message("the command waits for a terminal that it cannot get: sending it SIGHUP");
    pass_signal(supervision, SIGHUP);
    cli_child_signal(&supervision->child, SIGCONT);
    note_asked(supervision, CLI_ENDED_TOLD, supervision->run->lease.grace_ms);
}

/* Another simba, around this one or in its pipeline, gives the terminal when it sees this stop; a
 * shell does not. So the first stop is short, and the command then asks again: the second stop has
 * no limit, and is preceded by a message. */
static void stop_for_terminal(struct supervision *supervision)
{
    int64_t begun_ms = simba_now_ms();
    bool stays = supervision->terminal_refused;

    if (stays)
        report_stopped(supervision);
    if (cli_signal_is_pending(SIGCONT))
        return;
    if (!cli_child_ask_for_terminal(stays ? SIMBA_INFINITE : ASK_MS))
        hang_up(supervision);
    supervision->terminal_refused = !stays && simba_now_ms() - begun_ms >= ASK_MS;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void supervise(struct supervision *supervision)
{
    for (;;) {
        /* First the lease: after a stop of this process it may be over, and then the command must
         * not be continued. */
        check_time(supervision);
        if (supervision->phase == PHASE_UNKILLABLE) {
            cli_child_sweep(&supervision->child, &supervision->run->lease);
            cli_child_abandon(&supervision->child);
            supervision->outcome.status = CLI_EXIT_LOST;
            return;
        }
        enum cli_child_event event = cli_child_poll(&supervision->child);
        if (event == CLI_CHILD_ENDED) {
            conclude(supervision);
            return;
        }
        if (event == CLI_CHILD_WAITS && cli_child_lend_terminal(&supervision->child))
            continue;
        if (event != CLI_CHILD_RUNS && supervision->phase == PHASE_RUNS) {
            if (event == CLI_CHILD_STOPPED)
                stop_with_child(supervision);
            else if (supervision->child.withheld) /* nobody stops for what it must not have */
                hang_up(supervision);
            else
                stop_for_terminal(supervision);
            continue;
        }
        sleep_until_event(supervision);
        check_time(supervision);
        pass_signals(supervision);
    }
}

struct cli_outcome cli_supervise(const struct cli_run *run)
{
    struct supervision supervision = {.run = run,
                                      .phase = PHASE_RUNS,
                                      .kill_at_ms = SIMBA_INFINITE,
                                      .remind_at_ms = SIMBA_INFINITE,
                                      .outcome = {.how = CLI_ENDED}};

    bool checked = run->health != NULL && run->health->check != NULL;
    if (checked && !cli_environment_build(&supervision.environment, &run->setup)) {
        supervision.outcome.how = CLI_ENDED_NOT_STARTED;
        supervision.outcome.status = cli_fail_system("the environment");
        return supervision.outcome;
    }
    if (run->health != NULL)
        cli_health_begin(run->health);
    if (cli_child_start(&supervision.child, run->command, &run->setup)) {
        supervise(&supervision);
    } else {
        supervision.outcome.how = CLI_ENDED_NOT_STARTED;
        supervision.outcome.status = cli_fail_system("cannot start a process");
    }
    cli_environment_free(&supervision.environment);
    SB_CHECK(supervision.outcome.how != CLI_ENDED_LOST ||
                 supervision.outcome.status == CLI_EXIT_LOST,
             "a run whose lease was lost is not reported as anything else");
    return supervision.outcome;
}
