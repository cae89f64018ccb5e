/*
 * repository_test.c - the SQL repository on the SQLite driver: each call, and transactions.
 */
#include "file.h"
#include "host.h"

#include "backend/sql/repository.h"
#include "backend/sqlite/connection.h"

/* ---- A repository on a file ------------------------------------------------------------------ */

struct store {
    struct file file;
    char log_path[TEST_PATH_MAX + 32];
    char index_path[TEST_PATH_MAX + 32];
    char wake_path[TEST_PATH_MAX + 32];
    struct sb_sqlite_settings settings;
    struct sb_sql_repository repository;
    struct sb_sql_failure failure;
};

static int open_store(void **state)
{
    struct store *store = calloc(1, sizeof *store);

    file_create(&store->file);
    snprintf(store->log_path, sizeof store->log_path, "%s-wal", store->file.path);
    snprintf(store->index_path, sizeof store->index_path, "%s-shm", store->file.path);
    snprintf(store->wake_path, sizeof store->wake_path, "%s-wake", store->file.path);
    store->settings.path = store->file.path;
    store->settings.folder_path = store->file.folder;
    store->settings.log_path = store->log_path;
    store->settings.index_path = store->index_path;
    store->settings.wake_path = store->wake_path;
    store->settings.may_create = true;
    *state = store;
    if (sb_sqlite_read_boot_id(store->settings.boot_id) != 0)
        return -1;
    return sb_sqlite_driver.connect(&store->settings, 1000, &store->repository.connection,
                                    &store->failure);
}

static int close_store(void **state)
{
    struct store *store = *state;

    sb_sqlite_driver.disconnect(store->repository.connection);
    file_remove(&store->file);
    free(store);
    return 0;
}

static struct sb_sql_claim claim_of(const char *id)
{
    struct sb_sql_claim claim = {
        .mutex = "m", .id = id, .ttl_ms = HOST_TTL_MS, .transition_ms = HOST_TRANSITION_MS};

    return claim;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void init_adds_a_free_mutex_and_refuses_a_second(void **state)
{
    struct store *store = *state;
    struct sb_sql_repository *r = &store->repository;
    struct sb_sql_record record;

    assert_int_equal(sb_sql_repository_init_mutex(r, "m", &store->failure), SIMBA_OK);
    assert_int_equal(sb_sql_repository_get_owner(r, "m", &record, &store->failure), SIMBA_OK);
    assert_string_equal(record.mutex, "m");
    assert_string_equal(record.owner_id, "");
    assert_int_equal(record.acquired_at_ms, 0);
    assert_int_equal(record.transition_at_ms, 0);
    assert_true(record.current_db_at_ms > 0);
    assert_int_equal(sb_sql_repository_init_mutex(r, "m", &store->failure), SIMBA_EEXISTS);
    assert_int_equal(store->failure.error.code, SIMBA_EEXISTS);
    assert_null(strstr(store->failure.error.text, "UNIQUE"));
}

static void try_init_leaves_an_owned_mutex_alone(void **state)
{
    struct store *store = *state;
    struct sb_sql_repository *r = &store->repository;
    struct sb_sql_claim claim = claim_of("a");
    struct sb_sql_record record;
    bool created = false;
    bool acquired = false;

    assert_int_equal(sb_sql_repository_try_init_mutex(r, "m", &created, &store->failure), SIMBA_OK);
    assert_true(created);
    assert_int_equal(sb_sql_repository_acquire(r, &claim, &acquired, &store->failure), SIMBA_OK);
    assert_true(acquired);
    assert_int_equal(sb_sql_repository_try_init_mutex(r, "m", &created, &store->failure), SIMBA_OK);
    assert_false(created);
    assert_int_equal(sb_sql_repository_get_owner(r, "m", &record, &store->failure), SIMBA_OK);
    assert_string_equal(record.owner_id, "a");
}

static void what_is_missing_is_not_found_and_results_stay_untouched(void **state)
{
    struct store *store = *state;
    struct sb_sql_repository *r = &store->repository;
    struct sb_sql_claim claim = claim_of("a");
    struct sb_sql_record record = {.version = 77};
    bool result = true;

    assert_int_equal(sb_sql_repository_get_owner(r, "m", &record, &store->failure),
                     SIMBA_ENOTFOUND);
    assert_int_equal(sb_sql_repository_guard(r, &claim, &result, &record, &store->failure),
                     SIMBA_ENOTFOUND);
    assert_int_equal(sb_sql_repository_release(r, "m", "a", 1, &result, &record, &store->failure),
                     SIMBA_ENOTFOUND);
    assert_int_equal(record.version, 77);
    assert_true(result);
    assert_int_equal(sb_sql_repository_acquire(r, &claim, &result, &store->failure), SIMBA_OK);
    assert_false(result);
}

static void acquire_and_get_owner_adds_what_is_missing(void **state)
{
    struct store *store = *state;
    struct sb_sql_repository *r = &store->repository;
    struct sb_sql_claim mine = claim_of("a");
    struct sb_sql_claim others = claim_of("b");
    struct sb_sql_record first;
    struct sb_sql_record second;
    bool acquired = false;

    assert_int_equal(
        sb_sql_repository_acquire_and_get_owner(r, &mine, &acquired, &first, &store->failure),
        SIMBA_OK);
    assert_true(acquired);
    assert_string_equal(first.owner_id, "a");
    assert_int_equal(first.acquired_at_ms, first.current_db_at_ms);
    assert_int_equal(first.ttl_at_ms, first.acquired_at_ms + HOST_TTL_MS);
    assert_int_equal(first.transition_at_ms, first.ttl_at_ms + HOST_TRANSITION_MS);
    assert_int_equal(
        sb_sql_repository_acquire_and_get_owner(r, &others, &acquired, &second, &store->failure),
        SIMBA_OK);
    assert_false(acquired);
    assert_string_equal(second.owner_id, "a");
    assert_int_equal(second.version, first.version);
}

static void every_change_adds_one_to_the_version(void **state)
{
    struct store *store = *state;
    struct sb_sql_repository *r = &store->repository;
    struct sb_sql_claim claim = claim_of("a");
    struct sb_sql_record record;
    bool changed = false;
    uint64_t version;

    sb_sql_repository_acquire_and_get_owner(r, &claim, &changed, &record, &store->failure);
    version = record.version;
    sb_sql_repository_guard(r, &claim, &changed, &record, &store->failure);
    assert_true(changed);
    assert_int_equal(record.version, version + 1);
    sb_sql_repository_acquire_and_get_owner(r, &claim, &changed, &record, &store->failure);
    assert_int_equal(record.version, version + 2);
    sb_sql_repository_release(r, "m", "a", version, &changed, &record, &store->failure);
    assert_false(changed);
    assert_int_equal(record.version, version + 2);
    sb_sql_repository_release(r, "m", "a", version + 2, &changed, &record, &store->failure);
    assert_true(changed);
    assert_int_equal(record.version, version + 3);
    assert_string_equal(record.owner_id, "");
}

static void a_release_needs_the_owner(void **state)
{
    struct store *store = *state;
    struct sb_sql_repository *r = &store->repository;
    struct sb_sql_claim claim = claim_of("a");
    struct sb_sql_record record;
    bool changed = false;
    uint64_t version;

    sb_sql_repository_acquire_and_get_owner(r, &claim, &changed, &record, &store->failure);
    version = record.version;
    sb_sql_repository_release(r, "m", "b", version, &changed, &record, &store->failure);
    assert_false(changed);
    sb_sql_repository_release(r, "m", "a", version, &changed, &record, &store->failure);
    assert_true(changed);
}

/* The same id acquires right before it is released, as another thread would. */
static int run_behind_acquire(struct sb_sql_connection *connection, enum sb_sql_statement statement,
                              const struct sb_sql_values *values, const struct sb_sql_sink *sink,
                              int64_t *ret_count, struct sb_sql_failure *failure)
{
    struct sb_sql_claim claim = claim_of("a");
    const struct sb_sql_values lease = sb_sql_claim_values(&claim);

    if (statement == SB_SQL_RELEASE)
        assert_int_equal(
            sb_sqlite_driver.run(connection, SB_SQL_ACQUIRE, &lease, NULL, NULL, failure),
            SIMBA_OK);
    return sb_sqlite_driver.run(connection, statement, values, sink, ret_count, failure);
}

static void a_release_ends_only_the_lease_that_was_read(void **state)
{
    struct store *store = *state;
    struct sb_sql_repository *r = &store->repository;
    struct sb_sql_claim claim = claim_of("a");
    struct sb_sql_driver driver = sb_sqlite_driver;
    struct sb_sql_record record;
    bool changed = false;

    sb_sql_repository_acquire_and_get_owner(r, &claim, &changed, &record, &store->failure);
    driver.run = run_behind_acquire;
    r->connection->driver = &driver;
    assert_int_equal(
        sb_sql_repository_release_read(r, "m", "a", &changed, &record, &store->failure),
        SIMBA_EUNAVAILABLE);
    assert_int_equal(store->failure.remedy, SB_SQL_RETRY);
    r->connection->driver = &sb_sqlite_driver;
    assert_int_equal(sb_sql_repository_get_owner(r, "m", &record, &store->failure), SIMBA_OK);
    assert_string_equal(record.owner_id, "a");
    assert_int_equal(
        sb_sql_repository_release_read(r, "m", "b", &changed, &record, &store->failure), SIMBA_OK);
    assert_false(changed);
    assert_int_equal(
        sb_sql_repository_release_read(r, "m", "a", &changed, &record, &store->failure), SIMBA_OK);
    assert_true(changed);
    assert_string_equal(record.owner_id, "");
}

static void ensure_owner_tells_and_adds_what_is_missing(void **state)
{
    struct store *store = *state;
    struct sb_sql_record record;

    assert_int_equal(
        sb_sql_repository_ensure_owner(&store->repository, "m", &record, &store->failure),
        SIMBA_OK);
    assert_string_equal(record.owner_id, "");
    assert_int_equal(file_number(&store->file, "SELECT count(*) FROM simba_mutex"), 1);
    assert_int_equal(
        sb_sql_repository_ensure_owner(&store->repository, "m", &record, &store->failure),
        SIMBA_OK);
}

static void a_rolled_back_transaction_leaves_nothing(void **state)
{
    struct store *store = *state;
    struct sb_sql_repository *r = &store->repository;
    struct sb_sql_claim claim = claim_of("a");
    struct sb_sql_record record;
    bool acquired = false;

    assert_int_equal(sb_sql_repository_begin(r, &store->failure), SIMBA_OK);
    sb_sql_repository_acquire_and_get_owner(r, &claim, &acquired, &record, &store->failure);
    assert_true(acquired);
    sb_sql_repository_rollback(r);
    assert_int_equal(sb_sql_repository_get_owner(r, "m", &record, &store->failure),
                     SIMBA_ENOTFOUND);
    assert_int_equal(sb_sql_repository_begin(r, &store->failure), SIMBA_OK);
    sb_sql_repository_acquire_and_get_owner(r, &claim, &acquired, &record, &store->failure);
    assert_int_equal(sb_sql_repository_commit(r, &store->failure), SIMBA_OK);
    assert_int_equal(file_number(&store->file, "SELECT owner_id = 'a' FROM simba_mutex"), 1);
}

static void init_schema_is_harmless_when_all_is_there(void **state)
{
    struct store *store = *state;
    struct sb_sql_repository *r = &store->repository;
    struct sb_sql_claim claim = claim_of("a");
    struct sb_sql_record before;
    struct sb_sql_record after;
    bool acquired = false;

    sb_sql_repository_acquire_and_get_owner(r, &claim, &acquired, &before, &store->failure);
    assert_int_equal(sb_sql_repository_init_schema(r, &store->failure), SIMBA_OK);
    assert_int_equal(sb_sql_repository_get_owner(r, "m", &after, &store->failure), SIMBA_OK);
    assert_string_equal(after.owner_id, "a");
    assert_int_equal(after.version, before.version);
}

#define ON_STORE(test) cmocka_unit_test_setup_teardown(test, open_store, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STORE(init_adds_a_free_mutex_and_refuses_a_second),
        ON_STORE(try_init_leaves_an_owned_mutex_alone),
        ON_STORE(what_is_missing_is_not_found_and_results_stay_untouched),
        ON_STORE(acquire_and_get_owner_adds_what_is_missing),
        ON_STORE(every_change_adds_one_to_the_version),
        ON_STORE(a_release_needs_the_owner),
        ON_STORE(a_release_ends_only_the_lease_that_was_read),
        ON_STORE(ensure_owner_tells_and_adds_what_is_missing),
        ON_STORE(a_rolled_back_transaction_leaves_nothing),
        ON_STORE(init_schema_is_harmless_when_all_is_there),
    };

    return cmocka_run_group_tests_name("repository", tests, NULL, NULL);
}
