/*
 * program_test.c - the program as a user runs it, on ZooKeeper.
 */
#include "cli/harness.h"
#include "stage.h"

#include <signal.h>

#define SESSION_MS 7200 /* for a lease of 3 s */

static char url[256];

/* The sandbox wants no process to be left, so that each test has a server of its own. */
static int enter(void **state)
{
    if (sandbox_enter(state) != 0)
        return -1;
    stage_start_watched(state);
    snprintf(url, sizeof url, "%s", server_url(&server, "?ttl=1s&transition=2s&jitter=0ms..50ms"));
    return setenv("SIMBA_URL", url, 1);
}

static int leave(void **state)
{
    stage_stop_watched(state);
    return sandbox_leave(state);
}

static void a_command_runs_while_the_mutex_is_held_and_leaves_nothing(void **state)
{
    assert_int_equal(simba_run("--exact-id", "me", "lock", "m", "--", "sh", "-c",
                               "echo \"$SIMBA_MUTEX|$SIMBA_CONTENDER_ID|$SIMBA_FENCE\"", NULL),
                     0);
    assert_contains(last_out(), "m|me|");
    assert_int_equal(witness_count(&witness, "m"), 0);
    assert_int_equal(simba_run("lock", "m", "--", "sh", "-c", "exit 7", NULL), 7);
    assert_string_equal(last_err(), "");
}

static void the_mutex_excludes_and_is_handed_over(void **state)
{
    struct process holder = holder_start();
    assert_int_equal(simba_run("lock", "-n", "m", "--", "touch", "ran", NULL), 75);
    assert_contains(last_err(), "holder");
    assert_int_equal(simba_run("lock", "-w", "200ms", "m", "--", "touch", "ran", NULL), 75);
    assert_int_equal(witness_count(&witness, "m"), 1);
    struct process waiter =
        simba_start(NULL, "--exact-id", "next", "lock", "m", "--", "touch", "ran", NULL);
    wait_until(witness_count(&witness, "m") == 2);
    assert_int_equal(simba_run("status", "m", NULL), 0);
    assert_contains(last_out(), "  1  next\n");
    assert_int_equal(simba_run("status", "m", "--json", NULL), 0);
    assert_contains(last_out(), "holder");
    assert_contains(last_out(), "\"waiters\":1,\"queue\":[\"next\"]");
    assert_contains(last_out(), "\"ttl_ms\":null");
    kill(holder.pid, SIGTERM);
    assert_int_equal(process_wait(&holder), 128 + SIGTERM);
    assert_int_equal(process_wait(&waiter), 0);
    assert_true(file_exists("ran"));
}

static void changes_of_ownership_are_watched(void **state)
{
    struct process watcher = simba_start(NULL, "watch", "m", "--json", NULL);
    wait_until(server_watches(&server) == 1);
    struct process holder = holder_start();
    wait_until(strstr(file_read(watcher.out), "\"after\":\"holder\"") != NULL);
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    wait_until(strstr(file_read(watcher.out), "\"before\":\"holder\"") != NULL);
    kill(watcher.pid, SIGTERM);
    process_wait(&watcher);
    wait_until(server_watches(&server) == 0);
}

/* How long after the death of an owner the next one's command has run. */
static int64_t time_of_succession(void)
{
    unlink("ran");
    struct process holder = holder_start();
    struct process waiter = simba_start(NULL, "lock", "m", "--", "touch", "ran", NULL);
    wait_until(witness_count(&witness, "m") == 2);
    int64_t killed_ms = test_now_ms();
    kill(holder.pid, SIGKILL);
    assert_int_equal(process_wait(&waiter), 0);
    int64_t taken_ms = test_now_ms() - killed_ms;
    print_message("# the next led %lld ms after the kill; session %d ms, tick %d ms\n",
                  (long long)taken_ms, SESSION_MS, SERVER_TICK_MS);
    assert_true(file_exists("ran"));
    process_wait(&holder);
    return taken_ms;
}

/* Behind the tick there is only what it takes to hear of it and to run a command. One of a few
 * tries must show it: the machine may be slow for a while. */
static void after_a_kill_the_next_one_leads_within_the_session_and_a_tick(void **state)
{
    const int64_t limit_ms = SESSION_MS + SERVER_TICK_MS + 500;
    int64_t taken_ms = time_of_succession();

    for (int i = 1; i < 3 && taken_ms > limit_ms; i++)
        taken_ms = time_of_succession();
    assert_true(taken_ms <= limit_ms);
}

static void the_child_is_stopped_when_the_session_may_have_ended(void **state)
{
    struct process holder = holder_start();
    pid_t child = (pid_t)file_wait_number("holder");
    server_pause(&server);
    int64_t paused_ms = test_now_ms();
    assert_int_equal(process_wait(&holder), 70);
    assert_true(test_now_ms() - paused_ms < SESSION_MS + 2000);
    assert_false(process_is_alive(child));
    server_go_on(&server);
    wait_until(witness_count(&witness, "m") == 0);
}

static void an_owner_is_removed_by_force(void **state)
{
    struct process holder = holder_start();
    struct process waiter = simba_start(NULL, "lock", "m", "--", "touch", "ran", NULL);
    wait_until(witness_count(&witness, "m") == 2);
    if (simba_run("release", "--force", "m", NULL) != 0)
        fail_msg("%s", last_err());
    assert_int_equal(process_wait(&waiter), 0);
    assert_true(file_exists("ran"));
    assert_int_equal(process_wait(&holder), 70);
}

static void a_mutex_that_must_not_be_looked_at_does_not_hide_the_others(void **state)
{
    struct process holder = holder_start();
    assert_int_equal(simba_run("lock", "closed", "--", "true", NULL), 0);
    witness_lock(&witness, "closed", true);
    assert_int_equal(simba_run("status", "--json", NULL), 0);
    assert_contains(last_out(), "holder");
    assert_contains(last_out(), "\"?\"");
    assert_int_equal(simba_run("status", "closed", NULL), 77);
    witness_lock(&witness, "m", true);
    assert_int_equal(simba_run("status", NULL), 77);
    witness_lock(&witness, "m", false);
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

static void a_mutex_with_a_strangers_nodes_does_not_hide_the_others(void **state)
{
    char path[3000] = "/simba/strange/";

    struct process holder = holder_start();
    assert_int_equal(simba_run("lock", "strange", "--", "true", NULL), 0);
    memset(path + strlen(path), 'x', sizeof path - strlen(path) - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(
        zoo_create(witness.handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0), ZOK);
    assert_int_equal(simba_run("status", "--json", NULL), 0);
    assert_contains(last_out(), "holder");
    assert_contains(last_out(), "\"?\"");
    assert_int_equal(simba_run("status", "strange", NULL), 69);
    assert_int_equal(zoo_delete(witness.handle, path, -1), ZOK);
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

/* What the session leaves of the lease must do for the time that the program wants before a
 * kill. */
static void a_command_is_not_stopped_because_the_session_is_shorter_than_the_lease(void **state)
{
    static const char *const rests[] = {"?ttl=2s&transition=2s", "?session-timeout=8s",
                                        "?ttl=2s&transition=2s&session-timeout=4s",
                                        "?session-timeout=4s"};
    struct process runs[TEST_COUNT(rests)];
    char mutex[16];

    for (size_t i = 0; i < TEST_COUNT(rests); i++) {
        snprintf(mutex, sizeof mutex, "short-%zu", i);
        runs[i] = simba_start(NULL, "-u", server_url(&server, rests[i]), "lock", mutex, "--",
                              "sleep", "6", NULL);
    }
    for (size_t i = 0; i < TEST_COUNT(rests); i++)
        if (process_wait(&runs[i]) != 0)
            fail_msg("%s: %s", rests[i], file_read(runs[i].err));
}

static void failures_have_exit_codes_of_their_own(void **state)
{
    assert_int_equal(simba_run("-u", "zookeeper://127.0.0.1:1?connect-timeout=500ms", "lock", "m",
                               "--", "true", NULL),
                     69);
    assert_contains(last_err(), "127.0.0.1:1");
    assert_int_equal(simba_run("-u", server_url(&server, "?nonsense=1"), "status", NULL), 78);
    assert_int_equal(simba_run("lock", "a/b", "--", "touch", "ran", NULL), 78);
    assert_contains(last_err(), "a/b");
    snprintf(url, sizeof url, "zookeeper://ann:secret@127.0.0.1:%d/closed?acl=creator",
             server.port);
    assert_int_equal(simba_run("-u", url, "lock", "m", "--", "true", NULL), 0);
    snprintf(url, sizeof url, "zookeeper://ann:wrong-word@127.0.0.1:%d/closed", server.port);
    assert_int_equal(simba_run("-u", url, "lock", "m", "--", "touch", "ran", NULL), 77);
    assert_null(strstr(last_err(), "wrong-word"));
    assert_false(file_exists("ran"));
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, enter, leave)
    const struct CMUnitTest tests[] = {
        CASE(a_command_runs_while_the_mutex_is_held_and_leaves_nothing),
        CASE(the_mutex_excludes_and_is_handed_over),
        CASE(changes_of_ownership_are_watched),
        CASE(after_a_kill_the_next_one_leads_within_the_session_and_a_tick),
        CASE(the_child_is_stopped_when_the_session_may_have_ended),
        CASE(an_owner_is_removed_by_force),
        CASE(a_mutex_that_must_not_be_looked_at_does_not_hide_the_others),
        CASE(a_mutex_with_a_strangers_nodes_does_not_hide_the_others),
        CASE(a_command_is_not_stopped_because_the_session_is_shorter_than_the_lease),
        CASE(failures_have_exit_codes_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
