/*
 * queue_test.c - contenders wait in line: in their order, without newcomers before them, at a cost
 * that does not grow with the crowd.
 */
#include "queue.h"

#include <simba/simba.h>

#include <pthread.h>

/* ---- The order ------------------------------------------------------------------------------- */

static void the_first_in_line_is_woken_and_the_second_told(void **state)
{
    struct call held;

    held = wins(&one, "order", "a");
    hears(&two, "order", "b");
    waits(&two, "order", "b", "a");
    hears(&three, "order", "c");
    waits(&three, "order", "c", "a");
    hear_by_now(&two);
    hear_by_now(&three);
    gives_back(&one, &held);
    assert_true(host_wait_notice(&two, SIMBA_NOTICE_RELEASED, "order", "b"));
    assert_true(host_wait_notice(&three, SIMBA_NOTICE_RESERVED, "order", "c"));
    assert_int_equal(host_notices(&three, SIMBA_NOTICE_RELEASED, "order", NULL), 0);
    held = wins(&two, "order", "b");
    gives_back(&two, &held);
    assert_true(host_wait_notice(&three, SIMBA_NOTICE_RELEASED, "order", "c"));
    held = wins(&three, "order", "c");
    gives_back(&three, &held);
    assert_int_equal(rows_of("order"), 0);
}

static void places_are_told_and_the_line_is_listed(void **state)
{
    struct call held = wins(&one, "places", "a");
    struct call queue;

    waits(&two, "places", "b", "a");
    waits(&three, "places", "c", "a");
    assert_int_equal(host_place(&two, "places", "b"), 1);
    assert_int_equal(host_place(&three, "places", "c"), 2);
    queue = host_do(&one, SIMBA_OP_QUEUE, "places", NULL, 0);
    assert_int_equal(queue.code, SIMBA_OK);
    assert_int_equal(queue.list_count, 2);
    assert_string_equal(queue.list[0].owner.id, "b");
    assert_string_equal(queue.list[1].owner.id, "c");
    assert_true(simba_now_ms() - queue.list[0].owner.acquired_at_ms < 60000);
    host_do(&two, SIMBA_OP_RELEASE, "places", "b", 0);
    host_do(&three, SIMBA_OP_RELEASE, "places", "c", 0);
    gives_back(&one, &held);
    assert_int_equal(rows_of("places"), 0);
}

static void a_newcomer_does_not_barge(void **state)
{
    struct call held = wins(&one, "barge", "a");
    struct call call;

    waits(&two, "barge", "b", "a");
    gives_back(&one, &held);
    call = acquire(&three, "barge", "c");
    assert_string_equal(call.owner, "");
    assert_true(call.reserved_left_ms > 0 && call.reserved_left_ms <= RESERVE_MS);
    assert_int_equal(call.place, 1);
    held = wins(&two, "barge", "b");
    gives_back(&two, &held);
    held = wins(&three, "barge", "c");
    gives_back(&three, &held);
}

/* The twin: fair=no. */
static void without_reservations_a_newcomer_wins(void **state)
{
    struct call held = wins(&one, "unfair", "a");
    struct call call;

    waits(&two, "unfair", "b", "a");
    gives_back(&one, &held);
    call = host_do(&three, SIMBA_OP_ACQUIRE, "unfair", "c", 0);
    assert_string_equal(call.owner, "c");
    host_do(&two, SIMBA_OP_RELEASE, "unfair", "b", 0);
    assert_int_equal(host_do(&three, SIMBA_OP_RELEASE, "unfair", "c", call.revision).code,
                     SIMBA_OK);
    assert_int_equal(rows_of("unfair"), 0);
}

/* ---- Those that hang, leave or die ----------------------------------------------------------- */

static void a_waiter_that_hangs_costs_one_reservation_once(void **state)
{
    struct call held = wins(&one, "hang", "a");
    struct call call;

    waits(&two, "hang", "b", "a");
    waits(&three, "hang", "c", "a");
    gives_back(&one, &held);
    assert_string_equal(acquire(&three, "hang", "c").owner, "");
    held = wins_at_last(&three, "hang", "c");
    waits(&one, "hang", "a", "c");
    gives_back(&three, &held);
    call = acquire(&two, "hang", "b"); /* it has lost its place */
    assert_string_equal(call.owner, "");
    assert_int_equal(call.place, 1);
    held = wins(&one, "hang", "a");
    gives_back(&one, &held);
    held = wins(&two, "hang", "b");
    gives_back(&two, &held);
    assert_int_equal(rows_of("hang"), 0);
}

static void a_waiter_that_leaves_passes_it_on(void **state)
{
    struct call held = wins(&one, "leave", "a");

    hears(&three, "leave", "c");
    waits(&two, "leave", "b", "a");
    waits(&three, "leave", "c", "a");
    hear_by_now(&three);
    gives_back(&one, &held);
    assert_true(host_wait_notice(&three, SIMBA_NOTICE_RESERVED, "leave", "c"));
    host_reserve(&two, SIMBA_OP_RELEASE, "leave", "b", 0, RESERVE_MS);
    assert_true(host_wait_notice(&three, SIMBA_NOTICE_RELEASED, "leave", "c"));
    held = wins(&three, "leave", "c");
    gives_back(&three, &held);
    assert_int_equal(rows_of("leave"), 0);
}

/* What locks its row keeps it from leaving, and nobody waits for long for that. Its row is in the
 * line, and goes with its next term. */
static void a_place_that_could_not_be_left_goes_with_the_next_term(void **state)
{
    struct session *session = session_open(&server);
    struct call held = wins(&one, "stay", "a");
    struct call leave = host_call(SIMBA_OP_RELEASE, "stay", "b", 0);

    waits(&two, "stay", "b", "a");
    session_sql(session, "BEGIN");
    session_sql(session, "SELECT id FROM simba_waiter WHERE mutex = 'stay' FOR UPDATE");
    leave.request.timeout_ms = 300;
    host_submit(&two, &leave, 1);
    assert_true(host_wait(&two, &leave, 1));
    assert_int_not_equal(leave.code, SIMBA_OK);
    session_sql(session, "ROLLBACK");
    session_close(session);
    assert_int_equal(rows_of("stay"), 1);
    gives_back(&one, &held);
    held = wins(&two, "stay", "b");
    gives_back(&two, &held);
    assert_int_equal(rows_of("stay"), 0);
}

/* A release that finds no term, and meets a lock on the row of the place, does not end the place:
 * the client remembers it. */
static void a_release_that_could_not_leave_forgets_no_place(void **state)
{
    struct session *session = session_open(&server);
    struct call held = wins(&one, "gone", "a");

    waits(&two, "gone", "b", "a");
    session_sql(session, "BEGIN");
    session_sql(session, "SELECT id FROM simba_waiter WHERE mutex = 'gone' FOR UPDATE");
    assert_int_equal(host_do(&two, SIMBA_OP_RELEASE, "gone", "b", held.revision + 9).code,
                     SIMBA_OK);
    session_sql(session, "ROLLBACK");
    session_close(session);
    assert_int_equal(host_do(&two, SIMBA_OP_RELEASE, "gone", "b", 0).code, SIMBA_OK);
    assert_int_equal(rows_of("gone"), 0);
    gives_back(&one, &held);
}

/* What a contender asks for whose client has given up that it enters the queue, while the server is
 * still at it. */
struct later {
    struct session *session;
    struct call call;
    int64_t until_ms;
};

/* What does not wait for the server is answered by then. */
static bool has_waited(void *argument)
{
    struct later *later = argument;

    return host_is_answered(&two, &later->call) || simba_now_ms() > later->until_ms;
}

static bool is_over(void *argument)
{
    (void)argument;
    return server_number(&server, dialect_count_late) == 0;
}

static void gives_up_to_join(struct later *later, const char *mutex)
{
    struct call join = host_call(SIMBA_OP_ACQUIRE, mutex, "late", 0);

    later->session = session_open(&server);
    session_sql(later->session, "%s", dialect_hold_late);
    join.request.timeout_ms = 300;
    host_submit(&two, &join, 1);
    assert_true(host_wait(&two, &join, 1));
    assert_int_equal(join.code, SIMBA_EUNKNOWN);
    assert_int_equal(server_number(&server, dialect_count_late), 1);
}

/* The server goes on with the old statement in the middle of the new one, or behind it. */
static void asks_meanwhile(struct later *later)
{
    host_submit(&two, &later->call, 1);
    later->until_ms = simba_now_ms() + 500;
    assert_true(host_run_until(&two, has_waited, later));
    session_close(later->session);
    assert_true(host_wait(&two, &later->call, 1));
    assert_int_equal(later->call.code, SIMBA_OK);
    assert_true(test_wait(is_over, NULL));
    server_sql(&server, "%s", dialect_let_late_go);
}

static void a_join_that_is_carried_out_late_leaves_no_place(void **state)
{
    struct call held = wins(&one, "late", "a");
    struct later leave = {.call = host_call(SIMBA_OP_RELEASE, "late", "late", 0)};

    gives_up_to_join(&leave, "late");
    asks_meanwhile(&leave);
    assert_int_equal(rows_of("late"), 0);
    gives_back(&one, &held);
}

static void a_join_that_is_carried_out_behind_a_win_goes_with_the_term(void **state)
{
    struct call held = wins(&one, "behind", "a");
    struct later win = {.call = host_call(SIMBA_OP_ACQUIRE, "behind", "late", 0)};

    gives_up_to_join(&win, "behind");
    gives_back(&one, &held);
    asks_meanwhile(&win);
    assert_string_equal(win.call.owner, "late");
    gives_back(&two, &win.call);
    assert_int_equal(rows_of("behind"), 0);
}

static void a_dead_client_is_passed_over_once(void **state)
{
    struct call held = wins(&one, "dead", "a");
    struct host gone;

    assert_int_equal(host_open(&gone, server.url), SIMBA_OK);
    waits(&gone, "dead", "g", "a");
    assert_true(host_close(&gone));
    waits(&two, "dead", "b", "a");
    gives_back(&one, &held);
    assert_string_equal(acquire(&two, "dead", "b").owner, "");
    held = wins_at_last(&two, "dead", "b");
    waits(&one, "dead", "a", "b");
    gives_back(&two, &held);
    held = wins(&one, "dead", "a"); /* at once */
    gives_back(&one, &held);
    assert_int_equal(rows_of("dead"), 0);
}

/* ---- Those that are overtaken ---------------------------------------------------------------- */

/* Neither fair=no nor the other library heeds a reservation. */
static struct call overtakes(struct host *host, const char *mutex, const char *id)
{
    struct call call = host_do(host, SIMBA_OP_ACQUIRE, mutex, id, 0);

    assert_string_equal(call.owner, id);
    return call;
}

static bool one_is_told(void *mutex)
{
    return host_notices(&two, SIMBA_NOTICE_RELEASED, mutex, "b") > 0 ||
           host_notices(&three, SIMBA_NOTICE_RELEASED, mutex, "c") > 0;
}

/* The one that overtakes does not last as long as the reservation, and the waiter that it was for
 * has not come yet: perhaps it never will. */
static void a_release_after_one_that_overtook_tells_a_waiter(void **state)
{
    struct call held = wins(&one, "overtaken", "a");

    hears(&two, "overtaken", "b");
    waits(&two, "overtaken", "b", "a");
    hears(&three, "overtaken", "c");
    waits(&three, "overtaken", "c", "a");
    hear_by_now(&two);
    hear_by_now(&three);
    gives_back(&one, &held);
    assert_true(host_wait_notice(&two, SIMBA_NOTICE_RELEASED, "overtaken", "b"));
    assert_true(host_wait_notice(&three, SIMBA_NOTICE_RESERVED, "overtaken", "c"));
    for (int term = 0; term < 3; term++) {
        held = overtakes(&one, "overtaken", "n");
        host_forget_notices(&two);
        host_forget_notices(&three);
        gives_back(&one, &held);
        assert_true(host_run_until(&two, one_is_told, "overtaken"));
    }
    held = wins(&two, "overtaken", "b");
    gives_back(&two, &held);
    held = wins_at_last(&three, "overtaken", "c");
    gives_back(&three, &held);
    assert_int_equal(rows_of("overtaken"), 0);
}

/* ---- The other library ----------------------------------------------------------------------- */

static void statements_of_the_other_library_share_the_mutex(void **state)
{
    struct call held = wins(&one, "jvm", "a");
    struct call call;

    waits(&two, "jvm", "b", "a");
    assert_false(jvm_acquires("jvm"));
    gives_back(&one, &held);
    assert_true(jvm_acquires("jvm")); /* it knows nothing of reservations, and may come first */
    assert_true(jvm_acquires("jvm")); /* and renews */
    waits(&three, "jvm", "c", "jvm");
    waits(&two, "jvm", "b", "jvm"); /* the one that it was reserved for has its old place */
    assert_int_equal(host_place(&two, "jvm", "b"), 1);
    jvm_releases("jvm");
    call = wins(&two, "jvm", "b");
    gives_back(&two, &call);
    call = wins(&three, "jvm", "c");
    gives_back(&three, &call);
}

/* ---- Without the table ----------------------------------------------------------------------- */

static void without_the_table_everybody_is_woken_and_one_line_says_so(void **state)
{
    struct host old, other;
    struct call held;

    server_sql(&server, "%s", dialect_create_user);
    server_sql(&server, "GRANT SELECT, INSERT, UPDATE ON simba_mutex TO plain");
    assert_int_equal(host_open(&old, server_url(&server, "plain:secret", "")), SIMBA_OK);
    assert_int_equal(host_open(&other, server_url(&server, "plain:secret", "")), SIMBA_OK);
    assert_int_equal(old.log_count, 1);
    assert_non_null(strstr(old.log, "do not wait in line"));
    held = wins(&old, "old", "a");
    hears(&other, "old", "b");
    waits(&other, "old", "b", "a");
    if (dialect_pushes)
        hear_by_now(&other);
    gives_back(&old, &held);
    assert_true(host_wait_notice(&other, SIMBA_NOTICE_RELEASED, "old", NULL));
    held = wins(&other, "old", "b");
    gives_back(&other, &held);
    dialect_kill_clients(&server);
    assert_true(test_wait(is_back, &old)); /* over a new connection, without a second line */
    assert_null(strstr(old.log, "do not wait in line"));
    assert_int_equal(rows_of("old"), 0);
    other.ops->listen(other.backend, "old", "b", false);
    assert_true(host_close(&other));
    assert_true(host_close(&old));
}

/* ---- What it costs --------------------------------------------------------------------------- */

#define CLIENTS 4
#define CROWD 100
#define TERMS 20 /* of each contender */

static simba_client *clients[CLIENTS];
static _Atomic int failures;
static _Atomic int64_t terms;

static void *contend(void *argument)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;

    options.mutex = "crowd";
    if (simba_locker_create(argument, &options, &locker, NULL) != SIMBA_OK)
        failures++;
    for (int i = 0; i < TERMS && failures == 0; i++) {
        if (simba_locker_acquire(locker, NULL) != SIMBA_OK)
            failures++;
        terms++;
        if (simba_locker_release(locker, NULL) != SIMBA_OK)
            failures++;
    }
    simba_locker_close(locker);
    return NULL;
}

static double commits_per_term(void)
{
    pthread_t threads[CROWD];
    double commits = (double)server_number(&server, dialect_count_commits);

    terms = 0;
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, contend, clients[i % CLIENTS]), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    test_pause_ms(1200); /* the server counts when a session is idle for a while */
    commits = ((double)server_number(&server, dialect_count_commits) - commits) / (double)terms;
    print_message("# %.2f commits per hand-over\n", commits);
    assert_int_equal(failures, 0);
    assert_int_equal(terms, CROWD * TERMS);
    return commits;
}

/* On a busy machine reservations run out, and their waiters come in vain. If a release woke
 * everybody, each of the crowd would. */
#define COMMITS_MAX 10

static void a_crowd_costs_few_commits_per_hand_over(void **state)
{
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(simba_client_open(server.url, NULL, &clients[i], NULL), SIMBA_OK);
    assert_true(commits_per_term() <= COMMITS_MAX);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(simba_client_close(clients[i], NULL), SIMBA_OK);
    assert_int_equal(rows_of("crowd"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_CLIENTS(the_first_in_line_is_woken_and_the_second_told),
        ON_CLIENTS(places_are_told_and_the_line_is_listed),
        ON_CLIENTS(a_newcomer_does_not_barge),
        ON_CLIENTS(without_reservations_a_newcomer_wins),
        ON_CLIENTS(a_waiter_that_hangs_costs_one_reservation_once),
        ON_CLIENTS(a_waiter_that_leaves_passes_it_on),
        ON_CLIENTS(a_place_that_could_not_be_left_goes_with_the_next_term),
        ON_CLIENTS(a_release_that_could_not_leave_forgets_no_place),
        ON_CLIENTS(a_join_that_is_carried_out_late_leaves_no_place),
        ON_CLIENTS(a_join_that_is_carried_out_behind_a_win_goes_with_the_term),
        ON_CLIENTS(a_dead_client_is_passed_over_once),
        ON_CLIENTS(a_release_after_one_that_overtook_tells_a_waiter),
        ON_CLIENTS(statements_of_the_other_library_share_the_mutex),
        ON_CLIENTS(without_the_table_everybody_is_woken_and_one_line_says_so),
        cmocka_unit_test(a_crowd_costs_few_commits_per_hand_over),
    };

    return server_run_tests("queue", tests);
}
