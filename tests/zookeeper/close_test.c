/*
 * close_test.c - the client library may forget completions when a handle is closed right after its connection
 * broke. Every request is answered all the same, once and long before its time is over, and none of them keeps its
 * contender from asking again. That one is forgotten for certain, latch_test.c shows.
 */
#include "backend/host.h"
#include "hooks.h"

#include <pthread.h>

#define ROUNDS 5
#define CALLS 40

static struct server server;
static struct host host;

static int start(void **state)
{
    (void)state;
    server_start(&server);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(&server);
    return 0;
}

static int enter(void **state)
{
    (void)state;
    hooks_reset();
    if (host_open(&host, server_url(&server, "?session-timeout=4s")) != SIMBA_OK)
        fail_msg("%s", host.open_error.text);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    return host_close(&host) ? 0 : -1;
}

/* ---- Requests ------------------------------------------------------------------------------- */

static struct call calls[CALLS];
static char mutexes[CALLS][16];

static void submit_all(enum simba_op op)
{
    for (int i = 0; i < CALLS; i++) {
        snprintf(mutexes[i], sizeof mutexes[i], "m-%d", i);
        calls[i] = host_call(op, mutexes[i], "me", 0);
    }
    host_submit(&host, calls, CALLS);
}

/* One that was forgotten would be answered when its time is over. */
static void await_all(void)
{
    int64_t begin_ms = test_now_ms();

    assert_true(host_wait(&host, calls, CALLS));
    assert_true(test_now_ms() - begin_ms < calls[0].request.timeout_ms / 2);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(calls[i].answers, 1);
}

static bool has_waited(void *user)
{
    return test_now_ms() >= *(int64_t *)user;
}

/* Without a connection answers come at once, and the loop is not turned by waiting for them. */
static void turn_loop(void)
{
    int64_t until_ms = test_now_ms() + 1;

    assert_true(host_run_until(&host, has_waited, &until_ms));
}

static bool leads_all(void *user)
{
    bool all = true;

    (void)user;
    submit_all(SIMBA_OP_ACQUIRE);
    await_all();
    for (int i = 0; i < CALLS; i++)
        all = all && calls[i].code == SIMBA_OK && strcmp(calls[i].owner, "me") == 0;
    return all;
}

/* ---- Drops ---------------------------------------------------------------------------------- */

static atomic_bool expired;

static void *expire(void *session)
{
    witness_expire(&server, session);
    atomic_store(&expired, true);
    return NULL;
}

/* Its connection breaks, and its handle is closed when it hears that the session is over; meanwhile it is asked for
 * more and more. */
static void ask_while_the_session_ends(void)
{
    clientid_t session = hooks_session();
    pthread_t thread;

    atomic_store(&expired, false);
    assert_int_equal(pthread_create(&thread, NULL, expire, &session), 0);
    do {
        submit_all(SIMBA_OP_ACQUIRE);
        await_all();
        submit_all(SIMBA_OP_RELEASE);
        await_all();
        turn_loop();
    } while (!atomic_load(&expired) || hooks_session().client_id == session.client_id);
    pthread_join(thread, NULL);
}

static void every_request_is_answered_once_when_handles_are_closed_right_after_drops(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        ask_while_the_session_ends();
        assert_true(host_run_until(&host, leads_all, NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            every_request_is_answered_once_when_handles_are_closed_right_after_drops, enter, leave),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
