/*
 * What a client offers beside its objects: metrics, the log hook and the makers of ids.
 */
#include "probe.h"

#include "lib/locker.h"
#include "tck/shim.h"

#include <time.h>

/* ---- Metrics --------------------------------------------------------------------------------- */

static uint64_t sum_of_buckets(const struct simba_histogram *histogram)
{
    uint64_t sum = 0;

    for (int i = 0; i < SIMBA_HISTOGRAM_BUCKETS; i++)
        sum += histogram->bucket[i];
    return sum;
}

static void metrics_follow_a_term(void **state)
{
    simba_client *client = probe_open("memory:metrics?" PROBE_LONG);
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    struct probe p = {0};

    (void)state;
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_owner(&p);
    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    assert_int_equal(metrics.acquisitions, 1);
    assert_int_equal(metrics.owned, 1);
    assert_int_equal(metrics.contenders, 1);
    assert_int_equal(metrics.releases, 0);
    assert_int_equal(metrics.contention.count, 1);
    probe_stop(&p);
    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    assert_int_equal(metrics.owned, 0);
    assert_int_equal(metrics.contenders, 0);
    assert_int_equal(metrics.releases, 1);
    assert_int_equal(metrics.losses, 0);
    assert_int_equal(metrics.errors, 0);
    assert_int_equal(metrics.operation.count, 2);
    assert_int_equal(sum_of_buckets(&metrics.operation), metrics.operation.count);
    probe_end(&p);
    probe_close(client);
}

static void metrics_count_renewals_errors_and_losses(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    const char *url = "memory:metrics?" PROBE_SHORT;
    struct sb_shim *shim;
    simba_client *client;
    struct probe p = {0};

    (void)state;
    assert_int_equal(sb_shim_create(url, NULL, &shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(shim, url, &options, &client, NULL), SIMBA_OK);
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    while (metrics.renewals < 2) {
        assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
        test_pause_ms(5);
    }
    sb_shim_refuse(shim, SB_SHIM_ALL, SIMBA_EUNAVAILABLE);
    probe_wait_count(&p.released, 1);
    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    assert_int_equal(metrics.losses, metrics.acquisitions);
    assert_true(metrics.errors > 0);
    sb_shim_let_go(shim);
    probe_end(&p);
    probe_close(client);
    sb_shim_free(shim);
}

static void metrics_fill_only_what_fits(void **state)
{
    simba_client *client = probe_open("memory:metrics");
    struct simba_metrics metrics;

    (void)state;
    memset(&metrics, 0x55, sizeof metrics);
    metrics.size = offsetof(struct simba_metrics, losses);
    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    assert_int_equal(metrics.acquisitions, 0);
    assert_int_equal(metrics.losses, UINT64_C(0x5555555555555555));
    metrics.size = 0;
    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_EMISUSE);
    probe_close(client);
}

/* ---- Logging --------------------------------------------------------------------------------- */

struct lines {
    atomic_uint count;
    atomic_uint with_mutex;
    atomic_uint too_detailed;
};

static void take_line(void *user, enum simba_log_level level, const char *line)
{
    struct lines *lines = user;

    atomic_fetch_add(&lines->count, 1);
    if (strstr(line, "logged-mutex") != NULL)
        atomic_fetch_add(&lines->with_mutex, 1);
    if (level > SIMBA_LOG_INFO || strchr(line, '\n') != NULL)
        atomic_fetch_add(&lines->too_detailed, 1);
}

static void lead_once(const struct simba_client_options *options)
{
    simba_client *client = probe_open_with("memory:log?" PROBE_LONG, options);
    struct probe p = {0};

    probe_create(&p, client, "logged-mutex", NULL);
    probe_start(&p);
    probe_wait_owner(&p);
    probe_stop(&p);
    probe_end(&p);
    probe_close(client);
}

static int fail_work(void *user, simba_scheduler *scheduler)
{
    (void)user;
    (void)scheduler;
    return 7;
}

/* ---- Names and times for logs ---------------------------------------------------------------- */

static void every_object_knows_its_mutex_and_id(void **state)
{
    simba_client *client = probe_open("memory:names?" PROBE_LONG);
    struct simba_observer_options watch = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_scheduler_options plan = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_observer *observer;
    simba_scheduler *scheduler;
    simba_locker *locker;

    (void)state;
    watch.mutex = "watched";
    plan.mutex = "scheduled";
    plan.id = "worker-1";
    plan.work = fail_work;
    plan.period_ms = 1000;
    assert_int_equal(simba_observer_create(client, &watch, &observer, NULL), SIMBA_OK);
    assert_int_equal(simba_scheduler_create(client, &plan, &scheduler, NULL), SIMBA_OK);
    assert_int_equal(test_locker_create(client, "locked", NULL, &locker, NULL), SIMBA_OK);
    assert_string_equal(simba_observer_mutex(observer), "watched");
    assert_string_equal(simba_scheduler_mutex(scheduler), "scheduled");
    assert_string_equal(simba_scheduler_id(scheduler), "worker-1");
    assert_string_equal(simba_locker_mutex(locker), "locked");
    simba_observer_close(observer);
    simba_scheduler_close(scheduler);
    simba_locker_close(locker);
    probe_close(client);
}

static void times_can_be_told_by_the_wall_clock(void **state)
{
    int64_t now_ms = simba_now_ms();
    time_t wall = time(NULL);

    (void)state;
    assert_in_range(simba_wall_ms(now_ms) / 1000 - wall + 10, 0, 20);
    assert_in_range(simba_wall_ms(now_ms + 60000) - simba_wall_ms(now_ms) - 60000 + 5000, 0, 10000);
    assert_true(simba_wall_ms(SIMBA_INFINITE) == SIMBA_INFINITE);
}

/* ---- What to be woken for -------------------------------------------------------------------- */

/* How many lines of each level had the text. */
struct heard {
    const char *text;
    atomic_uint errors;
    atomic_uint others;
};

static void hear(void *user, enum simba_log_level level, const char *line)
{
    struct heard *heard = user;

    if (strstr(line, heard->text) != NULL)
        atomic_fetch_add(level == SIMBA_LOG_ERROR ? &heard->errors : &heard->others, 1);
}

static struct simba_client_options heard_by(struct heard *heard)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    options.log = hear;
    options.log_user = heard;
    options.log_level = SIMBA_LOG_WARN;
    return options;
}

/* A contender for `m` on a store that can be made to fail. */
static simba_client *open_shim(const char *url, const struct simba_client_options *options,
                               struct sb_shim **ret_shim, struct probe *probe)
{
    simba_client *client = NULL;

    assert_int_equal(sb_shim_create(url, NULL, ret_shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(*ret_shim, url, options, &client, NULL), SIMBA_OK);
    probe_create(probe, client, "m", NULL);
    return client;
}

static void a_lost_lease_is_an_error(void **state)
{
    struct heard heard = {.text = "lost the lease: it was not renewed in time"};
    struct simba_client_options options = heard_by(&heard);
    const char *url = "memory:lost?" PROBE_SHORT;
    struct sb_shim *shim;
    simba_client *client;
    struct probe p = {0};

    (void)state;
    client = open_shim(url, &options, &shim, &p);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    sb_shim_hold_requests(shim, SB_SHIM_ALL);
    probe_wait_count(&heard.errors, 1);
    sb_shim_let_go(shim);
    probe_end(&p);
    probe_close(client);
    sb_shim_free(shim);
    assert_int_equal(atomic_load(&heard.others), 0);
}

static void a_store_that_fails_for_longer_than_a_lease_is_an_error(void **state)
{
    struct heard heard = {.text = "cannot acquire"};
    struct simba_client_options options = heard_by(&heard);
    const char *url = "memory:away?" PROBE_SHORT;
    struct sb_shim *shim;
    simba_client *client;
    struct probe p = {0};
    int64_t began_ms;

    (void)state;
    client = open_shim(url, &options, &shim, &p);
    sb_shim_refuse(shim, SB_SHIM_ALL, SIMBA_EUNAVAILABLE);
    began_ms = simba_now_ms();
    probe_start(&p);
    probe_wait_count(&heard.errors, 1);
    assert_true(simba_now_ms() - began_ms >= 700); /* ttl and transition of PROBE_SHORT */
    assert_int_equal(atomic_load(&heard.others), 1);
    sb_shim_let_go(shim);
    probe_wait_owner(&p);
    probe_end(&p);
    probe_close(client);
    sb_shim_free(shim);
    assert_int_equal(atomic_load(&heard.errors), 1);
}

static bool has_failed(void *user)
{
    struct simba_error error;

    return simba_contender_last_error(user, &error) != SIMBA_OK;
}

/* The first failure is warned of, and so is the end of the failures: once. */
static void the_end_of_an_outage_is_told_once(void **state)
{
    struct heard heard = {.text = "mutex 'm': the store answers again"};
    struct simba_client_options options = heard_by(&heard);
    const char *url = "memory:back?" PROBE_SHORT;
    struct sb_shim *shim;
    simba_client *client;
    struct probe p = {0};

    (void)state;
    client = open_shim(url, &options, &shim, &p);
    sb_shim_refuse(shim, SB_SHIM_ALL, SIMBA_EUNAVAILABLE);
    probe_start(&p);
    assert_true(test_wait(has_failed, p.contender));
    assert_int_equal(atomic_load(&heard.others), 0);
    sb_shim_let_go(shim);
    probe_wait_owner(&p);
    probe_wait_count(&heard.others, 1);
    probe_end(&p);
    probe_close(client);
    sb_shim_free(shim);
    assert_int_equal(atomic_load(&heard.others), 1);
    assert_int_equal(atomic_load(&heard.errors), 0);
}

static uint64_t errors_of(simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    return metrics.errors;
}

/* An acquire may have been carried out, a look has not: two codes, one outage. */
static void an_outage_that_shows_in_two_ways_is_told_once(void **state)
{
    struct heard heard = {.text = "cannot acquire"};
    struct simba_client_options options = heard_by(&heard);
    struct sb_shim *shim;
    simba_client *client;
    struct probe p = {0};

    (void)state;
    client = open_shim("memory:two-ways?ttl=20s&transition=20s", &options, &shim, &p);
    for (uint64_t i = 0; i < 4; i++) {
        sb_shim_refuse(shim, SB_SHIM_ALL, i % 2 == 0 ? SIMBA_EUNAVAILABLE : SIMBA_ESTORE);
        if (i == 0)
            probe_start(&p);
        for (uint64_t before = errors_of(client); errors_of(client) < before + 1 + (i > 0);)
            test_pause_ms(1);
    }
    sb_shim_let_go(shim);
    probe_wait_owner(&p);
    probe_end(&p);
    probe_close(client);
    sb_shim_free(shim);
    assert_int_equal(atomic_load(&heard.others), 1);
}

static void work_that_failed_is_an_error(void **state)
{
    struct heard heard = {.text = "failed with 7"};
    struct simba_client_options options = heard_by(&heard);
    simba_client *client = probe_open_with("memory:work?" PROBE_LONG, &options);
    struct simba_scheduler_options plan = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_scheduler *scheduler;

    (void)state;
    plan.mutex = "m";
    plan.work = fail_work;
    plan.period_ms = 10;
    assert_int_equal(simba_scheduler_create(client, &plan, &scheduler, NULL), SIMBA_OK);
    assert_int_equal(simba_scheduler_start(scheduler, NULL), SIMBA_OK);
    probe_wait_count(&heard.errors, 2);
    simba_scheduler_close(scheduler);
    probe_close(client);
    assert_int_equal(atomic_load(&heard.others), 0);
}

static void wait_in_acquired(struct probe *probe)
{
    gate_wait(probe->user);
}

static void a_dropped_callback_is_an_error(void **state)
{
    struct heard heard = {.text = "is dropped"};
    struct simba_client_options options = heard_by(&heard);
    simba_client *client =
        probe_open_with("memory:drop?ttl=20s&transition=20s&stop-timeout=50ms", &options);
    struct gate gate = GATE_INIT;
    struct probe p = {.in_acquired = wait_in_acquired, .user = &gate};

    (void)state;
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    assert_int_equal(simba_contender_stop(p.contender, NULL), SIMBA_ETIMEDOUT);
    assert_int_equal(atomic_load(&heard.errors), 1);
    gate_open(&gate);
    simba_contender_close(p.contender);
    probe_close(client);
    assert_int_equal(atomic_load(&p.released), 0);
    assert_int_equal(atomic_load(&heard.errors), 1);
}

static void the_log_hook_gets_the_lines_of_its_level(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct lines lines = {0};

    (void)state;
    options.log = take_line;
    options.log_user = &lines;
    options.log_level = SIMBA_LOG_INFO;
    lead_once(&options);
    assert_true(atomic_load(&lines.with_mutex) >= 2); /* owns, and releases it */
    assert_int_equal(atomic_load(&lines.too_detailed), 0);
    memset(&lines, 0, sizeof lines);
    options.log_level = SIMBA_LOG_NONE;
    lead_once(&options);
    assert_int_equal(atomic_load(&lines.count), 0);
}

static void the_library_prints_nothing(void **state)
{
    FILE *captured = tmpfile();
    int out = dup(STDOUT_FILENO);
    int err = dup(STDERR_FILENO);
    off_t size;

    (void)state;
    assert_non_null(captured);
    fflush(NULL);
    dup2(fileno(captured), STDOUT_FILENO);
    dup2(fileno(captured), STDERR_FILENO);
    lead_once(NULL);
    simba_client_open("memory:a?ttl=soon", NULL, &(simba_client *){NULL}, NULL);
    fflush(NULL);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    size = lseek(fileno(captured), 0, SEEK_END);
    fclose(captured);
    assert_int_equal(size, 0);
}

/* ---- Ids ------------------------------------------------------------------------------------- */

static int make_test_id(void *user, char ret_id[SIMBA_ID_MAX + 1])
{
    snprintf(ret_id, SIMBA_ID_MAX + 1, "%s", (const char *)user);
    return SIMBA_OK;
}

static int fail_to_make_id(void *user, char ret_id[SIMBA_ID_MAX + 1])
{
    (void)user;
    (void)ret_id;
    return SIMBA_EUNAVAILABLE;
}

static void ids_come_from_the_generator_of_the_client(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *client;
    simba_locker *locker;

    (void)state;
    options.id_generator = make_test_id;
    options.id_user = "made-here";
    client = probe_open_with("memory:ids", &options);
    assert_int_equal(test_locker_create(client, "m", NULL, &locker, NULL), SIMBA_OK);
    assert_string_equal(simba_locker_id(locker), "made-here");
    simba_locker_close(locker);
    assert_int_equal(test_locker_create(client, "m", "given", &locker, NULL), SIMBA_OK);
    assert_string_equal(simba_locker_id(locker), "given");
    simba_locker_close(locker);
    probe_close(client);
}

static void a_generator_that_fails_or_breaks_the_rules_is_told(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_error error = {0};
    simba_client *client;
    simba_locker *locker;

    (void)state;
    options.id_generator = fail_to_make_id;
    client = probe_open_with("memory:ids", &options);
    assert_int_equal(test_locker_create(client, "m", NULL, &locker, &error), SIMBA_EUNAVAILABLE);
    probe_assert_names(error.text, "generator");
    probe_close(client);
    options.id_generator = make_test_id;
    options.id_user = "a@@b";
    client = probe_open_with("memory:ids", &options);
    assert_int_equal(test_locker_create(client, "m", NULL, &locker, &error), SIMBA_EINVAL);
    probe_assert_names(error.text, "a@@b");
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_follow_a_term),
        cmocka_unit_test(metrics_count_renewals_errors_and_losses),
        cmocka_unit_test(metrics_fill_only_what_fits),
        cmocka_unit_test(the_log_hook_gets_the_lines_of_its_level),
        cmocka_unit_test(every_object_knows_its_mutex_and_id),
        cmocka_unit_test(times_can_be_told_by_the_wall_clock),
        cmocka_unit_test(a_lost_lease_is_an_error),
        cmocka_unit_test(a_store_that_fails_for_longer_than_a_lease_is_an_error),
        cmocka_unit_test(the_end_of_an_outage_is_told_once),
        cmocka_unit_test(an_outage_that_shows_in_two_ways_is_told_once),
        cmocka_unit_test(work_that_failed_is_an_error),
        cmocka_unit_test(a_dropped_callback_is_an_error),
        cmocka_unit_test(the_library_prints_nothing),
        cmocka_unit_test(ids_come_from_the_generator_of_the_client),
        cmocka_unit_test(a_generator_that_fails_or_breaks_the_rules_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
