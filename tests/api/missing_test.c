/*
 * What a call answers when it is not given what it needs: SIMBA_EMISUSE, and a sentence that names
 * it.
 */
#include "lib/locker.h"
#include "probe.h"

static int idle_work(void *user, simba_scheduler *scheduler)
{
    (void)user;
    (void)scheduler;
    return 0;
}

/* The sentence of the last call names what it needs. */
static void expect_misuse(int code, struct simba_error *error, const char *word)
{
    assert_int_equal(code, SIMBA_EMISUSE);
    assert_int_equal(error->code, SIMBA_EMISUSE);
    probe_assert_names(error->text, word);
    memset(error, 0, sizeof *error);
}

static void a_question_of_a_client_needs_a_place_for_the_answer(void **state)
{
    simba_client *client = probe_open("memory:missing?" PROBE_LONG);
    struct simba_mutex_status *list;
    struct simba_waiter *waiters;
    char *words;
    struct simba_owner owner;
    struct simba_property property;
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    struct simba_error e = {0};
    int64_t ms;
    size_t n;

    expect_misuse(simba_client_status(client, "m", 100, NULL, &n, &e), &e, "ret_list");
    expect_misuse(simba_client_status(client, "m", 100, &list, NULL, &e), &e, "ret_count");
    expect_misuse(simba_client_status(NULL, "m", 100, &list, &n, &e), &e, "client");
    expect_misuse(simba_client_queue(client, "m", 100, NULL, &n, &e), &e, "ret_list");
    expect_misuse(simba_client_queue(NULL, "m", 100, &waiters, &n, &e), &e, "client");
    expect_misuse(simba_client_environment(client, "m", "i", 100, NULL, &e), &e, "ret_environ");
    expect_misuse(simba_client_environment(client, "m", NULL, 100, &words, &e), &e, "owner_id");
    expect_misuse(simba_client_force_release(client, "m", 100, NULL, &e), &e, "ret_owner");
    expect_misuse(simba_client_force_release(NULL, "m", 100, &owner, &e), &e, "client");
    expect_misuse(simba_client_property_get(NULL, "m", "p", 100, &property, &e), &e, "client");
    expect_misuse(simba_client_property_get(client, NULL, "p", 100, &property, &e), &e, "mutex");
    expect_misuse(simba_client_property_get(client, "m", "p", 100, NULL, &e), &e, "ret_property");
    expect_misuse(simba_client_property_set(NULL, "m", "p", "v", NULL, 100, &e), &e, "client");
    expect_misuse(simba_client_property_set(client, NULL, "p", "v", NULL, 100, &e), &e, "mutex");
    assert_int_equal(simba_client_metrics(client, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_client_metrics(NULL, &metrics), SIMBA_EMISUSE);
    assert_int_equal(simba_client_lease(client, NULL, &ms), SIMBA_EMISUSE);
    assert_int_equal(simba_client_lease(client, &ms, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_client_lease(NULL, &ms, &ms), SIMBA_EMISUSE);
    assert_int_equal(simba_id_host(NULL, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_id_uuid(NULL, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_id_default(NULL, NULL), SIMBA_EMISUSE);
    expect_misuse(simba_duration_parse("1s", NULL, &e), &e, "ret_ms");
    probe_close(client);
}

static void who_is_created_needs_a_client_options_and_a_handle(void **state)
{
    simba_client *client = probe_open("memory:missing?" PROBE_LONG);
    struct simba_contender_options contest = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_observer_options watch = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_scheduler_options plan = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct simba_error e = {0};
    simba_contender *contender;
    simba_observer *observer;
    simba_scheduler *scheduler;
    simba_locker *locker;

    contest.mutex = watch.mutex = plan.mutex = "m";
    plan.work = idle_work;
    plan.period_ms = 10;
    expect_misuse(simba_contender_create(NULL, &contest, &contender, &e), &e, "client");
    expect_misuse(simba_contender_create(client, &contest, NULL, &e), &e, "ret_contender");
    expect_misuse(simba_contender_create(client, NULL, &contender, &e), &e, "options");
    expect_misuse(simba_observer_create(NULL, &watch, &observer, &e), &e, "client");
    expect_misuse(simba_observer_create(client, &watch, NULL, &e), &e, "ret_observer");
    expect_misuse(simba_observer_create(client, NULL, &observer, &e), &e, "options");
    expect_misuse(simba_scheduler_create(NULL, &plan, &scheduler, &e), &e, "client");
    expect_misuse(simba_scheduler_create(client, &plan, NULL, &e), &e, "ret_scheduler");
    expect_misuse(simba_scheduler_create(client, NULL, &scheduler, &e), &e, "options");
    expect_misuse(test_locker_create(NULL, "m", NULL, &locker, &e), &e, "client");
    expect_misuse(test_locker_create(client, "m", NULL, NULL, &e), &e, "ret_locker");
    expect_misuse(simba_locker_create(client, NULL, &locker, &e), &e, "options");
    assert_int_equal(test_locker_create(client, NULL, NULL, &locker, &e), SIMBA_EINVAL);
    probe_close(client);
}

static void a_call_needs_its_handle(void **state)
{
    struct simba_error e = {0};

    expect_misuse(simba_contender_start(NULL, &e), &e, "contender");
    expect_misuse(simba_contender_stop(NULL, &e), &e, "contender");
    expect_misuse(simba_contender_last_error(NULL, &e), &e, "contender");
    expect_misuse(simba_observer_start(NULL, &e), &e, "observer");
    expect_misuse(simba_observer_stop(NULL, &e), &e, "observer");
    expect_misuse(simba_scheduler_start(NULL, &e), &e, "scheduler");
    expect_misuse(simba_scheduler_stop(NULL, &e), &e, "scheduler");
    expect_misuse(simba_locker_acquire(NULL, &e), &e, "locker");
    expect_misuse(simba_locker_acquire_timeout(NULL, 5, &e), &e, "locker");
    expect_misuse(simba_locker_try_acquire(NULL, &e), &e, "locker");
    expect_misuse(simba_locker_release(NULL, &e), &e, "locker");
    assert_int_equal(simba_locker_release(NULL, NULL), SIMBA_EMISUSE);
}

/* Their required fields lie beyond the size, so that nobody would see that they are set. */
static void options_that_are_too_small_are_told_so(void **state)
{
    simba_client *client = probe_open("memory:missing?" PROBE_LONG);
    struct simba_contender_options contest = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_observer_options watch = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_scheduler_options plan = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct simba_locker_options lock = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_error e = {0};
    simba_contender *contender;
    simba_observer *observer;
    simba_scheduler *scheduler;
    simba_locker *locker;

    contest.mutex = watch.mutex = plan.mutex = lock.mutex = "m";
    contest.size = watch.size = plan.size = lock.size = sizeof(size_t);
    expect_misuse(simba_locker_create(client, &lock, &locker, &e), &e, "too small");
    expect_misuse(simba_contender_create(client, &contest, &contender, &e), &e, "too small");
    expect_misuse(simba_observer_create(client, &watch, &observer, &e), &e, "too small");
    expect_misuse(simba_scheduler_create(client, &plan, &scheduler, &e), &e, "too small");
    contest.size = sizeof contest + 8;
    expect_misuse(simba_contender_create(client, &contest, &contender, &e), &e, "newer library");
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_of_a_client_needs_a_place_for_the_answer),
        cmocka_unit_test(who_is_created_needs_a_client_options_and_a_handle),
        cmocka_unit_test(a_call_needs_its_handle),
        cmocka_unit_test(options_that_are_too_small_are_told_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
