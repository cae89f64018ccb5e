/*
 * Many contenders on one client: few threads, and questions that cost next to nothing.
 */
#include "lib/process.h"
#include "probe.h"

#define CONTENDERS 10000
#define THREADS_MAX 8
#define ROUNDS 20
#define CALLS 200000

static simba_contender *contenders[CONTENDERS];
static atomic_uint acquired;
static atomic_uint released;

static void count_acquired(void *user, const struct simba_state *state)
{
    (void)user;
    atomic_fetch_add(&acquired, 1);
}

static void count_released(void *user, const struct simba_state *state)
{
    (void)user;
    atomic_fetch_add(&released, 1);
}

static void start_all(simba_client *client)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    char mutex[32];

    options.mutex = mutex;
    options.on_acquired = count_acquired;
    options.on_released = count_released;
    for (int i = 0; i < CONTENDERS; i++) {
        snprintf(mutex, sizeof mutex, "m-%d", i);
        assert_int_equal(simba_contender_create(client, &options, &contenders[i], NULL), SIMBA_OK);
        assert_int_equal(simba_contender_start(contenders[i], NULL), SIMBA_OK);
    }
}

static void lead_ten_thousand(const char *url)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    simba_client *client;
    int before;

    probe_close(probe_open(url)); /* a sanitizer adds a thread of its own with the first one */
    before = test_thread_count();
    client = probe_open(url);
    atomic_store(&acquired, 0);
    atomic_store(&released, 0);
    start_all(client);
    probe_wait_count(&acquired, CONTENDERS);
    assert_in_range(test_thread_count() - before, 1, THREADS_MAX - 1);
    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    assert_int_equal(metrics.owned, CONTENDERS);
    assert_int_equal(metrics.contenders, CONTENDERS);
    for (int i = 0; i < CONTENDERS; i++)
        simba_contender_close(contenders[i]);
    assert_int_equal(atomic_load(&released), CONTENDERS);
    probe_close(client);
    assert_int_equal(test_thread_count(), before);
}

#define ENDLESS "ttl=10m&transition=10m&stop-timeout=60s"

static void ten_thousand_contenders_share_a_few_threads_in_memory(void **state)
{
    lead_ten_thousand("memory:scale?" ENDLESS);
}

static void ten_thousand_contenders_share_a_few_threads_on_sqlite(void **state)
{
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 128];

    test_folder_create(folder);
    probe_sqlite_url(url, sizeof url, folder, ENDLESS);
    lead_ten_thousand(url);
    test_folder_remove(folder);
}

/* Without the time of other processes. */
static int64_t used_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The best of several rounds, because others use the machine too. */
static double cost_of_is_owner(const simba_contender *contender)
{
    double best = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t begin = used_ns();
        double cost;

        for (int i = 0; i < CALLS; i++)
            if (!simba_contender_is_owner(contender))
                fail_msg("the lease was lost");
        cost = (double)(used_ns() - begin) / CALLS;
        best = cost < best ? cost : best;
    }
    return best;
}

static void is_owner_costs_less_than_a_hundred_nanoseconds(void **state)
{
    simba_client *client = probe_open("memory:cost?" ENDLESS);
    struct probe p = {0};
    double cost;

    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_owner(&p);
    cost = cost_of_is_owner(p.contender);
    print_message("is_owner: %.1f ns\n", cost);
    if (!probe_is_slowed())
        assert_true(cost < 100);
    probe_end(&p);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_contenders_share_a_few_threads_in_memory),
        cmocka_unit_test(ten_thousand_contenders_share_a_few_threads_on_sqlite),
        cmocka_unit_test(is_owner_costs_less_than_a_hundred_nanoseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
