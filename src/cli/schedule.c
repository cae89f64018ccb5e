/*
 * schedule.c - `simba schedule`: runs a command at intervals, or at times of the calendar, on the
 * machine that leads.
 *
 * leader.c decides when a command may run. This file decides when the next run is due. The store
 * remembers the last run, so that the next leader goes on from there, by the store's clock; within
 * a term an interval is counted by this host's. The library's scheduler is for work inside a
 * process: a command ends with the thread that starts it, so the main thread has to.
 */
#include "base/time.h"
#include "cli/calendar.h"
#include "cli/cli.h"
#include "cli/last_run.h"
#include "cli/leader.h"

#include <inttypes.h>

/* A message that could come with every run is printed once in that time. */
#define TELL_INTERVAL_MS 1000

/* A run that is due sooner is not announced. */
#define ANNOUNCE_MS 10000

/* Clocks that differ by less than that do not let a time of the calendar count twice. */
#define SLACK_MS 30000

/* A last run that is further ahead of the store's clock is a mistake, or somebody's lie. */
#define AHEAD_MAX_MS (24 * 3600 * 1000)

struct tally {
    int64_t count;     /* that has not been printed */
    int64_t silent_ms; /* nothing is printed before that instant */
};

static const char *const strategies[] = {
    [SIMBA_FIXED_RATE] = "fixed-rate",
    [SIMBA_FIXED_DELAY] = "fixed-delay",
    NULL,
};

enum missed { MISSED_RUN_ONCE, MISSED_SKIP };

static const char *const missed_words[] = {
    [MISSED_RUN_ONCE] = "run-once",
    [MISSED_SKIP] = "skip",
    NULL,
};

static struct schedule {
    struct cli_job job;
    enum simba_schedule_strategy strategy;
    int64_t every_ms; /* 0: not given */
    const char *at;   /* NULL: not given */
    const char *cron; /* the same */
    const char *zone; /* the same */
    enum missed missed;
    int64_t initial_delay_ms;
    struct cli_calendar calendar; /* of --at or --cron */

    /* Written by a thread of the library when a term begins, and by the main thread in a term. */
    struct cli_last_run last; /* as the store knows it; NONE: also where it cannot be asked */
    int64_t offset_ms;        /* of the store's time from simba_now_ms() */
    bool warned;              /* that the store does not remember runs */

    int64_t due_ms;           /* of the last run, or of the one that is waited for */
    int64_t delayed_until_ms; /* the first run of the term is not before that */
    struct tally skipped;
    struct tally failed;
    int failure; /* the exit code of the last one that failed */
} this_schedule = {.job = CLI_JOB_INIT(CLI_JOB_STOP_TIMEOUT_MS), .strategy = SIMBA_FIXED_RATE};

static const struct cli_option options[] = {
    {0, "every", "DURATION", "the interval", CLI_INTERVAL(struct schedule, every_ms)},
    {0, "at", "HH:MM", "or the time of each day", CLI_TEXT(struct schedule, at)},
    {0, "cron", "FIELDS", "or five fields as in a crontab: minute hour day month weekday",
     CLI_TEXT(struct schedule, cron)},
    {0, "timezone", "ZONE", "of --at and --cron, such as Europe/Berlin (that of the system)",
     CLI_TEXT(struct schedule, zone)},
    {0, "missed", "WHAT",
     "what to do if a run fell due while nobody led:\nrun-once or skip (run-once)",
     CLI_WORD(struct schedule, missed, missed_words)},
    {0, "strategy", "STRATEGY", "fixed-rate or fixed-delay (fixed-rate)",
     CLI_WORD(struct schedule, strategy, strategies)},
    {0, "initial-delay", "DURATION", "from leading to the first run (0)",
     CLI_DURATION(struct schedule, initial_delay_ms)},
    {0, "hold-at-least", "DURATION", "keep the mutex that long from the start of a run",
     CLI_DURATION(struct schedule, job.hold_at_least_ms)},
    {0, "hold-at-most", "DURATION", "stop a run after that time",
     CLI_INTERVAL(struct schedule, job.hold_at_most_ms)},
    CLI_LEADER_OPTION_WAIT,
    CLI_LEADER_OPTION_LISTEN,
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

/* ---- What the store remembers ---------------------------------------------------------------- */

static void warn(struct schedule *schedule, int code, const struct simba_error *error)
{
    if (code != SIMBA_OK && !schedule->warned && schedule->job.cli->log_level >= SIMBA_LOG_WARN)
        cli_message("warning: the store does not remember the runs of '%s', so the next leader may "
                    "run it again too soon: %s",
                    schedule->job.mutex, error->text);
    schedule->warned = code != SIMBA_OK;
}

/* Without an answer the times are this host's. */
static void read_last_run(void *user)
{
    struct schedule *schedule = user;
    const struct cli_job *job = &schedule->job;
    struct simba_error error;
    int code = cli_last_run_read(job->client, job->mutex, &schedule->last, &error);
    int64_t now_ms = simba_now_ms();

    warn(schedule, code, &error);
    if (code != SIMBA_OK)
        schedule->last = (struct cli_last_run){.store_ms = simba_wall_ms(now_ms)};
    schedule->offset_ms = schedule->last.store_ms - now_ms;
}

static void note_start(void *user)
{
    struct schedule *schedule = user;
    const struct cli_job *job = &schedule->job;
    struct simba_error error;

    warn(schedule,
         cli_last_run_write(job->client, job->mutex, job->id, CLI_RUN_RUNNING, 0, 0, &error),
         &error);
}

static void announce(struct schedule *schedule, int64_t due_ms)
{
    const struct cli_job *job = &schedule->job;
    struct simba_error error;

    if (due_ms - simba_now_ms() < ANNOUNCE_MS || due_ms == SIMBA_INFINITE)
        return;
    warn(schedule,
         cli_next_run_write(job->client, job->mutex, job->id, due_ms + schedule->offset_ms, &error),
         &error);
}

static void note_end(void *user, const struct cli_outcome *outcome, int64_t begun_ms,
                     int64_t due_ms)
{
    struct schedule *schedule = user;
    const struct cli_job *job = &schedule->job;
    struct simba_error error;

    if (outcome->how == CLI_ENDED_LOST)
        return;
    warn(schedule,
         cli_last_run_write(job->client, job->mutex, job->id, cli_last_run_state(outcome),
                            outcome->status, simba_now_ms() - begun_ms, &error),
         &error);
    if (due_ms != CLI_PLAN_END)
        announce(schedule, due_ms);
}

/* ---- When to run it -------------------------------------------------------------------------- */

static bool has_calendar(const struct schedule *schedule)
{
    return schedule->every_ms == 0;
}

/* All in milliseconds since 1970, by the store's clock. */
static int64_t next_of_calendar(const struct schedule *schedule, int64_t after_ms)
{
    int64_t next_s = cli_calendar_next(&schedule->calendar, after_ms / 1000);

    return next_s < 0 ? SIMBA_INFINITE : next_s * 1000;
}

/* When the run behind the last one was or is due. One that did not do its work still is. */
static int64_t due_behind_last(const struct schedule *schedule, int64_t store_ms)
{
    const struct cli_last_run *last = &schedule->last;
    int64_t from_ms = schedule->strategy == SIMBA_FIXED_RATE ? last->started_ms : last->ended_ms;

    if (last->state == CLI_RUN_NONE)
        return has_calendar(schedule) ? next_of_calendar(schedule, store_ms) : store_ms;
    if (last->state != CLI_RUN_ENDED)
        return sb_earlier(last->started_ms, store_ms);
    if (has_calendar(schedule))
        return next_of_calendar(schedule, last->started_ms > store_ms + AHEAD_MAX_MS
                                              ? store_ms
                                              : last->started_ms + SLACK_MS);
    /* the store's clock may have been set back */
    return sb_later(sb_earlier(from_ms, store_ms), schedule->every_ms);
}

/* The first run of a term. */
static int64_t first_due(const struct schedule *schedule, int64_t store_ms)
{
    int64_t due_ms = due_behind_last(schedule, store_ms);

    if (due_ms >= store_ms || schedule->last.state == CLI_RUN_NONE)
        return due_ms;
    if (schedule->missed == MISSED_RUN_ONCE)
        return store_ms;
    if (has_calendar(schedule))
        return next_of_calendar(schedule, store_ms);
    return due_ms + ((store_ms - due_ms) / schedule->every_ms + 1) * schedule->every_ms;
}

static int64_t first_ms(void *user, int64_t now_ms)
{
    struct schedule *schedule = user;
    int64_t due_ms = first_due(schedule, now_ms + schedule->offset_ms);

    if (due_ms != SIMBA_INFINITE)
        due_ms -= schedule->offset_ms;
    schedule->delayed_until_ms = sb_later(now_ms, schedule->initial_delay_ms);
    schedule->due_ms = sb_max(due_ms, schedule->delayed_until_ms);
    announce(schedule, schedule->due_ms);
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

/* The same of the calendar. The store's clock is asked again: in a day it may have gone another way
 * than this host's. */
static int64_t next_time_ms(struct schedule *schedule, int64_t now_ms)
{
    int64_t due_ms = schedule->due_ms + schedule->offset_ms;
    int64_t next_ms;

    read_last_run(schedule);
    next_ms = next_of_calendar(schedule, due_ms);
    if (next_ms <= now_ms + schedule->offset_ms) {
        schedule->skipped.count++;
        next_ms = next_of_calendar(schedule, now_ms + schedule->offset_ms);
    }
    return next_ms == SIMBA_INFINITE ? next_ms : next_ms - schedule->offset_ms;
}

/* The store's clock may be set while a run is waited for, and the clock of the wait stands still
 * while a virtual machine is paused. The run is not put off to a later time of the calendar, and a
 * time that comes again after a run counts once. */
static int64_t look_again(void *user, int64_t waited_for_ms)
{
    struct schedule *schedule = user;
    const struct cli_job *job = &schedule->job;
    struct cli_last_run last;
    struct simba_error error;

    if (cli_last_run_read(job->client, job->mutex, &last, &error) != SIMBA_OK)
        return waited_for_ms; /* a store that is down is told of by the renewal */
    int64_t due_ms = sb_later(waited_for_ms, schedule->offset_ms);
    int64_t from_ms = last.store_ms;
    if (last.state != CLI_RUN_NONE && last.started_ms <= last.store_ms + AHEAD_MAX_MS)
        from_ms = sb_max(from_ms, last.started_ms + SLACK_MS);
    int64_t then_ms = sb_earlier(due_ms, next_of_calendar(schedule, from_ms));
    schedule->offset_ms = last.store_ms - simba_now_ms();
    schedule->due_ms = then_ms == SIMBA_INFINITE ? then_ms : then_ms - schedule->offset_ms;
    schedule->due_ms = sb_max(schedule->due_ms, schedule->delayed_until_ms);
    if (then_ms != due_ms)
        announce(schedule, schedule->due_ms);
    return schedule->due_ms;
}

static int64_t next_due_ms(struct schedule *schedule, int64_t now_ms)
{
    if (has_calendar(schedule))
        return next_time_ms(schedule, now_ms);
    return schedule->strategy == SIMBA_FIXED_RATE ? next_rate_ms(schedule, now_ms)
                                                  : sb_later(now_ms, schedule->every_ms);
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
    schedule->due_ms = next_due_ms(schedule, now_ms);
    tell(schedule, now_ms);
    return schedule->due_ms;
}

/* Returns CLI_CONTINUE or an exit code. */
static int read_times(struct cli *cli, struct schedule *schedule)
{
    int given = (schedule->every_ms != 0) + (schedule->at != NULL) + (schedule->cron != NULL);
    char why[256];
    bool understood = true;

    if (given != 1)
        return cli_usage_error(cli, given == 0 ? "--every, --at or --cron is missing"
                                               : "--every, --at and --cron exclude each other");
    if (schedule->zone != NULL && schedule->every_ms != 0)
        return cli_usage_error(cli, "--timezone is for --at and --cron");
    if (schedule->zone != NULL && !cli_calendar_set_zone(schedule->zone))
        return cli_usage_error(cli, "--timezone: the system does not know the zone '%s'",
                               schedule->zone);
    if (schedule->at != NULL)
        understood = cli_calendar_read_time(schedule->at, &schedule->calendar, why, sizeof why);
    else if (schedule->cron != NULL)
        understood = cli_calendar_read_cron(schedule->cron, &schedule->calendar, why, sizeof why);
    if (!understood)
        return cli_usage_error(cli, "%s: %s", schedule->at != NULL ? "--at" : "--cron", why);
    return CLI_CONTINUE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct schedule *schedule = &this_schedule;
    struct cli_plan plan = {.first_ms = first_ms,
                            .is_schedule = true,
                            .next_ms = next_ms,
                            .priority_after_ms = SIMBA_UNSET,
                            .user = schedule,
                            .acquired = read_last_run,
                            .starting = note_start,
                            .ended = note_end};

    (void)argc;
    schedule->job.events.before_sleep = tell_in_time;
    schedule->job.events.user = schedule;
    int status = read_times(cli, schedule);
    if (status == CLI_CONTINUE)
        status = cli_job_prepare(&schedule->job, cli, argv);
    if (status != CLI_CONTINUE)
        return status;
    plan.look_again = has_calendar(schedule) ? look_again : NULL;
    status = cli_leader_run(&schedule->job, &plan);
    tell(schedule, SIMBA_INFINITE);
    return status;
}

static const char details[] =
    "Runs COMMAND at intervals on one of the machines that name the same mutex, the\n"
    "one that leads. Runs never overlap, on one machine or on two. simba goes on\n"
    "until it is told to end (SIGTERM, SIGINT, SIGQUIT): it passes the signal on,\n"
    "waits until the run has ended, hands the mutex over and exits. Other signals are\n"
    "for COMMAND, as is SIGHUP without a terminal.\n"
    "\n"
    "The store remembers when the last run began, how it ended and how long it took.\n"
    "A new leader goes on from there: a job of every 24h does not run again because\n"
    "the leader changes. A run that was stopped, or whose machine died, is repeated.\n"
    "If runs fell due while nobody led, the new leader runs once; --missed skip waits\n"
    "for the next time. 'simba status NAME' shows the last and the next run.\n"
    "\n"
    "--at and --cron are times of --timezone, by the store's clock. A time that\n"
    "clocks jump over is due when they do; one that comes twice is due once. The\n"
    "first leader waits for the next time.\n"
    "\n"
    "fixed-rate keeps the rhythm of --every; a run that falls due while the one\n"
    "before still runs is skipped. fixed-delay waits for the interval after each run.\n"
    "A run that fails is told of, and the schedule goes on; but a COMMAND that cannot\n"
    "be executed ends it, since another machine may be able to.\n"
    "\n"
    "A new leader waits for --initial-delay at least. --hold-at-least keeps the mutex\n"
    "of a simba that was told to end until that long after the start of the last run,\n"
    "so that the next leader does not run it again too soon; a second signal ends\n"
    "that. --hold-at-most stops a run that takes too long.\n"
    "\n" CLI_LEADER_HELP_COMMAND "\n"
    "Examples:\n"
    "  simba schedule cleanup --every 10m -- ./cleanup.sh\n"
    "  simba schedule nightly --cron '30 2 * * 1-5' --timezone Asia/Tokyo -- ./run\n"
    "  simba schedule report --every 1h --hold-at-most 30m -- ./report.sh\n"
    "\n" CLI_LEADER_HELP_EXIT_CODES;

const struct cli_verb cli_verb_schedule = {
    .name = "schedule",
    .usage = "schedule [OPTION...] --every D NAME [--] COMMAND [ARGUMENT...]",
    .summary = "run a command at intervals on the machine that leads",
    .details = details,
    .options = options,
    .shared = cli_job_options,
    .into = &this_schedule,
    .operands = CLI_OPERANDS_COMMAND,
    .run = run,
};
