/*
 * postgres_plan_test.c - every statement that concerns one mutex finds it by the primary key.
 */
#include "server.h"

#include "backend/postgres/statement.h"

static int fill(void **state)
{
    simba_client *client = NULL;

    server_setup(state);
    if (simba_client_open(server.url, NULL, &client, NULL) != SIMBA_OK)
        return -1;
    simba_client_close(client, NULL);
    server_sql(&server, "%s", dialect_wide_table);
    return 0;
}

/* EXPLAIN in a session of its own, with a plan for these values or one for all. */
static const char *explain(int statement, const char *mode)
{
    static const char *const arguments[SB_POSTGRES_PARAMETERS_MAX + 1] = {
        "", "('row-500')", "('row-500', 'x')", "('row-500', 'x', 5)", "('row-500', 'x', 5, 9)"};
    static char plan[SERVER_TEXT_MAX];
    char text[SB_POSTGRES_TEXT_MAX];
    const struct sb_sql_values values = {.mutex = "row-500", .id = "x"};
    struct sb_postgres_parameters parameters;
    struct session *session = session_open(&server);

    sb_postgres_bind(statement, &values, &parameters);
    session_sql(session, "SET plan_cache_mode = %s; SET enable_seqscan = off", mode); /* as ours */
    sb_postgres_statement_text(statement, "public.simba_mutex", true, text);
    session_sql(session, "PREPARE p AS %s", text);
    snprintf(plan, sizeof plan, "%s",
             session_sql(session, "EXPLAIN (COSTS OFF) EXECUTE p%s", arguments[parameters.count]));
    session_close(session);
    return plan;
}

/* The line is read by its own index, a single waiter by its key. */
static bool has_keys(int statement, const char *plan)
{
    switch (statement) {
    case SB_SQL_LEAVE:
        return strstr(plan, "simba_waiter_pkey") != NULL;
    case SB_SQL_QUEUE:
    case SB_SQL_WATCH:
    case SB_POSTGRES_LOOK:
    case SB_POSTGRES_RESTORE:
    case SB_POSTGRES_NEXT:
        return strstr(plan, "simba_waiter_order") != NULL;
    case SB_SQL_JOIN:
    case SB_POSTGRES_FORGET:
        return strstr(plan, "simba_mutex_pkey") != NULL &&
               strstr(plan, "simba_waiter_pkey") != NULL;
    case SB_SQL_SELECT_PLACE:
        return strstr(plan, "simba_mutex_pkey") != NULL &&
               strstr(plan, "simba_waiter_order") != NULL;
    case SB_POSTGRES_CLEAN: /* a join, or a list of ids, would read the whole line */
        return strstr(plan, "simba_waiter_order") != NULL && strstr(plan, "Tid Scan") != NULL &&
               strstr(plan, "Nested Loop") == NULL && strstr(plan, "<> 0") == NULL;
    case SB_POSTGRES_HAND_ON:
        return strstr(plan, "simba_mutex_pkey") != NULL &&
               strstr(plan, "simba_waiter_order") != NULL &&
               strstr(plan, "simba_waiter_pkey") != NULL && strstr(plan, "Nested Loop") == NULL;
    default:
        return strstr(plan, "simba_mutex_pkey") != NULL;
    }
}

static void single_rows_are_found_by_the_primary_key(void **state)
{
    static const char *const modes[] = {"force_custom_plan", "force_generic_plan"};

    (void)state;
    for (int statement = SB_SQL_SELECT; statement < SB_POSTGRES_LIMIT_WAIT; statement++) {
        if (statement == SB_SQL_SELECT_ALL || statement == SB_POSTGRES_AWAIT)
            continue; /* the second looks nothing up */
        for (size_t i = 0; i < TEST_COUNT(modes); i++) {
            const char *plan = explain(statement, modes[i]);

            if (strstr(plan, "Seq Scan") != NULL || !has_keys(statement, plan))
                fail_msg("statement %d: %s", statement, plan);
        }
    }
}

/* The twin: without the key the same check would fail. */
static void the_check_can_fail(void **state)
{
    (void)state;
    server_sql(&server, "ALTER TABLE simba_mutex DROP CONSTRAINT simba_mutex_pkey");
    assert_non_null(strstr(explain(SB_SQL_GUARD, "auto"), "Seq Scan"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_rows_are_found_by_the_primary_key),
        cmocka_unit_test(the_check_can_fail),
    };

    if (!server_is_installed())
        return 77;
    return cmocka_run_group_tests_name("plan", tests, fill, server_teardown);
}
