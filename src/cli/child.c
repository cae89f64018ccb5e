/*
 * child.c - the command that runs under a mutex.
 *
 * This process has threads when it forks, so between vfork and exec only async-signal-safe calls
 * are made: all memory is prepared before.
 */
#include "cli/child.h"

#include "base/check.h"
#include "base/time.h"
#include "base/url.h"
#include "cli/cli.h"
#include "cli/events.h"
#include "cli/orphans.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The terminal ---------------------------------------------------------------------------- */

static int open_terminal(void)
{
    return open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

static bool count_member(int pid, void *user)
{
    size_t *members = user;

    *members += getpgid(pid) == getpgrp();
    return *members < 2;
}

/* Whether this process is alone in its group. */
static bool is_alone(void)
{
    size_t members = 0;

    return cli_proc_is_ours() && cli_proc_each("/proc", count_member, &members) && members == 1;
}

/* A script is in the group of its commands. When output and errors of this process go to the
 * terminal, it is no part of a pipeline, and the terminal is not shared. */
static bool terminal_is_ours(int fd)
{
    pid_t group = getpgrp();

    if (fd < 0 || tcgetpgrp(fd) != group)
        return false;
    return (tcgetpgrp(STDOUT_FILENO) == group && tcgetpgrp(STDERR_FILENO) == group) || is_alone();
}

/* Works from the background as well, since SIGTTOU is blocked. */
static void give_terminal_to(int fd, pid_t group)
{
    if (tcsetpgrp(fd, group) != 0 && errno != ENOTTY && errno != EIO)
        cli_message("cannot hand over the terminal: %s", strerror(errno));
}

/* ---- Starting -------------------------------------------------------------------------------- */

extern char **environ;

/* How long processes get to end by themselves when the command has ended, such as the tee at the
 * end of a pipe. */
#define LINGER_MS 200

#define GUARDIAN_RETRY_MS 100

/* Whether a variable has one of the names, each with its '='. */
static bool is_one_of(const char *variable, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

#define ANSWER_MS 5000 /* of the library about the store, which is not asked */

/* The variables that are set anew, and those of the service manager, to which only this program
 * reports. */
static bool is_withheld(const char *variable, const struct cli_child_setup *setup,
                        const char *of_store)
{
    static const char *const own[] = {
        "SIMBA_MUTEX=", "SIMBA_CONTENDER_ID=", "SIMBA_FENCE=", "SIMBA_FENCES=", "SIMBA_SLOT="};
    static const char *const stores[] = {"SIMBA_URL=", "SIMBA_CONFIG="};
    static const char *const notify[] = {"NOTIFY_SOCKET=", "WATCHDOG_USEC=", "WATCHDOG_PID="};

    for (; *of_store != 0; of_store += strlen(of_store) + 1)
        if (strncmp(variable, of_store, strcspn(of_store, "=") + 1) == 0)
            return true;
    return is_one_of(variable, own, sizeof own / sizeof *own) ||
           (setup->store[0] != 0 && is_one_of(variable, stores, sizeof stores / sizeof *stores)) ||
           (!setup->notify && is_one_of(variable, notify, sizeof notify / sizeof *notify));
}

/* Each with its NUL; an empty one behind the last. */
static bool write_variables(FILE *stream, const struct cli_child_setup *setup, const char *of_store)
{
    fprintf(stream, "SIMBA_MUTEX=%s%c", setup->mutex, 0);
    fprintf(stream, "SIMBA_CONTENDER_ID=%s%c", setup->id, 0);
    fprintf(stream, "SIMBA_FENCE=%" PRIu64 "%c", setup->fence, 0);
    if (setup->fences != NULL)
        fprintf(stream, "SIMBA_FENCES=%s%c", setup->fences, 0);
    if (setup->slot >= 0)
        fprintf(stream, "SIMBA_SLOT=%d%c", setup->slot, 0);
    if (setup->store[0] != 0)
        fprintf(stream, "%s%c", setup->store, 0);
    for (; *of_store != 0; of_store += strlen(of_store) + 1)
        fprintf(stream, "%s%c", of_store, 0);
    putc(0, stream);
    return fclose(stream) == 0;
}

static size_t count_texts(const char *texts)
{
    size_t count = 0;

    for (; *texts != 0; texts += strlen(texts) + 1)
        count++;
    return count;
}

static bool build(struct cli_environment *environment, const struct cli_child_setup *setup,
                  const char *of_store)
{
    size_t count = 0;
    size_t size = 0;
    FILE *stream = open_memstream(&environment->texts, &size);

    if (stream == NULL || !write_variables(stream, setup, of_store))
        return false;
    while (environ[count] != NULL)
        count++;
    environment->list =
        calloc(count + count_texts(environment->texts) + 1, sizeof *environment->list);
    if (environment->list == NULL)
        return false;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_withheld(environ[i], setup, of_store))
            environment->list[used++] = environ[i];
    }
    for (char *text = environment->texts; *text != 0; text += strlen(text) + 1)
        environment->list[used++] = text;
    return true;
}

/* A set has several records, and the slot of a semaphore has another name than its mutex: of those
 * the store tells nothing. */
bool cli_environment_build(struct cli_environment *environment, const struct cli_child_setup *setup)
{
    bool is_one = setup->fences == NULL && setup->slot < 0;
    char *of_store = NULL;
    struct simba_error error;

    if (is_one && simba_client_environment(setup->client, setup->mutex, setup->id, ANSWER_MS,
                                           &of_store, &error) != SIMBA_OK) {
        errno = error.code == SIMBA_ENOMEM ? ENOMEM : ETIMEDOUT;
        return false;
    }
    bool built = build(environment, setup, of_store != NULL ? of_store : "");
    simba_free(of_store);
    return built;
}

void cli_environment_free(struct cli_environment *environment)
{
    free(environment->list);
    free(environment->texts);
}

/* A process in the background is stopped when it reads from the terminal. With these signals
 * ignored, which exec keeps, reading /dev/tty is an error instead. Without a controlling terminal
 * the signals are left alone. */
static void withhold_terminal(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    int fd = open_terminal();

    if (fd < 0)
        return;
    close(fd);
    sigaction(SIGTTIN, &ignore, NULL);
    sigaction(SIGTTOU, &ignore, NULL);
    fd = tcgetpgrp(STDIN_FILENO) >= 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0)
        dup2(fd, STDIN_FILENO);
}

/* The child, between vfork and exec. It names its group to the guardian itself, before the command
 * begins: otherwise what the command starts could outlive a parent that is killed right now. The
 * parent-death signal ends the child with its parent; the parent may have ended before prctl, hence
 * the check of getppid. */
static void execute(const struct cli_child *child, char **argv, char **environment, pid_t parent,
                    int failure_fd)
{
    setpgid(0, 0);
    cli_guardian_watch(&child->guardian, getpid(), child->deadline_ms);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(CLI_EXIT_SIGNAL + SIGKILL);
    if (child->terminal)
        tcsetpgrp(child->tty_fd, getpid());
    else if (child->withheld)
        withhold_terminal();
    cli_signals_restore();
    if (child->liveness_fd >= 0)
        fcntl(child->liveness_fd, F_SETFD, 0); /* while the command runs the mutex is not free */
    execvpe(argv[0], argv, environment);
    int failure = errno;
    ssize_t told = write(failure_fd, &failure, sizeof failure);
    (void)told; /* the exit code says it, too */
    _exit(failure == ENOENT ? CLI_EXIT_NOT_FOUND : CLI_EXIT_NOT_EXECUTABLE);
}

/* Returns the child's pid, or -1 with errno. vfork is several times as fast as fork here. The child
 * uses the memory of this thread, which stands still until exec, and changes only errno there.
 * Should exec hang, the guardian kills the child at the end of the lease. */
static pid_t fork_command(struct cli_child *child, char **argv, char **environment)
{
    pid_t parent = getpid();
    int fds[2];

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    pid_t pid = vfork();
    if (pid == 0)
        execute(child, argv, environment, parent, fds[1]);
    int failure = errno;
    close(fds[1]);
    child->failure_fd = fds[0];
    if (pid < 0) {
        close(fds[0]);
        errno = failure;
        return -1;
    }
    setpgid(pid, pid); /* both sides do it: in either order the group is there */
    return pid;
}

static void close_terminal(struct cli_child *child)
{
    if (child->tty_fd >= 0)
        close(child->tty_fd);
}

/* Without these descriptors another process could own for an instant while the command still runs.
 * Returns false, with errno, where the store has them and they cannot be opened. */
static bool share_liveness(struct cli_child *child, simba_client *client)
{
    child->liveness_fd = simba_client_life_fd(client);
    if (child->liveness_fd < 0)
        return errno == ENOTSUP;
    child->guardian_fd = simba_client_life_fd(client);
    return child->guardian_fd >= 0;
}

static void close_liveness(struct cli_child *child)
{
    if (child->liveness_fd >= 0)
        close(child->liveness_fd);
    if (child->guardian_fd >= 0)
        close(child->guardian_fd);
}

static bool start_guardian(struct cli_child *child)
{
    struct cli_guardian_setup setup = {child->adopts, child->guardian_fd, child->pid,
                                       child->deadline_ms};

    return cli_guardian_start(&child->guardian, &setup);
}

/* Starts the guardian and then the child. */
static bool start_both(struct cli_child *child, char **argv, char **environment)
{
    if (!start_guardian(child))
        return false;
    child->pid = fork_command(child, argv, environment);
    if (child->pid > 0)
        return true;
    int failure = errno;
    cli_guardian_dismiss(&child->guardian);
    cli_guardian_collect();
    errno = failure;
    return false;
}

bool cli_child_start(struct cli_child *child, char **argv, const struct cli_child_setup *setup)
{
    struct cli_environment environment;

    SB_CHECK(gettid() == getpid(), "the main thread starts the command, which ends with it");
    if (!cli_environment_build(&environment, setup))
        return false;
    *child = (struct cli_child){
        .tty_fd = setup->terminal ? open_terminal() : -1,
        .withheld = !setup->terminal,
        .adopts = setup->adopts,
        .liveness_fd = -1,
        .guardian_fd = -1,
        .guardian_at_ms = SIMBA_INFINITE,
        .command = argv[0],
        .deadline_ms = setup->deadline_ms,
    };
    child->terminal = terminal_is_ours(child->tty_fd); /* before the guardian joins the group */
    child->has_modes = child->terminal && tcgetattr(child->tty_fd, &child->modes) == 0;
    bool started = share_liveness(child, setup->client) && (!child->adopts || cli_proc_reserve()) &&
                   start_both(child, argv, environment.list);
    int failure = errno;
    cli_environment_free(&environment);
    if (!started) {
        cli_proc_use_reserve();
        close_terminal(child);
        close_liveness(child);
    }
    errno = failure;
    return started;
}

/* ---- While it runs --------------------------------------------------------------------------- */

/* The guardian need not wake up for what it knows: the child has named the first deadline
 * itself. */
void cli_child_guard(struct cli_child *child, int64_t deadline_ms)
{
    SB_CHECK(child->pid > 1, "a guardian has a command to guard");
    if (deadline_ms == child->deadline_ms)
        return;
    child->deadline_ms = deadline_ms;
    cli_guardian_watch(&child->guardian, child->pid, deadline_ms);
}

static struct cli_known_children known_children(const struct cli_child *child)
{
    return (struct cli_known_children){child->pid, child->guardian.pid};
}

/* A lack of descriptors, for example, may pass. */
int64_t cli_child_check_guardian(struct cli_child *child)
{
    bool is_first = child->guardian_at_ms == SIMBA_INFINITE;

    if (!cli_guardian_has_ended(&child->guardian) && simba_now_ms() < child->guardian_at_ms)
        return child->guardian_at_ms;
    child->guardian_at_ms = SIMBA_INFINITE;
    if (start_guardian(child))
        return SIMBA_INFINITE;
    if (is_first)
        cli_message("warning: the guardian of the command has ended, and there is no new one (%s): "
                    "trying again",
                    strerror(errno));
    child->guardian_at_ms = sb_later(simba_now_ms(), GUARDIAN_RETRY_MS);
    return child->guardian_at_ms;
}

void cli_child_reap(const struct cli_child *child)
{
    struct cli_known_children known = known_children(child);

    if (child->adopts)
        cli_orphans_reap(&known);
}

/* The kernel reports success when it reached one process of the group. */
bool cli_child_signal(const struct cli_child *child, int signal)
{
    SB_CHECK(child->pid > 1, "a signal goes to the group of the command alone");
    bool reached = kill(-child->pid, signal) == 0;
    if (getpgid(child->pid) != child->pid)
        reached = kill(child->pid, signal) == 0 || reached;
    return reached;
}

/* The result counts for the child itself: that of a group says little. */
bool cli_child_kill(const struct cli_child *child)
{
    SB_CHECK(child->pid > 1, "a signal goes to the group of the command alone");
    kill(-child->pid, SIGKILL);
    return kill(child->pid, SIGKILL) == 0;
}

bool cli_child_leaves_others(const struct cli_child *child)
{
    struct cli_known_children known = known_children(child);

    cli_proc_use_reserve();
    return child->adopts && cli_orphans_await(&known, LINGER_MS);
}

static bool lease_lasts(const void *user)
{
    const struct cli_lease *lease = user;

    return lease->deadline_ms(lease->user) > simba_now_ms();
}

bool cli_child_sweep(const struct cli_child *child, const struct cli_lease *lease)
{
    struct cli_known_children known = known_children(child);

    SB_CHECK(child->pid > 1, "a signal goes to the group of the command alone");
    cli_proc_use_reserve();
    kill(-child->pid, SIGKILL);
    return child->adopts && cli_orphans_kill(&known, lease_lasts, lease);
}

bool cli_child_leaves_unlisted(const struct cli_child *child)
{
    if (!child->adopts || cli_proc_lists_children())
        return false;
    cli_guardian_collect();
    return cli_orphans_await_unlisted(LINGER_MS);
}

/* ---- Job control ----------------------------------------------------------------------------- */

enum cli_child_event cli_child_poll(const struct cli_child *child)
{
    siginfo_t info = {.si_pid = 0};

    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0)
        return CLI_CHILD_ENDED;
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOHANG) != 0 || info.si_pid == 0)
        return CLI_CHILD_RUNS;
    if (info.si_status == SIGTTIN || info.si_status == SIGTTOU)
        return CLI_CHILD_WAITS;
    /* SIGSTOP without a terminal is not job control: no shell would continue this process. */
    return info.si_status == SIGTSTP || child->terminal ? CLI_CHILD_STOPPED : CLI_CHILD_RUNS;
}

/* The whole job stops, with a script that waits for this process: otherwise that would go on
 * waiting, and the terminal would seem dead. */
bool cli_child_follow_stop(const struct cli_child *child)
{
    return child->terminal ? cli_signals_stop_job(SIGTSTP) : cli_signals_stop();
}

bool cli_child_ask_for_terminal(int64_t limit_ms)
{
    return limit_ms == SIMBA_INFINITE ? cli_signals_stop_job(SIGTTIN)
                                      : cli_signals_stop_job_for(SIGTTIN, limit_ms);
}

static void give_terminal(struct cli_child *child)
{
    if (!child->terminal)
        child->has_modes = tcgetattr(child->tty_fd, &child->modes) == 0;
    child->terminal = true;
    give_terminal_to(child->tty_fd, child->pid);
}

/* A child that has left its group would only stop again. */
bool cli_child_lend_terminal(struct cli_child *child)
{
    SB_CHECK(!child->withheld || child->tty_fd < 0, "a terminal that is withheld is not open");
    if (child->tty_fd >= 0 && tcgetpgrp(child->tty_fd) == getpgrp())
        give_terminal(child);
    if (child->tty_fd < 0 || tcgetpgrp(child->tty_fd) != child->pid ||
        getpgid(child->pid) != child->pid)
        return false;
    cli_child_signal(child, SIGCONT);
    return true;
}

/* From here on each side gets the terminal when it asks: to give it to the child unasked would stop
 * the others again. */
bool cli_child_return_terminal(struct cli_child *child)
{
    SB_CHECK(!child->terminal || child->tty_fd >= 0, "only a terminal that is open is handed over");
    if (!child->terminal || tcgetpgrp(child->tty_fd) != child->pid)
        return false;
    child->lent = true;
    child->terminal = false;
    give_terminal_to(child->tty_fd, getpgrp());
    kill(0, SIGCONT);
    return true;
}

/* A shell gives the terminal to this process's group, whichever group had it before the stop. */
void cli_child_continue(struct cli_child *child)
{
    if (!child->lent && terminal_is_ours(child->tty_fd))
        give_terminal(child);
    else if (child->terminal && tcgetpgrp(child->tty_fd) == getpgrp())
        child->terminal = false;
    cli_child_signal(child, SIGCONT);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Whether the child has the terminal, or a group that it gave it to, such as the job of a shell,
 * which is dead by now. */
static bool has_terminal(const struct cli_child *child)
{
    pid_t group = tcgetpgrp(child->tty_fd);

    return group == child->pid || (group > 0 && kill(-group, 0) != 0 && errno == ESRCH);
}

/* An editor that was killed could not restore the modes of the terminal. */
static void take_terminal_back(struct cli_child *child, bool killed)
{
    if (child->terminal && has_terminal(child)) {
        give_terminal_to(child->tty_fd, getpgrp());
        if (killed && child->has_modes)
            tcsetattr(child->tty_fd, TCSANOW, &child->modes);
    }
    close_terminal(child);
}

static void report_exec_failure(struct cli_child *child)
{
    char shown[PATH_MAX]; /* a URL in its place may hold a password */
    int failure = 0;

    child->failed = read(child->failure_fd, &failure, sizeof failure) == (ssize_t)sizeof failure;
    if (child->failed)
        cli_message("cannot run '%s': %s", sb_url_redact(child->command, shown, sizeof shown),
                    strerror(failure));
}

int cli_child_collect(struct cli_child *child)
{
    int status = 0;

    SB_CHECK(child->pid > 1, "a child that was started is collected");
    cli_guardian_dismiss(&child->guardian);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    take_terminal_back(child, WIFSIGNALED(status));
    report_exec_failure(child);
    close(child->failure_fd);
    close_liveness(child);
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    /* The user's interrupt went to the child's group alone. A script around this process must get
     * it, too. This process has the signal blocked, and ends by it last. */
    int signal = WTERMSIG(status);
    if (child->terminal && (signal == SIGINT || signal == SIGQUIT))
        kill(0, signal);
    return cli_signals_ended_by(signal);
}

void cli_child_abandon(struct cli_child *child)
{
    cli_guardian_dismiss(&child->guardian);
    take_terminal_back(child, false);
    close(child->failure_fd);
    close_liveness(child);
}
