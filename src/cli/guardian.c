/*
 * guardian.c - kills what the command has started when this process cannot.
 *
 * It is forked from a process with threads: only async-signal-safe calls in here.
 */
#include "cli/guardian.h"

#include "base/check.h"
#include "cli/cli.h"
#include "cli/orphans.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- What ps shows --------------------------------------------------------------------------- */

extern char **environ;

/* The kernel has put the strings of the arguments, and behind them those of the environment, in one
 * piece, and shows what is there now. Where the last byte of the arguments is not NUL it reads on
 * into the environment. */
static struct {
    char *begin; /* NULL: not known */
    size_t size;
} area;

/* The end of these strings, as far as they follow each other without a gap. */
static char *end_of(char **strings, char *end)
{
    for (; *strings != NULL && *strings == end; strings++)
        end = *strings + strlen(*strings) + 1;
    return end;
}

void cli_guardian_keep_arguments(int argc, char **argv)
{
    if (argc < 1)
        return;
    area.begin = argv[0];
    area.size = (size_t)(end_of(environ, end_of(argv, argv[0])) - argv[0]);
}

/* Writes over the arguments, and over the environment behind them: from here on neither can be read
 * in this process. Async-signal-safe. */
static void set_title(const char *title)
{
    size_t length = strlen(title);

    if (area.size == 0)
        return;
    if (length >= area.size)
        length = area.size - 1;
    memset(area.begin, 0, area.size);
    memcpy(area.begin, title, length);
}

/* ---- The guardian ---------------------------------------------------------------------------- */

/* The pause between two checks whether the killed processes are dead. */
#define SETTLE_MIN_MS 1
#define SETTLE_MAX_MS 50

#define TITLE_MAX 48
#define NUMBERS_MAX 65536 /* of descriptors, where they have to be tried one by one */

/* What is sent through the pipe, always as a whole. */
struct order {
    pid_t group; /* 0: none yet */
    int64_t deadline_ms;
};

static bool close_listed(int fd, void *user)
{
    const int *first = user;

    if (fd > *first)
        close(fd);
    return true;
}

/* Older kernels do not know close_range, and the filter of a container may refuse it: then the
 * descriptor `first`, which is free by then, serves to read /proc. Without /proc all numbers are
 * tried, up to a limit: what this program opens or inherits has low numbers. */
static void close_from(int first)
{
    struct rlimit limit;

    close(first);
    if (close_range((unsigned)first, ~0U, 0) == 0 ||
        cli_proc_each("/proc/self/fd", close_listed, &first))
        return;
    rlim_t end = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : NUMBERS_MAX;
    for (int fd = first + 1; fd < NUMBERS_MAX && (rlim_t)fd < end; fd++)
        close(fd);
}

/* Closes all but these two: the locks of a database, pipes whose readers wait for their end, and
 * the other end of its own pipe, by which it notices that its parent has ended. */
static void keep_only(int fd, int liveness_fd)
{
    int liveness = liveness_fd >= 0 ? fcntl(liveness_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;

    dup2(fd, STDIN_FILENO);
    if (liveness >= 0)
        dup2(liveness, STDOUT_FILENO);
    close_from(liveness >= 0 ? STDOUT_FILENO + 1 : STDIN_FILENO + 1);
}

/* A lease that was over before it began has a deadline of 0, which would disarm the timer: it means
 * now. */
static void set_timer(int timer_fd, int64_t deadline_ms)
{
    if (deadline_ms <= 0)
        deadline_ms = 1;
    struct itimerspec timer = {.it_value = {.tv_sec = (time_t)(deadline_ms / 1000),
                                            .tv_nsec = (long)(deadline_ms % 1000) * 1000000}};

    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
}

static void pause_longer(struct timespec *interval)
{
    nanosleep(interval, NULL);
    if (interval->tv_nsec < SETTLE_MAX_MS * 1000000L)
        interval->tv_nsec *= 2;
}

/* The lease is over. Processes of another user are left: the guardian cannot kill them, and there
 * is nobody to tell. A process that ends gives its children to the parent, which stands still and
 * collects none, maybe after its list was read. So none is left when two scans in a row have not
 * failed, found all dead, and listed the same number. */
static void kill_all(pid_t group, pid_t parent)
{
    struct timespec interval = {.tv_nsec = SETTLE_MIN_MS * 1000000L};
    struct cli_tree_scan before = {.listed = SIZE_MAX};

    SB_CHECK(group > 1, "the guardian kills the group of a command");
    kill(-group, SIGKILL);
    while (parent != 0 && getppid() == parent) {
        struct cli_tree_scan scan = cli_orphans_kill_tree(parent, getpid());

        if (!scan.failed && !before.failed && scan.alive + before.alive == 0 &&
            scan.listed == before.listed)
            return;
        if (scan.listed != before.listed)
            interval.tv_nsec = SETTLE_MIN_MS * 1000000L;
        before = scan;
        pause_longer(&interval);
    }
}

/* Returns false when the parent has ended. */
static bool read_order(struct order *order, int timer_fd)
{
    struct order next;
    ssize_t got = read(STDIN_FILENO, &next, sizeof next);

    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    if (got != (ssize_t)sizeof next)
        return false;
    *order = next;
    set_timer(timer_fd, order->deadline_ms);
    return true;
}

static void wait_for_the_end(struct order *order, int timer_fd, pid_t parent)
{
    struct pollfd fds[] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = timer_fd, .events = POLLIN},
    };
    uint64_t expirations;

    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[0].revents != 0) { /* first: the lease may have been renewed */
            if (!read_order(order, timer_fd))
                return;
        } else if (read(timer_fd, &expirations, sizeof expirations) > 0) {
            kill_all(order->group, parent);
        }
    }
}

/* The parent is gone. On SQLite its mutex is free when the guardian is gone, too. So the guardian
 * stays until the whole group is dead, with processes that have closed the descriptor, or until the
 * lease ends. */
static void end_group(const struct order *order)
{
    struct timespec interval = {.tv_nsec = SETTLE_MIN_MS * 1000000L};

    SB_CHECK(order->group > 1, "the guardian kills the group of a command");
    kill(-order->group, SIGKILL);
    while (cli_orphans_group_lives(order->group) && simba_now_ms() < order->deadline_ms)
        pause_longer(&interval);
}

/* Its own group keeps the signals of a terminal away; all others are blocked already. */
static void guard(int fd, int liveness_fd, pid_t parent, const char *title)
{
    struct order order = {0, 0};

    setpgid(0, 0);
    prctl(PR_SET_NAME, "simba-guardian");
    set_title(title);
    keep_only(fd, liveness_fd);
    int timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    wait_for_the_end(&order, timer_fd, parent);
    if (order.group > 0)
        end_group(&order);
    _exit(0);
}

/* A failure needs no report: the end of the guardian is noticed by cli_guardian_has_ended. */
static void send_order(int fd, const struct order *order)
{
    ssize_t told = write(fd, order, sizeof *order);
    (void)told;
}

/* Neither end blocks: the parent must not wait for a guardian that was stopped. A group that exists
 * already is in the pipe before the guardian starts: the parent may be killed at any time after
 * that. _Fork skips the fork handlers of all libraries, which take a third of the time of fork. */
bool cli_guardian_start(struct cli_guardian *guardian, const struct cli_guardian_setup *setup)
{
    struct order order = {.group = setup->group, .deadline_ms = setup->deadline_ms};
    pid_t parent = setup->adopts ? getpid() : 0;
    char title[TITLE_MAX];
    int fds[2];

    SB_CHECK(setup->group == 0 || setup->group > 1, "the guardian kills the group of a command");
    *guardian = CLI_GUARDIAN_NONE;
    snprintf(title, sizeof title, "simba: guardian of %d", (int)getpid());
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    if (setup->group > 0)
        send_order(fds[1], &order);
    pid_t pid = _Fork();
    if (pid == 0)
        guard(fds[0], setup->liveness_fd, parent, title);
    int failure = errno;
    close(fds[0]);
    if (pid > 0) {
        *guardian = (struct cli_guardian){pid, fds[1]};
        return true;
    }
    close(fds[1]);
    errno = failure;
    return false;
}

void cli_guardian_watch(const struct cli_guardian *guardian, pid_t group, int64_t deadline_ms)
{
    struct order order = {.group = group, .deadline_ms = deadline_ms};

    SB_CHECK(group > 1, "the guardian kills the group of a command");
    send_order(guardian->fd, &order);
}

bool cli_guardian_has_ended(struct cli_guardian *guardian)
{
    if (guardian->pid == 0 || waitpid(guardian->pid, NULL, WNOHANG) != guardian->pid)
        return false;
    close(guardian->fd);
    *guardian = CLI_GUARDIAN_NONE;
    return true;
}

static pid_t dismissed; /* and not collected; 0: none */

void cli_guardian_dismiss(struct cli_guardian *guardian)
{
    if (guardian->pid == 0)
        return;
    SB_CHECK(dismissed == 0, "the guardian before this one was collected");
    kill(guardian->pid, SIGKILL);
    dismissed = guardian->pid;
    close(guardian->fd);
}

void cli_guardian_collect(void)
{
    while (dismissed != 0 && waitpid(dismissed, NULL, 0) < 0 && errno == EINTR)
        continue;
    dismissed = 0;
}
