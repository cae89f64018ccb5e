/*
 * acquire.c - `simba acquire`: acquires a mutex, prints what names the term, and leaves.
 *
 * With --keep a process stays behind, forked before the store is opened, since handles do not
 * survive a fork. That process waits for the mutex, tells the first one what to print, and renews:
 *
 *     simba acquire ---- fork ---- waits for the word ---- prints, exits
 *                          |                ^
 *                        keeper: acquires --+-- renews until PID ends ---- releases, exits
 */
#include "base/alloc.h"
#include "base/time.h"
#include "cli/background.h"
#include "cli/contest.h"
#include "cli/keeper.h"
#include "cli/store.h"
#include "cli/term.h"

#include <limits.h>
#include <string.h>

#define TIMEOUT_MS 10000
#define FIRST_LEASE_MS 16000

/* Threads of the library may use it until the program has ended. */
static struct acquire {
    struct cli_term term; /* first: the options of a term */
    struct cli_job job;
    struct cli_contest contest;
    int keep_pid; /* 0: none */
    struct cli_keeper keeper;
} this_acquire = {
    .term = {.for_ms = SIMBA_UNSET},
    .job = CLI_JOB_INIT(SIMBA_INFINITE),
    .contest = {.contended_code = CLI_EXIT_CONTENDED, .decided = ATOMIC_FLAG_INIT},
};

static bool set_note(void *into, const char *value)
{
    return cli_job_set_note(&((struct acquire *)into)->job, value);
}

static const struct cli_option options[] = {
    CLI_TERM_FOR("how long the lease is; nobody renews it"),
    {0, "keep", "PID", "instead: a process in the background renews until PID ends",
     CLI_NUMBER(struct acquire, keep_pid, 1, INT_MAX)},
    {'n', "no-wait", NULL, "give up at once if another contender holds the mutex",
     CLI_FLAG(struct acquire, contest.try_once)},
    {'w', "wait", "DURATION",
     "give up if the mutex was not acquired in this time;\na plain number is seconds",
     CLI_SECONDS(struct acquire, job.wait_ms)},
    {'E', "contended-code", "CODE", "exit code if another contender holds the mutex (75)",
     CLI_NUMBER(struct acquire, contest.contended_code, 0, 255)},
    {0, "note", "TEXT", "who or why, shown with the owner: its id gets ' (TEXT)'",
     CLI_CALL(set_note)},
    CLI_OPTION_JSON("print a JSON object instead of shell words"),
    CLI_OPTIONS_END,
};

/* ---- Without a keeper ------------------------------------------------------------------------ */

static int end_term(const struct acquire *a, struct simba_error *error)
{
    return simba_client_end(a->job.client, a->job.mutex, a->job.id, a->term.fence, TIMEOUT_MS,
                            error);
}

/* By the waiting thread. */
static int detach(struct cli_contest *contest, simba_locker *locker)
{
    struct acquire *a = SB_CONTAINER(struct acquire, contest, contest);
    struct simba_error ignored; /* the first one is told */

    a->term.fence = simba_locker_fence(locker);
    int code = simba_locker_detach(locker, &a->job.error);
    if (code == SIMBA_OK)
        code = simba_client_renew(a->job.client, a->job.mutex, a->job.id, a->term.fence,
                                  a->term.for_ms, TIMEOUT_MS, &a->term.deadline_ms, &a->job.error);
    if (code != SIMBA_OK && a->term.fence != 0)
        end_term(a, &ignored);
    return code;
}

/* A signal came together with the mutex. On a thread of its own. */
static void give_back(void *user)
{
    struct simba_error error;

    if (end_term(user, &error) != SIMBA_OK)
        cli_message("warning: '%s' was not released; it becomes free when its lease ends: %s",
                    ((struct acquire *)user)->job.mutex, error.text);
}

static void close_all(void *user)
{
    struct acquire *a = user;

    simba_locker_close(atomic_load(&a->contest.locker));
    cli_store_close(a->job.client);
}

static int acquire(struct acquire *a)
{
    int signals_fd = a->job.events.signals_fd;
    int status = cli_contest_run(&a->contest);
    bool won = a->contest.code == SIMBA_OK && atomic_load(&a->contest.locker) != NULL;
    struct cli_finish close_step = {.run = close_all, .user = a, .limit_ms = CLI_PATIENCE_MS};
    struct cli_finish back = {
        .run = give_back, .user = a, .held = cli_job_held(&a->job), .limit_ms = CLI_PATIENCE_MS};

    if (a->keep_pid != 0 && won)
        status = cli_keeper_hold(&a->keeper, &a->contest, status);
    else if (status == CLI_CONTINUE)
        cli_term_print(&a->term);
    else if (won)
        cli_background_finish(&back, signals_fd, status);
    status = status == CLI_CONTINUE ? CLI_EXIT_OK : status;
    cli_background_finish(&close_step, signals_fd, status);
    return status;
}

/* ---- The verb -------------------------------------------------------------------------------- */

/* In the process that the user waits for: prints what the keeper tells. */
static int follow_keeper(struct acquire *a)
{
    struct cli_keeper_word word;
    int status = cli_keeper_listen(&a->keeper, &word);

    if (status != CLI_CONTINUE)
        return status;
    a->term.id = word.id;
    a->term.fence = word.fence;
    a->term.keeper = word.pid;
    cli_term_print(&a->term);
    return CLI_EXIT_OK;
}

static int check(struct acquire *a, const struct cli *cli)
{
    bool lasts = a->term.for_ms != SIMBA_UNSET;

    if (a->contest.try_once && a->job.wait_ms != SIMBA_UNSET)
        return cli_usage_error(cli, "--no-wait and --wait exclude each other");
    if (lasts && a->keep_pid != 0)
        return cli_usage_error(cli, "--for and --keep exclude each other: what a process renews "
                                    "has the lease that --ttl and --transition say");
    if (!lasts && a->keep_pid == 0)
        return cli_usage_error(cli, "for how long? Give --for, or --keep with the number of a "
                                    "process");
    return lasts ? cli_term_check_for(&a->term, cli) : CLI_CONTINUE;
}

/* The lease with which the mutex is won is an ordinary one, so that a store that hangs is noticed
 * soon; but not longer than the one that was asked for, since none is shortened. */
static void choose_first_lease(const struct acquire *a, struct cli *cli)
{
    int64_t lease_ms = sb_earlier(a->term.for_ms, FIRST_LEASE_MS);

    cli->ttl_ms = lease_ms / 8 * 5;
    cli->transition_ms = lease_ms - cli->ttl_ms;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct acquire *a = &this_acquire;

    (void)argc;
    int status = check(a, cli);
    if (status != CLI_CONTINUE)
        return status;
    a->term.mutex = argv[0];
    a->term.id = a->job.id;
    a->contest.job = &a->job;
    a->contest.started_ms = simba_now_ms();
    a->contest.try_once = a->contest.try_once || a->job.wait_ms == 0;
    a->contest.detachable = a->keep_pid == 0;
    a->contest.on_won = a->keep_pid == 0 ? detach : NULL;
    if (a->keep_pid == 0)
        choose_first_lease(a, cli);
    if (a->keep_pid != 0) {
        status = cli_keeper_fork(&a->keeper, a->keep_pid);
        if (status != CLI_CONTINUE)
            return status;
        if (!a->keeper.is_keeper)
            return follow_keeper(a);
    }
    status = cli_job_prepare(&a->job, cli, argv);
    if (status == CLI_CONTINUE && !cli_events_open(&a->job.events))
        return cli_fail_system("events");
    return status == CLI_CONTINUE ? acquire(a) : status;
}

static const char details[] =
    "Acquires the mutex NAME for a script or a step of a CI job, prints what names\n"
    "the term as words for the shell, and leaves. The mutex stays acquired. Without\n"
    "-n or -w it waits for its turn without a limit, as 'simba lock' does.\n"
    "\n"
    "With --for the lease is as long as asked, and nobody renews it: 'simba renew'\n"
    "can. It ends by 'simba release NAME' or by itself. The script must stop its work\n"
    "at SIMBA_DEADLINE (seconds since 1970), which is 1 % of the lease and 10 ms\n"
    "before the end of the lease. Nothing stops it if it does not: where that matters\n"
    "use 'simba lock', or let the storage refuse fencing tokens that are smaller than\n"
    "one it has seen.\n"
    "\n"
    "With --keep a process stays in the background. It renews the lease of --ttl and\n"
    "--transition until the process PID ends, and then releases the mutex.\n"
    "SIMBA_KEEPER is its number; SIGTERM ends it in the same way. If it loses the\n"
    "lease, it ends, and nobody tells PID. On ZooKeeper and etcd a mutex cannot be\n"
    "held without a process: there only --keep works.\n"
    "\n"
    "The words set and export SIMBA_MUTEX, SIMBA_CONTENDER_ID, SIMBA_FENCE,\n"
    "SIMBA_DEADLINE and SIMBA_FOR, or SIMBA_KEEPER instead of the last two. 'simba\n"
    "renew' and 'simba release' read them. With --json it is an object with mutex,\n"
    "id, fence, deadline_ms (milliseconds since 1970; null with --keep), left_ms\n"
    "(until then) and keeper (null: none).\n"
    "\n"
    "Examples:\n"
    "  words=$(simba acquire deploy --for 10m -w 5m) && eval \"$words\" || exit 1\n"
    "  ./deploy.sh && simba release deploy\n"
    "  words=$(simba acquire deploy --keep $$) && eval \"$words\" || exit 1\n"
    "\n"
    "Exit codes:\n"
    "  0   acquired\n"
    "  64  the command line is wrong\n"
    "  69  the store is unreachable, or cannot do it (ZooKeeper without --keep)\n"
    "  71  out of memory, processes or descriptors\n"
    "  75  not acquired (see -E)\n"
    "  77  the store refused the credentials\n"
    "  78  a URL, name or timing is invalid\n"
    "  128 and the number of the signal that ended the wait";

const struct cli_verb cli_verb_acquire = {
    .name = "acquire",
    .usage = "acquire NAME (--for DURATION | --keep PID) [OPTION...]",
    .summary = "acquire a mutex for a script, and leave",
    .details = details,
    .options = options,
    .into = &this_acquire,
    .operands = CLI_OPERANDS_NAME,
    .run = run,
};
