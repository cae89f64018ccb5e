/*
 * A contender that waits and has on_notify is told of the owners between others, on the embedded
 * stores and on one that pushes nothing.
 */
#include "probe.h"

#include "tck/follow.h"

#include <simba/sql.h>

#define LAPSE_MS 1500

static void a_waiter_is_told_who_owns_in_memory(void **state)
{
    follow_assert_told("memory:follow", NULL, FOLLOW_SOON_MS);
}

static void a_waiter_is_told_who_owns_on_sqlite(void **state)
{
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 64];

    test_folder_create(folder);
    probe_sqlite_url(url, sizeof url, folder, "");
    follow_assert_told(url, NULL, FOLLOW_SOON_MS);
    test_folder_remove(folder);
}

/* Makes somebody the owner that neither renews nor releases. */
static void own_for_a_while(const char *url)
{
    simba_repository *repository = NULL;
    struct simba_record record;
    bool acquired = false;

    assert_int_equal(simba_repository_open(url, &repository, NULL), SIMBA_OK);
    assert_int_equal(simba_repository_acquire_and_get_owner(repository, FOLLOW_MUTEX, "ghost",
                                                            LAPSE_MS, LAPSE_MS, &acquired, &record,
                                                            NULL),
                     SIMBA_OK);
    assert_true(acquired);
    simba_repository_close(repository);
}

/* There is no release that could tell; an acquisition touches the file that is watched. */
static void a_waiter_is_told_who_takes_over_on_sqlite(void **state)
{
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 64];
    char late_url[TEST_PATH_MAX + 64];
    struct follower heir;
    struct follower waiter;
    struct follow_belief belief = {&waiter, "heir"};

    test_folder_create(folder);
    probe_sqlite_url(url, sizeof url, folder, "");
    probe_sqlite_url(late_url, sizeof late_url, folder, "jitter=60s..61s&turn=0s");
    follow_create(&waiter, late_url, NULL, "waiter", true);
    follow_create(&heir, url, NULL, "heir", true);
    own_for_a_while(url);
    assert_int_equal(simba_contender_start(waiter.contender, NULL), SIMBA_OK);
    belief.owner = "ghost";
    assert_true(test_wait(follow_is_told, &belief));
    assert_int_equal(simba_contender_start(heir.contender, NULL), SIMBA_OK);
    assert_true(test_wait(follow_owns, &heir));
    belief.owner = "heir";
    assert_true(test_wait_within(FOLLOW_SOON_MS, follow_is_told, &belief));
    follow_end(&waiter);
    follow_end(&heir);
    test_folder_remove(folder);
}

/* It looks every second. */
static void a_waiter_looks_where_the_store_tells_it_nothing(void **state)
{
    struct simba_backend_ops mute = *simba_backend_find("memory");

    mute.listen = NULL;
    follow_assert_told("memory:mute", &mute, FOLLOW_SOON_MS + 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_is_told_who_owns_in_memory),
        cmocka_unit_test(a_waiter_is_told_who_owns_on_sqlite),
        cmocka_unit_test(a_waiter_is_told_who_takes_over_on_sqlite),
        cmocka_unit_test(a_waiter_looks_where_the_store_tells_it_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
