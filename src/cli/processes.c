/*
 * processes.c - what the kernel tells of processes in /proc.
 */
#include "cli/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 64
#define DIGITS_MAX 10
#define PAGE_BYTES 4096 /* the kernel tells of no more children at once */
#define STAT_BYTES 512  /* up to the number of threads */
#define RESERVE 3       /* the folder of the threads, a list of children, the state of one */

/* ---- Paths; snprintf is not async-signal-safe --------------------------------------------- */

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
    *at = 0;
    return at;
}

static char *append_process(char *at, pid_t pid)
{
    return append_number(append_text(at, "/proc/"), pid);
}

static void write_children_path(char *path, pid_t pid, pid_t thread)
{
    char *at = append_text(append_process(path, pid), "/task/");

    append_text(append_number(at, thread), "/children");
}

/* What failed for want of descriptors or memory tells nothing; all else means that there is nothing to see. */
static bool is_shortage(void)
{
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM;
}

/* ---- Descriptors for a look --------------------------------------------------------------- */

static struct {
    int fds[RESERVE];
    size_t count;
} reserve;

bool cli_processes_reserve(void)
{
    while (reserve.count < RESERVE) {
        int fd = open("/", O_PATH | O_CLOEXEC);
        if (fd < 0)
            return false;
        reserve.fds[reserve.count++] = fd;
    }
    return true;
}

void cli_processes_use_reserve(void)
{
    while (reserve.count > 0)
        close(reserve.fds[--reserve.count]);
}

/* ---- Children ----------------------------------------------------------------------------- */

struct listing {
    pid_t parent;
    cli_numbered_visit *visit;
    void *user;
    bool failed;
};

/* Each number has a space behind it. */
static bool visit_numbers(int fd, struct listing *listing)
{
    char text[PAGE_BYTES];
    ssize_t length;
    pid_t number = 0;

    while ((length = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < length; i++) {
            if (text[i] != ' ') {
                number = number * 10 + (text[i] - '0');
                continue;
            }
            if (!listing->visit(number, listing->user))
                return false;
            number = 0;
        }
    }
    listing->failed = listing->failed || (length < 0 && is_shortage());
    return true;
}

static bool list_of_thread(int thread, void *user)
{
    struct listing *listing = user;
    char path[PATH_BYTES];

    write_children_path(path, listing->parent, thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        listing->failed = listing->failed || is_shortage();
        return true;
    }
    bool goes_on = visit_numbers(fd, listing);
    close(fd);
    return goes_on;
}

bool cli_processes_each_child(pid_t parent, cli_numbered_visit *visit, void *user)
{
    struct listing listing = {parent, visit, user, false};
    char path[PATH_BYTES];

    append_text(append_process(path, parent), "/task");
    bool read = cli_numbered_each(path, list_of_thread, &listing) || !is_shortage();
    return read && !listing.failed;
}

bool cli_processes_are_listed(void)
{
    char path[PATH_BYTES];

    write_children_path(path, getpid(), getpid());
    return access(path, R_OK) == 0;
}

/* ---- State -------------------------------------------------------------------------------- */

struct state {
    char letter;
    int parent;
    int threads;
};

/* "PID (NAME) LETTER PARENT ...", where the name can be anything. The number of threads is the 16th behind the
 * parent. */
static struct state parse_state(const char *text)
{
    const char *at = strrchr(text, ')');
    struct state state = {0, 0, 0};
    int *fields[17] = {[0] = &state.parent, [16] = &state.threads};

    if (at == NULL || at[1] == 0)
        return state;
    at += 2;
    state.letter = *at;
    for (size_t i = 0; i < 17 && (at = strchr(at, ' ')) != NULL; i++) {
        at++;
        for (const char *digit = at; fields[i] != NULL && *digit >= '0' && *digit <= '9'; digit++)
            *fields[i] = *fields[i] * 10 + (*digit - '0');
    }
    return state;
}

/* Returns false when it is gone, or cannot be looked at. */
static bool read_state(pid_t pid, struct state *state)
{
    char path[PATH_BYTES];
    char text[STAT_BYTES];

    append_text(append_process(path, pid), "/stat");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length == 0)
        errno = ESRCH;
    text[length > 0 ? length : 0] = 0;
    *state = parse_state(text);
    return length > 0;
}

/* A process whose first thread has ended before the others looks dead but for their number. */
static bool runs(const struct state *state)
{
    return (state->letter != 'Z' && state->letter != 'X') || state->threads > 1;
}

bool cli_processes_runs(pid_t pid)
{
    struct state state;

    return read_state(pid, &state) ? runs(&state) : is_shortage();
}

bool cli_processes_is_living_child(pid_t pid, pid_t parent)
{
    struct state state;

    return read_state(pid, &state) ? state.parent == parent && runs(&state) : is_shortage();
}
