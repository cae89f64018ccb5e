/*
 * stderr_test.c - standard error that nobody reads: a pipe that is full, a terminal that was
 * stopped.
 *
 * What the program has to say must not come between a lease and its command.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fills the pipe "stuck", which the test keeps open and does not read. */
static int pipe_fill(void)
{
    static const char filling[4096];

    assert_int_equal(mkfifo("stuck", 0600), 0);
    int fd = open("stuck", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    while (write(fd, filling, sizeof filling) > 0)
        continue;
    assert_int_equal(errno, EAGAIN);
    return fd;
}

static void a_command_is_killed_in_time_though_nobody_reads_why(void **state)
{
    int fd = pipe_fill();
    struct process process = command_start("sh", "-c",
                                           "exec \"$SIMBA_PROGRAM\" lock -k 100ms m -- sh -c"
                                           " 'trap \"\" TERM; echo $$ >holder.new; mv holder.new "
                                           "holder; sleep 100; sleep 100' 2>stuck",
                                           NULL);
    pid_t command = (pid_t)file_wait_number("holder");
    sqlite3 *store = store_block();
    int64_t blocked_ms = now_ms();
    wait_until(!process_is_alive(command));
    assert_true(now_ms() - blocked_ms < LEASE_MS);
    store_unblock(store);
    assert_int_equal(process_wait(&process), 70);
    close(fd);
}

/* The first line of the log comes before the mutex is won. */
static void the_lease_is_renewed_though_nobody_reads_the_log(void **state)
{
    int fd = pipe_fill();
    struct process process =
        command_start("sh", "-c",
                      "exec \"$SIMBA_PROGRAM\" --log-level debug lock m -- sh -c"
                      " 'echo $$ >holder.new; mv holder.new holder; exec sleep 100' 2>stuck",
                      NULL);
    file_wait_number("holder");
    int64_t end_ms = now_ms() + 2 * LEASE_MS;
    while (now_ms() < end_ms)
        assert_int_equal(simba_run("lock", "-nq", "m", "--", "true", NULL), 75);
    int64_t ended_ms = now_ms();
    kill(process.pid, SIGTERM);
    assert_int_equal(process_wait(&process), 128 + SIGTERM);
    assert_true(now_ms() - ended_ms < 3000);
    close(fd);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, sandbox_enter, sandbox_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_command_is_killed_in_time_though_nobody_reads_why),
        CASE(the_lease_is_renewed_though_nobody_reads_the_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
