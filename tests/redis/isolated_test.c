/*
 * isolated_test.c - a master of a cluster that its own network still reaches, and the bus of the
 * others does not: it answers with a map of the past. And seeds that do not answer at all.
 */
#include "backend/host.h"
#include "backend/redis/topology/cluster.h"
#include "fake.h"
#include "lib/port.h"
#include "server.h"

#include <signal.h>

#define NODES 4 /* the last one is the replica of the first */
#define MASTERS 3
#define FIRST_SLOT 10923 /* of the first master, up to the last */

static struct server nodes[NODES];
static char buses[NODES][16];
static char ids[NODES][64];

/* ---- The cluster ----------------------------------------------------------------------------- */

static bool knows_all(void *user)
{
    const char *info = server_text(user, "CLUSTER INFO");

    return strstr(info, "cluster_state:ok") != NULL &&
           strstr(info, "cluster_known_nodes:4") != NULL &&
           strstr(info, "cluster_slots_ok:16384") != NULL;
}

static bool has_linked(void *user)
{
    return strstr(server_text(user, "INFO replication"), "master_link_status:up") != NULL;
}

static bool is_known_as_replica(void *user)
{
    char text[128];

    snprintf(text, sizeof text, "slave %s", ids[0]);
    return strstr(server_text(user, "CLUSTER NODES"), text) != NULL;
}

static void start_cluster(void)
{
    /* The slots of the first are the last. */
    static const int ends[MASTERS + 1] = {16384, FIRST_SLOT, 5461, 0};

    for (size_t i = 0; i < NODES; i++) {
        snprintf(buses[i], sizeof buses[i], "%d", test_free_port());
        server_start(&nodes[i], "--cluster-enabled", "yes", "--cluster-port", buses[i],
                     "--cluster-node-timeout", "1000", NULL);
        snprintf(ids[i], sizeof ids[i], "%s", server_text(&nodes[i], "CLUSTER MYID"));
        if (i < MASTERS)
            server_do(&nodes[i], "CLUSTER ADDSLOTSRANGE %d %d", ends[i + 1], ends[i] - 1);
    }
    for (size_t i = 1; i < NODES; i++)
        server_do(&nodes[0], "CLUSTER MEET 127.0.0.1 %d %s", nodes[i].port, buses[i]);
    for (size_t i = 0; i < NODES; i++)
        assert_true(test_wait(knows_all, &nodes[i]));
    server_do(&nodes[3], "CLUSTER REPLICATE %s", ids[0]);
    assert_true(test_wait(has_linked, &nodes[3]));
    for (size_t i = 0; i < NODES; i++)
        assert_true(test_wait(is_known_as_replica, &nodes[i]));
}

/* A line for each node: "ID HOST:PORT@BUS,...". On the bus of all others nobody listens from now
 * on. */
static void forget_buses(const char *folder)
{
    char path[TEST_PATH_MAX + 32];
    char text[8192];
    char changed[8192];
    size_t length = 0;
    FILE *file;

    snprintf(path, sizeof path, "%s/nodes.conf", folder);
    file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *bus = strchr(line, '@');

        if (bus == NULL || strstr(line, "myself") != NULL)
            length += (size_t)snprintf(changed + length, sizeof changed - length, "%s\n", line);
        else
            length +=
                (size_t)snprintf(changed + length, sizeof changed - length, "%.*s@%d%s\n",
                                 (int)(bus - line), line, test_free_port(), strpbrk(bus, ", "));
    }
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(changed, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static bool has_taken_over(void *user)
{
    return strstr(server_text(user, "CLUSTER INFO"), "cluster_state:ok") != NULL &&
           strstr(server_text(user, "CLUSTER NODES"), "master,fail") != NULL;
}

static bool is_down(void *user)
{
    redisReply *reply = server_ask(user, "GET foo"); /* slot 12182 */
    bool down = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "CLUSTERDOWN", 11) == 0;

    freeReplyObject(reply);
    return down;
}

/* The first master comes back where the others do not find it, nor it them. Meanwhile its replica
 * has taken over. */
static void cut_first_master_off(void)
{
    server_kill(&nodes[0], SIGKILL);
    for (size_t i = 1; i < NODES; i++)
        assert_true(test_wait(has_taken_over, &nodes[i]));
    forget_buses(nodes[0].folder);
    snprintf(buses[0], sizeof buses[0], "%d", test_free_port());
    server_start_again(&nodes[0]);
    assert_true(test_wait(is_down, &nodes[0]));
}

static int start(void **state)
{
    start_cluster();
    cut_first_master_off();
    return 0;
}

static int stop(void **state)
{
    for (size_t i = 0; i < NODES; i++)
        server_stop(&nodes[i]);
    return 0;
}

/* ---- Clients --------------------------------------------------------------------------------- */

/* In a slot of the first master. */
static const char *mutex_of_first(void)
{
    static char name[16];

    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "mutex-%d", i);
        if (sb_redis_slot_of(name) >= FIRST_SLOT)
            break;
    }
    return name;
}

static bool acquires(void *host)
{
    return host_do(host, SIMBA_OP_ACQUIRE, mutex_of_first(), "a", 0).code == SIMBA_OK;
}

static void a_client_that_asks_the_isolated_master_first_finds_the_new_one(void **state)
{
    struct host host;
    char url[256];

    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d", nodes[0].port,
             nodes[1].port);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_true(host_run_until(&host, acquires, &host));
    assert_int_equal(server_number(&nodes[3], "EXISTS simba:{%s}", mutex_of_first()), 1);
    assert_true(host_close(&host));
}

/* It has the right map, and something else brings about a refresh: the isolated master is not asked
 * first again. */
static void a_client_that_has_the_new_map_does_not_go_back_to_the_old_one(void **state)
{
    struct host host;
    char url[256];

    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d?connect-timeout=1s",
             nodes[0].port, nodes[1].port);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_true(host_run_until(&host, acquires, &host));
    for (int i = 0; i < 3; i++) {
        int64_t later_ms = simba_now_ms() + 500;

        server_do(&nodes[3], "CLIENT KILL TYPE normal SKIPME yes");
        assert_true(host_run_until(&host, acquires, &host));
        while (simba_now_ms() < later_ms) /* a refresh has come back */
            assert_int_equal(host_do(&host, SIMBA_OP_READ, mutex_of_first(), NULL, 0).code,
                             SIMBA_OK);
    }
    assert_true(host_close(&host));
}

/* ---- Seeds that say nothing ------------------------------------------------------------------ */

static void seeds_that_do_not_answer_share_one_connect_timeout(void **state)
{
    struct tarpit pits[3];
    struct host host;
    char url[256];
    int64_t begin_ms;

    for (size_t i = 0; i < 3; i++)
        tarpit_open(&pits[i]);
    snprintf(url, sizeof url,
             "redis+cluster://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d"
             "?connect-timeout=2s",
             pits[0].port, pits[1].port, pits[2].port, nodes[1].port);
    begin_ms = test_now_ms();
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_true(test_now_ms() - begin_ms < 3000);
    assert_true(host_close(&host));
    for (size_t i = 0; i < 3; i++)
        tarpit_close(&pits[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_asks_the_isolated_master_first_finds_the_new_one),
        cmocka_unit_test(a_client_that_has_the_new_map_does_not_go_back_to_the_old_one),
        cmocka_unit_test(seeds_that_do_not_answer_share_one_connect_timeout),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
