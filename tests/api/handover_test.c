/*
 * Requests to hand over, as the application sees them: who hears of one, which term it ends, to
 * whom the mutex passes, and what a priority does.
 */
#include "probe.h"

#include <string.h>

#define TIMEOUT_MS 5000

/* Renewed often, and not lost on a busy machine. */
#define OPTIONS "ttl=100ms&transition=10s&jitter=0ms..30ms&stop-timeout=20s"

/* A contender that takes part, and notes what it is told. */
struct part {
    simba_contender *contender;
    atomic_uint acquired;
    atomic_uint released;
    atomic_uint asked;             /* on_handover that have begun */
    atomic_uint passes;            /* on_acquired that found that the mutex should pass on */
    atomic_bool gives_way;         /* on_handover stops the contender */
    struct simba_handover request; /* of the last on_handover; read when it was counted */
};

static void on_acquired(void *user, const struct simba_state *state)
{
    struct part *part = user;

    (void)state;
    if (simba_contender_handover_asked(part->contender, NULL))
        part->passes++;
    part->acquired++;
}

static void on_released(void *user, const struct simba_state *state)
{
    (void)state;
    ((struct part *)user)->released++;
}

static void on_handover(void *user, const struct simba_handover *request)
{
    struct part *part = user;

    part->request = *request;
    part->asked++;
    if (part->gives_way)
        simba_contender_stop(part->contender, NULL);
}

static void join(struct part *part, simba_client *client, const char *id, int priority,
                 int64_t after_ms)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error = {.text = ""};

    options.mutex = "m";
    options.id = id;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.on_handover = on_handover;
    options.priority = priority;
    options.priority_after_ms = after_ms;
    options.user = part;
    part->gives_way = true;
    assert_int_equal(simba_contender_create(client, &options, &part->contender, &error), SIMBA_OK);
    assert_int_equal(simba_contender_start(part->contender, &error), SIMBA_OK);
}

struct place {
    const simba_contender *contender;
    int64_t expected;
};

static bool has_place(void *user)
{
    const struct place *place = user;

    return simba_contender_place(place->contender) == place->expected;
}

static void wait_place(const struct part *part, int64_t expected)
{
    struct place place = {part->contender, expected};

    assert_true(test_wait(has_place, &place));
}

static struct simba_handover request_to(const struct part *owner, const char *to)
{
    struct simba_handover request = SIMBA_HANDOVER_NONE;

    strcpy(request.owner, simba_contender_id(owner->contender));
    request.fence = simba_contender_fence(owner->contender);
    strcpy(request.to, to);
    strcpy(request.by, "a person (with a note)");
    request.left_ms = 60000;
    return request;
}

static void ask(simba_client *client, const struct simba_handover *request)
{
    struct simba_error error = {.text = ""};

    assert_int_equal(simba_client_handover_ask(client, "m", request, TIMEOUT_MS, &error), SIMBA_OK);
}

struct renewals {
    simba_client *client;
    uint64_t expected;
};

static bool has_renewals(void *user)
{
    const struct renewals *renewals = user;
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    simba_client_metrics(renewals->client, &metrics);
    return metrics.renewals >= renewals->expected;
}

/* Waits for that many renewals of the client's owner: each comes with a look. */
static void wait_renewals(simba_client *client, uint64_t count)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    simba_client_metrics(client, &metrics);
    struct renewals renewals = {client, metrics.renewals + count};
    assert_true(test_wait(has_renewals, &renewals));
}

static void an_owner_hears_of_a_request_and_gives_way(void **state)
{
    simba_client *client = probe_open("memory:hears?" OPTIONS);
    struct simba_handover request;
    struct part a = {0};
    struct part b = {0};

    (void)state;
    join(&a, client, "a", 0, SIMBA_UNSET);
    probe_wait_count(&a.acquired, 1);
    join(&b, client, "b", 0, SIMBA_UNSET);
    wait_place(&b, 1);
    request = request_to(&a, "");
    ask(client, &request);
    probe_wait_count(&b.acquired, 1);
    assert_int_equal(a.asked, 1);
    assert_int_equal(a.released, 1);
    assert_int_equal(b.asked, 0);
    assert_string_equal(a.request.owner, "a");
    assert_string_equal(a.request.to, "");
    assert_string_equal(a.request.by, "a person (with a note)");
    assert_int_equal(a.request.priority, -1);
    assert_true(a.request.left_ms > 0 && a.request.left_ms <= 60000);
    simba_contender_close(a.contender);
    simba_contender_close(b.contender);
    probe_close(client);
}

static bool has_passed(void *user)
{
    return simba_now_ms() >= *(int64_t *)user;
}

/* The first in its first moments, the second when the owner follows what is told of the mutex. */
static void an_owner_that_never_renews_hears_of_two_requests(void **state)
{
    simba_client *client = probe_open("memory:rarely?ttl=1h&transition=1h&stop-timeout=20s");
    struct simba_handover request;
    struct part a = {0};

    (void)state;
    join(&a, client, "a", 0, SIMBA_UNSET);
    a.gives_way = false;
    probe_wait_count(&a.acquired, 1);
    request = request_to(&a, "");
    ask(client, &request);
    probe_wait_count(&a.asked, 1);
    assert_int_equal(simba_contender_stop(a.contender, NULL), SIMBA_OK);
    assert_int_equal(simba_contender_start(a.contender, NULL), SIMBA_OK);
    probe_wait_count(&a.acquired, 2);
    assert_true(test_wait(has_passed, &(int64_t){simba_now_ms() + 1000}));
    request = request_to(&a, "");
    ask(client, &request);
    probe_wait_count(&a.asked, 2);
    simba_contender_close(a.contender);
    probe_close(client);
}

static void the_mutex_passes_on_to_the_waiter_that_is_named(void **state)
{
    simba_client *client = probe_open("memory:named?" OPTIONS);
    struct simba_handover request;
    struct part a = {0};
    struct part b = {0};
    struct part c = {0};

    (void)state;
    join(&a, client, "a", 0, SIMBA_UNSET);
    probe_wait_count(&a.acquired, 1);
    join(&b, client, "b", 0, SIMBA_UNSET);
    wait_place(&b, 1);
    join(&c, client, "c", 0, SIMBA_UNSET);
    wait_place(&c, 2);
    request = request_to(&a, "c");
    ask(client, &request);
    probe_wait_count(&c.acquired, 1);
    assert_int_equal(b.acquired, 1);
    assert_int_equal(b.passes, 1);
    assert_int_equal(b.released, 1);
    assert_int_equal(c.passes, 0);
    /* One that has passed it on keeps it the next time: the one that was named may be dead. */
    assert_int_equal(simba_contender_start(b.contender, NULL), SIMBA_OK);
    wait_place(&b, 1);
    simba_contender_close(c.contender);
    probe_wait_count(&b.acquired, 2);
    assert_int_equal(b.passes, 1);
    wait_renewals(client, 3);
    assert_int_equal(b.asked, 1);
    simba_contender_close(a.contender);
    simba_contender_close(b.contender);
    probe_close(client);
}

static void assert_not_obeyed(simba_client *client, struct part *a,
                              const struct simba_handover *request)
{
    ask(client, request);
    wait_renewals(client, 3);
    assert_int_equal(a->asked, 0);
    assert_false(simba_contender_handover_asked(a->contender, NULL));
    assert_true(simba_contender_is_owner(a->contender));
}

static void a_request_ends_no_other_term(void **state)
{
    simba_client *client = probe_open("memory:terms?" OPTIONS);
    struct simba_handover request;
    struct part a = {0};

    (void)state;
    join(&a, client, "a", 0, SIMBA_UNSET);
    probe_wait_count(&a.acquired, 1);
    struct simba_handover earlier = request_to(&a, "");
    assert_int_equal(simba_contender_stop(a.contender, NULL), SIMBA_OK);
    assert_int_equal(simba_contender_start(a.contender, NULL), SIMBA_OK);
    probe_wait_count(&a.acquired, 2);
    assert_not_obeyed(client, &a, &earlier);

    request = request_to(&a, "");
    strcpy(request.owner, "another");
    assert_not_obeyed(client, &a, &request);

    request = request_to(&a, "a");
    assert_not_obeyed(client, &a, &request);

    request = request_to(&a, "");
    request.priority = 0;
    assert_not_obeyed(client, &a, &request);

    /* The twin: the same without what is wrong with it. */
    a.gives_way = false;
    request = request_to(&a, "");
    ask(client, &request);
    probe_wait_count(&a.asked, 1);
    assert_true(simba_contender_handover_asked(a.contender, &request));
    assert_string_equal(request.owner, "a");
    wait_renewals(client, 3);
    assert_int_equal(a.asked, 1); /* once */
    assert_int_equal(simba_contender_stop(a.contender, NULL), SIMBA_OK);
    assert_false(simba_contender_handover_asked(a.contender, NULL));
    simba_contender_close(a.contender);
    probe_close(client);
}

static bool has_no_request(void *user)
{
    struct simba_handover request = SIMBA_HANDOVER_NONE;
    int code = simba_client_handover_get(user, "m", TIMEOUT_MS, &request, NULL);

    return code == SIMBA_OK && request.owner[0] == '\0';
}

static void a_request_that_is_over_or_makes_no_sense_is_none(void **state)
{
    simba_client *client = probe_open("memory:sense?" OPTIONS);
    static const char *const wrong[] = {
        "",
        "1",
        "2 0 60000 -1 1 0 a",
        "1 0 60000 -1 1 0",
        "1 0 60000 -1 2 0 a",
        "1 0 60000 -1 0 0 a",
        "1 0 60000 -2 1 0 a",
        "1 0 0 -1 1 0 a",
        "1 0 999999999999 -1 1 0 a",
        "1 99999999999999999999 60000 -1 1 0 a",
        "1 -1 60000 -1 1 0 a",
        "1 0 60000 -1 1 9 ab",
        "1 0 60000 -1 4 0 a@@b",
    };
    struct simba_handover request;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(
            simba_client_property_set(client, "m", "handover", wrong[i], NULL, TIMEOUT_MS, NULL),
            SIMBA_OK);
        assert_int_equal(simba_client_handover_get(client, "m", TIMEOUT_MS, &request, NULL),
                         SIMBA_OK);
        if (request.owner[0] != '\0')
            fail_msg("\"%s\" is taken for a request", wrong[i]);
    }
    assert_int_equal(simba_client_property_set(client, "m", "handover", "1 7 60000 -1 1 1 abc d",
                                               NULL, TIMEOUT_MS, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_client_handover_get(client, "m", TIMEOUT_MS, &request, NULL), SIMBA_OK);
    assert_string_equal(request.owner, "a");
    assert_string_equal(request.to, "b");
    assert_string_equal(request.by, "c d");
    assert_true(request.fence == 7);

    request.left_ms = 1;
    ask(client, &request);
    assert_true(test_wait(has_no_request, client));
    probe_close(client);
}

static void what_cannot_be_asked_is_refused(void **state)
{
    simba_client *client = probe_open("memory:refused?" OPTIONS);
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_handover request = SIMBA_HANDOVER_NONE;
    simba_contender *contender = NULL;

    (void)state;
    request.left_ms = 1000;
    assert_int_equal(simba_client_handover_ask(client, "m", &request, TIMEOUT_MS, NULL),
                     SIMBA_EINVAL); /* of nobody */
    strcpy(request.owner, "a");
    request.left_ms = 0;
    assert_int_equal(simba_client_handover_ask(client, "m", &request, TIMEOUT_MS, NULL),
                     SIMBA_EINVAL);
    assert_int_equal(simba_client_handover_ask(client, "m", NULL, TIMEOUT_MS, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_client_handover_get(client, "m", TIMEOUT_MS, NULL, NULL), SIMBA_EMISUSE);
    options.mutex = "m";
    options.priority = 1;
    assert_int_equal(simba_contender_create(client, &options, &contender, NULL), SIMBA_EINVAL);
    options.on_handover = on_handover;
    options.priority = -1;
    assert_int_equal(simba_contender_create(client, &options, &contender, NULL), SIMBA_EINVAL);
    options.priority = 1;
    options.priority_after_ms = 0;
    assert_int_equal(simba_contender_create(client, &options, &contender, NULL), SIMBA_EINVAL);
    options.on_handover = NULL;
    options.priority = 0;
    options.priority_after_ms = SIMBA_UNSET;
    assert_int_equal(simba_contender_create(client, &options, &contender, NULL), SIMBA_OK);
    assert_int_equal(simba_contender_set_priority(contender, 1, NULL), SIMBA_ESTATE);
    assert_false(simba_contender_handover_asked(contender, NULL));
    simba_contender_close(contender);
    probe_close(client);
}

static void a_higher_priority_gets_it_and_an_equal_one_does_not(void **state)
{
    simba_client *client = probe_open("memory:priority?" OPTIONS);
    struct part low = {0};
    struct part equal = {0};
    struct part high = {0};

    (void)state;
    join(&low, client, "low", 1, 200);
    probe_wait_count(&low.acquired, 1);
    join(&equal, client, "equal", 1, 200);
    wait_place(&equal, 1);
    wait_renewals(client, 8); /* it asks, and the owner looks */
    assert_true(simba_contender_is_owner(low.contender));
    assert_int_equal(low.asked, 0);
    join(&high, client, "high", 2, 200);
    probe_wait_count(&high.acquired, 1);
    assert_int_equal(low.asked, 1);
    assert_int_equal(low.request.priority, 2);
    assert_string_equal(low.request.to, "high");
    assert_int_equal(high.passes, 0);
    simba_contender_close(high.contender);
    simba_contender_close(equal.contender);
    simba_contender_close(low.contender);
    probe_close(client);
}

/* By a host that is not well; it gets it back. */
static void a_priority_can_be_given_up(void **state)
{
    simba_client *client = probe_open("memory:given-up?" OPTIONS);
    struct part low = {0};
    struct part high = {0};

    (void)state;
    join(&low, client, "low", 0, 200);
    probe_wait_count(&low.acquired, 1);
    join(&high, client, "high", 2, 200);
    assert_int_equal(simba_contender_set_priority(high.contender, 0, NULL), SIMBA_OK);
    wait_place(&high, 1);
    wait_renewals(client, 8);
    assert_int_equal(low.asked, 0);
    assert_int_equal(simba_contender_set_priority(high.contender, 2, NULL), SIMBA_OK);
    probe_wait_count(&high.acquired, 1);
    simba_contender_close(high.contender);
    simba_contender_close(low.contender);
    probe_close(client);
}

/* ---- Lockers and schedulers ------------------------------------------------------------------ */

static void count_asked(void *user, const struct simba_handover *request)
{
    (void)request;
    (*(atomic_uint *)user)++;
}

static void a_locker_is_told(void **state)
{
    simba_client *client = probe_open("memory:locker?" OPTIONS);
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_handover request = SIMBA_HANDOVER_NONE;
    simba_locker *lock = NULL;
    atomic_uint asked = 0;

    (void)state;
    options.mutex = "m";
    options.id = "a";
    options.on_handover = count_asked;
    options.user = &asked;
    assert_int_equal(simba_locker_create(client, &options, &lock, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(lock, NULL), SIMBA_OK);
    assert_false(simba_locker_handover_asked(lock, NULL));
    strcpy(request.owner, "a");
    request.fence = simba_locker_fence(lock);
    request.left_ms = 60000;
    ask(client, &request);
    probe_wait_count(&asked, 1);
    assert_true(simba_locker_handover_asked(lock, &request));
    assert_true(simba_locker_is_held(lock)); /* nothing is taken */
    assert_int_equal(simba_locker_release(lock, NULL), SIMBA_OK);
    assert_false(simba_locker_handover_asked(lock, NULL));
    assert_int_equal(simba_locker_acquire(lock, NULL), SIMBA_OK);
    wait_renewals(client, 3);
    assert_false(simba_locker_handover_asked(lock, NULL));
    assert_int_equal(asked, 1);
    simba_locker_close(lock);
    probe_close(client);
}

struct schedule {
    simba_scheduler *scheduler;
    atomic_uint runs;
    atomic_uint told; /* runs that ended because should_stop said so */
    atomic_uint asked;
};

static bool is_told_to_stop(void *user)
{
    return simba_scheduler_should_stop(user);
}

static int work(void *user, simba_scheduler *scheduler)
{
    struct schedule *schedule = user;

    schedule->runs++;
    if (test_wait(is_told_to_stop, scheduler))
        schedule->told++;
    return 0;
}

static void stop_schedule(void *user, const struct simba_handover *request)
{
    struct schedule *schedule = user;

    (void)request;
    schedule->asked++;
    simba_scheduler_stop(schedule->scheduler, NULL);
}

static void a_scheduler_ends_its_run_and_hands_over(void **state)
{
    simba_client *client = probe_open("memory:scheduler?" OPTIONS);
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct simba_handover request = SIMBA_HANDOVER_NONE;
    struct schedule schedule = {0};

    (void)state;
    options.mutex = "m";
    options.id = "a";
    options.work = work;
    options.period_ms = 10;
    options.on_handover = stop_schedule;
    options.user = &schedule;
    assert_int_equal(simba_scheduler_create(client, &options, &schedule.scheduler, NULL), SIMBA_OK);
    assert_int_equal(simba_scheduler_start(schedule.scheduler, NULL), SIMBA_OK);
    probe_wait_count(&schedule.runs, 1);
    strcpy(request.owner, "a");
    request.fence = simba_scheduler_fence(schedule.scheduler);
    request.left_ms = 60000;
    ask(client, &request);
    probe_wait_count(&schedule.asked, 1);
    probe_wait_free(client, "m");
    assert_int_equal(schedule.runs, 1);
    assert_int_equal(schedule.told, 1);
    simba_scheduler_close(schedule.scheduler);
    probe_close(client);
}

/* Those that take no part cost the store nothing. */
static void a_contender_without_the_callback_reads_nothing(void **state)
{
    simba_client *client = probe_open("memory:silent?" OPTIONS);
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    struct probe plain = {0};

    (void)state;
    probe_create(&plain, client, "m", "a");
    probe_start(&plain);
    probe_wait_owner(&plain);
    wait_renewals(client, 4);
    simba_client_metrics(client, &metrics);
    /* the acquisition, the renewals, and perhaps one that is under way */
    assert_true(metrics.operation.count <= metrics.renewals + 2);
    probe_end(&plain);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_hears_of_a_request_and_gives_way),
        cmocka_unit_test(an_owner_that_never_renews_hears_of_two_requests),
        cmocka_unit_test(the_mutex_passes_on_to_the_waiter_that_is_named),
        cmocka_unit_test(a_request_ends_no_other_term),
        cmocka_unit_test(a_request_that_is_over_or_makes_no_sense_is_none),
        cmocka_unit_test(what_cannot_be_asked_is_refused),
        cmocka_unit_test(a_higher_priority_gets_it_and_an_equal_one_does_not),
        cmocka_unit_test(a_priority_can_be_given_up),
        cmocka_unit_test(a_locker_is_told),
        cmocka_unit_test(a_scheduler_ends_its_run_and_hands_over),
        cmocka_unit_test(a_contender_without_the_callback_reads_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
