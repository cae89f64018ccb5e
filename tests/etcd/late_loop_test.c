/*
 * late_loop_test.c - a loop that does not run for a while: when it goes on, a deadline is over and
 * the answer is there. It was late, not the server.
 *
 *     late_loop_test URL      of a server that the caller has started
 */
#include "backend/host.h"

#include <unistd.h>

#define PAUSE_MS 600 /* longer than the command-timeout of the URL */
#define PATIENCE_S 60

static const char *server_url;

static bool has_passed(void *user)
{
    return test_now_ms() >= *(const int64_t *)user;
}

static void an_answer_that_came_while_the_loop_did_not_run_is_read(void **state)
{
    static struct host host; /* larger than a stack likes */
    int64_t end_ms;
    struct call call;

    (void)state;
    alarm(PATIENCE_S); /* a loop that never turns would not notice a timer */
    assert_int_equal(host_open(&host, server_url), SIMBA_OK);
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).code, SIMBA_OK);
    call = host_call(SIMBA_OP_READ, "m", NULL, 0);
    host_submit(&host, &call, 1);
    end_ms = test_now_ms() + PAUSE_MS;
    assert_true(test_wait_within(2 * PAUSE_MS, has_passed, &end_ms));
    assert_true(host_wait(&host, &call, 1));
    assert_int_equal(call.code, SIMBA_OK);
    assert_int_equal(host.log_count, 0); /* the connection is the same */
    assert_true(host_close(&host));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_came_while_the_loop_did_not_run_is_read),
    };

    if (argc < 2)
        return 2;
    server_url = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
