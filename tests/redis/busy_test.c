/*
 * busy_test.c - waiters whose on_notify runs for long: they acquire when it is their turn, and one
 * that stops holds nobody up.
 */
#include "party.h"
#include "server.h"

#include <pthread.h>

#define LONG_LEASE "?ttl=20s&transition=20s&jitter=0ms..50ms"
#define SOON_MS 5000 /* nothing but a word is so fast with that lease */

static struct server server;

/* A waiter whose on_notify does not return while the gate is shut. */
struct busy {
    struct party party; /* first: the user of its callbacks */
    _Atomic bool shut;
    _Atomic bool runs;
};

static bool is_open(void *user)
{
    const struct busy *busy = user;

    return !atomic_load(&busy->shut);
}

static void on_notify(void *user, const struct simba_state *state)
{
    struct busy *busy = user;

    atomic_store(&busy->runs, true);
    test_wait(is_open, user);
}

static bool is_running(void *user)
{
    const struct busy *busy = user;

    return atomic_load(&busy->runs);
}

static bool has_waiters(void *user)
{
    return server_number(&server, "ZCARD simba:{m}:contender") == *(const int *)user;
}

static bool has_subscriber(void *user)
{
    redisReply *reply = server_ask(&server, "PUBSUB NUMSUB simba:{m}:%s", (const char *)user);
    bool has = reply->element[1]->integer > 0;

    freeReplyObject(reply);
    return has;
}

static void await_waiter(const char *id, int waiters)
{
    assert_true(test_wait(has_subscriber, (void *)id));
    assert_true(test_wait(has_waiters, &waiters));
}

static void own(struct party *party, const char *id)
{
    party_join(party, server_url(&server, LONG_LEASE), "m", id);
    party_await_acquired(party, 1);
}

/* It waits, and its callback runs. */
static void wait_busily(struct busy *busy, const char *id, int waiters)
{
    atomic_store(&busy->shut, true);
    atomic_store(&busy->runs, false);
    party_join_notified(&busy->party, on_notify, server_url(&server, LONG_LEASE), "m", id);
    await_waiter(id, waiters);
    assert_true(test_wait(is_running, busy));
}

static void open_gate(struct busy *busy)
{
    atomic_store(&busy->shut, false);
}

static void await_owner_soon(struct party *party)
{
    int64_t begin_ms = test_now_ms();

    party_await_acquired(party, 1);
    assert_true(test_now_ms() - begin_ms < SOON_MS);
}

static bool owns(void *user)
{
    const struct busy *busy = user;

    return party_is_owner(&busy->party);
}

static void a_waiter_is_woken_while_its_on_notify_runs(void **state)
{
    struct party first;
    struct busy busy;

    own(&first, "first");
    wait_busily(&busy, "busy", 1);
    party_leave(&first);
    assert_true(test_wait(owns, &busy));
    assert_int_equal(atomic_load(&busy.party.acquired), 0); /* on_acquired waits for on_notify */
    open_gate(&busy);
    await_owner_soon(&busy.party);
    party_leave(&busy.party);
}

static void *leave(void *party)
{
    party_leave(party);
    return NULL;
}

static bool is_stopping(void *user)
{
    const struct busy *busy = user;

    return simba_contender_status(busy->party.contender) == SIMBA_STOPPING;
}

static void a_waiter_that_stops_while_its_on_notify_runs_holds_nobody_up(void **state)
{
    struct party first;
    struct party last;
    struct busy busy;
    pthread_t thread;

    own(&first, "first");
    wait_busily(&busy, "busy", 1);
    assert_int_equal(pthread_create(&thread, NULL, leave, &busy), 0);
    assert_true(test_wait(is_stopping, &busy));
    party_leave(&first);
    party_join(&last, server_url(&server, LONG_LEASE), "m", "last");
    await_owner_soon(&last);
    open_gate(&busy);
    pthread_join(thread, NULL);
    party_leave(&last);
    assert_int_equal(server_number(&server, "EXISTS simba:{m} simba:{m}:contender"), 0);
}

static int begin(void **state)
{
    server_do(&server, "FLUSHALL");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_waiter_is_woken_while_its_on_notify_runs, begin),
        cmocka_unit_test_setup(a_waiter_that_stops_while_its_on_notify_runs_holds_nobody_up, begin),
    };
    int failed;

    server_start(&server, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    return failed;
}
