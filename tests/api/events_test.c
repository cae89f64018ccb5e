/*
 * A client whose application takes events: what callbacks would tell, in the same order, and none
 * of it on a thread of the library.
 */
#include "lib/locker.h"
#include "lib/process.h"
#include "probe.h"

#include <poll.h>

static simba_client *open_pulled(const char *url)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    options.pull_events = true;
    return probe_open_with(url, &options);
}

static struct simba_event take(simba_client *client)
{
    struct simba_event event = SIMBA_EVENT_INIT;

    assert_int_equal(simba_client_next_event(client, &event, NULL), SIMBA_OK);
    return event;
}

/* Waits by the descriptor alone, as an event loop does. */
static struct simba_event await(simba_client *client, enum simba_event_type type)
{
    struct pollfd ready = {simba_client_event_fd(client), POLLIN, 0};
    int64_t end = test_now_ms() + TEST_PATIENCE_MS;
    struct simba_event event;

    do {
        assert_true(test_now_ms() < end);
        assert_true(poll(&ready, 1, TEST_PATIENCE_MS) == 1);
        event = take(client);
    } while (event.type == SIMBA_EVENT_NONE);
    assert_int_equal(event.type, type);
    return event;
}

static bool is_readable(simba_client *client)
{
    struct pollfd ready = {simba_client_event_fd(client), POLLIN, 0};

    return poll(&ready, 1, 0) == 1;
}

static simba_contender *contend(simba_client *client, const char *id, unsigned pull, void *user)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_contender *contender;

    options.mutex = "m";
    options.id = id;
    options.pull = pull;
    options.user = user;
    assert_int_equal(simba_contender_create(client, &options, &contender, NULL), SIMBA_OK);
    return contender;
}

static void a_life_is_told_in_order(void **state)
{
    simba_client *client = open_pulled("memory:events?" PROBE_LONG);
    int user;
    simba_contender *contender = contend(client, "one", 0, &user);
    struct simba_event event;
    uint64_t fence;

    assert_int_equal(take(client).type, SIMBA_EVENT_NONE);
    assert_false(is_readable(client));
    assert_int_equal(simba_contender_start(contender, NULL), SIMBA_OK);
    event = await(client, SIMBA_EVENT_ACQUIRED);
    fence = simba_contender_fence(contender);
    assert_ptr_equal(event.user, &user);
    assert_string_equal(event.mutex, "m");
    assert_string_equal(event.id, "one");
    assert_string_equal(event.state.after.id, "one");
    assert_true(event.fence == fence && fence > 0);
    assert_true(event.deadline_ms == simba_contender_deadline_ms(contender));

    assert_int_equal(simba_contender_begin_stop(contender, NULL), SIMBA_OK);
    assert_int_equal(simba_contender_begin_stop(contender, NULL), SIMBA_ESTATE);
    event = await(client, SIMBA_EVENT_RELEASED);
    assert_true(event.fence == fence);
    event = await(client, SIMBA_EVENT_STOPPED);
    assert_int_equal(event.code, SIMBA_OK);
    assert_int_equal(simba_contender_status(contender), SIMBA_INITIAL);
    assert_int_equal(simba_contender_start(contender, NULL), SIMBA_OK);
    await(client, SIMBA_EVENT_ACQUIRED);

    simba_contender_close(contender);
    await(client, SIMBA_EVENT_RELEASED);
    await(client, SIMBA_EVENT_STOPPED);
    event = await(client, SIMBA_EVENT_CLOSED);
    assert_ptr_equal(event.user, &user);
    assert_int_equal(take(client).type, SIMBA_EVENT_NONE);
    assert_false(is_readable(client));
    probe_close(client);
}

/* The mutex is released only when the event has been taken, as with a callback that returns. */
static void a_release_waits_until_its_event_is_taken(void **state)
{
    simba_client *client = open_pulled("memory:events?" PROBE_LONG);
    simba_client *other = probe_open("memory:events?" PROBE_LONG);
    simba_contender *contender = contend(client, NULL, 0, NULL);

    assert_int_equal(simba_contender_start(contender, NULL), SIMBA_OK);
    await(client, SIMBA_EVENT_ACQUIRED);
    assert_int_equal(simba_contender_begin_stop(contender, NULL), SIMBA_OK);
    assert_false(simba_contender_is_owner(contender));
    for (int look = 0; look < 50; look++) {
        assert_false(probe_is_free(other, "m"));
        test_pause_ms(1);
    }
    await(client, SIMBA_EVENT_RELEASED);
    probe_wait_free(other, "m");
    await(client, SIMBA_EVENT_STOPPED);
    simba_contender_close(contender);
    probe_close(client);
    probe_close(other);
}

/* A stop on a thread that has taken no event before runs what it waits for, and keeps the
 * events. */
static void a_stop_leaves_its_events(void **state)
{
    simba_client *client = open_pulled("memory:events?" PROBE_LONG);
    simba_contender *contender = contend(client, NULL, 0, NULL);
    int64_t began;

    assert_int_equal(simba_contender_start(contender, NULL), SIMBA_OK);
    await(client, SIMBA_EVENT_ACQUIRED);
    began = test_now_ms();
    assert_int_equal(simba_contender_stop(contender, NULL), SIMBA_OK);
    if (!probe_is_slowed())
        assert_true(test_now_ms() - began < 5000);
    await(client, SIMBA_EVENT_RELEASED);
    await(client, SIMBA_EVENT_STOPPED);
    simba_contender_close(contender);
    probe_close(client); /* with an event that nobody takes */
}

static void renewals_and_changes_are_told_to_those_that_ask(void **state)
{
    simba_client *client = open_pulled("memory:events?" PROBE_SHORT);
    simba_contender *contender =
        contend(client, "one", SIMBA_PULL_NOTIFIED | SIMBA_PULL_RENEWED, NULL);
    struct simba_event event;

    assert_int_equal(simba_contender_start(contender, NULL), SIMBA_OK);
    event = await(client, SIMBA_EVENT_NOTIFIED);
    assert_string_equal(event.state.after.id, "one");
    event = await(client, SIMBA_EVENT_ACQUIRED);
    assert_true(await(client, SIMBA_EVENT_RENEWED).fence == event.fence);
    simba_contender_close(contender);
    probe_close(client);
}

static void an_observer_and_a_lost_locker_tell(void **state)
{
    simba_client *client = open_pulled("memory:events?" PROBE_LONG);
    struct simba_locker_options locker_options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_observer_options observer_options = SIMBA_OBSERVER_OPTIONS_INIT;
    int locker_user;
    int observer_user;
    simba_locker *locker;
    simba_observer *observer;
    struct simba_owner owner;
    struct simba_event event;
    unsigned told = 0;

    locker_options.mutex = "m";
    locker_options.user = &locker_user;
    assert_int_equal(simba_locker_create(client, &locker_options, &locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    observer_options.mutex = "m";
    observer_options.user = &observer_user;
    assert_int_equal(simba_observer_create(client, &observer_options, &observer, NULL), SIMBA_OK);
    assert_int_equal(simba_observer_start(observer, NULL), SIMBA_OK);
    event = await(client, SIMBA_EVENT_NOTIFIED);
    assert_ptr_equal(event.user, &observer_user);
    assert_string_equal(event.id, "");
    assert_string_equal(event.state.after.id, simba_locker_id(locker));

    assert_int_equal(simba_client_force_release(client, "m", 5000, &owner, NULL), SIMBA_OK);
    assert_int_equal(simba_observer_stop(observer, NULL), SIMBA_OK);
    simba_observer_close(observer);
    simba_locker_close(locker);
    while ((event = take(client)).type != SIMBA_EVENT_NONE)
        told += event.type == SIMBA_EVENT_CLOSED ? 1 : 0;
    assert_int_equal(told, 2);
    probe_close(client);
}

static void a_lost_lease_is_told(void **state)
{
    simba_client *client = open_pulled("memory:events?" PROBE_SHORT);
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_owner owner;
    simba_locker *locker;

    options.mutex = "m";
    assert_int_equal(simba_locker_create(client, &options, &locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    assert_int_equal(simba_client_force_release(client, "m", 5000, &owner, NULL), SIMBA_OK);
    assert_int_equal(await(client, SIMBA_EVENT_LOST).code, SIMBA_ELOST);
    assert_false(simba_locker_is_held(locker));
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_ELOST);
    simba_locker_close(locker);
    probe_close(client);
}

static void an_owner_hears_that_it_should_hand_over(void **state)
{
    simba_client *client = open_pulled("memory:events?" PROBE_SHORT);
    simba_contender *contender = contend(client, "one", SIMBA_PULL_HANDOVER, NULL);
    struct simba_handover request = SIMBA_HANDOVER_NONE;
    struct simba_event event;

    assert_int_equal(simba_contender_start(contender, NULL), SIMBA_OK);
    event = await(client, SIMBA_EVENT_ACQUIRED);
    strcpy(request.owner, "one");
    strcpy(request.by, "an operator");
    request.fence = event.fence;
    request.left_ms = 60000;
    assert_int_equal(simba_client_handover_ask(client, "m", &request, 5000, NULL), SIMBA_OK);
    event = await(client, SIMBA_EVENT_HANDOVER);
    assert_string_equal(event.handover.by, "an operator");
    assert_true(event.fence == request.fence);
    simba_contender_close(contender);
    probe_close(client);
}

static void a_client_that_is_pulled_has_one_thread(void **state)
{
    int before;
    simba_client *client;

    probe_close(open_pulled("memory:events"));
    before = test_thread_count();
    client = open_pulled("memory:events");
    assert_int_equal(test_thread_count(), before + 1); /* the loop */
    probe_close(client);
}

/* Many contenders, events that threads take at the same time: each contender's are in order. */
#define CROWD 40
#define TAKERS 4

struct crowd {
    simba_client *client;
    atomic_uint acquired[CROWD];
    atomic_uint closed;
    atomic_uint wrong;
};

static void *take_many(void *argument)
{
    struct crowd *crowd = argument;
    struct pollfd ready = {simba_client_event_fd(crowd->client), POLLIN, 0};
    int64_t end = test_now_ms() + TEST_PATIENCE_MS;

    while (atomic_load(&crowd->closed) < CROWD && test_now_ms() < end) {
        struct simba_event event = SIMBA_EVENT_INIT;

        poll(&ready, 1, 20);
        if (simba_client_next_event(crowd->client, &event, NULL) != SIMBA_OK)
            atomic_fetch_add(&crowd->wrong, 1);
        if (event.type == SIMBA_EVENT_ACQUIRED)
            atomic_fetch_add((atomic_uint *)event.user, 1);
        if (event.type == SIMBA_EVENT_CLOSED)
            atomic_fetch_add(&crowd->closed, 1);
    }
    return NULL;
}

static bool all_acquired(void *user)
{
    struct crowd *crowd = user;

    for (int i = 0; i < CROWD; i++)
        if (atomic_load(&crowd->acquired[i]) == 0)
            return false;
    return true;
}

static void threads_may_take_events_together(void **state)
{
    static struct crowd crowd;
    simba_contender *contenders[CROWD];
    pthread_t threads[TAKERS];
    char mutex[16];

    memset(&crowd, 0, sizeof crowd);
    crowd.client = open_pulled("memory:events?" PROBE_LONG);
    for (int i = 0; i < TAKERS; i++)
        pthread_create(&threads[i], NULL, take_many, &crowd);
    for (int i = 0; i < CROWD; i++) {
        struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

        snprintf(mutex, sizeof mutex, "m%d", i);
        options.mutex = mutex;
        options.user = &crowd.acquired[i];
        assert_int_equal(simba_contender_create(crowd.client, &options, &contenders[i], NULL),
                         SIMBA_OK);
        assert_int_equal(simba_contender_start(contenders[i], NULL), SIMBA_OK);
    }
    assert_true(test_wait(all_acquired, &crowd));
    for (int i = 0; i < CROWD; i++)
        simba_contender_close(contenders[i]);
    for (int i = 0; i < TAKERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&crowd.closed), CROWD);
    assert_int_equal(atomic_load(&crowd.wrong), 0);
    probe_close(crowd.client);
}

static void ignore_state(void *user, const struct simba_state *change)
{
    (void)user;
    (void)change;
}

static int ignore_work(void *user, simba_scheduler *scheduler)
{
    (void)user;
    (void)scheduler;
    return 0;
}

static void what_does_not_fit_is_refused(void **state)
{
    simba_client *pulled = open_pulled("memory:events");
    simba_client *calling = probe_open("memory:events");
    struct simba_contender_options contender = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_scheduler_options scheduler = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct simba_event event = SIMBA_EVENT_INIT;
    struct simba_error error;
    simba_contender *made;
    simba_scheduler *made_scheduler;

    assert_int_equal(simba_client_event_fd(calling), -1);
    assert_int_equal(simba_client_next_event(calling, &event, &error), SIMBA_EMISUSE);
    probe_assert_names(error.text, "pull_events");
    event.size = 0;
    assert_int_equal(simba_client_next_event(pulled, &event, &error), SIMBA_EMISUSE);
    contender.mutex = "m";
    contender.on_acquired = ignore_state;
    assert_int_equal(simba_contender_create(pulled, &contender, &made, &error), SIMBA_EINVAL);
    probe_assert_names(error.text, "callbacks");
    contender.on_acquired = NULL;
    contender.pull = 64;
    assert_int_equal(simba_contender_create(pulled, &contender, &made, &error), SIMBA_EINVAL);
    probe_assert_names(error.text, "0x40");
    contender.pull = SIMBA_PULL_RENEWED;
    assert_int_equal(simba_contender_create(calling, &contender, &made, &error), SIMBA_EINVAL);
    probe_assert_names(error.text, "pull_events");
    scheduler.mutex = "m";
    scheduler.work = ignore_work;
    scheduler.period_ms = 1000;
    assert_int_equal(simba_scheduler_create(pulled, &scheduler, &made_scheduler, &error),
                     SIMBA_EUNSUPPORTED);
    probe_close(pulled);
    probe_close(calling);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_is_told_in_order),
        cmocka_unit_test(a_release_waits_until_its_event_is_taken),
        cmocka_unit_test(a_stop_leaves_its_events),
        cmocka_unit_test(renewals_and_changes_are_told_to_those_that_ask),
        cmocka_unit_test(an_observer_and_a_lost_locker_tell),
        cmocka_unit_test(a_lost_lease_is_told),
        cmocka_unit_test(an_owner_hears_that_it_should_hand_over),
        cmocka_unit_test(a_client_that_is_pulled_has_one_thread),
        cmocka_unit_test(threads_may_take_events_together),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
