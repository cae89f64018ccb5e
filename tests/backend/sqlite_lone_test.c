/*
 * sqlite_lone_test.c - a request that comes alone is carried out on the loop, unless that would have to wait: for
 * a lock, for the disk, or for what has just been slow.
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

static bool is_answered(struct host *host, const struct call *call)
{
    bool answered;

    pthread_mutex_lock(&host->lock);
    answered = call->answered;
    pthread_mutex_unlock(&host->lock);
    return answered;
}

/* ---- On the loop ---------------------------------------------------------------------------- */

/* A request that comes alone is carried out on the thread that submits it. */
static void a_lone_request_is_answered_at_once(void **state)
{
    struct file *file = *state;
    struct call call = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host_submit(&host, &call, 1);
    assert_true(is_answered(&host, &call));
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
    assert_false(is_answered(&host, &call));
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

/* With synchronous=full every commit waits for the disk. */
static void a_commit_that_waits_for_the_disk_is_not_for_the_loop(void **state)
{
    struct file *file = *state;
    struct call call = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
    struct host host;
    char url[sizeof file->url + 32];

    snprintf(url, sizeof url, "%s?synchronous=full", file->url);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    host_submit(&host, &call, 1);
    assert_true(host_wait(&host, &call, 1));
    assert_string_equal(call.owner, "a");
    assert_false(call.on_loop);
    assert_true(host_close(&host));
}

#define CYCLES 1200
#define LOG_MAX_BYTES (1100 * 4120L) /* a little more than the frames after which it is moved */

/* Nor is the moving of the log, which waits for the disk: one in hundreds of requests goes elsewhere for it. */
static void the_log_moves_into_the_file_behind_the_loop(void **state)
{
    struct file *file = *state;
    struct stat log;
    struct host host;
    char path[sizeof file->path + 8];
    int elsewhere = 0;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    for (int i = 0; i < CYCLES; i++) {
        struct call held = acquire(&host, "m", "a");
        struct call released = host_do(&host, SIMBA_OP_RELEASE, "m", "a", held.revision);

        elsewhere += !held.on_loop + !released.on_loop;
    }
    snprintf(path, sizeof path, "%s-wal", file->path);
    assert_int_equal(stat(path, &log), 0);
    assert_true(log.st_size < LOG_MAX_BYTES);
    assert_in_range(elsewhere, 2, CYCLES / 10);
    assert_true(host_close(&host));
}

/* ---- A slow disk ---------------------------------------------------------------------------- */

static atomic_bool is_slow;

static int take_time(unsigned event, void *user, void *statement, void *text)
{
    const struct timespec pause = {0, 100 * 1000000L};

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

static bool reads_on_loop(void *user)
{
    return host_do(user, SIMBA_OP_READ, "m", NULL, 0).on_loop;
}

/* One that was slow is one too many: those that follow are left to the thread, and after a while the loop has
 * another try. */
static void a_slow_statement_keeps_the_next_ones_from_the_loop(void **state)
{
    struct file *file = *state;
    struct call call;
    struct host host;

    assert_int_equal(sqlite3_auto_extension((void (*)(void))slow_down), SQLITE_OK);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_true(acquire(&host, "m", "a").on_loop);
    atomic_store(&is_slow, true);
    assert_true(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).on_loop);
    call = host_do(&host, SIMBA_OP_READ, "m", NULL, 0);
    assert_false(call.on_loop);
    assert_string_equal(call.owner, "a");
    atomic_store(&is_slow, false);
    assert_true(test_wait(reads_on_loop, &host));
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
        ON_FILE(a_commit_that_waits_for_the_disk_is_not_for_the_loop),
        ON_FILE(the_log_moves_into_the_file_behind_the_loop),
        ON_FILE(a_slow_statement_keeps_the_next_ones_from_the_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
