/*
 * repository_test.c - the repository as public API, on a server and on SQLite.
 */
#include "server.h"

#include <simba/backend.h>
#include <simba/sql.h>

#include <pthread.h>

#define TTL 20000
#define TRANSITION 10000

static char url[TEST_PATH_MAX + 64];
static simba_repository *repository;
static struct simba_error error;

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != SIMBA_OK)                                                                    \
            fail_msg("%s: %s", #call, error.text);                                                 \
    } while (0)

static int open_repository(void **state)
{
    return simba_repository_open(url, &repository, &error);
}

static int close_repository(void **state)
{
    simba_repository_close(repository);
    return 0;
}

/* ---- One thread ------------------------------------------------------------------------------ */

static void init_adds_a_free_row_and_reports_one_that_is_there(void **state)
{
    struct simba_record record;

    assert_ok(simba_repository_init_mutex(repository, "init", &error));
    assert_ok(simba_repository_get_owner(repository, "init", &record, &error));
    assert_string_equal(record.mutex, "init");
    assert_string_equal(record.owner_id, "");
    assert_int_equal(record.acquired_at_ms, 0);
    assert_int_equal(record.transition_at_ms, 0);
    assert_true(record.current_db_at_ms > 0);
    assert_int_equal(simba_repository_init_mutex(repository, "init", &error), SIMBA_EEXISTS);
    assert_int_equal(error.code, SIMBA_EEXISTS);
}

static void try_init_leaves_what_is_there_alone(void **state)
{
    struct simba_record record;
    bool created = false;
    bool acquired = false;

    assert_ok(simba_repository_try_init_mutex(repository, "try", &created, &error));
    assert_true(created);
    assert_ok(simba_repository_acquire(repository, "try", "a", TTL, TRANSITION, &acquired, &error));
    assert_true(acquired);
    assert_ok(simba_repository_try_init_mutex(repository, "try", &created, &error));
    assert_false(created);
    assert_ok(simba_repository_get_owner(repository, "try", &record, &error));
    assert_string_equal(record.owner_id, "a");
}

static void what_is_missing_is_said_and_results_stay_untouched(void **state)
{
    struct simba_record record = {.version = 77};
    bool result = true;

    assert_int_equal(simba_repository_get_owner(repository, "none", &record, &error),
                     SIMBA_ENOTFOUND);
    assert_non_null(strstr(error.text, "none"));
    assert_int_equal(simba_repository_release(repository, "none", "a", &result, &error),
                     SIMBA_ENOTFOUND);
    assert_int_equal(record.version, 77);
    assert_true(result);
    assert_ok(simba_repository_acquire(repository, "none", "a", TTL, TRANSITION, &result, &error));
    assert_false(result);
}

static void acquire_and_get_owner_adds_renews_and_tells(void **state)
{
    struct simba_record first;
    struct simba_record second;
    bool acquired = false;

    assert_ok(simba_repository_acquire_and_get_owner(repository, "get", "a", TTL, TRANSITION,
                                                     &acquired, &first, &error));
    assert_true(acquired);
    assert_string_equal(first.owner_id, "a");
    assert_in_range(first.current_db_at_ms - first.acquired_at_ms, 0, 5000);
    assert_in_range(first.ttl_at_ms - first.acquired_at_ms, TTL, TTL + 5);
    assert_in_range(first.transition_at_ms - first.ttl_at_ms, TRANSITION, TRANSITION + 5);
    assert_ok(simba_repository_acquire_and_get_owner(repository, "get", "b", TTL, TRANSITION,
                                                     &acquired, &second, &error));
    assert_false(acquired);
    assert_string_equal(second.owner_id, "a");
    assert_true(second.version == first.version);
    assert_ok(simba_repository_acquire_and_get_owner(repository, "get", "a", TTL, TRANSITION,
                                                     &acquired, &second, &error));
    assert_true(acquired);
    assert_true(second.version == first.version + 1);
}

static void release_gives_back_what_the_id_owns(void **state)
{
    struct simba_record record;
    bool result = false;

    assert_ok(simba_repository_acquire_and_get_owner(repository, "rel", "a", TTL, TRANSITION,
                                                     &result, &record, &error));
    assert_ok(simba_repository_release(repository, "rel", "b", &result, &error));
    assert_false(result);
    assert_ok(simba_repository_release(repository, "rel", "a", &result, &error));
    assert_true(result);
    assert_ok(simba_repository_ensure_owner(repository, "rel", &record, &error));
    assert_string_equal(record.owner_id, "");
    assert_int_equal(record.ttl_at_ms, 0);
}

static void the_table_is_created_once(void **state)
{
    bool created = true;

    assert_ok(simba_repository_init_schema(repository, &created, &error));
    assert_false(created);
}

static void bad_input_is_refused(void **state)
{
    struct simba_record record;
    bool result;

    assert_int_equal(simba_repository_get_owner(repository, " ", &record, &error), SIMBA_EINVAL);
    assert_int_equal(
        simba_repository_acquire(repository, "m", "a@@b", TTL, TRANSITION, &result, &error),
        SIMBA_EINVAL);
    assert_int_equal(simba_repository_acquire(repository, "m", "a", 0, TRANSITION, &result, &error),
                     SIMBA_EINVAL);
    assert_int_equal(
        simba_repository_acquire(repository, "m", NULL, TTL, TRANSITION, &result, &error),
        SIMBA_EINVAL);
    assert_int_equal(simba_repository_release(repository, "m", NULL, &result, &error),
                     SIMBA_EINVAL);
    assert_int_equal(simba_repository_init_mutex(repository, NULL, &error), SIMBA_EINVAL);
}

/* ---- Many threads ---------------------------------------------------------------------------- */

#define THREADS 8
#define ROUNDS 10

struct rival {
    pthread_t thread;
    int number;
    int wins;
    int failures;
};

/* All come to a mutex that is not there yet, each on a connection of its own. */
static void *compete(void *argument)
{
    struct rival *rival = argument;
    simba_repository *own = NULL;
    struct simba_record record;
    char mutex[32];
    char id[32];

    snprintf(id, sizeof id, "rival-%d", rival->number);
    if (simba_repository_open(url, &own, NULL) != SIMBA_OK)
        rival->failures++;
    for (int round = 0; round < ROUNDS && own != NULL; round++) {
        bool acquired = false;

        snprintf(mutex, sizeof mutex, "ensure-%d", round);
        if (simba_repository_ensure_owner(own, mutex, &record, NULL) != SIMBA_OK)
            rival->failures++;
        snprintf(mutex, sizeof mutex, "race-%d", round);
        if (simba_repository_acquire_and_get_owner(own, mutex, id, TTL, TRANSITION, &acquired,
                                                   &record, NULL) != SIMBA_OK ||
            acquired != (strcmp(record.owner_id, id) == 0))
            rival->failures++;
        rival->wins += acquired;
    }
    simba_repository_close(own);
    return NULL;
}

static void who_comes_at_the_same_moment_does_no_harm(void **state)
{
    struct rival rivals[THREADS] = {{0}};
    int wins = 0;

    for (int i = 0; i < THREADS; i++) {
        rivals[i].number = i;
        pthread_create(&rivals[i].thread, NULL, compete, &rivals[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(rivals[i].thread, NULL);
        assert_int_equal(rivals[i].failures, 0);
        wins += rivals[i].wins;
    }
    assert_int_equal(wins, ROUNDS);
}

/* ---- Where ----------------------------------------------------------------------------------- */

static void another_store_is_not_supported(void **state)
{
    simba_repository *none = NULL;

    assert_int_equal(simba_repository_open("memory:x", &none, &error), SIMBA_EUNSUPPORTED);
    assert_null(none);
    simba_repository_close(none);
}

static int use_server(void **state)
{
    server_setup(state);
    snprintf(url, sizeof url, "%s?ttl=5s", server.url);
    return 0;
}

static char folder[TEST_PATH_MAX];

static int use_file(void **state)
{
    test_folder_create(folder);
    snprintf(url, sizeof url, "sqlite:%s/db", folder);
    return 0;
}

static int remove_file(void **state)
{
    test_folder_remove(folder);
    return 0;
}

/* The handle that comes first has to create it. */
static void a_missing_table_is_created_and_that_is_told(void **state)
{
    bool created = false;

    open_repository(state);
    assert_ok(simba_repository_init_schema(repository, &created, &error));
    assert_true(created);
    close_repository(state);
}

#define ON_TABLE(test) cmocka_unit_test_setup_teardown(test, open_repository, close_repository)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_table_is_created_and_that_is_told),
        ON_TABLE(the_table_is_created_once),
        ON_TABLE(init_adds_a_free_row_and_reports_one_that_is_there),
        ON_TABLE(try_init_leaves_what_is_there_alone),
        ON_TABLE(what_is_missing_is_said_and_results_stay_untouched),
        ON_TABLE(acquire_and_get_owner_adds_renews_and_tells),
        ON_TABLE(release_gives_back_what_the_id_owns),
        ON_TABLE(bad_input_is_refused),
        cmocka_unit_test(who_comes_at_the_same_moment_does_no_harm),
        cmocka_unit_test(another_store_is_not_supported),
    };
    int failed = 0;

    if (!server_is_installed())
        return 77;
    if (simba_backend_find("sqlite") != NULL)
        failed = cmocka_run_group_tests_name("file", tests, use_file, remove_file);
    return failed + cmocka_run_group_tests_name("server", tests, use_server, server_teardown);
}
