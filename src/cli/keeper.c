/*
 * keeper.c - the process in the background that holds a mutex while another process lives. Owns the
 * fork, the word from one process to the other, and the wait for the end; must not know how a mutex
 * is acquired.
 *
 * Until the keeper owns it belongs to the command line: it has the terminal's process group, and
 * dies with the process that the user waits for. After it has told that it owns it is on its own.
 */
#include "cli/keeper.h"

#include "cli/background.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Two processes --------------------------------------------------------------------------- */

/* A pidfd names the process itself: its number may be used again, the descriptor is not. */
static int open_kept(struct cli_keeper *k, pid_t pid)
{
    k->kept_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (k->kept_fd >= 0)
        return CLI_CONTINUE;
    if (errno != ESRCH)
        return cli_fail_system("--keep: the process cannot be followed");
    cli_message("--keep %ld: there is no such process", (long)pid);
    return CLI_EXIT_USAGE;
}

int cli_keeper_fork(struct cli_keeper *k, pid_t pid)
{
    int sockets[2];
    pid_t parent = getpid();
    int status = open_kept(k, pid);

    if (status != CLI_CONTINUE)
        return status;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return cli_fail_system("a socket");
    k->child = fork();
    if (k->child < 0)
        return cli_fail_system("cannot start a process");
    k->is_keeper = k->child == 0;
    k->word_fd = sockets[k->is_keeper];
    close(sockets[!k->is_keeper]);
    if (k->is_keeper) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) /* it died before that */
            _exit(CLI_EXIT_SYSTEM);
    } else {
        close(k->kept_fd);
    }
    return CLI_CONTINUE;
}

/* Ctrl-C reaches both: the keeper ends by it, and leaves nothing on the store. */
int cli_keeper_listen(struct cli_keeper *k, struct cli_keeper_word *ret_word)
{
    int status = 0;
    ssize_t size;

    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    do {
        size = recv(k->word_fd, ret_word, sizeof *ret_word, 0);
    } while (size < 0 && errno == EINTR);
    if (size == (ssize_t)sizeof *ret_word)
        return CLI_CONTINUE;
    while (waitpid(k->child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFSIGNALED(status))
        return CLI_EXIT_SIGNAL + WTERMSIG(status);
    return WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : CLI_EXIT_LOST;
}

/* ---- The keeper ------------------------------------------------------------------------------ */

/* What waits for the end of its output, as $(...) and CI runners do, must not wait for the
 * keeper. */
static bool leave_terminal(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0 || chdir("/") != 0)
        return false;
    setsid();
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    cli_message_flush(CLI_PATIENCE_MS);
    dup2(null, STDERR_FILENO);
    close(null);
    return true;
}

/* From the word on the first process may end, so its death means nothing any more. */
static bool tell(struct cli_keeper *k, simba_locker *locker)
{
    struct cli_keeper_word word = {.fence = simba_locker_fence(locker), .pid = (long)getpid()};

    snprintf(word.id, sizeof word.id, "%s", simba_locker_id(locker));
    prctl(PR_SET_PDEATHSIG, 0);
    bool told = word.fence != 0 && send(k->word_fd, &word, sizeof word, MSG_NOSIGNAL) > 0;
    close(k->word_fd);
    return told;
}

/* Returns whether the mutex is still held. */
static bool wait_for_end(const struct cli_keeper *k, const struct cli_contest *contest)
{
    struct pollfd fds[] = {
        {.fd = k->kept_fd, .events = POLLIN},
        {.fd = contest->wake_fd, .events = POLLIN},
        {.fd = contest->job->events.signals_fd, .events = POLLIN},
    };

    for (;;) {
        poll(fds, 3, -1);
        if (fds[0].revents != 0 || fds[1].revents != 0) /* woken: it is lost */
            return simba_locker_deadline_ms(atomic_load(&contest->locker)) != 0;
        if (cli_signals_take_end(fds[2].fd, cli_signal_ends) != 0)
            return true;
    }
}

/* On a thread of its own; a failure leaves the lease to its end. */
static void release(void *user)
{
    struct simba_error error;

    simba_locker_release(user, &error);
}

int cli_keeper_hold(struct cli_keeper *k, struct cli_contest *contest, int status)
{
    simba_locker *locker = atomic_load(&contest->locker);
    struct cli_finish finish = {.run = release, .user = locker, .limit_ms = SIMBA_INFINITE};
    int signals_fd = contest->job->events.signals_fd;
    int number = 0;
    bool lost = false;

    if (status == CLI_CONTINUE) {
        /* A Ctrl-C that came before was for the wait: then nobody may be told of a mutex. Another
         * one cannot come here. */
        bool left = leave_terminal();
        number = cli_signals_take_end(signals_fd, cli_signal_ends);
        if (left && number == 0 && tell(k, locker))
            lost = !wait_for_end(k, contest);
        status = number != 0 ? cli_signals_ended_by(number) : lost ? CLI_EXIT_LOST : CLI_EXIT_OK;
    }
    cli_background_finish(&finish, signals_fd, status);
    return status;
}
