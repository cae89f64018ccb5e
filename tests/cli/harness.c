/*
 * harness.c - runs the program as a user does.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS_MAX 32

static const char *program; /* the one to test */
static char folder[64];
static int processes; /* started in this sandbox */
static struct process last;

int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void pause_briefly(void)
{
    struct timespec pause = {0, 5 * 1000 * 1000};

    nanosleep(&pause, NULL);
}

/* ---- The sandbox ----------------------------------------------------------------------------- */

int sandbox_enter(void **state)
{
    char url[256];

    program = getenv("SIMBA_PROGRAM");
    if (program == NULL || access(program, X_OK) != 0) {
        fprintf(stderr, "SIMBA_PROGRAM does not name the program to test\n");
        return -1;
    }
    processes = 0;
    /* Orphans become children of the tests, so that none goes unseen. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    snprintf(folder, sizeof folder, "/tmp/simba-cli-XXXXXX");
    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        return -1;
    snprintf(url, sizeof url, "sqlite:%s/store.db?ttl=%dms&transition=%dms&jitter=0ms..50ms",
             folder, TTL_MS, TRANSITION_MS);
    return setenv("SIMBA_URL", url, 1);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* Kills the children of this process and says which they were. */
static void kill_children(void)
{
    char path[64];
    char list[1024];

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    snprintf(list, sizeof list, "%s", file_read(path));
    for (char *place = list, *pid; (pid = strtok_r(place, " \n", &place)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
        fprintf(stderr, "left behind: process %s (%s)\n", pid, file_read(path));
        kill((pid_t)strtol(pid, NULL, 10), SIGKILL);
    }
}

/* A process that outlives its test is killed and counted as a failure. */
static int end_leftovers(void)
{
    int64_t end_ms = now_ms() + 2000;
    int left = 0;

    for (;;) {
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0)
            return left;
        if (info.si_pid == 0 && now_ms() > end_ms) {
            kill_children();
            left = -1;
        }
        if (info.si_pid == 0)
            pause_briefly();
    }
}

int sandbox_leave(void **state)
{
    int left = end_leftovers();
    if (chdir("/") != 0)
        return -1;
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return left;
}

/* ---- Processes ------------------------------------------------------------------------------- */

static void redirect(int fd, const char *path, int flags)
{
    int opened = open(path, flags | O_CLOEXEC, 0600);

    if (opened < 0 || dup2(opened, fd) < 0)
        _exit(120);
}

static struct process start(const char *file, const char *input, va_list list)
{
    struct process process;
    char *arguments[ARGUMENTS_MAX + 2] = {(char *)file};
    int count = 1;

    while (count <= ARGUMENTS_MAX && (arguments[count] = va_arg(list, char *)) != NULL)
        count++;
    snprintf(process.out, sizeof process.out, "out.%d", processes);
    snprintf(process.err, sizeof process.err, "err.%d", processes++);
    process.pid = fork();
    if (process.pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        redirect(0, input != NULL ? input : "/dev/null", O_RDONLY);
        redirect(1, process.out, O_WRONLY | O_CREAT | O_TRUNC);
        redirect(2, process.err, O_WRONLY | O_CREAT | O_TRUNC);
        execvp(file, arguments);
        _exit(121);
    }
    assert_true(process.pid > 0);
    setpgid(process.pid, process.pid);
    return process;
}

struct process simba_start(const char *input, ...)
{
    va_list list;

    va_start(list, input);
    struct process process = start(program, input, list);
    va_end(list);
    return process;
}

struct process command_start(const char *file, ...)
{
    va_list list;

    va_start(list, file);
    struct process process = start(file, NULL, list);
    va_end(list);
    return process;
}

static int decode(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int process_wait(const struct process *process)
{
    int pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    int status = 0;

    assert_true(pidfd >= 0);
    int ready = poll(&ended, 1, PATIENCE_MS);
    close(pidfd);
    if (ready != 1) {
        kill(process->pid, SIGKILL);
        waitpid(process->pid, &status, 0);
        fail_msg("process %d did not end; it said: %s", (int)process->pid, file_read(process->err));
    }
    assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
    return decode(status);
}

int simba_run_input(const char *input, ...)
{
    va_list list;

    va_start(list, input);
    last = start(program, input, list);
    va_end(list);
    return process_wait(&last);
}

const char *last_out(void)
{
    return file_read(last.out);
}

const char *last_err(void)
{
    return file_read(last.err);
}

/* A zombie is not alive. */
bool process_is_alive(pid_t pid)
{
    char path[64];
    char line[256] = "";

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = 0;
    const char *state = strrchr(line, ')');
    return state != NULL && state[2] != 'Z' && state[2] != 'X';
}

/* A number in /proc/PID/status, 0 where there is none. */
static unsigned long status_number(pid_t pid, const char *name, int base)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    const char *line = strstr(file_read(path), name);
    return line != NULL ? strtoul(line + strlen(name), NULL, base) : 0;
}

long process_user(pid_t pid)
{
    return (long)status_number(pid, "Uid:", 10);
}

long process_wakes(pid_t pid)
{
    return (long)status_number(pid, "\nvoluntary_ctxt_switches:", 10);
}

bool process_has_open(pid_t pid, const char *end)
{
    char command[256];

    snprintf(command, sizeof command, "ls -l /proc/%d/fd 2>/dev/null | grep -q '%s$'", (int)pid,
             end);
    return system(command) == 0;
}

bool process_takes_signals(pid_t pid)
{
    return process_has_open(pid, "\\[signalfd\\]");
}

bool process_has_pending(pid_t pid, int signal)
{
    return (status_number(pid, "ShdPnd:", 16) >> (signal - 1) & 1) != 0;
}

/* ---- Files ----------------------------------------------------------------------------------- */

const char *file_read(const char *path)
{
    static char text[4][TEXT_MAX];
    static unsigned turn;
    char *buffer = text[turn++ % 4];
    FILE *file = fopen(path, "re");

    buffer[0] = 0;
    if (file != NULL) {
        buffer[fread(buffer, 1, TEXT_MAX - 1, file)] = 0;
        fclose(file);
    }
    return buffer;
}

void file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

long file_wait_number(const char *path)
{
    wait_until(strchr(file_read(path), '\n') != NULL);
    return strtol(file_read(path), NULL, 10);
}

size_t count_lines(const char *text)
{
    size_t lines = 0;

    for (; *text != 0; text++)
        lines += *text == '\n';
    return lines;
}

void assert_contains_at(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part) == NULL) {
        print_error("'%s' is not in:\n%s\n", part, text);
        _fail(file, line);
    }
}

struct process holder_start(void)
{
    unlink("holder");
    struct process process =
        simba_start(NULL, "lock", "--exact-id", "holder", "m", "--", "sh", "-c",
                    "echo $$ >holder.new; mv holder.new holder; exec sleep 100", NULL);
    file_wait_number("holder");
    return process;
}

sqlite3 *store_block(void)
{
    sqlite3 *store = NULL;

    assert_int_equal(sqlite3_open("store.db", &store), SQLITE_OK);
    sqlite3_busy_timeout(store, PATIENCE_MS);
    assert_int_equal(sqlite3_exec(store, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    return store;
}

void store_unblock(sqlite3 *store)
{
    assert_int_equal(sqlite3_exec(store, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(store), SQLITE_OK);
}
