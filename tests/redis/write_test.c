/*
 * write_test.c - what is written to a server: it may be more than the socket takes, and a server
 * that is gone raises no signal.
 *
 * Over a unix socket, whose room is small and always the same.
 */
#include "backend/host.h"
#include "server.h"

#include <stdatomic.h>
#include <signal.h>

#define MANY 2000 /* in one write, which has several times the room of the socket */

static struct server server;
static struct host host;
static char url[TEST_PATH_MAX];
static atomic_uint signals;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

static int begin(void **state)
{
    atomic_store(&signals, 0);
    signal(SIGPIPE, count_signal);
    return host_open(&host, url) == SIMBA_OK &&
                   host_do(&host, SIMBA_OP_READ, "m", NULL, 0).code == SIMBA_OK
               ? 0
               : -1;
}

static int end(void **state)
{
    bool closed = host_close(&host);

    signal(SIGPIPE, SIG_IGN);
    return closed ? 0 : -1;
}

static struct call *make_reads(void)
{
    static char name[SIMBA_MUTEX_MAX + 1];
    struct call *calls = calloc(MANY, sizeof *calls);

    assert_non_null(calls);
    memset(name, 'm', sizeof name - 1);
    for (size_t i = 0; i < MANY; i++)
        calls[i] = host_call(SIMBA_OP_READ, name, NULL, 0);
    return calls;
}

static size_t count_code(const struct call *calls, int code)
{
    size_t count = 0;

    for (size_t i = 0; i < MANY; i++)
        count += calls[i].code == code && calls[i].answers == 1 ? 1 : 0;
    return count;
}

/* ---- More than there is room for ------------------------------------------------------------- */

static void what_finds_no_room_is_written_later_and_in_order(void **state)
{
    struct call *calls = make_reads();
    struct call late = host_call(SIMBA_OP_READ, "m", NULL, 0);

    server_pause(&server);
    host_submit(&host, calls, MANY);
    host_submit(&host, &late, 1);
    server_go_on(&server);
    assert_true(host_wait(&host, calls, MANY));
    assert_true(host_wait(&host, &late, 1));
    assert_int_equal(count_code(calls, SIMBA_OK), MANY);
    assert_int_equal(late.code, SIMBA_OK);
    free(calls);
}

static void what_waits_for_room_is_answered_when_the_client_closes(void **state)
{
    struct call *calls = make_reads();
    struct host other;

    assert_int_equal(host_open(&other, url), SIMBA_OK);
    assert_int_equal(host_do(&other, SIMBA_OP_READ, "m", NULL, 0).code, SIMBA_OK);
    server_pause(&server);
    host_submit(&other, calls, MANY);
    assert_true(host_close(&other));
    server_go_on(&server);
    assert_int_equal(count_code(calls, SIMBA_EUNAVAILABLE), MANY);
    free(calls);
}

static void what_waits_for_room_is_answered_when_the_server_dies(void **state)
{
    struct call *calls = make_reads();

    server_pause(&server);
    host_submit(&host, calls, MANY);
    server_kill(&server, SIGKILL);
    assert_true(host_wait(&host, calls, MANY));
    assert_int_equal(count_code(calls, SIMBA_EUNAVAILABLE), MANY);
    assert_int_equal(atomic_load(&signals), 0);
    server_start_again(&server);
    free(calls);
}

/* ---- A server that is gone ------------------------------------------------------------------- */

/* The loop has not turned yet when the second one is written. */
static void to_write_to_a_server_that_is_gone_raises_no_signal(void **state)
{
    struct call calls[3];

    for (size_t i = 0; i < TEST_COUNT(calls); i++)
        calls[i] = host_call(SIMBA_OP_READ, "m", NULL, 0);
    server_kill(&server, SIGKILL);
    for (size_t i = 0; i < TEST_COUNT(calls); i++)
        host_submit(&host, &calls[i], 1);
    assert_true(host_wait(&host, calls, TEST_COUNT(calls)));
    for (size_t i = 0; i < TEST_COUNT(calls); i++)
        assert_int_equal(calls[i].code, SIMBA_EUNAVAILABLE);
    assert_int_equal(atomic_load(&signals), 0);
    server_start_again(&server);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(what_finds_no_room_is_written_later_and_in_order),
        CASE(what_waits_for_room_is_answered_when_the_client_closes),
        CASE(what_waits_for_room_is_answered_when_the_server_dies),
        CASE(to_write_to_a_server_that_is_gone_raises_no_signal),
    };
    char path[64];
    int failed;

    snprintf(path, sizeof path, "/tmp/simba-redis-outlet-%d.sock", (int)getpid());
    snprintf(url, sizeof url, "redis+unix:%s", path);
    server_start(&server, "--unixsocket", path, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
