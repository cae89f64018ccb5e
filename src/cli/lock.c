/*
 * lock.c - `simba lock`: runs a command while holding a mutex.
 *
 * The wait for the mutex is on a thread of its own; the main thread listens to signals meanwhile,
 * and is the one that forks the command.
 */
#include "base/alloc.h"
#include "base/check.h"
#include "base/time.h"
#include "cli/background.h"
#include "cli/cli.h"
#include "cli/contest.h"
#include "cli/events.h"
#include "cli/metrics_file.h"
#include "cli/once.h"
#include "cli/store.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CODE_UNSET (-1)

/* Threads of the library may use it until the program has ended. */
static struct lock {
    struct cli_job job;
    struct cli_contest contest;
    struct cli_once once;
    const char *metrics_file; /* NULL: none */
    struct cli_metrics_run metrics;
    bool all;                                            /* NAME is a list, up to "--" */
    char fences[SIMBA_SET_MAX * (SIMBA_MUTEX_MAX + 24)]; /* "a=12 b=7" */
    int64_t acquired_ms;
    struct cli_outcome outcome; /* of the command, before the mutex is released */
    bool gone; /* the release found that the lease was lost; read when that has ended */
} this_lock = {
    .job = CLI_JOB_INIT(SIMBA_INFINITE),
    .contest = {.hands_over = true, .contended_code = CODE_UNSET, .decided = ATOMIC_FLAG_INIT},
    .outcome = {.how = CLI_ENDED_NOT_STARTED},
};

static const struct cli_option options[] = {
    {'n', "no-wait", NULL, "give up at once if another contender holds the mutex",
     CLI_FLAG(struct lock, contest.try_once)},
    {'w', "wait", "DURATION",
     "give up if the mutex was not acquired in this time;\na plain number is seconds",
     CLI_SECONDS(struct cli_job, wait_ms)},
    {'E', "contended-code", "CODE",
     "exit code if another contender holds the mutex, 0 to 255\n"
     "(75; with --once-per 0)",
     CLI_NUMBER(struct lock, contest.contended_code, 0, 255)},
    {0, "slots", "N", "let N commands run at a time; each finds its SIMBA_SLOT, from 0",
     CLI_NUMBER(struct cli_job, slots, 1, SIMBA_SLOTS_MAX)},
    {0, "all", NULL, "hold all of the mutexes NAME... in front of '--', or none",
     CLI_FLAG(struct lock, all)},
    {0, "no-hold", NULL, "with --all: keep none of them while waiting for another",
     CLI_FLAG(struct lock, contest.no_hold)},
    {0, "once-per", "DURATION", "do not run COMMAND if a machine has run it within this time",
     CLI_INTERVAL(struct lock, once.period_ms)},
    {0, "retry-failed", NULL, "with --once-per: a run that failed does not count",
     CLI_FLAG(struct lock, once.retry_failed)},
    {0, "hold-at-least", "DURATION", "keep the mutex for that time, also after COMMAND ended",
     CLI_DURATION(struct lock, job.hold_at_least_ms)},
    {0, "hold-at-most", "DURATION", "stop COMMAND after that time (exit code 124)",
     CLI_INTERVAL(struct lock, job.hold_at_most_ms)},
    {0, "metrics-file", "PATH", "write metrics for the textfile collector of node_exporter",
     CLI_TEXT(struct lock, metrics_file)},
    {0, "leave-running", NULL, "do not kill what COMMAND leaves running when it ends",
     CLI_FLAG(struct lock, job.leave_running)},
    CLI_OPTIONS_END,
};

/* ---- Winning --------------------------------------------------------------------------------- */

/* On the threads that wait for the store: a disk that hangs must not keep the main thread from the
 * lease. */
static void write_metrics(struct lock *lock, bool ended)
{
    struct cli_metrics_run *run = &lock->metrics;

    if (lock->metrics_file == NULL)
        return;
    if (ended)
        run->ended_ms = simba_wall_ms(simba_now_ms());
    run->exit_code = lock->gone ? CLI_EXIT_LOST : lock->outcome.status;
    cli_metrics_file_write(lock->metrics_file, run);
}

static void note_start(struct lock *lock, const simba_locker *locker)
{
    int64_t now_ms = simba_now_ms();

    lock->metrics = (struct cli_metrics_run){.mutex = lock->job.mutex,
                                             .fence = simba_locker_fence(locker),
                                             .waited_ms = now_ms - lock->contest.started_ms,
                                             .started_ms = simba_wall_ms(now_ms)};
}

/* By the owner. With --once-per nothing runs without the record of runs. */
static int begin_command(struct cli_contest *contest, simba_locker *locker)
{
    struct lock *lock = SB_CONTAINER(struct lock, contest, contest);
    struct cli_job *job = &lock->job;
    struct simba_error ignored; /* the first one is told */
    int code;

    note_start(lock, locker);
    if (lock->once.period_ms == 0) {
        write_metrics(lock, false);
        return SIMBA_OK;
    }
    code =
        cli_once_begin(&lock->once, job->client, job->mutex, simba_locker_id(locker), &job->error);
    if (code != SIMBA_OK)
        simba_locker_release(locker, &ignored);
    else if (!lock->once.done)
        write_metrics(lock, false);
    return code;
}

/* ---- Releasing ------------------------------------------------------------------------------- */

/* On a thread of its own. The command has ended, so a failure is only a warning. */
static void release(void *user)
{
    struct lock *lock = user;
    const struct cli_job *job = &lock->job;
    struct simba_error error;

    cli_once_end(&lock->once, job->client, job->mutex, simba_locker_id(lock->contest.locker),
                 &lock->outcome);
    int code = simba_locker_release(lock->contest.locker, &error);
    lock->gone = simba_error_group(code) == SIMBA_GROUP_LOST;
    if (code != SIMBA_OK && !lock->gone && lock->job.cli->log_level >= SIMBA_LOG_WARN)
        cli_message("warning: '%s' was not released; it becomes free when its lease ends: %s",
                    lock->job.mutex, error.text);
    if (!lock->once.done)
        write_metrics(lock, true);
}

/* The library bounds the release. A store that has not renewed the lease in time gets less time;
 * when that is over the program ends with `status`. */
static void give_back(struct lock *lock, int status)
{
    bool runs_out = cli_job_runs_out(&lock->job, simba_locker_deadline_ms(lock->contest.locker));
    struct cli_finish finish = {.run = release,
                                .user = lock,
                                .held = cli_job_held(&lock->job),
                                .limit_ms = runs_out ? CLI_PATIENCE_MS : SIMBA_INFINITE,
                                .meanwhile = cli_guardian_collect};

    cli_background_finish(&finish, lock->job.events.signals_fd, status);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int64_t locker_deadline(void *locker)
{
    return simba_locker_deadline_ms(locker);
}

static bool locker_is_asked(void *locker)
{
    return simba_locker_handover_asked(locker, NULL);
}

static struct cli_lease lease_of(const struct lock *lock)
{
    const struct cli_job *job = &lock->job;

    return (struct cli_lease){.mutex = job->mutex,
                              .deadline_ms = locker_deadline,
                              .user = lock->contest.locker,
                              .is_asked = locker_is_asked,
                              .wake_fd = lock->contest.wake_fd,
                              .grace_ms = job->grace_ms,
                              .reserve_ms = job->reserve_ms};
}

/* The tokens of a set, for the command. */
static const char *write_fences(struct lock *lock)
{
    const struct cli_job *job = &lock->job;
    size_t used = 0;

    if (job->names_count == 0)
        return NULL;
    for (size_t i = 0; i < job->names_count; i++)
        used += (size_t)snprintf(
            lock->fences + used, sizeof lock->fences - used, "%s%s=%llu", i > 0 ? " " : "",
            job->names[i],
            (unsigned long long)simba_locker_fence_of(lock->contest.locker, job->names[i]));
    SB_CHECK(used < sizeof lock->fences, "there is room for the token of each mutex");
    return lock->fences;
}

/* The second word may have been meant as a name. */
static void point_to_all(const struct cli_job *job)
{
    char **word = job->command;

    while (*word != NULL && strcmp(*word, "--") != 0)
        word++;
    if (*word != NULL && !cli_job_is_group(job))
        cli_message("if '%s' is a mutex, too: simba lock --all takes several, NAME... -- COMMAND",
                    job->command[0]);
}

static struct cli_outcome run_command(struct lock *lock)
{
    const struct cli_job *job = &lock->job;

    SB_CHECK(lock->contest.locker != NULL && lock->contest.code == SIMBA_OK,
             "a command runs under a mutex");
    if (simba_now_ms() >=
        simba_locker_deadline_ms(lock->contest.locker)) { /* this process stood still */
        cli_message("the lease of '%s' was lost before the command started", job->mutex);
        return (struct cli_outcome){.how = CLI_ENDED_LOST, .status = CLI_EXIT_LOST};
    }
    uint64_t fence = simba_locker_fence(lock->contest.locker);
    cli_line_about_fence(fence);
    struct cli_lease lease = lease_of(lock);
    struct cli_run run = cli_job_run(job, simba_locker_id(lock->contest.locker), fence, &lease);

    run.setup.fences = write_fences(lock);
    run.setup.slot = simba_locker_slot(lock->contest.locker);

    cli_notify_status("holding '%s', fence %llu", job->mutex, (unsigned long long)fence);
    cli_notify_ready();
    struct cli_outcome outcome = cli_supervise(&run);
    if (outcome.how == CLI_ENDED_NOT_STARTED && outcome.status == CLI_EXIT_NOT_FOUND)
        point_to_all(job);
    return outcome;
}

/* Holds the mutex for the rest of --hold-at-least, but not after a signal that told the command to
 * end. Other signals that came for the command are dropped. */
static void keep_minimum(const struct lock *lock, struct cli_outcome *outcome)
{
    bool told = cli_events_drain(&lock->job.events) != 0 || outcome->signal != 0;
    int64_t until_ms = sb_later(lock->acquired_ms, lock->job.hold_at_least_ms);
    struct cli_lease lease = lease_of(lock);

    if (outcome->how != CLI_ENDED || told)
        return;
    if (until_ms > simba_now_ms())
        cli_guardian_collect();
    if (!cli_job_hold(&lock->job, &lease, until_ms))
        *outcome = (struct cli_outcome){.how = CLI_ENDED_LOST, .status = CLI_EXIT_LOST};
}

/* ---- The end --------------------------------------------------------------------------------- */

static void close_all(void *user)
{
    const struct lock *lock = user;

    simba_locker_close(lock->contest.locker);
    cli_store_close(lock->job.client);
}

static int work(struct lock *lock)
{
    lock->acquired_ms = simba_now_ms();
    if (lock->once.done) {
        if (!lock->job.cli->quiet)
            cli_once_report(&lock->once, lock->job.mutex);
        give_back(lock, CLI_EXIT_OK);
        return CLI_EXIT_OK;
    }
    cli_job_fit(&lock->job, simba_locker_window_ms(lock->contest.locker));
    struct cli_outcome outcome = run_command(lock);
    lock->outcome = outcome;
    keep_minimum(lock, &outcome);
    if (outcome.how == CLI_ENDED_HANDOVER && !lock->job.cli->quiet)
        cli_message("the command has ended: handing '%s' over", lock->job.mutex);
    cli_notify_stopping();
    give_back(lock, outcome.status);
    if (!lock->gone || outcome.how == CLI_ENDED_LOST)
        return outcome.status;
    cli_message("'%s' was lost before the command ended: another process may have run meanwhile",
                lock->job.mutex);
    return CLI_EXIT_LOST;
}

static int run_lock(struct lock *lock)
{
    struct cli_events *events = &lock->job.events;

    if (!cli_events_open(events))
        return cli_fail_system("events");
    int status = cli_contest_run(&lock->contest);
    if (status == CLI_CONTINUE)
        status = work(lock);
    else if (lock->contest.code == SIMBA_OK && atomic_load(&lock->contest.locker) != NULL)
        give_back(lock, status);
    struct cli_finish finish = {.run = close_all, .user = lock, .limit_ms = CLI_PATIENCE_MS};
    if (!cli_store_is_file())
        cli_background_finish(&finish, events->signals_fd, status);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct lock *lock = &this_lock;

    (void)argc;
    lock->contest.started_ms = simba_now_ms();
    if (lock->contest.try_once && lock->job.wait_ms != SIMBA_UNSET)
        return cli_usage_error(cli, "--no-wait and --wait exclude each other");
    if (lock->once.retry_failed && lock->once.period_ms == 0)
        return cli_usage_error(cli, "--retry-failed needs --once-per");
    if (lock->once.period_ms != 0 && lock->job.hold_at_least_ms != 0)
        return cli_usage_error(cli, "--once-per and --hold-at-least exclude each other");
    if (lock->all && lock->job.slots > 0)
        return cli_usage_error(cli, "--all and --slots exclude each other");
    if (lock->contest.no_hold && !lock->all)
        return cli_usage_error(cli, "--no-hold needs --all");
    if (lock->once.period_ms != 0 && (lock->all || lock->job.slots > 0))
        return cli_usage_error(cli, "--once-per is for one mutex, without --all and --slots");
    if (lock->contest.contended_code == CODE_UNSET)
        lock->contest.contended_code = lock->once.period_ms != 0 ? CLI_EXIT_OK : CLI_EXIT_CONTENDED;
    lock->contest.try_once = lock->contest.try_once || lock->job.wait_ms == 0;
    lock->contest.job = &lock->job;
    lock->contest.tells_contended = lock->once.period_ms != 0;
    lock->contest.on_won = begin_command;
    lock->job.terminal = true;
    int status = cli_job_prepare(&lock->job, cli, argv);
    return status == CLI_CONTINUE ? run_lock(lock) : status;
}

static const char details[] =
    "Runs COMMAND while holding the mutex NAME, and releases the mutex when COMMAND\n"
    "ends. Without -n or -w simba waits for its turn without a limit. A signal ends\n"
    "the wait; a second one does not wait for the store. -w includes the time to\n"
    "reach the store: one that is down is tried again until then. If it cannot be\n"
    "reached when the wait ends, the exit code is 69, whatever -E says.\n"
    "\n"
    "COMMAND finds SIMBA_MUTEX, SIMBA_CONTENDER_ID and SIMBA_FENCE in its\n"
    "environment. The fence is a number that grows with every owner: storage that\n"
    "refuses smaller ones than it has seen is safe from late writes. The process\n"
    "group of COMMAND gets every signal that simba gets. When simba cannot renew the\n"
    "lease, the group gets SIGTERM, and SIGKILL before another contender can own the\n"
    "mutex. SIGKILL follows after a third of the transition, at most 5s. -k changes\n"
    "that, up to half of the transition. When simba is killed, so is the process\n"
    "group. What COMMAND leaves running when it ends, daemons included, is killed\n"
    "before the release; --leave-running lets it go on without the mutex. Stopped by\n"
    "Ctrl-Z, simba renews nothing: COMMAND is killed unless it is continued before\n"
    "the lease ends.\n"
    "--hold-at-least keeps the mutex after a short job, so that machines whose clocks\n"
    "differ a little do not run it twice; simba stays for that, and a signal ends it.\n"
    "--hold-at-most stops a job that takes too long, with SIGTERM and SIGKILL as\n"
    "above. Under systemd (Type=notify) simba is ready when COMMAND starts.\n"
    "\n"
    "--once-per is for a job that cron starts on several machines: the first one runs\n"
    "it, and the others say which one did and exit with 0. The store remembers when\n"
    "COMMAND last began, by its own clock, how it ended and on which machine. A run\n"
    "counts for nine tenths of the period, so a daily job with --once-per 24h may\n"
    "start two hours early. A run that failed counts, unless with --retry-failed. A\n"
    "run that was stopped, or whose machine died, does not. A machine that finds\n"
    "another at work waits for it, and runs COMMAND if that one dies. -n does not\n"
    "wait. Cron mails what simba says; -q says nothing.\n"
    "\n"
    "--metrics-file is for a job that Prometheus should know of: PATH, in the folder\n"
    "of node_exporter's textfile collector, is replaced when COMMAND starts and when\n"
    "it has ended.\n"
    "\n"
    "--slots makes NAME a semaphore: N commands at most run at a time, and those that\n"
    "wait get a slot in the order in which they came. The store remembers N, and\n"
    "refuses another one; 'simba semaphore resize' changes it. --all takes several\n"
    "names, up to '--', and holds all of them or none; -w is for all together. It\n"
    "takes them in the order of their names, so two such commands never wait for each\n"
    "other in a circle. COMMAND finds their fences in SIMBA_FENCES, as 'a=12 b=7'.\n"
    "When one of them is lost, COMMAND is stopped as above.\n"
    "\n"
    "What runs as another user cannot be killed: write 'sudo simba lock', not\n"
    "'-- sudo COMMAND'. If such a process is left, simba does not release the mutex,\n"
    "and exits with 70.\n"
    "\n"
    "Examples:\n"
    "  simba lock backup -- ./backup.sh --full\n"
    "  simba lock -n nightly -- make report || echo 'another host makes it'\n"
    "  simba -q lock --once-per 24h nightly -- ./report.sh # on each machine\n"
    "  # from cron: exit 0 if another host holds the lock, 69 if the store is down\n"
    "  simba lock -n -E 0 deploy -- ./deploy.sh\n"
    "  simba lock --slots 3 render -- sh -c './render --gpu $SIMBA_SLOT'\n"
    "  simba lock --all -w 1m alice bob -- ./transfer alice bob 100\n"
    "  simba lock import -- sh -c 'load-data --fence \"$SIMBA_FENCE\"'\n"
    "\n"
    "Exit codes:\n"
    "  that of COMMAND, or 128 and the number of the signal that killed it or ended\n"
    "  the wait\n"
    "  64  the command line is wrong         75   not acquired (see -E)\n"
    "  69  the store is unreachable          77   the store refused the credentials\n"
    "  70  the lease was lost (see above)    78   a URL, name or timing is invalid\n"
    "  71  out of memory, processes or       124  --hold-at-most stopped COMMAND\n"
    "      descriptors                       126  COMMAND cannot be executed\n"
    "                                        127  COMMAND was not found";

const struct cli_verb cli_verb_lock = {
    .name = "lock",
    .usage = "lock [OPTION...] NAME [--] COMMAND [ARGUMENT...]\n"
             "       simba lock --all [OPTION...] NAME... -- COMMAND [ARGUMENT...]",
    .summary = "run a command while holding a mutex",
    .details = details,
    .options = options,
    .shared = cli_job_options,
    .into = &this_lock,
    .operands = CLI_OPERANDS_COMMAND,
    .all_operands = &this_lock.all,
    .run = run,
};
