/*
 * sqlite_fault_test.c - what the SQLite store does when its file is locked, full, read-only,
 * damaged, deleted or replaced: a clear error, never a wrong answer, and work again when the cause
 * is gone.
 */
#include "file.h"
#include "host.h"

#include "backend/sqlite/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#define CANNOT_TRY 77 /* a child could not set up the fault */

static struct call acquire(struct host *host, const char *mutex, const char *id)
{
    return host_do(host, SIMBA_OP_ACQUIRE, mutex, id, 0);
}

/* ---- Recovery -------------------------------------------------------------------------------- */

struct recovery {
    struct host *host;
    struct call call;
};

static bool can_acquire(void *user)
{
    struct recovery *recovery = user;

    recovery->call = acquire(recovery->host, "m", "a");
    return recovery->call.code == SIMBA_OK;
}

/* The back-off may answer a few times with the old error. */
static bool recovers(struct host *host)
{
    struct recovery recovery = {.host = host};

    return test_wait(can_acquire, &recovery) && strcmp(recovery.call.owner, "a") == 0;
}

/* ---- Locked ---------------------------------------------------------------------------------- */

static void a_locked_database_is_unavailable_until_it_is_not(void **state)
{
    struct file *file = *state;
    struct call call;
    struct host host;
    sqlite3 *db;
    int64_t begin;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    call = acquire(&host, "held", "a");
    db = file_open(file);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);

    /* Reads and attempts that cannot win need no lock. */
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "held", NULL, 0).owner, "a");
    assert_string_equal(acquire(&host, "held", "b").owner, "a");

    begin = test_now_ms();
    call = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
    call.request.timeout_ms = 150;
    host_submit(&host, &call, 1);
    assert_true(host_wait(&host, &call, 1));
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(call.error.text, "locked"));
    assert_in_range(test_now_ms() - begin, 140, 5000);

    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_string_equal(acquire(&host, "m", "a").owner, "a");
    assert_true(host_close(&host));
}

/* The impatient one of the batch shows that both have met the lock. */
static void a_request_waits_for_a_lock_that_is_given_back_in_time(void **state)
{
    struct file *file = *state;
    struct call calls[2] = {host_call(SIMBA_OP_ACQUIRE, "impatient", "a", 0),
                            host_call(SIMBA_OP_ACQUIRE, "m", "a", 0)};
    struct host host;
    sqlite3 *db;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    db = file_open(file);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    calls[0].request.timeout_ms = 300;
    host_submit(&host, calls, 2);
    assert_true(host_wait(&host, calls, 1));
    assert_int_equal(calls[0].code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(calls[0].error.text, "locked"));
    assert_false(host_is_answered(&host, &calls[1]));
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_true(host_wait(&host, calls, 2));
    assert_int_equal(calls[1].code, SIMBA_OK);
    assert_string_equal(calls[1].owner, "a");
    assert_true(host_close(&host));
}

static void the_shorter_timeout_in_a_batch_does_not_end_the_longer(void **state)
{
    struct file *file = *state;
    struct call calls[2] = {host_call(SIMBA_OP_ACQUIRE, "short", "a", 0),
                            host_call(SIMBA_OP_ACQUIRE, "long", "a", 0)};
    struct host host;
    sqlite3 *db;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    db = file_open(file);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    calls[0].request.timeout_ms = 50;
    calls[1].request.timeout_ms = 4000;
    host_submit(&host, calls, 2);
    assert_true(host_wait(&host, calls, 1));
    assert_int_equal(calls[0].code, SIMBA_EUNAVAILABLE);
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_true(host_wait(&host, calls, 2));
    assert_int_equal(calls[1].code, SIMBA_OK);
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex WHERE mutex = 'short'"),
                     0);
    assert_true(host_close(&host));
}

static void a_close_answers_what_is_pending(void **state)
{
    struct file *file = *state;
    struct call calls[20];
    struct host host;
    sqlite3 *db;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    db = file_open(file);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (size_t i = 0; i < TEST_COUNT(calls); i++) {
        calls[i] = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
        calls[i].request.timeout_ms = 100;
    }
    host_submit(&host, calls, TEST_COUNT(calls));
    assert_true(host_close(&host));
    for (size_t i = 0; i < TEST_COUNT(calls); i++) {
        assert_int_equal(calls[i].answers, 1);
        assert_int_equal(calls[i].code, SIMBA_EUNAVAILABLE);
    }
    sqlite3_close(db);
}

/* ---- Deleted, replaced, dropped -------------------------------------------------------------- */

static void a_deleted_file_is_a_loss_and_is_created_again(void **state)
{
    static const char *const parts[] = {"", "-wal", "-shm", "-wake", "-life"};
    struct file *file = *state;
    struct host host;
    struct call held;
    struct call call;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = acquire(&host, "m", "a");
    for (size_t i = 0; i < TEST_COUNT(parts); i++)
        file_unlink(file, parts[i]);
    call = host_do(&host, SIMBA_OP_GUARD, "m", "a", held.revision);
    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(call.owner, "");
    call = acquire(&host, "m", "b");
    assert_string_equal(call.owner, "b");
    assert_true(call.revision > held.revision);
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex"), 1);
    assert_true(host_close(&host));
}

static void an_owner_on_a_deleted_file_loses_to_one_on_the_new(void **state)
{
    struct file *file = *state;
    struct host old_host;
    struct host new_host;
    struct call held;

    assert_int_equal(host_open(&old_host, file->url), SIMBA_OK);
    held = acquire(&old_host, "m", "a");
    file_unlink_store(file);
    assert_int_equal(host_open(&new_host, file->url), SIMBA_OK);
    assert_string_equal(acquire(&new_host, "m", "b").owner, "b");
    assert_string_equal(host_do(&old_host, SIMBA_OP_GUARD, "m", "a", held.revision).owner, "b");
    assert_string_equal(acquire(&old_host, "m", "a").owner, "b");
    assert_true(host_close(&new_host));
    assert_true(host_close(&old_host));
}

static void a_release_on_a_deleted_file_says_who_owns_on_the_new(void **state)
{
    struct file *file = *state;
    struct host old_host;
    struct host new_host;
    struct call held;

    assert_int_equal(host_open(&old_host, file->url), SIMBA_OK);
    held = acquire(&old_host, "m", "a");
    file_unlink_store(file);
    assert_int_equal(host_open(&new_host, file->url), SIMBA_OK);
    assert_string_equal(acquire(&new_host, "m", "b").owner, "b");
    assert_string_equal(host_do(&old_host, SIMBA_OP_RELEASE, "m", "a", held.revision).owner, "b");
    assert_string_equal(acquire(&old_host, "m", "a").owner, "b");
    assert_true(host_close(&new_host));
    assert_true(host_close(&old_host));
}

/* For the release alone nobody would look at the log. */
static void an_acquire_beside_a_release_is_not_believed_where_the_log_was_exchanged(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call held;
    struct call calls[2];

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = acquire(&host, "m", "a");
    file_unlink(file, "-wal");
    file_unlink(file, "-shm");
    calls[0] = host_call(SIMBA_OP_RELEASE, "m", "a", held.revision);
    calls[1] = host_call(SIMBA_OP_ACQUIRE, "n", "b", 0);
    host_submit(&host, calls, TEST_COUNT(calls));
    assert_true(host_wait(&host, calls, TEST_COUNT(calls)));
    assert_int_equal(calls[1].code, SIMBA_OK);
    assert_string_equal(calls[1].owner, "b");
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex WHERE owner_id = 'b'"), 1);
    assert_true(host_close(&host));
}

static int warnings;
static char warning[1024]; /* the last one */

static void count_warning(const struct simba_backend_host *base, enum simba_log_level level,
                          const char *format, ...)
{
    va_list arguments;

    (void)base;
    if (level != SIMBA_LOG_WARN || strstr(format, "connecting again") == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(warning, sizeof warning, format, arguments);
    va_end(arguments);
    warnings++;
}

static void every_loss_of_a_store_that_worked_is_told(void **state)
{
    struct file *file = *state;
    struct host host;

    warnings = 0;
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host.base.log = count_warning;
    for (int losses = 0; losses < 3; losses++) {
        assert_string_equal(acquire(&host, "m", "a").owner, "a");
        assert_int_equal(warnings, losses);
        file_unlink_store(file);
    }
    assert_true(host_close(&host));
}

static void a_file_deleted_without_its_log_never_has_two_owners(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call held;
    struct call call;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = acquire(&host, "m", "a");
    file_unlink(file, "");
    call = host_do(&host, SIMBA_OP_GUARD, "m", "a", held.revision);
    assert_true(call.code != SIMBA_OK || call.owner[0] == '\0');
    assert_true(recovers(&host));
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex WHERE owner_id = 'a'"), 1);
    assert_true(host_close(&host));
}

static void a_log_that_is_deleted_under_the_client_is_not_written_to(void **state)
{
    static const char *const parts[] = {"-wal", "-shm"};

    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        struct file *file = *state;
        struct host host;
        struct call held;

        assert_int_equal(host_open(&host, file->url), SIMBA_OK);
        held = acquire(&host, "m", "a");
        assert_int_equal(held.code, SIMBA_OK);
        file_unlink(file, parts[i]);
        host_do(&host, SIMBA_OP_GUARD, "m", "a", held.revision);
        assert_true(recovers(&host));
        assert_true(host_close(&host));
        assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex WHERE owner_id = 'a'"),
                         1);
    }
}

/* Nobody knows whether it was deleted or replaced. */
static void a_name_that_leads_nowhere_is_told_by_the_reason_of_the_system(void **state)
{
    struct file *file = *state;
    char moved[TEST_PATH_MAX + 8];
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host.base.log = count_warning;
    acquire(&host, "m", "a");
    snprintf(moved, sizeof moved, "%s-moved", file->folder);
    assert_int_equal(rename(file->folder, moved), 0);
    assert_int_equal(symlink(file->folder, file->folder), 0);
    assert_int_equal(acquire(&host, "m", "a").code, SIMBA_EUNKNOWN);
    acquire(&host, "m", "a"); /* for which the store is opened again, and the reason told */
    assert_non_null(strstr(warning, strerror(ELOOP)));
    assert_int_equal(unlink(file->folder), 0);
    assert_int_equal(rename(moved, file->folder), 0);
    assert_true(host_close(&host));
}

static void a_system_short_of_descriptors_is_no_store_that_is_down(void **state)
{
    struct sb_sql_failure failure;

    assert_int_equal(sb_sqlite_fail_create("/tmp/x.db", EMFILE, &failure), SIMBA_ENOMEM);
    assert_int_equal(sb_sqlite_fail_create("/tmp/x.db", EACCES, &failure), SIMBA_EDENIED);
    assert_int_equal(sb_sqlite_fail_create("/tmp/x.db", EIO, &failure), SIMBA_EUNAVAILABLE);
}

static void a_folder_that_vanishes_is_unavailable_until_it_is_back(void **state)
{
    struct file *file = *state;
    char moved[TEST_PATH_MAX + 8];
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    call = acquire(&host, "m", "a");
    snprintf(moved, sizeof moved, "%s-moved", file->folder);
    assert_int_equal(rename(file->folder, moved), 0);
    call = host_do(&host, SIMBA_OP_GUARD, "m", "a", call.revision);
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(call.error.text, "folder"));
    assert_int_equal(rename(moved, file->folder), 0);
    assert_true(recovers(&host));
    assert_true(host_close(&host));
}

static void a_dropped_table_is_created_again_for_every_operation(void **state)
{
    static const enum simba_op ops[] = {SIMBA_OP_ACQUIRE, SIMBA_OP_GUARD, SIMBA_OP_RELEASE,
                                        SIMBA_OP_READ, SIMBA_OP_LIST};
    struct file *file = *state;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    for (size_t i = 0; i < TEST_COUNT(ops); i++) {
        struct call calls[2];

        assert_true(file_sql(file, "DROP TABLE simba_mutex"));
        calls[0] = host_call(ops[i], "m", "a", 7);
        calls[1] = host_call(SIMBA_OP_ACQUIRE, "n", "b", 0);
        host_submit(&host, calls, 2);
        assert_true(host_wait(&host, calls, 2));
        assert_int_equal(calls[0].code, SIMBA_OK);
        assert_string_equal(calls[0].owner, ops[i] == SIMBA_OP_ACQUIRE ? "a" : "");
        assert_string_equal(calls[1].owner, "b");
    }
    assert_true(host_close(&host));
}

static void one_request_that_fails_does_not_fail_the_others(void **state)
{
    struct file *file = *state;
    struct call calls[5];
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_true(file_sql(file, "CREATE TRIGGER refuse BEFORE INSERT ON simba_mutex"
                               " WHEN NEW.mutex = 'bad'"
                               " BEGIN SELECT raise(ABORT, 'not this one'); END"));
    for (size_t i = 0; i < TEST_COUNT(calls); i++) {
        static const char *const names[] = {"one", "two", "bad", "four", "five"};

        calls[i] = host_call(SIMBA_OP_ACQUIRE, names[i], "a", 0);
    }
    host_submit(&host, calls, TEST_COUNT(calls));
    assert_true(host_wait(&host, calls, TEST_COUNT(calls)));
    for (size_t i = 0; i < TEST_COUNT(calls); i++) {
        assert_int_equal(calls[i].code == SIMBA_OK, i != 2);
        assert_string_equal(calls[i].owner, i != 2 ? "a" : "");
    }
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex"), 4);
    assert_true(host_close(&host));
}

/* ---- Damaged --------------------------------------------------------------------------------- */

static void fill_with_noise(const struct file *file, off_t offset, size_t size)
{
    int fd = open(file->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    for (size_t i = 0; i < size; i++)
        assert_int_equal(pwrite(fd, "\xa5", 1, offset + (off_t)i), 1);
    close(fd);
}

static void a_file_that_is_no_database_is_refused_by_its_name(void **state)
{
    struct file *file = *state;
    struct host host;

    fill_with_noise(file, 0, 5000);
    assert_int_equal(host_open(&host, file->url), SIMBA_ESTORE);
    assert_non_null(strstr(host.open_error.text, file->path));
    file_unlink(file, "");
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_true(host_close(&host));
}

static void a_damaged_file_is_an_error_that_names_it(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call call;
    int code;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    acquire(&host, "m", "a");
    assert_true(host_close(&host));
    assert_true(file_sql(file, "PRAGMA wal_checkpoint(TRUNCATE)"));
    file_unlink(file, "-wal");
    file_unlink(file, "-shm");
    fill_with_noise(file, 4096, 4096 * 6);
    code = host_open(&host, file->url);
    if (code == SIMBA_OK) {
        call = acquire(&host, "m", "b");
        assert_int_equal(call.code, SIMBA_ESTORE);
        assert_non_null(strstr(call.error.text, file->path));
        assert_true(host_close(&host));
    } else {
        assert_int_equal(code, SIMBA_ESTORE);
        assert_non_null(strstr(host.open_error.text, file->path));
    }
}

/* ---- What SQLite says about itself ----------------------------------------------------------- */

static void a_link_that_took_the_place_of_the_file_is_named(void **state)
{
    struct file *file = *state;
    char moved[TEST_PATH_MAX + 32];
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    snprintf(moved, sizeof moved, "%s.moved", file->path);
    assert_int_equal(rename(file->path, moved), 0);
    assert_int_equal(symlink(moved, file->path), 0);
    file_unlink(file, "-wal"); /* which is noticed, so that the file is opened anew */
    call = acquire(&host, "m", "a");
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(call.error.text, "link"));
    assert_null(strstr(call.error.text, "Success"));
    assert_true(host_close(&host));
}

static void a_folder_is_no_database(void **state)
{
    struct file *file = *state;
    struct host host;

    assert_int_equal(mkdir(file->path, 0700), 0);
    assert_int_not_equal(host_open(&host, file->url), SIMBA_OK);
    assert_non_null(strstr(host.open_error.text, file->path));
    assert_null(strstr(host.open_error.text, "Success"));
}

static void what_is_no_io_error_is_not_called_one(void **state)
{
    struct file *file = *state;
    struct sb_sqlite_settings settings = {.path = file->path};
    struct sb_sqlite_connection connection = {.settings = &settings};
    struct sb_sql_failure failure;
    sqlite3_stmt *statement = NULL;

    assert_int_equal(sqlite3_open(":memory:", &connection.db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(connection.db, "SELECT 1", -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_bind_int(statement, 9, 1), SQLITE_RANGE);
    assert_int_equal(sb_sqlite_fail(&connection, false, &failure), SIMBA_ESTORE);
    assert_null(strstr(failure.error.text, "I/O"));
    assert_non_null(strstr(failure.error.text, file->path));
    sqlite3_finalize(statement);
    sqlite3_close(connection.db);
}

/* ---- In processes of their own: another user, another file system, other limits -------------- */

static int try_read_only(struct file *file)
{
    struct host host;

    if (access(file->path, W_OK) == 0)
        return CANNOT_TRY;
    if (host_open(&host, file->url) != SIMBA_EDENIED)
        return 1;
    return strstr(host.open_error.text, file->path) != NULL ? 0 : 2;
}

static void run_apart(int (*function)(struct file *file), struct file *file, bool other_user)
{
    int result = file_wait(file_fork(function, file, other_user));

    if (result == CANNOT_TRY)
        skip();
    assert_int_equal(result, 0);
}

static void a_file_that_may_not_be_written_is_denied(void **state)
{
    struct file *file = *state;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    acquire(&host, "m", "a");
    assert_true(host_close(&host));
    assert_int_equal(chmod(file->folder, 0755), 0);
    assert_int_equal(chmod(file->path, 0444), 0);
    run_apart(try_read_only, file, true);
    assert_int_equal(chmod(file->path, 0600), 0);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_true(host_close(&host));
}

/* Leaves no room on the file system of the folder. */
static void fill_up(const struct file *file, const char *name)
{
    char path[TEST_PATH_MAX + 16];
    char block[4096];
    int fd;

    memset(block, 1, sizeof block);
    snprintf(path, sizeof path, "%s/%s", file->folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, block, sizeof block) > 0)
        ;
    close(fd);
}

#define RENEWALS 60 /* each is a page in the log, which has fewer */
#define NAMES 4000  /* more than the file has room for */

static bool can_renew(struct host *host, uint64_t revision)
{
    for (int i = 0; i < RENEWALS; i++)
        if (host_do(host, SIMBA_OP_GUARD, "m", "a", revision).code != SIMBA_OK)
            return false;
    return true;
}

/* The first answer that is no success. */
static struct call acquire_new_names(struct host *host)
{
    struct call call;
    char name[16];

    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "n%d", i);
        call = acquire(host, name, "a");
        if (call.code != SIMBA_OK)
            break;
    }
    return call;
}

/* Owners renew in the room that the log has. What makes the file grow is refused at last. */
static int try_full(struct file *file)
{
    char path[TEST_PATH_MAX + 16];
    struct host host;
    struct call call;
    int result = 0;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("simba", file->folder, "tmpfs", 0, "size=512k,mode=0700") != 0)
        return CANNOT_TRY;
    if (host_open(&host, file->url) != SIMBA_OK)
        return 1;
    fill_up(file, "ballast");
    call = acquire(&host, "m", "a");
    if (call.code != SIMBA_OK || !can_renew(&host, call.revision))
        result = 2;
    call = acquire_new_names(&host);
    if (call.code != SIMBA_ESTORE || strstr(call.error.text, file->path) == NULL ||
        strstr(call.error.text, "disk is full") == NULL)
        result = 3;
    snprintf(path, sizeof path, "%s/ballast", file->folder);
    unlink(path);
    if (result == 0 && !recovers(&host))
        result = 4;
    return host_close(&host) ? result : 5;
}

static void a_full_disk_lets_owners_renew_and_refuses_growth_until_there_is_room(void **state)
{
    run_apart(try_full, *state, false);
}

/* Puts an empty file over one of the database's; no name and no date of the folder changes. */
static bool mount_over(const struct file *file, const char *suffix)
{
    char target[sizeof file->path + 8];
    char source[sizeof file->path + 16];

    snprintf(target, sizeof target, "%s%s", file->path, suffix);
    snprintf(source, sizeof source, "%s-over%s", file->path, suffix);
    return mount(source, target, NULL, MS_BIND, NULL) == 0;
}

static bool create_over(const struct file *file, const char *suffix)
{
    char path[sizeof file->path + 16];
    int fd;

    snprintf(path, sizeof path, "%s-over%s", file->path, suffix);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 && close(fd) == 0;
}

static int try_mount_over(struct file *file)
{
    struct call call;
    struct host host;
    struct host other;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
        !create_over(file, "") || !create_over(file, "-wal") || !create_over(file, "-shm"))
        return CANNOT_TRY;
    if (host_open(&host, file->url) != SIMBA_OK)
        return 1;
    acquire(&host, "before", "a");
    if (!file_settle(file))
        return 2;
    host_do(&host, SIMBA_OP_READ, "before", NULL, 0);
    if (!mount_over(file, "") || !mount_over(file, "-wal") || !mount_over(file, "-shm"))
        return CANNOT_TRY;
    call = acquire(&host, "m", "a");
    if (call.code == SIMBA_OK)
        return 3;
    if (host_open(&other, file->url) != SIMBA_EDENIED)
        return 4;
    return host_close(&host) ? 0 : 5;
}

static void a_mount_over_the_file_leaves_no_owner(void **state)
{
    run_apart(try_mount_over, *state, false);
}

/* The next transaction does not fit into the log, but all other files may be as they are. */
static int try_write_error(struct file *file)
{
    char log[TEST_PATH_MAX + 32];
    struct stat status;
    struct rlimit limit;
    struct host host;
    struct call call;
    int result = 0;

    if (host_open(&host, file->url) != SIMBA_OK || getrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    for (int i = 0; i < 12; i++)
        acquire(&host, "held", "a");
    snprintf(log, sizeof log, "%s-wal", file->path);
    if (stat(log, &status) != 0)
        return CANNOT_TRY;
    limit.rlim_cur = (rlim_t)status.st_size;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return CANNOT_TRY;
    call = acquire(&host, "held", "a");
    if (call.code != SIMBA_EUNKNOWN)
        result = 2;
    if (result == 0 && strcmp(host_do(&host, SIMBA_OP_READ, "held", NULL, 0).owner, "a") != 0)
        result = 3;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    if (result == 0 && !recovers(&host))
        result = 4;
    return host_close(&host) ? result : 5;
}

static void a_write_that_fails_has_an_unknown_outcome(void **state)
{
    run_apart(try_write_error, *state, false);
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILE(a_file_that_may_not_be_written_is_denied),
        ON_FILE(a_full_disk_lets_owners_renew_and_refuses_growth_until_there_is_room),
        ON_FILE(a_write_that_fails_has_an_unknown_outcome),
        ON_FILE(a_mount_over_the_file_leaves_no_owner),
        ON_FILE(a_locked_database_is_unavailable_until_it_is_not),
        ON_FILE(a_request_waits_for_a_lock_that_is_given_back_in_time),
        ON_FILE(the_shorter_timeout_in_a_batch_does_not_end_the_longer),
        ON_FILE(a_close_answers_what_is_pending),
        ON_FILE(a_deleted_file_is_a_loss_and_is_created_again),
        ON_FILE(an_owner_on_a_deleted_file_loses_to_one_on_the_new),
        ON_FILE(a_release_on_a_deleted_file_says_who_owns_on_the_new),
        ON_FILE(a_name_that_leads_nowhere_is_told_by_the_reason_of_the_system),
        cmocka_unit_test(a_system_short_of_descriptors_is_no_store_that_is_down),
        ON_FILE(every_loss_of_a_store_that_worked_is_told),
        ON_FILE(an_acquire_beside_a_release_is_not_believed_where_the_log_was_exchanged),
        ON_FILE(a_file_deleted_without_its_log_never_has_two_owners),
        ON_FILE(a_log_that_is_deleted_under_the_client_is_not_written_to),
        ON_FILE(a_folder_that_vanishes_is_unavailable_until_it_is_back),
        ON_FILE(a_dropped_table_is_created_again_for_every_operation),
        ON_FILE(one_request_that_fails_does_not_fail_the_others),
        ON_FILE(a_file_that_is_no_database_is_refused_by_its_name),
        ON_FILE(a_damaged_file_is_an_error_that_names_it),
        ON_FILE(a_link_that_took_the_place_of_the_file_is_named),
        ON_FILE(a_folder_is_no_database),
        ON_FILE(what_is_no_io_error_is_not_called_one),
    };

    return cmocka_run_group_tests_name("sqlite_fault", tests, NULL, NULL);
}
