/*
 * descriptor_test.c - a client that has to find its server again while descriptors are short: it
 * says so, leaks none, and goes on when there are enough.
 */
#include "lib/port.h"
#include "party.h"
#include "server.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>

#define LIMIT 128
#define SPARE_MAX 4
#define ERRORS 6 /* attempts that fail meanwhile */

static struct server server;
static char bus[16];

static bool is_whole(void *user)
{
    return strstr(server_text(user, "CLUSTER INFO"), "cluster_state:ok") != NULL;
}

static int start(void **state)
{
    memset(&server, 0, sizeof server);
    snprintf(bus, sizeof bus, "%d", test_free_port());
    server_start(&server, "--cluster-enabled", "yes", "--cluster-port", bus, NULL);
    server_do(&server, "CLUSTER ADDSLOTSRANGE 0 16383");
    assert_true(test_wait(is_whole, &server));
    return 0;
}

static int stop(void **state)
{
    server_stop(&server);
    return 0;
}

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* ---- The limit ------------------------------------------------------------------------------- */

static struct rlimit normal;
static int fillers[LIMIT];
static int fillers_count;

/* Leaves `spare` descriptors to be had, also when somebody has closed some since the last call. */
static void limit_to(int spare)
{
    const struct rlimit limit = {LIMIT, normal.rlim_max};

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while ((fillers[fillers_count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        fillers_count++;
    while (spare-- > 0 && fillers_count > 0)
        close(fillers[--fillers_count]);
}

static void unlimit(void)
{
    while (fillers_count > 0)
        close(fillers[--fillers_count]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &normal), 0);
}

/* ---- The client ------------------------------------------------------------------------------ */

struct counts {
    struct party *party;
    int spare;
    uint64_t errors;
    uint64_t renewals;
};

static bool has_failed(void *user)
{
    const struct counts *counts = user;

    limit_to(counts->spare);
    return party_metrics(counts->party).errors >= counts->errors;
}

static bool has_renewed(void *user)
{
    const struct counts *counts = user;

    return party_metrics(counts->party).renewals >= counts->renewals;
}

static bool has_as_before(void *user)
{
    return count_descriptors() == *(int *)user;
}

/* The command goes through a connection of the test that is there already. */
static void find_the_server_with(struct party *party, int spare)
{
    struct simba_metrics metrics = party_metrics(party);
    struct counts counts = {party, spare, metrics.errors + ERRORS, 0};

    limit_to(spare);
    server_do(&server, "CLIENT KILL TYPE normal SKIPME yes");
    server_pause(&server); /* so that attempts fail, whatever can be had */
    assert_true(test_wait(has_failed, &counts));
    server_go_on(&server);
    unlimit();
    counts.renewals = party_metrics(party).renewals + 1;
    assert_true(test_wait(has_renewed, &counts));
}

static void a_look_for_the_server_leaks_no_descriptor(void **state)
{
    struct party party;
    char url[128];
    int before;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &normal), 0);
    snprintf(url, sizeof url,
             "redis+cluster://127.0.0.1:%d?ttl=20ms&transition=1s&connect-timeout=100ms",
             server.port);
    party_join(&party, url, "m", "a");
    party_await_acquired(&party, 1);
    before = count_descriptors();
    for (int spare = 0; spare < SPARE_MAX; spare++) {
        find_the_server_with(&party, spare);
        if (!test_wait_within(2000, has_as_before, &before))
            fail_msg("with %d to spare %d are leaked", spare, count_descriptors() - before);
    }
    party_leave(&party);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_look_for_the_server_leaks_no_descriptor)};

    return cmocka_run_group_tests(tests, start, stop);
}
