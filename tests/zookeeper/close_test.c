/*
 * close_test.c - the client library may forget completions when a handle is closed right after its
 * connection broke. Every request is answered all the same, once and long before its time is over,
 * and none of them keeps its contender from asking again. That one is forgotten for certain,
 * latch_test.c shows.
 */
#include "hooks.h"
#include "stage.h"

#include <pthread.h>

#define ROUNDS 5
#define CALLS 40

static int enter(void **state)
{
    hooks_reset();
    stage_open_host("?session-timeout=4s");
    return 0;
}

/* ---- Requests -------------------------------------------------------------------------------- */

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

/* ---- Drops ----------------------------------------------------------------------------------- */

static atomic_bool expired;

static void *expire(void *session)
{
    witness_expire(&server, session);
    atomic_store(&expired, true);
    return NULL;
}

/* Its connection breaks, and its handle is closed when it hears that the session is over; meanwhile
 * it is asked for more and more. */
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
    for (int i = 0; i < ROUNDS; i++) {
        ask_while_the_session_ends();
        assert_true(host_run_until(&host, leads_all, NULL));
    }
}

/* ---- A client that closes -------------------------------------------------------------------- */

static pthread_t test_thread;
static atomic_bool closes_handle;
static atomic_bool may_close;

/* On the backend's own thread; handles of witnesses are closed on the test's. */
static void hold_close(void)
{
    if (pthread_equal(pthread_self(), test_thread))
        return;
    atomic_store(&closes_handle, true);
    while (!atomic_load(&may_close))
        test_pause_ms(1);
}

static bool is_held(void *user)
{
    (void)user;
    return atomic_load(&closes_handle);
}

/* The first turn of the loop ends with the beginning of the session's close. */
static void let_go_in_the_second_turn(uv_check_t *turn)
{
    if (turn->data == NULL) {
        turn->data = turn;
        return;
    }
    atomic_store(&may_close, true);
    uv_close((uv_handle_t *)turn, NULL);
}

/*
 *     test      submit: delete ....... close of the client begins ..... the last turn frees it
 *     session         expires: its handle is to be closed ......... closed: what it forgot ends
 *
 * What the request goes on to do has to end within that last turn.
 */
static void close_while_the_session_is_over(struct call *call)
{
    clientid_t session = hooks_session();
    uv_check_t turn = {0};

    test_thread = pthread_self();
    atomic_store(&closes_handle, false);
    atomic_store(&may_close, false);
    hooks.before_close = hold_close;
    atomic_store(&hooks.forget_deletes, 1);
    host_submit(&host, call, 1);
    assert_int_equal(atomic_load(&hooks.forget_deletes), 0);
    witness_expire(&server, &session);
    assert_true(host_run_until(&host, is_held, NULL));
    assert_int_equal(call->answers, 0);
    uv_check_init(&host.loop, &turn);
    uv_check_start(&turn, let_go_in_the_second_turn);
    assert_true(host_close(&host));
    assert_int_equal(call->answers, 1);
    assert_int_equal(call->code, SIMBA_EUNKNOWN); /* of the delete */
}

/* An owner that asks again gets a new node; the old one is deleted first. */
static void a_contest_whose_session_is_over_fails_before_its_client_is_gone(void **state)
{
    struct call again = host_call(SIMBA_OP_ACQUIRE, "m", "me", 0);

    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "me", 0).owner, "me");
    close_while_the_session_is_over(&again);
}

/* A waiter that gives back what it does not have leaves the queue, and looks who owns. */
static void a_look_whose_session_is_over_fails_before_its_client_is_gone(void **state)
{
    struct call release = host_call(SIMBA_OP_RELEASE, "m", "me", 1);

    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "first", 0).owner, "first");
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "me", 0).owner, "first");
    close_while_the_session_is_over(&release);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            every_request_is_answered_once_when_handles_are_closed_right_after_drops, enter,
            stage_close_host),
        cmocka_unit_test_setup(a_contest_whose_session_is_over_fails_before_its_client_is_gone,
                               enter),
        cmocka_unit_test_setup(a_look_whose_session_is_over_fails_before_its_client_is_gone, enter),
    };

    return cmocka_run_group_tests(tests, stage_start, stage_stop);
}
