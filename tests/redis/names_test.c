/*
 * names_test.c - names of mutexes and ids that try to be something else, and owners that nobody
 * could be.
 */
#include "backend/host.h"
#include "backend/redis/keys.h"
#include "backend/redis/topology/cluster.h"
#include "base/hash.h"
#include "server.h"

static struct server server;
static struct host host;

static int begin(void **state)
{
    server_do(&server, "FLUSHALL");
    return host_open(&host, server_url(&server, "")) == SIMBA_OK ? 0 : -1;
}

static int end(void **state)
{
    return host_close(&host) ? 0 : -1;
}

static const char *const hostile[] = {
    "}",
    "{",
    "{}",
    "}{",
    "a}:fence",
    "a}:contender",
    "a",
    "*",
    "[a-z]?\\*",
    "a b  c",
    "\"'`$(x);--",
    "\xc3\xa9\xe2\x82\xac\xf0\x9f\xa6\x81",
    "\xff\xfe\x80",
    "%s%n%d",
};

#define VALID TEST_COUNT(hostile)

static void every_valid_name_is_a_mutex_of_its_own(void **state)
{
    struct call calls[VALID];

    for (size_t i = 0; i < VALID; i++) {
        calls[i] = host_do(&host, SIMBA_OP_ACQUIRE, hostile[i], hostile[i], 0);
        assert_int_equal(calls[i].code, SIMBA_OK);
        assert_string_equal(calls[i].owner, hostile[i]);
    }
    for (size_t i = 0; i < VALID; i++) {
        struct call call = host_do(&host, SIMBA_OP_ACQUIRE, hostile[i], "other", 0);

        assert_string_equal(call.owner, hostile[i]);
        assert_int_equal(host_do(&host, SIMBA_OP_READ, hostile[i], NULL, 0).waiters, 1);
    }
    assert_int_equal(host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0).list_count, VALID);
    for (size_t i = 0; i < VALID; i++) {
        struct call call =
            host_do(&host, SIMBA_OP_RELEASE, hostile[i], hostile[i], calls[i].revision);

        assert_string_equal(call.owner, "");
    }
}

static void the_longest_name_is_a_mutex(void **state)
{
    host_check_longest_name(&host);
}

static bool has_channels(void *user)
{
    redisReply *reply = server_ask(&server, "PUBSUB CHANNELS");
    bool all = reply->elements == *(size_t *)user;

    freeReplyObject(reply);
    return all;
}

/* Two contenders whose channels have the same name: each is woken, and neither takes the channel
 * away from the other. */
static void channels_that_are_one_are_shared(void **state)
{
    size_t one = 1;
    size_t none = 0;

    server_do(&server, "SET simba:{a} jvm PX 60000");
    server_do(&server, "SET simba:{a}:b} jvm PX 60000");
    host.ops->listen(host.backend, "a", "b}:c", true);
    host.ops->listen(host.backend, "a}:b", "c", true);
    host_do(&host, SIMBA_OP_ACQUIRE, "a", "b}:c", 0);
    host_do(&host, SIMBA_OP_ACQUIRE, "a}:b", "c", 0);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "", ""));
    host_forget_notices(&host);
    host.ops->listen(host.backend, "a", "b}:c", false);
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "a", NULL, 0).code, SIMBA_OK);
    assert_true(has_channels(&one));
    server_do(&server, "PUBLISH simba:{a}:b}:c released@@jvm");
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "a}:b", "c"));
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "a", NULL), 0);
    host.ops->listen(host.backend, "a}:b", "c", false);
    assert_true(host_run_until(&host, has_channels, &none));
}

static struct call acquire_against(const char *bytes, size_t length, const char *id)
{
    server_do(&server, "SET simba:{m} %b PX 60000", bytes, length);
    return host_do(&host, SIMBA_OP_ACQUIRE, "m", id, 0);
}

/* An owner's record that a contender could take for its own would make two owners. */
static void no_foreign_record_looks_like_ours(void **state)
{
    char longest[SIMBA_ID_MAX + 1];
    char longer[SIMBA_ID_MAX + 10];

    assert_string_not_equal(acquire_against("me\0x", 4, "me").owner, "me");
    assert_string_not_equal(acquire_against("me\0", 3, "me").owner, "me");
    assert_string_not_equal(acquire_against("", 0, "?").owner, "?");
    assert_string_not_equal(acquire_against("\x01", 1, "?").owner, "?");
    assert_string_not_equal(acquire_against("", 0, "me").owner, "");
    memset(longest, 'x', SIMBA_ID_MAX);
    longest[SIMBA_ID_MAX] = '\0';
    memset(longer, 'x', sizeof longer);
    assert_string_not_equal(acquire_against(longer, sizeof longer, longest).owner, longest);
    assert_string_equal(acquire_against(longest, SIMBA_ID_MAX, longest).owner, longest);
}

static void a_key_without_an_expiry_is_looked_at_again_after_a_lease(void **state)
{
    struct call call;

    server_do(&server, "SET simba:{m} eternal");
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_string_equal(call.owner, "eternal");
    assert_int_equal(call.transition_left_ms, HOST_LEASE_MS);
}

static void keys_tell_their_mutex_by_their_end(void **state)
{
    static const struct {
        const char *key;
        const char *mutex; /* NULL: none */
    } rows[] = {
        {"simba:{m}", "m"},
        {"simba:{m}:fence", "m"},
        {"simba:{m}:contender", "m"},
        {"simba:{a}:fence}", "a}:fence"},
        {"simba:{a}:fence}:fence", "a}:fence"},
        {"simba:{}", NULL},
        {"simba:{}}", "}"},
        {"simba:{ }", NULL},
        {"simba:{m", NULL},
        {"simba:{m}:other", NULL},
        {"other:{m}", NULL},
        {"simba:{m\x01}", NULL},
        {"", NULL},
    };
    char mutex[SIMBA_MUTEX_MAX + 1];
    char name[SIMBA_MUTEX_MAX + 2] = ""; /* one byte too long */
    char key[sizeof name + 16];

    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        bool is = sb_redis_key_mutex(rows[i].key, strlen(rows[i].key), mutex);

        if (is != (rows[i].mutex != NULL) || (is && strcmp(mutex, rows[i].mutex) != 0))
            fail_msg("%s", rows[i].key);
    }
    memset(name, 'n', sizeof name - 1);
    snprintf(key, sizeof key, "simba:{%s}", name);
    assert_false(sb_redis_key_mutex(key, strlen(key), mutex));
    name[SIMBA_MUTEX_MAX] = '\0';
    snprintf(key, sizeof key, "simba:{%s}", name);
    assert_true(sb_redis_key_mutex(key, strlen(key), mutex));
    assert_string_equal(mutex, name);
}

#define IDS 1000
#define BUCKETS 1024

/* How many of the channels of ids with the same beginning meet in one bucket. */
static unsigned longest_chain(const char *mutex, const char *prefix)
{
    unsigned counts[BUCKETS] = {0};
    unsigned longest = 0;

    for (int i = 0; i < IDS; i++) {
        char id[SIMBA_ID_MAX + 1], channel[SB_REDIS_CHANNEL_MAX];
        unsigned *count;

        snprintf(id, sizeof id, "%s%03d", prefix, i);
        count =
            &counts[sb_hash_bytes(channel, sb_redis_channel_make(channel, mutex, id)) % BUCKETS];
        longest = ++*count > longest ? *count : longest;
    }
    return longest;
}

/* By chance the longest chain has some six. */
static void numbered_ids_spread_over_a_table(void **state)
{
    static const char *const mutexes[] = {"m", "mutex", "a-mutex-with-a-longer-name"};
    static const char prefix[] = "worker-of-a-long-name-";

    for (size_t i = 0; i < TEST_COUNT(mutexes); i++) {
        for (size_t length = 1; length < sizeof prefix; length++) {
            char beginning[sizeof prefix] = "";

            memcpy(beginning, prefix, length);
            assert_in_range(longest_chain(mutexes[i], beginning), 1, 12);
        }
    }
}

static void slots_are_those_of_the_server(void **state)
{
    static const struct {
        const char *mutex;
        unsigned slot;
    } rows[] = {{"foo", 12182}, {"bar", 5061}, {"123456789", 12739}, {"foo}:x", 12182}};

    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        assert_int_equal(sb_redis_slot_of(rows[i].mutex), rows[i].slot);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(every_valid_name_is_a_mutex_of_its_own),
        CASE(the_longest_name_is_a_mutex),
        CASE(channels_that_are_one_are_shared),
        CASE(no_foreign_record_looks_like_ours),
        CASE(a_key_without_an_expiry_is_looked_at_again_after_a_lease),
        cmocka_unit_test(keys_tell_their_mutex_by_their_end),
        cmocka_unit_test(numbered_ids_spread_over_a_table),
        cmocka_unit_test(slots_are_those_of_the_server),
    };
    int failed;

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
