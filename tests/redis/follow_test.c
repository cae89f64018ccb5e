/*
 * follow_test.c - a contender that waits and has on_notify is told of the owners between others by
 * the mutex's own channel; what that costs the server, and that others cost it nothing.
 */
#include "server.h"
#include "tck/follow.h"

static struct server server;

static int start(void **state)
{
    server_start(&server, NULL);
    return 0;
}

static int stop(void **state)
{
    server_stop(&server);
    return 0;
}

/* How often it has carried out a command. Of the scripts, only reading calls ZCARD, and only an
 * attempt that lost ZADD. */
static long long calls(const char *command)
{
    char key[64];
    const char *found;

    snprintf(key, sizeof key, "cmdstat_%s:calls=", command);
    found = strstr(server_text(&server, "INFO commandstats"), key);
    return found != NULL ? atoll(found + strlen(key)) : 0;
}

static long long followers(void)
{
    redisReply *reply = server_ask(&server, "PUBSUB NUMSUB simba:{" FOLLOW_MUTEX "}");
    long long count = reply->element[1]->integer;

    freeReplyObject(reply);
    return count;
}

static bool has_followers(void *user)
{
    return followers() == *(long long *)user;
}

static bool is_queued(void *user)
{
    return server_number(&server, "ZCOUNT simba:{" FOLLOW_MUTEX "}:contender -inf +inf") ==
           *(long long *)user;
}

static bool has_tried(void *user)
{
    return calls("zadd") >= *(long long *)user;
}

static bool has_read(void *user)
{
    return calls("zcard") >= *(long long *)user;
}

static void a_waiter_is_told_who_owns(void **state)
{
    follow_assert_told(server_url(&server, ""), NULL, FOLLOW_SOON_MS);
}

/* The channel is that of the mutex: the message of another library is as good as ours. What it says
 * is not believed; the key is. */
static void a_message_is_only_a_reason_to_look(void **state)
{
    struct follower waiter;
    struct follow_belief belief = {&waiter, "jvm"};
    long long one = 1;
    long long reads;

    server_do(&server, "SET simba:{" FOLLOW_MUTEX "} other PX 60000");
    follow_create(&waiter, server_url(&server, ""), NULL, "waiter", true);
    assert_int_equal(simba_contender_start(waiter.contender, NULL), SIMBA_OK);
    assert_true(test_wait(has_followers, &one));
    belief.owner = "other";
    assert_true(test_wait(follow_is_told, &belief));
    reads = calls("zcard") + 1;
    server_do(&server, "PUBLISH simba:{" FOLLOW_MUTEX "} acquired@@liar");
    assert_true(test_wait(has_read, &reads));
    assert_true(follow_is_told(&belief));
    server_do(&server, "SET simba:{" FOLLOW_MUTEX "} jvm PX 60000");
    server_do(&server, "PUBLISH simba:{" FOLLOW_MUTEX "} acquired@@jvm");
    belief.owner = "jvm";
    assert_true(test_wait_within(FOLLOW_SOON_MS, follow_is_told, &belief));
    server_do(&server, "DEL simba:{" FOLLOW_MUTEX "}");
    follow_end(&waiter);
}

/* One hands over to the next, and the others look: they do not try. */
static void a_follower_does_not_try(void **state)
{
    struct follower party[5];
    size_t count = TEST_COUNT(party);
    long long waiting = (long long)count - 1;
    long long tries = calls("zadd") + 2 * waiting; /* each tries again when it is heard */

    for (size_t i = 0; i < count; i++) {
        char id[8];

        snprintf(id, sizeof id, "c%zu", i);
        follow_create(&party[i], server_url(&server, ""), NULL, id, true);
        follow_start(&party[i], i == 0 ? NULL : &party[0]);
    }
    assert_true(test_wait(has_followers, &waiting));
    assert_true(test_wait(has_tried, &tries));
    assert_int_equal(simba_contender_stop(party[0].contender, NULL), SIMBA_OK);
    for (size_t i = 2; i < count; i++) {
        struct follow_belief belief = {&party[i], "c1"};

        assert_true(test_wait_within(FOLLOW_SOON_MS, follow_is_told, &belief));
    }
    assert_int_equal(calls("zadd"), tries);
    for (size_t i = 0; i < count; i++)
        follow_end(&party[i]);
}

/* Neither a subscription nor a look more than before. */
static void a_contender_that_does_not_ask_costs_nothing(void **state)
{
    struct follower owner;
    struct follower heir;
    struct follower waiter;
    long long reads = calls("zcard");
    long long two = 2;
    long long tries = calls("zadd") + 2 * two; /* each tries again when it is heard */

    follow_create(&owner, server_url(&server, ""), NULL, "owner", false);
    follow_create(&heir, server_url(&server, ""), NULL, "heir", false);
    follow_create(&waiter, server_url(&server, ""), NULL, "waiter", false);
    follow_start(&owner, NULL);
    follow_start(&heir, &owner);
    follow_start(&waiter, &owner);
    assert_true(test_wait(is_queued, &two));
    assert_true(test_wait(has_tried, &tries));
    assert_int_equal(followers(), 0);
    assert_int_equal(simba_contender_stop(owner.contender, NULL), SIMBA_OK);
    assert_true(test_wait(follow_owns, &heir));
    assert_int_equal(followers(), 0);
    assert_int_equal(calls("zcard"), reads);
    follow_end(&owner);
    follow_end(&heir);
    follow_end(&waiter);
}

/* A contender that has not had to wait listens to nothing, and one that has stopped does no
 * more. */
static void a_winner_listens_to_nothing(void **state)
{
    struct follower winner;
    struct follower waiter;
    long long one = 1;
    long long none = 0;

    follow_create(&winner, server_url(&server, ""), NULL, "winner", true);
    follow_create(&waiter, server_url(&server, ""), NULL, "waiter", true);
    follow_start(&winner, NULL);
    assert_int_equal(followers(), 0);
    follow_start(&waiter, &winner);
    assert_true(test_wait(has_followers, &one));
    assert_int_equal(simba_contender_stop(waiter.contender, NULL), SIMBA_OK);
    assert_true(test_wait(has_followers, &none));
    follow_end(&winner);
    follow_end(&waiter);
}

/* ---- Many followers of one client ------------------------------------------------------------ */

#define OBSERVERS 4
#define WAITERS 3

struct crowd {
    simba_client *client;
    simba_observer *observers[OBSERVERS];
    simba_contender *waiters[WAITERS];
    const char *owner; /* whom all should name */
};

static void ignore(void *user, const struct simba_state *state)
{
    (void)user;
}

static bool all_are_told(void *user)
{
    struct crowd *crowd = user;
    struct simba_state state;
    bool all = true;

    for (int i = 0; i < OBSERVERS; i++) {
        simba_observer_state(crowd->observers[i], &state);
        all = all && strcmp(state.after.id, crowd->owner) == 0;
    }
    for (int i = 0; i < WAITERS; i++) {
        simba_contender_state(crowd->waiters[i], &state);
        all = all && strcmp(state.after.id, crowd->owner) == 0;
    }
    return all;
}

/* Another library becomes the owner for long, and says so. */
static void own_as(struct crowd *crowd, const char *owner)
{
    crowd->owner = owner;
    server_do(&server, "SET simba:{" FOLLOW_MUTEX "} %s PX 600000", owner);
    server_do(&server, "PUBLISH simba:{" FOLLOW_MUTEX "} acquired@@%s", owner);
}

static void crowd_start(struct crowd *crowd)
{
    struct simba_observer_options observer = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_contender_options waiter = SIMBA_CONTENDER_OPTIONS_INIT;
    long long one = 1;

    observer.mutex = FOLLOW_MUTEX;
    observer.poll_ms = 600000;
    waiter.mutex = FOLLOW_MUTEX;
    waiter.on_notify = ignore;
    own_as(crowd, "first");
    assert_int_equal(simba_client_open(server_url(&server, ""), NULL, &crowd->client, NULL),
                     SIMBA_OK);
    for (int i = 0; i < OBSERVERS; i++) {
        assert_int_equal(
            simba_observer_create(crowd->client, &observer, &crowd->observers[i], NULL), SIMBA_OK);
        assert_int_equal(simba_observer_start(crowd->observers[i], NULL), SIMBA_OK);
    }
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(simba_contender_create(crowd->client, &waiter, &crowd->waiters[i], NULL),
                         SIMBA_OK);
        assert_int_equal(simba_contender_start(crowd->waiters[i], NULL), SIMBA_OK);
    }
    assert_true(test_wait(has_followers, &one));
    assert_true(test_wait(all_are_told, crowd));
}

static void crowd_end(struct crowd *crowd)
{
    server_do(&server, "DEL simba:{" FOLLOW_MUTEX "}");
    for (int i = 0; i < OBSERVERS; i++)
        simba_observer_close(crowd->observers[i]);
    for (int i = 0; i < WAITERS; i++)
        simba_contender_close(crowd->waiters[i]);
    assert_int_equal(simba_client_close(crowd->client, NULL), SIMBA_OK);
}

/* One READ for all. A second is allowed for: a message may come while a look is under way. */
static void followers_of_a_client_share_a_look(void **state)
{
    struct crowd crowd;
    long long reads;

    crowd_start(&crowd);
    own_as(&crowd, "second");
    assert_true(test_wait_within(FOLLOW_SOON_MS, all_are_told, &crowd));
    for (int i = 0; i < 5; i++) {
        reads = calls("zcard");
        own_as(&crowd, i % 2 == 0 ? "third" : "fourth");
        assert_true(test_wait_within(FOLLOW_SOON_MS, all_are_told, &crowd));
        assert_true(calls("zcard") - reads <= 2);
    }
    crowd_end(&crowd);
}

#define FORGED 20000

/* As SECURITY.md says: 20 at once, and 50 a second. The looks of the beginning may come in
 * between. */
static void forged_messages_cause_few_looks(void **state)
{
    struct crowd crowd;
    long long reads;
    int64_t elapsed_ms;

    crowd_start(&crowd);
    reads = calls("zcard");
    elapsed_ms = -test_now_ms();
    for (int i = 0; i < FORGED; i++)
        server_do(&server, "PUBLISH simba:{" FOLLOW_MUTEX "} acquired@@liar");
    reads = calls("zcard") - reads;
    elapsed_ms += test_now_ms();
    print_message("%d forged messages in %lld ms: %lld reads\n", FORGED, (long long)elapsed_ms,
                  reads);
    assert_true(reads >= 1);
    assert_true(reads <= 20 + elapsed_ms / 20 + 1 + OBSERVERS + WAITERS);
    own_as(&crowd, "second"); /* and what is true is still heard soon */
    assert_true(test_wait_within(FOLLOW_SOON_MS, all_are_told, &crowd));
    crowd_end(&crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_is_told_who_owns),
        cmocka_unit_test(a_message_is_only_a_reason_to_look),
        cmocka_unit_test(a_follower_does_not_try),
        cmocka_unit_test(a_contender_that_does_not_ask_costs_nothing),
        cmocka_unit_test(a_winner_listens_to_nothing),
        cmocka_unit_test(followers_of_a_client_share_a_look),
        cmocka_unit_test(forged_messages_cause_few_looks),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
