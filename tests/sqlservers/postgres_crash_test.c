/*
 * postgres_crash_test.c - what a crash of the server takes back. The commit of a release does not
 * wait for the disk, that of a term does.
 */
#include "server.h"

#include "backend/host.h"

#define OTHER_OWNERS 3

static struct call expect(struct host *host, enum simba_op op, const char *mutex, const char *id,
                          uint64_t revision, const char *owner)
{
    struct call call = host_do(host, op, mutex, id, revision);

    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(call.owner, owner);
    return call;
}

static void crash(void)
{
    server_kill(&server);
    server_start(&server);
}

/* Long enough that a test is over before the server writes by itself what nobody waits for. */
static int start_that_writes_late(void **state)
{
    struct host host;

    server_setup(state);
    server_sql(&server, "ALTER SYSTEM SET wal_writer_delay = '10s'");
    assert_int_equal(host_open(&host, server.url), SIMBA_OK); /* makes the tables */
    assert_true(host_close(&host));
    crash();
    return 0;
}

/* Again and again, since the server may happen to write just then. */
static bool loses_a_release(void *ret_held)
{
    struct call *held = ret_held;
    struct host host;
    bool lost;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    *held = expect(&host, SIMBA_OP_ACQUIRE, "m", "a", 0, "a");
    expect(&host, SIMBA_OP_RELEASE, "m", "a", held->revision, "");
    assert_true(host_close(&host));
    crash();
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    lost = strcmp(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).owner, "a") == 0;
    assert_true(host_close(&host));
    return lost;
}

static void a_release_that_a_crash_takes_back_leaves_the_lease_and_no_smaller_token(void **state)
{
    struct call held;
    struct host host;

    assert_true(test_wait_within(60000, loses_a_release, &held));
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    expect(&host, SIMBA_OP_ACQUIRE, "m", "b", 0, "a");
    assert_true(expect(&host, SIMBA_OP_ACQUIRE, "m", "a", 0, "a").revision > held.revision);
    assert_true(host_close(&host));
}

/* What goes with others in one transaction, too. */
static void a_term_outlives_a_crash(void **state)
{
    static const char *const ids[OTHER_OWNERS] = {"b", "c", "d"};
    struct call calls[OTHER_OWNERS + 1];
    struct call held;
    struct host host;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    held = expect(&host, SIMBA_OP_ACQUIRE, "given", "a", 0, "a");
    calls[0] = host_call(SIMBA_OP_RELEASE, "given", "a", held.revision);
    for (int i = 0; i < OTHER_OWNERS; i++)
        calls[i + 1] = host_call(SIMBA_OP_ACQUIRE, ids[i], ids[i], 0);
    host_submit(&host, calls, TEST_COUNT(calls));
    assert_true(host_wait(&host, calls, TEST_COUNT(calls)));
    assert_true(host_close(&host));
    crash();
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    for (int i = 0; i < OTHER_OWNERS; i++)
        expect(&host, SIMBA_OP_READ, ids[i], NULL, 0, ids[i]);
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_that_a_crash_takes_back_leaves_the_lease_and_no_smaller_token),
        cmocka_unit_test(a_term_outlives_a_crash),
    };

    if (!server_is_installed())
        return 77;
    return cmocka_run_group_tests(tests, start_that_writes_late, server_teardown);
}
