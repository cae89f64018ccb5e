/*
 * program_test.c - the program as a user runs it, on Redis.
 */
#include "cli/harness.h"
#include "server.h"

#include <signal.h>
#include <sys/wait.h>

#define CHANNELS "return #redis.call('PUBSUB', 'CHANNELS')"

static struct server server;
static char url[256];

static int enter(void **state)
{
    if (sandbox_enter(state) != 0)
        return -1;
    memset(&server, 0, sizeof server);
    server_start(&server, NULL);
    snprintf(url, sizeof url, "%s",
             server_url(&server, "?ttl=400ms&transition=600ms&jitter=0ms..50ms"));
    return setenv("SIMBA_URL", url, 1);
}

static int leave(void **state)
{
    server_stop(&server);
    return sandbox_leave(state);
}

static void a_command_runs_while_the_mutex_is_held_and_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(simba_run("--exact-id", "me", "lock", "m", "--", "sh", "-c",
                               "echo \"$SIMBA_MUTEX|$SIMBA_CONTENDER_ID|$SIMBA_FENCE\"", NULL),
                     0);
    assert_contains(last_out(), "m|me|");
    assert_int_equal(server_number(&server, "EXISTS simba:{m} simba:{m}:contender"), 0);
    assert_int_equal(simba_run("lock", "m", "--", "sh", "-c", "exit 7", NULL), 7);
    assert_string_equal(last_err(), "");
}

static void the_mutex_excludes_and_is_handed_over(void **state)
{
    (void)state;
    setenv("SIMBA_URL", server_url(&server, "?ttl=20s&transition=20s"), 1);
    struct process holder = holder_start();
    assert_int_equal(simba_run("lock", "-n", "m", "--", "touch", "ran", NULL), 75);
    assert_contains(last_err(), "holder");
    assert_int_equal(simba_run("lock", "-w", "200ms", "m", "--", "touch", "ran", NULL), 75);
    assert_int_equal(simba_run("status", NULL), 0);
    assert_contains(last_out(), "holder");
    struct process waiter = simba_start(NULL, "lock", "m", "--", "touch", "ran", NULL);
    wait_until(server_number(&server, "ZCARD simba:{m}:contender") == 1);
    kill(holder.pid, SIGTERM);
    assert_int_equal(process_wait(&holder), 128 + SIGTERM);
    assert_int_equal(process_wait(&waiter), 0);
    assert_true(file_exists("ran"));
}

/* The first in line stands still: the second owns when the reservation is over, not a lease. */
static void a_waiter_that_is_stopped_costs_a_reservation(void **state)
{
    siginfo_t info;

    (void)state;
    setenv("SIMBA_URL", server_url(&server, "?ttl=20s&transition=20s"), 1);
    struct process holder = holder_start();
    struct process stopped = simba_start(NULL, "lock", "m", "--", "touch", "first", NULL);
    wait_until(server_number(&server, "ZCARD simba:{m}:contender") == 1);
    struct process second = simba_start(NULL, "lock", "m", "--", "touch", "second", NULL);
    wait_until(server_number(&server, "ZCARD simba:{m}:contender") == 2);
    wait_until(server_number(&server, "EVAL %s 0", CHANNELS) == 2);
    kill(stopped.pid, SIGSTOP);
    assert_int_equal(waitid(P_PID, (id_t)stopped.pid, &info, WSTOPPED), 0);
    kill(holder.pid, SIGTERM);
    wait_until(file_exists("second"));
    assert_false(file_exists("first"));
    kill(stopped.pid, SIGCONT);
    process_wait(&holder);
    assert_int_equal(process_wait(&second), 0);
    assert_int_equal(process_wait(&stopped), 0);
}

/* Who owns is told also where the rights do not reach for who waits. */
static void a_status_without_the_queue_is_still_a_status(void **state)
{
    char plain[256];
    char text[300];

    (void)state;
    server_do(&server, "ACL SETUSER looker on >word ~* &* +@all -zrange");
    snprintf(plain, sizeof plain, "%s", server_url(&server, ""));
    snprintf(text, sizeof text, "redis://looker:word@%s", plain + strlen("redis://"));
    setenv("SIMBA_URL", text, 1);
    struct process holder = holder_start();
    assert_int_equal(simba_run("status", "--json", "m", NULL), 0);
    assert_contains(last_out(), "holder");
    assert_contains(last_out(), "\"queue\":null");
    assert_contains(last_err(), "the waiters are not known");
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

/* A key of somebody else's, or one that the user may not read, hides no other mutex. */
static void what_cannot_be_read_is_left_out_of_the_list_and_named(void **state)
{
    char text[300];

    (void)state;
    server_do(&server, "LPUSH simba:{k8} x");
    assert_int_equal(simba_run("status", NULL), 69);
    assert_contains(last_err(), "simba:{k8}");
    struct process holder = holder_start();
    assert_int_equal(simba_run("status", NULL), 0);
    assert_contains(last_out(), "holder");
    assert_null(strstr(last_out(), "k8"));
    assert_contains(last_err(), "warning: the mutex 'k8' is left out");
    assert_int_equal(simba_run("status", "--held", "--json", NULL), 0);
    assert_contains(last_out(), "\"mutex\":\"m\"");
    assert_contains(last_err(), "simba:{k8}");
    assert_int_equal(simba_run("status", "m", "k8", NULL), 69);
    assert_contains(last_err(), "'k8'");
    server_do(&server, "LPUSH simba:{k9} x");
    assert_int_equal(simba_run("status", NULL), 0);
    assert_contains(last_err(), "'k8' and 1 more");
    server_do(&server, "DEL simba:{k8} simba:{k9}");
    server_do(&server, "SET simba:{other}:fence 1");
    server_do(&server, "ACL SETUSER looker on >word ~simba:{m}* &* +@all");
    snprintf(text, sizeof text, "redis://looker:word@%s",
             server_url(&server, "") + strlen("redis://"));
    assert_int_equal(simba_run("-u", text, "status", NULL), 0);
    assert_contains(last_out(), "holder");
    assert_contains(last_err(), "the mutex 'other' is left out");
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

/* A name, all names and a watcher: all tell the same token. */
static void everybody_who_looks_is_told_the_same_token(void **state)
{
    char fence[64];

    (void)state;
    setenv("SIMBA_URL", server_url(&server, "?ttl=20s&transition=20s"), 1);
    struct process holder = holder_start();
    snprintf(fence, sizeof fence, "\"fence\":%s", server_text(&server, "GET simba:{m}:fence"));
    assert_int_equal(simba_run("status", "--json", "m", NULL), 0);
    assert_contains(last_out(), fence);
    assert_int_equal(simba_run("status", "--json", NULL), 0);
    assert_contains(last_out(), fence);
    struct process watch = simba_start(NULL, "watch", "--json", "m", NULL);
    wait_until(count_lines(file_read(watch.out)) == 1);
    assert_contains(file_read(watch.out), fence);
    kill(watch.pid, SIGTERM);
    assert_int_equal(process_wait(&watch), 0);
    kill(holder.pid, SIGTERM);
    assert_int_equal(process_wait(&holder), 128 + SIGTERM);
}

static void a_mutex_can_be_taken_away_by_force(void **state)
{
    (void)state;
    setenv("SIMBA_URL", server_url(&server, "?ttl=500ms&transition=20s"), 1);
    struct process holder = holder_start();
    assert_int_not_equal(simba_run("release", "m", NULL), 0);
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 1);
    assert_int_equal(simba_run("release", "m", "--force", NULL), 0);
    assert_int_equal(process_wait(&holder), 70);
    assert_contains(file_read(holder.err), "lost the lease: the store has no lease of it any more");
    assert_int_equal(server_number(&server, "EXISTS simba:{m}"), 0);
}

static void a_lease_that_others_have_is_lost_with_its_reason(void **state)
{
    (void)state;
    setenv("SIMBA_URL", server_url(&server, "?ttl=500ms&transition=20s"), 1);
    struct process first = holder_start();
    struct process second = holder_start();
    assert_int_equal(process_wait(&first), 70);
    assert_contains(file_read(first.err),
                    "lost the lease: a contender with the same id has acquired it");
    struct process waiter = simba_start(NULL, "lock", "m", "--", "sleep", "100", NULL);
    wait_until(server_number(&server, "ZCARD simba:{m}:contender") == 1);
    assert_int_equal(simba_run("release", "m", "--force", NULL), 0);
    assert_int_equal(process_wait(&second), 70);
    assert_contains(file_read(second.err), "lost the lease: another contender owns it now");
    kill(waiter.pid, SIGTERM);
    process_wait(&waiter);
}

static void the_child_is_stopped_when_the_lease_cannot_be_renewed(void **state)
{
    (void)state;
    struct process holder = holder_start();
    pid_t child = (pid_t)file_wait_number("holder");
    server_pause(&server);
    assert_int_equal(process_wait(&holder), 70);
    assert_false(process_is_alive(child));
    server_go_on(&server);
}

static void the_child_survives_a_restart_with_its_data(void **state)
{
    (void)state;
    server_do(&server, "CONFIG SET appendfsync always");
    server_do(&server, "CONFIG SET appendonly yes");
    wait_until(strstr(server_text(&server, "INFO persistence"), "aof_rewrite_in_progress:0") !=
               NULL);
    server.arguments[0] = "--appendonly";
    server.arguments[1] = "yes";
    setenv("SIMBA_URL", server_url(&server, "?ttl=500ms&transition=15s"), 1);
    struct process holder = holder_start();
    pid_t child = (pid_t)file_wait_number("holder");
    server_kill(&server, SIGKILL);
    server_start_again(&server);
    wait_until(server_number(&server, "PTTL simba:{m}") > 15000); /* it was renewed */
    assert_true(process_is_alive(child));
    kill(holder.pid, SIGTERM);
    assert_int_equal(process_wait(&holder), 128 + SIGTERM);
}

static void failures_have_exit_codes_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(simba_run("-u", "redis://127.0.0.1:1", "lock", "m", "--", "true", NULL), 69);
    assert_contains(last_err(), "127.0.0.1:1");
    assert_int_equal(simba_run("-u", server_url(&server, "?nonsense=1"), "status", NULL), 78);
    assert_int_equal(simba_run("-u", "redis://h1,h2", "status", NULL), 78);
    server_do(&server, "CONFIG SET requirepass secret");
    assert_int_equal(simba_run("lock", "m", "--", "touch", "ran", NULL), 77);
    snprintf(url, sizeof url, "redis://:wrong-word@127.0.0.1:%d", server.port);
    assert_int_equal(simba_run("-u", url, "lock", "m", "--", "touch", "ran", NULL), 77);
    assert_null(strstr(last_err(), "wrong-word"));
    assert_false(file_exists("ran"));
}

/* Without a limit it would wait for ever. A status can be asked of a replica. */
static void a_server_that_takes_no_writes_is_69_at_once(void **state)
{
    (void)state;
    server_do(&server, "REPLICAOF 127.0.0.1 1");
    assert_int_equal(simba_run("lock", "m", "--", "touch", "ran", NULL), 69);
    assert_contains(last_err(), "read-only replica");
    assert_int_equal(simba_run("lock", "-n", "m", "--", "touch", "ran", NULL), 69);
    assert_int_equal(simba_run("lock", "-w", "300ms", "m", "--", "touch", "ran", NULL), 69);
    assert_contains(last_err(), "'m' was not acquired in 300ms: the server at ");
    assert_true(count_lines(last_err()) <= 2); /* the reason when it is known, and at the end */
    assert_int_equal(simba_run("status", "m", NULL), 0);
    struct process leader = simba_start(NULL, "lead", "m", "--", "touch", "ran", NULL);
    wait_until(strstr(file_read(leader.err), "cannot acquire") != NULL);
    kill(leader.pid, SIGTERM);
    process_wait(&leader);
    assert_null(strstr(file_read(leader.err), "was not released"));
    server_do(&server, "REPLICAOF NO ONE");
    server_do(&server, "CONFIG SET min-replicas-to-write 1");
    assert_int_equal(simba_run("lock", "m", "--", "touch", "ran", NULL), 69);
    assert_contains(last_err(), "without its replicas");
    assert_false(file_exists("ran"));
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, enter, leave)
    const struct CMUnitTest tests[] = {
        CASE(a_command_runs_while_the_mutex_is_held_and_leaves_nothing),
        CASE(the_mutex_excludes_and_is_handed_over),
        CASE(a_waiter_that_is_stopped_costs_a_reservation),
        CASE(a_status_without_the_queue_is_still_a_status),
        CASE(what_cannot_be_read_is_left_out_of_the_list_and_named),
        CASE(everybody_who_looks_is_told_the_same_token),
        CASE(a_mutex_can_be_taken_away_by_force),
        CASE(a_lease_that_others_have_is_lost_with_its_reason),
        CASE(the_child_is_stopped_when_the_lease_cannot_be_renewed),
        CASE(the_child_survives_a_restart_with_its_data),
        CASE(failures_have_exit_codes_of_their_own),
        CASE(a_server_that_takes_no_writes_is_69_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
