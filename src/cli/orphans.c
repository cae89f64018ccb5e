/*
 * orphans.c - what a command leaves running: finds it, waits for it, ends it.
 */
#include "cli/orphans.h"

#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 64
#define DIGITS_MAX 10
#define LOOK_INTERVAL_MS 2

/* ---- Finding ------------------------------------------------------------------------------ */

static char *append_number(char *at, pid_t number)
{
    char digits[DIGITS_MAX];
    size_t count = 0;

    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0 && count < DIGITS_MAX);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

static char *append_text(char *at, const char *text)
{
    while (*text != 0)
        *at++ = *text++;
    return at;
}

/* "/proc/PID/task/PID/children"; snprintf is not async-signal-safe. */
static void write_path(char *path, pid_t parent)
{
    char *at = append_number(append_text(path, "/proc/"), parent);

    at = append_number(append_text(at, "/task/"), parent);
    at = append_text(at, "/children");
    *at = 0;
}

/* Each number has a space behind it, so one that was cut off does not count. */
static size_t read_numbers(const char *text, size_t length, pid_t *pids, size_t max)
{
    size_t count = 0;
    pid_t number = 0;

    for (size_t i = 0; i < length && count < max; i++) {
        if (text[i] == ' ') {
            pids[count++] = number;
            number = 0;
        } else {
            number = number * 10 + (text[i] - '0');
        }
    }
    return count;
}

size_t cli_orphans_find(pid_t parent, pid_t *pids, size_t max)
{
    char path[PATH_BYTES];
    char text[CLI_ORPHANS_MAX * 8];

    write_path(path, parent);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, sizeof text);
    close(fd);
    return length > 0 ? read_numbers(text, (size_t)length, pids, max) : 0;
}

bool cli_orphans_are_listed(void)
{
    char path[PATH_BYTES];

    write_path(path, getpid());
    return access(path, R_OK) == 0;
}

/* ---- A group ------------------------------------------------------------------------------ */

/* Reads at most `size` bytes of a file of a process and ends them with a NUL. Returns false when it is gone. */
static bool read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    return length > 0;
}

/* "PID (NAME) STATE ...", where the name can be anything. */
static bool is_running(pid_t pid)
{
    char path[PATH_BYTES];
    char text[PATH_BYTES];

    char *end = append_text(append_number(append_text(path, "/proc/"), pid), "/stat");
    *end = 0;
    if (!read_file(path, text, sizeof text))
        return false;
    const char *name_end = strrchr(text, ')');
    char state = name_end != NULL && name_end[1] != 0 ? name_end[2] : 0;
    return state != 'Z' && state != 'X';
}

/* 0: it is no number. */
static pid_t number_of(const char *name)
{
    pid_t number = 0;

    for (; *name >= '0' && *name <= '9'; name++)
        number = number * 10 + (*name - '0');
    return *name == 0 ? number : 0;
}

static bool has_member(const char *entries, size_t length, pid_t group)
{
    const struct dirent64 *entry;

    for (size_t at = 0; at < length; at += entry->d_reclen) {
        entry = (const struct dirent64 *)(const void *)(entries + at);
        pid_t pid = number_of(entry->d_name);
        if (pid > 0 && getpgid(pid) == group && is_running(pid))
            return true;
    }
    return false;
}

bool cli_orphans_group_lives(pid_t group)
{
    char entries[4096] __attribute__((aligned(__alignof__(struct dirent64))));
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool lives = false;
    ssize_t length = 0;

    if (fd < 0)
        return false;
    while (!lives && (length = getdents64(fd, entries, sizeof entries)) > 0)
        lives = has_member(entries, (size_t)length, group);
    close(fd);
    return lives;
}

/* ---- Adopting ----------------------------------------------------------------------------- */

static bool has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

bool cli_orphans_adopt(void)
{
    return !has_children() && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

/* ---- Ending ------------------------------------------------------------------------------- */

enum fate { FATE_ENDED, FATE_ALIVE, FATE_BEYOND };

/* A signal of 0 does no harm. Who has changed its user cannot be killed. */
static enum fate end_one(pid_t pid, int signal)
{
    if (waitpid(pid, NULL, WNOHANG) != 0)
        return FATE_ENDED;
    return kill(pid, signal) != 0 && errno == EPERM ? FATE_BEYOND : FATE_ALIVE;
}

/* Returns how many are alive, and of these how many cannot be killed. */
static size_t end_all(const struct cli_relatives *relatives, int signal, size_t *ret_beyond)
{
    pid_t pids[CLI_ORPHANS_MAX];
    size_t count = cli_orphans_find(getpid(), pids, CLI_ORPHANS_MAX);
    size_t alive = 0;

    *ret_beyond = 0;
    for (size_t i = 0; i < count; i++) {
        if (pids[i] == relatives->command || pids[i] == relatives->guardian)
            continue;
        enum fate fate = end_one(pids[i], signal);
        alive += fate != FATE_ENDED;
        *ret_beyond += fate == FATE_BEYOND;
    }
    return alive;
}

static void pause_briefly(void)
{
    struct timespec interval = {.tv_nsec = LOOK_INTERVAL_MS * 1000000L};

    nanosleep(&interval, NULL);
}

size_t cli_orphans_reap(const struct cli_relatives *relatives)
{
    size_t beyond;

    return end_all(relatives, 0, &beyond);
}

size_t cli_orphans_await(const struct cli_relatives *relatives, int64_t limit_ms)
{
    int64_t until_ms = simba_now_ms() + limit_ms;
    size_t alive = cli_orphans_reap(relatives);

    while (alive > 0 && simba_now_ms() < until_ms) {
        pause_briefly();
        alive = cli_orphans_reap(relatives);
    }
    return alive;
}

bool cli_orphans_await_unlisted(int64_t limit_ms)
{
    int64_t until_ms = simba_now_ms() + limit_ms;
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0 || (pid == 0 && simba_now_ms() < until_ms)) {
        if (pid == 0)
            pause_briefly();
    }
    return pid == 0;
}

/* Who is killed may leave orphans of its own, which are found in the next round. */
size_t cli_orphans_kill(const struct cli_relatives *relatives)
{
    int64_t until_ms = simba_now_ms() + CLI_PATIENCE_MS;
    size_t beyond;
    size_t alive = end_all(relatives, SIGKILL, &beyond);

    while (alive > beyond && simba_now_ms() < until_ms) {
        pause_briefly();
        alive = end_all(relatives, SIGKILL, &beyond);
    }
    return alive;
}
