/*
 * The client: what it refuses and how it says so, what it leaves behind, and its status list.
 */
#include "lib/process.h"
#include "probe.h"

#include "lib/locker.h"
#include "tck/shim.h"

#include <simba/backend.h>

#include <fcntl.h>

/* ---- Opening --------------------------------------------------------------------------------- */

static void expect_refusal(const char *url, const struct simba_client_options *options, int code,
                           const char *const words[])
{
    simba_client *const untouched = (simba_client *)(uintptr_t)1;
    simba_client *client = untouched;
    struct simba_error error = {0};

    if (simba_client_open(url, options, &client, &error) != code)
        fail_msg("'%s': code %d was expected, not: %d, %s", url, code, error.code, error.text);
    assert_ptr_equal(client, untouched);
    assert_int_equal(error.code, code);
    for (; *words != NULL; words++)
        probe_assert_names(error.text, *words);
}

static void bad_urls_are_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *url;
        int code;
        const char *words[4];
    } cases[] = {
        {"", SIMBA_EINVAL, {"scheme", NULL}},
        {"memory", SIMBA_EINVAL, {"scheme", NULL}},
        {"nosuch:store", SIMBA_ECONFIG, {"nosuch", NULL}},
        {"memory:a?colour=red", SIMBA_ECONFIG, {"colour", "memory", NULL}},
        {"memory:a?ttl=soon", SIMBA_EINVAL, {"soon", NULL}},
        {"memory:a?ttl=0", SIMBA_EINVAL, {"ttl", "0", "1ms", NULL}},
        {"memory:a?ttl=-1s", SIMBA_EINVAL, {"ttl", "-1s", NULL}},
        {"memory:a?ttl=9999d", SIMBA_EINVAL, {"ttl", "9999d", "year", NULL}},
        {"memory:a?ttl=99999999999999999999s", SIMBA_EINVAL, {"99999999999999999999s", NULL}},
        {"memory:a?transition=-5s", SIMBA_EINVAL, {"transition", "-5s", NULL}},
        {"memory:a?ttl=10s&transition=50ms", SIMBA_EINVAL, {"50ms", "10s", "margin", NULL}},
        {"memory:a?ttl=10s&transition=0", SIMBA_EINVAL, {"transition", "margin", NULL}},
        {"memory:a?initial-delay=-1ms", SIMBA_EINVAL, {"initial-delay", "-1ms", NULL}},
        {"memory:a?stop-timeout=0", SIMBA_EINVAL, {"stop-timeout", "1ms", NULL}},
        {"memory:a?jitter=5s", SIMBA_ECONFIG, {"jitter", "5s", NULL}},
        {"memory:a?jitter=1s..-1s", SIMBA_EINVAL, {"jitter", "-1s", NULL}},
        {"memory:a?turn=soon", SIMBA_EINVAL, {"soon", NULL}},
        {"memory:a?turn=-1ms", SIMBA_EINVAL, {"turn", "-1ms", NULL}},
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        expect_refusal(cases[i].url, NULL, cases[i].code, cases[i].words);
}

static void options_go_before_the_url_and_keep_its_rules(void **state)
{
    static const char *const words[] = {"transition", "30ms", "10s", NULL};
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    options.transition_ms = 30;
    expect_refusal("memory:a?ttl=10s&transition=5s", &options, SIMBA_EINVAL, words);
    options.transition_ms = 5000;
    options.turn_ms = 5;
    probe_close(probe_open_with("memory:a?ttl=10s&transition=30ms&turn=-1ms", &options));
}

static void a_number_of_threads_must_be_sensible(void **state)
{
    static const char *const words[] = {"dispatcher_threads", "-3", NULL};
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    options.dispatcher_threads = -3;
    expect_refusal("memory:a", &options, SIMBA_EINVAL, words);
}

static void a_log_level_must_be_one(void **state)
{
    static const char *const words[] = {"log level", NULL};
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    options.log_level = (enum simba_log_level)99;
    expect_refusal("memory:a", &options, SIMBA_EINVAL, words);
    options.log_level = (enum simba_log_level) - 1;
    expect_refusal("memory:a", &options, SIMBA_EINVAL, words);
}

static void options_of_an_older_library_are_taken_as_far_as_they_go(void **state)
{
    static const char *const words[] = {"too small", "SIMBA_CLIENT_OPTIONS_INIT", NULL};
    static const char *const newer[] = {"built for a newer library", NULL};
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    options.dispatcher_threads = -3; /* beyond the size, hence not seen */
    options.size = offsetof(struct simba_client_options, dispatcher_threads);
    probe_close(probe_open_with("memory:a", &options));
    options.size = sizeof options.size;
    probe_close(probe_open_with("memory:a", &options));
    options.size = 0;
    expect_refusal("memory:a", &options, SIMBA_EMISUSE, words);
    options.size = sizeof options + 8;
    expect_refusal("memory:a", &options, SIMBA_EMISUSE, newer);
}

/* Its functions would be called. */
static void a_backend_that_is_not_whole_is_refused(void **state)
{
    const char *const words[] = {"backend", NULL};
    struct simba_backend_ops older = *simba_backend_find("memory");
    struct simba_backend_ops less = older;
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    older.abi = SIMBA_BACKEND_ABI - 1;
    options.backend = &older;
    expect_refusal("memory:a", &options, SIMBA_EINVAL, words);
    less.submit = NULL;
    options.backend = &less;
    expect_refusal("memory:a", &options, SIMBA_EINVAL, words);
}

static void a_client_needs_a_url_and_a_place_for_the_result(void **state)
{
    simba_client *client;

    assert_int_equal(simba_client_open(NULL, NULL, &client, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_client_open("memory:a", NULL, NULL, NULL), SIMBA_EMISUSE);
}

/* ---- Closing --------------------------------------------------------------------------------- */

static int idle_work(void *user, simba_scheduler *scheduler)
{
    (void)user;
    (void)scheduler;
    return 0;
}

static void expect_busy(simba_client *client)
{
    struct simba_error error = {0};

    assert_int_equal(simba_client_close(client, &error), SIMBA_EBUSY);
    probe_assert_names(error.text, "1 object");
}

static void a_client_with_open_handles_is_not_closed(void **state)
{
    struct simba_observer_options observer_options = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_scheduler_options scheduler_options = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_client *client = probe_open("memory:a?" PROBE_LONG);
    struct probe p = {0};
    simba_observer *observer;
    simba_scheduler *scheduler;
    simba_locker *locker;

    probe_create(&p, client, "m", NULL);
    expect_busy(client);
    probe_end(&p);
    observer_options.mutex = "m";
    assert_int_equal(simba_observer_create(client, &observer_options, &observer, NULL), SIMBA_OK);
    expect_busy(client);
    simba_observer_close(observer);
    assert_int_equal(test_locker_create(client, "m", NULL, &locker, NULL), SIMBA_OK);
    expect_busy(client);
    simba_locker_close(locker);
    scheduler_options.mutex = "m";
    scheduler_options.work = idle_work;
    scheduler_options.period_ms = 1000;
    assert_int_equal(simba_scheduler_create(client, &scheduler_options, &scheduler, NULL),
                     SIMBA_OK);
    expect_busy(client);
    simba_scheduler_close(scheduler);
    probe_close(client);
}

static void destructors_take_null(void **state)
{
    assert_int_equal(simba_client_close(NULL, NULL), SIMBA_OK);
    simba_contender_close(NULL);
    simba_observer_close(NULL);
    simba_locker_close(NULL);
    simba_scheduler_close(NULL);
    simba_free(NULL);
}

static atomic_int close_code;

static void close_client(struct probe *p)
{
    atomic_store(&close_code, simba_client_close(p->user, NULL));
}

static void a_client_is_not_closed_from_a_callback(void **state)
{
    simba_client *client = probe_open("memory:a?" PROBE_LONG);
    struct probe p = {.in_acquired = close_client, .user = client};

    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.returned, 1);
    assert_int_equal(atomic_load(&close_code), SIMBA_EMISUSE);
    probe_end(&p);
    probe_close(client);
}

static void a_closed_client_leaves_no_thread_and_no_descriptor(void **state)
{
    int threads = test_thread_count();
    int descriptors = test_descriptor_count();
    struct simba_error error;
    simba_client *client;

    assert_true(threads > 0 && descriptors > 0);
    for (int i = 0; i < 3; i++) {
        struct probe p = {0};

        client = probe_open("memory:a?" PROBE_LONG);
        probe_create(&p, client, "m", NULL);
        probe_start(&p);
        probe_wait_owner(&p);
        probe_end(&p);
        probe_close(client);
        assert_int_equal(simba_client_open("memory:a?colour=red", NULL, &client, &error),
                         SIMBA_ECONFIG);
    }
    assert_int_equal(test_thread_count(), threads);
    assert_int_equal(test_descriptor_count(), descriptors);
}

static void descriptors_are_closed_on_exec(void **state)
{
    simba_client *client = probe_open("memory:a");

    for (int fd = 3; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);
        char link[64];
        char target[64] = "";

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (flags < 0 || readlink(link, target, sizeof target - 1) < 0)
            continue;
        if (strstr(target, "event") != NULL || strstr(target, "timerfd") != NULL)
            assert_true((flags & FD_CLOEXEC) != 0);
    }
    probe_close(client);
}

/* ---- Status ---------------------------------------------------------------------------------- */

static void the_status_list_is_sorted_and_tells_owner_and_token(void **state)
{
    simba_client *client = probe_open("memory:status?" PROBE_LONG);
    struct simba_mutex_status *list = NULL;
    struct probe b = {0};
    struct probe a = {0};
    size_t count = 0;

    assert_int_equal(simba_client_status(client, NULL, 1000, &list, &count, NULL), SIMBA_OK);
    assert_int_equal(count, 0);
    simba_free(list);
    probe_create(&b, client, "b", "id-of-b");
    probe_create(&a, client, "a", "id-of-a");
    probe_start(&b);
    probe_wait_owner(&b);
    probe_start(&a);
    probe_wait_owner(&a);
    probe_stop(&a);
    assert_int_equal(simba_client_status(client, NULL, 1000, &list, &count, NULL), SIMBA_OK);
    assert_int_equal(count, 2);
    assert_string_equal(list[0].mutex, "a");
    assert_string_equal(list[0].owner.id, "");
    assert_string_equal(list[1].mutex, "b");
    assert_string_equal(list[1].owner.id, "id-of-b");
    assert_int_equal(list[1].owner.fence, simba_contender_fence(b.contender));
    assert_true(simba_owner_is_in_ttl(&list[1].owner, simba_now_ms()));
    simba_free(list);
    probe_end(&a);
    probe_end(&b);
    probe_close(client);
}

static void the_status_of_an_unknown_mutex_is_free(void **state)
{
    simba_client *client = probe_open("memory:status?" PROBE_LONG);

    assert_true(probe_is_free(client, "never-seen"));
    probe_close(client);
}

struct length_wait {
    simba_client *client;
    size_t length;
};

static bool has_length(void *user)
{
    const struct length_wait *wait = user;
    struct simba_waiter *queue = NULL;
    size_t count = 0;

    assert_int_equal(simba_client_queue(wait->client, "m", 1000, &queue, &count, NULL), SIMBA_OK);
    simba_free(queue);
    return count == wait->length;
}

static void the_queue_tells_who_waits_in_order(void **state)
{
    simba_client *client = probe_open("memory:queue?" PROBE_LONG);
    static const char *const ids[] = {"owner", "z", "a"};
    struct probe probes[TEST_COUNT(ids)] = {0};
    struct simba_waiter *queue = NULL;
    struct simba_error error = {0};
    size_t count = 77;

    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        struct length_wait wait = {client, i};

        probe_create(&probes[i], client, "m", ids[i]);
        probe_start(&probes[i]);
        if (i == 0)
            probe_wait_owner(&probes[i]);
        assert_true(test_wait(has_length, &wait));
    }
    assert_int_equal(simba_client_queue(client, "m", 1000, &queue, &count, NULL), SIMBA_OK);
    assert_int_equal(count, 2);
    assert_string_equal(queue[0].id, "z");
    assert_string_equal(queue[1].id, "a");
    simba_free(queue);
    queue = NULL;
    count = 77;
    assert_int_equal(simba_client_queue(client, NULL, 1, &queue, &count, &error), SIMBA_EMISUSE);
    assert_int_equal(simba_client_queue(client, "\n", 1, &queue, &count, &error), SIMBA_EINVAL);
    assert_null(queue);
    assert_int_equal(count, 77);
    for (size_t i = 0; i < TEST_COUNT(ids); i++)
        probe_end(&probes[i]);
    probe_close(client);
}

static void the_status_call_checks_what_it_is_given(void **state)
{
    simba_client *client = probe_open("memory:status?" PROBE_LONG);
    struct simba_mutex_status *list = NULL;
    struct simba_error error = {0};
    size_t count = 77;

    assert_int_equal(simba_client_status(client, "a", -5, &list, &count, &error), SIMBA_EINVAL);
    probe_assert_names(error.text, "-5");
    assert_int_equal(simba_client_status(client, "\n", 5, &list, &count, &error), SIMBA_EINVAL);
    assert_null(list);
    assert_int_equal(count, 77);
    assert_int_equal(simba_client_status(client, "a", SIMBA_INFINITE - 1, &list, &count, NULL),
                     SIMBA_OK);
    simba_free(list);
    probe_close(client);
}

static void a_status_that_gets_no_answer_is_given_up(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_mutex_status *list = NULL;
    struct simba_error error = {0};
    struct sb_shim *shim;
    simba_client *client;
    size_t count = 0;

    assert_int_equal(sb_shim_create("memory:status", NULL, &shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(shim, "memory:status", &options, &client, NULL), SIMBA_OK);
    sb_shim_hold_replies(shim, SB_SHIM_ALL);
    assert_int_equal(simba_client_status(client, "a", 30, &list, &count, &error),
                     SIMBA_EUNAVAILABLE);
    probe_assert_names(error.text, "30 ms");
    sb_shim_let_go(shim); /* the late answer finds nobody who waits */
    probe_close(client);
    sb_shim_free(shim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_urls_are_refused_with_a_sentence),
        cmocka_unit_test(options_go_before_the_url_and_keep_its_rules),
        cmocka_unit_test(a_number_of_threads_must_be_sensible),
        cmocka_unit_test(a_log_level_must_be_one),
        cmocka_unit_test(options_of_an_older_library_are_taken_as_far_as_they_go),
        cmocka_unit_test(a_backend_that_is_not_whole_is_refused),
        cmocka_unit_test(a_client_needs_a_url_and_a_place_for_the_result),
        cmocka_unit_test(a_client_with_open_handles_is_not_closed),
        cmocka_unit_test(destructors_take_null),
        cmocka_unit_test(a_client_is_not_closed_from_a_callback),
        cmocka_unit_test(a_closed_client_leaves_no_thread_and_no_descriptor),
        cmocka_unit_test(descriptors_are_closed_on_exec),
        cmocka_unit_test(the_status_list_is_sorted_and_tells_owner_and_token),
        cmocka_unit_test(the_status_of_an_unknown_mutex_is_free),
        cmocka_unit_test(the_queue_tells_who_waits_in_order),
        cmocka_unit_test(the_status_call_checks_what_it_is_given),
        cmocka_unit_test(a_status_that_gets_no_answer_is_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
