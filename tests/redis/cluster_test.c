/*
 * cluster_test.c - three masters: each mutex on its slot's node, slots that move while a mutex is
 * held, and nodes that die.
 */
#include "backend/host.h"
#include "backend/redis/topology/cluster.h"
#include "journal.h"
#include "lib/port.h"
#include "party.h"
#include "rights.h"
#include "server.h"

#include <signal.h>

#define NODES 3

static struct server nodes[NODES];
static char buses[NODES][16];
static char ids[NODES][64];

/* ---- The cluster ----------------------------------------------------------------------------- */

static bool is_whole(void *user)
{
    const char *info = server_text(user, "CLUSTER INFO");

    return strstr(info, "cluster_state:ok") != NULL &&
           strstr(info, "cluster_known_nodes:3") != NULL &&
           strstr(info, "cluster_slots_ok:16384") != NULL;
}

static void start_node(size_t index)
{
    memset(&nodes[index], 0, sizeof nodes[index]);
    snprintf(buses[index], sizeof buses[index], "%d", test_free_port());
    server_start(&nodes[index], "--cluster-enabled", "yes", "--cluster-port", buses[index],
                 "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no", NULL);
    snprintf(ids[index], sizeof ids[index], "%s", server_text(&nodes[index], "CLUSTER MYID"));
}

static int start(void **state)
{
    static const char *const ranges[NODES] = {"0 5460", "5461 10922", "10923 16383"};

    for (size_t i = 0; i < NODES; i++) {
        char command[64];

        start_node(i);
        snprintf(command, sizeof command, "CLUSTER ADDSLOTSRANGE %s", ranges[i]);
        server_do(&nodes[i], command);
    }
    for (size_t i = 1; i < NODES; i++)
        server_do(&nodes[0], "CLUSTER MEET 127.0.0.1 %d %s", nodes[i].port, buses[i]);
    for (size_t i = 0; i < NODES; i++)
        assert_true(test_wait(is_whole, &nodes[i]));
    return 0;
}

static int stop(void **state)
{
    for (size_t i = 0; i < NODES; i++)
        server_stop(&nodes[i]);
    return 0;
}

static const char *cluster_url(const char *rest)
{
    static char url[256];

    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d?%s", nodes[0].port,
             nodes[1].port, rest);
    return url;
}

static size_t node_of(const char *mutex)
{
    unsigned slot = sb_redis_slot_of(mutex);

    return slot <= 5460 ? 0 : slot <= 10922 ? 1 : 2;
}

static void assert_works(struct host *host, const char *mutex)
{
    struct call call = host_do(host, SIMBA_OP_ACQUIRE, mutex, "a", 0);

    if (call.code != SIMBA_OK)
        fail_msg("%s: %s", mutex, call.error.text);
    assert_string_equal(call.owner, "a");
}

/* ---- Routing --------------------------------------------------------------------------------- */

static void each_mutex_is_on_its_slots_node(void **state)
{
    struct host host;
    struct call call;
    char mutex[16];

    assert_int_equal(host_open(&host, cluster_url("")), SIMBA_OK);
    for (int i = 0; i < 30; i++) {
        snprintf(mutex, sizeof mutex, "mutex-%d", i);
        assert_works(&host, mutex);
        assert_int_equal(server_number(&nodes[node_of(mutex)], "EXISTS simba:{%s}", mutex), 1);
    }
    call = host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0);
    assert_int_equal(call.code, SIMBA_OK);
    assert_int_equal(call.list_count, 30);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "}x", "a", 0);
    assert_int_equal(call.code, SIMBA_EINVAL);
    assert_true(host_close(&host));
}

static bool announces_names(void *user)
{
    redisReply *reply = server_ask(user, "CLUSTER SLOTS");
    size_t named = 0;

    for (size_t i = 0; i < reply->elements; i++)
        named += strcmp(reply->element[i]->element[2]->element[0]->str, "localhost") == 0;
    freeReplyObject(reply);
    return named == NODES;
}

static void set_names(const char *name, const char *type)
{
    for (size_t i = 0; i < NODES; i++) {
        server_do(&nodes[i], "CONFIG SET cluster-announce-hostname %s", name);
        server_do(&nodes[i], "CONFIG SET cluster-preferred-endpoint-type %s", type);
    }
}

/* The first request of a node waits until its name has been looked up, and so does a list. */
static void nodes_that_announce_names_are_used_at_once(void **state)
{
    static const enum simba_op ops[] = {SIMBA_OP_LIST, SIMBA_OP_ACQUIRE};

    set_names("localhost", "hostname");
    assert_true(test_wait(announces_names, &nodes[0]));
    assert_true(test_wait(announces_names, &nodes[1]));
    for (size_t i = 0; i < TEST_COUNT(ops); i++) {
        struct host host;
        struct call call;

        assert_int_equal(host_open(&host, cluster_url("")), SIMBA_OK);
        call = host_do(&host, ops[i], i == 0 ? NULL : "named", i == 0 ? NULL : "a", 0);
        if (call.code != SIMBA_OK)
            fail_msg("%s", call.error.text);
        assert_true(host_close(&host));
    }
}

#define MANY 2000

/* A name for each number that sorts by the node it is on. */
static void name_by_node(size_t number, char name[32])
{
    size_t node = number / (MANY / NODES + 1);
    size_t i = 0;

    do {
        snprintf(name, 32, "%zu-%04zu-%zu", node, number, i++);
    } while (node_of(name) != node);
}

/* More than are read at once, the nodes one after the other, so that the end of reads on one node
 * begins those on another where nothing is under way. */
static void the_list_of_many_mutexes_on_all_nodes_comes_to_an_end(void **state)
{
    struct call *calls = calloc(MANY, sizeof *calls);
    char(*names)[32] = calloc(MANY, sizeof *names);
    struct host host;
    struct call list;

    assert_int_equal(host_open(&host, cluster_url("")), SIMBA_OK);
    for (size_t i = 0; i < MANY; i++) {
        name_by_node(i, names[i]);
        calls[i] = host_call(SIMBA_OP_ACQUIRE, names[i], "a", 0);
    }
    host_submit(&host, calls, MANY);
    assert_true(host_wait(&host, calls, MANY));
    list = host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0);
    assert_int_equal(list.code, SIMBA_OK);
    assert_int_equal(list.list_count, MANY);
    assert_string_equal(list.list[0].mutex, names[0]);
    assert_int_equal(list.list[0].owner.fence, calls[0].revision);
    assert_true(host_close(&host));
    free(names);
    free(calls);
}

static bool has_subscriber(struct server *server, const char *channel)
{
    redisReply *reply = server_ask(server, "PUBSUB NUMSUB %s", channel);
    bool subscribed = reply->elements == 2 && reply->element[1]->integer == 1;

    freeReplyObject(reply);
    return subscribed;
}

struct expected {
    struct server *server;
    const char *channel;
};

static bool is_subscribed(void *user)
{
    struct expected *expected = user;

    return has_subscriber(expected->server, expected->channel);
}

#define LONG_LEASE "ttl=20s&transition=20s&jitter=0ms..50ms"

static void a_waiter_listens_where_the_release_publishes(void **state)
{
    static const char *const mutexes[] = {"mutex-0", "mutex-1", "mutex-2", "mutex-3", "mutex-4"};

    for (size_t i = 0; i < TEST_COUNT(mutexes); i++) {
        struct party owner;
        struct party waiter;
        char channel[64];
        struct expected expected = {&nodes[node_of(mutexes[i])], channel};

        snprintf(channel, sizeof channel, "simba:{%s}:b", mutexes[i]);
        party_join(&owner, cluster_url(LONG_LEASE), mutexes[i], "a");
        party_await_acquired(&owner, 1);
        party_join(&waiter, cluster_url(LONG_LEASE), mutexes[i], "b");
        assert_true(test_wait(is_subscribed, &expected));
        party_leave(&owner);
        party_await_acquired(&waiter, 1);
        party_leave(&waiter);
    }
}

/* ---- Slots that move ------------------------------------------------------------------------- */

static void begin_move(const char *mutex, size_t from, size_t to)
{
    unsigned slot = sb_redis_slot_of(mutex);

    server_do(&nodes[to], "CLUSTER SETSLOT %u IMPORTING %s", slot, ids[from]);
    server_do(&nodes[from], "CLUSTER SETSLOT %u MIGRATING %s", slot, ids[to]);
}

static void move_keys(const char *mutex, size_t from, size_t to)
{
    server_do(&nodes[from],
              "MIGRATE 127.0.0.1 %d %s 0 5000 KEYS simba:{%s} simba:{%s}:contender "
              "simba:{%s}:fence simba:{%s}:since",
              nodes[to].port, "", mutex, mutex, mutex, mutex);
}

static void end_move(const char *mutex, size_t to)
{
    unsigned slot = sb_redis_slot_of(mutex);

    server_do(&nodes[to], "CLUSTER SETSLOT %u NODE %s", slot, ids[to]);
    for (size_t i = 0; i < NODES; i++)
        server_do(&nodes[i], "CLUSTER SETSLOT %u NODE %s", slot, ids[to]);
}

static void a_slot_on_the_move_is_asked_for_where_its_keys_are(void **state)
{
    size_t from = node_of("m");
    size_t to = (from + 1) % NODES;
    struct host host;
    struct call call;
    struct call queue;

    assert_int_equal(host_open(&host, cluster_url("")), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0); /* all keys are there */
    begin_move("m", from, to);
    move_keys("m", from, to);
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "m", "a", call.revision).owner, "a");
    assert_int_equal(server_number(&nodes[from], "DBSIZE"), 0);
    queue = host_do(&host, SIMBA_OP_QUEUE, "m", NULL, 0);
    assert_int_equal(queue.code, SIMBA_OK);
    assert_int_equal(queue.list_count, 1);
    assert_string_equal(queue.list[0].owner.id, "b");
    end_move("m", to);
    assert_string_equal(host_do(&host, SIMBA_OP_GUARD, "m", "a", call.revision).owner, "a");
    assert_string_equal(host_do(&host, SIMBA_OP_RELEASE, "m", "a", call.revision).owner, "");
    assert_true(host_close(&host));
}

static bool is_renewed(void *user)
{
    return server_number(user, "PTTL simba:{m}") > 4000;
}

static void a_held_mutex_and_its_waiter_move_along_with_their_slot(void **state)
{
    size_t from = node_of("m");
    size_t to = (from + 2) % NODES;
    struct expected expected = {&nodes[from], "simba:{m}:b"};
    struct party owner;
    struct party waiter;

    party_join(&owner, cluster_url("ttl=300ms&transition=4s"), "m", "a");
    party_await_acquired(&owner, 1);
    party_join(&waiter, cluster_url("ttl=300ms&transition=4s"), "m", "b");
    assert_true(test_wait(is_subscribed, &expected));
    begin_move("m", from, to);
    move_keys("m", from, to);
    end_move("m", to);
    assert_true(test_wait(is_renewed, &nodes[to]));
    expected.server = &nodes[to];
    assert_true(test_wait(is_subscribed, &expected));
    assert_false(has_subscriber(&nodes[from], expected.channel));
    assert_int_equal(atomic_load(&owner.released), 0);
    party_leave(&owner);
    party_await_acquired(&waiter, 1);
    party_leave(&waiter);
}

/* ---- Replicas that take over ----------------------------------------------------------------- */

static bool knows_four(void *user)
{
    return strstr(server_text(user, "CLUSTER INFO"), "cluster_known_nodes:4") != NULL &&
           strstr(server_text(user, "CLUSTER INFO"), "cluster_state:ok") != NULL;
}

/* All who vote on it. */
static bool know_the_replica(void *user)
{
    (void)user;
    for (size_t i = 0; i < NODES; i++)
        if (strstr(server_text(&nodes[i], "CLUSTER NODES"), " slave ") == NULL)
            return false;
    return true;
}

static bool is_in_step(void *user)
{
    return strstr(server_text(user, "INFO replication"), "master_link_status:up") != NULL;
}

static bool is_master(void *user)
{
    return strstr(server_text(user, "INFO replication"), "role:master") != NULL;
}

static void start_replica(struct server *replica, size_t of)
{
    static char bus[16];

    snprintf(bus, sizeof bus, "%d", test_free_port());
    server_start(replica, "--cluster-enabled", "yes", "--cluster-port", bus,
                 "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0", NULL);
    server_do(replica, "CLUSTER MEET 127.0.0.1 %d %s", nodes[of].port, buses[of]);
    assert_true(test_wait(knows_four, replica));
    server_do(replica, "CLUSTER REPLICATE %s", ids[of]);
    assert_true(test_wait(know_the_replica, NULL));
    assert_true(test_wait(is_in_step, replica));
}

static void a_lease_is_kept_when_a_replica_takes_over(void **state)
{
    size_t of = node_of("m");
    struct server replica = {0};
    struct expected expected = {&replica, "simba:{m}:b"};
    struct party owner;
    struct party waiter;

    server_do(&nodes[of], "CONFIG SET repl-diskless-sync-delay 0");
    start_replica(&replica, of);
    party_join(&owner, cluster_url("ttl=300ms&transition=4s"), "m", "a");
    party_await_acquired(&owner, 1);
    party_join(&waiter, cluster_url("ttl=300ms&transition=4s"), "m", "b");
    while (server_number(&nodes[of], "EXISTS simba:{m}:contender") == 0)
        test_pause_ms(1);
    server_do(&replica, "CLUSTER FAILOVER");
    assert_true(test_wait(is_master, &replica));
    assert_true(test_wait(is_renewed, &replica));
    assert_true(test_wait(is_subscribed, &expected));
    assert_true(party_is_owner(&owner));
    assert_int_equal(atomic_load(&owner.released), 0);
    party_leave(&owner);
    party_await_acquired(&waiter, 1);
    party_leave(&waiter);
    server_stop(&replica);
}

/* ---- Rights ---------------------------------------------------------------------------------- */

static int try_with(const char *more, const char *mutex)
{
    struct host host;
    struct call call;
    char url[256];
    int code;

    for (size_t i = 0; i < NODES; i++)
        rights_grant(&nodes[i], more);
    snprintf(url, sizeof url, "redis+cluster://simba:secret@127.0.0.1:%d", nodes[0].port);
    code = host_open(&host, url);
    if (code != SIMBA_OK)
        return code;
    call = host_do(&host, SIMBA_OP_ACQUIRE, mutex, "a", 0);
    assert_true(host_close(&host));
    return call.code;
}

static void the_rights_for_a_cluster_are_enough_and_needed(void **state)
{
    size_t from = node_of("m");
    size_t to = (from + 1) % NODES;

    assert_int_equal(try_with("+cluster|slots +asking", "m"), SIMBA_OK);
    assert_int_equal(try_with("+asking", "m"), SIMBA_EDENIED);
    server_do(&nodes[from], "ZADD simba:{m}:contender 1 x"); /* all keys are there */
    begin_move("m", from, to);
    move_keys("m", from, to);
    assert_int_not_equal(try_with("+cluster|slots", "m"), SIMBA_OK);
    assert_int_equal(try_with("+cluster|slots +asking", "m"), SIMBA_OK);
    end_move("m", to);
}

/* ---- Nodes that die -------------------------------------------------------------------------- */

static const char *mutex_on(size_t node)
{
    static char mutexes[NODES][32];
    int i = 0;

    do {
        snprintf(mutexes[node], sizeof mutexes[node], "mutex-%d", i++);
    } while (node_of(mutexes[node]) != node);
    return mutexes[node];
}

static bool has_come(void *user)
{
    return test_now_ms() >= *(int64_t *)user;
}

static bool works_again(void *user)
{
    struct host *host = user;
    int64_t at_ms = test_now_ms() + 5;

    host_run_until(host, has_come, &at_ms); /* lets the loop connect meanwhile */
    return host_do(host, SIMBA_OP_ACQUIRE, mutex_on(2), "a", 0).code == SIMBA_OK;
}

static void a_dead_node_takes_only_its_own_mutexes_with_it(void **state)
{
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, cluster_url("connect-timeout=1s")), SIMBA_OK);
    for (size_t i = 0; i < NODES; i++)
        assert_works(&host, mutex_on(i));
    server_kill(&nodes[2], SIGKILL);
    do {
        call = host_do(&host, SIMBA_OP_ACQUIRE, mutex_on(2), "a", 0);
    } while (call.code == SIMBA_EUNKNOWN);
    assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
    assert_works(&host, mutex_on(0));
    assert_works(&host, mutex_on(1));
    server_start_again(&nodes[2]);
    assert_true(test_wait(works_again, &host));
    assert_true(host_close(&host));
}

#define OUTAGE_MS 3000

/* The whole cluster is gone for a while: one warning for each node and one for the map, few
 * attempts, and the end of it told. */
static void an_outage_of_all_nodes_is_neither_shouted_nor_hammered(void **state)
{
    static struct journal journal;
    struct simba_client_options options;
    struct party party;
    int64_t end_ms;

    journal_init(&journal);
    options = journal_options(&journal);
    party_join_with(&party, &options,
                    cluster_url("ttl=300ms&transition=600ms&jitter=0ms..50ms&connect-timeout=1s"),
                    "m", "a");
    party_await_acquired(&party, 1);
    for (size_t i = 0; i < NODES; i++)
        server_kill(&nodes[i], SIGKILL);
    for (end_ms = test_now_ms() + OUTAGE_MS; test_now_ms() < end_ms;)
        test_pause_ms(10); /* the outage is the condition */
    assert_in_range(journal_count(&journal, SIMBA_LOG_WARN, "redis: "), 2, NODES + 1);
    assert_in_range(journal_count(&journal, SIMBA_LOG_DEBUG, "map of the cluster"), 2, 9);
    for (size_t i = 0; i < NODES; i++)
        server_start_again(&nodes[i]);
    journal_await(&journal, SIMBA_LOG_INFO, "the cluster answers again");
    party_await_acquired(&party, 2);
    party_leave(&party);
    journal_free(&journal);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(each_mutex_is_on_its_slots_node),
        CASE(nodes_that_announce_names_are_used_at_once),
        CASE(the_list_of_many_mutexes_on_all_nodes_comes_to_an_end),
        CASE(a_waiter_listens_where_the_release_publishes),
        CASE(a_slot_on_the_move_is_asked_for_where_its_keys_are),
        CASE(a_held_mutex_and_its_waiter_move_along_with_their_slot),
        CASE(a_lease_is_kept_when_a_replica_takes_over),
        CASE(the_rights_for_a_cluster_are_enough_and_needed),
        CASE(a_dead_node_takes_only_its_own_mutexes_with_it),
        CASE(an_outage_of_all_nodes_is_neither_shouted_nor_hammered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
