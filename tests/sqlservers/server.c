/*
 * server.c - a private database server: its files, its process, its clock.
 */
#include "server.h"

#include "lib/port.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define START_PATIENCE_MS 60000

struct server server;

/* ---- Processes ------------------------------------------------------------------------------- */

static void become_user(void)
{
    const struct passwd *user = getpwnam(dialect_user);

    if (geteuid() != 0 || user == NULL)
        return;
    if (initgroups(user->pw_name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 ||
        setuid(user->pw_uid) != 0)
        _exit(126);
}

static void fake_time(const struct server *s)
{
    if (s->faketime[0] == '\0')
        return;
    setenv("LD_PRELOAD", SERVER_FAKETIME_LIBRARY, 1);
    setenv("FAKETIME_TIMESTAMP_FILE", s->faketime, 1);
    setenv("FAKETIME_NO_CACHE", "1", 1);
    setenv("DONT_FAKE_MONOTONIC", "1", 1);
}

/* It dies with us, and says what it has to say into the folder. */
pid_t server_spawn(const struct server *s, const char *const *arguments)
{
    char log[TEST_PATH_MAX + 16];
    pid_t parent = getpid();
    pid_t pid = fork();
    int fd;

    if (pid != 0)
        return pid;
    snprintf(log, sizeof log, "%s/log", s->folder);
    become_user();
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (getppid() != parent)
        _exit(126);
    fake_time(s);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || chdir(s->folder) != 0)
        _exit(126);
    execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static int await_exit(pid_t pid)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

void server_reap(pid_t pid)
{
    kill(pid, SIGKILL);
    await_exit(pid);
}

/* PostgreSQL is a process with many children, of which each has a group of its own. */
static void for_all(pid_t pid, void (*act)(pid_t process, int number), int number)
{
    char path[64];
    char list[4096] = "";
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    file = fopen(path, "re");
    if (file != NULL) {
        list[fread(list, 1, sizeof list - 1, file)] = '\0';
        fclose(file);
    }
    act(pid, number);
    for (char *place = list, *child; (child = strtok_r(place, " \n", &place)) != NULL;)
        act((pid_t)strtol(child, NULL, 10), number);
}

static void send_signal(pid_t process, int number)
{
    kill(process, number);
}

static void signal_all(pid_t pid, int number)
{
    for_all(pid, send_signal, number);
}

/* Behind the name, which may have anything in it. */
static char state_of(pid_t process, const char *thread)
{
    char path[128];
    char stat[1024] = "";
    const char *name_end;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)process, thread);
    file = fopen(path, "re");
    if (file != NULL) {
        stat[fread(stat, 1, sizeof stat - 1, file)] = '\0';
        fclose(file);
    }
    name_end = strrchr(stat, ')');
    return name_end != NULL && name_end[1] == ' ' ? name_end[2] : 'X';
}

static bool is_stopped(void *user)
{
    const pid_t *process = user;
    char path[64];
    const struct dirent *entry;
    bool stopped = true;
    DIR *threads;

    snprintf(path, sizeof path, "/proc/%d/task", (int)*process);
    threads = opendir(path);
    if (threads == NULL)
        return true;
    while ((entry = readdir(threads)) != NULL)
        if (entry->d_name[0] != '.')
            stopped = stopped && strchr("TtZX", state_of(*process, entry->d_name)) != NULL;
    closedir(threads);
    return stopped;
}

static void await_stop(pid_t process, int number)
{
    (void)number;
    assert_true(test_wait(is_stopped, &process));
}

/* The end of what the server has said so far. */
static const char *log_tail(const struct server *s)
{
    static char text[800]; /* cmocka cuts a message behind a kilobyte */
    char path[TEST_PATH_MAX + 16];
    FILE *file;

    snprintf(path, sizeof path, "%s/log", s->folder);
    text[0] = '\0';
    file = fopen(path, "re");
    if (file == NULL)
        return text;
    if (fseek(file, 1 - (long)sizeof text, SEEK_END) != 0)
        rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* ---- Life ------------------------------------------------------------------------------------ */

bool server_is_installed(void)
{
    if (dialect_program() != NULL)
        return true;
    printf("1..0 # SKIP the server is not installed\n");
    return false;
}

struct start {
    struct server *server;
    const char *arguments[SERVER_ARGUMENTS_MAX];
};

/* A process of a PostgreSQL server that was killed may live for a moment longer, and as long a new
 * server ends at once. */
static bool answers(void *user)
{
    struct start *start = user;
    struct server *s = start->server;
    struct session *session;

    if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
        s->pid = server_spawn(s, start->arguments);
    session = dialect_connect(s);
    if (session == NULL)
        return false;
    dialect_disconnect(session);
    return true;
}

void server_start(struct server *s)
{
    struct start start = {.server = s};

    dialect_start(s, start.arguments);
    s->pid = server_spawn(s, start.arguments);
    if (!test_wait_within(START_PATIENCE_MS, answers, &start))
        fail_msg("the server does not answer: %s", log_tail(s));
}

/* libfaketime names its shared memory after the process, and leaves it behind when that is
 * killed. */
static void remove_faketime(const struct server *s)
{
    char name[64];

    if (s->faketime[0] == '\0')
        return;
    snprintf(name, sizeof name, "/faketime_shm_%d", (int)s->pid);
    if (shm_unlink(name) != 0 && errno != ENOENT)
        fail_msg("cannot remove %s", name);
    snprintf(name, sizeof name, "/faketime_sem_%d", (int)s->pid);
    if (sem_unlink(name) != 0 && errno != ENOENT)
        fail_msg("cannot remove %s", name);
}

void server_kill(struct server *s)
{
    if (s->pid == 0)
        return;
    signal_all(s->pid, SIGKILL);
    await_exit(s->pid);
    remove_faketime(s);
    s->pid = 0;
}

/* A thread that is on a processor may still answer after the signal was sent. */
void server_pause(struct server *s)
{
    signal_all(s->pid, SIGSTOP);
    for_all(s->pid, await_stop, 0);
}

void server_resume(struct server *s)
{
    signal_all(s->pid, SIGCONT);
}

static void give_folder(const struct server *s)
{
    const struct passwd *user = getpwnam(dialect_user);

    if (geteuid() == 0 && user != NULL && chown(s->folder, user->pw_uid, user->pw_gid) != 0)
        fail_msg("cannot give %s away", s->folder);
}

/* ---- Broken pipes ---------------------------------------------------------------------------- */

static atomic_int pipe_signals;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&pipe_signals, 1);
}

void server_watch_pipes(void)
{
    signal(SIGPIPE, count_signal);
}

static bool is_with(const struct server *s, int fd)
{
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;

    return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sin_family == AF_INET &&
           ntohs(peer.sin_port) == s->port;
}

void server_break_pipes(const struct server *s)
{
    int broken = -1;

    server_watch_pipes();
    for (int fd = 3; fd < 256; fd++)
        if (is_with(s, fd) && shutdown(fd, SHUT_WR) == 0)
            broken = fd;
    assert_int_equal(write(broken, "", 1), -1);
    assert_int_equal(atomic_exchange(&pipe_signals, 0), 1);
}

int server_pipe_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    return atomic_exchange(&pipe_signals, 0);
}

/* ---- Life ------------------------------------------------------------------------------------ */

void server_step_clock(struct server *s, int seconds)
{
    char next[sizeof s->faketime + 8];
    FILE *file;

    snprintf(next, sizeof next, "%s.new", s->faketime);
    file = fopen(next, "we");
    if (file == NULL || fprintf(file, "%+ds\n", seconds) < 0 || fclose(file) != 0 ||
        rename(next, s->faketime) != 0)
        fail_msg("cannot write %s", s->faketime);
}

static void create_files(struct server *s)
{
    const char *arguments[SERVER_ARGUMENTS_MAX] = {NULL};
    pid_t pid;

    dialect_create(s, arguments);
    pid = server_spawn(s, arguments);
    if (await_exit(pid) != 0)
        fail_msg("the server's files cannot be created: %s", log_tail(s));
}

/* One that trusts itself: it is its own authority. */
void server_renew_certificate(const struct server *s)
{
    const char *const arguments[] = {"/usr/bin/openssl",
                                     "req",
                                     "-x509",
                                     "-newkey",
                                     "ec",
                                     "-pkeyopt",
                                     "ec_paramgen_curve:prime256v1",
                                     "-nodes",
                                     "-keyout",
                                     "key.pem",
                                     "-out",
                                     "cert.pem",
                                     "-days",
                                     "2",
                                     "-subj",
                                     "/CN=localhost",
                                     "-addext",
                                     "subjectAltName=DNS:localhost",
                                     NULL};

    if (await_exit(server_spawn(s, arguments)) != 0)
        fail_msg("no certificate: %s", log_tail(s));
}

void server_create(struct server *s, bool faketime)
{
    bool tls = s->tls;
    bool logs_statements = s->logs_statements;

    memset(s, 0, sizeof *s);
    s->tls = tls;
    s->logs_statements = logs_statements;
    test_folder_create(s->folder);
    give_folder(s);
    create_files(s);
    if (tls)
        server_renew_certificate(s);
    if (faketime) {
        snprintf(s->faketime, sizeof s->faketime, "%s/faketime", s->folder);
        server_step_clock(s, 0);
    }
    s->port = test_free_port();
    server_start(s);
    dialect_set_up(s);
    snprintf(s->url, sizeof s->url, "%s", server_url(s, dialect_admin, ""));
}

void server_destroy(struct server *s)
{
    server_kill(s);
    test_folder_remove(s->folder);
}

int server_setup(void **state)
{
    server_create(&server, false);
    return 0;
}

int server_teardown(void **state)
{
    server_destroy(&server);
    return 0;
}

const char *server_url(const struct server *s, const char *user, const char *options)
{
    static char urls[4][512];
    static unsigned turn;
    char *url = urls[turn++ % 4];

    snprintf(url, sizeof urls[0], "%s://%s@127.0.0.1:%d/%s%s%s", dialect_scheme, user, s->port,
             dialect_database, options[0] != '\0' ? "?" : "", options);
    return url;
}

/* ---- Statements ------------------------------------------------------------------------------ */

static char answer[SERVER_TEXT_MAX];

struct session *session_open(const struct server *s)
{
    struct session *session = dialect_connect(s);

    if (session == NULL)
        fail_msg("the administrator cannot connect");
    return session;
}

void session_close(struct session *session)
{
    dialect_disconnect(session);
}

static const char *run(struct session *session, const char *format, va_list arguments)
{
    char sql[8192];

    vsnprintf(sql, sizeof sql, format, arguments);
    if (!dialect_run(session, sql, answer, sizeof answer))
        fail_msg("'%s': %s", sql, answer);
    return answer;
}

const char *session_sql(struct session *session, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    run(session, format, arguments);
    va_end(arguments);
    return answer;
}

const char *server_sql(const struct server *s, const char *format, ...)
{
    struct session *session = session_open(s);
    va_list arguments;

    va_start(arguments, format);
    run(session, format, arguments);
    va_end(arguments);
    session_close(session);
    return answer;
}

int64_t server_number(const struct server *s, const char *sql)
{
    return strtoll(server_sql(s, "%s", sql), NULL, 10);
}
