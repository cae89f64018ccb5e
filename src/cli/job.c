/*
 * job.c - what the verbs that run commands share: options, the store, the run under a lease.
 */
#include "cli/job.h"

#include "base/check.h"
#include "base/error.h"
#include "base/time.h"
#include "cli/orphans.h"

#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRACE_MAX_MS 5000
#define RESERVE_MAX_MS 500

#define HEAP_STEP (512 * 1024) /* bytes: more than a run takes */

bool cli_job_set_note(void *into, const char *value)
{
    if (value[0] == 0) {
        cli_message("--note: the text is empty");
        return false;
    }
    ((struct cli_job *)into)->note = value;
    return true;
}

const struct cli_option cli_job_options[] = {
    {'k', "kill-after", "DURATION",
     "from SIGTERM to SIGKILL\n(a third of the transition, at most 5s)",
     CLI_DURATION(struct cli_job, grace_ms)},
    {0, "stop-timeout", "DURATION",
     "after a signal to simba: time until COMMAND gets SIGKILL\n(10s; lock: never)",
     CLI_DURATION(struct cli_job, stop_timeout_ms)},
    {0, "note", "TEXT", "who or why, shown with the owner: its id gets ' (TEXT)'",
     CLI_CALL(cli_job_set_note)},
    {0, "pass-notify", NULL, "leave NOTIFY_SOCKET in the environment of COMMAND",
     CLI_FLAG(struct cli_job, pass_notify)},
    CLI_OPTIONS_END,
};

/* Two programs with the same --id would own one mutex together, so the id gets a random part. The
 * note is a part of the id: so every store keeps it, and all contenders see it, those of other
 * libraries included. */
static int choose_id(struct cli_job *job)
{
    const struct cli *cli = job->cli;
    char plain[SIMBA_ID_MAX + 1] = "";
    int code;

    if (cli->id != NULL)
        code = simba_id_unique(cli->id, plain, &job->error);
    else if (cli->exact_id == NULL)
        code = simba_id_default(NULL, plain);
    else
        code = simba_id_validate(cli->exact_id, &job->error);
    if (code != SIMBA_OK)
        return code;
    if (cli->exact_id != NULL)
        snprintf(plain, sizeof plain, "%s", cli->exact_id);
    if (job->note == NULL) {
        memcpy(job->id, plain, sizeof job->id);
        return SIMBA_OK;
    }
    int length = snprintf(job->id, sizeof job->id, "%s (%s)", plain, job->note);
    if (length > SIMBA_ID_MAX)
        return sb_error_set(&job->error, SIMBA_EINVAL,
                            "--note is too long: with the contender id it is %d bytes long; the "
                            "limit is %d",
                            length, SIMBA_ID_MAX);
    return simba_id_validate(job->id, &job->error);
}

/* ---- The simbas whose commands this one runs in ---------------------------------------------- */

/* Their ids, with what no id holds around each: "@@0:17@192.0.2.1~abcdef@@web~qwertz@@". */
#define OUTER_MAX 4096 /* of those that do not fit only the innermost is kept */

/* For the commands of this simba as well. */
static bool remember_outer(void)
{
    const char *innermost = getenv("SIMBA_CONTENDER_ID");
    const char *outer = getenv("SIMBA_OUTER_IDS");
    char all[OUTER_MAX];

    if (innermost == NULL)
        return outer == NULL || unsetenv("SIMBA_OUTER_IDS") == 0;
    int length = snprintf(all, sizeof all, "%s%s@@", outer != NULL ? outer : "@@", innermost);
    if (length >= OUTER_MAX)
        snprintf(all, sizeof all, "@@%s@@", innermost);
    return setenv("SIMBA_OUTER_IDS", all, 1) == 0;
}

bool cli_job_is_nested(void)
{
    return getenv("SIMBA_OUTER_IDS") != NULL;
}

bool cli_job_runs_under(const char *id)
{
    const char *outer = getenv("SIMBA_OUTER_IDS");
    char delimited[SIMBA_ID_MAX + 5];

    snprintf(delimited, sizeof delimited, "@@%s@@", id);
    return outer != NULL && strstr(outer, delimited) != NULL;
}

static int check_mutex(struct cli_job *job, const char *mutex)
{
    struct simba_mutex_status *list = NULL;
    struct simba_error error;
    size_t count = 0;

    int code = simba_client_status(job->client, mutex, CLI_PATIENCE_MS, &list, &count, &error);
    const struct simba_owner *owner = code == SIMBA_OK && count > 0 ? &list->owner : NULL;
    if (simba_error_group(code) == SIMBA_GROUP_CONFIG)
        job->error = error;
    else if (owner != NULL && simba_owner_has_owner(owner, simba_now_ms()) &&
             cli_job_runs_under(owner->id))
        code = sb_error_set(&job->error, SIMBA_EMISUSE,
                            "'%s' is held by %s, whose command runs this simba: it would wait for "
                            "itself for ever",
                            mutex, owner->id);
    else
        code = SIMBA_OK;
    simba_free(list);
    return code;
}

/* One slot that somebody else can release is enough. */
static int check_slots(struct cli_job *job)
{
    char name[SIMBA_MUTEX_MAX + 16];
    int code = SIMBA_EMISUSE;

    for (int i = 0; i < job->slots && code == SIMBA_EMISUSE; i++) {
        snprintf(name, sizeof name, "%s#%d", job->mutex, i);
        code = check_mutex(job, name);
    }
    return code;
}

int cli_job_check(struct cli_job *job)
{
    if (job->slots > 0)
        return check_slots(job);
    int code = job->names_count > 0 ? SIMBA_OK : check_mutex(job, job->mutex);

    for (size_t i = 0; i < job->names_count && code == SIMBA_OK; i++)
        code = check_mutex(job, job->names[i]);
    return code;
}

/* ---- Several mutexes ------------------------------------------------------------------------- */

static bool name_set(struct cli_job *job, size_t count, char **names)
{
    static char all[SIMBA_SET_MAX * (SIMBA_MUTEX_MAX + 1)];
    char *end = all;

    if (count > SIMBA_SET_MAX) {
        sb_error_set(&job->error, SIMBA_EINVAL, "a set has at most %d mutexes", SIMBA_SET_MAX);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (simba_mutex_validate(names[i], &job->error) != SIMBA_OK)
            return false;
        end = stpcpy(i > 0 ? stpcpy(end, " ") : end, names[i]);
    }
    job->names = names;
    job->names_count = count;
    job->mutex = all;
    return true;
}

bool cli_job_is_group(const struct cli_job *job)
{
    return job->slots > 0 || job->names_count > 0;
}

/* ---- Opening --------------------------------------------------------------------------------- */

int cli_job_prepare(struct cli_job *job, struct cli *cli, char **argv)
{
    /* One arena for all threads of the library, which allocate little; the kernel gives the memory
     * in one piece. */
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TOP_PAD, HEAP_STEP);
    job->cli = cli;
    job->mutex = argv[0];
    job->command = argv + (cli->names > 0 ? cli->names : 1);
    if (cli->names > 0 && !name_set(job, cli->names, argv))
        return cli_fail(&job->error);
    if (job->hold_at_least_ms > job->hold_at_most_ms)
        return cli_usage_error(cli, "--hold-at-least is longer than --hold-at-most");
    if (choose_id(job) != SIMBA_OK)
        return cli_fail(&job->error);
    cli_line_about(job->mutex, job->id);
    if (!remember_outer())
        return cli_fail_system("the environment");
    job->adopts = cli_orphans_adopt();
    job->events.reaps = job->adopts;
    return CLI_CONTINUE;
}

/* Grace and reserve are taken from the part of the lease in which renewals are tried. A quarter of
 * that part, at least, is left for a renewal. */
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
    job->reserve_ms = sb_earlier(window_ms / 4, RESERVE_MAX_MS);
    job->grace_given = job->grace_ms != SIMBA_UNSET;
    if (!job->grace_given)
        job->grace_ms = sb_earlier(window_ms / 3, GRACE_MAX_MS);
    if (job->grace_ms <= longest_ms)
        return SIMBA_OK;
    return sb_error_set(
        &job->error, SIMBA_EINVAL,
        "--kill-after %s leaves no time to renew the lease: with this transition it can be %s",
        simba_duration_format(job->grace_ms, given, sizeof given),
        simba_duration_format(longest_ms, longest, sizeof longest));
}

bool cli_job_is_bounded(const struct cli_job *job)
{
    return job->wait_ms != SIMBA_UNSET && job->wait_ms > 0;
}

/* A store that is down: says so at first, and each time to the service manager, so that the start
 * of its unit does not time out. */
static void tell_of_store(const struct cli_job *job, bool first)
{
    if (!job->tells_of_store)
        return;
    if (first && job->cli->log_level >= SIMBA_LOG_WARN)
        cli_message("warning: waiting for the store: %s", job->error.text);
    cli_notify_starting("waiting for the store %s", cli_store_shown());
}

static int open_when_up(struct cli_job *job, const struct cli_store_found *found, int64_t until_ms)
{
    int64_t begun_ms = simba_now_ms();
    int64_t pause_ms = CLI_JOB_REOPEN_MS;
    char waited[32];
    bool down = false;
    int code = cli_store_open_found(job->cli, found, &job->client, &job->error);

    while (code == SIMBA_EUNAVAILABLE && simba_now_ms() < until_ms) {
        tell_of_store(job, !down);
        down = true;
        poll(NULL, 0, (int)sb_earlier(sb_time_left(until_ms, simba_now_ms()), pause_ms));
        if (until_ms == SIMBA_INFINITE)
            pause_ms = sb_earlier(pause_ms * 2, CLI_JOB_REOPEN_MAX_MS);
        if (simba_now_ms() < until_ms)
            code = cli_store_open_found(job->cli, found, &job->client, &job->error);
    }
    if (code == SIMBA_OK && down && job->tells_of_store && !job->cli->quiet)
        cli_message("the store was reached after %s",
                    simba_duration_format((simba_now_ms() - begun_ms) / 1000 * 1000, waited,
                                          sizeof waited));
    return code;
}

int cli_job_open(struct cli_job *job, int64_t until_ms)
{
    struct cli_store_found found;

    cli_message_start_queue();
    int code = cli_store_find(job->cli, false, &found, &job->error);
    if (code == SIMBA_OK)
        code = cli_inherit_store(job->cli, found.url, job->store, &job->error);
    if (code == SIMBA_OK)
        code = open_when_up(job, &found, until_ms);
    cli_store_forget(&found);
    if (code != SIMBA_OK)
        return code;
    atomic_store(&job->opened, true);
    return choose_grace(job);
}

/* A --kill-after is cut only where it has to be, and with a message. */
void cli_job_fit(struct cli_job *job, int64_t window_ms)
{
    int64_t longest_ms = job->grace_given ? window_ms / 2 : window_ms / 3;
    char given[32];
    char cut[32];

    if (window_ms <= 0 || window_ms >= job->window_ms)
        return;
    if (job->grace_ms > longest_ms && job->grace_given)
        cli_message("warning: --kill-after %s is cut to %s: the store granted a shorter lease",
                    simba_duration_format(job->grace_ms, given, sizeof given),
                    simba_duration_format(longest_ms, cut, sizeof cut));
    job->grace_ms = sb_earlier(job->grace_ms, longest_ms);
    job->reserve_ms = sb_earlier(job->reserve_ms, window_ms / 4);
    job->window_ms = window_ms;
    SB_CHECK(job->grace_ms + job->reserve_ms < window_ms, "a lease leaves time for a renewal");
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
                  .slot = -1,
                  .store = job->store,
                  .notify = job->pass_notify,
                  .terminal = job->terminal,
                  .adopts = job->adopts,
                  .client = job->client,
                  .deadline_ms = lease->deadline_ms(lease->user)},
        .lease = *lease,
        .events = &job->events,
        .limit_at_ms = sb_later(simba_now_ms(), job->hold_at_most_ms),
        .stop_timeout_ms = job->stop_timeout_ms,
        .sweep = !job->leave_running,
    };
}

bool cli_job_hold(const struct cli_job *job, const struct cli_lease *lease, int64_t until_ms)
{
    char left[32];
    int64_t left_ms = until_ms - simba_now_ms();

    if (left_ms <= 0 || lease->is_asked(lease->user))
        return true;
    cli_notify_status("the command has ended; holding '%s' for %s more", job->mutex,
                      simba_duration_format(left_ms, left, sizeof left));
    if (cli_events_pause(&job->events, lease->wake_fd, until_ms) != CLI_PAUSE_WOKEN ||
        lease->is_asked(lease->user))
        return true;
    cli_message("the lease of '%s' was lost before its minimum was over", job->mutex);
    return false;
}
