/*
 * signals_test.c - signals that `simba lock` gets, while it waits and while its command runs.
 */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts a command that writes the number of each signal it gets to the file "got". Where a script
 * runs the tests in the background it ignores the first two, and so would the command. */
static struct process start_listener(void)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    struct process process =
        simba_start(NULL, "lock", "m", "--", "bash", "-c",
                    "for s in HUP INT QUIT USR1 USR2 ALRM TERM WINCH PIPE RTMIN; do trap \"echo $s "
                    ">>got\" $s; done;"
                    "echo $$ >holder.new; mv holder.new holder; while :; do sleep 0.02; done",
                    NULL);

    file_wait_number("holder");
    return process;
}

static void every_signal_is_forwarded_to_the_command(void **state)
{
    static const struct {
        int signal;
        const char *name;
    } signals[] = {{SIGHUP, "HUP"},   {SIGINT, "INT"},     {SIGQUIT, "QUIT"},
                   {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"},   {SIGALRM, "ALRM"},
                   {SIGTERM, "TERM"}, {SIGWINCH, "WINCH"}, {SIGPIPE, "PIPE"}};

    struct process process = start_listener();
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        kill(process.pid, signals[i].signal);
        wait_until(strstr(file_read("got"), signals[i].name) != NULL);
    }
    kill(process.pid, SIGRTMIN);
    wait_until(strstr(file_read("got"), "RTMIN") != NULL);
    assert_true(process_is_alive(process.pid));
    kill((pid_t)file_wait_number("holder"), SIGKILL);
    assert_int_equal(process_wait(&process), 128 + SIGKILL);
}

static void the_whole_group_of_the_command_gets_the_signal(void **state)
{
    struct process process =
        simba_start(NULL, "lock", "m", "--", "sh", "-c",
                    "sleep 100 & echo $! >inner.new; mv inner.new inner; wait", NULL);
    pid_t inner = (pid_t)file_wait_number("inner");
    kill(process.pid, SIGTERM);
    assert_int_equal(process_wait(&process), 128 + SIGTERM);
    wait_until(!process_is_alive(inner));
}

static void a_signal_that_was_ignored_at_the_start_does_not_end_the_wait(void **state)
{
    struct process holder = holder_start();
    signal(SIGHUP, SIG_IGN);
    struct process waiter = simba_start(NULL, "lock", "m", "--", "true", NULL);
    signal(SIGHUP, SIG_DFL);
    wait_until(process_takes_signals(waiter.pid));
    kill(waiter.pid, SIGHUP);
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    assert_int_equal(process_wait(&waiter), 0);
}

/* What this process ignores itself, perhaps since before the test began, is ignored by the command,
 * too. */
static void the_command_starts_with_the_signal_mask_of_the_caller(void **state)
{
    char expected[256] = "";
    char line[128];
    FILE *status = fopen("/proc/self/status", "r");

    assert_non_null(status);
    while (fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "SigBlk:", 7) == 0 || strncmp(line, "SigIgn:", 7) == 0)
            strcat(expected, line);
    }
    fclose(status);
    assert_int_equal(
        simba_run("lock", "m", "--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status", NULL), 0);
    assert_string_equal(last_out(), expected);
}

static void an_ignored_sigchld_does_not_hide_the_exit_code(void **state)
{
    signal(SIGCHLD, SIG_IGN);
    struct process process = simba_start(NULL, "lock", "m", "--", "sh", "-c", "exit 3", NULL);
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(process_wait(&process), 3);
}

/* Each one comes a little later than the one before: while the store is opened, while the waiter
 * joins, while it waits. */
static void a_signal_ends_the_wait_and_leaves_nothing_behind(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

    setenv("SIMBA_URL", LONG_LEASE_URL, 1);
    struct process holder = holder_start();
    for (int i = 0; i < 4; i++) {
        struct process waiter = simba_start(NULL, "lock", "m", "--", "touch", "ran", NULL);
        wait_until(process_takes_signals(waiter.pid));
        int64_t begin_ms = now_ms();
        wait_until(now_ms() >= begin_ms + i * 50);
        kill(waiter.pid, signals[i]);
        int ended = process_wait(&waiter);
        assert_int_equal(ended, signals[i] == SIGINT ? -SIGINT : 128 + signals[i]);
        assert_true(now_ms() - begin_ms < 3000);
    }
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    assert_int_equal(simba_run("lock", "-n", "m", "--", "true", NULL), 0);
    assert_false(file_exists("ran"));
}

static void a_signal_ends_the_wait_soon_when_the_store_hangs(void **state)
{
    setenv("SIMBA_URL", LONG_LEASE_URL, 1);
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 0);
    sqlite3 *store = store_block();
    struct process waiter = simba_start(NULL, "lock", "m", "--", "touch", "ran", NULL);
    wait_until(process_takes_signals(waiter.pid) && process_has_open(waiter.pid, "/store.db"));
    int64_t begin_ms = now_ms();
    kill(waiter.pid, SIGTERM);
    int status = process_wait(&waiter);
    int64_t took_ms = now_ms() - begin_ms;
    store_unblock(store);
    assert_int_equal(status, 128 + SIGTERM);
    assert_true(took_ms < 3000);
    assert_false(file_exists("ran"));
}

/* The second one may come before the first has ended it: then it is what the program ended by. */
static void two_signals_end_the_wait_when_the_store_hangs(void **state)
{
    setenv("SIMBA_URL", LONG_LEASE_URL, 1);
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 0);
    sqlite3 *store = store_block();
    struct process waiter = simba_start(NULL, "lock", "m", "--", "touch", "ran", NULL);
    wait_until(process_takes_signals(waiter.pid) && process_has_open(waiter.pid, "/store.db"));
    int64_t begin_ms = now_ms();
    kill(waiter.pid, SIGTERM);
    wait_until(!process_has_pending(waiter.pid, SIGTERM));
    kill(waiter.pid, SIGHUP);
    int status = process_wait(&waiter);
    int64_t took_ms = now_ms() - begin_ms;
    store_unblock(store);
    assert_true(status == 128 + SIGHUP || status == 128 + SIGTERM);
    assert_true(took_ms < 3000);
}

/* A signal may still count as the command's: the user who is impatient sends another. */
static void a_signal_ends_a_release_that_hangs(void **state)
{
    setenv("SIMBA_URL", LONG_LEASE_URL, 1);
    struct process holder = holder_start();
    sqlite3 *store = store_block();
    int64_t begin_ms = now_ms();
    kill((pid_t)file_wait_number("holder"), SIGKILL);
    while (process_is_alive(holder.pid) && now_ms() - begin_ms < PATIENCE_MS) {
        kill(holder.pid, SIGTERM);
        pause_briefly();
    }
    int status = process_wait(&holder);
    int64_t took_ms = now_ms() - begin_ms;
    store_unblock(store);
    assert_int_equal(status, 128 + SIGKILL);
    assert_true(took_ms < 3000);
}

static void harmless_signals_do_not_end_the_wait(void **state)
{
    struct process holder = holder_start();
    struct process waiter = simba_start(NULL, "lock", "m", "--", "true", NULL);
    wait_until(process_takes_signals(waiter.pid));
    for (int i = 0; i < 50; i++) {
        pause_briefly();
        kill(waiter.pid, SIGWINCH);
        kill(waiter.pid, SIGCONT);
    }
    assert_true(process_is_alive(waiter.pid));
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    assert_int_equal(process_wait(&waiter), 0);
}

static void killing_simba_kills_the_command_and_the_mutex_is_free_after_the_lease(void **state)
{
    struct process holder = holder_start();
    pid_t command = (pid_t)file_wait_number("holder");
    int64_t killed_ms = now_ms();
    kill(holder.pid, SIGKILL);
    assert_int_equal(process_wait(&holder), -SIGKILL);
    wait_until(!process_is_alive(command));
    assert_true(now_ms() - killed_ms < TTL_MS + TRANSITION_MS);
    assert_int_equal(simba_run("lock", "-w", "10s", "m", "--", "true", NULL), 0);
    assert_true(now_ms() - killed_ms < LEASE_MS + 3000);
}

static void killing_simba_kills_what_the_command_has_started_as_well(void **state)
{
    struct process process =
        simba_start(NULL, "lock", "m", "--", "sh", "-c",
                    "sleep 100 & echo $! >inner.new; mv inner.new inner; wait", NULL);
    pid_t inner = (pid_t)file_wait_number("inner");
    kill(process.pid, SIGKILL);
    assert_int_equal(process_wait(&process), -SIGKILL);
    wait_until(!process_is_alive(inner));
}

/* Who wants to leave something running on purpose has to say so. */
static void what_the_command_left_running_goes_on_where_that_is_wanted(void **state)
{
    assert_int_equal(simba_run("lock", "--leave-running", "m", "--", "sh", "-c",
                               "sleep 100 & echo $! >inner", NULL),
                     0);
    pid_t inner = (pid_t)file_wait_number("inner");
    assert_true(process_is_alive(inner));
    kill(inner, SIGKILL);
}

/* Beside the command there is the guardian, and both are alive. */
static void no_zombie_is_left_while_the_command_runs(void **state)
{
    char path[64];
    int guardian = 0;
    int command = 0;

    struct process holder = holder_start();
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)holder.pid, (int)holder.pid);
    assert_int_equal(sscanf(file_read(path), "%d %d %*d", &guardian, &command), 2);
    assert_int_equal(command, file_wait_number("holder"));
    assert_true(process_is_alive(guardian));
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    assert_false(process_is_alive(guardian));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, sandbox_enter, sandbox_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_signal_is_forwarded_to_the_command),
        CASE(the_whole_group_of_the_command_gets_the_signal),
        CASE(a_signal_that_was_ignored_at_the_start_does_not_end_the_wait),
        CASE(the_command_starts_with_the_signal_mask_of_the_caller),
        CASE(an_ignored_sigchld_does_not_hide_the_exit_code),
        CASE(a_signal_ends_the_wait_and_leaves_nothing_behind),
        CASE(a_signal_ends_the_wait_soon_when_the_store_hangs),
        CASE(two_signals_end_the_wait_when_the_store_hangs),
        CASE(a_signal_ends_a_release_that_hangs),
        CASE(harmless_signals_do_not_end_the_wait),
        CASE(killing_simba_kills_the_command_and_the_mutex_is_free_after_the_lease),
        CASE(killing_simba_kills_what_the_command_has_started_as_well),
        CASE(what_the_command_left_running_goes_on_where_that_is_wanted),
        CASE(no_zombie_is_left_while_the_command_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
