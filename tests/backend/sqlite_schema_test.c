/*
 * sqlite_schema_test.c - what the tables of an SQLite file keep over boots, containers, deletions
 * and versions of the library.
 */
#include "file.h"
#include "host.h"

#include <sched.h>
#include <sys/mount.h>

#define CANNOT_TRY 77 /* a child could not set up what it needs */
#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define LEAP (1 << 20)
#define SECOND_BOOT "7b0c3a52-7b59-4d38-a1a9-0f64d8c3a001"
#define MOVE_AHEAD                                                                                 \
    "UPDATE simba_mutex SET acquired_at = acquired_at + 86400000, ttl_at = ttl_at + 86400000,"     \
    " transition_at = transition_at + 86400000;"

/* Acquires, so that something can be done to the file while nobody has it open. */
static void acquire_and_close(struct file *file, struct call *ret_held)
{
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    *ret_held = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_string_equal(ret_held->owner, "a");
    assert_true(host_close(&host));
    assert_true(file_forget_lives(file));
}

static int64_t floor_of(const struct file *file)
{
    return file_number(file, "SELECT value FROM simba_meta WHERE name = 'version_floor'");
}

/* ---- Boots ----------------------------------------------------------------------------------- */

static void a_new_boot_voids_what_the_clock_refutes_and_moves_tokens_ahead(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call held;
    struct call call;

    acquire_and_close(file, &held);
    assert_true(file_sql(file, "DELETE FROM simba_meta WHERE name GLOB 'boot*';"
                               "INSERT INTO simba_meta VALUES ('boot:another', 1);" MOVE_AHEAD));
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).owner, "");
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "m", "a", held.revision).owner, "");
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.revision > held.revision + LEAP);
    assert_int_equal(call.fence, call.revision);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "new", "b", 0);
    assert_true(call.revision > LEAP);
    assert_true(host_close(&host));
}

static void without_any_boot_id_the_clock_decides_as_well(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call held;
    struct call call;

    acquire_and_close(file, &held);
    assert_true(file_sql(file, "DELETE FROM simba_meta WHERE name GLOB 'boot*'"));
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).owner, "a");
    assert_true(host_close(&host));
    assert_true(file_sql(file, "DELETE FROM simba_meta WHERE name GLOB 'boot*';" MOVE_AHEAD));
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.revision > held.revision + LEAP);
    assert_true(host_close(&host));
}

static void a_new_file_begins_with_small_tokens(void **state)
{
    struct call held;

    acquire_and_close(*state, &held);
    assert_int_equal(held.revision, 1);
}

static void boots_of_long_ago_are_forgotten(void **state)
{
    struct file *file = *state;
    struct call held;

    acquire_and_close(file, &held);
    assert_true(file_sql(file, "DELETE FROM simba_meta WHERE name GLOB 'boot*';"
                               "WITH RECURSIVE old(n) AS (VALUES (1) UNION ALL"
                               " SELECT n + 1 FROM old WHERE n < 100)"
                               "INSERT INTO simba_meta SELECT 'boot:' || n, n FROM old"));
    acquire_and_close(file, &held);
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_meta WHERE name GLOB 'boot:*'"),
                     64);
    assert_int_equal(file_number(file, "SELECT max(value) FROM simba_meta"
                                       " WHERE name GLOB 'boot:*'"),
                     101);
}

/* ---- Containers: another boot id on the same kernel ------------------------------------------ */

/* Shows this process, as a container would, another boot id. */
static bool enter_container(const struct file *file)
{
    char path[TEST_PATH_MAX + 16];
    FILE *id;

    snprintf(path, sizeof path, "%s/boot_id", file->folder);
    id = fopen(path, "we");
    if (id == NULL || fputs(SECOND_BOOT "\n", id) < 0 || fclose(id) != 0)
        return false;
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount(path, BOOT_ID_FILE, NULL, MS_BIND, NULL) == 0;
}

/* Finds the lease of the other side alive. */
static int use_in_container(struct file *file)
{
    struct host host;
    struct call call;

    if (!enter_container(file))
        return CANNOT_TRY;
    if (host_open(&host, file->url) != SIMBA_OK)
        return 1;
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0);
    if (strcmp(call.owner, "a") != 0)
        return 2;
    return host_close(&host) ? 0 : 3;
}

static void run_in_container(struct file *file)
{
    int result = file_wait(file_fork(use_in_container, file, false));

    if (result == CANNOT_TRY)
        skip();
    assert_int_equal(result, 0);
}

static void a_container_on_the_same_kernel_leaves_the_lease_to_its_owner(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call held;
    struct call call;

    acquire_and_close(file, &held);
    run_in_container(file);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "c", 0).owner, "a");
    /* The owner can still give back the term that it knows. */
    call = host_do(&host, SIMBA_OP_RELEASE, "m", "a", held.revision);
    assert_int_equal(call.code, SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "c", 0);
    assert_string_equal(call.owner, "c");
    assert_true(call.revision > held.revision + LEAP);
    assert_true(host_close(&host));
}

static void host_and_container_in_turn_leap_only_once_each(void **state)
{
    struct file *file = *state;
    struct call held;
    int64_t floor;

    acquire_and_close(file, &held);
    run_in_container(file);
    floor = floor_of(file);
    assert_true(floor >= LEAP);
    for (int i = 0; i < 3; i++) {
        acquire_and_close(file, &held);
        run_in_container(file);
    }
    assert_int_equal(floor_of(file), floor);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

struct loss {
    const char *name;
    const char *sql;
};

static void tokens_grow_over_whatever_is_deleted(void **state)
{
    static const struct loss losses[] = {
        {"a row", "DELETE FROM simba_mutex WHERE mutex = 'm'"},
        {"all rows", "DELETE FROM simba_mutex"},
        {"the table", "DROP TABLE simba_mutex"},
        {"the other table", "DROP TABLE simba_meta"},
        {"both tables", "DROP TABLE simba_mutex; DROP TABLE IF EXISTS simba_meta"},
    };
    struct file *file = *state;
    struct host host;
    uint64_t last = 0;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    for (size_t i = 0; i < TEST_COUNT(losses); i++) {
        struct call call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);

        if (call.code != SIMBA_OK || call.revision <= last)
            fail_msg("before %s: code %d: %s", losses[i].name, call.code, call.error.text);
        last = call.revision;
        assert_true(file_sql(file, losses[i].sql));
        call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0);
        if (call.code != SIMBA_OK || (call.revision <= last && call.owner[0] == 'b'))
            fail_msg("after %s: code %d, revision %llu after %llu: %s", losses[i].name, call.code,
                     (unsigned long long)call.revision, (unsigned long long)last, call.error.text);
        last = call.revision;
        host_do(&host, SIMBA_OP_RELEASE, "m", call.owner, call.revision);
    }
    assert_true(host_close(&host));
}

/* ---- Versions of the schema ------------------------------------------------------------------ */

/* As the tables were before they had a version, with an owner. */
static const char first_tables[] =
    "CREATE TABLE simba_mutex (mutex VARCHAR(66) NOT NULL PRIMARY KEY, acquired_at INTEGER NOT "
    "NULL,"
    " ttl_at INTEGER NOT NULL, transition_at INTEGER NOT NULL, owner_id VARCHAR(128) NOT NULL,"
    " version INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE simba_meta (name TEXT NOT NULL PRIMARY KEY, value NOT NULL) WITHOUT ROWID;"
    "INSERT INTO simba_meta VALUES ('version_floor', 5), ('boot_id', 'of another boot');"
    "INSERT INTO simba_mutex VALUES ('m', 1, 9000000000000000, 9000000000000000, 'a', 7);";

static void create_empty(const struct file *file)
{
    FILE *empty = fopen(file->path, "we");

    assert_non_null(empty);
    assert_int_equal(fclose(empty), 0);
}

static void tables_of_the_first_kind_are_brought_up_to_date(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call call;

    create_empty(file);
    assert_true(file_sql(file, first_tables));
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0).owner, "a");
    call = host_do(&host, SIMBA_OP_RELEASE, "m", "a", 7);
    assert_int_equal(call.code, SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0);
    assert_string_equal(call.owner, "b");
    assert_true(call.fence > 7);
    assert_true(host_close(&host));
    assert_int_equal(
        file_number(file, "SELECT value FROM simba_meta WHERE name = 'schema_version'"), 2);
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_meta WHERE name = 'boot_id'"),
                     0);
}

/* The store's time in the client's, which may differ by a millisecond each time. */
#define ROUNDING_MS 5

static int64_t listed_since(struct host *host)
{
    return host_do(host, SIMBA_OP_LIST, NULL, NULL, 0).list[0].since_ms;
}

static bool is_later(void *time_ms)
{
    return simba_now_ms() > *(int64_t *)time_ms + 4 * ROUNDING_MS;
}

/* The file tells since when an owner owns: through renewals, and not of a term that an older
 * version of the library has begun. */
static void the_beginning_of_a_term_is_kept(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call held;
    int64_t since_ms;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    since_ms = listed_since(&host);
    assert_in_range(simba_now_ms() - since_ms + ROUNDING_MS, 0, 60000);
    assert_true(test_wait(is_later, &since_ms));
    held = host_do(&host, SIMBA_OP_GUARD, "m", "a", held.revision);
    assert_string_equal(held.owner, "a");
    assert_in_range(listed_since(&host) - since_ms + ROUNDING_MS, 0, 2 * ROUNDING_MS);
    assert_true(file_sql(file, "UPDATE simba_mutex SET version = version + 1, fence = version + 1,"
                               " owner_id = 'older'"));
    assert_int_equal(listed_since(&host), 0);
    assert_true(host_close(&host));
}

/* A file with a queue, of before terms had a beginning. */
static void a_file_without_that_is_brought_up_to_date(void **state)
{
    struct file *file = *state;
    struct call held;

    acquire_and_close(file, &held);
    assert_true(file_sql(file, "ALTER TABLE simba_mutex DROP COLUMN since;"
                               "ALTER TABLE simba_mutex DROP COLUMN since_fence"));
    acquire_and_close(file, &held);
}

static void tables_of_a_newer_kind_are_refused_and_left_alone(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call held;

    acquire_and_close(file, &held);
    assert_true(file_sql(file, "UPDATE simba_meta SET value = 3 WHERE name = 'schema_version';"
                               "DROP TRIGGER simba_mutex_deleted"));
    assert_int_equal(host_open(&host, file->url), SIMBA_ESTORE);
    assert_non_null(strstr(host.open_error.text, "version 3"));
    assert_int_equal(file_number(file, "SELECT count(*) FROM sqlite_master"
                                       " WHERE name = 'simba_mutex_deleted'"),
                     0);
    assert_int_equal(
        file_number(file, "SELECT value FROM simba_meta WHERE name = 'schema_version'"), 3);
}

static void the_version_that_an_application_gave_its_file_stays(void **state)
{
    struct file *file = *state;
    struct call held;

    create_empty(file);
    assert_true(file_sql(file, "CREATE TABLE theirs (x); PRAGMA user_version = 17"));
    acquire_and_close(file, &held);
    assert_int_equal(file_number(file, "PRAGMA user_version"), 17);
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILE(a_new_boot_voids_what_the_clock_refutes_and_moves_tokens_ahead),
        ON_FILE(without_any_boot_id_the_clock_decides_as_well),
        ON_FILE(a_new_file_begins_with_small_tokens),
        ON_FILE(boots_of_long_ago_are_forgotten),
        ON_FILE(a_container_on_the_same_kernel_leaves_the_lease_to_its_owner),
        ON_FILE(host_and_container_in_turn_leap_only_once_each),
        ON_FILE(tokens_grow_over_whatever_is_deleted),
        ON_FILE(tables_of_the_first_kind_are_brought_up_to_date),
        ON_FILE(the_beginning_of_a_term_is_kept),
        ON_FILE(a_file_without_that_is_brought_up_to_date),
        ON_FILE(tables_of_a_newer_kind_are_refused_and_left_alone),
        ON_FILE(the_version_that_an_application_gave_its_file_stays),
    };

    return cmocka_run_group_tests_name("sqlite_schema", tests, NULL, NULL);
}
