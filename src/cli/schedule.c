/*
 * schedule.c - `simba schedule`: runs a command at intervals on the machine that leads.
 *
 * leader.c decides when a command may run. This file decides when the next run is due. The
 * library's scheduler is for work inside a process: a command ends with the thread that starts it,
 * so the main thread has to.
 */
#include "base/time.h"
#include "cli/cli.h"
#include "cli/leader.h"

#include <inttypes.h>

/* A message that could come with every run is printed once in that time. */
#define TELL_INTERVAL_MS 1000

struct tally {
    int64_t count;     /* that has not been printed */
    int64_t silent_ms; /* nothing is printed before that instant */
};

static const char *const strategies[] = {
    [SIMBA_FIXED_RATE] = "fixed-rate",
    [SIMBA_FIXED_DELAY] = "fixed-delay",
    NULL,
};

static struct schedule {
    struct cli_job job;
    enum simba_schedule_strategy strategy;
    int64_t every_ms; /* 0: not given */
    int64_t initial_delay_ms;
    int64_t due_ms; /* of the last run, or of the one that is waited for */
    struct tally skipped;
    struct tally failed;
    int failure; /* the exit code of the last one that failed */
} this_schedule = {.job = CLI_JOB_INIT(CLI_JOB_STOP_TIMEOUT_MS), .strategy = SIMBA_FIXED_RATE};

static const struct cli_option options[] = {
    {0, "every", "DURATION", "the interval; required", CLI_INTERVAL(struct schedule, every_ms)},
    {0, "strategy", "STRATEGY", "fixed-rate or fixed-delay (fixed-rate)",
     CLI_WORD(struct schedule, strategy, strategies)},
    {0, "initial-delay", "DURATION", "from leading to the first run (0)",
     CLI_DURATION(struct schedule, initial_delay_ms)},
    {0, "hold-at-least", "DURATION", "keep the mutex that long from the start of a run",
     CLI_DURATION(struct schedule, job.hold_at_least_ms)},
    {0, "hold-at-most", "DURATION", "stop a run after that time",
     CLI_INTERVAL(struct schedule, job.hold_at_most_ms)},
    CLI_LEADER_OPTION_WAIT,
    CLI_OPTIONS_END,
};

/* ---- Messages -------------------------------------------------------------------------------- */

/* Returns how many are to be printed now. */
static int64_t take_count(struct tally *tally, int64_t now_ms)
{
    int64_t count = tally->count;

    if (count == 0 || now_ms < tally->silent_ms)
        return 0;
    tally->count = 0;
    tally->silent_ms = sb_later(now_ms, TELL_INTERVAL_MS);
    return count;
}

static void tell(struct schedule *schedule, int64_t now_ms)
{
    const char *mutex = schedule->job.mutex;
    int64_t failed = take_count(&schedule->failed, now_ms);
    int64_t skipped = take_count(&schedule->skipped, now_ms);

    if (failed == 1)
        cli_message("a run of '%s' failed with exit code %d", mutex, schedule->failure);
    else if (failed > 1)
        cli_message("%" PRId64 " runs of '%s' failed, the last with exit code %d", failed, mutex,
                    schedule->failure);
    if (skipped == 1 && !schedule->job.cli->quiet)
        cli_message("a run of '%s' was skipped: it fell due during another", mutex);
    else if (skipped > 1 && !schedule->job.cli->quiet)
        cli_message("%" PRId64 " runs of '%s' were skipped: they fell due during another", skipped,
                    mutex);
}

static int64_t due_at_ms(const struct tally *tally)
{
    return tally->count > 0 ? tally->silent_ms : SIMBA_INFINITE;
}

/* Prints what had to wait, also while the next run takes long. */
static int64_t tell_in_time(void *user)
{
    struct schedule *schedule = user;

    tell(schedule, simba_now_ms());
    return sb_earlier(due_at_ms(&schedule->failed), due_at_ms(&schedule->skipped));
}

/* ---- When to run it -------------------------------------------------------------------------- */

static int64_t first_ms(void *user, int64_t now_ms)
{
    struct schedule *schedule = user;

    schedule->due_ms = sb_later(now_ms, schedule->initial_delay_ms);
    return schedule->due_ms;
}

/* The next instant of the fixed rate; those that have passed are skipped, so that runs do not pile
 * up. */
static int64_t next_rate_ms(struct schedule *schedule, int64_t now_ms)
{
    int64_t late_ms = now_ms > schedule->due_ms ? now_ms - schedule->due_ms : 0;
    int64_t missed = late_ms / schedule->every_ms;

    schedule->skipped.count += missed;
    return sb_later(schedule->due_ms + missed * schedule->every_ms, schedule->every_ms);
}

static int64_t next_ms(void *user, const struct cli_outcome *outcome, int64_t begun_ms,
                       int64_t now_ms)
{
    struct schedule *schedule = user;

    (void)begun_ms;
    if (outcome->how == CLI_ENDED_NOT_STARTED)
        return CLI_PLAN_END;
    if (outcome->how == CLI_ENDED && outcome->status != 0) {
        schedule->failed.count++;
        schedule->failure = outcome->status;
    }
    schedule->due_ms = schedule->strategy == SIMBA_FIXED_RATE
                           ? next_rate_ms(schedule, now_ms)
                           : sb_later(now_ms, schedule->every_ms);
    tell(schedule, now_ms);
    return schedule->due_ms;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct schedule *schedule = &this_schedule;
    struct cli_plan plan = {.first_ms = first_ms, .next_ms = next_ms, .user = schedule};

    (void)argc;
    schedule->job.events.before_sleep = tell_in_time;
    schedule->job.events.user = schedule;
    if (schedule->every_ms == 0)
        return cli_usage_error(cli, "--every is missing");
    int status = cli_job_prepare(&schedule->job, cli, argv);
    if (status != CLI_CONTINUE)
        return status;
    status = cli_leader_run(&schedule->job, &plan);
    tell(schedule, SIMBA_INFINITE);
    return status;
}

static const char details[] =
    "Runs COMMAND at intervals on one of the machines that name the same mutex, the one that "
    "leads.\n"
    "Runs never overlap, on one machine or on two. simba goes on until it is told to end "
    "(SIGTERM,\n"
    "SIGINT, SIGQUIT): it passes the signal on, waits until the run has ended, hands the mutex\n"
    "over and exits. Other signals are for COMMAND, as is SIGHUP without a terminal.\n"
    "\n"
    "fixed-rate keeps the rhythm that began with the lead; a run that falls due while the one\n"
    "before still runs is skipped. fixed-delay waits for the interval after each run. A run that\n"
    "fails is told of, and the schedule goes on; but a COMMAND that cannot be executed ends it,\n"
    "since another machine may be able to.\n"
    "\n"
    "A new leader begins with its first run after --initial-delay. --hold-at-least keeps the "
    "mutex\n"
    "of a simba that was told to end until that long after the start of the last run, so that the\n"
    "next leader does not run it again too soon; a second signal ends that. --hold-at-most stops\n"
    "a run that takes too long.\n"
    "\n" CLI_LEADER_HELP_COMMAND "\n"
    "Examples:\n"
    "  simba schedule cleanup --every 10m -- ./cleanup.sh\n"
    "  simba schedule report --every 1h --strategy fixed-delay --hold-at-most 30m -- ./report.sh\n"
    "\n" CLI_LEADER_HELP_EXIT_CODES;

const struct cli_verb cli_verb_schedule = {
    .name = "schedule",
    .usage = "schedule [OPTION...] --every DURATION NAME [--] COMMAND [ARGUMENT...]",
    .summary = "run a command at intervals on the machine that leads",
    .details = details,
    .options = options,
    .shared = cli_job_options,
    .into = &this_schedule,
    .operands = CLI_OPERANDS_COMMAND,
    .run = run,
};
