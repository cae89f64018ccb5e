/*
 * mysql_tls_test.c - a MySQL server that hangs behind TLS. libmariadb leaves such a socket blocking
 * and does not heed a time limit on it; all the same every request ends in time.
 */
#include "server.h"

#include "backend/host.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define TLS "tls=on&tls-verify=no&connect-timeout=1s&timeout=30s"
#define LIMIT_MS 500
#define LATE_MS 5000 /* that an answer may come behind its limit; far below the time-out */

static int open_store(void **state)
{
    struct host host;

    server.tls = true;
    server_create(&server, false);
    return host_open(&host, server.url) == SIMBA_OK && host_close(&host) ? 0 : -1;
}

static void open_host(struct host *host)
{
    assert_int_equal(host_open(host, server_url(&server, dialect_admin, TLS)), SIMBA_OK);
    host_do(host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_string_equal(host_do(host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
}

struct answer {
    struct host *host;
    const struct call *call;
};

static bool has_come(void *user)
{
    const struct answer *answer = user;
    bool come;

    pthread_mutex_lock(&answer->host->lock);
    come = answer->call->answered;
    pthread_mutex_unlock(&answer->host->lock);
    return come;
}

/* The errors of TLS are kept for each thread, and the library leaves them there: an application's
 * thread must not come near them. */
static void a_request_is_carried_out_by_the_worker(void **state)
{
    struct call call = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
    struct host host;
    struct answer answer = {&host, &call};

    open_host(&host);
    host_submit(&host, &call, 1);
    assert_true(test_wait(has_come, &answer)); /* and nobody turns the loop */
    assert_string_equal(call.owner, "a");
    assert_true(host_close(&host));
}

static bool acquires(void *host)
{
    return host_do(host, SIMBA_OP_ACQUIRE, "m", "a", 0).code == SIMBA_OK;
}

/* First over the connection that there is, then over a new one. */
static void a_request_ends_in_time_while_the_server_hangs(void **state)
{
    struct host host;

    open_host(&host);
    server_pause(&server);
    for (int i = 0; i < 2; i++) {
        struct call call = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
        int64_t began_ms = simba_now_ms();

        call.request.timeout_ms = LIMIT_MS;
        host_submit(&host, &call, 1);
        assert_true(host_wait(&host, &call, 1));
        assert_true(simba_now_ms() - began_ms < LIMIT_MS + LATE_MS);
        assert_int_equal(call.code, i == 0 ? SIMBA_EUNKNOWN : SIMBA_EUNAVAILABLE);
    }
    server_resume(&server);
    assert_true(test_wait(acquires, &host));
    assert_true(host_close(&host));
}

/* ---- A server that falls silent behind its greeting ------------------------------------------ */

static int connect_to_port(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

static int listen_on_port(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* Hands the greeting of the real server on. */
static bool greet_client(int client)
{
    char bytes[4096];
    int real = connect_to_port(server.port);
    ssize_t length = read(real, bytes, sizeof bytes);
    bool greeted = length > 0 && write(client, bytes, (size_t)length) == length;

    close(real);
    return greeted;
}

/* Says no more until the client hangs up. */
static void *greet(void *listener)
{
    char bytes[4096];
    int client = accept(*(int *)listener, NULL, NULL);
    bool greeted = greet_client(client);

    while (read(client, bytes, sizeof bytes) > 0)
        continue;
    close(client);
    return greeted ? listener : NULL;
}

static void *greet_and_leave(void *listener)
{
    int client = accept(*(int *)listener, NULL, NULL);
    bool greeted = greet_client(client);

    close(client);
    return greeted ? listener : NULL;
}

static void connecting_ends_in_time_while_the_handshake_hangs(void **state)
{
    struct server silent = server;
    int listener = listen_on_port(&silent.port);
    int64_t began_ms = simba_now_ms();
    struct host host;
    pthread_t thread;
    void *greeted;

    assert_int_equal(pthread_create(&thread, NULL, greet, &listener), 0);
    assert_int_equal(host_open(&host, server_url(&silent, dialect_admin, TLS)), SIMBA_EUNAVAILABLE);
    assert_true(simba_now_ms() - began_ms < 1000 + LATE_MS);
    pthread_join(thread, &greeted);
    assert_non_null(greeted);
    close(listener);
}

/* A store may be opened on any thread. */
static void a_server_that_leaves_in_the_handshake_raises_no_signal(void **state)
{
    struct server leaving = server;
    int listener = listen_on_port(&leaving.port);
    struct host host;
    pthread_t thread;
    void *greeted;

    server_watch_pipes();
    assert_int_equal(pthread_create(&thread, NULL, greet_and_leave, &listener), 0);
    assert_int_equal(host_open(&host, server_url(&leaving, dialect_admin, TLS)),
                     SIMBA_EUNAVAILABLE);
    assert_int_equal(server_pipe_signals(), 0);
    pthread_join(thread, &greeted);
    assert_non_null(greeted);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_carried_out_by_the_worker),
        cmocka_unit_test(a_request_ends_in_time_while_the_server_hangs),
        cmocka_unit_test(connecting_ends_in_time_while_the_handshake_hangs),
        cmocka_unit_test(a_server_that_leaves_in_the_handshake_raises_no_signal),
    };

    if (!server_is_installed() || access("/usr/bin/openssl", X_OK) != 0)
        return 77;
    return cmocka_run_group_tests_name("tls", tests, open_store, server_teardown);
}
