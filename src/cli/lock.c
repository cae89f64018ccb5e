/*
 * lock.c - `simba lock`: runs a command while holding a mutex.
 *
 * The wait for the mutex is on a thread of its own; the main thread listens to signals meanwhile, and
 * is the one that forks the command.
 */
#include "cli/background.h"
#include "cli/cli.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "cli/store.h"
#include "cli/supervise.h"

#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define GRACE_MAX_MS 5000

/* How long a wait may last before it is told of. */
#define SILENCE_MS 1000

/* How often a wait is told to end until it does: a request that comes before the wait is lost. */
#define CANCEL_INTERVAL_MS 10

struct lock {
    const struct cli *cli;
    const char *mutex;
    char **command;
    bool try_once;
    bool quiet;
    int64_t wait_ms;  /* SIMBA_UNSET: without a limit */
    int64_t grace_ms; /* SIMBA_UNSET: derived from the lease */
    int contended_code;
    int64_t started_ms;
    int signals_fd;
    int lost_fd; /* readable when the lease was lost */

    /* Written by the waiting thread. The main thread reads all but `locker` only after it has ended. */
    simba_client *client;
    _Atomic(simba_locker *) locker;
    int code;
    struct simba_error error;
};

static bool set_try(void *into, const char *value)
{
    (void)value;
    ((struct lock *)into)->try_once = true;
    return true;
}

static bool set_quiet(void *into, const char *value)
{
    (void)value;
    ((struct lock *)into)->quiet = true;
    return true;
}

static bool set_wait(void *into, const char *value)
{
    return cli_option_duration("--wait", value, &((struct lock *)into)->wait_ms);
}

static bool set_grace(void *into, const char *value)
{
    return cli_option_duration("--kill-after", value, &((struct lock *)into)->grace_ms);
}

static bool set_contended_code(void *into, const char *value)
{
    return cli_option_number("--contended-code", value, 0, 255,
                             &((struct lock *)into)->contended_code);
}

static const struct cli_option options[] = {
    {'n', "no-wait", NULL, "give up at once when somebody else owns", set_try},
    {'w', "wait", "DURATION", "give up when it was not acquired in this time", set_wait},
    {'E', "contended-code", "CODE", "exit code for giving up, 0 to 255 (75)", set_contended_code},
    {'k', "kill-after", "DURATION", "from SIGTERM to SIGKILL when the lease runs out", set_grace},
    {'q', "quiet", NULL, "do not say who owns while waiting and when giving up", set_quiet},
    {0, NULL, NULL, NULL, NULL},
};

/* ---- The waiting thread ------------------------------------------------------------------- */

static int attempt(struct lock *lock, simba_locker *locker)
{
    if (lock->try_once || lock->wait_ms == 0)
        return simba_locker_try_acquire(locker, &lock->error);
    if (lock->wait_ms == SIMBA_UNSET)
        return simba_locker_acquire(locker, &lock->error);
    int64_t left_ms = lock->started_ms + lock->wait_ms - simba_now_ms();
    return simba_locker_acquire_timeout(locker, left_ms > 0 ? left_ms : 0, &lock->error);
}

/* The grace is taken from the part of the lease in which renewals are tried; what is left of that must do
 * for a renewal. */
static int64_t longest_grace_ms(int64_t window_ms)
{
    return window_ms / 4 * 3;
}

/* Refuses a grace that is too long while nothing has happened yet. */
static int check_grace(struct lock *lock)
{
    int64_t ttl_ms = 0;
    int64_t transition_ms = 0;
    char given[32];
    char longest[32];

    if (lock->grace_ms == SIMBA_UNSET)
        return SIMBA_OK;
    int code = simba_client_lease(lock->client, &ttl_ms, &transition_ms);
    if (code != SIMBA_OK)
        return cli_error_set(&lock->error, code, "%s", simba_strerror(code));
    int64_t longest_ms =
        longest_grace_ms(transition_ms - simba_drift_margin_ms(ttl_ms + transition_ms));
    if (lock->grace_ms <= longest_ms)
        return SIMBA_OK;
    return cli_error_set(
        &lock->error, SIMBA_EINVAL,
        "--kill-after %s leaves no time to renew the lease: with this transition it can be %s",
        simba_duration_format(lock->grace_ms, given, sizeof given),
        simba_duration_format(longest_ms, longest, sizeof longest));
}

static void on_lost(void *user)
{
    eventfd_write(((struct lock *)user)->lost_fd, 1);
}

static int open_and_acquire(struct lock *lock)
{
    simba_locker *locker = NULL;

    int code = cli_store_open(lock->cli, 1, &lock->client, &lock->error);
    if (code == SIMBA_OK)
        code = check_grace(lock);
    if (code == SIMBA_OK)
        code = simba_locker_create(lock->client, lock->mutex, lock->cli->id, &locker, &lock->error);
    if (code != SIMBA_OK)
        return code;
    atomic_store(&lock->locker, locker);
    code = simba_locker_on_lost(locker, on_lost, lock, &lock->error);
    return code == SIMBA_OK ? attempt(lock, locker) : code;
}

static void wait_for_mutex(void *user)
{
    struct lock *lock = user;

    lock->code = open_and_acquire(lock);
}

/* ---- The main thread while it waits ------------------------------------------------------- */

/* Ends the wait. While the store is still being opened nothing can be on it: the program ends there and
 * then. It does so as well at a second signal, and when the store does not answer: what that may have
 * granted runs out. */
static void cancel_wait(struct lock *lock, struct cli_background *wait, int signal)
{
    int64_t until_ms = simba_now_ms() + CLI_PATIENCE_MS;
    int ended;

    if (atomic_load(&lock->locker) == NULL)
        cli_background_leave(wait, CLI_EXIT_SIGNAL + signal);
    do {
        simba_locker_cancel(atomic_load(&lock->locker));
        ended = cli_background_wait(wait, lock->signals_fd, CANCEL_INTERVAL_MS);
    } while (ended == CLI_BACKGROUND_LATE && simba_now_ms() < until_ms);
    if (ended != CLI_BACKGROUND_DONE)
        cli_background_leave(wait, CLI_EXIT_SIGNAL + (ended > 0 ? ended : signal));
}

/* The library ends a bounded wait by itself; it is the store's opening that has no bound of the user's. */
static int64_t wait_limit_ms(const struct lock *lock)
{
    if (lock->wait_ms == SIMBA_UNSET || lock->wait_ms > SIMBA_INFINITE - CLI_PATIENCE_MS)
        return SIMBA_INFINITE;
    return lock->wait_ms + CLI_PATIENCE_MS;
}

/* The library's sentence names the mutex and, where it is known, the owner. */
static int say_contended(const struct lock *lock)
{
    if (!lock->quiet)
        cli_say("%s", lock->error.text);
    return lock->contended_code;
}

/* Tells somebody who looks on why nothing happens. */
static void say_waiting(struct lock *lock)
{
    struct simba_owner owner = SIMBA_OWNER_NONE;
    simba_locker *locker = atomic_load(&lock->locker);

    if (lock->quiet || (!isatty(STDERR_FILENO) && lock->cli->log_level < SIMBA_LOG_INFO))
        return;
    if (locker != NULL)
        simba_locker_owner(locker, &owner);
    if (owner.id[0] != '\0')
        cli_say("waiting for '%s', which is owned by %s", lock->mutex, owner.id);
    else
        cli_say("waiting for '%s'", lock->mutex);
}

static int wait_while_telling(struct lock *lock, struct cli_background *wait)
{
    int64_t limit_ms = wait_limit_ms(lock);

    if (limit_ms <= SILENCE_MS)
        return cli_background_wait(wait, lock->signals_fd, limit_ms);
    int ended = cli_background_wait(wait, lock->signals_fd, SILENCE_MS);
    if (ended != CLI_BACKGROUND_LATE)
        return ended;
    say_waiting(lock);
    return cli_background_wait(wait, lock->signals_fd,
                               limit_ms == SIMBA_INFINITE ? limit_ms : limit_ms - SILENCE_MS);
}

static int acquire(struct lock *lock)
{
    struct cli_background wait;

    if (!cli_background_start(&wait, wait_for_mutex, lock))
        return cli_fail_system("cannot start a thread");
    int ended = wait_while_telling(lock, &wait);
    if (ended == CLI_BACKGROUND_LATE) {
        cli_say("'%s' was not acquired: the store has not answered in time", lock->mutex);
        cli_background_leave(&wait, CLI_EXIT_UNAVAILABLE);
    }
    if (ended != CLI_BACKGROUND_DONE) {
        cancel_wait(lock, &wait, ended);
        return CLI_EXIT_SIGNAL + ended;
    }
    if (lock->code == SIMBA_OK)
        return CLI_CONTINUE;
    if (simba_error_group(lock->code) == SIMBA_GROUP_CONTENDED)
        return say_contended(lock);
    return cli_fail(&lock->error);
}

/* ---- The command -------------------------------------------------------------------------- */

static int64_t locker_deadline(void *locker)
{
    return simba_locker_deadline_ms(locker);
}

/* The part of the lease in which renewals are tried: a store without leases has all of it. */
static int64_t renewal_window_ms(const struct lock *lock)
{
    struct simba_owner owner = SIMBA_OWNER_NONE;

    simba_locker_owner(lock->locker, &owner);
    int64_t deadline_ms = simba_locker_deadline_ms(lock->locker);
    int64_t begin_ms = simba_now_ms();
    if (owner.ttl_at_ms < SIMBA_INFINITE && owner.ttl_at_ms > begin_ms)
        begin_ms = owner.ttl_at_ms;
    return deadline_ms > begin_ms ? deadline_ms - begin_ms : 0;
}

/* What the store granted may be a little less than what was asked for. */
static int64_t choose_grace_ms(const struct lock *lock)
{
    int64_t window_ms = renewal_window_ms(lock);
    int64_t longest_ms = longest_grace_ms(window_ms);

    if (lock->grace_ms != SIMBA_UNSET)
        return lock->grace_ms < longest_ms ? lock->grace_ms : longest_ms;
    return window_ms / 3 < GRACE_MAX_MS ? window_ms / 3 : GRACE_MAX_MS;
}

static int run_command(struct lock *lock)
{
    struct cli_child_lease shown = {lock->mutex, simba_locker_id(lock->locker),
                                    simba_locker_fence(lock->locker)};
    lock->grace_ms = choose_grace_ms(lock);
    struct cli_lease lease = {lock->mutex, locker_deadline, lock->locker, lock->lost_fd,
                              lock->grace_ms};

    return cli_supervise(lock->command, &shown, &lease, lock->signals_fd);
}

/* ---- The end ------------------------------------------------------------------------------ */

/* The work is done: a mutex that cannot be given back is free when its lease ends. */
static void release(void *user)
{
    struct lock *lock = user;
    struct simba_error error;

    int code = simba_locker_release(lock->locker, &error);
    if (code != SIMBA_OK && simba_error_group(code) != SIMBA_GROUP_LOST &&
        lock->cli->log_level >= SIMBA_LOG_WARN)
        cli_say("warning: '%s' was not given back and is free when its lease ends: %s", lock->mutex,
                error.text);
}

static void close_all(void *user)
{
    struct lock *lock = user;

    simba_locker_close(lock->locker);
    cli_store_close(lock->client);
}

/* The library bounds the release; a store that has not renewed the lease in time will hardly do better
 * now. */
static int64_t release_limit_ms(const struct lock *lock)
{
    int64_t left_ms = simba_locker_deadline_ms(lock->locker) - simba_now_ms();

    return left_ms > lock->grace_ms ? SIMBA_INFINITE : CLI_PATIENCE_MS;
}

/* The signals that came for the command are not meant for what follows. */
static int work(struct lock *lock)
{
    int status = run_command(lock);

    while (cli_signals_next(lock->signals_fd) != 0)
        continue;
    cli_background_finish(release, lock, lock->signals_fd, release_limit_ms(lock), status);
    return status;
}

static int run_lock(struct lock *lock)
{
    if (!cli_signals_take(&lock->signals_fd))
        return cli_fail_system("signals");
    lock->lost_fd = eventfd(0, EFD_CLOEXEC);
    if (lock->lost_fd < 0)
        return cli_fail_system("eventfd");
    int status = acquire(lock);
    if (status == CLI_CONTINUE)
        status = work(lock);
    cli_background_finish(close_all, lock, lock->signals_fd, CLI_PATIENCE_MS, status);
    close(lock->lost_fd);
    close(lock->signals_fd);
    return status;
}

static int usage_error(const char *what)
{
    cli_say("lock: %s", what);
    fputs("Try 'simba lock --help'.\n", stderr);
    return CLI_EXIT_USAGE;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct lock lock = {
        .cli = cli,
        .wait_ms = SIMBA_UNSET,
        .grace_ms = SIMBA_UNSET,
        .contended_code = CLI_EXIT_CONTENDED,
        .started_ms = simba_now_ms(),
    };

    int status = cli_verb_parse(cli, &cli_verb_lock, &lock, 1, &argc, argv);
    if (status != CLI_CONTINUE)
        return status;
    if (argc < 1)
        return usage_error("the NAME of a mutex is missing");
    if (argc < 2)
        return usage_error("the COMMAND is missing");
    if (lock.try_once && lock.wait_ms != SIMBA_UNSET)
        return usage_error("--no-wait and --wait exclude each other");
    lock.mutex = argv[0];
    lock.command = argv + 1;
    status = simba_mutex_validate(lock.mutex, &lock.error);
    return status == SIMBA_OK ? run_lock(&lock) : cli_fail(&lock.error);
}

static const char details[] =
    "Runs COMMAND while holding the mutex NAME, and gives the mutex back when COMMAND ends.\n"
    "Without -n or -w it waits for its turn without a limit; a signal ends the wait, and a second "
    "one\n"
    "does not wait for the store.\n"
    "\n"
    "COMMAND finds SIMBA_MUTEX, SIMBA_CONTENDER_ID and SIMBA_FENCE in its environment. The fence\n"
    "is a number that grows with every owner: storage that refuses smaller ones than it has\n"
    "seen is safe from late writes. The process group of COMMAND gets every signal that simba\n"
    "gets. When the lease cannot be renewed, the group gets SIGTERM, and is killed before anybody\n"
    "else can own the mutex. From one to the other is a third of the time for renewals, at most\n"
    "5s; -k changes it, up to three quarters. When simba is killed, so is the process group.\n"
    "What runs as another user cannot be killed: write 'sudo simba lock', not '-- sudo COMMAND'.\n"
    "\n"
    "Examples:\n"
    "  simba lock backup -- ./backup.sh --full\n"
    "  simba lock -n nightly -- make report || echo 'somebody else is at it'\n"
    "  simba lock -w 30s -E 0 deploy -- ./deploy.sh\n"
    "  simba lock import -- sh -c 'load-data --fence \"$SIMBA_FENCE\"'\n"
    "\n"
    "Exit codes:\n"
    "  that of COMMAND, or 128 and the number of the signal that killed it or ended the wait\n"
    "  64  the command line is wrong              75   not acquired (see -E)\n"
    "  69  the store is unreachable               77   the store refused the credentials\n"
    "  70  the lease was lost, COMMAND stopped    78   a URL, name or timing is invalid\n"
    "  126 COMMAND cannot be executed             127  COMMAND was not found";

const struct cli_verb cli_verb_lock = {
    .name = "lock",
    .usage = "lock [OPTION...] NAME [--] COMMAND [ARGUMENT...]",
    .summary = "run a command while holding a mutex",
    .details = details,
    .options = options,
    .run = run,
};
