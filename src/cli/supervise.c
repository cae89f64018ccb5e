/*
 * supervise.c - keeps a child and its lease together.
 *
 *        ttl_at                                               deadline    transition_at
 *   -------|---------------------------|-- grace --|-- reserve --|-- margin --|-------->
 *          | renewals are tried        | SIGTERM   | SIGKILL                  | others may own
 *
 * A renewal moves all that on, so that a hiccup shorter than the window is not noticed here. The
 * child is killed a reserve before the deadline at the latest, not when the store says that
 * somebody else owns. The own clock decides; that the library tells of a loss only makes the
 * SIGTERM come sooner.
 *
 * A limit of its time and a signal that tells this program to end stop the child in the same two
 * steps.
 */
#include "cli/child.h"

#include "base/time.h"
#include "cli/cli.h"
#include "cli/events.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* From a signal that tells to end to the word that the command has not ended. */
#define REMIND_AFTER_MS 2000

/* How long the owner of the terminal gets to give it to a command that asks. */
#define ASK_MS 300

enum phase {
    PHASE_RUNS,
    PHASE_ASKED, /* to end */
    PHASE_KILLED,
    PHASE_UNKILLABLE /* it cannot be killed */
};

struct supervision {
    const struct cli_run *run;
    struct cli_child child;
    enum phase phase;
    bool unheard;       /* it has asked for the terminal, and nobody gave it */
    bool lost;          /* once lost, the deadline of a later term does not count */
    int64_t end_ms;     /* the last deadline that was known, less the reserve */
    int64_t kill_at_ms; /* SIMBA_INFINITE: it has not been asked to end */
    int64_t
        remind_at_ms; /* when it is said that the command takes its time; SIMBA_INFINITE: never */
    struct cli_outcome outcome;
};

static void pass_signal(const struct supervision *supervision, int signal)
{
    if (!cli_child_signal(&supervision->child, signal))
        cli_message("the command cannot be sent signal %d: %s", signal, strerror(errno));
}

/* The first reason to end is the one that is reported, except that a lost lease is always told
 * of. */
static void note_asked(struct supervision *supervision, enum cli_ending how, int64_t grace_ms)
{
    int64_t now_ms = simba_now_ms();

    supervision->phase = PHASE_ASKED;
    supervision->outcome.how = how;
    if (grace_ms < supervision->kill_at_ms - now_ms)
        supervision->kill_at_ms = now_ms + grace_ms;
}

static void report_stopping(const struct supervision *supervision)
{
    const char *mutex = supervision->run->lease.mutex;

    if (supervision->outcome.how == CLI_ENDED_OVERDUE)
        cli_message("the command has had its time with '%s': stopping it", mutex);
    else if (supervision->lost)
        cli_message("the lease of '%s' is lost: stopping the command", mutex);
    else
        cli_message("the lease of '%s' could not be renewed: stopping the command", mutex);
}

/* First the signal, then the words. SIGCONT lets a stopped child act on it. */
static void ask_to_end(struct supervision *supervision, enum cli_ending how)
{
    if (supervision->phase == PHASE_RUNS) {
        pass_signal(supervision, SIGTERM);
        cli_child_signal(&supervision->child, SIGCONT);
    }
    note_asked(supervision, how, supervision->run->lease.grace_ms);
    report_stopping(supervision);
}

/* A command that cannot be killed keeps the mutex as long as there is a lease, and no longer. */
static void report_unkillable(const struct supervision *supervision, bool over, int failure)
{
    if (over)
        cli_message(
            "the lease of '%s' is over, but the command cannot be killed (%s): it may go on "
            "without the mutex",
            supervision->run->lease.mutex, strerror(failure));
    else
        cli_message("the command cannot be killed: %s", strerror(failure));
}

static void kill_now(struct supervision *supervision, bool over)
{
    bool killed = cli_child_kill(&supervision->child);
    int failure = errno;

    supervision->kill_at_ms = SIMBA_INFINITE;
    if (over) {
        supervision->lost = true;
        supervision->outcome.how = CLI_ENDED_LOST;
    }
    if (!killed) {
        supervision->phase = over ? PHASE_UNKILLABLE : PHASE_ASKED;
        report_unkillable(supervision, over, failure);
        return;
    }
    supervision->phase = PHASE_KILLED;
    if (over)
        cli_message("the lease of '%s' is over: killing the command",
                    supervision->run->lease.mutex);
    else
        cli_message("the command has not ended in time: killing it");
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

static bool lease_is_short(const struct supervision *supervision, int64_t now_ms)
{
    return supervision->lost || supervision->end_ms - now_ms <= supervision->run->lease.grace_ms;
}

/* The limit holds for a command that takes its time to end, too. */
static bool may_be_overdue(const struct supervision *supervision)
{
    return supervision->outcome.how == CLI_ENDED || supervision->outcome.how == CLI_ENDED_TOLD;
}

/* Who told this program to end wants to know why it does not. */
static void remind(struct supervision *supervision, int64_t now_ms)
{
    if (now_ms < supervision->remind_at_ms)
        return;
    supervision->remind_at_ms = SIMBA_INFINITE;
    cli_message("waiting for the command to end, which was told to");
}

static void check_time(struct supervision *supervision)
{
    if (supervision->phase >= PHASE_KILLED)
        return;
    refresh_end(supervision);
    int64_t now_ms = simba_now_ms();
    remind(supervision, now_ms);
    bool over = now_ms >= supervision->end_ms;
    if (over || now_ms >= supervision->kill_at_ms)
        kill_now(supervision, over || supervision->outcome.how == CLI_ENDED_LOST);
    else if (supervision->outcome.how != CLI_ENDED_LOST && lease_is_short(supervision, now_ms))
        ask_to_end(supervision, CLI_ENDED_LOST);
    else if (may_be_overdue(supervision) && now_ms >= supervision->run->limit_at_ms)
        ask_to_end(supervision, CLI_ENDED_OVERDUE);
}

/* When there is something to do unless a signal comes. A renewal does not wake anybody: who wakes
 * at the old deadline finds the new one. */
static int64_t attention_at_ms(const struct supervision *supervision)
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

/* SIGCHLD is one of the signals. */
static void sleep_until_event(struct supervision *supervision)
{
    const struct cli_run *run = supervision->run;
    int lost_fd = supervision->lost ? -1 : run->lease.lost_fd;
    int64_t until_ms =
        sb_earlier(attention_at_ms(supervision), cli_child_check_guardian(&supervision->child));

    /* The service manager's watchdog wants a command that runs under a lease, or that has its time
     * to end since the lease is lost: to be killed for its silence would take that time from it. */
    if (supervision->phase < PHASE_KILLED) {
        cli_notify_healthy();
        until_ms = sb_earlier(until_ms, cli_notify_healthy_at_ms());
    }
    if (cli_events_sleep(run->events, lost_fd, until_ms))
        supervision->lost = true;
}

/* The command has got the signal already; SIGCONT lets a stopped one act on it. */
static void note_told(struct supervision *supervision, int signal)
{
    int64_t grace_ms = supervision->run->stop_timeout_ms;

    if (!cli_signal_tells_to_end(signal))
        return;
    cli_child_signal(&supervision->child, SIGCONT);
    if (supervision->outcome.signal == 0)
        supervision->remind_at_ms = sb_later(simba_now_ms(), REMIND_AFTER_MS);
    supervision->outcome.signal = signal;
    if (grace_ms == SIMBA_INFINITE || supervision->phase != PHASE_RUNS)
        return;
    note_asked(supervision, CLI_ENDED_TOLD, grace_ms);
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
            note_told(supervision, signal);
        }
    }
}

static bool sweeps(const struct supervision *supervision)
{
    return supervision->outcome.how != CLI_ENDED || supervision->run->sweep;
}

/* The child is not collected yet, so that the id of its group cannot be another's. */
static void end_the_rest(struct supervision *supervision)
{
    if (supervision->lost && supervision->outcome.how != CLI_ENDED_LOST) {
        supervision->outcome.how = CLI_ENDED_LOST;
        cli_message("the lease of '%s' was lost before the command ended",
                    supervision->run->lease.mutex);
    }
    if (!sweeps(supervision))
        return;
    if (supervision->outcome.how == CLI_ENDED && cli_child_leaves_others(&supervision->child))
        cli_message("the command has left processes running: killing them");
    if (cli_child_sweep(&supervision->child))
        cli_message("processes of the command cannot be killed: they may go on without '%s'",
                    supervision->run->lease.mutex);
}

static int ending_status(const struct supervision *supervision, int status)
{
    if (supervision->outcome.how == CLI_ENDED_LOST)
        return CLI_EXIT_LOST;
    return supervision->outcome.how == CLI_ENDED_OVERDUE ? CLI_EXIT_OVERDUE : status;
}

/* It holds for all runs of this process, so that one word is enough. */
static void warn_of_unlisted(const struct supervision *supervision)
{
    static bool warned;

    if (!warned)
        cli_message(
            "warning: processes that the command has left cannot be found without /proc: they "
            "may go on without '%s'",
            supervision->run->lease.mutex);
    warned = true;
}

static void conclude(struct supervision *supervision)
{
    refresh_end(supervision);
    end_the_rest(supervision);
    int status = cli_child_collect(&supervision->child);
    if (sweeps(supervision) && cli_child_leaves_unlisted(&supervision->child))
        warn_of_unlisted(supervision);
    supervision->outcome.status = ending_status(supervision, status);
    if (supervision->child.failed && supervision->outcome.how == CLI_ENDED)
        supervision->outcome.how = CLI_ENDED_NOT_STARTED;
}

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

/* Nobody renews the lease meanwhile, and the guardian does not stop. What was said has to be out
 * before; who has been continued meanwhile must not stop after that. Where there is no shell to
 * continue them, the command goes on at once. */
static void stop_with_child(struct supervision *supervision)
{
    report_stopped(supervision);
    if (cli_signal_is_pending(SIGCONT) || cli_child_follow_stop(&supervision->child))
        return;
    cli_message("not stopped: there is no shell that could continue it");
    cli_child_continue(&supervision->child);
}

/* What the kernel does with a job that nobody will continue. Who takes that lightly would stop
 * again for ever. */
static void hang_up(struct supervision *supervision)
{
    cli_message("the command waits for the terminal, which nobody can give it: hanging up");
    pass_signal(supervision, SIGHUP);
    cli_child_signal(&supervision->child, SIGCONT);
    note_asked(supervision, CLI_ENDED_TOLD, supervision->run->lease.grace_ms);
}

/* Another simba, around this one or in its pipeline, gives the terminal as soon as it is asked for
 * by the stop; a shell does not. So the first stop is a short one, and the command then asks once
 * more: only who is stopped a second time stays so, and is told what that means. */
static void stop_for_terminal(struct supervision *supervision)
{
    int64_t begun_ms = simba_now_ms();
    bool stays = supervision->unheard;

    if (stays)
        report_stopped(supervision);
    if (cli_signal_is_pending(SIGCONT))
        return;
    if (!cli_child_ask_for_terminal(stays ? SIMBA_INFINITE : ASK_MS))
        hang_up(supervision);
    supervision->unheard = !stays && simba_now_ms() - begun_ms >= ASK_MS;
}

/* Others of the job, and this process, do not stop for a command that is not to have the
 * terminal. */
static void follow_stop(struct supervision *supervision, enum cli_child_event event)
{
    if (event == CLI_CHILD_WAITS && supervision->child.withheld)
        hang_up(supervision);
    else if (event == CLI_CHILD_WAITS)
        stop_for_terminal(supervision);
    else
        stop_with_child(supervision);
}

static void supervise(struct supervision *supervision)
{
    for (;;) {
        /* First the lease: after a stop of this process it may be over, and then the child must not
         * be continued. */
        check_time(supervision);
        if (supervision->phase == PHASE_UNKILLABLE) {
            cli_child_sweep(&supervision->child);
            cli_child_abandon(&supervision->child);
            supervision->outcome.how = CLI_ENDED_LOST;
            supervision->outcome.status = CLI_EXIT_LOST;
            return;
        }
        enum cli_child_event event = cli_child_look(&supervision->child);
        if (event == CLI_CHILD_ENDED) {
            conclude(supervision);
            return;
        }
        if (event == CLI_CHILD_WAITS && cli_child_lend_terminal(&supervision->child))
            continue;
        if (event != CLI_CHILD_RUNS && supervision->phase == PHASE_RUNS) {
            follow_stop(supervision, event);
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

    if (cli_child_start(&supervision.child, run->command, &run->setup)) {
        supervise(&supervision);
    } else {
        supervision.outcome.how = CLI_ENDED_NOT_STARTED;
        supervision.outcome.status = cli_fail_system("cannot start a process");
    }
    return supervision.outcome;
}
