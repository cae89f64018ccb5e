/*
 * postgres_table_test.c - tables that an administrator has made in another form than the library:
 * ids that differ stay apart whatever the collation is, and a type that changes ids is refused.
 */
#include "server.h"

#include "backend/host.h"

/* `mutex` and `owner_id` are the types of these columns. */
static void make_table(const char *mutex, const char *owner_id)
{
    server_sql(&server, "DROP TABLE IF EXISTS simba_mutex");
    server_sql(&server,
               "CREATE TABLE simba_mutex (mutex %s PRIMARY KEY, acquired_at bigint NOT NULL,"
               " ttl_at bigint NOT NULL, transition_at bigint NOT NULL, owner_id %s NOT NULL,"
               " version bigint NOT NULL)",
               mutex, owner_id);
}

static void ids_that_a_collation_takes_for_one_do_not_own_together(void **state)
{
    struct host host;

    server_sql(&server, "CREATE COLLATION IF NOT EXISTS folding (provider = icu,"
                        " locale = 'und-u-ks-level2', deterministic = false)");
    make_table("varchar(66)", "varchar(128) COLLATE folding");
    assert_int_equal(server_number(&server, "SELECT count(*) WHERE 'a' = 'A' COLLATE folding"), 1);
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "Node", 0).owner, "Node");
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "node", 0).owner, "Node");
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "m", "node", 1).owner, "Node");
    host_do(&host, SIMBA_OP_RELEASE, "m", "node", 1);
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "m", "node", 0).owner, "Node");
    assert_true(host_close(&host));
}

static void a_column_that_pads_names_is_refused(void **state)
{
    struct host host;

    make_table("varchar(66)", "char(32)");
    host_expect_failure(server.url, SIMBA_ECONFIG, "ALTER COLUMN owner_id TYPE varchar(128)");
    make_table("char(66)", "varchar(128)");
    host_expect_failure(server.url, SIMBA_ECONFIG, "ALTER COLUMN mutex TYPE varchar(66)");
    make_table("text", "text");
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_that_a_collation_takes_for_one_do_not_own_together),
        cmocka_unit_test(a_column_that_pads_names_is_refused),
    };

    return server_run_tests("table", tests);
}
