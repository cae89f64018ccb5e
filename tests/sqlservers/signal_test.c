/*
 * signal_test.c - what an application finds of its signals. The client libraries write to sockets
 * on its threads, over TLS not always with MSG_NOSIGNAL, and may change how the process takes
 * SIGPIPE: it must notice neither.
 */
#include "server.h"

#include "backend/host.h"
#include "lib/locker.h"

#include <simba/simba.h>
#include <simba/sql.h>

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TLS "tls=on&tls-verify=no&"
#define UNHURRIED "connect-timeout=10s&timeout=10s"
#define HURRIED                                                                                    \
    "connect-timeout=1s&timeout=2s" /* for who waits for a server that does not answer */

static int open_store(void **state)
{
    struct host host;

    server.tls = true;
    server_create(&server, false);
    return host_open(&host, server.url) == SIMBA_OK && host_close(&host) ? 0 : -1;
}

/* ---- The application's handler --------------------------------------------------------------- */

static void handle(int number)
{
    (void)number;
}

static bool has_handler(void)
{
    struct sigaction now;

    return sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == handle &&
           (now.sa_flags & SA_RESTART) != 0;
}

/* In a process that has not used the client library before: it counts what goes wrong. */
static int use_store(const char *url)
{
    const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    simba_repository *repository = NULL;
    simba_client *client = NULL;
    int wrong = 0;

    wrong += sigaction(SIGPIPE, &action, NULL) != 0;
    wrong += simba_client_open(url, NULL, &client, NULL) != SIMBA_OK;
    wrong += !has_handler();
    wrong += simba_repository_open(url, &repository, NULL) != SIMBA_OK;
    wrong += !has_handler();
    simba_repository_close(repository);
    wrong += simba_client_close(client, NULL) != SIMBA_OK;
    wrong += !has_handler();
    return wrong;
}

static int use_store_elsewhere(const char *options)
{
    const char *url = server_url(&server, dialect_admin, options);
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        execl("/proc/self/exe", "use", url, (char *)NULL);
        _exit(126);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void the_handler_of_an_application_stays(void **state)
{
    assert_int_equal(use_store_elsewhere(UNHURRIED), 0);
    assert_int_equal(use_store_elsewhere(TLS UNHURRIED), 0);
}

/* ---- Lost connections ------------------------------------------------------------------------ */

/* What is opened on the server. A busy machine takes longer now and then than who is hurried waits
 * for. */
struct opening {
    const char *options;
    simba_repository *repository;
    simba_client *client;
    struct simba_error error;
};

static bool opens_repository(void *user)
{
    struct opening *opening = user;

    return simba_repository_open(server_url(&server, dialect_admin, opening->options),
                                 &opening->repository, &opening->error) == SIMBA_OK;
}

static bool opens_client(void *user)
{
    struct opening *opening = user;

    return simba_client_open(server_url(&server, dialect_admin, opening->options), NULL,
                             &opening->client, &opening->error) == SIMBA_OK;
}

static simba_repository *open_repository(const char *options)
{
    struct opening opening = {.options = options};

    if (!test_wait(opens_repository, &opening))
        fail_msg("%s", opening.error.text);
    return opening.repository;
}

static simba_client *open_client(const char *options)
{
    struct opening opening = {.options = options};

    if (!test_wait(opens_client, &opening))
        fail_msg("%s", opening.error.text);
    return opening.client;
}

static int acquire(simba_repository *repository)
{
    bool acquired;

    return simba_repository_acquire(repository, "m", "a", 1000, 0, &acquired, NULL);
}

static bool acquires(void *repository)
{
    return acquire(repository) == SIMBA_OK;
}

static bool ensures_owner(void *repository)
{
    struct simba_record record;

    return simba_repository_ensure_owner(repository, "m", &record, NULL) == SIMBA_OK;
}

/* The call that finds out, the one that connects again, and the end of a connection that is
 * broken. */
static void lose_repository(const char *options)
{
    simba_repository *repository = open_repository(options);

    assert_true(test_wait(ensures_owner, repository));
    assert_true(test_wait(acquires, repository));
    server_pause(&server);
    server_break_pipes(&server);
    assert_int_equal(acquire(repository), SIMBA_EUNKNOWN);
    server_resume(&server);
    assert_true(test_wait(acquires, repository));
    assert_int_equal(server_pipe_signals(), 0);
    server_pause(&server);
    server_break_pipes(&server);
    simba_repository_close(repository);
    server_resume(&server);
    assert_int_equal(server_pipe_signals(), 0);
}

static void a_repository_that_loses_its_server_raises_no_signal(void **state)
{
    lose_repository(HURRIED);
    lose_repository(TLS HURRIED);
}

/* It is blocked, and has come before. */
static void a_signal_that_the_application_has_yet_to_take_stays(void **state)
{
    const struct timespec now = {0};
    simba_repository *repository;
    sigset_t pipe;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    signal(SIGPIPE, handle);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &pipe, NULL), 0);
    assert_int_equal(raise(SIGPIPE), 0);
    repository = open_repository(TLS UNHURRIED);
    assert_int_equal(acquire(repository), SIMBA_OK);
    simba_repository_close(repository);
    assert_int_equal(sigtimedwait(&pipe, NULL, &now), SIGPIPE);
    assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &pipe, NULL), 0);
    signal(SIGPIPE, SIG_IGN);
}

static void lose_client(const char *options)
{
    simba_client *client = open_client(options);
    simba_locker *locker = NULL;

    assert_int_equal(test_locker_create(client, "lost", NULL, &locker, NULL), SIMBA_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
        assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    }
    server_pause(&server);
    server_break_pipes(&server);
    assert_int_not_equal(simba_locker_acquire_timeout(locker, 100, NULL), SIMBA_OK);
    server_resume(&server);
    assert_int_equal(simba_locker_acquire_timeout(locker, TEST_PATIENCE_MS, NULL), SIMBA_OK);
    simba_locker_close(locker);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
    assert_int_equal(server_pipe_signals(), 0);
}

static void a_client_that_loses_its_server_raises_no_signal(void **state)
{
    lose_client(HURRIED);
    lose_client(TLS HURRIED);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_handler_of_an_application_stays),
        cmocka_unit_test(a_repository_that_loses_its_server_raises_no_signal),
        cmocka_unit_test(a_signal_that_the_application_has_yet_to_take_stays),
        cmocka_unit_test(a_client_that_loses_its_server_raises_no_signal),
    };

    if (count > 1)
        return use_store(arguments[1]);
    if (!server_is_installed() || access("/usr/bin/openssl", X_OK) != 0)
        return 77;
    return cmocka_run_group_tests_name("signal", tests, open_store, server_teardown);
}
