/*
 * child.c - the command that runs under a mutex.
 *
 * This process has threads when it forks, so between fork and exec only async-signal-safe calls are
 * made: all memory is prepared before.
 */
#include "cli/child.h"

#include "cli/cli.h"
#include "cli/say.h"
#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Room for a name, '=', an id and its NUL. */
#define VARIABLE_MAX (32 + SIMBA_ID_MAX)
#define VARIABLES 3

struct environment {
    char **list; /* what is inherited, then the variables below, then NULL */
    char variables[VARIABLES][VARIABLE_MAX];
};

/* Those that are set anew, and the socket on which only this program reports. */
static bool is_withheld(const char *variable, const struct cli_child_lease *lease)
{
    return strncmp(variable, "SIMBA_MUTEX=", 12) == 0 ||
           strncmp(variable, "SIMBA_CONTENDER_ID=", 19) == 0 ||
           strncmp(variable, "SIMBA_FENCE=", 12) == 0 ||
           (strncmp(variable, "NOTIFY_SOCKET=", 14) == 0 && !lease->notify);
}

static bool environment_build(struct environment *environment, const struct cli_child_lease *lease)
{
    size_t count = 0;

    while (environ[count] != NULL)
        count++;
    environment->list = calloc(count + VARIABLES + 1, sizeof *environment->list);
    if (environment->list == NULL)
        return false;
    snprintf(environment->variables[0], VARIABLE_MAX, "SIMBA_MUTEX=%s", lease->mutex);
    snprintf(environment->variables[1], VARIABLE_MAX, "SIMBA_CONTENDER_ID=%s", lease->id);
    snprintf(environment->variables[2], VARIABLE_MAX, "SIMBA_FENCE=%" PRIu64, lease->fence);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_withheld(environ[i], lease))
            environment->list[used++] = environ[i];
    }
    for (size_t i = 0; i < VARIABLES; i++)
        environment->list[used++] = environment->variables[i];
    return true;
}

static bool have_terminal(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* Moves the terminal. SIGTTOU is blocked, so that this works from the background as well. */
static void give_terminal(pid_t group)
{
    if (tcsetpgrp(STDIN_FILENO, group) != 0 && errno != ENOTTY && errno != EIO)
        cli_say("cannot hand over the terminal: %s", strerror(errno));
}

/* Ends the child when its parent ends, also by SIGKILL. The parent may have ended before the kernel
 * was told, hence the second look. */
static void tie_to_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(CLI_EXIT_SIGNAL + SIGKILL);
}

/* The child, between fork and exec. It names its group to the guardian itself: the command must not begin
 * before that, or what it starts could outlive a parent that is killed in this moment. */
static void execute(const struct cli_child *child, char **argv, char **environment, pid_t parent,
                    int failure_fd)
{
    setpgid(0, 0);
    cli_guardian_watch(&child->guardian, getpid());
    tie_to_parent(parent);
    if (child->terminal)
        tcsetpgrp(STDIN_FILENO, getpid());
    cli_signals_restore();
    execvpe(argv[0], argv, environment);
    int failure = errno;
    ssize_t told = write(failure_fd, &failure, sizeof failure);
    (void)told; /* the exit code says it, too */
    _exit(failure == ENOENT ? CLI_EXIT_NOT_FOUND : CLI_EXIT_NOT_EXECUTABLE);
}

/* Returns the child's pid, or -1 with errno. */
static pid_t fork_command(struct cli_child *child, char **argv, char **environment)
{
    pid_t parent = getpid();
    int fds[2];

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    pid_t pid = fork();
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
    setpgid(pid, pid); /* both sides do it: whoever is first, the group is there */
    return pid;
}

bool cli_child_start(struct cli_child *child, char **argv, const struct cli_child_lease *lease)
{
    struct environment environment;

    *child = (struct cli_child){.terminal = have_terminal(), .command = argv[0]};
    if (!environment_build(&environment, lease))
        return false;
    if (!cli_guardian_start(&child->guardian)) {
        free(environment.list);
        return false;
    }
    child->pid = fork_command(child, argv, environment.list);
    int failure = errno;
    free(environment.list);
    if (child->pid < 0) {
        cli_guardian_dismiss(&child->guardian);
        errno = failure;
        return false;
    }
    return true;
}

bool cli_child_signal(const struct cli_child *child, int signal)
{
    return kill(-child->pid, signal) == 0;
}

/* For a group it counts as success to have reached one of many. What is said of the child itself is
 * certain, also when it has joined another group. */
bool cli_child_kill(const struct cli_child *child)
{
    kill(-child->pid, SIGKILL);
    return kill(child->pid, SIGKILL) == 0;
}

enum cli_child_event cli_child_look(const struct cli_child *child)
{
    siginfo_t info = {.si_pid = 0};

    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid != 0)
        return CLI_CHILD_ENDED;
    info.si_pid = 0;
    if (waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOHANG) != 0 || info.si_pid == 0)
        return CLI_CHILD_RUNS;
    /* SIGSTOP without a terminal is not job control: nobody would continue this process. */
    bool job_control = cli_signal_stops(info.si_status) || child->terminal;
    return job_control ? CLI_CHILD_STOPPED : CLI_CHILD_RUNS;
}

/* A shell that waits for this process takes part in its group's stop: without that it would go on
 * waiting in front of a dead terminal. */
void cli_child_follow_stop(const struct cli_child *child)
{
    kill(child->terminal ? 0 : getpid(), SIGSTOP);
}

void cli_child_continue(struct cli_child *child)
{
    if (have_terminal()) {
        child->terminal = true;
        give_terminal(child->pid);
    }
    cli_child_signal(child, SIGCONT);
}

/* The user's interrupt went to the child's group alone; a script around this process expects it,
 * too, or the script could not be interrupted. This process itself has the signal blocked. */
static void share_interrupt(const struct cli_child *child, int signal)
{
    if (child->terminal && (signal == SIGINT || signal == SIGQUIT))
        kill(0, signal);
}

static void take_terminal_back(const struct cli_child *child)
{
    if (child->terminal && tcgetpgrp(STDIN_FILENO) == child->pid)
        give_terminal(getpgrp());
}

static void say_failure(struct cli_child *child)
{
    int failure = 0;

    child->failed = read(child->failure_fd, &failure, sizeof failure) == (ssize_t)sizeof failure;
    if (child->failed)
        cli_say("cannot run '%s': %s", child->command, strerror(failure));
}

int cli_child_collect(struct cli_child *child)
{
    int status = 0;

    cli_guardian_dismiss(&child->guardian);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    take_terminal_back(child);
    say_failure(child);
    close(child->failure_fd);
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    share_interrupt(child, WTERMSIG(status));
    return CLI_EXIT_SIGNAL + WTERMSIG(status);
}

/* A group keeps its id from being used again as long as it has members. */
bool cli_child_left_others(const struct cli_child *child)
{
    return kill(-child->pid, 0) != 0 && errno == EPERM;
}

void cli_child_abandon(struct cli_child *child)
{
    cli_guardian_dismiss(&child->guardian);
    take_terminal_back(child);
    close(child->failure_fd);
}
