/*
 * mysql_limits_test.c - what a MySQL server cannot do for a client: hold leases while it is
 * read-only, and count on behind the end of a column that somebody else has created.
 */
#include "server.h"

#include "backend/host.h"
#include "lib/locker.h"

#include <simba/simba.h>
#include <simba/sql.h>

#include <pthread.h>

static const char widen[] = "ALTER TABLE simba_mutex MODIFY version bigint unsigned NOT NULL";

static int open_store(void **state)
{
    struct host host;

    server_setup(state);
    return host_open(&host, server.url) == SIMBA_OK && host_close(&host) ? 0 : -1;
}

/* ---- A replica ------------------------------------------------------------------------------- */

static int make_writable(void **state)
{
    (void)state;
    server_sql(&server, "%s", dialect_read_write);
    return 0;
}

static bool acquires(void *user)
{
    return host_do(user, SIMBA_OP_ACQUIRE, "m", "a", 0).code == SIMBA_OK;
}

/* The user may write there all the same. */
static void a_read_only_server_grants_nothing_to_a_privileged_user(void **state)
{
    static const enum simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_GUARD};
    struct host host;
    struct call calls[2];

    (void)state;
    server_sql(&server, "%s", dialect_read_only);
    server_sql(&server, "INSERT INTO simba_mutex (mutex, acquired_at, ttl_at, transition_at,"
                        " owner_id, version) VALUES ('m', 0, 0, 0, '', 7)"); /* the twin */
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    for (size_t i = 0; i < TEST_COUNT(ops); i++) {
        assert_int_equal(host_do(&host, ops[i], "m", "a", 0).code, SIMBA_ESTORE);
        calls[0] = host_call(ops[i], "m", "a", 0);
        calls[1] = host_call(ops[i], "n", "a", 0);
        host_submit(&host, calls, 2);
        assert_true(host_wait(&host, calls, 2));
        assert_int_equal(calls[0].code, SIMBA_ESTORE);
        assert_int_equal(calls[1].code, SIMBA_ESTORE);
        assert_non_null(strstr(calls[1].error.text, "read-only"));
    }
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).revision, 7);
    assert_int_equal(server_number(&server, "SELECT sum(version) FROM simba_mutex"), 7);
    server_sql(&server, "%s", dialect_read_write);
    assert_true(test_wait(acquires, &host));
    assert_true(host_close(&host));
}

static void nor_do_its_rows_change_by_hand(void **state)
{
    simba_repository *repository = NULL;
    struct simba_record record;
    bool done = false;

    (void)state;
    server_sql(&server, "%s", dialect_read_only);
    assert_int_equal(simba_repository_open(server.url, &repository, NULL), SIMBA_OK);
    assert_int_equal(simba_repository_acquire(repository, "m", "b", 1000, 0, &done, NULL),
                     SIMBA_ESTORE);
    assert_int_equal(
        simba_repository_acquire_and_get_owner(repository, "m", "b", 1000, 0, &done, &record, NULL),
        SIMBA_ESTORE);
    assert_int_equal(simba_repository_release(repository, "m", "a", &done, NULL), SIMBA_ESTORE);
    assert_int_equal(simba_repository_init_mutex(repository, "new", NULL), SIMBA_ESTORE);
    assert_int_equal(simba_repository_get_owner(repository, "m", &record, NULL), SIMBA_OK);
    simba_repository_close(repository);
}

static void nor_is_the_table_created_there(void **state)
{
    struct host host;

    (void)state;
    server_sql(&server, "DROP TABLE simba_mutex");
    server_sql(&server, "%s", dialect_read_only);
    assert_int_equal(host_open(&host, server.url), SIMBA_ESTORE);
    server_sql(&server, "%s", dialect_read_write);
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    assert_true(host_close(&host));
}

/* ---- A column of 32 bits --------------------------------------------------------------------- */

/* As the JVM library creates it. */
static int use_old_table(void **state)
{
    (void)state;
    server_sql(&server, "DROP TABLE simba_mutex");
    server_sql(&server, "%s", dialect_old_table);
    return 0;
}

static void set_version(const char *version)
{
    server_sql(&server,
               "REPLACE INTO simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id,"
               " version) VALUES ('m', 0, 0, 0, '', %s)",
               version);
}

static void the_end_is_warned_of_half_way(void **state)
{
    struct host host;
    size_t before;

    (void)state;
    set_version("2147483645");
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    before = host.log_count;
    assert_true(acquires(&host)); /* 2147483646 */
    assert_true(acquires(&host)); /* 2147483647 */
    assert_int_equal(host.log_count, before);
    assert_true(acquires(&host));
    assert_int_equal(host.log_count, before + 1);
    assert_non_null(strstr(host.log, widen));
    assert_true(acquires(&host)); /* once is enough */
    assert_int_equal(host.log_count, before + 1);
    assert_true(host_close(&host));
}

static void at_the_end_the_error_tells_what_to_run_and_that_helps(void **state)
{
    struct host host;
    struct call call;

    (void)state;
    set_version("4294967293");
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    call = host_do(&host, SIMBA_OP_GUARD, "m", "a", 0);
    assert_true(call.revision == 4294967295);
    call = host_do(&host, SIMBA_OP_RELEASE, "m", "a", call.revision);
    assert_int_equal(call.code, SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(call.code, SIMBA_ECONFIG);
    assert_non_null(strstr(call.error.text, widen));
    server_sql(&server, "%s", widen);
    assert_true(test_wait(acquires, &host)); /* without a restart */
    assert_true(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).revision > 4294967295);
    assert_true(host_close(&host));
}

struct wait {
    simba_locker *locker;
    pthread_t thread;
    int code;
    struct simba_error error;
};

static void *await_turn(void *argument)
{
    struct wait *wait = argument;

    wait->code = simba_locker_acquire(wait->locker, &wait->error);
    return NULL;
}

/* The owner's release leaves a version behind which there is no other. */
static void a_wait_ends_with_the_error(void **state)
{
    struct wait wait = {.code = SIMBA_OK};
    simba_client *client = NULL;
    struct host host;
    struct call call;

    (void)state;
    set_version("4294967294");
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "owner", 0);
    assert_string_equal(call.owner, "owner");
    assert_int_equal(simba_client_open(server_url(&server, dialect_admin, "ttl=1s&transition=1s"),
                                       NULL, &client, NULL),
                     SIMBA_OK);
    assert_int_equal(test_locker_create(client, "m", NULL, &wait.locker, NULL), SIMBA_OK);
    assert_int_equal(pthread_create(&wait.thread, NULL, await_turn, &wait), 0);
    call = host_do(&host, SIMBA_OP_RELEASE, "m", "owner", call.revision);
    assert_int_equal(call.code, SIMBA_OK);
    pthread_join(wait.thread, NULL);
    assert_int_equal(wait.code, SIMBA_ECONFIG);
    assert_non_null(strstr(wait.error.text, widen));
    simba_locker_close(wait.locker);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
    assert_true(host_close(&host));
}

#define READ_ONLY(test) cmocka_unit_test_teardown(test, make_writable)
#define ON_OLD_TABLE(test) cmocka_unit_test_setup(test, use_old_table)

int main(void)
{
    const struct CMUnitTest tests[] = {
        READ_ONLY(a_read_only_server_grants_nothing_to_a_privileged_user),
        READ_ONLY(nor_do_its_rows_change_by_hand),
        READ_ONLY(nor_is_the_table_created_there),
        ON_OLD_TABLE(the_end_is_warned_of_half_way),
        ON_OLD_TABLE(at_the_end_the_error_tells_what_to_run_and_that_helps),
        ON_OLD_TABLE(a_wait_ends_with_the_error),
    };

    if (!server_is_installed())
        return 77;
    return cmocka_run_group_tests_name("limits", tests, open_store, server_teardown);
}
