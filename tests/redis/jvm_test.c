/*
 * jvm_test.c - contenders of ours and of the JVM library on one mutex. The JVM's is a stand-in that
 * sends what the JVM library sends: it knows no reservation, waits in whole seconds, stays in the
 * queue when it wins, and its release wakes the first of the queue whatever that is.
 */
#include "party.h"
#include "server.h"

#include <pthread.h>

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
    (void)state;
    server_do(&server, "FLUSHALL");
    return 0;
}

/* ---- The stand-in ---------------------------------------------------------------------------- */

struct jvm {
    char id[16];
    redisContext *commands;
    redisContext *ear;
};

static void jvm_open(struct jvm *jvm, const char *id)
{
    redisReply *reply;

    snprintf(jvm->id, sizeof jvm->id, "%s", id);
    jvm->commands = redisConnect("127.0.0.1", server.port);
    jvm->ear = redisConnect("127.0.0.1", server.port);
    reply = redisCommand(jvm->ear, "SUBSCRIBE simba:{m}:%s", id);
    assert_non_null(reply);
    freeReplyObject(reply);
}

static void jvm_close(struct jvm *jvm)
{
    redisFree(jvm->commands);
    redisFree(jvm->ear);
}

/* Returns -1 when it owns, or what is left of the lease of another. */
static long long jvm_try(struct jvm *jvm)
{
    redisReply *reply = redisCommand(jvm->commands, "EVAL %s 2 simba:{m} simba:{m}:contender %s %d",
                                     JVM_ACQUIRE, jvm->id, LONG_LEASE_MS);
    long long left_ms = reply->integer;

    freeReplyObject(reply);
    return left_ms;
}

static void jvm_release(struct jvm *jvm)
{
    freeReplyObject(redisCommand(jvm->commands, "EVAL %s 2 simba:{m} simba:{m}:contender %s",
                                 JVM_RELEASE, jvm->id));
}

/* Tries when it is told to, and when the lease that it knows of is over. */
static void jvm_acquire(struct jvm *jvm)
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

struct member {
    pthread_t thread;
    struct jvm jvm; /* of the JVM's */
    simba_client *client;
    simba_locker *locker; /* of ours; NULL: it is one of the JVM */
    unsigned terms;
};

static _Atomic bool over;

static void *compete(void *argument)
{
    struct member *member = argument;

    while (!atomic_load(&over)) {
        if (member->locker != NULL)
            assert_int_equal(simba_locker_acquire_timeout(member->locker, LONG_LEASE_MS, NULL),
                             SIMBA_OK);
        else
            jvm_acquire(&member->jvm);
        member->terms++;
        test_pause_ms(1);
        if (member->locker != NULL)
            simba_locker_release(member->locker, NULL);
        else
            jvm_release(&member->jvm);
        test_pause_ms(PAUSE_MS);
    }
    return NULL;
}

static void member_open(struct member *member, bool ours, int number)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    char id[16];

    memset(member, 0, sizeof *member);
    snprintf(id, sizeof id, "%s-%d", ours ? "ours" : "jvm", number);
    options.mutex = "m";
    options.id = id;
    if (ours) {
        assert_int_equal(
            simba_client_open(server_url(&server, LONG_LEASE), NULL, &member->client, NULL),
            SIMBA_OK);
        assert_int_equal(simba_locker_create(member->client, &options, &member->locker, NULL),
                         SIMBA_OK);
    } else {
        jvm_open(&member->jvm, id);
    }
}

static void member_close(struct member *member)
{
    if (member->locker == NULL) {
        jvm_close(&member->jvm);
        return;
    }
    simba_locker_close(member->locker);
    simba_client_close(member->client, NULL);
}

static void a_mixed_fleet_shares_the_mutex(void **state)
{
    struct member members[2 * FLEET];
    unsigned ours = 0;
    unsigned theirs = 0;

    (void)state;
    atomic_store(&over, false);
    for (int i = 0; i < 2 * FLEET; i++)
        member_open(&members[i], i % 2 == 0, i);
    for (int i = 0; i < 2 * FLEET; i++)
        assert_int_equal(pthread_create(&members[i].thread, NULL, compete, &members[i]), 0);
    test_pause_ms(FLEET_MS);
    atomic_store(&over, true);
    for (int i = 0; i < 2 * FLEET; i++) {
        pthread_join(members[i].thread, NULL);
        member_close(&members[i]);
        *(i % 2 == 0 ? &ours : &theirs) += members[i].terms;
    }
    print_message("terms: ours %u, JVM %u\n", ours, theirs);
    assert_true(ours > 0 && theirs > 0);
    assert_true(ours <= 2 * theirs && theirs <= 2 * ours);
}

/* It has won by itself, so it is in the queue, before the waiter of ours. */
static void one_of_the_jvm_that_won_after_a_crash_wakes_ours_when_it_releases(void **state)
{
    struct party ours;
    struct jvm jvm;
    int64_t begin_ms;

    (void)state;
    server_do(&server, "SET simba:{m} crashed PX 1000");
    jvm_open(&jvm, "jvm");
    jvm_try(&jvm);
    party_join(&ours, server_url(&server, LONG_LEASE), "m", "ours");
    while (server_number(&server, "PUBLISH simba:{m}:ours hello") == 0)
        test_pause_ms(1);
    assert_int_equal(server_number(&server, "ZCARD simba:{m}:contender"), 2);
    server_do(&server, "SET simba:{m} jvm PX %d", LONG_LEASE_MS); /* it was the faster one */
    while (server_number(&server, "ZCARD simba:{m}:contender") > 1)
        test_pause_ms(1); /* ours has tried when the crashed one's lease was over */
    begin_ms = test_now_ms();
    jvm_release(&jvm);
    party_await_acquired(&ours, 1);
    assert_true(test_now_ms() - begin_ms < SOON_MS);
    party_leave(&ours);
    jvm_close(&jvm);
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
