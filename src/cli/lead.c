/*
 * lead.c - `simba lead`: keeps a command running on one machine at a time.
 *
 * leader.c decides when a command may run. This file decides when one that has ended starts again.
 */
#include "base/time.h"
#include "cli/cli.h"
#include "cli/leader.h"

#include <limits.h>

#define RESTART_DELAY_MS 1000
#define RESTART_DELAY_MAX_MS 60000
#define YIELD_AFTER 3
#define HEALTH_EVERY_MS 10000
#define PRIORITY_AFTER_MS 30000

enum restart { RESTART_ALWAYS, RESTART_ON_FAILURE, RESTART_NEVER };

static const char *const restarts[] = {
    [RESTART_ALWAYS] = "always",
    [RESTART_ON_FAILURE] = "on-failure",
    [RESTART_NEVER] = "never",
    NULL,
};

static struct lead {
    struct cli_job job;
    enum restart restart;
    int64_t delay_ms;
    int64_t delay_max_ms;
    int64_t next_delay_ms; /* doubles with every end in a row */
    int yield_after;       /* failures in a row; 0: never */
    int failures;          /* in a row */
    struct cli_health health;
    int priority;
    int64_t priority_after_ms;
} this_lead = {
    .job = CLI_JOB_INIT(CLI_JOB_STOP_TIMEOUT_MS),
    .delay_ms = RESTART_DELAY_MS,
    .delay_max_ms = RESTART_DELAY_MAX_MS,
    .yield_after = YIELD_AFTER,
    .health = {.every_ms = HEALTH_EVERY_MS},
    .priority_after_ms = PRIORITY_AFTER_MS,
};

static const struct cli_option options[] = {
    {0, "slots", "N", "keep COMMAND running on N machines; each finds its SIMBA_SLOT, from 0",
     CLI_NUMBER(struct cli_job, slots, 1, SIMBA_SLOTS_MAX)},
    {0, "restart", "WHEN", "COMMAND ended: always, on-failure or never (always)",
     CLI_WORD(struct lead, restart, restarts)},
    {0, "restart-delay", "DURATION", "before the first restart; doubles then (1s)",
     CLI_DURATION(struct lead, delay_ms)},
    {0, "restart-delay-max", "DURATION", "the longest delay (1m)",
     CLI_DURATION(struct lead, delay_max_ms)},
    {0, "yield-after", "N", "let another lead after N failures in a row (3); 0: never",
     CLI_NUMBER(struct lead, yield_after, 0, INT_MAX)},
    {0, "health", "CHECK", "a shell command that fails when COMMAND is not well",
     CLI_TEXT(struct lead, health.check)},
    {0, "health-every", "DURATION", "between checks, and the time that each gets (10s)",
     CLI_INTERVAL(struct lead, health.every_ms)},
    {0, "priority", "N", "lead rather than those with a smaller number (0)",
     CLI_NUMBER(struct lead, priority, 0, INT_MAX)},
    {0, "priority-after", "DURATION", "the wait before it asks such a leader to hand over (30s)",
     CLI_INTERVAL(struct lead, priority_after_ms)},
    CLI_LEADER_OPTION_WAIT,
    CLI_LEADER_OPTION_LISTEN,
    CLI_OPTIONS_END,
};

/* ---- When to start it ------------------------------------------------------------------------ */

static int64_t first_ms(void *user, int64_t now_ms)
{
    struct lead *lead = user;

    lead->next_delay_ms = lead->delay_ms;
    lead->failures = 0;
    return now_ms;
}

/* A run was good that ended well, or lasted for the longest delay and passed a check, if any. */
static void count_failure(struct lead *lead, const struct cli_outcome *outcome, int64_t lasted_ms)
{
    bool lasted = lasted_ms >= lead->delay_max_ms;

    if (lasted && (lead->health.check == NULL || lead->health.passed > 0))
        lead->failures = 0;
    lead->failures = outcome->status != 0 ? lead->failures + 1 : 0;
}

static bool yields(void *user)
{
    const struct lead *lead = user;

    return lead->yield_after > 0 && lead->failures >= lead->yield_after;
}

/* A command that cannot be executed here may be so on another machine. One that was stopped for a
 * lease is to run again as soon as there is one. */
static int64_t next_ms(void *user, const struct cli_outcome *outcome, int64_t begun_ms,
                       int64_t now_ms)
{
    struct lead *lead = user;
    char delay[32];

    if (outcome->how == CLI_ENDED_LOST || outcome->how == CLI_ENDED_HANDOVER)
        return now_ms;
    if (outcome->how == CLI_ENDED_NOT_STARTED || lead->restart == RESTART_NEVER ||
        (lead->restart == RESTART_ON_FAILURE && outcome->status == 0))
        return CLI_PLAN_END;
    count_failure(lead, outcome, now_ms - begun_ms);
    if (now_ms - begun_ms >= lead->delay_max_ms)
        lead->next_delay_ms = lead->delay_ms;
    int64_t delay_ms = lead->next_delay_ms;
    lead->next_delay_ms = delay_ms < lead->delay_max_ms / 2 ? delay_ms * 2 : lead->delay_max_ms;
    cli_message("the command ended with exit code %d: it starts again in %s", outcome->status,
                simba_duration_format(delay_ms, delay, sizeof delay));
    return sb_later(now_ms, delay_ms);
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct lead *lead = &this_lead;
    struct cli_plan plan = {.first_ms = first_ms,
                            .next_ms = next_ms,
                            .yields = yields,
                            .health = &lead->health,
                            .priority = lead->priority,
                            .priority_after_ms = lead->priority_after_ms,
                            .user = lead};

    (void)argc;
    if (lead->job.slots > 0 && lead->priority > 0)
        return cli_usage_error(cli, "--slots and --priority exclude each other");
    int status = cli_job_prepare(&lead->job, cli, argv);
    if (status != CLI_CONTINUE)
        return status;
    if (lead->delay_max_ms < lead->delay_ms)
        lead->delay_max_ms = lead->delay_ms;
    plan.yield_ms = lead->delay_max_ms;
    if (lead->health.check != NULL && lead->health.check[0] == 0) /* as a unit may have it */
        lead->health.check = NULL;
    return cli_leader_run(&lead->job, &plan);
}

static const char details[] =
    "Keeps COMMAND running on one machine at a time of those that name the same\n"
    "mutex: starts it when this one leads, and stops it when it does not any more.\n"
    "simba goes on until it is told to end (SIGTERM, SIGINT, SIGQUIT): it passes the\n"
    "signal on, waits until COMMAND has ended, hands the mutex over and exits. Other\n"
    "signals are for COMMAND, as is SIGHUP without a terminal.\n"
    "\n"
    "COMMAND that ends is started again, after 1s, 2s, 4s and so on up to the longest\n"
    "delay; once it has run for that long, it begins with 1s again. With --restart\n"
    "never, or on-failure and a COMMAND that ends with 0, simba hands the mutex over\n"
    "and exits with its exit code. So it does when COMMAND cannot be executed here:\n"
    "it may be on another machine. What COMMAND has left running ends with it.\n"
    "\n"
    "When COMMAND has failed three times in a row, each time before it had run for\n"
    "the longest delay, and another contender waits, simba hands the mutex over and\n"
    "competes again after the longest delay. --yield-after changes the number.\n"
    "--health runs a shell command every 10s: if it fails, or takes longer than that,\n"
    "COMMAND is stopped, which counts as a failure.\n"
    "\n"
    "--priority is for a machine that should lead whenever it can: when it has waited\n"
    "for 30s without a failure, it asks a leader with a smaller number to hand over\n"
    "to it. Such a leader stops its COMMAND and waits again; one with the same or a\n"
    "larger number goes on. See 'simba handover --help'.\n"
    "With --slots N the command runs on N of the machines: see 'simba lock --help'.\n"
    "\n" CLI_LEADER_HELP_COMMAND "\n"
    "Examples:\n"
    "  simba lead dispatcher -- ./dispatcher --port 7000\n"
    "  simba lead --health ./check-api api -- ./api --port 7000\n"
    "  simba lead --restart on-failure --restart-delay 5s import -- ./import.sh\n"
    "\n" CLI_LEADER_HELP_EXIT_CODES;

const struct cli_verb cli_verb_lead = {
    .name = "lead",
    .usage = "lead [OPTION...] NAME [--] COMMAND [ARGUMENT...]",
    .summary = "keep a command running on one machine at a time",
    .details = details,
    .options = options,
    .shared = cli_job_options,
    .into = &this_lead,
    .operands = CLI_OPERANDS_COMMAND,
    .run = run,
};
