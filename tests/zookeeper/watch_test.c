/*
 * watch_test.c - the watches of a client: those that nobody needs any more are taken back, and
 * those of many mutexes do not keep it from coming back.
 */
#include "hooks.h"
#include "stage.h"

#define MUTEXES 40
#define PACKET_MAX 8192 /* less than the names of all watched nodes, and more than those of half */

static int start(void **state)
{
    server_start_narrow(&server, PACKET_MAX);
    return 0;
}

static int enter(void **state)
{
    hooks_reset();
    witness_open(&witness, &server, NULL);
    stage_open_host("?session-timeout=40s");
    return 0;
}

static int leave(void **state)
{
    witness_close(&witness);
    return stage_close_host(state);
}

/* ---- Queues ---------------------------------------------------------------------------------- */

struct queue {
    char mutex[SIMBA_MUTEX_MAX + 1];
    char first[256]; /* the node of a participant that is not ours */
};

static void join(struct queue *queue, int number)
{
    snprintf(queue->mutex, sizeof queue->mutex, "%066d", number);
    snprintf(queue->first, sizeof queue->first, "%s",
             witness_join(&witness, queue->mutex, "first"));
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, queue->mutex, "second", 0).owner, "first");
}

static bool leads(void *user)
{
    const struct queue *queue = user;
    struct call call = host_do(&host, SIMBA_OP_ACQUIRE, queue->mutex, "second", 0);

    return call.code == SIMBA_OK && strcmp(call.owner, "second") == 0;
}

static void release(const struct queue *queue)
{
    struct call call = host_do(&host, SIMBA_OP_RELEASE, queue->mutex, "second", 0);

    assert_int_equal(call.code, SIMBA_OK);
}

/* ---- Watches --------------------------------------------------------------------------------- */

static bool has_no_watches(void *user)
{
    (void)user;
    return server_watches(&server) == 0;
}

static void an_owner_soon_watches_nothing(void **state)
{
    struct queue queue;

    join(&queue, 0);
    assert_int_equal(server_watches(&server), 2); /* the first, and its own */
    witness_delete(&witness, queue.mutex, queue.first);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, queue.mutex, "second"));
    assert_true(leads(&queue));
    assert_true(host_run_until(&host, has_no_watches, NULL));
    release(&queue);
}

static bool is_up(void *user)
{
    (void)user;
    return host_notices(&host, SIMBA_NOTICE_RELEASED, "", NULL) > 0;
}

static bool has_deleted_first(void *user)
{
    const struct queue *queue = user;

    return witness_try_delete(&witness, queue->mutex, queue->first);
}

/* Connected again, the client library would send them all in one packet. */
static void more_watches_than_a_packet_holds_do_not_keep_a_client_away(void **state)
{
    static struct queue queues[MUTEXES];
    clientid_t session = hooks_session();

    for (int i = 0; i < MUTEXES; i++)
        join(&queues[i], i);
    assert_int_equal(server_watches(&server), 2 * MUTEXES);
    host_forget_notices(&host);
    server_kill(&server);
    server_start_again(&server);
    assert_true(host_run_until(&host, is_up, NULL));
    for (int i = 0; i < MUTEXES; i++) {
        assert_true(host_run_until(&host, has_deleted_first, &queues[i]));
        assert_true(host_run_until(&host, leads, &queues[i]));
    }
    assert_true(hooks_session().client_id == session.client_id);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, enter, leave)
    const struct CMUnitTest tests[] = {
        CASE(an_owner_soon_watches_nothing),
        CASE(more_watches_than_a_packet_holds_do_not_keep_a_client_away),
    };

    return cmocka_run_group_tests(tests, start, stage_stop);
}
