/*
 * lease_test.c - a lease that cannot be renewed: the command is stopped before anybody else can
 * own.
 */
#include "harness.h"
#include "lib/stop.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void the_command_is_asked_to_stop_when_the_store_hangs(void **state)
{
    struct process process = simba_start(
        NULL, "lock", "m", "--", "bash", "-c",
        "trap 'echo term >stopped; exit 0' TERM; echo $$ >holder; while :; do sleep 0.02; done",
        NULL);
    file_wait_number("holder");
    sqlite3 *store = store_block();
    int64_t blocked_ms = now_ms();
    wait_until(file_exists("stopped"));
    assert_true(now_ms() - blocked_ms < LEASE_MS);
    assert_int_equal(process_wait(&process), 70);
    assert_true(now_ms() - blocked_ms < LEASE_MS + 4000);
    store_unblock(store);
    assert_contains(file_read(process.err), "lease of 'm'");
}

static void a_command_that_ignores_it_is_killed_before_the_lease_ends(void **state)
{
    struct process process = simba_start(
        NULL, "lock", "-k", "100ms", "m", "--", "sh", "-c",
        "trap '' TERM; sleep 100 & echo $! >inner; echo $$ >holder; wait; sleep 100", NULL);
    pid_t command = (pid_t)file_wait_number("holder");
    pid_t inner = (pid_t)file_wait_number("inner");
    sqlite3 *store = store_block();
    int64_t blocked_ms = now_ms();
    wait_until(!process_is_alive(command) && !process_is_alive(inner));
    int64_t killed_ms = now_ms();
    assert_true(killed_ms - blocked_ms < LEASE_MS);
    store_unblock(store);
    assert_int_equal(process_wait(&process), 70);
    assert_contains(file_read(process.err), "killing");
}

/* Whether "m" is in this state; *ret_fence is the token of its term. */
static bool mutex_is(const char *state, unsigned long *ret_fence)
{
    char expected[64];

    snprintf(expected, sizeof expected, "\"state\":\"%s\"", state);
    assert_int_equal(simba_run("status", "--json", "m", NULL), 0);
    const char *fence = strstr(last_out(), "\"fence\":");
    *ret_fence = fence != NULL ? strtoul(fence + strlen("\"fence\":"), NULL, 10) : 0;
    return strstr(last_out(), expected) != NULL;
}

/* Each time until the renewal is overdue, and then until it has come through. */
static void a_hiccup_shorter_than_the_window_goes_unnoticed(void **state)
{
    unsigned long first = 0;
    unsigned long fence = 0;

    setenv("SIMBA_URL", "sqlite:store.db?ttl=300ms&transition=10s", 1);
    struct process holder = holder_start();
    pid_t command = (pid_t)file_wait_number("holder");
    mutex_is("held", &first);
    for (int i = 0; i < 3; i++) {
        sqlite3 *store = store_block();
        wait_until(mutex_is("transition", &fence));
        store_unblock(store);
        wait_until(mutex_is("held", &fence));
        assert_int_equal(fence, first);
    }
    assert_true(first > 0);
    assert_true(process_is_alive(command));
    kill(holder.pid, SIGTERM);
    assert_int_equal(process_wait(&holder), 128 + SIGTERM);
    assert_null(strstr(file_read(holder.err), "stopping"));
}

/* Also the lease of a holder that was stopped runs out. Its guardian was not stopped. */
static void the_command_of_a_holder_paused_past_its_lease_is_killed(void **state)
{
    struct process holder = holder_start();
    pid_t command = (pid_t)file_wait_number("holder");
    assert_true(test_stop_child(holder.pid));
    assert_int_equal(simba_run("lock", "-w", "10s", "m", "--", "true", NULL), 0);
    assert_false(process_is_alive(command));
    kill(holder.pid, SIGCONT);
    assert_int_equal(process_wait(&holder), 70);
}

/* Longer than a lease: it has been renewed meanwhile. */
static void the_lease_is_renewed_as_long_as_the_command_runs(void **state)
{
    struct process holder = holder_start();
    int64_t end_ms = now_ms() + 3 * LEASE_MS;
    while (now_ms() < end_ms)
        assert_int_equal(simba_run("lock", "-nq", "m", "--", "true", NULL), 75);
    kill(holder.pid, SIGTERM);
    assert_int_equal(process_wait(&holder), 128 + SIGTERM);
}

/* A command that stopped by itself is none of simba's business without a terminal. */
static void the_lease_is_renewed_while_the_command_is_stopped(void **state)
{
    struct process holder = holder_start();
    pid_t command = (pid_t)file_wait_number("holder");
    kill(command, SIGSTOP);
    int64_t end_ms = now_ms() + 2 * LEASE_MS;
    while (now_ms() < end_ms)
        assert_int_equal(simba_run("lock", "-nq", "m", "--", "true", NULL), 75);
    kill(command, SIGCONT);
    kill(holder.pid, SIGTERM);
    assert_int_equal(process_wait(&holder), 128 + SIGTERM);
}

/* Far ahead of the deadline: the store says at the next renewal that somebody else owns. */
static void the_command_is_stopped_when_the_store_gives_the_mutex_away(void **state)
{
    sqlite3 *store = NULL;

    setenv("SIMBA_URL", "sqlite:store.db?ttl=300ms&transition=60s", 1);
    struct process holder = holder_start();
    assert_int_equal(sqlite3_open("store.db", &store), SQLITE_OK);
    sqlite3_busy_timeout(store, PATIENCE_MS);
    int64_t begin_ms = now_ms();
    assert_int_equal(
        sqlite3_exec(store, "UPDATE simba_mutex SET owner_id = 'thief', version = version + 1",
                     NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(store), SQLITE_OK);
    assert_int_equal(process_wait(&holder), 70);
    assert_true(now_ms() - begin_ms < 5000);
    assert_contains(file_read(holder.err), "the lease of 'm' is lost: stopping the command");
}

/* Events wake it; a clock that ticks would drain a laptop. The time is what is measured here. */
static void nothing_wakes_the_program_while_the_lease_is_young(void **state)
{
    setenv("SIMBA_URL", LONG_LEASE_URL, 1);
    struct process holder = holder_start();
    long before = process_wakes(holder.pid);
    int64_t end_ms = now_ms() + 1500;
    wait_until(now_ms() >= end_ms);
    assert_in_range(process_wakes(holder.pid) - before, 0, 5);
    kill(holder.pid, SIGTERM);
    assert_int_equal(process_wait(&holder), 128 + SIGTERM);
}

/* A process with the rights of root but one is what every user is to a command that became another
 * user. Only root can set that up. */
static struct process start_without_the_right_to_kill(const char *script)
{
    if (geteuid() != 0)
        skip();
    return command_start("setpriv", "--bounding-set", "-kill", getenv("SIMBA_PROGRAM"), "lock",
                         "-k", "100ms", "m", "--", "sh", "-c", script, NULL);
}

#define BECOME_NOBODY "setpriv --reuid 65534 --clear-groups "

static void a_command_that_cannot_be_killed_is_told_of_and_is_70(void **state)
{
    struct process process =
        start_without_the_right_to_kill("echo $$ >holder; exec " BECOME_NOBODY "sleep 100");
    pid_t command = (pid_t)file_wait_number("holder");
    wait_until(process_user(command) == 65534);
    sqlite3 *store = store_block();
    int status = process_wait(&process);
    store_unblock(store);
    kill(command, SIGKILL);
    assert_int_equal(status, 70);
    assert_contains(file_read(process.err),
                    "the command cannot be killed (Operation not permitted)");
    assert_null(strstr(file_read(process.err), "killing the command"));
}

static void what_is_left_of_a_group_that_was_killed_is_told_of(void **state)
{
    struct process process = start_without_the_right_to_kill(
        BECOME_NOBODY "sleep 100 & echo $! >inner.new; mv inner.new inner; wait");
    pid_t inner = (pid_t)file_wait_number("inner");
    wait_until(process_user(inner) == 65534);
    sqlite3 *store = store_block();
    int status = process_wait(&process);
    store_unblock(store);
    assert_true(process_is_alive(inner));
    kill(inner, SIGKILL);
    assert_int_equal(status, 70);
    assert_contains(file_read(process.err), "processes of the command cannot be killed");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, sandbox_enter, sandbox_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_command_is_asked_to_stop_when_the_store_hangs),
        CASE(a_command_that_ignores_it_is_killed_before_the_lease_ends),
        CASE(a_hiccup_shorter_than_the_window_goes_unnoticed),
        CASE(the_command_of_a_holder_paused_past_its_lease_is_killed),
        CASE(the_lease_is_renewed_as_long_as_the_command_runs),
        CASE(the_lease_is_renewed_while_the_command_is_stopped),
        CASE(the_command_is_stopped_when_the_store_gives_the_mutex_away),
        CASE(nothing_wakes_the_program_while_the_lease_is_young),
        CASE(a_command_that_cannot_be_killed_is_told_of_and_is_70),
        CASE(what_is_left_of_a_group_that_was_killed_is_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
