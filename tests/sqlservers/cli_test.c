/*
 * cli_test.c - the program on a database server, as a user runs it.
 */
#include "server.h"

#include "cli/harness.h"

#include <sys/wait.h>

static void use(const char *user, const char *options)
{
    setenv("SIMBA_URL", server_url(&server, user, options), 1);
}

static int enter(void **state)
{
    int code = sandbox_enter(state);

    use(dialect_admin, "ttl=400ms&transition=600ms&jitter=0ms..50ms");
    return code;
}

static void a_command_runs_under_the_lock(void **state)
{
    assert_int_equal(simba_run("lock", "m", "--", "sh", "-c", "echo $SIMBA_FENCE; exit 3", NULL),
                     3);
    assert_true(strtol(last_out(), NULL, 10) > 0);
    assert_int_equal(simba_run("status", "--json", NULL), 0);
    assert_contains(last_out(), "\"free\"");
}

static void a_lock_that_is_held_is_not_acquired(void **state)
{
    struct process holder = holder_start();

    assert_int_equal(simba_run("lock", "-n", "m", "--", "true", NULL), 75);
    assert_int_equal(simba_run("status", NULL), 0);
    assert_contains(last_out(), "holder");
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    assert_int_equal(simba_run("lock", "-n", "m", "--", "true", NULL), 0);
}

static void a_waiter_follows_a_holder_that_died(void **state)
{
    struct process holder = holder_start();

    kill(holder.pid, SIGKILL);
    process_wait(&holder);
    assert_int_equal(simba_run("lock", "-w", "10s", "m", "--", "true", NULL), 0);
}

static void refusals_have_their_exit_codes(void **state)
{
    struct server nobody = {.port = 1};

    use("nobody:wrong", "");
    assert_int_equal(simba_run("status", NULL), 77);
    setenv("SIMBA_URL", server_url(&nobody, "x", "connect-timeout=1s"), 1);
    assert_int_equal(simba_run("status", NULL), 69);
    use(dialect_admin, "timeout=never");
    assert_int_equal(simba_run("status", NULL), 78);
}

static void a_mutex_is_taken_by_force_and_the_waiter_gets_it(void **state)
{
    use(dialect_admin, "ttl=1s&transition=60s&poll=50ms");
    struct process holder = holder_start();
    struct process waiter = simba_start(NULL, "lock", "m", "--", "touch", "won", NULL);
    wait_until(strstr(file_read(waiter.err), "waiting") != NULL);
    assert_int_equal(simba_run("release", "m", "--force", NULL), 0);
    assert_contains(last_out(), "m has been taken from holder");
    assert_int_equal(process_wait(&waiter), 0);
    assert_true(file_exists("won"));
    assert_int_equal(process_wait(&holder), 70);
}

static void the_table_is_created_once(void **state)
{
    server_sql(&server, "DROP TABLE IF EXISTS simba_mutex");
    assert_int_equal(simba_run("init", NULL), 0);
    assert_contains(last_out(), "has been created");
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 0);
    assert_int_equal(simba_run("init", NULL), 0);
    assert_contains(last_out(), "is there already");
    assert_int_equal(server_number(&server, "SELECT count(*) FROM simba_mutex"), 1);
}

/* A user with the rights runs what was printed, and then it works. */
static void a_user_that_may_not_create_the_table_gets_the_statement(void **state)
{
    static char statement[TEXT_MAX];

    server_sql(&server, "DROP TABLE IF EXISTS simba_mutex");
    server_sql(&server, "%s", dialect_create_user);
    if (strcmp(dialect_scheme, "mysql") == 0) {
        /* without any right it does not get into the database */
        use("plain:secret", "");
        assert_int_equal(simba_run("init", NULL), 77);
        assert_contains(last_err(), "the user may not use the database: ");
        assert_null(strstr(last_err(), "tls"));
        use("plain:wrong", "");
        assert_int_equal(simba_run("init", NULL), 77);
        assert_contains(last_err(), "refuses the user or the password: ");
        server_sql(&server, "GRANT SELECT ON simba.* TO plain");
    }
    use("plain:secret", "");
    assert_int_equal(simba_run("init", NULL), 77);
    assert_contains(last_err(), "an administrator has to run");
    snprintf(statement, sizeof statement, "%s", strstr(last_err(), "CREATE TABLE IF NOT"));
    assert_null(strstr(statement + 1, "CREATE TABLE")); /* nobody has to read it twice */
    statement[strcspn(statement, ";")] = '\0';
    server_sql(&server, "%s", statement);
    assert_int_equal(simba_run("lock", "-n", "m", "--", "true", NULL), 77);
    assert_contains(last_err(), "needs SELECT, INSERT and UPDATE on the table");
    server_sql(&server, "%s", dialect_grant_use);
    assert_int_equal(simba_run("init", NULL), 0);
    assert_contains(last_out(), "is there already");
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 0);
}

static void a_table_that_lacks_a_column_is_refused_by_its_name(void **state)
{
    server_sql(&server, "DROP TABLE IF EXISTS simba_mutex");
    server_sql(&server, "CREATE TABLE simba_mutex (mutex int)");
    assert_int_equal(simba_run("init", NULL), 78);
    assert_contains(last_err(), "has no column acquired_at");
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 78);
    assert_contains(last_err(), "has no column acquired_at");
    server_sql(&server, "DROP TABLE simba_mutex");
    assert_int_equal(simba_run("init", NULL), 0);
    server_sql(&server, "ALTER TABLE simba_mutex DROP COLUMN ttl_at");
    assert_int_equal(simba_run("init", NULL), 78);
    assert_contains(last_err(), "has no column ttl_at");
    server_sql(&server, "DROP TABLE simba_mutex");
}

/* Each of them would try for ever what the server refuses each time. */
static void a_name_that_is_not_utf8_is_78_for_every_command(void **state)
{
    assert_int_equal(simba_run("lock", "bad\xff", "--", "true", NULL), 78);
    assert_contains(last_err(), "is not valid UTF-8, which this database needs");
    assert_int_equal(simba_run("lead", "bad\xff", "--", "true", NULL), 78);
    assert_contains(last_err(), "is not valid UTF-8, which this database needs");
    assert_int_equal(simba_run("schedule", "--every", "1s", "bad\xff", "--", "true", NULL), 78);
    assert_int_equal(simba_run("status", "bad\xff", NULL), 78);
    assert_int_equal(simba_run("watch", "bad\xff", NULL), 78);
    assert_int_equal(simba_run("release", "bad\xff", "--force", NULL), 78);
}

/* Nothing of it stays on the store, and no hand-over is told of by them. */
static void a_cycle_is_measured_beside_the_same_statements_by_hand(void **state)
{
    assert_int_equal(simba_run("bench", "cycle", "handover", "--count", "2", "--rounds", "2", NULL),
                     0);
    assert_contains(last_out(), "times as long as: the same statements by hand");
    assert_null(strstr(strstr(last_out(), "handover:"), "the same statements"));
    assert_int_equal(
        server_number(&server, "SELECT count(*) FROM simba_mutex WHERE mutex LIKE 'bench-%'"), 0);
}

/* With what the library finds in an option file. PostgreSQL's own client reads its files, and the
 * server here asks it for no password. */
static void the_plain_client_logs_in_as_the_library_does(void **state)
{
    struct process bench;

    if (strcmp(dialect_scheme, "mysql") != 0)
        skip();
    file_write(".my.cnf", "[client]\npassword=secret\n");
    server_sql(&server, "GRANT DELETE ON simba.simba_mutex TO plain");
    use("plain", "");
    bench = command_start(
        "sh", "-c", "HOME=$PWD exec \"$SIMBA_PROGRAM\" bench cycle --count 2 --rounds 1", NULL);
    assert_int_equal(process_wait(&bench), 0);
    assert_contains(file_read(bench.out), "times as long as: the same statements by hand");
}

/* Whether the session has locked the row of a bench while nobody owned it. */
static bool locks_free_row(struct session *session)
{
    session_sql(session, "BEGIN");
    if (session_sql(session, "SELECT mutex FROM simba_mutex WHERE mutex LIKE 'bench-%%cycle-0'"
                             " AND owner_id = '' FOR UPDATE")[0] != '\0')
        return true;
    session_sql(session, "ROLLBACK");
    return false;
}

/* One that is in the middle of an acquire and cannot get past it. With two hosts there is no plain
 * client that could fail instead. */
static struct process bench_start(struct session *session)
{
    char url[512];

    snprintf(url, sizeof url, "%s://%s@127.0.0.1:%d,127.0.0.1:%d/%s?stop-timeout=1s",
             dialect_scheme, dialect_admin, server.port, server.port, dialect_database);
    struct process bench =
        simba_start(NULL, "--url", url, "bench", "cycle", "--count", "1000000", NULL);
    wait_until(locks_free_row(session));
    return bench;
}

/* A server that dies under a holder takes the lease with it: the command is stopped in time. And a
 * client that waits for the server does not wait for ever. This one comes last. */
static void commands_and_measurements_end_when_the_server_stays_away(void **state)
{
    struct session *session = session_open(&server);
    struct process holder = holder_start();
    struct process bench = bench_start(session);

    server_kill(&server);
    session_close(session);
    assert_int_equal(process_wait(&holder), 70);
    assert_int_equal(process_wait(&bench), 69);
    assert_contains(file_read(bench.err), "simba: ");
}

static int run_cases(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_command_runs_under_the_lock, enter, sandbox_leave),
        cmocka_unit_test_setup_teardown(a_lock_that_is_held_is_not_acquired, enter, sandbox_leave),
        cmocka_unit_test_setup_teardown(a_waiter_follows_a_holder_that_died, enter, sandbox_leave),
        cmocka_unit_test_setup_teardown(refusals_have_their_exit_codes, enter, sandbox_leave),
        cmocka_unit_test_setup_teardown(a_mutex_is_taken_by_force_and_the_waiter_gets_it, enter,
                                        sandbox_leave),
        cmocka_unit_test_setup_teardown(the_table_is_created_once, enter, sandbox_leave),
        cmocka_unit_test_setup_teardown(a_user_that_may_not_create_the_table_gets_the_statement,
                                        enter, sandbox_leave),
        cmocka_unit_test_setup_teardown(a_table_that_lacks_a_column_is_refused_by_its_name, enter,
                                        sandbox_leave),
        cmocka_unit_test_setup_teardown(a_name_that_is_not_utf8_is_78_for_every_command, enter,
                                        sandbox_leave),
        cmocka_unit_test_setup_teardown(the_plain_client_logs_in_as_the_library_does, enter,
                                        sandbox_leave),
        cmocka_unit_test_setup_teardown(a_cycle_is_measured_beside_the_same_statements_by_hand,
                                        enter, sandbox_leave),
        cmocka_unit_test_setup_teardown(commands_and_measurements_end_when_the_server_stays_away,
                                        enter, sandbox_leave),
    };

    return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}

/* The sandbox ends all processes that its tests leave behind. The server is not one of them when it
 * is the child of another process. */
int main(void)
{
    int status = -1;
    pid_t pid;

    if (!server_is_installed())
        return 77;
    server_create(&server, false);
    pid = fork();
    if (pid == 0)
        exit(run_cases());
    waitpid(pid, &status, 0);
    server_destroy(&server);
    return status == 0 ? 0 : 1;
}
