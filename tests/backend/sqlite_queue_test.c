/*
 * sqlite_queue_test.c - the queue on SQLite: a release reserves the mutex for the first waiter that
 * lives, tells that one and the second, and nobody else. All leases here are longer than the tests
 * are patient.
 */
#include "file.h"
#include "host.h"

#include "backend/sqlite/wake_socket.h"

#include <signal.h>
#include <sys/wait.h>

#define SOON_MS 2000   /* far below any lease */
#define RESERVE_MS 900 /* long enough for a few requests on a busy machine */
#define SHORT_MS 20
#define NO_RESERVATION 0 /* fair=no */

/* ---- Requests -------------------------------------------------------------------------------- */

static struct call ask(struct host *host, enum simba_op op, const char *id, uint64_t revision,
                       int64_t reserve_ms)
{
    struct call call = host_call(op, "m", id, revision);

    call.request.reserve_ms = reserve_ms;
    call.request.asks_place = op == SIMBA_OP_ACQUIRE;
    host_submit(host, &call, 1);
    host_wait(host, &call, 1);
    return call;
}

static struct call acquire(struct host *host, const char *id)
{
    struct call call = ask(host, SIMBA_OP_ACQUIRE, id, 0, RESERVE_MS);

    assert_int_equal(call.code, SIMBA_OK);
    return call;
}

static struct call own(struct host *host, const char *id)
{
    struct call call = acquire(host, id);

    assert_string_equal(call.owner, id);
    return call;
}

static void release(struct host *host, const struct call *held)
{
    struct call call = ask(host, SIMBA_OP_RELEASE, held->owner, held->revision, RESERVE_MS);

    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(call.owner, "");
}

/* Joins, and waits until the watch of the client stands, which begins with a wake-up of its own. */
static void join(struct host *host, const char *id, const char *owner, int64_t place)
{
    struct call call;

    host->ops->listen(host->backend, "m", id, true);
    call = acquire(host, id);
    assert_string_equal(call.owner, owner);
    assert_int_equal(call.place, place);
    assert_true(host_wait_notice(host, SIMBA_NOTICE_RELEASED, "m", NULL));
    assert_int_equal(acquire(host, id).place, place);
    host_forget_notices(host);
}

static void assert_line(struct host *host, const char *first, const char *second)
{
    struct call call = ask(host, SIMBA_OP_QUEUE, NULL, 0, 0);
    size_t count = (first != NULL) + (size_t)(second != NULL);

    assert_int_equal(call.code, SIMBA_OK);
    assert_int_equal(call.list_count, count);
    if (first != NULL)
        assert_string_equal(call.list[0].owner.id, first);
    if (second != NULL)
        assert_string_equal(call.list[1].owner.id, second);
    if (count == 2)
        assert_true(call.list[0].owner.acquired_at_ms <= call.list[1].owner.acquired_at_ms);
}

static bool is_over(void *reserved_at_ms)
{
    return test_now_ms() - *(int64_t *)reserved_at_ms > RESERVE_MS + 5;
}

static void await_the_end_of_the_reservation(void)
{
    int64_t now_ms = test_now_ms();

    assert_true(test_wait(is_over, &now_ms));
}

/* ---- Clients --------------------------------------------------------------------------------- */

#define CLIENTS 4

static struct host clients[CLIENTS]; /* each with an inotify instance and a socket of its own */

static void open_clients(const struct file *file)
{
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(host_open(&clients[i], file->url), SIMBA_OK);
}

static void close_clients(void)
{
    for (int i = 0; i < CLIENTS; i++)
        assert_true(host_close(&clients[i]));
}

/* "a" has released, and "b", "c" and "d" wait in this order. */
static void release_to_three(const struct file *file)
{
    struct call held;

    open_clients(file);
    held = own(&clients[0], "a");
    join(&clients[1], "b", "a", 1);
    join(&clients[2], "c", "a", 2);
    join(&clients[3], "d", "a", 3);
    release(&clients[0], &held);
}

/* ---- Order ----------------------------------------------------------------------------------- */

static void a_release_tells_the_first_two_and_nobody_in_between(void **state)
{
    struct file *file = *state;

    release_to_three(file);
    assert_true(host_wait_notice(&clients[1], SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_true(host_wait_notice(&clients[2], SIMBA_NOTICE_RESERVED, "m", "c"));
    own(&clients[1], "b");
    assert_line(&clients[0], "c", "d");
    assert_int_equal(acquire(&clients[3], "d").place, 2);
    assert_int_equal(host_notices(&clients[1], SIMBA_NOTICE_RELEASED, "m", NULL), 1);
    assert_int_equal(host_notices(&clients[2], SIMBA_NOTICE_RELEASED, "m", NULL), 0);
    assert_int_equal(host_notices(&clients[3], SIMBA_NOTICE_RELEASED, "m", NULL), 0);
    assert_int_equal(host_notices(&clients[3], SIMBA_NOTICE_RESERVED, "m", NULL), 0);
    close_clients();
}

#define FEW 16                         /* behind the first: each release tells the last */
#define WHOLE_CLOCK (INT64_C(1) << 40) /* a reservation in whose span of the clock all terms lie */

/* "a" owns, and "b", "c" and others wait; "d" is the last. */
static struct call own_before(const struct file *file, int behind_first)
{
    struct call held;
    char id[16];

    open_clients(file);
    held = own(&clients[0], "a");
    join(&clients[1], "b", "a", 1);
    join(&clients[2], "c", "a", 2);
    for (int i = 2; i < behind_first; i++) {
        snprintf(id, sizeof id, "c%d", i);
        assert_int_equal(acquire(&clients[2], id).place, i + 1);
    }
    join(&clients[3], "d", "a", behind_first + 1);
    return held;
}

/* It is told by the first release of each span of the clock that is as long as a reservation. */
static void the_last_of_a_crowd_is_told_now_and_then(void **state)
{
    struct call held = own_before(*state, FEW + 1);

    await_the_end_of_the_reservation();
    release(&clients[0], &held);
    assert_true(host_wait_notice(&clients[1], SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_true(host_wait_notice(&clients[2], SIMBA_NOTICE_RESERVED, "m", "c"));
    assert_true(host_wait_notice(&clients[3], SIMBA_NOTICE_STANDBY, "m", "d"));
    assert_int_equal(host_notices(&clients[2], SIMBA_NOTICE_STANDBY, "m", NULL), 0);
    close_clients();
}

static void the_last_of_a_crowd_is_not_told_of_each_release(void **state)
{
    struct call held = own_before(*state, FEW + 1);

    ask(&clients[0], SIMBA_OP_RELEASE, "a", held.revision, WHOLE_CLOCK);
    own(&clients[1], "b");
    assert_int_equal(host_notices(&clients[3], SIMBA_NOTICE_STANDBY, "m", NULL), 0);
    close_clients();
}

static void the_last_of_few_is_told_of_each_release(void **state)
{
    struct call held = own_before(*state, FEW);

    ask(&clients[0], SIMBA_OP_RELEASE, "a", held.revision, WHOLE_CLOCK);
    assert_true(host_wait_notice(&clients[3], SIMBA_NOTICE_STANDBY, "m", "d"));
    close_clients();
}

static void contenders_of_one_client_are_told_one_by_one(void **state)
{
    struct file *file = *state;
    struct call held;

    open_clients(file);
    held = own(&clients[0], "a");
    join(&clients[0], "b", "a", 1);
    assert_int_equal(acquire(&clients[0], "c").place, 2);
    assert_int_equal(acquire(&clients[0], "d").place, 3);
    release(&clients[0], &held);
    assert_true(host_wait_notice(&clients[0], SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_true(host_wait_notice(&clients[0], SIMBA_NOTICE_RESERVED, "m", "c"));
    own(&clients[0], "b");
    assert_int_equal(host_notices(&clients[0], SIMBA_NOTICE_RELEASED, "m", "c"), 0);
    assert_int_equal(host_notices(&clients[0], SIMBA_NOTICE_RESERVED, "m", "d"), 0);
    close_clients();
}

static void a_newcomer_waits_behind_a_reservation(void **state)
{
    struct file *file = *state;
    struct call held;
    struct call call;

    open_clients(file);
    held = own(&clients[0], "a");
    join(&clients[1], "b", "a", 1);
    release(&clients[0], &held);
    call = acquire(&clients[2], "new");
    assert_string_equal(call.owner, "");
    assert_in_range(call.reserved_left_ms, 1, RESERVE_MS);
    assert_int_equal(call.place, 2);
    call = acquire(&clients[0], "a"); /* the one that has released, too */
    assert_string_equal(call.owner, "");
    assert_true(call.reserved_left_ms > 0);
    own(&clients[1], "b");
    assert_line(&clients[0], "new", "a");
    close_clients();
}

static void a_newcomer_that_is_not_fair_does_not(void **state)
{
    struct file *file = *state;
    struct call held;

    open_clients(file);
    held = own(&clients[0], "a");
    join(&clients[1], "b", "a", 1);
    release(&clients[0], &held);
    held = ask(&clients[2], SIMBA_OP_ACQUIRE, "new", 0, NO_RESERVATION);
    assert_string_equal(held.owner, "new");
    assert_int_equal(acquire(&clients[1], "b").place, 1); /* it has its place back */
    host_forget_notices(&clients[1]);
    ask(&clients[2], SIMBA_OP_RELEASE, "new", held.revision, NO_RESERVATION);
    assert_true(host_wait_notice(&clients[1], SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_string_equal(acquire(&clients[3], "other").owner, "other"); /* nothing was reserved */
    close_clients();
}

/* ---- Waiters that do not come ---------------------------------------------------------------- */

/* "a" has released, "b", "c" and "d" wait in this order, and "b" does not come: "c" owns. */
static struct call let_b_miss_its_reservation(const struct file *file)
{
    struct call held;

    open_clients(file);
    held = own(&clients[0], "a");
    join(&clients[1], "b", "a", 1);
    join(&clients[2], "c", "a", 2);
    join(&clients[0], "d", "a", 3);
    release(&clients[0], &held);
    assert_true(acquire(&clients[2], "c").reserved_left_ms > 0);
    await_the_end_of_the_reservation();
    return own(&clients[2], "c");
}

static void a_waiter_that_does_not_come_loses_its_place(void **state)
{
    struct call held = let_b_miss_its_reservation(*state);

    assert_line(&clients[0], "d", NULL);
    release(&clients[2], &held);
    assert_true(host_wait_notice(&clients[0], SIMBA_NOTICE_RELEASED, "m", "d"));
    held = own(&clients[0], "d");
    release(&clients[0], &held);
    held = own(&clients[2], "c"); /* nothing is reserved for it any more */
    close_clients();
}

/* At the end of the queue one that is always a little late would never own. */
static void a_waiter_that_comes_too_late_has_its_old_place_and_more_time(void **state)
{
    struct call held = let_b_miss_its_reservation(*state);
    struct call call;

    assert_int_equal(acquire(&clients[1], "b").place, 1);
    assert_line(&clients[0], "b", "d");
    ask(&clients[2], SIMBA_OP_RELEASE, "c", held.revision, SHORT_MS);
    call = acquire(&clients[0], "d");
    assert_string_equal(call.owner, "");
    assert_true(call.reserved_left_ms > SHORT_MS);
    held = own(&clients[1], "b");
    assert_line(&clients[0], "d", NULL);
    release(&clients[1], &held);
    own(&clients[0], "d");
    assert_line(&clients[0], NULL, NULL);
    close_clients();
}

static bool d_owns(void *ret_held)
{
    struct call call = acquire(&clients[0], "d");

    *(struct call *)ret_held = call;
    return strcmp(call.owner, "d") == 0;
}

/* One that is always late costs the others a second for each time that it was at the front, and not
 * for each release. */
static void a_waiter_that_misses_the_longer_reservation_too_goes_to_the_end(void **state)
{
    struct call held = let_b_miss_its_reservation(*state);

    assert_int_equal(acquire(&clients[1], "b").place, 1);
    release(&clients[2], &held);
    assert_true(test_wait(d_owns, &held));
    assert_int_equal(acquire(&clients[2], "c").place, 1);
    assert_int_equal(acquire(&clients[1], "b").place, 2);
    assert_line(&clients[0], "c", "b");
    release(&clients[0], &held);
    held = own(&clients[2], "c");
    release(&clients[2], &held);
    held = own(&clients[1], "b");
    release(&clients[1], &held);
    assert_line(&clients[0], NULL, NULL);
    own(&clients[0], "d");
    close_clients();
}

/* It asks while the mutex is reserved for one that came later. */
static void a_late_waiter_does_not_lose_its_place_to_the_one_that_it_is_reserved_for(void **state)
{
    struct call held = let_b_miss_its_reservation(*state);

    release(&clients[2], &held);
    assert_true(host_wait_notice(&clients[0], SIMBA_NOTICE_RELEASED, "m", "d"));
    assert_true(acquire(&clients[1], "b").reserved_left_ms > 0);
    held = own(&clients[0], "d");
    assert_int_equal(acquire(&clients[2], "c").place, 2);
    assert_line(&clients[0], "b", "c");
    release(&clients[0], &held);
    held = own(&clients[1], "b");
    release(&clients[1], &held);
    own(&clients[2], "c");
    assert_line(&clients[0], NULL, NULL);
    close_clients();
}

static void a_waiter_that_leaves_passes_it_on(void **state)
{
    struct file *file = *state;

    release_to_three(file);
    assert_int_equal(ask(&clients[1], SIMBA_OP_RELEASE, "b", 0, RESERVE_MS).code, SIMBA_OK);
    assert_true(host_wait_notice(&clients[2], SIMBA_NOTICE_RELEASED, "m", "c"));
    assert_true(host_wait_notice(&clients[3], SIMBA_NOTICE_RESERVED, "m", "d"));
    assert_true(acquire(&clients[3], "d").reserved_left_ms > 0);
    own(&clients[2], "c");
    close_clients();
}

/* Otherwise each that leaves would have the others wait for it once more. */
static void one_that_leaves_reserves_nothing_again_for_one_that_did_not_come(void **state)
{
    struct file *file = *state;
    struct call held;

    release_to_three(file);
    await_the_end_of_the_reservation();
    assert_int_equal(ask(&clients[3], SIMBA_OP_RELEASE, "d", 0, RESERVE_MS).code, SIMBA_OK);
    assert_true(host_wait_notice(&clients[2], SIMBA_NOTICE_RELEASED, "m", "c"));
    held = own(&clients[2], "c");
    assert_int_equal(acquire(&clients[1], "b").place, 1); /* it has its old place */
    release(&clients[2], &held);
    own(&clients[1], "b");
    close_clients();
}

static void a_waiter_that_leaves_while_another_owns_only_leaves(void **state)
{
    struct file *file = *state;

    open_clients(file);
    own(&clients[0], "a");
    join(&clients[1], "b", "a", 1);
    join(&clients[2], "c", "a", 2);
    assert_int_equal(ask(&clients[1], SIMBA_OP_RELEASE, "b", 0, RESERVE_MS).code, SIMBA_OK);
    assert_line(&clients[0], "c", NULL);
    assert_int_equal(host_notices(&clients[2], SIMBA_NOTICE_RELEASED, "m", NULL), 0);
    assert_int_equal(ask(&clients[2], SIMBA_OP_RELEASE, "c", 0, RESERVE_MS).code, SIMBA_OK);
    assert_line(&clients[0], NULL, NULL);
    assert_int_equal(file_number(file, "SELECT queued FROM simba_mutex"), 0);
    close_clients();
}

/* ---- Waiters in another process -------------------------------------------------------------- */

static int facts[2];
static int orders[2];

/* Waits in line when it is told that there is an owner, and then does nothing until it is
 * killed. */
static int wait_in_line(struct file *file)
{
    struct host host;
    char byte;

    if (read(orders[0], &byte, 1) != 1 || host_open(&host, file->url) != SIMBA_OK)
        return 1;
    host.ops->listen(host.backend, "m", "other", true);
    if (acquire(&host, "other").place != 1 || write(facts[1], "x", 1) != 1)
        return 2;
    while (read(orders[0], &byte, 1) != 1)
        continue;
    return 3;
}

/* Forks before this process has threads. */
static pid_t start_waiter(struct file *file)
{
    pid_t pid;

    assert_int_equal(pipe(facts), 0);
    assert_int_equal(pipe(orders), 0);
    pid = file_fork(wait_in_line, file, false);
    assert_true(pid > 0);
    return pid;
}

static void await_waiter(void)
{
    char byte;

    assert_int_equal(write(orders[1], "x", 1), 1);
    assert_int_equal(read(facts[0], &byte, 1), 1);
}

static void end_waiter(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(facts[i]);
        close(orders[i]);
    }
}

static void a_killed_waiter_is_passed_over_at_once(void **state)
{
    struct file *file = *state;
    pid_t pid = start_waiter(file);
    struct call held;

    open_clients(file);
    held = own(&clients[0], "a");
    await_waiter();
    join(&clients[1], "b", "a", 2);
    end_waiter(pid);
    assert_line(&clients[0], "b", NULL);
    release(&clients[0], &held);
    assert_true(host_wait_notice(&clients[1], SIMBA_NOTICE_RELEASED, "m", "b"));
    own(&clients[1], "b");
    acquire(&clients[0], "a");
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_waiter"), 1); /* a alone */
    close_clients();
}

static void a_stopped_waiter_costs_one_reservation(void **state)
{
    struct file *file = *state;
    pid_t pid = start_waiter(file);
    struct call held;
    struct call call;
    int64_t begin;

    open_clients(file);
    held = own(&clients[0], "a");
    await_waiter();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    join(&clients[1], "b", "a", 2);
    begin = test_now_ms();
    release(&clients[0], &held);
    assert_true(host_wait_notice(&clients[1], SIMBA_NOTICE_RESERVED, "m", "b"));
    call = acquire(&clients[1], "b");
    assert_string_equal(call.owner, "");
    assert_in_range(call.reserved_left_ms, 1, RESERVE_MS);
    await_the_end_of_the_reservation();
    held = own(&clients[1], "b");
    assert_true(test_now_ms() - begin < RESERVE_MS + SOON_MS);
    release(&clients[1], &held);
    own(&clients[0], "a"); /* the stopped one is not in line any more */
    close_clients();
    end_waiter(pid);
}

/* ---- Wake-ups -------------------------------------------------------------------------------- */

static struct sb_sqlite_address address_of(const struct file *file, const char *id)
{
    struct sb_sqlite_address address = {0};
    sqlite3 *db = file_open(file);
    sqlite3_stmt *statement = NULL;

    sqlite3_prepare_v2(db, "SELECT client FROM simba_waiter WHERE id = ?1", -1, &statement, NULL);
    sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
    if (sqlite3_step(statement) == SQLITE_ROW)
        address = sb_sqlite_address_read((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return address;
}

static void a_message_without_the_secret_wakes_nobody(void **state)
{
    struct file *file = *state;
    struct sb_sqlite_address address;
    int sender = sb_sqlite_wake_socket_create_sender();

    open_clients(file);
    own(&clients[0], "a");
    join(&clients[1], "b", "a", 1);
    address = address_of(file, "b");
    assert_true(address.name != 0 && address.life != 0);
    address.secret ^= 1;
    for (int i = 0; i < 100; i++) /* more than the socket can hold */
        assert_true(
            sb_sqlite_wake_socket_send(sender, &address, SIMBA_NOTICE_RELEASED, "m", "false"));
    address.secret ^= 1;
    assert_true(sb_sqlite_wake_socket_send(sender, &address, SIMBA_NOTICE_RELEASED, "m", "true"));
    assert_true(host_wait_notice(&clients[1], SIMBA_NOTICE_RELEASED, "m", "true"));
    assert_int_equal(host_notices(&clients[1], SIMBA_NOTICE_RELEASED, "m", "false"), 0);
    close(sender);
    close_clients();
}

/* As it is for one in another network namespace. */
static void a_waiter_that_cannot_be_reached_hears_of_it_by_the_side_file(void **state)
{
    struct file *file = *state;
    struct call held;

    open_clients(file);
    held = own(&clients[0], "a");
    join(&clients[1], "b", "a", 1);
    assert_true(file_sql(file, "UPDATE simba_waiter SET client = '1-1-0'"));
    release(&clients[0], &held);
    assert_true(host_wait_notice(&clients[1], SIMBA_NOTICE_RELEASED, "m", NULL));
    own(&clients[1], "b");
    close_clients();
}

/* It is answered before the lease of the owner is over, and called by nobody. */
static void a_waiter_that_could_not_join_is_told_to_try_again(void **state)
{
    struct file *file = *state;
    struct call held;
    struct call call;
    sqlite3 *writer;

    open_clients(file);
    held = own(&clients[0], "a");
    writer = file_open(file);
    assert_int_equal(sqlite3_exec(writer, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    call = acquire(&clients[1], "b");
    assert_string_equal(call.owner, "a");
    assert_int_equal(call.place, 0);
    assert_true(host_wait_notice(&clients[1], SIMBA_NOTICE_RELEASED, "m", "b"));
    assert_int_equal(sqlite3_exec(writer, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    join(&clients[1], "b", "a", 1);
    release(&clients[0], &held);
    assert_true(host_wait_notice(&clients[1], SIMBA_NOTICE_RELEASED, "m", "b"));
    sqlite3_close(writer);
    close_clients();
}

/* ---- Others on the same file ----------------------------------------------------------------- */

/* What writers do that know nothing of the queue. */
static void one_that_knows_no_queue_may_come_first(void **state)
{
    struct file *file = *state;
    struct call held;
    struct call call;

    open_clients(file);
    held = own(&clients[0], "a");
    join(&clients[1], "b", "a", 1);
    join(&clients[2], "c", "a", 2);
    release(&clients[0], &held);
    assert_true(file_sql(file, "UPDATE simba_mutex SET owner_id = 'jvm', acquired_at = 1,"
                               " ttl_at = 1 << 60, transition_at = 1 << 60,"
                               " version = version + 1"));
    call = acquire(&clients[1], "b");
    assert_string_equal(call.owner, "jvm");
    assert_int_equal(call.place, 1); /* it has its old place */
    assert_true(file_sql(file, "UPDATE simba_mutex SET owner_id = '', acquired_at = 0, ttl_at = 0,"
                               " transition_at = 0, version = version + 1"));
    await_the_end_of_the_reservation();
    held = own(&clients[1], "b");
    release(&clients[1], &held);
    assert_true(host_wait_notice(&clients[2], SIMBA_NOTICE_RELEASED, "m", "c"));
    close_clients();
}

static void a_file_of_before_there_was_a_queue_gets_one(void **state)
{
    struct file *file = *state;
    struct call held;

    open_clients(file);
    held = own(&clients[0], "a");
    release(&clients[0], &held);
    close_clients();
    assert_true(file_sql(file, "DROP TABLE simba_waiter;"
                               "ALTER TABLE simba_mutex DROP COLUMN queued;"
                               "ALTER TABLE simba_mutex DROP COLUMN reserved_for;"
                               "ALTER TABLE simba_mutex DROP COLUMN reserved_until;"
                               "ALTER TABLE simba_mutex DROP COLUMN reserved_since;"
                               "ALTER TABLE simba_mutex DROP COLUMN served"));
    open_clients(file);
    held = own(&clients[0], "a");
    join(&clients[1], "b", "a", 1);
    release(&clients[0], &held);
    assert_true(host_wait_notice(&clients[1], SIMBA_NOTICE_RELEASED, "m", "b"));
    own(&clients[1], "b");
    close_clients();
}

static void a_queue_that_is_dropped_is_created_again(void **state)
{
    struct file *file = *state;
    struct call held;

    open_clients(file);
    held = own(&clients[0], "a");
    join(&clients[1], "b", "a", 1);
    assert_true(file_sql(file, "DROP TABLE simba_waiter"));
    release(&clients[0], &held); /* wakes nobody: it does not know of any */
    assert_string_equal(acquire(&clients[2], "c").owner, "c");
    assert_int_equal(acquire(&clients[1], "b").place, 1);
    close_clients();
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILE(a_killed_waiter_is_passed_over_at_once),
        ON_FILE(a_stopped_waiter_costs_one_reservation),
        ON_FILE(a_release_tells_the_first_two_and_nobody_in_between),
        ON_FILE(the_last_of_a_crowd_is_told_now_and_then),
        ON_FILE(the_last_of_a_crowd_is_not_told_of_each_release),
        ON_FILE(the_last_of_few_is_told_of_each_release),
        ON_FILE(contenders_of_one_client_are_told_one_by_one),
        ON_FILE(a_newcomer_waits_behind_a_reservation),
        ON_FILE(a_newcomer_that_is_not_fair_does_not),
        ON_FILE(a_waiter_that_does_not_come_loses_its_place),
        ON_FILE(a_waiter_that_comes_too_late_has_its_old_place_and_more_time),
        ON_FILE(a_late_waiter_does_not_lose_its_place_to_the_one_that_it_is_reserved_for),
        ON_FILE(a_waiter_that_misses_the_longer_reservation_too_goes_to_the_end),
        ON_FILE(a_waiter_that_leaves_passes_it_on),
        ON_FILE(one_that_leaves_reserves_nothing_again_for_one_that_did_not_come),
        ON_FILE(a_waiter_that_leaves_while_another_owns_only_leaves),
        ON_FILE(a_message_without_the_secret_wakes_nobody),
        ON_FILE(a_waiter_that_cannot_be_reached_hears_of_it_by_the_side_file),
        ON_FILE(a_waiter_that_could_not_join_is_told_to_try_again),
        ON_FILE(one_that_knows_no_queue_may_come_first),
        ON_FILE(a_file_of_before_there_was_a_queue_gets_one),
        ON_FILE(a_queue_that_is_dropped_is_created_again),
    };

    return cmocka_run_group_tests_name("sqlite_queue", tests, NULL, NULL);
}
