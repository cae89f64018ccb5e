/*
 * queue_test.c - who waits, in order; and questions about many nodes, which end in time whatever
 * the server does.
 */
#include "stage.h"

#define MUTEX "m"
#define CROWD 300 /* more than are read at once */

static int start(void **state)
{
    stage_start_watched(state);
    stage_open_host("?session-timeout=40s");
    return 0;
}

static int stop(void **state)
{
    int closed = stage_close_host(state);

    stage_stop_watched(state);
    return closed;
}

static void those_who_wait_are_told_in_the_order_of_their_turns(void **state)
{
    struct call queue = host_do(&host, SIMBA_OP_QUEUE, MUTEX, NULL, 0);
    char nameless[256];

    assert_int_equal(queue.code, SIMBA_OK);
    assert_int_equal(queue.list_count, 0);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, MUTEX, "first", 0).owner, "first");
    witness_join(&witness, MUTEX, "z");
    host_do(&host, SIMBA_OP_ACQUIRE, MUTEX, "b", 0);
    snprintf(nameless, sizeof nameless, "%s", witness_join(&witness, MUTEX, ""));
    host_do(&host, SIMBA_OP_ACQUIRE, MUTEX, "a", 0);
    queue = host_do(&host, SIMBA_OP_QUEUE, MUTEX, NULL, 0);
    assert_int_equal(queue.code, SIMBA_OK);
    assert_int_equal(queue.list_count, 4);
    assert_string_equal(queue.list[0].owner.id, "z");
    assert_string_equal(queue.list[1].owner.id, "b");
    assert_string_equal(queue.list[2].owner.id, nameless);
    assert_string_equal(queue.list[3].owner.id, "a");
}

static void a_long_queue_is_told_whole(void **state)
{
    struct call queue;
    char id[16];

    for (int i = 0; i < CROWD; i++) {
        snprintf(id, sizeof id, "w%d", i);
        witness_join(&witness, "long", id);
    }
    queue = host_do(&host, SIMBA_OP_QUEUE, "long", NULL, 0);
    assert_int_equal(queue.code, SIMBA_OK);
    assert_int_equal(queue.list_count, CROWD - 1);
    assert_string_equal(queue.list[0].owner.id, "w1");
}

static void names_that_cannot_be_nodes_have_no_queue(void **state)
{
    struct call queue = host_do(&host, SIMBA_OP_QUEUE, "a/b", NULL, 0);

    assert_int_equal(queue.code, SIMBA_EINVAL);
}

static void a_server_that_hangs_does_not_hold_up_who_asks(void **state)
{
    static const enum simba_op ops[] = {SIMBA_OP_LIST, SIMBA_OP_QUEUE};

    server_pause(&server);
    for (size_t i = 0; i < TEST_COUNT(ops); i++) {
        struct call call = host_call(ops[i], ops[i] == SIMBA_OP_QUEUE ? MUTEX : NULL, NULL, 0);
        int64_t begin_ms = test_now_ms();

        call.request.timeout_ms = 300;
        host_submit(&host, &call, 1);
        assert_true(host_wait(&host, &call, 1));
        assert_int_equal(call.code, SIMBA_EUNAVAILABLE);
        assert_in_range(test_now_ms() - begin_ms, 290, 5000);
    }
    server_go_on(&server);
    assert_int_equal(host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0).code, SIMBA_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_who_wait_are_told_in_the_order_of_their_turns),
        cmocka_unit_test(a_long_queue_is_told_whole),
        cmocka_unit_test(names_that_cannot_be_nodes_have_no_queue),
        cmocka_unit_test(a_server_that_hangs_does_not_hold_up_who_asks),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
