/*
 * lock.c - `simba lock`: runs a command while holding a mutex.
 *
 * The wait for the mutex is on a thread of its own; the main thread listens to signals meanwhile,
 * and is the one that forks the command.
 */
#include "base/check.h"
#include "base/time.h"
#include "cli/background.h"
#include "cli/cli.h"
#include "cli/events.h"
#include "cli/job.h"
#include "cli/once.h"
#include "cli/progress.h"
#include "cli/store.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How often a wait is cancelled until it ends: a cancel that comes before the wait is lost. */
#define CANCEL_INTERVAL_MS 10

/* How long warnings are held back at the start: an error that ends the wait at once is printed
 * without a warning that says the same. */
#define HOLD_BACK_MS 500

/* How long the store gets to answer when a wait is over. */
#define ANSWER_MS 1000

#define CODE_UNSET (-1)

/* Threads of the library may use it until the program has ended. */
static struct lock {
    struct cli_job job;
    struct cli_once once;
    bool try_once;
    int contended_code; /* CODE_UNSET: not given */
    int64_t started_ms;
    int64_t acquired_ms;
    int lost_fd; /* readable when the lease was lost */
    struct cli_progress progress;

    /* Set by the waiting thread before it asks for the mutex, or by the main thread that ends the
     * program before that: the one that comes second does not do it. */
    atomic_flag decided;

    /* Written by the waiting thread. The main thread reads `code` only after it has ended. */
    _Atomic(simba_locker *) locker;
    int code;
    struct cli_outcome outcome; /* of the command, before the mutex is released */
    bool gone; /* the release found that the lease was lost; read when that has ended */
} this_lock = {
    .job = CLI_JOB_INIT(SIMBA_INFINITE),
    .contended_code = CODE_UNSET,
    .outcome = {.how = CLI_ENDED_NOT_STARTED},
    .decided = ATOMIC_FLAG_INIT,
};

static const struct cli_option options[] = {
    {'n', "no-wait", NULL, "give up at once if another contender holds the mutex",
     CLI_FLAG(struct lock, try_once)},
    {'w', "wait", "DURATION",
     "give up if the mutex was not acquired in this time;\na plain number is seconds",
     CLI_SECONDS(struct cli_job, wait_ms)},
    {'E', "contended-code", "CODE",
     "exit code if another contender holds the mutex, 0 to 255\n"
     "(75; with --once-per 0)",
     CLI_NUMBER(struct lock, contended_code, 0, 255)},
    {0, "once-per", "DURATION", "do not run COMMAND if a machine has run it within this time",
     CLI_INTERVAL(struct lock, once.period_ms)},
    {0, "retry-failed", NULL, "with --once-per: a run that failed does not count",
     CLI_FLAG(struct lock, once.retry_failed)},
    {0, "hold-at-least", "DURATION", "keep the mutex for that time, also after COMMAND ended",
     CLI_DURATION(struct lock, job.hold_at_least_ms)},
    {0, "hold-at-most", "DURATION", "stop COMMAND after that time (exit code 124)",
     CLI_INTERVAL(struct lock, job.hold_at_most_ms)},
    {0, "leave-running", NULL, "do not kill what COMMAND leaves running when it ends",
     CLI_FLAG(struct lock, job.leave_running)},
    CLI_OPTIONS_END,
};

/* ---- The waiting thread ---------------------------------------------------------------------- */

static void on_lost(void *user)
{
    eventfd_write(((struct lock *)user)->lost_fd, 1);
}

static int acquire_mutex(struct lock *lock, simba_locker *locker, int64_t until_ms)
{
    struct simba_error *error = &lock->job.error;

    if (lock->try_once)
        return simba_locker_try_acquire(locker, error);
    if (lock->job.wait_ms == SIMBA_UNSET)
        return simba_locker_acquire(locker, error);
    return simba_locker_acquire_timeout(locker, sb_time_left(until_ms, simba_now_ms()), error);
}

/* With --once-per, by the owner. Without the record of runs nothing runs. */
static int begin_period(struct lock *lock, simba_locker *locker)
{
    struct cli_job *job = &lock->job;
    struct simba_error ignored; /* the first one is told */
    int code;

    if (lock->once.period_ms == 0)
        return SIMBA_OK;
    code =
        cli_once_begin(&lock->once, job->client, job->mutex, simba_locker_id(locker), &job->error);
    if (code != SIMBA_OK)
        simba_locker_release(locker, &ignored);
    return code;
}

/* A store that is down when a bounded wait begins may be up before it ends. */
static int open_and_acquire(struct lock *lock)
{
    struct cli_job *job = &lock->job;
    struct simba_locker_options wanted = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;
    bool bounded = cli_job_is_bounded(job);
    int64_t until_ms = bounded ? sb_later(lock->started_ms, job->wait_ms) : 0;

    int code = cli_job_open(job, until_ms);
    if (code == SIMBA_OK && !lock->try_once && cli_job_is_nested())
        code = cli_job_check(job);
    if (code != SIMBA_OK)
        return code;
    wanted.mutex = job->mutex;
    wanted.id = job->id;
    wanted.on_lost = on_lost;
    wanted.user = lock;
    wanted.fail_fast = !bounded;
    wanted.fail_fast_unknown = cli_store_is_file();
    code = simba_locker_create(job->client, &wanted, &locker, &job->error);
    if (code != SIMBA_OK)
        return code;
    atomic_store(&lock->locker, locker);
    if (atomic_flag_test_and_set(&lock->decided))
        return SIMBA_ECANCELED;
    code = acquire_mutex(lock, locker, until_ms);
    return code == SIMBA_OK ? begin_period(lock, locker) : code;
}

static void wait_for_mutex(void *user)
{
    struct lock *lock = user;

    lock->code = open_and_acquire(lock);
}

/* ---- Releasing ------------------------------------------------------------------------------- */

/* On a thread of its own. The command has ended, so a failure is only a warning. */
static void release(void *user)
{
    struct lock *lock = user;
    const struct cli_job *job = &lock->job;
    struct simba_error error;

    cli_once_end(&lock->once, job->client, job->mutex, simba_locker_id(lock->locker),
                 &lock->outcome);
    int code = simba_locker_release(lock->locker, &error);
    lock->gone = simba_error_group(code) == SIMBA_GROUP_LOST;
    if (code != SIMBA_OK && !lock->gone && lock->job.cli->log_level >= SIMBA_LOG_WARN)
        cli_message("warning: '%s' was not given back and is free when its lease ends: %s",
                    lock->job.mutex, error.text);
}

/* The library bounds the release. A store that has not renewed the lease in time gets less time;
 * when that is over the program ends with `status`. */
static void give_back(struct lock *lock, int status)
{
    bool runs_out = cli_job_runs_out(&lock->job, simba_locker_deadline_ms(lock->locker));
    struct cli_finish finish = {.run = release,
                                .user = lock,
                                .held = cli_job_held(&lock->job),
                                .limit_ms = runs_out ? CLI_PATIENCE_MS : SIMBA_INFINITE,
                                .meanwhile = cli_guardian_collect};

    cli_background_finish(&finish, lock->job.events.signals_fd, status);
}

/* ---- The main thread while it waits ---------------------------------------------------------- */

/* Ends the wait. The program ends at once while the store is being opened, since nothing can be on
 * it; at a second signal; and when the store does not answer: what that may have granted runs
 * out. */
static void cancel_wait(struct lock *lock, struct cli_background *wait, int signal)
{
    int64_t until_ms = simba_now_ms() + CLI_PATIENCE_MS;
    int ended;

    if (!atomic_flag_test_and_set(&lock->decided))
        cli_background_leave(cli_signals_ended_by(signal));
    wait->ends = cli_signal_insists;
    do {
        simba_locker_cancel(atomic_load(&lock->locker));
        ended = cli_background_wait(wait, lock->job.events.signals_fd, CANCEL_INTERVAL_MS);
    } while (ended == CLI_BACKGROUND_LATE && simba_now_ms() < until_ms);
    if (ended != CLI_BACKGROUND_DONE)
        cli_background_leave(cli_signals_ended_by(ended > 0 ? ended : signal));
}

/* When the main thread ends a bounded wait. An attempt to open the store may take any time; with an
 * open store the library ends the wait, and a store that hangs makes it a little late. */
static int64_t wait_end_ms(const struct lock *lock)
{
    bool opened = atomic_load(&lock->locker) != NULL;

    if (!cli_job_is_bounded(&lock->job))
        return SIMBA_INFINITE;
    return sb_later(sb_later(lock->started_ms, lock->job.wait_ms),
                    opened ? CLI_PATIENCE_MS : CLI_JOB_REOPEN_MS);
}

/* "'m' was not acquired in 30s: WHY" */
static void report_not_acquired(const struct lock *lock, const char *why)
{
    char wait[32];

    if (cli_job_is_bounded(&lock->job))
        cli_message("'%s' was not acquired in %s: %s", lock->job.mutex,
                    simba_duration_format(lock->job.wait_ms, wait, sizeof wait), why);
    else
        cli_message("'%s' was not acquired: %s", lock->job.mutex, why);
}

/* The error without its opening "cannot acquire 'm': ", which the message has anyway. */
static const char *reason_of(const struct lock *lock)
{
    char opening[SIMBA_MUTEX_MAX + 32];
    int length = snprintf(opening, sizeof opening, "cannot acquire '%s': ", lock->job.mutex);
    const char *text = lock->job.error.text;

    return strncmp(text, opening, (size_t)length) == 0 ? text + length : text;
}

/* The wait ran out, and the store did not answer at its end. That is no contention, so -E does not
 * count. `why` NULL: the store has not answered at all. */
static int report_unreachable(const struct lock *lock, const char *why)
{
    char text[sizeof lock->job.error.text + 64];

    snprintf(text, sizeof text, "the store could not be reached%s%s", why != NULL ? ": " : "",
             why != NULL ? why : "");
    report_not_acquired(lock, text);
    return CLI_EXIT_UNAVAILABLE;
}

/* A waiter sends nothing while another's lease lasts: the store may have died since it named the
 * owner. Otherwise it says what is true of the owner now. */
static bool store_answers(const struct lock *lock, struct simba_owner *owner,
                          struct simba_error *error)
{
    struct simba_mutex_status *list = NULL;
    size_t count = 0;

    int code =
        simba_client_status(lock->job.client, lock->job.mutex, ANSWER_MS, &list, &count, error);
    if (code == SIMBA_OK && count > 0 && list->owner.id[0] != 0)
        *owner = list->owner;
    simba_free(list);
    return simba_error_group(code) != SIMBA_GROUP_UNAVAILABLE &&
           simba_error_group(code) != SIMBA_GROUP_CONTENDED;
}

/* With -E 0 it is no failure and nothing is printed: cron would send a mail. */
static int report_contended(struct lock *lock)
{
    bool wanted = lock->contended_code != CLI_EXIT_OK || lock->once.period_ms != 0 ||
                  lock->job.cli->log_level >= SIMBA_LOG_INFO;
    struct simba_owner owner = SIMBA_OWNER_NONE;
    struct simba_error error;
    char owned[CLI_PROGRESS_OWNER_MAX];

    if (atomic_load(&lock->locker) != NULL)
        simba_locker_owner(lock->locker, &owner);
    if (cli_job_is_bounded(&lock->job) && !store_answers(lock, &owner, &error))
        return report_unreachable(lock, error.text);
    if (!wanted || lock->job.cli->quiet)
        return lock->contended_code;
    cli_progress_describe(&lock->progress, &owner, owned, sizeof owned);
    if (owner.id[0] != 0)
        report_not_acquired(lock, owned);
    else
        cli_message("%s", lock->job.error.text);
    return lock->contended_code;
}

/* How long to wait until there is something to show, or the wait ends; at most `limit_ms`. */
static int64_t slice_ms(const struct lock *lock, int64_t limit_ms)
{
    int64_t until_ms = sb_earlier(wait_end_ms(lock), cli_progress_next_ms(&lock->progress));

    return sb_earlier(sb_time_left(until_ms, simba_now_ms()), limit_ms);
}

static int wait_while_telling(struct lock *lock, struct cli_background *wait)
{
    int signals_fd = lock->job.events.signals_fd;
    int64_t held_back_ms = lock->try_once ? SIMBA_INFINITE : HOLD_BACK_MS;
    int ended = cli_background_wait(wait, signals_fd, slice_ms(lock, held_back_ms));

    if (ended == CLI_BACKGROUND_LATE)
        cli_message_print_held(NULL);
    while (ended == CLI_BACKGROUND_LATE && simba_now_ms() < wait_end_ms(lock)) {
        struct simba_owner owner = SIMBA_OWNER_NONE;
        int64_t place = 0;
        if (atomic_load(&lock->locker) != NULL) {
            simba_locker_owner(lock->locker, &owner);
            place = simba_locker_place(lock->locker);
        }
        cli_progress_show(&lock->progress, &owner, place);
        ended = cli_background_wait(wait, signals_fd, slice_ms(lock, SIMBA_INFINITE));
    }
    cli_progress_end(&lock->progress);
    return ended;
}

/* The result of the wait: CLI_CONTINUE, or an exit code. */
static int conclude(struct lock *lock)
{
    enum simba_error_group group = simba_error_group(lock->code);
    bool is_told = group != SIMBA_GROUP_NONE && group != SIMBA_GROUP_CONTENDED;

    cli_message_print_held(is_told ? lock->job.error.text : NULL);
    if (group == SIMBA_GROUP_NONE)
        return CLI_CONTINUE;
    if (group == SIMBA_GROUP_CONTENDED)
        return report_contended(lock);
    if (lock->code == SIMBA_EUNAVAILABLE && cli_job_is_bounded(&lock->job))
        return report_unreachable(lock, reason_of(lock));
    if (!cli_job_is_bounded(&lock->job) || atomic_load(&lock->locker) == NULL ||
        (lock->code != SIMBA_ESTORE && lock->code != SIMBA_EUNKNOWN))
        return cli_fail(&lock->job.error);
    /* The store was reached, and failed until the end of the wait: a full disk, say. */
    report_not_acquired(lock, reason_of(lock));
    return CLI_EXIT_UNAVAILABLE;
}

static int acquire(struct lock *lock)
{
    struct cli_background wait;

    cli_progress_begin(&lock->progress, lock->job.mutex, lock->job.cli->quiet || lock->try_once);
    cli_message_hold_warnings();
    if (!cli_background_start(&wait, wait_for_mutex, lock))
        return cli_fail_system("cannot start a thread");
    int ended = wait_while_telling(lock, &wait);
    if (ended == CLI_BACKGROUND_LATE) {
        atomic_flag_test_and_set(&lock->decided);
        cli_background_leave(report_unreachable(lock, NULL));
    }
    if (ended != CLI_BACKGROUND_DONE) {
        cli_message_print_held(NULL);
        cancel_wait(lock, &wait, ended);
        if (lock->code == SIMBA_OK) /* the mutex and the signal came together */
            give_back(lock, CLI_EXIT_SIGNAL + ended);
        return cli_signals_ended_by(ended);
    }
    return conclude(lock);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int64_t locker_deadline(void *locker)
{
    return simba_locker_deadline_ms(locker);
}

static struct cli_outcome run_command(const struct lock *lock)
{
    const struct cli_job *job = &lock->job;

    SB_CHECK(lock->locker != NULL && lock->code == SIMBA_OK, "a command runs under a mutex");
    if (simba_now_ms() >= simba_locker_deadline_ms(lock->locker)) { /* this process stood still */
        cli_message("the lease of '%s' was lost before the command started", job->mutex);
        return (struct cli_outcome){.how = CLI_ENDED_LOST, .status = CLI_EXIT_LOST};
    }
    uint64_t fence = simba_locker_fence(lock->locker);
    cli_line_about_fence(fence);
    struct cli_lease lease = {job->mutex,    locker_deadline, lock->locker,
                              lock->lost_fd, job->grace_ms,   job->reserve_ms};
    struct cli_run run = cli_job_run(job, simba_locker_id(lock->locker), fence, &lease);

    cli_notify_status("holding '%s', fence %llu", job->mutex, (unsigned long long)fence);
    cli_notify_ready();
    return cli_supervise(&run);
}

/* Holds the mutex for the rest of --hold-at-least, but not after a signal that told the command to
 * end. Other signals that came for the command are dropped. */
static void keep_minimum(const struct lock *lock, struct cli_outcome *outcome)
{
    bool told = cli_events_drain(&lock->job.events) != 0 || outcome->signal != 0;
    int64_t until_ms = sb_later(lock->acquired_ms, lock->job.hold_at_least_ms);

    if (outcome->how != CLI_ENDED || told)
        return;
    if (until_ms > simba_now_ms())
        cli_guardian_collect();
    if (!cli_job_hold(&lock->job, lock->lost_fd, until_ms))
        *outcome = (struct cli_outcome){.how = CLI_ENDED_LOST, .status = CLI_EXIT_LOST};
}

/* ---- The end --------------------------------------------------------------------------------- */

static void close_all(void *user)
{
    const struct lock *lock = user;

    simba_locker_close(lock->locker);
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
    cli_job_fit(&lock->job, simba_locker_window_ms(lock->locker));
    struct cli_outcome outcome = run_command(lock);
    lock->outcome = outcome;
    keep_minimum(lock, &outcome);
    cli_notify_stopping();
    give_back(lock, outcome.status);
    if (!lock->gone || outcome.how == CLI_ENDED_LOST)
        return outcome.status;
    cli_message("'%s' was no longer ours when the command ended: another process may have run "
                "meanwhile",
                lock->job.mutex);
    return CLI_EXIT_LOST;
}

static int run_lock(struct lock *lock)
{
    struct cli_events *events = &lock->job.events;

    lock->lost_fd = eventfd(0, EFD_CLOEXEC);
    if (lock->lost_fd < 0 || !cli_events_open(events))
        return cli_fail_system("events");
    int status = acquire(lock);
    if (status == CLI_CONTINUE)
        status = work(lock);
    struct cli_finish finish = {.run = close_all, .user = lock, .limit_ms = CLI_PATIENCE_MS};
    if (!cli_store_is_file())
        cli_background_finish(&finish, events->signals_fd, status);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct lock *lock = &this_lock;

    (void)argc;
    lock->started_ms = simba_now_ms();
    if (lock->try_once && lock->job.wait_ms != SIMBA_UNSET)
        return cli_usage_error(cli, "--no-wait and --wait exclude each other");
    if (lock->once.retry_failed && lock->once.period_ms == 0)
        return cli_usage_error(cli, "--retry-failed needs --once-per");
    if (lock->once.period_ms != 0 && lock->job.hold_at_least_ms != 0)
        return cli_usage_error(cli, "--once-per and --hold-at-least exclude each other");
    if (lock->contended_code == CODE_UNSET)
        lock->contended_code = lock->once.period_ms != 0 ? CLI_EXIT_OK : CLI_EXIT_CONTENDED;
    lock->try_once = lock->try_once || lock->job.wait_ms == 0;
    lock->job.terminal = true;
    int status = cli_job_prepare(&lock->job, cli, argv);
    return status == CLI_CONTINUE ? run_lock(lock) : status;
}

static const char details[] =
    "Runs COMMAND while holding the mutex NAME, and releases the mutex when COMMAND ends.\n"
    "Without -n or -w simba waits for its turn without a limit. A signal ends the wait; a second\n"
    "one does not wait for the store. -w includes the time to reach the store: one that is down\n"
    "is tried again until then. If it cannot be reached when the wait ends, the exit code is 69,\n"
    "whatever -E says.\n"
    "\n"
    "COMMAND finds SIMBA_MUTEX, SIMBA_CONTENDER_ID and SIMBA_FENCE in its environment. The fence\n"
    "is a number that grows with every owner: storage that refuses smaller ones than it has\n"
    "seen is safe from late writes. The process group of COMMAND gets every signal that simba\n"
    "gets. When simba cannot renew the lease, the group gets SIGTERM, and SIGKILL before another\n"
    "contender can own the mutex. SIGKILL follows after a third of the transition, at most 5s. -k\n"
    "changes that, up to half of the transition. When simba is killed, so is the process group.\n"
    "What COMMAND leaves running when it ends, daemons included, is killed before the release;\n"
    "--leave-running lets it go on without the mutex. Stopped by Ctrl-Z, simba renews nothing:\n"
    "COMMAND is killed unless it is continued before the lease ends.\n"
    "--hold-at-least keeps the mutex after a short job, so that machines whose clocks differ a\n"
    "little do not run it twice; simba stays for that, and a signal ends it. --hold-at-most stops\n"
    "a job that takes too long, with SIGTERM and SIGKILL as above. Under systemd (Type=notify)\n"
    "simba is ready when COMMAND starts.\n"
    "\n"
    "--once-per is for a job that cron starts on several machines: the first one runs it, and\n"
    "the others say which one did and exit with 0. The store remembers when COMMAND last began,\n"
    "by its own clock, how it ended and on which machine. A run counts for nine tenths of the\n"
    "period, so a daily job with --once-per 24h may start two hours early. A run that failed\n"
    "counts, unless with --retry-failed. A run that was stopped, or whose machine died, does not.\n"
    "A machine that finds another at work waits for it, and runs COMMAND if that one dies. -n\n"
    "does not wait. Cron mails what simba says; -q says nothing.\n"
    "\n"
    "What runs as another user cannot be killed: write 'sudo simba lock', not '-- sudo COMMAND'.\n"
    "If such a process is left, simba does not release the mutex, and exits with 70.\n"
    "\n"
    "Examples:\n"
    "  simba lock backup -- ./backup.sh --full\n"
    "  simba lock -n nightly -- make report || echo 'another host makes it'\n"
    "  simba -q lock --once-per 24h nightly -- ./report.sh      # in the crontab of each machine\n"
    "  # from cron: exit 0 if another host holds the lock, 69 if the store is down\n"
    "  simba lock -n -E 0 deploy -- ./deploy.sh\n"
    "  simba lock import -- sh -c 'load-data --fence \"$SIMBA_FENCE\"'\n"
    "\n"
    "Exit codes:\n"
    "  that of COMMAND, or 128 and the number of the signal that killed it or ended the wait\n"
    "  64  the command line is wrong              75   not acquired (see -E)\n"
    "  69  the store is unreachable               77   the store refused the credentials\n"
    "  70  the lease was lost (see above)         78   a URL, name or timing is invalid\n"
    "  71  out of memory, processes or            124  --hold-at-most stopped COMMAND\n"
    "      descriptors                            126  COMMAND cannot be executed\n"
    "                                             127  COMMAND was not found";

const struct cli_verb cli_verb_lock = {
    .name = "lock",
    .usage = "lock [OPTION...] NAME [--] COMMAND [ARGUMENT...]",
    .summary = "run a command while holding a mutex",
    .details = details,
    .options = options,
    .shared = cli_job_options,
    .into = &this_lock,
    .operands = CLI_OPERANDS_COMMAND,
    .run = run,
};
