/*
 * mysql_plan_test.c - every statement that concerns single mutexes finds them and their waiters by
 * a key; and a connection looks at nothing else.
 */
#include "server.h"

#include "backend/host.h"
#include "backend/mysql/statement.h"

#define ROWS 20000

static int fill(void **state)
{
    struct host host;

    server_setup(state);
    if (host_open(&host, server.url) != SIMBA_OK || !host_close(&host))
        return -1;
    server_sql(&server, "%s", dialect_wide_table);
    server_sql(&server, "INSERT INTO simba_mutex (mutex, acquired_at, ttl_at, transition_at,"
                        " owner_id, version) VALUES ('500', 0, 0, 0, '500', 500)");
    server_sql(&server, "INSERT INTO simba_waiter VALUES ('500', '500', 1, 'c', 0, '')");
    return 0;
}

/* The statement with values in place of its question marks: of a row that is there, and a number
 * for those that stand for one. */
static void fill_in(char *target, size_t size, const char *text)
{
    size_t used = 0;

    for (; *text != '\0' && used + 16 < size; text++) {
        if (*text == '?')
            used += (size_t)snprintf(target + used, size - used, "'500'");
        else
            target[used++] = *text;
    }
    target[used] = '\0';
}

static const char *explain(enum sb_sql_statement statement)
{
    char own[SB_MYSQL_TEXT_MAX];
    char text[4096];

    sb_mysql_statement_text(statement, true, own);
    if (own[0] == '\0')
        return NULL;
    fill_in(text, sizeof text, own);
    return server_sql(&server, "EXPLAIN FORMAT=JSON %s", text);
}

/* What a subquery has yielded, a row or a bounded number of them, may be read as a whole. */
static bool reads_a_table(const char *plan)
{
    static const char name[] = "\"table_name\": \"";
    const char *all = plan;

    while ((all = strstr(all, "\"ALL\"")) != NULL) {
        const char *table = NULL;

        for (const char *at = plan; (at = strstr(at, name)) != NULL && at < all; at++)
            table = at + sizeof name - 1;
        if (table == NULL || table[0] != '<')
            return true;
        all++;
    }
    return false;
}

/* The plan of an INSERT says nothing of keys. */
static void single_rows_are_found_by_a_key(void **state)
{
    (void)state;
    for (int statement = SB_SQL_SELECT; statement < SB_MYSQL_STATEMENTS; statement++) {
        const char *plan;

        if (statement == SB_SQL_SELECT_ALL || statement == SB_SQL_JOIN)
            continue;
        plan = explain((enum sb_sql_statement)statement);
        if (plan == NULL)
            continue;
        /* a row that a unique key has led to, and that does not fit */
        if (strstr(plan, "after reading const tables") != NULL)
            continue;
        if ((strstr(plan, "\"key\": \"PRIMARY\"") == NULL &&
             strstr(plan, "\"key\": \"simba_waiter_order\"") == NULL) ||
            reads_a_table(plan))
            fail_msg("%d: %s", statement, plan);
    }
}

#define CROWD 100

static int64_t rows_read(void)
{
    return server_number(&server,
                         "SELECT sum(variable_value) FROM information_schema.global_status WHERE"
                         " variable_name IN ('handler_read_rnd_next', 'handler_read_next')");
}

/* Statements for many rows are made as they are needed; the server counts what they read. */
static void many_rows_are_found_by_the_primary_key(void **state)
{
    static struct call calls[CROWD];
    static char names[CROWD][16];
    struct host host;
    int64_t before;

    (void)state;
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    before = rows_read();
    for (size_t i = 0; i < CROWD; i++) {
        snprintf(names[i], sizeof names[i], i % 2 == 0 ? "row-%zu" : "new-%zu", 100 * i);
        calls[i] = host_call(i % 3 == 0 ? SIMBA_OP_READ : SIMBA_OP_ACQUIRE, names[i], "a", 0);
    }
    host_submit(&host, calls, CROWD);
    assert_true(host_wait(&host, calls, CROWD));
    assert_true(rows_read() - before < ROWS / 2);
    host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0);
    assert_true(rows_read() - before > ROWS); /* the twin: reading all is counted */
    assert_true(host_close(&host));
}

static int64_t tables_opened(void)
{
    return server_number(&server,
                         "SELECT variable_value FROM information_schema.global_status WHERE"
                         " variable_name = 'opened_table_definitions'");
}

/* Many clients that begin together, or come back together, would keep the server busy with that. */
static void a_connection_looks_at_no_tables_of_others(void **state)
{
    struct host host;
    int64_t before;

    (void)state;
    server_sql(&server, "FLUSH TABLES");
    before = tables_opened();
    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    assert_true(host_close(&host));
    assert_in_range(tables_opened() - before, 1, 5);
    server_sql(&server, "SELECT count(*) FROM information_schema.columns");
    assert_true(tables_opened() - before > 20); /* the twin: the server's own are enough to tell */
}

/* The twin: without the key the same check would fail. */
static void the_check_can_fail(void **state)
{
    (void)state;
    server_sql(&server, "ALTER TABLE simba_mutex DROP PRIMARY KEY");
    assert_true(reads_a_table(explain(SB_SQL_GUARD)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_rows_are_found_by_a_key),
        cmocka_unit_test(many_rows_are_found_by_the_primary_key),
        cmocka_unit_test(a_connection_looks_at_no_tables_of_others),
        cmocka_unit_test(the_check_can_fail),
    };

    if (!server_is_installed())
        return 77;
    return cmocka_run_group_tests_name("plan", tests, fill, server_teardown);
}
