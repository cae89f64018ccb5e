/*
 * mysql_plan_test.c - every statement that concerns single mutexes finds them by the primary key.
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
    return 0;
}

/* The statement with values in place of its question marks. */
static void fill_in(char *target, size_t size, const char *text)
{
    size_t used = 0;

    for (; *text != '\0' && used + 16 < size; text++) {
        if (*text == '?')
            used += (size_t)snprintf(target + used, size - used, "'row-500'");
        else
            target[used++] = *text;
    }
    target[used] = '\0';
}

static const char *explain(enum sb_sql_statement statement)
{
    char text[4096];

    fill_in(text, sizeof text, sb_mysql_statement_text(statement));
    return server_sql(&server, "EXPLAIN FORMAT=JSON %s", text);
}

static void single_rows_are_found_by_the_primary_key(void **state)
{
    (void)state;
    for (int statement = SB_SQL_SELECT; statement < SB_MYSQL_STATEMENTS; statement++) {
        const char *plan;

        if (statement == SB_SQL_SELECT_ALL ||
            sb_mysql_statement_text((enum sb_sql_statement)statement) == NULL)
            continue;
        plan = explain((enum sb_sql_statement)statement);
        if (strstr(plan, "\"key\": \"PRIMARY\"") == NULL || strstr(plan, "\"ALL\"") != NULL)
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

/* The twin: without the key the same check would fail. */
static void the_check_can_fail(void **state)
{
    (void)state;
    server_sql(&server, "ALTER TABLE simba_mutex DROP PRIMARY KEY");
    assert_non_null(strstr(explain(SB_SQL_GUARD), "\"ALL\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_rows_are_found_by_the_primary_key),
        cmocka_unit_test(many_rows_are_found_by_the_primary_key),
        cmocka_unit_test(the_check_can_fail),
    };

    if (!server_is_installed())
        return 77;
    return cmocka_run_group_tests_name("plan", tests, fill, server_teardown);
}
