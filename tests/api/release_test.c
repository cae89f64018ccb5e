/*
 * Taking a mutex away from its owner, on the embedded stores.
 */
#include "lib/locker.h"
#include "probe.h"

#define URL(name) "memory:" name "?ttl=200ms&transition=60s&jitter=0ms..30ms"

static struct simba_owner take(simba_client *client, const char *mutex)
{
    struct simba_owner owner = {{'?'}, 0, 0, 0, 0};
    struct simba_error error;

    if (simba_client_force_release(client, mutex, TEST_PATIENCE_MS, &owner, &error) != SIMBA_OK)
        fail_msg("%s", error.text);
    return owner;
}

/* The lease outlasts the test: without the release nobody would lose or win anything. */
static void the_owner_loses_it_and_the_next_waiter_wins(void **state)
{
    simba_client *client = probe_open(URL("release"));
    simba_client *outside = probe_open(URL("release"));
    struct probe owner = {0};
    struct probe waiter = {0};
    struct simba_owner taken;

    (void)state;
    probe_create(&owner, client, "m", "owner");
    probe_create(&waiter, outside, "m", "waiter");
    probe_start(&owner);
    probe_wait_count(&owner.acquired, 1);
    probe_start(&waiter);
    probe_wait_status(waiter.contender, SIMBA_RUNNING);
    taken = take(outside, "m");
    assert_string_equal(taken.id, "owner");
    assert_int_equal(taken.fence, owner.fence);
    probe_wait_count(&waiter.acquired, 1);
    assert_true(waiter.fence > owner.fence);
    probe_wait_count(&owner.released, 1);
    probe_end(&owner);
    probe_end(&waiter);
    probe_close(outside);
    probe_close(client);
}

/* ---- The owner gives it back before its first renewal could tell it -------------------------- */

static simba_locker *make_locker(simba_client *client, const char *id)
{
    simba_locker *locker = NULL;
    struct simba_error error;

    if (test_locker_create(client, "m", id, &locker, &error) != SIMBA_OK)
        fail_msg("%s", error.text);
    return locker;
}

static uint64_t losses_of(simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    return metrics.losses;
}

static void release_finds_it_lost(simba_client *client, simba_locker *locker)
{
    struct simba_error error;
    uint64_t losses = losses_of(client);

    if (simba_locker_release(locker, &error) != SIMBA_ELOST)
        fail_msg("a release of what was taken away succeeds");
    probe_assert_names(error.text, "'m' was lost before it was released");
    assert_int_equal(losses_of(client), losses + 1);
}

/* The ttl outlasts the test: no renewal tells the owner. */
static void check_release_after_a_loss(const char *url)
{
    simba_client *client = probe_open(url);
    simba_client *outside = probe_open(url);
    simba_locker *locker = make_locker(client, "owner");
    simba_locker *other = make_locker(outside, "other");

    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    assert_string_equal(take(outside, "m").id, "owner");
    release_finds_it_lost(client, locker); /* nobody took it since */

    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    take(outside, "m");
    assert_int_equal(simba_locker_acquire(other, NULL), SIMBA_OK);
    release_finds_it_lost(client, locker); /* another has it */
    assert_int_equal(simba_locker_release(other, NULL), SIMBA_OK);

    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    take(outside, "m");
    assert_int_equal(simba_locker_acquire(other, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_release(other, NULL), SIMBA_OK);
    release_finds_it_lost(client, locker); /* another has had it */

    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(other);
    simba_locker_close(locker);
    probe_close(outside);
    probe_close(client);
}

/* A second owner of the same id takes the term; that one is not disturbed. */
static void check_release_after_a_rival(const char *url)
{
    simba_client *client = probe_open(url);
    simba_client *outside = probe_open(url);
    simba_locker *locker = make_locker(client, "twin");
    simba_locker *rival = make_locker(outside, "twin");

    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(rival, NULL), SIMBA_OK);
    release_finds_it_lost(client, locker);
    assert_int_equal(simba_locker_release(rival, NULL), SIMBA_OK);
    simba_locker_close(rival);
    simba_locker_close(locker);
    probe_close(outside);
    probe_close(client);
}

static void a_release_says_that_the_term_was_gone(void **state)
{
    (void)state;
    check_release_after_a_loss("memory:release-gone?ttl=60s&transition=60s");
    check_release_after_a_rival("memory:release-rival?ttl=60s&transition=60s");
}

static void on_a_file_a_release_says_that_the_term_was_gone(void **state)
{
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 128];

    (void)state;
    test_folder_create(folder);
    probe_sqlite_url(url, sizeof url, folder, "ttl=60s&transition=60s");
    check_release_after_a_loss(url);
    check_release_after_a_rival(url);
    test_folder_remove(folder);
}

/* A contender, too, whose on_released has run by then and does not run again. */
static void a_stop_says_that_the_term_was_gone(void **state)
{
    simba_client *client = probe_open("memory:release-stop?ttl=60s&transition=60s");
    struct probe owner = {0};
    struct simba_error error;

    (void)state;
    probe_create(&owner, client, "m", "owner");
    probe_start(&owner);
    probe_wait_count(&owner.acquired, 1);
    take(client, "m");
    assert_int_equal(simba_contender_stop(owner.contender, &error), SIMBA_ELOST);
    probe_assert_names(error.text, "'m' was lost before it was released");
    assert_int_equal(atomic_load(&owner.released), 1);
    probe_start(&owner);
    probe_wait_count(&owner.acquired, 2);
    assert_int_equal(simba_contender_stop(owner.contender, NULL), SIMBA_OK);
    assert_int_equal(atomic_load(&owner.released), 2);
    probe_end(&owner);
    probe_close(client);
}

static void a_free_mutex_stays_free(void **state)
{
    simba_client *client = probe_open(URL("release-free"));

    (void)state;
    assert_string_equal(take(client, "m").id, "");
    probe_close(client);
}

static void wrong_calls_are_refused(void **state)
{
    simba_client *client = probe_open(URL("release-misuse"));
    struct simba_owner owner = {{'?'}, 0, 0, 0, 0};

    (void)state;
    assert_int_equal(simba_client_force_release(client, NULL, 1, &owner, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_client_force_release(client, "m", 1, NULL, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_client_force_release(client, " ", 1, &owner, NULL), SIMBA_EINVAL);
    assert_int_equal(simba_client_force_release(client, "m", -1, &owner, NULL), SIMBA_EINVAL);
    assert_int_equal(owner.id[0], '?');
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owner_loses_it_and_the_next_waiter_wins),
        cmocka_unit_test(a_release_says_that_the_term_was_gone),
        cmocka_unit_test(on_a_file_a_release_says_that_the_term_was_gone),
        cmocka_unit_test(a_stop_says_that_the_term_was_gone),
        cmocka_unit_test(a_free_mutex_stays_free),
        cmocka_unit_test(wrong_calls_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
