/*
 * mysql_hearing_test.c - who hears of a release on MySQL: by a KILL that ends nothing but a
 * client's sleep, and by polls where that does not arrive.
 */
#include "queue.h"

#include <simba/simba.h>

/* ---- What a KILL hits ------------------------------------------------------------------------ */

/* Names that are none of ours, and one that nobody has; the application's connection holds a lock
 * of its own. */
static void a_name_of_another_form_is_not_killed(void **state)
{
    static const char *const names[] = {"app", "simba_app", "simba_0123456789abcdef"};
    struct session *session = session_open(&server);
    struct call held;

    session_sql(session, "SELECT GET_LOCK('app', 0), GET_LOCK('simba_app', 0)");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        held = wins(&one, "named", "a");
        server_sql(&server, "REPLACE INTO simba_waiter VALUES ('named', 'w', 1, '%s', 0, '')",
                   names[i]);
        gives_back(&one, &held);
        server_sql(&server, "DELETE FROM simba_waiter WHERE mutex = 'named'");
    }
    assert_string_equal(session_sql(session, "SELECT IS_USED_LOCK('app') = CONNECTION_ID()"), "1");
    session_close(session);
}

/* ---- Forged rows ----------------------------------------------------------------------------- */

/* No reservation is that long; also where the value has no sign, and the client's has. */
static void a_forged_reservation_stops_nobody(void **state)
{
    static const char *const ends[] = {"9e15", "9223372036854775807", "9223372036854775808",
                                       "18446744073709551615"};
    struct call held = wins(&one, "forged", "a");

    server_sql(&server, "INSERT INTO simba_waiter VALUES ('forged', 'x', 1, 'simba_0', 9e15, '')");
    hears(&two, "forged", "b");
    waits(&two, "forged", "b", "a");
    hear_by_now(&two);
    gives_back(&one, &held);
    assert_true(host_wait_notice(&two, SIMBA_NOTICE_RELEASED, "forged", "b"));
    held = wins(&two, "forged", "b");
    gives_back(&two, &held);
    for (size_t i = 0; i < TEST_COUNT(ends); i++) {
        server_sql(&server, "UPDATE simba_mutex SET acquired_at = %s WHERE mutex = 'forged'",
                   ends[i]);
        held = wins(&three, "forged", "c");
        gives_back(&three, &held);
    }
    server_sql(&server, "UPDATE simba_mutex SET acquired_at = %s + 800 WHERE mutex = 'forged'",
               dialect_now_ms); /* the twin: such a one holds */
    assert_string_equal(acquire(&three, "forged", "c").owner, "");
    held = wins_at_last(&three, "forged", "c");
    gives_back(&three, &held);
    server_sql(&server, "DELETE FROM simba_waiter WHERE mutex = 'forged'");
}

/* ---- A waiter that is late ------------------------------------------------------------------- */

static void is_passed_over(const char *mutex)
{
    assert_int_equal(rows_of(mutex), 1);
    server_sql(&server, "UPDATE simba_waiter SET reserved_until = 1000 WHERE mutex = '%s'", mutex);
    assert_int_equal(rows_of(mutex), 0);
}

static void wakes_waiter_of(const char *mutex)
{
    char client[64];

    snprintf(client, sizeof client, "%s",
             server_sql(&server, "SELECT client FROM simba_waiter WHERE mutex = '%s'", mutex));
    server_sql(&server, "KILL QUERY IS_USED_LOCK('%s')", client);
}

/* It was called, and its reservation was over when it heard of that: nobody calls it again. Of two
 * mutexes the lines are read together. */
static void a_waiter_that_hears_too_late_is_told_to_come_again(void **state)
{
    struct call held = wins(&one, "late", "a");
    struct call other = wins(&one, "later", "a");

    hears(&two, "late", "b");
    waits(&two, "late", "b", "a");
    hear_by_now(&two);
    is_passed_over("late");
    wakes_waiter_of("late");
    assert_true(host_wait_notice(&two, SIMBA_NOTICE_RELEASED, "late", "b"));
    waits(&two, "late", "b", "a");
    assert_int_equal(rows_of("late"), 1);
    two.ops->listen(two.backend, "later", "c", true); /* over the same connection */
    waits(&two, "later", "c", "a");
    host_forget_notices(&two);
    is_passed_over("later");
    wakes_waiter_of("later");
    assert_true(host_wait_notice(&two, SIMBA_NOTICE_RELEASED, "later", "c"));
    assert_int_equal(host_notices(&two, SIMBA_NOTICE_RELEASED, "late", NULL), 0);
    waits(&two, "later", "c", "a");
    gives_back(&one, &held);
    held = wins(&two, "late", "b");
    gives_back(&two, &held);
    gives_back(&one, &other);
    other = wins(&two, "later", "c");
    gives_back(&two, &other);
}

/* ---- Without a KILL -------------------------------------------------------------------------- */

static void a_release_of_the_other_library_is_found_by_a_poll(void **state)
{
    struct call held = wins(&one, "polled", "a");

    gives_back(&one, &held);
    assert_true(jvm_acquires("polled"));
    hears(&two, "polled", "b");
    waits(&two, "polled", "b", "jvm");
    hear_by_now(&two);
    jvm_releases("polled");
    assert_true(host_wait_notice(&two, SIMBA_NOTICE_RELEASED, "polled", "b"));
    held = wins(&two, "polled", "b");
    gives_back(&two, &held);
}

/* A user may kill no connection of another one. */
static void a_release_of_another_user_is_found_by_a_poll(void **state)
{
    struct host other;
    struct call held;

    server_sql(&server, "%s", dialect_create_user);
    server_sql(&server, "%s", dialect_grant_use);
    assert_int_equal(host_open(&other, server_url(&server, "plain:secret", "")), SIMBA_OK);
    assert_int_equal(other.log_count, 0);
    held = wins(&other, "users", "a");
    hears(&two, "users", "b");
    waits(&two, "users", "b", "a");
    hear_by_now(&two);
    gives_back(&other, &held);
    assert_true(host_wait_notice(&two, SIMBA_NOTICE_RELEASED, "users", "b"));
    held = wins(&two, "users", "b");
    gives_back(&two, &held);
    assert_true(host_close(&other));
}

/* ---- A lock that another session takes ------------------------------------------------------- */

#define LOOKS 50

static bool is_taken(void *session)
{
    const char *client =
        server_sql(&server, "SELECT client FROM simba_waiter WHERE mutex = 'renewed'");
    char name[64];

    snprintf(name, sizeof name, "%s_held", client);
    server_sql(&server,
               "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;"
               " KILL CONNECTION IS_USED_LOCK('%s'); END",
               name);
    return strcmp(session_sql(session, "SELECT GET_LOCK('%s', 0)", name), "1") == 0;
}

/* The lock that the client's second connection waits for: any user may take one of that name, when
 * the first connection was lost. The second one waits for it then, but never the one that
 * renews. */
static void the_connection_that_renews_waits_for_no_lock(void **state)
{
    struct session *session = session_open(&server);
    struct call held = wins(&one, "renewed", "a");

    hears(&two, "renewed", "b");
    waits(&two, "renewed", "b", "a");
    hear_by_now(&two);
    assert_true(test_wait(is_taken, session));
    for (int i = 0; i < LOOKS; i++) {
        assert_string_equal(acquire(&two, "renewed", "b").owner, "a"); /* connects again, polls */
        assert_in_range(server_number(&server, "SELECT count(*) FROM"
                                               " information_schema.processlist WHERE state ="
                                               " 'User lock'"),
                        0, 1);
        test_pause_ms(20);
    }
    session_close(session);
    gives_back(&one, &held);
    held = wins_at_last(&two, "renewed", "b");
    gives_back(&two, &held);
}

/* ---- The mark -------------------------------------------------------------------------------- */

static int64_t mark_of(const char *mutex)
{
    char sql[128];

    snprintf(sql, sizeof sql, "SELECT mod(acquired_at, 2) FROM simba_mutex WHERE mutex = '%s'",
             mutex);
    return server_number(&server, sql);
}

/* Renewals keep it, and so does the other library's table: nobody has to know of it. */
static void the_row_says_whether_others_wait(void **state)
{
    struct call held = wins(&one, "marked", "a");

    assert_int_equal(mark_of("marked"), 0);
    assert_string_equal(host_do(&one, SIMBA_OP_GUARD, "marked", "a", 0).owner, "a");
    assert_int_equal(mark_of("marked"), 0);
    waits(&two, "marked", "b", "a");
    assert_int_equal(mark_of("marked"), 1);
    held = host_do(&one, SIMBA_OP_GUARD, "marked", "a", 0);
    assert_int_equal(mark_of("marked"), 1);
    held = wins(&one, "marked", "a");
    assert_int_equal(mark_of("marked"), 1);
    gives_back(&one, &held);
    assert_string_equal(acquire(&three, "marked", "c").owner, "");
    held = wins(&two, "marked", "b");
    gives_back(&two, &held);
    held = wins(&three, "marked", "c");
    gives_back(&three, &held);
    assert_int_equal(mark_of("marked"), 0);
}

/* A renewal of the other library may remove the mark, and its own times may look like one. */
static void a_mark_that_is_lost_is_set_again(void **state)
{
    struct call held = wins(&one, "lost", "a");

    waits(&two, "lost", "b", "a");
    server_sql(&server, "UPDATE simba_mutex SET acquired_at = acquired_at - 1 WHERE mutex ="
                        " 'lost'");
    waits(&two, "lost", "b", "a");
    assert_int_equal(mark_of("lost"), 1);
    gives_back(&one, &held);
    assert_string_equal(acquire(&three, "lost", "c").owner, "");
    held = wins(&two, "lost", "b");
    gives_back(&two, &held);
    host_do(&three, SIMBA_OP_RELEASE, "lost", "c", 0);
}

/* ---- At the same instant --------------------------------------------------------------------- */

static bool one_sleeps(void *user)
{
    (void)user;
    return server_number(&server, dialect_count_sleepers) > 0;
}

/* The trigger holds the release up when it has the row. */
static void a_waiter_that_joins_while_a_release_commits_wins(void **state)
{
    struct call held = wins(&one, "slow", "a");
    struct call release = host_call(SIMBA_OP_RELEASE, "slow", "a", held.revision);

    server_sql(&server, "%s", dialect_trigger);
    release.request.reserve_ms = RESERVE_MS;
    hears(&one, "another", "x"); /* so that the loop does not carry it out itself */
    host_submit(&one, &release, 1);
    assert_true(test_wait(one_sleeps, NULL));
    held = wins(&two, "slow", "b");
    assert_true(host_wait(&one, &release, 1));
    assert_int_equal(release.code, SIMBA_OK);
    server_sql(&server, "DROP TRIGGER hold_up");
    gives_back(&two, &held);
    assert_int_equal(rows_of("slow"), 0);
}

/* The same, where others wait: the release has looked at the line before. */
static void a_release_sees_a_waiter_that_joins_while_it_runs(void **state)
{
    struct call held = wins(&one, "slow", "a");
    struct call release = host_call(SIMBA_OP_RELEASE, "slow", "a", held.revision);

    waits(&three, "slow", "c", "a");
    host_do(&three, SIMBA_OP_RELEASE, "slow", "c", 0); /* the mark stays, and nobody is in line */
    hears(&two, "slow", "b");
    server_sql(&server, "%s", dialect_trigger);
    release.request.reserve_ms = RESERVE_MS;
    hears(&one, "another", "x");
    host_submit(&one, &release, 1);
    assert_true(test_wait(one_sleeps, NULL));
    server_sql(&server, "REPLACE INTO simba_waiter SELECT 'slow', 'b', 1, 'simba_0', 0, ''");
    assert_true(host_wait(&one, &release, 1));
    assert_int_equal(release.code, SIMBA_OK);
    server_sql(&server, "DROP TRIGGER hold_up");
    assert_string_equal(acquire(&three, "slow", "c").owner, ""); /* it is reserved */
    held = wins(&two, "slow", "b");
    gives_back(&two, &held);
    held = wins(&three, "slow", "c");
    gives_back(&three, &held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_CLIENTS(a_name_of_another_form_is_not_killed),
        ON_CLIENTS(a_forged_reservation_stops_nobody),
        ON_CLIENTS(a_waiter_that_hears_too_late_is_told_to_come_again),
        ON_CLIENTS(a_release_of_the_other_library_is_found_by_a_poll),
        ON_CLIENTS(a_release_of_another_user_is_found_by_a_poll),
        ON_CLIENTS(the_connection_that_renews_waits_for_no_lock),
        ON_CLIENTS(the_row_says_whether_others_wait),
        ON_CLIENTS(a_mark_that_is_lost_is_set_again),
        ON_CLIENTS(a_waiter_that_joins_while_a_release_commits_wins),
        ON_CLIENTS(a_release_sees_a_waiter_that_joins_while_it_runs),
    };

    return server_run_tests("hearing", tests);
}
