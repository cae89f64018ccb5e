/*
 * Taking a mutex away from its owner, on the embedded stores.
 */
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
        cmocka_unit_test(a_free_mutex_stays_free),
        cmocka_unit_test(wrong_calls_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
