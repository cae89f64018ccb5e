/*
 * The observer: it sees what contenders do and takes no part in it.
 */
#include "probe.h"

#include "tck/shim.h"

struct seen {
    pthread_mutex_t lock;
    char last[SIMBA_ID_MAX + 1]; /* the owner after the last change */
    uint64_t fence;
    atomic_uint changes;
    atomic_uint empty; /* notifications that were no change */
    atomic_uint returned;
    struct gate *gate;
};

#define SEEN_INIT                                                                                  \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }

static void note(void *user, const struct simba_state *state)
{
    struct seen *seen = user;

    pthread_mutex_lock(&seen->lock);
    snprintf(seen->last, sizeof seen->last, "%s", state->after.id);
    seen->fence = state->after.fence;
    pthread_mutex_unlock(&seen->lock);
    if (!simba_state_is_changed(state))
        atomic_fetch_add(&seen->empty, 1);
    atomic_fetch_add(&seen->changes, 1);
    if (seen->gate != NULL)
        gate_wait(seen->gate);
    atomic_fetch_add(&seen->returned, 1);
}

static simba_observer *watch(simba_client *client, struct seen *seen, int64_t poll_ms)
{
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_error error = {0};
    simba_observer *observer = NULL;

    options.mutex = "m";
    options.on_notify = note;
    options.user = seen;
    options.poll_ms = poll_ms;
    if (simba_observer_create(client, &options, &observer, &error) != SIMBA_OK)
        fail_msg("cannot create an observer: %s", error.text);
    assert_int_equal(simba_observer_start(observer, NULL), SIMBA_OK);
    return observer;
}

struct expectation {
    struct seen *seen;
    const char *owner;
};

static bool has_seen(void *user)
{
    struct expectation *expectation = user;
    bool equal;

    pthread_mutex_lock(&expectation->seen->lock);
    equal = strcmp(expectation->seen->last, expectation->owner) == 0;
    pthread_mutex_unlock(&expectation->seen->lock);
    return equal;
}

static void wait_to_see(struct seen *seen, const char *owner)
{
    struct expectation expectation = {seen, owner};

    if (!test_wait(has_seen, &expectation))
        fail_msg("the observer does not see '%s'", owner);
}

static void forget(struct seen *seen)
{
    pthread_mutex_lock(&seen->lock);
    seen->last[0] = '\0';
    atomic_store(&seen->changes, 0);
    pthread_mutex_unlock(&seen->lock);
}

/* `poll_ms` longer than the patience: only news can tell it. */
static void follow_hand_overs(const char *url, int64_t poll_ms)
{
    simba_client *client = probe_open(url);
    simba_client *other = probe_open(url);
    struct seen seen = SEEN_INIT;
    struct probe a = {0};
    struct probe b = {0};
    simba_observer *observer;

    probe_create(&a, client, "m", "a");
    probe_create(&b, other, "m", "b");
    probe_start(&a);
    probe_wait_owner(&a);
    observer = watch(other, &seen, poll_ms);
    wait_to_see(&seen, "a");
    if (seen.fence != 0) /* not every store knows the token of another's term */
        assert_int_equal(seen.fence, simba_contender_fence(a.contender));
    probe_stop(&a);
    wait_to_see(&seen, "");
    probe_start(&b);
    wait_to_see(&seen, "b");
    probe_end(&b);
    wait_to_see(&seen, "");
    assert_int_equal(atomic_load(&seen.empty), 0);
    simba_observer_close(observer);
    probe_end(&a);
    probe_close(client);
    probe_close(other);
}

static void it_sees_acquisitions_and_releases_at_once(void **state)
{
    follow_hand_overs("memory:watch?" PROBE_LONG, 60000);
}

static void it_sees_them_by_polling_too(void **state)
{
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 128];

    test_folder_create(folder);
    probe_sqlite_url(url, sizeof url, folder, PROBE_LONG);
    follow_hand_overs(url, 20);
    test_folder_remove(folder);
}

static void it_tells_a_new_term_of_the_same_owner(void **state)
{
    simba_client *client = probe_open("memory:watch?" PROBE_LONG);
    struct seen seen = SEEN_INIT;
    struct probe p = {0};
    simba_observer *observer = watch(client, &seen, 60000);
    unsigned changes = 0;

    probe_create(&p, client, "m", "p");
    for (int i = 0; i < 5; i++) {
        probe_start(&p);
        probe_wait_owner(&p);
        probe_wait_count(&seen.changes, changes + 1);
        wait_to_see(&seen, "p");
        assert_int_equal(seen.fence, simba_contender_fence(p.contender));
        changes = atomic_load(&seen.changes);
        probe_stop(&p);
    }
    simba_observer_close(observer);
    probe_end(&p);
    probe_close(client);
}

static void it_sees_a_lease_end_without_being_told(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    const char *url = "memory:watch?" PROBE_SHORT;
    simba_client *other = probe_open(url);
    struct seen seen = SEEN_INIT;
    struct probe p = {0};
    simba_observer *observer;
    struct sb_shim *shim;
    simba_client *client;

    assert_int_equal(sb_shim_create(url, NULL, &shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(shim, url, &options, &client, NULL), SIMBA_OK);
    probe_create(&p, client, "m", "p");
    probe_start(&p);
    probe_wait_owner(&p);
    observer = watch(other, &seen, 60000);
    wait_to_see(&seen, "p");
    sb_shim_hold_requests(shim, SB_SHIM_ALL); /* as if the owner had died */
    wait_to_see(&seen, "");
    sb_shim_let_go(shim);
    simba_observer_close(observer);
    probe_end(&p);
    probe_close(client);
    probe_close(other);
    sb_shim_free(shim);
}

static void it_can_be_started_again_and_sees_the_present(void **state)
{
    simba_client *client = probe_open("memory:watch?" PROBE_LONG);
    struct simba_state known;
    struct seen seen = SEEN_INIT;
    struct probe p = {0};
    simba_observer *observer = watch(client, &seen, 1000);

    probe_create(&p, client, "m", "p");
    for (int i = 0; i < 10; i++) {
        assert_int_equal(simba_observer_start(observer, NULL), SIMBA_ESTATE);
        probe_start(&p);
        wait_to_see(&seen, "p");
        simba_observer_state(observer, &known);
        assert_string_equal(known.after.id, "p");
        assert_int_equal(simba_observer_status(observer), SIMBA_RUNNING);
        assert_int_equal(simba_observer_stop(observer, NULL), SIMBA_OK);
        assert_int_equal(simba_observer_stop(observer, NULL), SIMBA_ESTATE);
        probe_stop(&p);
        assert_int_equal(atomic_load(&seen.changes), 1); /* nobody told it */
        forget(&seen);
        assert_int_equal(simba_observer_start(observer, NULL), SIMBA_OK);
    }
    simba_observer_close(observer);
    probe_end(&p);
    probe_close(client);
}

static void *stop_it(void *observer)
{
    return (void *)(intptr_t)simba_observer_stop(observer, NULL);
}

static bool is_stopping(void *observer)
{
    return simba_observer_status(observer) == SIMBA_STOPPING;
}

static void a_stop_waits_for_the_callback_and_none_begins_after_it(void **state)
{
    simba_client *client = probe_open("memory:watch?" PROBE_LONG);
    struct gate gate = GATE_INIT;
    struct seen seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .gate = &gate};
    simba_observer *observer = watch(client, &seen, 1000);
    struct probe p = {0};
    pthread_t stopper;
    unsigned changes;
    void *code;

    probe_create(&p, client, "m", "p");
    probe_start(&p);
    probe_wait_count(&seen.changes, 1);
    pthread_create(&stopper, NULL, stop_it, observer);
    assert_true(test_wait(is_stopping, observer));
    gate_open(&gate);
    pthread_join(stopper, &code);
    assert_int_equal((intptr_t)code, SIMBA_OK);
    assert_int_equal(atomic_load(&seen.returned), atomic_load(&seen.changes));
    changes = atomic_load(&seen.changes);
    probe_stop(&p);
    simba_observer_close(observer);
    assert_int_equal(atomic_load(&seen.changes), changes);
    probe_end(&p);
    probe_close(client);
}

static void bad_options_are_refused_with_a_sentence(void **state)
{
    simba_client *client = probe_open("memory:watch?" PROBE_LONG);
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_error error = {0};
    simba_observer *observer = NULL;

    assert_int_equal(simba_observer_create(client, &options, &observer, &error), SIMBA_EINVAL);
    probe_assert_names(error.text, "mutex");
    options.mutex = "m";
    options.poll_ms = 0;
    assert_int_equal(simba_observer_create(client, &options, &observer, &error), SIMBA_EINVAL);
    probe_assert_names(error.text, "poll_ms");
    options.poll_ms = (int64_t)INT32_MAX + 1;
    assert_int_equal(simba_observer_create(client, &options, &observer, &error), SIMBA_EINVAL);
    probe_assert_names(error.text, "from 1 to 2147483647");
    assert_int_equal(simba_observer_create(client, NULL, &observer, &error), SIMBA_EMISUSE);
    assert_null(observer);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_sees_acquisitions_and_releases_at_once),
        cmocka_unit_test(it_sees_them_by_polling_too),
        cmocka_unit_test(it_tells_a_new_term_of_the_same_owner),
        cmocka_unit_test(it_sees_a_lease_end_without_being_told),
        cmocka_unit_test(it_can_be_started_again_and_sees_the_present),
        cmocka_unit_test(a_stop_waits_for_the_callback_and_none_begins_after_it),
        cmocka_unit_test(bad_options_are_refused_with_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
