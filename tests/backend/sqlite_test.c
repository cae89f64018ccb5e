/*
 * sqlite_test.c - what the SQLite store promises beyond the operations: its file, its clock, and
 * transactions that many requests share.
 */
#include "file.h"
#include "host.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>

/* ---- A wall clock that can be stepped -------------------------------------------------------- */

static time_t wall_step_s;

/* In place of the C library's, for SQLite as well. */
int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec real;

    (void)zone;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec + wall_step_s;
    now->tv_usec = real.tv_nsec / 1000;
    return 0;
}

static void a_step_of_the_wall_clock_moves_no_lease(void **state)
{
    static const time_t steps[] = {-10 * 365 * 86400, -3600, 3600, 10 * 365 * 86400};
    struct file *file = *state;
    struct host host;
    struct call held;
    int64_t wall_ms;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    wall_ms = file_number(file, "SELECT strftime('%s', 'now')");
    for (size_t i = 0; i < TEST_COUNT(steps); i++) {
        struct call call;

        wall_step_s = steps[i];
        assert_in_range(file_number(file, "SELECT strftime('%s', 'now')") - wall_ms - steps[i], 0,
                        60);
        call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0);
        assert_string_equal(call.owner, "a");
        assert_true(call.transition_left_ms <= held.transition_left_ms);
        assert_true(call.transition_left_ms > held.transition_left_ms - 5000);
    }
    wall_step_s = 0;
    assert_true(host_close(&host));
}

static void leases_are_counted_on_the_boot_clock(void **state)
{
    struct file *file = *state;
    int64_t before_ms = simba_now_ms();
    struct host host;
    int64_t acquired_ms;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    acquired_ms = file_number(file, "SELECT acquired_at FROM simba_mutex");
    assert_in_range(acquired_ms, before_ms, simba_now_ms());
    assert_int_equal(file_number(file, "SELECT ttl_at - acquired_at FROM simba_mutex"),
                     HOST_TTL_MS);
    assert_int_equal(file_number(file, "SELECT transition_at - acquired_at FROM simba_mutex"),
                     HOST_LEASE_MS);
    assert_true(host_close(&host));
}

/* ---- The file -------------------------------------------------------------------------------- */

static void the_file_is_private(void **state)
{
    struct file *file = *state;
    struct stat status;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_int_equal(stat(file->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_true(host_close(&host));
}

struct refusal {
    const char *url;
    int code;
    const char *text; /* part of the sentence */
};

static void what_cannot_be_a_database_is_refused_with_a_sentence(void **state)
{
    static const struct refusal refusals[] = {
        {"sqlite:", SIMBA_EINVAL, "sqlite:PATH"},
        {"sqlite:/nonexistent/folder/x.db", SIMBA_EUNAVAILABLE, "does not exist"},
        {"sqlite:/tmp/", SIMBA_EINVAL, "folder"},
        {"sqlite:/", SIMBA_EINVAL, "folder"},
        {"sqlite::memory:", SIMBA_EINVAL, "write memory: "},
        {"sqlite:/proc/x.db", SIMBA_EUNAVAILABLE, "x.db cannot be created in /proc: No such"},
        {"sqlite:/etc/passwd/x.db", SIMBA_EUNAVAILABLE, "cannot be entered: Not a directory"},
        {"sqlite:/tmp/x.db?synchronous=off", SIMBA_EINVAL, "off"},
        {"sqlite:/tmp/x.db?busy-timeout=0", SIMBA_EINVAL, "busy-timeout"},
        {"sqlite:/tmp/x.db?busy-timeout=soon", SIMBA_EINVAL, "busy-timeout"},
        {"sqlite:/tmp/x.db?create=perhaps", SIMBA_EINVAL, "perhaps"},
        {"sqlite:/tmp/x.db?tll=1s", SIMBA_ECONFIG, "tll"},
    };

    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        const struct refusal *refusal = &refusals[i];
        struct host host;
        int code = host_open(&host, refusal->url);

        if (code != refusal->code || strstr(host.open_error.text, refusal->text) == NULL)
            fail_msg("%s: code %d: %s", refusal->url, code, host.open_error.text);
    }
    assert_int_not_equal(access("/tmp/x.db", F_OK), 0);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);

    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* A URL of a path of that many bytes, in folders that are missing or made. */
static void name_deep_file(const struct file *file, size_t length, bool make, char *url,
                           size_t size)
{
    size_t at = strlen("sqlite:") + strlen(file->folder);

    snprintf(url, size, "sqlite:%s", file->folder);
    while (at + 102 < strlen("sqlite:") + length) {
        url[at] = '/';
        memset(url + at + 1, 'd', 100);
        at += 101;
        url[at] = '\0';
        assert_true(!make || mkdir(url + strlen("sqlite:"), 0700) == 0 || errno == EEXIST);
    }
    url[at] = '/';
    memset(url + at + 1, 'f', strlen("sqlite:") + length - at - 1);
    url[strlen("sqlite:") + length] = '\0';
}

static void a_long_path_does_not_hide_the_reason(void **state)
{
    char url[4096];
    struct host host;

    for (size_t length = 500; length < 4000; length += 1000) {
        name_deep_file(*state, length, false, url, sizeof url);
        assert_int_equal(host_open(&host, url), SIMBA_EUNAVAILABLE);
        assert_true(ends_with(host.open_error.text, " does not exist"));
        assert_ptr_equal(strstr(host.open_error.text, "the folder of the database /"),
                         host.open_error.text);
    }
}

static void a_path_that_is_too_long_for_sqlite_is_an_invalid_value(void **state)
{
    char url[4096];
    struct host host;

    name_deep_file(*state, 504, true, url, sizeof url);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_true(host_close(&host));
    for (size_t length = 505; length < 4000; length += 247) {
        name_deep_file(*state, length, true, url, sizeof url);
        assert_int_equal(host_open(&host, url), SIMBA_EINVAL);
        assert_non_null(strstr(host.open_error.text, "too long"));
    }
}

static void nothing_is_created_where_the_file_must_exist(void **state)
{
    struct file *file = *state;
    char url[TEST_PATH_MAX + 96];
    struct host host;

    snprintf(url, sizeof url, "sqlite:%s/nowhere/simba.db?create=no", file->folder);
    assert_int_equal(host_open(&host, url), SIMBA_ENOTFOUND);
    snprintf(url, sizeof url, "%s?create=no", file->url);
    assert_int_equal(host_open(&host, url), SIMBA_ENOTFOUND);
    assert_non_null(strstr(host.open_error.text, "there is no database"));
    assert_non_null(strstr(host.open_error.text, file->path));
    assert_int_equal(rmdir(file->folder), 0); /* it is empty */
    assert_int_equal(mkdir(file->folder, 0700), 0);

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_true(host_close(&host));
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_true(host_close(&host));
}

static void a_file_that_must_exist_is_missed_when_it_goes(void **state)
{
    struct file *file = *state;
    char url[TEST_PATH_MAX + 96];
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_true(host_close(&host));
    snprintf(url, sizeof url, "%s?create=no", file->url);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    file_unlink(file, "");
    file_unlink(file, "-wal");
    file_unlink(file, "-shm");
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).code, SIMBA_ENOTFOUND);
    assert_int_equal(access(file->path, F_OK), -1);
    assert_true(host_close(&host));
}

static void a_relative_path_stays_the_same_file_when_the_process_moves(void **state)
{
    struct file *file = *state;
    char before[TEST_PATH_MAX];
    struct host host;

    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(file->folder), 0);
    assert_int_equal(host_open(&host, "sqlite:simba.db"), SIMBA_OK);
    assert_int_equal(chdir("/"), 0);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_int_equal(access("/simba.db", F_OK), -1);
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex"), 1);
    assert_true(host_close(&host));
    assert_int_equal(chdir(before), 0);
}

static void a_link_to_the_file_is_the_same_store(void **state)
{
    struct file *file = *state;
    char link[TEST_PATH_MAX + 16];
    char url[TEST_PATH_MAX + 32];
    struct host host;
    struct host other;

    snprintf(link, sizeof link, "%s/link", file->folder);
    snprintf(url, sizeof url, "sqlite:%s", link);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_int_equal(symlink(file->path, link), 0);
    assert_int_equal(host_open(&other, url), SIMBA_OK);
    host.ops->listen(host.backend, "m", NULL, true);
    host_forget_notices(&host);
    assert_string_equal(host_do(&other, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_CHANGED, "m", NULL));
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0).owner, "a");
    assert_true(host_close(&other));
    assert_true(host_close(&host));
}

static void a_link_that_leads_nowhere_is_told_so(void **state)
{
    struct file *file = *state;
    struct host host;

    assert_int_equal(symlink("missing", file->path), 0);
    assert_int_equal(host_open(&host, file->url), SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(host.open_error.text, "is a link that leads nowhere"));
    assert_int_equal(unlink(file->path), 0);
    assert_int_equal(symlink(file->path, file->path), 0);
    assert_int_equal(host_open(&host, file->url), SIMBA_EUNAVAILABLE);
    assert_non_null(strstr(host.open_error.text, "is a link that leads nowhere"));
}

static void a_path_that_leads_to_the_root_is_no_file(void **state)
{
    struct host host;

    assert_int_equal(host_open(&host, "sqlite:/.."), SIMBA_EINVAL);
    assert_non_null(strstr(host.open_error.text, "/.. names a folder"));
}

static void both_synchronous_modes_work(void **state)
{
    struct file *file = *state;
    char url[TEST_PATH_MAX + 96];
    struct host host;

    snprintf(url, sizeof url, "%s?synchronous=full&busy-timeout=2s", file->url);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_true(host_close(&host));
    assert_true(file_forget_lives(file));
    snprintf(url, sizeof url, "%s?synchronous=normal", file->url);
    assert_int_equal(host_open(&host, url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).owner, "a");
    assert_true(host_close(&host));
}

static void leases_outlive_a_client_that_tells_nothing_of_its_life(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_true(host_close(&host));
    assert_true(file_forget_lives(file));
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0).owner, "a");
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).revision, call.revision);
    assert_true(host_close(&host));
}

/* ---- Transactions ---------------------------------------------------------------------------- */

#define MIXED 60

static void a_batch_of_mixed_requests_is_one_commit(void **state)
{
    struct file *file = *state;
    struct call calls[MIXED];
    char names[MIXED][16];
    struct host host;
    struct call held;
    int before;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = host_do(&host, SIMBA_OP_ACQUIRE, "held", "a", 0);
    before = file_commits(file);
    assert_true(before > 0);
    for (size_t i = 0; i < MIXED; i++) {
        snprintf(names[i], sizeof names[i], "mixed-%zu", i);
        calls[i] = host_call(i % 3 == 0 ? SIMBA_OP_READ : SIMBA_OP_ACQUIRE, names[i], "a", 0);
    }
    calls[1] = host_call(SIMBA_OP_GUARD, "held", "a", held.revision);
    calls[2] = host_call(SIMBA_OP_RELEASE, "held", "a", held.revision + 1);
    host_submit(&host, calls, MIXED);
    assert_true(host_wait(&host, calls, MIXED));
    for (size_t i = 0; i < MIXED; i++) {
        assert_int_equal(calls[i].code, SIMBA_OK);
        assert_string_equal(calls[i].owner, i % 3 == 0 || i == 2 ? "" : "a");
    }
    assert_int_equal(file_commits(file) - before, 1);
    assert_true(host_close(&host));
}

/* But for its place in the queue, when it comes. */
static void what_cannot_win_writes_nothing(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call held;
    int before;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    before = file_commits(file);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0).owner, "a");
    assert_int_equal(file_commits(file), before + 1);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "b", 0).owner, "a");
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).owner, "a");
    assert_int_equal(host_do(&host, SIMBA_OP_RELEASE, "m", "a", 0).code, SIMBA_OK);
    assert_int_equal(file_commits(file), before + 1);
    host_do(&host, SIMBA_OP_RELEASE, "m", "a", held.revision);
    assert_int_equal(file_commits(file), before + 2);
    assert_true(host_close(&host));
}

/* ---- Processes ------------------------------------------------------------------------------- */

#define PROCESSES 6
#define TURNS 25

/* Adds one to the number in a file, which only works when nobody else does so in between. */
static bool count_up(const struct file *file)
{
    char path[TEST_PATH_MAX + 16];
    int number = 0;
    FILE *counter;

    snprintf(path, sizeof path, "%s/counter", file->folder);
    counter = fopen(path, "r");
    if (counter != NULL) {
        if (fscanf(counter, "%d", &number) != 1)
            number = -1000000;
        fclose(counter);
    }
    counter = fopen(path, "w");
    return counter != NULL && fprintf(counter, "%d\n", number + 1) > 0 && fclose(counter) == 0;
}

static int take_turns(struct file *file)
{
    char url[sizeof file->url + 32];
    char id[32];
    struct host host;
    int turns = 0;

    snprintf(id, sizeof id, "%d", (int)getpid());
    snprintf(url, sizeof url, "%s?busy-timeout=1m", file->url);
    if (host_open(&host, url) != SIMBA_OK)
        return 1;
    while (turns < TURNS) {
        struct call call = host_do(&host, SIMBA_OP_ACQUIRE, "m", id, 0);

        if (call.code != SIMBA_OK)
            return 2;
        if (strcmp(call.owner, id) != 0) {
            test_pause_ms(1);
            continue;
        }
        if (!count_up(file))
            return 3;
        if (host_do(&host, SIMBA_OP_RELEASE, "m", id, call.revision).code != SIMBA_OK)
            return 4;
        turns++;
    }
    return host_close(&host) ? 0 : 5;
}

static void processes_that_start_at_once_exclude_each_other(void **state)
{
    struct file *file = *state;
    pid_t pids[PROCESSES];
    char path[TEST_PATH_MAX + 16];
    int number = 0;
    FILE *counter;

    for (size_t i = 0; i < PROCESSES; i++)
        pids[i] = file_fork(take_turns, file, false);
    for (size_t i = 0; i < PROCESSES; i++)
        assert_int_equal(file_wait(pids[i]), 0);
    snprintf(path, sizeof path, "%s/counter", file->folder);
    counter = fopen(path, "r");
    assert_non_null(counter);
    assert_int_equal(fscanf(counter, "%d", &number), 1);
    fclose(counter);
    assert_int_equal(number, PROCESSES * TURNS);
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)

static void the_longest_name_is_a_mutex(void **state)
{
    const struct file *file = *state;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host_check_longest_name(&host);
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILE(processes_that_start_at_once_exclude_each_other),
        ON_FILE(a_step_of_the_wall_clock_moves_no_lease),
        ON_FILE(leases_are_counted_on_the_boot_clock),
        ON_FILE(the_longest_name_is_a_mutex),
        ON_FILE(the_file_is_private),
        cmocka_unit_test(what_cannot_be_a_database_is_refused_with_a_sentence),
        ON_FILE(a_long_path_does_not_hide_the_reason),
        ON_FILE(a_path_that_is_too_long_for_sqlite_is_an_invalid_value),
        ON_FILE(nothing_is_created_where_the_file_must_exist),
        ON_FILE(a_file_that_must_exist_is_missed_when_it_goes),
        ON_FILE(a_relative_path_stays_the_same_file_when_the_process_moves),
        ON_FILE(a_link_to_the_file_is_the_same_store),
        ON_FILE(a_link_that_leads_nowhere_is_told_so),
        cmocka_unit_test(a_path_that_leads_to_the_root_is_no_file),
        ON_FILE(both_synchronous_modes_work),
        ON_FILE(leases_outlive_a_client_that_tells_nothing_of_its_life),
        ON_FILE(a_batch_of_mixed_requests_is_one_commit),
        ON_FILE(what_cannot_win_writes_nothing),
    };

    return cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
}
