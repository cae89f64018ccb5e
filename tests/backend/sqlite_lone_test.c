/*
 * sqlite_lone_test.c - a request that comes alone is carried out on the loop, unless that would
 * have to wait for a lock, others of the client would have to wait for the disk, or the disk has
 * just been slow.
 */
#include "file.h"
#include "host.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

static struct call acquire(struct host *host, const char *mutex, const char *id)
{
    return host_do(host, SIMBA_OP_ACQUIRE, mutex, id, 0);
}

/* As the library asks for one that no other contender or observer would wait with. */
static struct call do_alone(struct host *host, enum simba_op op, const char *mutex, const char *id,
                            uint64_t revision)
{
    struct call call = host_call(op, mutex, id, revision);

    call.request.delays_no_other = true;
    host_submit(host, &call, 1);
    host_wait(host, &call, 1);
    return call;
}

static struct call acquire_alone(struct host *host, const char *mutex, const char *id)
{
    return do_alone(host, SIMBA_OP_ACQUIRE, mutex, id, 0);
}

/* ---- On the loop ----------------------------------------------------------------------------- */

/* A request that comes alone is carried out on the thread that submits it. */
static void a_lone_request_is_answered_at_once(void **state)
{
    struct file *file = *state;
    struct call call = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host_submit(&host, &call, 1);
    assert_true(host_is_answered(&host, &call));
    assert_true(call.on_loop);
    assert_string_equal(call.owner, "a");
    assert_true(host_close(&host));
}

/* What the loop may not wait for is waited for elsewhere, and comes to a good end. */
static void a_lone_request_that_meets_a_lock_does_not_hold_up_the_loop(void **state)
{
    struct file *file = *state;
    struct call call = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
    struct host host;
    sqlite3 *db;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    db = file_open(file);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    host_submit(&host, &call, 1);
    assert_false(host_is_answered(&host, &call));
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_true(host_wait(&host, &call, 1));
    assert_int_equal(call.answers, 1);
    assert_string_equal(call.owner, "a");
    assert_true(host_close(&host));
}

static void a_close_answers_a_lone_request_that_met_a_lock(void **state)
{
    struct file *file = *state;
    struct call call = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
    struct host host;
    sqlite3 *db;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    db = file_open(file);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    call.request.timeout_ms = 100;
    host_submit(&host, &call, 1);
    assert_true(host_close(&host));
    assert_int_equal(call.answers, 1);
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    sqlite3_close(db);
}

#define CYCLES 1200
#define FRAME_BYTES 4120L /* a page and what the log says of it */

static int64_t log_bytes(const struct file *file)
{
    struct stat log;
    char path[sizeof file->path + 8];

    snprintf(path, sizeof path, "%s-wal", file->path);
    assert_int_equal(stat(path, &log), 0);
    return log.st_size;
}

static void the_log_moves_into_the_file_on_the_way(void **state)
{
    struct file *file = *state;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    for (int i = 0; i < CYCLES; i++) {
        struct call held = acquire(&host, "m", "a");

        host_do(&host, SIMBA_OP_RELEASE, "m", "a", held.revision);
    }
    assert_true(log_bytes(file) < 1100 * FRAME_BYTES);
    assert_true(host_close(&host));
}

/* The next process that opens the file has to read all of it. */
static void clients_that_commit_once_keep_the_log_short(void **state)
{
    struct file *file = *state;
    int64_t longest = 0;

    for (int i = 0; i < CYCLES / 2; i++) {
        struct host host;

        assert_int_equal(host_open(&host, file->url), SIMBA_OK);
        assert_true(acquire(&host, "m", "a").on_loop);
        assert_true(host_close(&host));
        if (log_bytes(file) > longest)
            longest = log_bytes(file);
    }
    assert_in_range(longest, 50 * FRAME_BYTES, 110 * FRAME_BYTES);
}

/* ---- Others of the same client --------------------------------------------------------------- */

static void listen_to(struct host *host, const char *mutex, const char *id, bool on)
{
    host->ops->listen(host->backend, mutex, id, on);
}

/* The first request of a client, which no slow one has preceded. */
static struct call ask_first(const struct file *file, enum simba_op op, uint64_t revision)
{
    struct call call;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    listen_to(&host, "m", "a", true);
    call = do_alone(&host, op, "m", "a", revision);
    listen_to(&host, "m", "a", false);
    assert_true(host_close(&host));
    return call;
}

/* Then the thread that asked waits for the disk. */
static void the_only_contender_is_answered_at_once(void **state)
{
    struct call held = ask_first(*state, SIMBA_OP_ACQUIRE, 0);

    assert_string_equal(held.owner, "a");
    assert_true(held.on_loop);
    assert_true(ask_first(*state, SIMBA_OP_RELEASE, held.revision).on_loop);
}

static void a_renewal_is_left_to_the_thread(void **state)
{
    struct call held = ask_first(*state, SIMBA_OP_ACQUIRE, 0);
    struct call renewed = ask_first(*state, SIMBA_OP_GUARD, held.revision);

    assert_string_equal(renewed.owner, "a");
    assert_false(renewed.on_loop);
}

/* After a slow request, which any may be on a busy machine, the loop has another try only after a
 * while. */
static bool reads_on_loop(void *user)
{
    return host_do(user, SIMBA_OP_READ, "m", NULL, 0).on_loop;
}

static bool acquires_on_loop(void *user)
{
    return acquire_alone(user, "m", "a").on_loop;
}

static void a_read_does_not_keep_the_only_contender_waiting(void **state)
{
    struct file *file = *state;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    listen_to(&host, "m", "a", true);
    assert_false(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).on_loop);
    listen_to(&host, "m", "a", false);
    assert_true(test_wait(reads_on_loop, &host));
    assert_true(host_close(&host));
}

static void one_that_has_stopped_does_not_keep_the_only_contender_waiting(void **state)
{
    struct file *file = *state;
    struct call late;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    listen_to(&host, "m", "a", true);
    late = acquire(&host, "other", "b");
    assert_false(late.on_loop);
    assert_false(host_do(&host, SIMBA_OP_RELEASE, "other", "b", late.revision).on_loop);
    listen_to(&host, "m", "a", false);
    assert_true(host_close(&host));
}

static void one_of_two_contenders_does_not_keep_the_other_waiting(void **state)
{
    struct file *file = *state;
    struct call held;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    listen_to(&host, "m", "a", true);
    listen_to(&host, "other", "b", true);
    held = acquire(&host, "m", "a");
    assert_false(held.on_loop);
    assert_string_equal(held.owner, "a");
    assert_false(host_do(&host, SIMBA_OP_RELEASE, "m", "a", held.revision).on_loop);
    listen_to(&host, "other", "b", false);
    assert_true(test_wait(acquires_on_loop, &host));
    listen_to(&host, "m", "a", false);
    assert_true(host_close(&host));
}

/* Nobody else waits for it: its contender is the only one, or a part of a semaphore. */
static void what_delays_no_other_is_answered_at_once(void **state)
{
    struct file *file = *state;
    struct call call;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    listen_to(&host, "m", "a", true);
    listen_to(&host, "other", "a", true);
    call = acquire_alone(&host, "other", "a");
    assert_string_equal(call.owner, "a");
    assert_true(call.on_loop);
    listen_to(&host, "m", "a", false);
    listen_to(&host, "other", "a", false);
    assert_true(host_close(&host));
}

/* The id may be that of the host. */
static void one_that_has_the_same_id_is_not_kept_waiting(void **state)
{
    struct file *file = *state;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    listen_to(&host, "m", "a", true);
    listen_to(&host, "other", "a", true);
    assert_false(acquire(&host, "other", "a").on_loop);
    listen_to(&host, "m", "a", false);
    listen_to(&host, "other", "a", false);
    assert_true(host_close(&host));
}

static void one_of_two_observers_does_not_keep_the_other_waiting(void **state)
{
    struct file *file = *state;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    listen_to(&host, "m", NULL, true);
    listen_to(&host, "other", NULL, true);
    assert_false(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).on_loop);
    listen_to(&host, "m", NULL, false);
    listen_to(&host, "other", NULL, false);
    assert_true(host_close(&host));
}

/* ---- A slow disk ----------------------------------------------------------------------------- */

static atomic_bool is_slow;

static int take_time(unsigned event, void *user, void *statement, void *text)
{
    const struct timespec pause = {0, 60 * 1000000L};

    (void)event;
    (void)user;
    (void)statement;
    (void)text;
    if (atomic_load(&is_slow))
        nanosleep(&pause, NULL);
    return 0;
}

/* SQLite calls this for every connection of the process. */
static int slow_down(sqlite3 *db, const char **error, const void *api)
{
    (void)error;
    (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, take_time, NULL);
}

#define TIMES_AS_LONG 100

/* One that was slow is one too many: those that follow are left to the thread, and after a while
 * the loop has another try. On a busy machine the slow one takes several times as long as it
 * should. */
static void a_slow_statement_keeps_the_next_ones_from_the_loop(void **state)
{
    struct file *file = *state;
    struct call call;
    struct host host;
    int64_t took_ms;

    assert_string_equal(ask_first(file, SIMBA_OP_ACQUIRE, 0).owner, "a");
    assert_int_equal(sqlite3_auto_extension((void (*)(void))slow_down), SQLITE_OK);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    atomic_store(&is_slow, true);
    took_ms = -test_now_ms();
    assert_true(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).on_loop);
    took_ms += test_now_ms();
    call = host_do(&host, SIMBA_OP_READ, "m", NULL, 0);
    assert_false(call.on_loop);
    assert_int_equal(call.code, SIMBA_OK);
    atomic_store(&is_slow, false);
    assert_true(test_wait_within(took_ms * TIMES_AS_LONG + TEST_PATIENCE_MS, reads_on_loop, &host));
    assert_true(host_close(&host));
    sqlite3_cancel_auto_extension((void (*)(void))slow_down);
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILE(a_lone_request_is_answered_at_once),
        ON_FILE(a_lone_request_that_meets_a_lock_does_not_hold_up_the_loop),
        ON_FILE(a_close_answers_a_lone_request_that_met_a_lock),
        ON_FILE(the_log_moves_into_the_file_on_the_way),
        ON_FILE(clients_that_commit_once_keep_the_log_short),
        ON_FILE(the_only_contender_is_answered_at_once),
        ON_FILE(a_renewal_is_left_to_the_thread),
        ON_FILE(a_read_does_not_keep_the_only_contender_waiting),
        ON_FILE(one_that_has_stopped_does_not_keep_the_only_contender_waiting),
        ON_FILE(one_of_two_contenders_does_not_keep_the_other_waiting),
        ON_FILE(what_delays_no_other_is_answered_at_once),
        ON_FILE(one_that_has_the_same_id_is_not_kept_waiting),
        ON_FILE(one_of_two_observers_does_not_keep_the_other_waiting),
        ON_FILE(a_slow_statement_keeps_the_next_ones_from_the_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
