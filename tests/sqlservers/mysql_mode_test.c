/*
 * mysql_mode_test.c - sessions whose sql_mode was lost on the way, as behind a proxy that hands
 * connections around: the server's own counts then. In MariaDB's SIMULTANEOUS_ASSIGNMENT a column
 * stands for its old value in all of a change. The program's own mysql_real_query_start stands
 * before libmariadb's.
 */
#include "server.h"

#include "backend/host.h"

#include <dlfcn.h>
#include <mysql.h>
#include <stdatomic.h>

#define CROWD 8
#define SLACK_MS 60000 /* the server's clock is this machine's */

static const char pinned[] = "sql_mode = 'STRICT_ALL_TABLES'";
static const char lost[] = "sql_mode = @@global.sql_mode  ";
static atomic_int losses;

_Static_assert(sizeof pinned == sizeof lost, "one takes the place of the other");

typedef int query(int *ret, MYSQL *mysql, const char *text, unsigned long length);

int STDCALL mysql_real_query_start(int *ret, MYSQL *mysql, const char *text, unsigned long length)
{
    void *next = dlsym(RTLD_NEXT, "mysql_real_query_start");
    char *place;
    static char changed[1024];
    query *real;

    memcpy(&real, &next, sizeof real);
    if (strstr(text, pinned) == NULL)
        return real(ret, mysql, text, length);
    snprintf(changed, sizeof changed, "%s", text);
    place = strstr(changed, pinned);
    memcpy(place, lost, strlen(lost));
    atomic_fetch_add(&losses, 1);
    return real(ret, mysql, changed, length);
}

static int open_store(void **state)
{
    server_setup(state);
    server_sql(&server, "SET GLOBAL sql_mode = 'SIMULTANEOUS_ASSIGNMENT'");
    return 0;
}

static void open_host(struct host *host)
{
    int before = atomic_load(&losses);

    assert_int_equal(host_open(host, server.url), SIMBA_OK);
    assert_true(atomic_load(&losses) > before); /* the twin: the mode was there to be lost */
}

/* A lease that begins or ends at another time than now would be one for two owners. */
static void assert_leases_are_of_now(int64_t count)
{
    char text[256];

    snprintf(text, sizeof text,
             "SELECT count(*) FROM simba_mutex WHERE owner_id = 'a' AND ttl_at > acquired_at AND"
             " transition_at >= ttl_at AND transition_at < acquired_at + %d AND"
             " acquired_at > unix_timestamp() * 1000 - %d",
             SLACK_MS, SLACK_MS);
    assert_int_equal(server_number(&server, text), count);
}

static void a_lease_is_of_now_whatever_the_mode(void **state)
{
    struct host host;
    struct host stranger;

    open_host(&host);
    open_host(&stranger);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_leases_are_of_now(1);
    assert_string_equal(host_do(&stranger, SIMBA_OP_ACQUIRE, "m", "b", 0).owner, "a");
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "m", "a", 0).owner, "a");
    assert_leases_are_of_now(1);
    assert_true(host_close(&stranger));
    assert_true(host_close(&host));
    server_sql(&server, "DELETE FROM simba_mutex");
}

static void run_crowd(struct host *host, enum simba_op op)
{
    static char names[CROWD][16];
    struct call calls[CROWD];

    for (size_t i = 0; i < CROWD; i++) {
        snprintf(names[i], sizeof names[i], "m-%zu", i);
        calls[i] = host_call(op, names[i], "a", 0);
    }
    host_submit(host, calls, CROWD);
    assert_true(host_wait(host, calls, CROWD));
    for (size_t i = 0; i < CROWD; i++)
        assert_string_equal(calls[i].owner, "a");
}

static void leases_of_many_are_of_now_whatever_the_mode(void **state)
{
    struct host host;

    open_host(&host);
    run_crowd(&host, SIMBA_OP_ACQUIRE);
    assert_leases_are_of_now(CROWD);
    run_crowd(&host, SIMBA_OP_GUARD);
    assert_leases_are_of_now(CROWD);
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_is_of_now_whatever_the_mode),
        cmocka_unit_test(leases_of_many_are_of_now_whatever_the_mode),
    };

    return server_is_installed()
               ? cmocka_run_group_tests_name("mode", tests, open_store, server_teardown)
               : 77;
}
