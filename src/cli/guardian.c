/*
 * guardian.c - kills the command's whole process group when this process dies without having ended it.
 *
 * It is forked from a process with threads: only async-signal-safe calls in here.
 */
#include "cli/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* It keeps nothing open but the pipe: no lock of the store, no pipe that somebody reads to its end. */
static void keep_only(int fd)
{
    dup2(fd, STDIN_FILENO);
    close_range(STDIN_FILENO + 1, ~0U, 0);
}

/* A group of its own keeps the signals of a terminal away; all others are blocked already. Whom it may
 * not kill, because of another user, it leaves: there is nobody left to tell. */
static void guard(int fd)
{
    pid_t group = 0;
    char end;

    setpgid(0, 0);
    prctl(PR_SET_NAME, "simba-guardian");
    keep_only(fd);
    if (read(STDIN_FILENO, &group, sizeof group) == (ssize_t)sizeof group) {
        while (read(STDIN_FILENO, &end, 1) < 0 && errno == EINTR)
            continue;
        kill(-group, SIGKILL);
    }
    _exit(0);
}

bool cli_guardian_start(struct cli_guardian *guardian)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        return false;
    guardian->pid = fork();
    if (guardian->pid == 0)
        guard(fds[0]);
    int failure = errno;
    close(fds[0]);
    guardian->fd = fds[1];
    if (guardian->pid > 0)
        return true;
    close(fds[1]);
    errno = failure;
    return false;
}

/* A pipe that is empty takes these few bytes; a guardian that is gone already guards nothing. */
void cli_guardian_watch(const struct cli_guardian *guardian, pid_t group)
{
    ssize_t told = write(guardian->fd, &group, sizeof group);
    (void)told;
}

void cli_guardian_dismiss(struct cli_guardian *guardian)
{
    kill(guardian->pid, SIGKILL);
    while (waitpid(guardian->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    close(guardian->fd);
}
