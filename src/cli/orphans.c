/*
 * orphans.c - what a command leaves running: finds it, waits for it, ends it.
 */
#include "cli/orphans.h"

#include "cli/cli.h"
#include "cli/numbered.h"
#include "cli/say.h"

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
#define EARLIER_MAX (CLI_ORPHANS_MAX / 2) /* leaves room for those of the command */

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

/* What this process had for children when it began, in memory that a guardian inherits. None of them is collected,
 * so that the number of one that has ended is nobody else's. */
static struct {
    pid_t pids[CLI_ORPHANS_MAX];
    size_t count;
} earlier;

static bool is_earlier(pid_t pid)
{
    for (size_t i = 0; i < earlier.count; i++) {
        if (earlier.pids[i] == pid)
            return true;
    }
    return false;
}

static size_t leave_out_earlier(pid_t *pids, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (!is_earlier(pids[i]))
            pids[kept++] = pids[i];
    }
    return kept;
}

static size_t list_children(pid_t parent, pid_t *pids, size_t max)
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

size_t cli_orphans_find(pid_t parent, pid_t *pids, size_t max)
{
    return leave_out_earlier(pids, list_children(parent, pids, max));
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

struct search {
    pid_t group;
    bool lives;
};

static bool find_member(int pid, void *user)
{
    struct search *search = user;

    search->lives = getpgid(pid) == search->group && is_running(pid);
    return !search->lives;
}

bool cli_orphans_group_lives(pid_t group)
{
    struct search search = {group, false};

    cli_numbered_each("/proc", find_member, &search);
    return search.lives;
}

/* ---- Adopting ----------------------------------------------------------------------------- */

static bool has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

/* As many as are looked at in one go could hide the others. */
static bool remember_earlier(void)
{
    earlier.count = list_children(getpid(), earlier.pids, CLI_ORPHANS_MAX);
    return earlier.count > 0 && earlier.count < EARLIER_MAX;
}

bool cli_orphans_adopt(void)
{
    if (has_children() && !remember_earlier()) {
        cli_say(
            "warning: this process had children when it began, and cannot tell them from what the "
            "command leaves running: daemons of the command may go on without the mutex");
        return false;
    }
    return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
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

/* What one look at the children has found. A process that ends gives its children to this one before it can be
 * collected, but maybe after the look. So nobody is left only when a look has found nobody at all. */
struct look {
    size_t found;  /* those who were collected included */
    size_t alive;  /* behind the look */
    size_t beyond; /* of these, who cannot be killed */
};

static struct look end_all(const struct cli_relatives *relatives, int signal)
{
    pid_t pids[CLI_ORPHANS_MAX];
    size_t count = cli_orphans_find(getpid(), pids, CLI_ORPHANS_MAX);
    struct look look = {0, 0, 0};

    for (size_t i = 0; i < count; i++) {
        if (pids[i] == relatives->command || pids[i] == relatives->guardian)
            continue;
        enum fate fate = end_one(pids[i], signal);
        look.found++;
        look.alive += fate != FATE_ENDED;
        look.beyond += fate == FATE_BEYOND;
    }
    return look;
}

static void pause_briefly(void)
{
    struct timespec interval = {.tv_nsec = LOOK_INTERVAL_MS * 1000000L};

    nanosleep(&interval, NULL);
}

void cli_orphans_reap(const struct cli_relatives *relatives)
{
    end_all(relatives, 0);
}

bool cli_orphans_await(const struct cli_relatives *relatives, int64_t limit_ms)
{
    int64_t until_ms = simba_now_ms() + limit_ms;
    struct look look = end_all(relatives, 0);

    while (look.found > 0 && simba_now_ms() < until_ms) {
        if (look.alive > 0)
            pause_briefly();
        look = end_all(relatives, 0);
    }
    return look.found > 0;
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

/* A process that is killed may leave orphans of its own, which the next look finds. */
bool cli_orphans_kill(const struct cli_relatives *relatives)
{
    int64_t until_ms = simba_now_ms() + CLI_PATIENCE_MS;
    struct look look = end_all(relatives, SIGKILL);

    while (look.found > look.beyond && simba_now_ms() < until_ms) {
        if (look.alive > 0)
            pause_briefly();
        look = end_all(relatives, SIGKILL);
    }
    return look.found > 0;
}
