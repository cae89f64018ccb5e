/*
 * jvm_test.c - contenders of ours and of the JVM library on one mutex. The JVM's is a stand-in that
 * sends what the JVM library sends: it knows no reservation, waits in whole seconds, stays in the
 * queue when it wins, and its release wakes the first of the queue whatever that is.
 */
#include "party.h"
#include "server.h"

#include "lib/fleet.h"

#define FLEET 3       /* of each kind */
#define FLEET_MS 4000 /* whole seconds: the order within a second is what differs */
#define LONG_LEASE_MS 20000
#define LONG_LEASE "?ttl=10s&transition=10s"
#define SOON_MS 3000
#define PAUSE_MS 2 /* between two terms: one of the JVM subscribes anew for each */

#define JVM_ACQUIRE                                                                                \
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then"                             \
    "  redis.call('PUBLISH', KEYS[1], 'acquired@@' .. ARGV[1]); return -1 end "                    \
    "redis.call('ZADD', KEYS[2], 'NX', redis.call('TIME')[1], ARGV[1]) "                           \
    "return redis.call('PTTL', KEYS[1])"
#define JVM_RELEASE                                                                                \
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then"                                                \
    "  redis.call('ZREM', KEYS[2], ARGV[1]); return 0 end "                                        \
    "redis.call('DEL', KEYS[1]) "                                                                  \
    "local first = redis.call('ZPOPMIN', KEYS[2])[1] "                                             \
    "if first then redis.call('PUBLISH', KEYS[1] .. ':' .. first, 'released@@' .. ARGV[1]) end "   \
    "return 1"

static struct server server;

static int begin(void **state)
{
    server_do(&server, "FLUSHALL");
    return 0;
}

/* ---- The stand-in ---------------------------------------------------------------------------- */

struct fleet_stand_in {
    char id[16];
    redisContext *commands;
    redisContext *ear;
};

static struct fleet_stand_in *jvm_open(const char *id)
{
    struct fleet_stand_in *jvm = calloc(1, sizeof *jvm);
    redisReply *reply;

    assert_non_null(jvm);
    snprintf(jvm->id, sizeof jvm->id, "%s", id);
    jvm->commands = redisConnect("127.0.0.1", server.port);
    jvm->ear = redisConnect("127.0.0.1", server.port);
    reply = redisCommand(jvm->ear, "SUBSCRIBE simba:{m}:%s", id);
    assert_non_null(reply);
    freeReplyObject(reply);
    return jvm;
}

static void jvm_close(struct fleet_stand_in *jvm)
{
    redisFree(jvm->commands);
    redisFree(jvm->ear);
    free(jvm);
}

/* Returns -1 when it owns, or what is left of the lease of another. */
static long long jvm_try(struct fleet_stand_in *jvm)
{
    redisReply *reply = redisCommand(jvm->commands, "EVAL %s 2 simba:{m} simba:{m}:contender %s %d",
                                     JVM_ACQUIRE, jvm->id, LONG_LEASE_MS);
    long long left_ms = reply->integer;

    freeReplyObject(reply);
    return left_ms;
}

static void jvm_release(struct fleet_stand_in *jvm)
{
    freeReplyObject(redisCommand(jvm->commands, "EVAL %s 2 simba:{m} simba:{m}:contender %s",
                                 JVM_RELEASE, jvm->id));
}

/* Tries when it is told to, and when the lease that it knows of is over. */
static void jvm_acquire(struct fleet_stand_in *jvm)
{
    long long left_ms;

    while ((left_ms = jvm_try(jvm)) >= 0) {
        void *message = NULL;

        redisSetTimeout(jvm->ear, (struct timeval){left_ms / 1000, left_ms % 1000 * 1000 + 1000});
        if (redisGetReply(jvm->ear, &message) == REDIS_OK)
            freeReplyObject(message);
        else
            jvm->ear->err = 0; /* its time is over */
    }
}

/* ---- One mutex for both ---------------------------------------------------------------------- */

static void a_mixed_fleet_shares_the_mutex(void **state)
{
    struct fleet fleet = {.url = server_url(&server, LONG_LEASE),
                          .size = FLEET,
                          .ms = FLEET_MS,
                          .term_ms = 1,
                          .pause_ms = PAUSE_MS,
                          .open = jvm_open,
                          .acquire = jvm_acquire,
                          .release = jvm_release,
                          .close = jvm_close};

    fleet_run(&fleet);
}

/* It has won by itself, so it is in the queue, before the waiter of ours. */
static void one_of_the_jvm_that_won_after_a_crash_wakes_ours_when_it_releases(void **state)
{
    struct party ours;
    struct fleet_stand_in *jvm = jvm_open("jvm");
    int64_t begin_ms;

    server_do(&server, "SET simba:{m} crashed PX 1000");
    jvm_try(jvm);
    party_join(&ours, server_url(&server, LONG_LEASE), "m", "ours");
    while (server_number(&server, "PUBLISH simba:{m}:ours hello") == 0)
        test_pause_ms(1);
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 2);
    server_do(&server, "SET simba:{m} jvm PX %d", LONG_LEASE_MS); /* it was the faster one */
    while (server_number(&server, "ZCARD simba:{m}:contender") > 1)
        test_pause_ms(1); /* ours has tried when the crashed one's lease was over */
    begin_ms = test_now_ms();
    jvm_release(jvm);
    party_await_acquired(&ours, 1);
    assert_true(test_now_ms() - begin_ms < SOON_MS);
    party_leave(&ours);
    jvm_close(jvm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_mixed_fleet_shares_the_mutex, begin),
        cmocka_unit_test_setup(one_of_the_jvm_that_won_after_a_crash_wakes_ours_when_it_releases,
                               begin),
    };
    int failed;

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
