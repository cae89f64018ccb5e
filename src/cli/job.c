/*
 * job.c - what the verbs that run commands share.
 */
#include "cli/job.h"

#include "base/error.h"
#include "cli/notify.h"
#include "cli/orphans.h"
#include "cli/say.h"
#include "cli/store.h"

#include <malloc.h>
#include <string.h>

#define GRACE_MAX_MS 5000
#define RESERVE_MAX_MS 500

#define HEAP_STEP (512 * 1024) /* bytes: more than a run takes */

/* Each of the library's threads would set up an arena of its own, for the little that it allocates. That comes
 * from the kernel in one piece. */
static void share_memory(void)
{
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TOP_PAD, HEAP_STEP);
}

void cli_job_init(struct cli_job *job, struct cli *cli, const struct cli_verb *verb)
{
    share_memory();
    *job = (struct cli_job){
        .cli = cli,
        .verb = verb,
        .grace_ms = SIMBA_UNSET,
        .hold_at_most_ms = SIMBA_INFINITE,
        .told_grace_ms = SIMBA_INFINITE,
        .sweep = true,
    };
}

static bool set_note(void *into, const char *value)
{
    if (value[0] == 0) {
        cli_say("--note: the text is empty");
        return false;
    }
    ((struct cli_job *)into)->note = value;
    return true;
}

static bool set_grace(void *into, const char *value)
{
    return cli_option_duration("--kill-after", value, &((struct cli_job *)into)->grace_ms);
}

bool cli_job_set_hold_at_least(void *into, const char *value)
{
    return cli_option_duration("--hold-at-least", value,
                               &((struct cli_job *)into)->hold_at_least_ms);
}

bool cli_job_set_hold_at_most(void *into, const char *value)
{
    struct cli_job *job = into;

    if (!cli_option_duration("--hold-at-most", value, &job->hold_at_most_ms))
        return false;
    if (job->hold_at_most_ms == 0)
        cli_say("--hold-at-most: '%s' leaves no time to run", value);
    return job->hold_at_most_ms > 0;
}

static bool set_stop_timeout(void *into, const char *value)
{
    return cli_option_duration("--stop-timeout", value, &((struct cli_job *)into)->told_grace_ms);
}

static bool set_pass_notify(void *into, const char *value)
{
    (void)value;
    ((struct cli_job *)into)->pass_notify = true;
    return true;
}

const struct cli_option cli_job_options[] = {
    {'k', "kill-after", "DURATION",
     "from SIGTERM to SIGKILL (a third of the transition, 5s at most)", set_grace},
    {0, "stop-timeout", "DURATION", "to SIGKILL when simba was told to end (10s; lock: never)",
     set_stop_timeout},
    {0, "note", "TEXT", "who or why, shown with the owner: its id gets ' (TEXT)'", set_note},
    {0, "pass-notify", NULL, "leave NOTIFY_SOCKET in the environment of COMMAND", set_pass_notify},
    {0, NULL, NULL, NULL, NULL},
};

int cli_job_usage_error(const struct cli_job *job, const char *what)
{
    cli_say("%s: %s", job->verb->name, what);
    return cli_usage_error(job->verb->name);
}

/* The note is a part of the id, so that every store can keep it and everybody who is told of an owner reads
 * it, contenders of other libraries included. */
static int add_note(struct cli_job *job)
{
    char plain[SIMBA_ID_MAX + 1];

    memcpy(plain, job->id, sizeof plain);
    int length = snprintf(job->id, sizeof job->id, "%s (%s)", plain, job->note);
    if (length > SIMBA_ID_MAX)
        return sb_error_set(&job->error, SIMBA_EINVAL,
                            "--note is too long: with the contender id it has %d bytes, and %d is "
                            "the most",
                            length, SIMBA_ID_MAX);
    return simba_id_validate(job->id, &job->error);
}

static int make_id(struct cli_job *job)
{
    const struct cli *cli = job->cli;

    if (cli->id != NULL)
        return simba_id_unique(cli->id, job->id, &job->error);
    if (cli->exact_id == NULL)
        return simba_id_default(NULL, job->id);
    int code = simba_id_validate(cli->exact_id, &job->error);
    if (code == SIMBA_OK)
        snprintf(job->id, sizeof job->id, "%s", cli->exact_id);
    return code;
}

/* Two programs that are given the same --id would own one mutex together, so the id gets a random part. */
static int choose_id(struct cli_job *job)
{
    int code = make_id(job);

    return code == SIMBA_OK && job->note != NULL ? add_note(job) : code;
}

/* A NAME that begins with a dash stands behind a "--" of its own. Without a second one what follows is a
 * COMMAND whose NAME was forgotten. */
static int take_operands(struct cli_job *job, int argc, char **argv)
{
    bool behind = job->cli->operands == 0;

    if (argc < 1 || (behind && (argc < 2 || strcmp(argv[1], "--") != 0)))
        return cli_job_usage_error(job, argc < 1 ? "the NAME of a mutex is missing"
                                                 : "the NAME of a mutex is missing before '--'");
    job->mutex = argv[0];
    job->command = argv + (behind ? 2 : 1);
    if (job->command[0] == NULL)
        return cli_job_usage_error(job, "the COMMAND is missing");
    return CLI_CONTINUE;
}

int cli_job_parse(struct cli_job *job, int argc, char **argv)
{
    int status = cli_verb_parse(job->cli, job->verb, job, 1, &argc, argv);

    if (status == CLI_CONTINUE)
        status = take_operands(job, argc, argv);
    if (status != CLI_CONTINUE)
        return status;
    if (job->hold_at_least_ms > job->hold_at_most_ms)
        return cli_job_usage_error(job, "--hold-at-least is longer than --hold-at-most");
    if (simba_mutex_validate(job->mutex, &job->error) != SIMBA_OK || choose_id(job) != SIMBA_OK)
        return cli_fail(&job->error);
    job->adopts = cli_orphans_adopt();
    job->events.reaps = job->adopts;
    return CLI_CONTINUE;
}

static int64_t at_most(int64_t ms, int64_t limit_ms)
{
    return ms < limit_ms ? ms : limit_ms;
}

/* Grace and reserve are taken from the part of the lease in which renewals are tried; what is left of that, a
 * quarter at least, must do for a renewal. */
static int choose_grace(struct cli_job *job)
{
    int64_t ttl_ms = 0;
    int64_t transition_ms = 0;
    char given[32];
    char longest[32];

    int code = simba_client_lease(job->client, &ttl_ms, &transition_ms);
    if (code != SIMBA_OK)
        return sb_error_set(&job->error, code, "%s", simba_strerror(code));
    int64_t window_ms = transition_ms - simba_drift_margin_ms(ttl_ms + transition_ms);
    int64_t longest_ms = window_ms / 2;
    job->window_ms = window_ms;
    job->reserve_ms = at_most(window_ms / 4, RESERVE_MAX_MS);
    job->grace_given = job->grace_ms != SIMBA_UNSET;
    if (!job->grace_given)
        job->grace_ms = at_most(window_ms / 3, GRACE_MAX_MS);
    if (job->grace_ms <= longest_ms)
        return SIMBA_OK;
    return sb_error_set(
        &job->error, SIMBA_EINVAL,
        "--kill-after %s leaves no time to renew the lease: with this transition it can be %s",
        simba_duration_format(job->grace_ms, given, sizeof given),
        simba_duration_format(longest_ms, longest, sizeof longest));
}

int cli_job_open(struct cli_job *job, const struct cli_place *place)
{
    int code = cli_store_open_found(job->cli, place, 1, &job->client, &job->error);

    return code == SIMBA_OK ? choose_grace(job) : code;
}

/* One that was given is cut only where it has to be, and that is said. */
static void fit_grace(struct cli_job *job, int64_t window_ms)
{
    int64_t longest_ms = job->grace_given ? window_ms / 2 : window_ms / 3;
    char given[32];
    char cut[32];

    if (job->grace_ms <= longest_ms)
        return;
    if (job->grace_given)
        cli_say("warning: --kill-after %s is cut to %s: the store granted a shorter lease",
                simba_duration_format(job->grace_ms, given, sizeof given),
                simba_duration_format(longest_ms, cut, sizeof cut));
    job->grace_ms = longest_ms;
}

void cli_job_fit(struct cli_job *job, int64_t window_ms)
{
    if (window_ms <= 0 || window_ms >= job->window_ms)
        return;
    fit_grace(job, window_ms);
    job->reserve_ms = at_most(job->reserve_ms, window_ms / 4);
    job->window_ms = window_ms;
}

bool cli_job_runs_out(const struct cli_job *job, int64_t deadline_ms)
{
    return deadline_ms - simba_now_ms() <= job->grace_ms + job->reserve_ms;
}

const char *cli_job_held(const struct cli_job *job)
{
    return job->cli->log_level >= SIMBA_LOG_WARN ? job->mutex : NULL;
}

struct cli_run cli_job_run(const struct cli_job *job, const char *shown_id, uint64_t fence,
                           const struct cli_lease *lease)
{
    return (struct cli_run){
        .command = job->command,
        .setup = {.mutex = job->mutex,
                  .id = shown_id,
                  .fence = fence,
                  .notify = job->pass_notify,
                  .terminal = job->terminal,
                  .adopts = job->adopts,
                  .client = job->client,
                  .deadline_ms = lease->deadline_ms(lease->user)},
        .lease = *lease,
        .events = &job->events,
        .limit_at_ms = cli_instant_after(simba_now_ms(), job->hold_at_most_ms),
        .told_grace_ms = job->told_grace_ms,
        .sweep = job->sweep,
    };
}

bool cli_job_hold(const struct cli_job *job, int lost_fd, int64_t until_ms)
{
    char left[32];
    int64_t left_ms = until_ms - simba_now_ms();

    if (left_ms <= 0)
        return true;
    cli_notify_status("the command has ended; holding '%s' for %s more", job->mutex,
                      simba_duration_format(left_ms, left, sizeof left));
    if (cli_events_pause(&job->events, lost_fd, until_ms) != CLI_PAUSE_WOKEN)
        return true;
    cli_say("the lease of '%s' was lost before its minimum was over", job->mutex);
    return false;
}
