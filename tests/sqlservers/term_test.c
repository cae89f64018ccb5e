/*
 * term_test.c - others are told the token of the owner's term and since when it owns: the same ones
 * through renewals, others in the next term, and none where the owner is of another library.
 */
#include "queue.h"

#include <simba/simba.h>

#define MANY 5
#define SHORT_LEASES "ttl=200ms&transition=4s"

static simba_client *owner;
static simba_client *other;

static simba_client *open_client(const char *url)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *client = NULL;

    assert_int_equal(simba_client_open(url, &options, &client, NULL), SIMBA_OK);
    return client;
}

static int open_both(void **state)
{
    (void)state;
    owner = open_client(server_url(&server, dialect_admin, SHORT_LEASES));
    other = open_client(server.url);
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    return simba_client_close(owner, NULL) == SIMBA_OK &&
                   simba_client_close(other, NULL) == SIMBA_OK
               ? 0
               : -1;
}

static simba_locker *lock(const char *mutex)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *locker = NULL;

    options.mutex = mutex;
    options.id = "short"; /* for columns of 32 characters */
    assert_int_equal(simba_locker_create(owner, &options, &locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    return locker;
}

static void unlock(simba_locker *locker)
{
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
}

static struct simba_mutex_status look(const char *mutex)
{
    struct simba_mutex_status *list = NULL;
    struct simba_mutex_status status;
    size_t count = 0;

    assert_int_equal(simba_client_status(other, mutex, 10000, &list, &count, NULL), SIMBA_OK);
    assert_int_equal(count, 1);
    status = list[0];
    simba_free(list);
    return status;
}

/* The same from the list of all. */
static struct simba_mutex_status look_among_all(const char *mutex)
{
    struct simba_mutex_status *list = NULL;
    struct simba_mutex_status status = {.waiters = 0};
    size_t count = 0;

    assert_int_equal(simba_client_status(other, NULL, 10000, &list, &count, NULL), SIMBA_OK);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].mutex, mutex) == 0)
            status = list[i];
    assert_string_equal(status.mutex, mutex);
    simba_free(list);
    return status;
}

/* The clocks of two machines are not compared, so a time may be off by how long an answer takes. */
static void check_term(const struct simba_mutex_status *status, uint64_t fence, int64_t before_ms,
                       int64_t after_ms)
{
    assert_int_equal(status->owner.fence, fence);
    assert_in_range(status->since_ms, before_ms - 5, after_ms + 2000);
}

/* ---- A single mutex -------------------------------------------------------------------------- */

static bool has_renewed(void *version)
{
    return server_number(&server, "SELECT version FROM simba_mutex WHERE mutex = 'single'") >=
           *(int64_t *)version + 2;
}

static void a_term_keeps_its_token_and_its_beginning(void **state)
{
    struct simba_mutex_status first, later;
    int64_t version;

    (void)state;
    for (int term = 0; term < 2; term++) {
        int64_t before_ms = simba_now_ms();
        simba_locker *locker = lock("single");

        first = look("single");
        check_term(&first, simba_locker_fence(locker), before_ms, simba_now_ms());
        version = (int64_t)first.owner.fence;
        assert_true(test_wait(has_renewed, &version));
        later = look("single");
        check_term(&later, first.owner.fence, before_ms, first.since_ms);
        later = look_among_all("single");
        check_term(&later, first.owner.fence, before_ms, first.since_ms);
        unlock(locker);
        assert_int_equal(look("single").owner.fence, 0);
        assert_int_equal(look("single").since_ms, 0);
    }
}

/* ---- Many, whose requests go together -------------------------------------------------------- */

static bool are_renewed(void *count)
{
    (void)count;
    return server_number(&server, "SELECT count(*) FROM simba_mutex WHERE mutex LIKE 'many-%'"
                                  " AND owner_id <> '' AND term_version = version"
                                  " AND version > term_fence + 2") == MANY;
}

static void terms_of_many_are_told(void **state)
{
    simba_contender *contenders[MANY] = {NULL};
    int64_t before_ms = simba_now_ms();
    char name[32];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

        snprintf(name, sizeof name, "many-%d", i);
        options.mutex = name;
        assert_int_equal(simba_contender_create(owner, &options, &contenders[i], NULL), SIMBA_OK);
        assert_int_equal(simba_contender_start(contenders[i], NULL), SIMBA_OK);
    }
    assert_true(test_wait(are_renewed, NULL));
    for (int i = 0; i < MANY; i++) {
        struct simba_mutex_status status;

        snprintf(name, sizeof name, "many-%d", i);
        status = look(name);
        check_term(&status, simba_contender_fence(contenders[i]), before_ms, simba_now_ms());
        simba_contender_close(contenders[i]);
    }
}

/* ---- Other libraries ------------------------------------------------------------------------- */

static void nothing_is_told_of_the_terms_of_another_library(void **state)
{
    simba_locker *locker = lock("other");

    (void)state;
    assert_int_not_equal(look("other").owner.fence, 0);
    unlock(locker);
    for (int change = 0; change < 2; change++) { /* acquires, renews */
        assert_true(jvm_acquires("other"));
        assert_string_equal(look("other").owner.id, "jvm");
        assert_int_equal(look("other").owner.fence, 0);
        assert_int_equal(look("other").since_ms, 0);
        assert_int_equal(look_among_all("other").since_ms, 0);
    }
    jvm_releases("other");
}

static int use_old_table(void **state)
{
    server_sql(&server, "DROP TABLE IF EXISTS simba_mutex");
    server_sql(&server, "%s", dialect_old_table);
    return open_both(state);
}

static int drop_old_table(void **state)
{
    int code = close_both(state);

    server_sql(&server, "DROP TABLE IF EXISTS simba_mutex");
    return code;
}

static bool old_has_renewed(void *unused)
{
    (void)unused;
    return server_number(&server, "SELECT version FROM simba_mutex WHERE mutex = 'old'") >= 3;
}

static void a_table_without_the_columns_works_and_tells_nothing(void **state)
{
    simba_locker *locker = lock("old");

    (void)state;
    assert_true(test_wait(old_has_renewed, NULL));
    assert_int_not_equal(look("old").owner.id[0], 0);
    assert_int_equal(look("old").owner.fence, 0);
    assert_int_equal(look("old").since_ms, 0);
    unlock(locker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_term_keeps_its_token_and_its_beginning, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(terms_of_many_are_told, open_both, close_both),
        cmocka_unit_test_setup_teardown(nothing_is_told_of_the_terms_of_another_library, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(a_table_without_the_columns_works_and_tells_nothing,
                                        use_old_table, drop_old_table),
    };

    return server_run_tests("terms", tests);
}
