/*
 * handle_test.c - the repository that an application has in its hands, on SQLite: what becomes of
 * the thread that calls, and of the handle after it. The linker leads calls of getpid here
 * (--wrap).
 */
#include "file.h"

#include <simba/simba.h>
#include <simba/sql.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

static int acquire(simba_repository *repository)
{
    struct simba_record record;
    bool acquired = false;

    return simba_repository_acquire_and_get_owner(repository, "m", "a", 20000, 0, &acquired,
                                                  &record, NULL);
}

/* ---- A lease of the same owner --------------------------------------------------------------- */

static void no_call_shortens_a_lease_of_its_owner(void **state)
{
    struct file *file = *state;
    simba_repository *repository = NULL;
    struct simba_record before, after;
    bool acquired = false;

    assert_int_equal(simba_repository_open(file->url, &repository, NULL), SIMBA_OK);
    assert_int_equal(acquire(repository), SIMBA_OK);
    assert_int_equal(simba_repository_get_owner(repository, "m", &before, NULL), SIMBA_OK);
    assert_int_equal(simba_repository_acquire(repository, "m", "a", 1000, 0, &acquired, NULL),
                     SIMBA_OK);
    assert_true(acquired);
    assert_int_equal(simba_repository_get_owner(repository, "m", &after, NULL), SIMBA_OK);
    assert_int_equal(after.ttl_at_ms, before.ttl_at_ms);
    assert_int_equal(after.transition_at_ms, before.transition_at_ms);
    simba_repository_close(repository);
}

/* ---- A thread that is cancelled -------------------------------------------------------------- */

struct caller {
    simba_repository *repository;
    pthread_t thread;
    atomic_bool begun;
    atomic_bool returned;
    int code;
};

static void *call_and_end(void *argument)
{
    struct caller *caller = argument;

    atomic_store(&caller->begun, true);
    caller->code = acquire(caller->repository);
    atomic_store(&caller->returned, true);
    pthread_testcancel();
    return NULL;
}

static void start(struct caller *caller, simba_repository *repository)
{
    caller->repository = repository;
    caller->code = SIMBA_EINVAL;
    assert_int_equal(pthread_create(&caller->thread, NULL, call_and_end, caller), 0);
}

static bool is_set(void *flag)
{
    return atomic_load((atomic_bool *)flag);
}

/* The file is locked, so the cancellation comes while the call waits. */
static void a_cancelled_thread_leaves_the_handle_to_others(void **state)
{
    struct file *file = *state;
    simba_repository *repository = NULL;
    struct caller cancelled = {0};
    struct caller next = {0};
    void *result = NULL;
    sqlite3 *db;

    assert_int_equal(simba_repository_open(file->url, &repository, NULL), SIMBA_OK);
    db = file_open(file);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    start(&cancelled, repository);
    assert_true(test_wait(is_set, &cancelled.begun));
    assert_int_equal(pthread_cancel(cancelled.thread), 0);
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(pthread_join(cancelled.thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    start(&next, repository);
    assert_true(test_wait(is_set, &next.returned));
    assert_int_equal(pthread_join(next.thread, NULL), 0);
    assert_int_equal(next.code, SIMBA_OK);
    assert_true(atomic_load(&cancelled.returned));
    assert_int_equal(cancelled.code, SIMBA_OK);
    sqlite3_close(db);
    simba_repository_close(repository);
}

/* ---- A limit for files ----------------------------------------------------------------------- */

static bool limit_to_log(const struct file *file)
{
    char log[TEST_PATH_MAX + 32];
    struct stat status;
    struct rlimit limit;

    snprintf(log, sizeof log, "%s-wal", file->path);
    if (stat(log, &status) != 0 || getrlimit(RLIMIT_FSIZE, &limit) != 0)
        return false;
    limit.rlim_cur = (rlim_t)status.st_size;
    return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

static bool lift_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
        return false;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

/* The next transaction does not fit into the log, but all other files may be as they are. */
static int write_past_limit(struct file *file)
{
    simba_repository *repository = NULL;

    if (simba_repository_open(file->url, &repository, NULL) != SIMBA_OK)
        return 1;
    for (int i = 0; i < 12; i++)
        if (acquire(repository) != SIMBA_OK)
            return 2;
    if (!limit_to_log(file))
        return 3;
    if (acquire(repository) != SIMBA_EUNKNOWN)
        return 4;
    if (!lift_limit() || acquire(repository) != SIMBA_OK)
        return 5;
    simba_repository_close(repository);
    return 0;
}

static void a_write_past_the_limit_is_an_error_not_the_end(void **state)
{
    assert_int_equal(file_wait(file_fork(write_past_limit, *state, false)), 0);
}

/* ---- A forked child -------------------------------------------------------------------------- */

pid_t __wrap_getpid(void);

/* Every process is the first of its pid namespace. */
pid_t __wrap_getpid(void)
{
    return 1;
}

static simba_repository *parents;

static int use_parents_handle(struct file *file)
{
    struct simba_record record;

    (void)file;
    if (acquire(parents) != SIMBA_EFORKED)
        return 1;
    simba_repository_close(parents);
    return simba_repository_get_owner(parents, "m", &record, NULL) == SIMBA_EFORKED ? 0 : 2;
}

static void a_child_with_the_pid_of_its_parent_finds_the_handle_dead(void **state)
{
    struct file *file = *state;

    assert_int_equal(simba_repository_open(file->url, &parents, NULL), SIMBA_OK);
    assert_int_equal(acquire(parents), SIMBA_OK);
    assert_int_equal(file_wait(file_fork(use_parents_handle, file, false)), 0);
    assert_int_equal(acquire(parents), SIMBA_OK);
    simba_repository_close(parents);
}

/* ---- Misuse ---------------------------------------------------------------------------------- */

static void a_missing_url_or_result_is_misuse(void **state)
{
    simba_repository *repository = NULL;
    const char *statement = NULL;

    assert_int_equal(simba_repository_open(NULL, &repository, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_repository_open("sqlite:x.db", NULL, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_repository_schema(NULL, &statement, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_repository_schema("mysql://h/d", NULL, NULL), SIMBA_EMISUSE);
}

/* Each call without a handle, then with one and without the place for its result. */
static void a_call_without_a_handle_or_a_result_is_misuse(void **state)
{
    struct file *file = *state;
    simba_repository *h = NULL;
    struct simba_record record;
    bool is = false;

    for (int i = 0; i < 2; i++) {
        bool *result = h == NULL ? &is : NULL;
        struct simba_record *row = h == NULL ? &record : NULL;
        assert_int_equal(simba_repository_init_schema(h, result, NULL), SIMBA_EMISUSE);
        assert_int_equal(simba_repository_try_init_mutex(h, "m", result, NULL), SIMBA_EMISUSE);
        assert_int_equal(simba_repository_get_owner(h, "m", row, NULL), SIMBA_EMISUSE);
        assert_int_equal(simba_repository_ensure_owner(h, "m", row, NULL), SIMBA_EMISUSE);
        assert_int_equal(simba_repository_acquire(h, "m", "a", 1, 1, result, NULL), SIMBA_EMISUSE);
        assert_int_equal(simba_repository_acquire_and_get_owner(h, "m", "a", 1, 1, &is, row, NULL),
                         SIMBA_EMISUSE);
        assert_int_equal(
            simba_repository_acquire_and_get_owner(h, "m", "a", 1, 1, result, &record, NULL),
            SIMBA_EMISUSE);
        assert_int_equal(simba_repository_release(h, "m", "a", result, NULL), SIMBA_EMISUSE);
        if (i == 0)
            assert_int_equal(simba_repository_open(file->url, &h, NULL), SIMBA_OK);
    }
    assert_int_equal(simba_repository_init_mutex(NULL, "m", NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_repository_get_owner(h, "m", &record, NULL), SIMBA_ENOTFOUND);
    simba_repository_close(h);
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILE(no_call_shortens_a_lease_of_its_owner),
        ON_FILE(a_write_past_the_limit_is_an_error_not_the_end),
        ON_FILE(a_cancelled_thread_leaves_the_handle_to_others),
        ON_FILE(a_child_with_the_pid_of_its_parent_finds_the_handle_dead),
        cmocka_unit_test(a_missing_url_or_result_is_misuse),
        ON_FILE(a_call_without_a_handle_or_a_result_is_misuse),
    };

    return cmocka_run_group_tests_name("handle", tests, NULL, NULL);
}
