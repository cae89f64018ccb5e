/*
 * orphans.c - what a command leaves running: finds it, waits for it, ends it.
 */
#include "cli/orphans.h"

#include "cli/cli.h"
#include "cli/numbered.h"
#include "cli/processes.h"
#include "cli/say.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_INTERVAL_MS 2
#define REAP_MS 20
#define EARLIER_MAX 512
#define TREE_MAX 32768 /* killed in one go; the rest in the next one */

/* ---- Children that were there before ------------------------------------------------------ */

/* What this process had for children when it began, in memory that a guardian inherits. None of them is collected,
 * so that the number of one that has ended is nobody else's. */
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

/* ---- A group ------------------------------------------------------------------------------ */

struct search {
    pid_t group;
    bool lives;
};

static bool find_member(int pid, void *user)
{
    struct search *search = user;

    search->lives = getpgid(pid) == search->group && cli_processes_runs(pid);
    return !search->lives;
}

bool cli_orphans_group_lives(pid_t group)
{
    struct search search = {group, false};

    bool failed = !cli_numbered_each("/proc", find_member, &search) && errno != ENOENT;
    return search.lives || failed;
}

/* ---- Adopting ----------------------------------------------------------------------------- */

static bool has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

static bool remember_one(int pid, void *user)
{
    bool *fits = user;

    *fits = earlier.count < EARLIER_MAX;
    if (*fits)
        earlier.pids[earlier.count++] = pid;
    return *fits;
}

static bool remember_earlier(void)
{
    bool fits = false;

    earlier.count = 0;
    return cli_processes_each_child(getpid(), remember_one, &fits) && fits;
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

/* ---- Killing a tree ----------------------------------------------------------------------- */

/* Those that are alive below a process, parents before their children. A guardian has a copy of its own. */
static struct {
    pid_t pids[TREE_MAX];
    size_t count;
} tree;

struct branch {
    pid_t parent;
    pid_t spared;
    size_t listed;
};

static bool add_living(int pid, void *user)
{
    struct branch *branch = user;

    if (pid == branch->spared || is_earlier(pid))
        return true;
    branch->listed++;
    if (cli_processes_is_living_child(pid, branch->parent))
        tree.pids[tree.count++] = pid;
    return tree.count < TREE_MAX;
}

/* A process that stands still starts no other, and collects none, so that the numbers stay theirs. The last of each
 * line die first: the kernel lets those go on that stand still when they lose the last relative outside of their
 * group. */
struct cli_tree_look cli_orphans_kill_tree(pid_t root, pid_t spared)
{
    struct branch branch = {.parent = root, .spared = spared, .listed = 0};
    struct cli_tree_look look = {0};

    tree.count = 0;
    look.failed = !cli_processes_each_child(root, add_living, &branch);
    look.listed = branch.listed;
    for (size_t i = 0; i < tree.count && tree.count < TREE_MAX; i++) {
        branch.parent = tree.pids[i];
        kill(branch.parent, SIGSTOP);
        look.failed |= !cli_processes_each_child(branch.parent, add_living, &branch);
    }
    for (size_t i = tree.count; i > 0; i--)
        look.alive += kill(tree.pids[i - 1], SIGKILL) == 0 || errno != EPERM;
    return look;
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
 * collected, but maybe after the look. So nobody is left only when a look that has not failed found nobody at all. */
struct look {
    bool failed;   /* for want of descriptors or memory: there may be more */
    size_t found;  /* with those that were collected */
    size_t alive;  /* after the look */
    size_t beyond; /* of these, the ones that cannot be killed */
};

struct ending {
    const struct cli_relatives *relatives;
    int signal;
    struct look look;
};

static bool end_child(int pid, void *user)
{
    struct ending *ending = user;

    if (pid == ending->relatives->command || pid == ending->relatives->guardian || is_earlier(pid))
        return true;
    enum fate fate = end_one(pid, ending->signal);
    ending->look.found++;
    ending->look.alive += fate != FATE_ENDED;
    ending->look.beyond += fate == FATE_BEYOND;
    return true;
}

static struct look end_all(const struct cli_relatives *relatives, int signal)
{
    struct ending ending = {.relatives = relatives, .signal = signal};

    ending.look.failed = !cli_processes_each_child(getpid(), end_child, &ending);
    return ending.look;
}

static void pause_briefly(void)
{
    struct timespec interval = {.tv_nsec = LOOK_INTERVAL_MS * 1000000L};

    nanosleep(&interval, NULL);
}

/* A long list may hide some while others are taken from it. */
void cli_orphans_reap(const struct cli_relatives *relatives)
{
    int64_t until_ms = simba_now_ms() + REAP_MS;
    struct look look = end_all(relatives, 0);

    while (look.found > look.alive && simba_now_ms() < until_ms)
        look = end_all(relatives, 0);
}

bool cli_orphans_await(const struct cli_relatives *relatives, int64_t limit_ms)
{
    int64_t until_ms = simba_now_ms() + limit_ms;
    struct look look = end_all(relatives, 0);

    while ((look.failed || look.found > 0) && simba_now_ms() < until_ms) {
        if (look.failed || look.alive > 0)
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

static struct look kill_all(const struct cli_relatives *relatives)
{
    cli_orphans_kill_tree(getpid(), relatives->guardian);
    return end_all(relatives, SIGKILL);
}

/* A process that is killed may leave orphans of its own, which the next look finds. While looks fail somebody may run,
 * and the mutex stays with this process. */
bool cli_orphans_kill(const struct cli_relatives *relatives)
{
    int64_t until_ms = simba_now_ms() + CLI_PATIENCE_MS;
    struct look look = kill_all(relatives);

    if (look.failed)
        cli_say("warning: without more descriptors or memory nobody can tell what the command has "
                "left running: trying again");
    while (look.failed || (look.found > look.beyond && simba_now_ms() < until_ms)) {
        if (look.failed)
            until_ms = simba_now_ms() + CLI_PATIENCE_MS;
        if (look.failed || look.alive > 0)
            pause_briefly();
        look = kill_all(relatives);
    }
    return look.found > 0;
}
