/*
 * orphans.c - what a command leaves running: finds it in /proc, waits for it, ends it.
 */
#include "cli/orphans.h"

#include "base/check.h"
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- Numbered entries of a folder of /proc --------------------------------------------------- */

/* -1: the name is no number. */
static int number_of(const char *name)
{
    int number = 0;
    const char *digit = name;

    for (; *digit >= '0' && *digit <= '9'; digit++)
        number = number * 10 + (*digit - '0');
    return *digit == 0 && digit != name ? number : -1;
}

bool cli_proc_each(const char *folder, cli_proc_visit *visit, void *user)
{
    char entries[4096] __attribute__((aligned(__alignof__(struct dirent64))));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool goes_on = true;
    ssize_t length = 0;

    if (fd < 0)
        return false;
    while (goes_on && (length = getdents64(fd, entries, sizeof entries)) > 0) {
        const struct dirent64 *entry;
        for (ssize_t at = 0; at < length && goes_on; at += entry->d_reclen) {
            entry = (const struct dirent64 *)(const void *)(entries + at);
            int number = number_of(entry->d_name);
            goes_on = number < 0 || visit(number, user);
        }
    }
    close(fd);
    return length >= 0;
}

#define PATH_BYTES 64
#define DIGITS_MAX 10

bool cli_proc_is_ours(void)
{
    char self[DIGITS_MAX + 1] = "";

    if (readlink("/proc/self", self, sizeof self - 1) < 0)
        return false;
    errno = ENOENT;
    return number_of(self) == getpid();
}

#define PAGE_BYTES 4096 /* the kernel tells of no more children at once */
#define STAT_BYTES 512  /* up to the number of threads */
#define RESERVE 3       /* the folder of the threads, a list of children, the state of one */

/* ---- Paths; snprintf is not async-signal-safe ------------------------------------------------ */

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

/* Whether a call failed for want of descriptors or memory. Any other failure means that there is
 * nothing to see. */
static bool is_shortage(void)
{
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM;
}

/* ---- Descriptors for a scan ------------------------------------------------------------------ */

static struct {
    int fds[RESERVE];
    size_t count;
} reserve;

bool cli_proc_reserve(void)
{
    while (reserve.count < RESERVE) {
        int fd = open("/", O_PATH | O_CLOEXEC);
        if (fd < 0)
            return false;
        reserve.fds[reserve.count++] = fd;
    }
    return true;
}

void cli_proc_use_reserve(void)
{
    while (reserve.count > 0)
        close(reserve.fds[--reserve.count]);
}

/* ---- Children -------------------------------------------------------------------------------- */

struct listing {
    pid_t parent;
    cli_proc_visit *visit;
    void *user;
    bool failed;
};

/* A space follows each number. */
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

/* Visits the children of all threads of a process, with those that have ended and were not
 * collected. A list that gets shorter meanwhile may hide others. Visits none where the kernel lists
 * none. False: for want of descriptors or memory it has not seen all. */
static bool each_child(pid_t parent, cli_proc_visit *visit, void *user)
{
    struct listing listing = {parent, visit, user, false};
    char path[PATH_BYTES];

    if (!cli_proc_is_ours())
        return !is_shortage();
    append_text(append_process(path, parent), "/task");
    bool read = cli_proc_each(path, list_of_thread, &listing) || !is_shortage();
    return read && !listing.failed;
}

bool cli_proc_lists_children(void)
{
    char path[PATH_BYTES];

    write_children_path(path, getpid(), getpid());
    return cli_proc_is_ours() && access(path, R_OK) == 0;
}

/* ---- State ----------------------------------------------------------------------------------- */

struct state {
    char letter;
    int parent;
    int threads;
};

/* "PID (NAME) LETTER PARENT ...", where the name can be anything. The number of threads is the 16th
 * behind the parent. */
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

/* Returns false, with errno, when it is gone or cannot be read. */
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

/* Whether any thread of it runs, or may run: its state cannot be read for want of descriptors or
 * memory. A process whose first thread has ended before the others is marked dead, but has more
 * than one thread. */
static bool is_running(pid_t pid, struct state *state)
{
    if (read_state(pid, state))
        return (state->letter != 'Z' && state->letter != 'X') || state->threads > 1;
    *state = (struct state){0, 0, 0};
    return is_shortage();
}

#define SCAN_INTERVAL_MS 2
#define REAP_MS 20
#define EARLIER_MAX 512
#define TREE_MAX 32768 /* killed in one go; the rest in the next one */
#define STOP_SCANS 64  /* at most, before what was found is killed */

/* ---- Children that were there before --------------------------------------------------------- */

/* The children that this process had when it began, in memory that a guardian inherits. None of
 * them is collected, so that no other process gets its number. */
static struct {
    pid_t pids[EARLIER_MAX];
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

/* ---- A group --------------------------------------------------------------------------------- */

struct search {
    pid_t group;
    bool lives;
};

static bool find_member(int pid, void *user)
{
    struct search *search = user;
    struct state state;

    search->lives = getpgid(pid) == search->group && is_running(pid, &state);
    return !search->lives;
}

bool cli_orphans_group_lives(pid_t group)
{
    struct search search = {group, false};

    if (!cli_proc_is_ours())
        return kill(-group, 0) == 0 || errno == EPERM;
    bool failed = !cli_proc_each("/proc", find_member, &search) && errno != ENOENT;
    return search.lives || failed;
}

/* ---- Adopting -------------------------------------------------------------------------------- */

static bool remember_one(int pid, void *user)
{
    bool *fits = user;

    *fits = earlier.count < EARLIER_MAX;
    if (*fits)
        earlier.pids[earlier.count++] = pid;
    return *fits;
}

bool cli_orphans_adopt(void)
{
    siginfo_t info;
    bool fits = false;

    earlier.count = 0;
    bool has_children =
        waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
    if (has_children && !(each_child(getpid(), remember_one, &fits) && fits)) {
        cli_message(
            "warning: this process had children when it began, and cannot tell them from what the "
            "command leaves running: daemons of the command may go on without the mutex");
        return false;
    }
    return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

/* ---- Killing a tree -------------------------------------------------------------------------- */

/* The live processes below a process, parents before their children. A guardian has its own
 * copy. */
static struct {
    pid_t pids[TREE_MAX];
    size_t count;
} tree;

struct branch {
    pid_t parent;
    pid_t spared;
    bool signals_groups;
    pid_t stopped_group; /* the last one */
    size_t listed;
    size_t moving; /* those that were not stopped yet, and can be */
};

/* A process cannot join a session. So all members of a session that is not ours descend from the
 * command, and the kernel stops a group at once: no fork escapes. A first process of a container,
 * and one that had children before, may also inherit processes from sessions of strangers. */
static void stop(pid_t pid, struct branch *branch)
{
    pid_t group = branch->signals_groups && getsid(pid) != getsid(0) ? getpgid(pid) : 0;

    if (group > 1 && group != branch->stopped_group)
        kill(-group, SIGSTOP);
    branch->stopped_group = group;
    branch->moving += kill(pid, SIGSTOP) == 0;
}

static bool stop_living(int pid, void *user)
{
    struct branch *branch = user;
    struct state state;

    if (pid == branch->spared || is_earlier(pid))
        return true;
    branch->listed++;
    SB_CHECK(tree.count < TREE_MAX, "a process is added where there is room");
    if (!is_running(pid, &state) || (state.parent != branch->parent && state.letter != 0))
        return true;
    if (state.letter != 'T')
        stop(pid, branch);
    tree.pids[tree.count++] = pid;
    return tree.count < TREE_MAX;
}

/* One scan. A stopped process starts no other and collects none, so the numbers stay theirs. */
static struct cli_tree_scan stop_tree(pid_t root, struct branch *branch)
{
    struct cli_tree_scan scan = {0};

    tree.count = 0;
    branch->parent = root;
    branch->stopped_group = 0;
    branch->listed = 0;
    branch->moving = 0;
    scan.failed = !each_child(root, stop_living, branch);
    scan.listed = branch->listed;
    for (size_t i = 0; i < tree.count && tree.count < TREE_MAX; i++) {
        branch->parent = tree.pids[i];
        scan.failed |= !each_child(branch->parent, stop_living, branch);
    }
    return scan;
}

/* All are stopped before the first is killed: the dead would make room for what the others start.
 * Processes that continue each other are killed after STOP_SCANS all the same. The youngest
 * generation dies first: the kernel continues stopped processes when they lose the last relative
 * outside of their group. */
struct cli_tree_scan cli_orphans_kill_tree(pid_t root, pid_t spared)
{
    struct branch branch = {.spared = spared, .signals_groups = earlier.count == 0 && root != 1};
    struct cli_tree_scan scan;
    int scans = 0;

    SB_CHECK(root > 0, "the tree below one process is killed");
    do
        scan = stop_tree(root, &branch);
    while (branch.moving > 0 && !scan.failed && tree.count < TREE_MAX && ++scans < STOP_SCANS);
    for (size_t i = tree.count; i > 0; i--)
        scan.alive += kill(tree.pids[i - 1], SIGKILL) == 0 || errno != EPERM;
    return scan;
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* What one scan of the children has found. A process that ends gives its children to this one
 * before it can be collected, but maybe after the scan. So none is left only when a scan that has
 * not failed found none at all. */
struct scan {
    bool failed;          /* for want of descriptors or memory: there may be more */
    size_t found;         /* with those that were collected */
    size_t alive;         /* after the scan */
    size_t not_permitted; /* of these: they have changed their user and cannot be killed */
};

struct ending {
    const struct cli_known_children *known;
    int signal; /* 0: none, only collects */
    struct scan scan;
};

static bool end_child(int pid, void *user)
{
    struct ending *ending = user;

    if (pid == ending->known->command || pid == ending->known->guardian || is_earlier(pid))
        return true;
    ending->scan.found++;
    if (waitpid(pid, NULL, WNOHANG) != 0)
        return true;
    ending->scan.alive++;
    if (kill(pid, ending->signal) != 0 && errno == EPERM)
        ending->scan.not_permitted++;
    return true;
}

static struct scan end_all(const struct cli_known_children *known, int signal)
{
    struct ending ending = {.known = known, .signal = signal};

    ending.scan.failed = !each_child(getpid(), end_child, &ending);
    SB_CHECK(ending.scan.found >= ending.scan.alive &&
                 ending.scan.alive >= ending.scan.not_permitted,
             "the counts of a scan are those of its parts");
    return ending.scan;
}

static void pause_briefly(void)
{
    struct timespec interval = {.tv_nsec = SCAN_INTERVAL_MS * 1000000L};

    nanosleep(&interval, NULL);
}

/* A long list may hide some while others are taken from it. */
void cli_orphans_reap(const struct cli_known_children *known)
{
    int64_t until_ms = simba_now_ms() + REAP_MS;
    struct scan scan = end_all(known, 0);

    while (scan.found > scan.alive && simba_now_ms() < until_ms)
        scan = end_all(known, 0);
}

bool cli_orphans_await(const struct cli_known_children *known, int64_t limit_ms)
{
    int64_t until_ms = simba_now_ms() + limit_ms;
    struct scan scan = end_all(known, 0);

    while ((scan.failed || scan.found > 0) && simba_now_ms() < until_ms) {
        if (scan.failed || scan.alive > 0)
            pause_briefly();
        scan = end_all(known, 0);
    }
    return scan.found > 0;
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

static struct scan kill_all(const struct cli_known_children *known)
{
    cli_orphans_kill_tree(getpid(), known->guardian);
    return end_all(known, SIGKILL);
}

/* A killed process may leave orphans of its own, which the next scan finds. While scans fail, some
 * may run, and the mutex stays with this process. */
bool cli_orphans_kill(const struct cli_known_children *known, cli_orphans_insist *insists,
                      const void *user)
{
    struct scan scan = kill_all(known);
    int64_t until_ms = simba_now_ms() + CLI_PATIENCE_MS;

    if (scan.failed)
        cli_message("warning: what the command has left running cannot be listed, because "
                    "descriptors or memory are short: trying again");
    while (scan.failed || (scan.found > scan.not_permitted && simba_now_ms() < until_ms)) {
        if (scan.failed || scan.alive > 0)
            pause_briefly();
        scan = kill_all(known);
        if (scan.failed || insists(user))
            until_ms = simba_now_ms() + CLI_PATIENCE_MS;
    }
    return scan.found > 0;
}
