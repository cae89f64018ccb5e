/*
 * lock_test.c - `simba lock`: what the command gets, what the caller gets, who has to wait.
 */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void the_exit_code_is_that_of_the_command(void **state)
{
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 0);
    assert_int_equal(simba_run("lock", "m", "--", "sh", "-c", "exit 7", NULL), 7);
    assert_int_equal(simba_run("lock", "m", "sh", "-c", "exit 255", NULL), 255);
    assert_string_equal(last_err(), "");
}

static void a_command_killed_by_a_signal_is_128_and_the_signal(void **state)
{
    assert_int_equal(simba_run("lock", "m", "--", "sh", "-c", "kill -TERM $$", NULL),
                     128 + SIGTERM);
    assert_int_equal(simba_run("lock", "m", "--", "sh", "-c", "kill -KILL $$", NULL),
                     128 + SIGKILL);
}

static void a_command_that_is_not_there_is_127(void **state)
{
    assert_int_equal(simba_run("lock", "m", "--", "no-such-command", NULL), 127);
    assert_contains(last_err(), "simba: cannot run 'no-such-command'");
    assert_int_equal(simba_run("lock", "m", "--", "./no/such/file", NULL), 127);
}

static void a_command_that_cannot_be_executed_is_126(void **state)
{
    file_write("plain", "no program\n");
    assert_int_equal(simba_run("lock", "m", "--", "./plain", NULL), 126);
    assert_contains(last_err(), "simba: cannot run './plain'");
    assert_int_equal(simba_run("lock", "m", "--", "/tmp", NULL), 126);
    assert_int_equal(simba_run("lock", "-n", "m", "--", "true", NULL), 0);
}

static void the_command_finds_mutex_id_and_fence_in_its_environment(void **state)
{
    unsigned long fences[2];

    setenv("SIMBA_FENCE", "of an outer lock", 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(simba_run("--exact-id", "me", "lock", "a \"name\"", "--", "sh", "-c",
                                   "echo \"$SIMBA_MUTEX|$SIMBA_CONTENDER_ID|$SIMBA_FENCE\"", NULL),
                         0);
        assert_int_equal(sscanf(last_out(), "a \"name\"|me|%lu\n", &fences[i]), 1);
    }
    unsetenv("SIMBA_FENCE");
    assert_true(fences[0] > 0);
    assert_true(fences[1] > fences[0]);
}

static void standard_input_is_passed_through(void **state)
{
    static char line[1024];

    FILE *file = fopen("input", "we");
    assert_non_null(file);
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 1024; i++)
        assert_int_equal(fwrite(line, 1, sizeof line, file), sizeof line);
    fclose(file);
    assert_int_equal(simba_run_input("input", "lock", "m", "--", "wc", "-c", NULL), 0);
    assert_int_equal(strtol(last_out(), NULL, 10), 1024 * 1024);
}

/* The tests may have been started with descriptors of their own: those count on both sides. Besides
 * there is the one by which the kernel tells that the work goes on. */
static void the_command_gets_the_descriptors_of_the_caller_and_no_others(void **state)
{
    int fd = open("/dev/null", O_RDONLY);
    assert_int_equal(dup2(fd, 42), 42);
    close(fd);
    assert_int_equal(system("ls /proc/self/fd >expected"), 0);
    assert_int_equal(
        simba_run("lock", "m", "--", "bash", "-c",
                  "for fd in /proc/$$/fd/*; do"
                  " case $(readlink $fd) in *-life) n=${fd##*/}; eval \"exec $n>&-\";; esac;"
                  " done; exec ls /proc/self/fd",
                  NULL),
        0);
    close(42);
    assert_contains(last_out(), "42\n");
    assert_string_equal(last_out(), file_read("expected"));
}

static void closed_standard_streams_do_no_harm(void **state)
{
    char command[512];

    snprintf(command, sizeof command, "%s lock m -- touch ran <&- >&- 2>&-",
             getenv("SIMBA_PROGRAM"));
    assert_int_equal(system(command), 0);
    assert_true(file_exists("ran"));
}

static void no_wait_gives_up_at_once_and_says_who_owns(void **state)
{
    struct process holder = holder_start();
    assert_int_equal(simba_run("lock", "-n", "m", "--", "touch", "ran", NULL), 75);
    assert_contains(last_err(), "simba: 'm' was not acquired: held by holder; lease renewed ");
    assert_int_equal(simba_run("lock", "-nq", "m", "--", "touch", "ran", NULL), 75);
    assert_string_equal(last_err(), "");
    assert_int_equal(simba_run("lock", "-n", "other", "--", "true", NULL), 0);
    assert_false(file_exists("ran"));
    kill(holder.pid, SIGTERM);
    assert_int_equal(process_wait(&holder), 128 + SIGTERM);
    assert_int_equal(simba_run("lock", "-n", "m", "--", "touch", "ran", NULL), 0);
    assert_true(file_exists("ran"));
}

static void the_exit_code_for_giving_up_can_be_chosen(void **state)
{
    struct process holder = holder_start();
    assert_int_equal(simba_run("lock", "-n", "-E", "0", "m", "--", "touch", "ran", NULL), 0);
    assert_string_equal(last_err(), "");
    assert_int_equal(simba_run("lock", "-w", "50ms", "-E", "9", "m", "--", "touch", "ran", NULL),
                     9);
    assert_false(file_exists("ran"));
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

static void a_bounded_wait_ends_in_time(void **state)
{
    struct process holder = holder_start();
    int64_t begin_ms = now_ms();
    assert_int_equal(simba_run("lock", "-w", "300ms", "m", "--", "touch", "ran", NULL), 75);
    int64_t waited_ms = now_ms() - begin_ms;
    assert_true(waited_ms >= 300);
    assert_true(waited_ms < 2000);
    assert_contains(last_err(),
                    "simba: 'm' was not acquired in 300ms: held by holder; lease renewed ");
    assert_false(file_exists("ran"));
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

static void a_wait_is_told_of_in_one_line_unless_quiet(void **state)
{
    struct process holder = holder_start();
    assert_int_equal(simba_run("lock", "-w", "3500ms", "m", "--", "true", NULL), 75);
    assert_contains(last_err(), "simba: waiting for 'm', 1st in line, held by holder");
    assert_contains(last_err(), "; store: sqlite:");
    assert_int_equal(count_lines(last_err()), 2); /* and one for giving up */
    assert_null(strchr(last_err(), '\033'));
    assert_int_equal(simba_run("lock", "-qw", "1500ms", "m", "--", "true", NULL), 75);
    assert_string_equal(last_err(), "");
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

/* It is said that the store is why, not an owner who does not let go. */
static void a_bounded_wait_ends_in_time_when_the_store_hangs(void **state)
{
    setenv("SIMBA_URL", LONG_LEASE_URL, 1);
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 0);
    sqlite3 *store = store_block();
    int64_t begin_ms = now_ms();
    int status = simba_run("lock", "-w", "300ms", "m", "--", "touch", "ran", NULL);
    int64_t waited_ms = now_ms() - begin_ms;
    store_unblock(store);
    assert_int_equal(status, 69);
    assert_true(waited_ms >= 300);
    assert_true(waited_ms < 3000);
    assert_contains(last_err(), "simba: 'm' was not acquired in 300ms: the store ");
    assert_int_equal(count_lines(last_err()), 1);
    assert_false(file_exists("ran"));
}

/* The first attempt would come later: nobody is known to own it. */
static void a_wait_that_met_no_owner_says_what_happened_once(void **state)
{
    setenv("SIMBA_URL", "sqlite:store.db?initial-delay=1m", 1);
    assert_int_equal(simba_run("lock", "-w", "50ms", "m", "--", "touch", "ran", NULL), 75);
    assert_int_equal(count_lines(last_err()), 1);
    const char *name = strstr(last_err(), "'m'");
    assert_non_null(name);
    assert_null(strstr(name + 1, "'m'"));
    assert_false(file_exists("ran"));
}

/* The lease is far longer than the time that this may take: only the release can have woken it. */
static void a_waiter_runs_soon_after_the_holder_has_ended(void **state)
{
    setenv("SIMBA_URL", LONG_LEASE_URL, 1);
    struct process holder = holder_start();
    struct process waiter = simba_start(NULL, "lock", "-w", "15s", "m", "--", "touch", "ran", NULL);
    wait_until(simba_run("status", "--json", "m", NULL) == 0 && last_out()[0] == '[');
    assert_false(file_exists("ran"));
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    assert_int_equal(process_wait(&waiter), 0);
    assert_true(file_exists("ran"));
}

/* The increment is not atomic: two commands at once would lose one. */
static void two_hundred_at_once_are_one_after_the_other(void **state)
{
    enum { CROWD = 200 };
    static struct process crowd[CROWD];

    setenv("SIMBA_URL", "sqlite:store.db?ttl=10s&transition=6s", 1);
    file_write("f", "0\n");
    for (int i = 0; i < CROWD; i++)
        crowd[i] =
            simba_start(NULL, "lock", "m", "--", "sh", "-c", "read n <f; echo $((n+1)) >f", NULL);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(process_wait(&crowd[i]), 0);
    assert_string_equal(file_read("f"), "200\n");
}

/* The twin of the test above: without the lock the counter falls behind, so the check can fail.
 * Nobody writes before all have read. */
static void without_the_lock_increments_get_lost(void **state)
{
    file_write("f", "0\n");
    assert_int_equal(system("for i in 1 2 3 4 5 6 7 8; do"
                            " sh -c 'read n <f; : >read.$0; until [ -e read.1 -a -e read.2 -a"
                            " -e read.3 -a -e read.4 -a -e read.5 -a -e read.6 -a -e read.7 -a"
                            " -e read.8 ]; do :; done; echo $((n+1)) >f' $i & done; wait"),
                     0);
    assert_string_equal(file_read("f"), "1\n");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, sandbox_enter, sandbox_leave)

/* "crowd" runs the case that nothing may run beside; no argument all others. */
int main(int argc, char **argv)
{
    const struct CMUnitTest crowd[] = {
        CASE(two_hundred_at_once_are_one_after_the_other),
    };
    const struct CMUnitTest tests[] = {
        CASE(the_exit_code_is_that_of_the_command),
        CASE(a_command_killed_by_a_signal_is_128_and_the_signal),
        CASE(a_command_that_is_not_there_is_127),
        CASE(a_command_that_cannot_be_executed_is_126),
        CASE(the_command_finds_mutex_id_and_fence_in_its_environment),
        CASE(standard_input_is_passed_through),
        CASE(the_command_gets_the_descriptors_of_the_caller_and_no_others),
        CASE(closed_standard_streams_do_no_harm),
        CASE(no_wait_gives_up_at_once_and_says_who_owns),
        CASE(the_exit_code_for_giving_up_can_be_chosen),
        CASE(a_bounded_wait_ends_in_time),
        CASE(a_wait_is_told_of_in_one_line_unless_quiet),
        CASE(a_bounded_wait_ends_in_time_when_the_store_hangs),
        CASE(a_wait_that_met_no_owner_says_what_happened_once),
        CASE(a_waiter_runs_soon_after_the_holder_has_ended),
        CASE(without_the_lock_increments_get_lost),
    };

    if (argc > 1 && strcmp(argv[1], "crowd") == 0)
        return cmocka_run_group_tests(crowd, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
