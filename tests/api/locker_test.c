/*
 * The locker: acquire, wait, give up, lose, release.
 */
#include "probe.h"

#include "lib/locker.h"
#include "tck/shim.h"

/* For a time-out before which the store has surely answered once. */
#define ENOUGH_MS 300

static simba_locker *make_locker(simba_client *client, const char *id)
{
    struct simba_error error = {0};
    simba_locker *locker = NULL;

    if (test_locker_create(client, "m", id, &locker, &error) != SIMBA_OK)
        fail_msg("cannot create a locker: %s", error.text);
    return locker;
}

static void expect(int code, int expected, const struct simba_error *error)
{
    if (code != expected)
        fail_msg("%d was expected, not %d: %s", expected, code, error->text);
    assert_int_equal(error->code, expected);
}

/* ---- Acquire and release --------------------------------------------------------------------- */

static void a_free_mutex_is_acquired_and_given_back(void **state)
{
    simba_client *client = probe_open("memory:locker?" PROBE_LONG);
    simba_locker *locker = make_locker(client, "me");
    struct simba_owner owner;
    uint64_t fence = 0;

    for (int i = 0; i < 20; i++) {
        assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
        assert_true(simba_locker_is_held(locker));
        assert_true(simba_locker_fence(locker) > fence);
        fence = simba_locker_fence(locker);
        assert_true(simba_locker_deadline_ms(locker) > simba_now_ms());
        assert_true(simba_locker_window_ms(locker) > 0);
        simba_locker_owner(locker, &owner);
        assert_string_equal(owner.id, "me");
        assert_false(probe_is_free(client, "m"));
        assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
        assert_false(simba_locker_is_held(locker));
        assert_int_equal(simba_locker_fence(locker), 0);
        assert_int_equal(simba_locker_window_ms(locker), 0);
        assert_true(probe_is_free(client, "m"));
    }
    simba_locker_close(locker);
    probe_close(client);
}

static void a_lease_is_renewed_until_the_release(void **state)
{
    simba_client *client = probe_open("memory:locker?" PROBE_SHORT);
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    simba_locker *locker = make_locker(client, NULL);

    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    while (metrics.renewals < 4) {
        assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
        assert_true(simba_locker_is_held(locker));
        test_pause_ms(5);
    }
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    probe_close(client);
}

static void what_was_not_acquired_cannot_be_released(void **state)
{
    simba_client *client = probe_open("memory:locker?" PROBE_LONG);
    simba_locker *locker = make_locker(client, NULL);
    struct simba_error error = {0};

    expect(simba_locker_release(locker, &error), SIMBA_ESTATE, &error);
    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    expect(simba_locker_release(locker, &error), SIMBA_ESTATE, &error);
    simba_locker_close(locker);
    probe_close(client);
}

static void a_held_locker_that_is_closed_gives_the_mutex_back(void **state)
{
    simba_client *client = probe_open("memory:locker?" PROBE_LONG);
    simba_locker *locker = make_locker(client, NULL);

    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    assert_true(probe_is_free(client, "m"));
    probe_close(client);
}

static void acquire_in_a_scope(simba_client *client)
{
    SIMBA_SCOPED(locker) simba_locker *lock = make_locker(client, NULL);

    assert_int_equal(simba_locker_acquire(lock, NULL), SIMBA_OK);
    assert_false(probe_is_free(client, "m"));
}

static void a_scope_releases_and_closes_what_it_holds(void **state)
{
    SIMBA_SCOPED(client) simba_client *client = probe_open("memory:locker?" PROBE_LONG);

    acquire_in_a_scope(client);
    assert_true(probe_is_free(client, "m"));
}

static int do_nothing(void *user, simba_scheduler *scheduler)
{
    (void)user;
    (void)scheduler;
    return 0;
}

static void serve_in_a_scope(simba_client *client)
{
    struct simba_observer_options watching = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_scheduler_options working = SIMBA_SCHEDULER_OPTIONS_INIT;
    SIMBA_SCOPED(observer) simba_observer *observer = NULL;
    SIMBA_SCOPED(scheduler) simba_scheduler *scheduler = NULL;

    watching.mutex = "m";
    working.mutex = "m";
    working.work = do_nothing;
    working.period_ms = 10000;
    assert_int_equal(simba_observer_create(client, &watching, &observer, NULL), SIMBA_OK);
    assert_int_equal(simba_observer_start(observer, NULL), SIMBA_OK);
    assert_int_equal(simba_scheduler_create(client, &working, &scheduler, NULL), SIMBA_OK);
    assert_int_equal(simba_scheduler_start(scheduler, NULL), SIMBA_OK);
    while (!simba_scheduler_is_leader(scheduler))
        test_pause_ms(1);
}

/* A client that still had one of them would not close. */
static void a_scope_stops_and_closes_its_services(void **state)
{
    simba_client *client = probe_open("memory:locker?" PROBE_LONG);

    serve_in_a_scope(client);
    assert_true(probe_is_free(client, "m"));
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

/* ---- One acquirer at a time ------------------------------------------------------------------ */

struct waiting {
    simba_locker *locker;
    int64_t timeout_ms;
    int code;
    struct simba_error error;
};

static void *wait_for_it(void *user)
{
    struct waiting *waiting = user;

    waiting->code =
        simba_locker_acquire_timeout(waiting->locker, waiting->timeout_ms, &waiting->error);
    return NULL;
}

/* A thread that waits for the mutex, and is seen waiting on the store. */
static bool is_waited_for(void *client)
{
    struct simba_mutex_status *list;
    size_t count;
    bool waited_for;

    assert_int_equal(simba_client_status(client, "m", 1000, &list, &count, NULL), SIMBA_OK);
    waited_for = list[0].waiters > 0;
    simba_free(list);
    return waited_for;
}

static pthread_t start_waiting(struct waiting *waiting, simba_client *client)
{
    pthread_t thread;

    pthread_create(&thread, NULL, wait_for_it, waiting);
    assert_true(test_wait(is_waited_for, client));
    return thread;
}

static void a_second_acquirer_of_the_same_locker_is_refused(void **state)
{
    simba_client *client = probe_open("memory:locker?" PROBE_LONG);
    simba_locker *holder = make_locker(client, "holder");
    struct waiting waiting = {.locker = make_locker(client, "waiter"), .timeout_ms = 20000};
    struct simba_error error = {0};
    pthread_t thread;

    assert_int_equal(simba_locker_acquire(holder, NULL), SIMBA_OK);
    expect(simba_locker_acquire(holder, &error), SIMBA_EBUSY, &error);
    probe_assert_names(error.text, "held");
    expect(simba_locker_try_acquire(holder, &error), SIMBA_EBUSY, &error);
    thread = start_waiting(&waiting, client);
    expect(simba_locker_acquire_timeout(waiting.locker, 0, &error), SIMBA_EBUSY, &error);
    probe_assert_names(error.text, "under way");
    assert_int_equal(simba_locker_release(holder, NULL), SIMBA_OK);
    pthread_join(thread, NULL);
    expect(waiting.code, SIMBA_OK, &waiting.error);
    assert_true(simba_locker_is_held(waiting.locker));
    simba_locker_close(waiting.locker);
    simba_locker_close(holder);
    probe_close(client);
}

/* ---- Not acquired ---------------------------------------------------------------------------- */

static void a_try_on_an_owned_mutex_tells_who_owns_it(void **state)
{
    simba_client *client = probe_open("memory:locker?" PROBE_LONG);
    simba_locker *holder = make_locker(client, "the-holder");
    simba_locker *locker = make_locker(client, NULL);
    struct simba_error error = {0};
    struct simba_owner owner;

    assert_int_equal(simba_locker_try_acquire(holder, NULL), SIMBA_OK);
    expect(simba_locker_try_acquire(locker, &error), SIMBA_ECONTENDED, &error);
    probe_assert_names(error.text, "the-holder");
    simba_locker_owner(locker, &owner);
    assert_string_equal(owner.id, "the-holder");
    assert_false(simba_locker_is_held(locker));
    assert_false(is_waited_for(client));
    assert_int_equal(simba_locker_release(holder, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_try_acquire(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    simba_locker_close(holder);
    probe_close(client);
}

static void a_wait_that_ran_out_leaves_nothing_behind(void **state)
{
    simba_client *client = probe_open("memory:locker?" PROBE_LONG);
    simba_locker *holder = make_locker(client, "the-holder");
    simba_locker *locker = make_locker(client, NULL);
    struct probe next = {0};
    struct simba_error error = {0};
    int64_t begin = test_now_ms();

    assert_int_equal(simba_locker_acquire(holder, NULL), SIMBA_OK);
    expect(simba_locker_acquire_timeout(locker, ENOUGH_MS, &error), SIMBA_ETIMEDOUT, &error);
    assert_true(test_now_ms() - begin >= ENOUGH_MS);
    probe_assert_names(error.text, "the-holder");
    assert_false(is_waited_for(client));
    probe_create(&next, client, "m", NULL);
    probe_start(&next);
    assert_true(test_wait(is_waited_for, client));
    assert_int_equal(simba_locker_release(holder, NULL), SIMBA_OK);
    probe_wait_count(&next.acquired, 1); /* woken at once: a lease would outlast the patience */
    probe_end(&next);
    assert_true(probe_is_free(client, "m"));
    simba_locker_close(locker);
    simba_locker_close(holder);
    probe_close(client);
}

static void a_negative_time_out_is_refused(void **state)
{
    simba_client *client = probe_open("memory:locker?" PROBE_LONG);
    simba_locker *locker = make_locker(client, NULL);
    struct simba_error error = {0};

    expect(simba_locker_acquire_timeout(locker, -7, &error), SIMBA_EINVAL, &error);
    probe_assert_names(error.text, "-7");
    simba_locker_close(locker);
    probe_close(client);
}

static void a_wait_can_be_cancelled_by_another_thread(void **state)
{
    static const int64_t timeouts[] = {20000, SIMBA_INFINITE - 1, SIMBA_INFINITE};
    simba_client *client = probe_open("memory:locker?" PROBE_LONG);
    simba_locker *holder = make_locker(client, "the-holder");

    assert_int_equal(simba_locker_acquire(holder, NULL), SIMBA_OK);
    simba_locker_cancel(holder); /* harmless: it does not wait */
    assert_true(simba_locker_is_held(holder));
    for (size_t i = 0; i < TEST_COUNT(timeouts); i++) {
        struct waiting waiting = {.locker = make_locker(client, NULL), .timeout_ms = timeouts[i]};
        pthread_t thread = start_waiting(&waiting, client);

        simba_locker_cancel(waiting.locker);
        pthread_join(thread, NULL);
        expect(waiting.code, SIMBA_ECANCELED, &waiting.error);
        assert_false(is_waited_for(client));
        simba_locker_close(waiting.locker);
    }
    simba_locker_close(holder);
    probe_close(client);
}

static void a_cancel_just_before_the_acquire_is_not_lost(void **state)
{
    simba_client *client = probe_open("memory:cancel?" PROBE_LONG);
    simba_locker *holder = make_locker(client, "the-holder");
    simba_locker *locker = make_locker(client, NULL);
    struct simba_error error = {0};

    assert_int_equal(simba_locker_acquire(holder, NULL), SIMBA_OK);
    for (int i = 0; i < 3; i++) {
        simba_locker_cancel(locker);
        expect(simba_locker_acquire_timeout(locker, 2000, &error), SIMBA_ECANCELED, &error);
        expect(simba_locker_try_acquire(locker, &error), SIMBA_ECONTENDED, &error); /* only once */
    }
    assert_int_equal(simba_locker_release(holder, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    simba_locker_cancel(locker); /* harmless: it has won */
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_try_acquire(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    simba_locker_close(holder);
    probe_close(client);
}

/* ---- A store in trouble ---------------------------------------------------------------------- */

struct troubled {
    struct sb_shim *shim;
    simba_client *client;
    simba_locker *locker;
};

/* Opens the client and creates its locker, for the mutex "m". */
static void open_troubled_with(struct troubled *t, struct simba_locker_options locker_options)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    const char *url = "memory:trouble?" PROBE_SHORT;

    assert_int_equal(sb_shim_create(url, NULL, &t->shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(t->shim, url, &options, &t->client, NULL), SIMBA_OK);
    locker_options.mutex = "m";
    assert_int_equal(simba_locker_create(t->client, &locker_options, &t->locker, NULL), SIMBA_OK);
}

static void open_troubled(struct troubled *t)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    open_troubled_with(t, options);
}

static void close_troubled(struct troubled *t)
{
    sb_shim_let_go(t->shim);
    simba_locker_close(t->locker);
    probe_close(t->client);
    sb_shim_free(t->shim);
}

/* Without it an acquire waits until the store is well again. */
static void an_acquire_that_fails_fast_ends_with_the_first_failure_of_the_store(void **state)
{
    struct simba_error error = {0};
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct troubled t;

    options.fail_fast = true;
    open_troubled_with(&t, options);
    sb_shim_refuse(t.shim, SB_SHIM_ALL, SIMBA_ESTORE);
    expect(simba_locker_acquire(t.locker, &error), SIMBA_ESTORE, &error);
    sb_shim_refuse(t.shim, SB_SHIM_ALL, SIMBA_EUNAVAILABLE);
    expect(simba_locker_acquire_timeout(t.locker, ENOUGH_MS, &error), SIMBA_EUNAVAILABLE, &error);
    sb_shim_let_go(t.shim);
    assert_int_equal(simba_locker_acquire(t.locker, NULL), SIMBA_OK);
    close_troubled(&t);
}

static void the_error_of_the_store_is_told(void **state)
{
    struct simba_error error = {0};
    struct troubled t;

    open_troubled(&t);
    sb_shim_refuse(t.shim, SB_SHIM_ALL, SIMBA_EUNAVAILABLE);
    expect(simba_locker_try_acquire(t.locker, &error), SIMBA_EUNAVAILABLE, &error);
    probe_assert_names(error.text, "refused");
    expect(simba_locker_acquire_timeout(t.locker, ENOUGH_MS, &error), SIMBA_EUNAVAILABLE, &error);
    sb_shim_refuse(t.shim, SB_SHIM_ALL, SIMBA_EDENIED);
    expect(simba_locker_acquire(t.locker, &error), SIMBA_EDENIED,
           &error); /* waiting heals it not */
    sb_shim_let_go(t.shim);
    assert_int_equal(simba_locker_acquire(t.locker, NULL), SIMBA_OK);
    close_troubled(&t);
}

static bool is_not_held(void *locker)
{
    return !simba_locker_is_held(locker);
}

static uint64_t acquisitions(simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    return metrics.acquisitions;
}

/* The clock ends a lease before anybody has noticed. */
static bool is_loss_noticed(void *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    return simba_client_metrics(client, &metrics) == SIMBA_OK && metrics.losses > 0;
}

static void a_lost_lease_is_told_by_the_release_and_not_won_back(void **state)
{
    struct simba_error error = {0};
    struct troubled t;
    uint64_t fence;

    open_troubled(&t);
    assert_int_equal(simba_locker_acquire(t.locker, NULL), SIMBA_OK);
    fence = simba_locker_fence(t.locker);
    sb_shim_hold_requests(t.shim, SB_SHIM_ALL);
    assert_true(test_wait(is_not_held, t.locker));
    assert_int_equal(simba_locker_fence(t.locker), 0);
    assert_true(test_wait(is_loss_noticed, t.client));
    sb_shim_let_go(t.shim);
    probe_wait_free(t.client, "m"); /* the store is well again, and still nobody owns */
    expect(simba_locker_release(t.locker, &error), SIMBA_ELOST, &error);
    assert_int_equal(acquisitions(t.client), 1);
    assert_int_equal(simba_locker_acquire(t.locker, NULL), SIMBA_OK);
    assert_true(simba_locker_fence(t.locker) > fence);
    assert_int_equal(simba_locker_release(t.locker, NULL), SIMBA_OK);
    close_troubled(&t);
}

/* ---- on_lost --------------------------------------------------------------------------------- */

struct losses {
    atomic_uint begun;
    atomic_uint ended;
    struct gate *gate;
    simba_locker *locker;
    atomic_int release_code;
};

static void take_loss(void *user)
{
    struct losses *losses = user;

    atomic_fetch_add(&losses->begun, 1);
    if (losses->gate != NULL)
        gate_wait(losses->gate);
    if (losses->locker != NULL)
        atomic_store(&losses->release_code, simba_locker_release(losses->locker, NULL));
    atomic_fetch_add(&losses->ended, 1);
}

static void open_troubled_for(struct losses *losses, struct troubled *t)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.on_lost = take_loss;
    options.user = losses;
    open_troubled_with(t, options);
}

static void on_lost_is_called_once_and_only_for_a_loss(void **state)
{
    struct losses losses = {0};
    struct troubled t;

    open_troubled_for(&losses, &t);
    assert_int_equal(simba_locker_acquire(t.locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_release(t.locker, NULL), SIMBA_OK);
    assert_int_equal(atomic_load(&losses.begun), 0);
    assert_int_equal(simba_locker_acquire(t.locker, NULL), SIMBA_OK);
    sb_shim_hold_requests(t.shim, SB_SHIM_ALL);
    probe_wait_count(&losses.ended, 1);
    sb_shim_let_go(t.shim);
    assert_int_equal(simba_locker_release(t.locker, NULL), SIMBA_ELOST);
    assert_int_equal(atomic_load(&losses.begun), 1);
    assert_int_equal(simba_locker_acquire(t.locker, NULL), SIMBA_OK);
    close_troubled(&t); /* closes what is held, which is no loss */
    assert_int_equal(atomic_load(&losses.begun), 1);
}

static void *release_it(void *user)
{
    struct waiting *waiting = user;

    waiting->code = simba_locker_release(waiting->locker, NULL);
    return NULL;
}

static void *release_cancelled(void *user)
{
    pthread_cancel(pthread_self());
    return release_it(user);
}

static void check_release_during_on_lost(void *(*release)(void *user))
{
    struct gate gate = GATE_INIT;
    struct losses losses = {.gate = &gate};
    struct waiting releasing;
    struct troubled t;
    pthread_t thread;

    open_troubled_for(&losses, &t);
    assert_int_equal(simba_locker_acquire(t.locker, NULL), SIMBA_OK);
    sb_shim_hold_requests(t.shim, SB_SHIM_ALL);
    probe_wait_count(&losses.begun, 1);
    sb_shim_let_go(t.shim);
    releasing.locker = t.locker;
    releasing.code = SIMBA_OK;
    pthread_create(&thread, NULL, release, &releasing);
    probe_wait_free(t.client, "m");
    gate_open(&gate);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&losses.ended), 1);
    assert_int_equal(releasing.code, SIMBA_ELOST);
    close_troubled(&t);
}

static void a_release_waits_for_the_on_lost_that_runs(void **state)
{
    check_release_during_on_lost(release_it);
}

static void a_cancelled_thread_finishes_its_release(void **state)
{
    check_release_during_on_lost(release_cancelled);
}

static void on_lost_may_release(void **state)
{
    struct losses losses = {0};
    struct troubled t;

    open_troubled_for(&losses, &t);
    losses.locker = t.locker;
    assert_int_equal(simba_locker_acquire(t.locker, NULL), SIMBA_OK);
    sb_shim_refuse(t.shim, SB_SHIM_OP(SIMBA_OP_GUARD), SIMBA_EUNAVAILABLE);
    probe_wait_count(&losses.ended, 1);
    assert_int_equal(atomic_load(&losses.release_code), SIMBA_ELOST);
    close_troubled(&t);
}

/* ---- From a callback ------------------------------------------------------------------------- */

static void lock_inside(struct probe *p)
{
    if (simba_locker_acquire(p->user, NULL) != SIMBA_OK ||
        simba_locker_release(p->user, NULL) != SIMBA_OK)
        atomic_fetch_add(&p->disorder, 1);
}

static void a_callback_may_lock(void **state)
{
    simba_client *client = probe_open("memory:locker?" PROBE_LONG);
    struct probe p = {.in_acquired = lock_inside, .user = make_locker(client, NULL)};

    probe_create(&p, client, "other", NULL);
    probe_start(&p);
    probe_wait_count(&p.returned, 1);
    probe_end(&p);
    simba_locker_close(p.user);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_free_mutex_is_acquired_and_given_back),
        cmocka_unit_test(a_lease_is_renewed_until_the_release),
        cmocka_unit_test(what_was_not_acquired_cannot_be_released),
        cmocka_unit_test(a_held_locker_that_is_closed_gives_the_mutex_back),
        cmocka_unit_test(a_scope_releases_and_closes_what_it_holds),
        cmocka_unit_test(a_scope_stops_and_closes_its_services),
        cmocka_unit_test(a_second_acquirer_of_the_same_locker_is_refused),
        cmocka_unit_test(a_try_on_an_owned_mutex_tells_who_owns_it),
        cmocka_unit_test(a_wait_that_ran_out_leaves_nothing_behind),
        cmocka_unit_test(a_negative_time_out_is_refused),
        cmocka_unit_test(a_wait_can_be_cancelled_by_another_thread),
        cmocka_unit_test(a_cancel_just_before_the_acquire_is_not_lost),
        cmocka_unit_test(an_acquire_that_fails_fast_ends_with_the_first_failure_of_the_store),
        cmocka_unit_test(the_error_of_the_store_is_told),
        cmocka_unit_test(a_lost_lease_is_told_by_the_release_and_not_won_back),
        cmocka_unit_test(on_lost_is_called_once_and_only_for_a_loss),
        cmocka_unit_test(a_release_waits_for_the_on_lost_that_runs),
        cmocka_unit_test(a_cancelled_thread_finishes_its_release),
        cmocka_unit_test(on_lost_may_release),
        cmocka_unit_test(a_callback_may_lock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
