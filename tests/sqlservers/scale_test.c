/*
 * scale_test.c - many mutexes held by one client: none is lost, and the server hardly notices.
 */
#include "server.h"

#include <simba/simba.h>

#define MUTEXES 2000
#define RENEWALS 3
#define LEASE "ttl=1s&transition=5s"

static simba_contender *contenders[MUTEXES];

static struct simba_metrics metrics_of(simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    simba_client_metrics(client, &metrics);
    return metrics;
}

static bool owns_all(void *user)
{
    return metrics_of(user).owned == MUTEXES;
}

static bool has_renewed_all(void *user)
{
    return metrics_of(user).renewals >= MUTEXES * RENEWALS;
}

static void start_all(simba_client *client)
{
    for (size_t i = 0; i < MUTEXES; i++) {
        struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
        char name[32];

        snprintf(name, sizeof name, "scale-%zu", i);
        options.mutex = name;
        assert_int_equal(simba_contender_create(client, &options, &contenders[i], NULL), SIMBA_OK);
        assert_int_equal(simba_contender_start(contenders[i], NULL), SIMBA_OK);
    }
}

static void thousands_of_mutexes_cost_few_commits_and_connections(void **state)
{
    simba_client *client = NULL;
    int64_t commits;
    int64_t began_ms;
    int64_t took_ms;

    assert_int_equal(
        simba_client_open(server_url(&server, dialect_admin, LEASE), NULL, &client, NULL),
        SIMBA_OK);
    start_all(client);
    assert_true(test_wait(owns_all, client));
    commits = server_number(&server, dialect_count_commits);
    began_ms = test_now_ms();
    assert_true(test_wait(has_renewed_all, client));
    took_ms = test_now_ms() - began_ms;
    commits = server_number(&server, dialect_count_commits) - commits;
    print_message("# %d renewals of %d mutexes in %d ms: %d commits\n", RENEWALS, MUTEXES,
                  (int)took_ms, (int)commits);
    assert_int_equal(metrics_of(client).losses, 0);
    assert_int_equal(metrics_of(client).owned, MUTEXES);
    assert_true(commits * 1000 / took_ms < 100);
    assert_true(server_number(&server, dialect_count_clients) <= 2);
    for (size_t i = 0; i < MUTEXES; i++)
        simba_contender_close(contenders[i]);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
    assert_int_equal(
        server_number(&server, "SELECT count(*) FROM simba_mutex WHERE owner_id <> ''"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_mutexes_cost_few_commits_and_connections),
    };

    return server_run_tests("scale", tests);
}
