/*
 * status_test.c - `simba status`, `simba watch` and `simba tck`.
 */
#include "harness.h"
#include "lib/stop.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Asks Python, which the build needs anyway: `expression` over `data`, the JSON in the file. */
static void assert_json(const char *path, const char *expression)
{
    char command[1024];

    snprintf(command, sizeof command,
             "python3 -c 'import json,sys; data=json.load(open(sys.argv[1])); "
             "sys.exit(0 if eval(sys.argv[2]) else 1)' %s '%s'",
             path, expression);
    if (system(command) != 0)
        fail_msg("%s does not hold for %s", expression, file_read(path));
}

static void assert_status_json(const char *mutex, const char *expression)
{
    struct process process = simba_start(NULL, "status", "--json", mutex, NULL);

    assert_int_equal(process_wait(&process), 0);
    assert_json(process.out, expression);
}

/* With the mutex "m", which is free. */
static void store_create(void)
{
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 0);
}

/* The store of the tests' user in place of the one in SIMBA_URL. */
static void use_default_store(void)
{
    char state[256];

    assert_non_null(getcwd(state, sizeof state));
    unsetenv("SIMBA_URL");
    setenv("XDG_STATE_HOME", state, 1);
}

static void status_of_a_default_store_that_was_never_used_is_an_empty_table(void **state)
{
    use_default_store();
    assert_int_equal(simba_run("status", NULL), 0);
    assert_contains(last_out(), "MUTEX");
    assert_int_equal(count_lines(last_out()), 1);
    assert_int_equal(simba_run("status", "--json", NULL), 0);
    assert_string_equal(last_out(), "[]\n");
    assert_string_equal(last_err(), "");
    assert_status_json("m", "len(data) == 1 and data[0][\"mutex\"] == \"m\" and "
                            "data[0][\"state\"] == \"free\"");
    assert_int_equal(simba_run("status", " ", NULL), 78);
    assert_false(file_exists("simba"));
}

/* A typing error must not look like a store on which all is free. */
static void status_and_watch_do_not_create_a_store_that_is_missing(void **state)
{
    static const char *const urls[] = {"sqlite:typo.db", "SQLite:typo.db?",
                                       "sqlite:typo.db?ttl=5s"};

    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        assert_int_equal(simba_run("status", "-u", urls[i], NULL), 69);
        assert_contains(last_err(), "typo.db");
        assert_string_equal(last_out(), "");
        assert_int_equal(simba_run("watch", "-u", urls[i], "m", NULL), 69);
        assert_contains(last_err(), "typo.db");
        assert_false(file_exists("typo.db"));
    }
    assert_int_equal(simba_run("status", "-u", "sqlite:typo.db?create=yes", NULL), 0);
    assert_true(file_exists("typo.db"));
}

static void watch_waits_for_a_default_store_that_was_never_used(void **state)
{
    use_default_store();
    struct process watch = simba_start(NULL, "watch", "m", NULL);
    wait_until(count_lines(file_read(watch.out)) == 1);
    assert_contains(file_read(watch.out), "m  free\n");
    assert_false(file_exists("simba"));
    struct process holder = holder_start();
    wait_until(count_lines(file_read(watch.out)) == 2);
    assert_contains(file_read(watch.out), "m  owned by holder, fence ");
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    kill(watch.pid, SIGTERM);
    assert_int_equal(process_wait(&watch), 0);
    assert_string_equal(file_read(watch.err), "");
}

static void watch_waits_no_longer_than_its_reader(void **state)
{
    use_default_store();
    int64_t begin_ms = now_ms();
    assert_int_equal(system("\"$SIMBA_PROGRAM\" watch m | head -n 1 >first"), 0);
    assert_true(now_ms() - begin_ms < 5000);
    assert_contains(file_read("first"), "m  free\n");
}

static void a_name_that_the_store_does_not_know_is_free(void **state)
{
    store_create();
    assert_status_json("unknown", "len(data) == 1 and data[0][\"mutex\"] == \"unknown\" and "
                                  "data[0][\"state\"] == \"free\" and data[0][\"owner\"] == \"\"");
    assert_int_equal(simba_run("status", "a", "b", NULL), 0);
    assert_contains(last_out(), "\na ");
    assert_contains(last_out(), "\nb ");
    assert_contains(last_out(), "free");
}

static void status_tells_owner_times_and_fence(void **state)
{
    setenv("SIMBA_URL", "sqlite:store.db?ttl=10s&transition=6s", 1);
    struct process holder = holder_start();
    assert_status_json("m",
                       "data[0][\"owner\"] == \"holder\" and data[0][\"state\"] == \"held\" and "
                       "0 < data[0][\"ttl_ms\"] <= 10000 and "
                       "10000 < data[0][\"transition_ms\"] <= 16000 and data[0][\"fence\"] > 0 and "
                       "0 <= data[0][\"held_ms\"] < 60000");
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    assert_status_json("m", "data[0][\"owner\"] == \"\" and data[0][\"state\"] == \"free\"");
}

/* Both say of what is not known that it is not, and not that it is 0. */
static void a_fence_that_is_not_known_is_a_dash_or_null(void **state)
{
    sqlite3 *store = NULL;

    struct process holder = holder_start();
    assert_int_equal(sqlite3_open("store.db", &store), SQLITE_OK);
    sqlite3_busy_timeout(store, PATIENCE_MS);
    assert_true(test_stop_child(holder.pid));
    assert_int_equal(sqlite3_exec(store,
                                  "UPDATE simba_mutex SET fence = 0, ttl_at = ttl_at + 99999,"
                                  " transition_at = transition_at + 99999",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(store), SQLITE_OK);
    assert_status_json("m", "data[0][\"state\"] == \"held\" and data[0][\"fence\"] is None");
    assert_int_equal(simba_run("status", "m", NULL), 0);
    assert_contains(last_out(), "  -      0        -\n"); /* the last three columns */
    struct process watch = simba_start(NULL, "watch", "m", NULL);
    wait_until(count_lines(file_read(watch.out)) == 1);
    assert_contains(file_read(watch.out), "m  owned by holder, fence -\n");
    kill(watch.pid, SIGTERM);
    assert_int_equal(process_wait(&watch), 0);
    kill(holder.pid, SIGCONT);
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

static void a_free_mutex_has_no_time_left_and_no_fence(void **state)
{
    assert_int_equal(simba_run("lock", "m", "--", "true", NULL), 0);
    assert_status_json("m", "data[0][\"owner\"] == \"\" and data[0][\"state\"] == \"free\" and "
                            "data[0][\"ttl_ms\"] == 0 and data[0][\"transition_ms\"] == 0 and "
                            "data[0][\"fence\"] is None and data[0][\"waiters\"] == 0 and "
                            "data[0][\"queue\"] == []");
}

static size_t status_lines(void)
{
    assert_int_equal(simba_run("status", "m", NULL), 0);
    return count_lines(last_out());
}

static void waiters_are_shown_in_order_with_their_notes(void **state)
{
    struct process first, second;

    setenv("SIMBA_URL", LONG_LEASE_URL, 1);
    struct process holder = holder_start();
    first = simba_start(NULL, "lock", "--note", "one", "m", "--", "true", NULL);
    wait_until(status_lines() == 5); /* table, empty line, heading, one waiter */
    second = simba_start(NULL, "lock", "--note", "two", "m", "--", "true", NULL);
    wait_until(status_lines() == 6);
    assert_contains(last_out(), "  2        -\n\nWaiting, the next one first:\n  1  ");
    assert_status_json("m", "data[0][\"waiters\"] == 2 and "
                            "data[0][\"queue\"][0].endswith(\"(one)\") and "
                            "data[0][\"queue\"][1].endswith(\"(two)\") and "
                            "data[0][\"queue_waited_ms\"][0] >= data[0][\"queue_waited_ms\"][1]");
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    assert_int_equal(process_wait(&first), 0);
    assert_int_equal(process_wait(&second), 0);
}

/* Two columns for each of two characters of three bytes; one for a letter with an accent of its
 * own. */
static void columns_are_aligned_by_the_width_of_characters(void **state)
{
    assert_int_equal(simba_run("lock", "\u65e5\u672c", "--", "true", NULL), 0);
    assert_int_equal(simba_run("lock", "e\u0301", "--", "true", NULL), 0);
    assert_int_equal(simba_run("status", "--all", NULL), 0);
    assert_contains(last_out(), "MUTEX  OWNER");
    assert_contains(last_out(), "\u65e5\u672c   (free)");
    assert_contains(last_out(), "e\u0301      (free)");
}

static void status_lists_what_is_held_first_or_alone(void **state)
{
    setenv("SIMBA_URL", LONG_LEASE_URL, 1);
    assert_int_equal(simba_run("lock", "a", "--", "true", NULL), 0);
    struct process holder = holder_start();
    assert_int_equal(simba_run("status", "--all", NULL), 0);
    const char *table = last_out();
    assert_int_equal(count_lines(table), 3);
    assert_true(strstr(table, "\nm ") < strstr(table, "\na "));
    assert_null(strchr(table, '\033'));
    assert_int_equal(simba_run("status", NULL), 0);
    assert_int_equal(count_lines(last_out()), 2);
    assert_contains(last_out(), "\nm ");
    assert_int_equal(simba_run("status", "--held", "--json", NULL), 0);
    assert_contains(last_out(), "[{\"mutex\":\"m\",");
    assert_int_equal(simba_run("status", "--held", "--json", "a", NULL), 0);
    assert_string_equal(last_out(), "[]\n");
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

static void names_with_quotes_backslashes_and_bad_utf8_make_valid_json(void **state)
{
    assert_int_equal(simba_run("lock", "a\"b\\c d\u00e9", "--", "true", NULL), 0);
    assert_int_equal(simba_run("lock", "bad\xff\xc3", "--", "true", NULL), 0);
    struct process process = simba_start(NULL, "status", "--json", NULL);
    assert_int_equal(process_wait(&process), 0);
    assert_json(process.out,
                "len(data) == 2 and data[0][\"mutex\"] == \"a\\\"b\\\\c d\\u00e9\" and "
                "data[1][\"mutex\"] == \"bad\\ufffd\\ufffd\"");
    assert_int_equal(simba_run("status", "--all", NULL), 0);
    assert_contains(last_out(), "bad??");
}

static void watch_prints_the_owner_and_then_every_change(void **state)
{
    store_create();
    struct process watch = simba_start(NULL, "watch", "m", NULL);
    wait_until(count_lines(file_read(watch.out)) == 1);
    assert_contains(file_read(watch.out), "m  free\n");
    struct process holder = holder_start();
    wait_until(count_lines(file_read(watch.out)) == 2);
    assert_contains(file_read(watch.out), "m  owned by holder, fence ");
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    wait_until(count_lines(file_read(watch.out)) == 3);
    assert_contains(file_read(watch.out), "m  free, was owned by holder\n");
    kill(watch.pid, SIGTERM);
    assert_int_equal(process_wait(&watch), 0);
    assert_string_equal(file_read(watch.err), "");
}

static void watch_json_is_an_object_a_line(void **state)
{
    struct process holder = holder_start();
    struct process watch = simba_start(NULL, "watch", "--json", "m", "other", NULL);
    wait_until(count_lines(file_read(watch.out)) == 2);
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    wait_until(count_lines(file_read(watch.out)) == 3);
    kill(watch.pid, SIGINT);
    assert_int_equal(process_wait(&watch), 0);
    char command[512];
    snprintf(command, sizeof command, "(echo '['; sed '$!s/$/,/' %s; echo ']') >all.json",
             watch.out);
    assert_int_equal(system(command), 0);
    assert_json(
        "all.json",
        "[(d[\"mutex\"], d[\"before\"], d[\"after\"]) for d in data] == "
        "[(\"m\", \"\", \"holder\"), (\"other\", \"\", \"\"), (\"m\", \"holder\", \"\")] and "
        "data[0][\"fence\"] > 0 and data[0][\"at\"] > 1600000000000");
}

static void watch_ends_quietly_when_its_reader_leaves(void **state)
{
    char command[512];

    store_create();
    snprintf(command, sizeof command, "%s watch m 2>err.watch | head -n 1 >first",
             getenv("SIMBA_PROGRAM"));
    int64_t begin_ms = now_ms();
    assert_int_equal(system(command), 0);
    assert_true(now_ms() - begin_ms < 5000);
    assert_contains(file_read("first"), "m  free");
    assert_string_equal(file_read("err.watch"), "");
}

/* A store that locks out its readers as well: not in WAL mode, a writer does that. */
static sqlite3 *store_block_readers(void)
{
    sqlite3 *store = NULL;

    assert_int_equal(sqlite3_open("store.db", &store), SQLITE_OK);
    sqlite3_busy_timeout(store, PATIENCE_MS);
    assert_int_equal(
        sqlite3_exec(store, "PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE", NULL, NULL, NULL),
        SQLITE_OK);
    return store;
}

static void watch_can_be_interrupted_while_the_store_hangs(void **state)
{
    setenv("SIMBA_URL", LONG_LEASE_URL, 1);
    store_create();
    sqlite3 *store = store_block_readers();
    struct process watch = simba_start(NULL, "watch", "a", "b", "c", NULL);
    wait_until(process_takes_signals(watch.pid));
    int64_t begin_ms = now_ms();
    kill(watch.pid, SIGINT);
    int status = process_wait(&watch);
    int64_t took_ms = now_ms() - begin_ms;
    store_unblock(store);
    assert_int_equal(status, 0);
    assert_true(took_ms < 2000);
}

/* Whether a thread of the process stands in a write to a pipe. */
static bool process_is_writing(pid_t pid)
{
    char command[128];

    snprintf(command, sizeof command, "grep -q pipe_write /proc/%d/task/*/wchan", (int)pid);
    return system(command) == 0;
}

/* Nobody reads before the test does. */
static int open_pipe(void)
{
    assert_int_equal(mkfifo("stuck", 0600), 0);
    return open("stuck", O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

static void fill_pipe(int fd)
{
    static const char filling[4096];

    while (write(fd, filling, sizeof filling) > 0)
        continue;
}

static bool pipe_brings(int fd, const char *text)
{
    char buffer[4096];
    ssize_t length = read(fd, buffer, sizeof buffer);

    return length > 0 && memmem(buffer, (size_t)length, text, strlen(text)) != NULL;
}

/* It has found the owner for its first line, cannot print that, and begins to observe only then. */
static void watch_tells_of_a_release_while_it_starts(void **state)
{
    setenv("SIMBA_URL", LONG_LEASE_URL, 1);
    struct process holder = holder_start();
    int fd = open_pipe();
    fill_pipe(fd);
    struct process watch =
        command_start("sh", "-c", "exec \"$SIMBA_PROGRAM\" watch m >stuck", NULL);
    wait_until(process_is_writing(watch.pid));
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
    wait_until(pipe_brings(fd, "m  free, was owned by holder\n"));
    kill(watch.pid, SIGTERM);
    assert_int_equal(process_wait(&watch), 0);
    close(fd);
}

/* The pipe is full after the first lines, and nobody reads. */
static void watch_can_be_interrupted_while_its_reader_stands_still(void **state)
{
#if defined(__SANITIZE_THREAD__)
    skip(); /* its _exit flushes standard output, which no other one does */
#endif
    store_create();
    int fd = open_pipe();
    struct process watch =
        command_start("sh", "-c", "exec \"$SIMBA_PROGRAM\" watch m >stuck", NULL);
    char line[256];
    wait_until(read(fd, line, sizeof line) > 0);
    fill_pipe(fd);
    struct process holder = holder_start();
    wait_until(process_is_writing(watch.pid));
    int64_t begin_ms = now_ms();
    kill(watch.pid, SIGTERM);
    assert_int_equal(process_wait(&watch), 0);
    assert_true(now_ms() - begin_ms < 3000);
    close(fd);
    kill(holder.pid, SIGTERM);
    process_wait(&holder);
}

static void tck_lists_its_cases(void **state)
{
    assert_int_equal(simba_run("tck", "--list", NULL), 0);
    assert_contains(last_out(), "start\n");
    assert_contains(last_out(), "restart\n");
    assert_contains(last_out(), "guard\n");
    assert_contains(last_out(), "multi_contend\n");
    assert_contains(last_out(), "schedule\n");
}

static void tck_runs_a_case_and_counts(void **state)
{
    assert_int_equal(simba_run("tck", "--case", "start", NULL), 0);
    assert_contains(last_out(), "ok    start ");
    assert_contains(last_out(), "1 passed, 0 failed\n");
}

static void tck_on_an_unusable_store_is_69(void **state)
{
    assert_int_equal(simba_run("tck", "-u", "sqlite:no/such/folder/x.db", "--case", "start", NULL),
                     69);
    assert_memory_equal(last_err(), "simba: ", 7);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, sandbox_enter, sandbox_leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(status_of_a_default_store_that_was_never_used_is_an_empty_table),
        CASE(status_and_watch_do_not_create_a_store_that_is_missing),
        CASE(watch_waits_for_a_default_store_that_was_never_used),
        CASE(watch_waits_no_longer_than_its_reader),
        CASE(a_name_that_the_store_does_not_know_is_free),
        CASE(status_tells_owner_times_and_fence),
        CASE(a_fence_that_is_not_known_is_a_dash_or_null),
        CASE(a_free_mutex_has_no_time_left_and_no_fence),
        CASE(waiters_are_shown_in_order_with_their_notes),
        CASE(columns_are_aligned_by_the_width_of_characters),
        CASE(status_lists_what_is_held_first_or_alone),
        CASE(names_with_quotes_backslashes_and_bad_utf8_make_valid_json),
        CASE(watch_prints_the_owner_and_then_every_change),
        CASE(watch_json_is_an_object_a_line),
        CASE(watch_ends_quietly_when_its_reader_leaves),
        CASE(watch_can_be_interrupted_while_the_store_hangs),
        CASE(watch_tells_of_a_release_while_it_starts),
        CASE(watch_can_be_interrupted_while_its_reader_stands_still),
        CASE(tck_lists_its_cases),
        CASE(tck_runs_a_case_and_counts),
        CASE(tck_on_an_unusable_store_is_69),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
