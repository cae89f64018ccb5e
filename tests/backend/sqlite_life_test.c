/*
 * sqlite_life_test.c - an owner that died is succeeded at once, and only one that died: all leases
 * here are longer than the tests are patient.
 */
#include "file.h"
#include "host.h"

#include "backend/sqlite/liveness.h"
#include "backend/sqlite/wake.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SOON_MS 2000 /* far below any lease */
#define STOPPED_MS 2500
#define ROUNDS 120

/* ---- Another process that owns --------------------------------------------------------------- */

static int facts[2];  /* a byte: it owns */
static int orders[2]; /* never written: a reader waits for its own end */

static bool tell(void)
{
    return write(facts[1], "x", 1) == 1;
}

static bool hear(void)
{
    char byte;

    return read(facts[0], &byte, 1) == 1;
}

static bool own(struct host *host, const struct file *file)
{
    return host_open(host, file->url) == SIMBA_OK &&
           strcmp(host_do(host, SIMBA_OP_ACQUIRE, "m", "owner", 0).owner, "owner") == 0;
}

static void wait_for_the_end(void)
{
    char byte;

    while (read(orders[0], &byte, 1) != 1)
        ;
}

static int own_until_killed(struct file *file)
{
    struct host host;

    if (own(&host, file) && tell())
        wait_for_the_end();
    return 1;
}

/* The helper does not know what it has inherited. */
static int own_with_a_forked_helper(struct file *file)
{
    struct host host;
    pid_t helper;

    if (!own(&host, file))
        return 1;
    helper = fork();
    if (helper != 0 && (write(facts[1], &helper, sizeof helper) != sizeof helper || !tell()))
        return 2;
    wait_for_the_end();
    return 3;
}

/* Forks before this process has threads, and returns when the other one owns. */
static pid_t start_owner(struct file *file, int (*function)(struct file *file))
{
    pid_t pid;

    assert_int_equal(pipe(facts), 0);
    assert_int_equal(pipe(orders), 0);
    pid = file_fork(function, file, false);
    assert_true(pid > 0);
    return pid;
}

static pid_t start_plain_owner(struct file *file)
{
    pid_t pid = start_owner(file, own_until_killed);

    assert_true(hear());
    return pid;
}

static void end_owner(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(facts[i]);
        close(orders[i]);
    }
}

/* ---- Who waits ------------------------------------------------------------------------------- */

static const char *acquire(struct host *host, char owner[SIMBA_ID_MAX + 1])
{
    struct call call = host_do(host, SIMBA_OP_ACQUIRE, "m", "waiter", 0);

    assert_int_equal(call.code, SIMBA_OK);
    memcpy(owner, call.owner, sizeof call.owner);
    return owner;
}

static void assert_owner_is(struct host *host, const char *expected)
{
    char owner[SIMBA_ID_MAX + 1];

    assert_string_equal(acquire(host, owner), expected);
}

/* Loses an attempt and waits until the watch stands: it begins with a wake-up of its own. */
static void wait_in_line(struct host *host)
{
    host->ops->listen(host->backend, "m", "waiter", true);
    assert_owner_is(host, "owner");
    assert_true(host_wait_notice(host, SIMBA_NOTICE_RELEASED, "m", NULL));
    assert_owner_is(host, "owner");
    host_forget_notices(host);
}

static void open_in_line(struct host *host, const struct file *file)
{
    assert_int_equal(host_open(host, file->url), SIMBA_OK);
    wait_in_line(host);
}

static bool is_taken_over(struct host *host)
{
    char owner[SIMBA_ID_MAX + 1];

    return strcmp(acquire(host, owner), "waiter") == 0;
}

/* ---- Death ----------------------------------------------------------------------------------- */

static void a_killed_owner_is_succeeded_at_once(void **state)
{
    struct file *file = *state;
    pid_t pid = start_plain_owner(file);
    struct host host;
    struct call before;
    struct call after;
    int64_t begin;

    open_in_line(&host, file);
    before = host_do(&host, SIMBA_OP_READ, "m", NULL, 0);
    assert_string_equal(before.owner, "owner");
    begin = test_now_ms();
    kill(pid, SIGKILL);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", NULL));
    after = host_do(&host, SIMBA_OP_ACQUIRE, "m", "waiter", 0);
    assert_true(test_now_ms() - begin < SOON_MS);
    assert_string_equal(after.owner, "waiter");
    assert_true(after.fence > before.fence && after.revision > before.revision);
    assert_true(host_close(&host));
    end_owner(pid);
}

static void an_observer_is_told_of_a_death(void **state)
{
    struct file *file = *state;
    pid_t pid = start_plain_owner(file);
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host.ops->listen(host.backend, "m", NULL, true);
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).owner, "owner");
    host_forget_notices(&host);
    kill(pid, SIGKILL);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_CHANGED, "m", NULL));
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).owner, "");
    assert_true(host_close(&host));
    end_owner(pid);
}

static void who_comes_after_the_death_finds_the_mutex_free(void **state)
{
    struct file *file = *state;
    pid_t pid = start_plain_owner(file);
    struct host host;

    end_owner(pid);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_owner_is(&host, "waiter");
    assert_true(host_close(&host));
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void a_stopped_owner_keeps_its_lease(void **state)
{
    struct file *file = *state;
    pid_t pid = start_plain_owner(file);
    struct host host;
    int64_t end;

    open_in_line(&host, file);
    kill(pid, SIGSTOP);
    for (end = test_now_ms() + STOPPED_MS; test_now_ms() < end; test_pause_ms(20))
        assert_owner_is(&host, "owner");
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "m", NULL), 0);
    kill(pid, SIGKILL);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", NULL));
    assert_owner_is(&host, "waiter");
    assert_true(host_close(&host));
    end_owner(pid);
}

static void a_forked_helper_that_outlives_the_owner_only_delays(void **state)
{
    struct file *file = *state;
    pid_t pid = start_owner(file, own_with_a_forked_helper);
    struct host host;
    pid_t helper = 0;

    assert_int_equal(read(facts[0], &helper, sizeof helper), sizeof helper);
    assert_true(hear());
    open_in_line(&host, file);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (int i = 0; i < 20; i++)
        assert_owner_is(&host, "owner");
    kill(helper, SIGKILL);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", NULL));
    assert_owner_is(&host, "waiter");
    assert_true(host_close(&host));
    end_owner(pid);
}

static void clients_of_one_process_have_lives_of_their_own(void **state)
{
    struct file *file = *state;
    struct host first;
    struct host second;
    struct host third;

    assert_int_equal(host_open(&first, file->url), SIMBA_OK);
    assert_int_equal(host_open(&second, file->url), SIMBA_OK);
    assert_int_equal(host_open(&third, file->url), SIMBA_OK);
    host_do(&first, SIMBA_OP_ACQUIRE, "one", "a", 0);
    host_do(&second, SIMBA_OP_ACQUIRE, "two", "b", 0);
    assert_string_equal(host_do(&first, SIMBA_OP_ACQUIRE, "one", "same-client", 0).owner, "a");
    assert_string_equal(host_do(&second, SIMBA_OP_ACQUIRE, "one", "b", 0).owner, "a");
    assert_true(host_close(&first));
    assert_string_equal(host_do(&third, SIMBA_OP_ACQUIRE, "two", "c", 0).owner, "b");
    assert_string_equal(host_do(&third, SIMBA_OP_ACQUIRE, "one", "c", 0).owner, "c");
    assert_true(host_close(&second));
    assert_string_equal(host_do(&third, SIMBA_OP_ACQUIRE, "two", "c", 0).owner, "c");
    assert_true(host_close(&third));
}

/* An owner is stopped, continued and killed at any moment; nobody may come before it was killed. */
static void no_race_makes_a_living_owner_look_dead(void **state)
{
    struct file *file = *state;

    for (int round = 0; round < ROUNDS; round++) {
        pid_t pid = start_plain_owner(file);
        struct host host;
        int64_t end;

        assert_int_equal(host_open(&host, file->url), SIMBA_OK);
        for (int i = 0; i < round % 5; i++) {
            kill(pid, SIGSTOP);
            assert_owner_is(&host, "owner");
            kill(pid, SIGCONT);
            assert_owner_is(&host, "owner");
        }
        kill(pid, SIGKILL);
        end = test_now_ms() + SOON_MS;
        while (!is_taken_over(&host))
            assert_true(test_now_ms() < end);
        host_do(&host, SIMBA_OP_RELEASE, "m", "waiter",
                host_do(&host, SIMBA_OP_READ, "m", NULL, 0).revision);
        assert_true(host_close(&host));
        end_owner(pid);
    }
}

/* ---- What says nothing ----------------------------------------------------------------------- */

static void name_life(const struct file *file, char target[TEST_PATH_MAX + 32])
{
    snprintf(target, TEST_PATH_MAX + 32, "%s-life", file->path);
}

/* Neither the missing file nor one that another client creates instead is the owner's. */
static void a_deleted_file_leaves_the_end_to_the_clock(void **state)
{
    struct file *file = *state;
    pid_t pid = start_plain_owner(file);
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    file_unlink(file, "-life");
    assert_owner_is(&host, "owner");
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "other", "a", 0).owner, "a");
    assert_owner_is(&host, "owner");
    end_owner(pid);
    assert_owner_is(&host, "owner");
    assert_true(host_close(&host));
    /* The one that was created is as good as the first. */
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "other", "b", 0).owner, "b");
    assert_true(host_close(&host));
}

/* The copy has the place of the owner's file, which is still there. */
static void a_copy_of_the_file_says_nothing(void **state)
{
    struct file *file = *state;
    pid_t pid = start_plain_owner(file);
    char life[TEST_PATH_MAX + 32];
    char moved[TEST_PATH_MAX + 48];
    struct host host;
    int fd;

    name_life(file, life);
    snprintf(moved, sizeof moved, "%s.moved", life);
    assert_int_equal(rename(life, moved), 0);
    fd = open(life, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_owner_is(&host, "owner");
    assert_int_equal(rename(moved, life), 0);
    assert_owner_is(&host, "owner");
    end_owner(pid);
    assert_owner_is(&host, "waiter");
    assert_true(host_close(&host));
}

static void a_life_of_another_kernel_says_nothing(void **state)
{
    struct file *file = *state;
    pid_t pid = start_plain_owner(file);
    struct host host;

    end_owner(pid);
    assert_true(file_sql(file, "UPDATE simba_mutex SET life = life + (1 << 20)"));
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_owner_is(&host, "owner");
    assert_true(host_close(&host));
}

/* It acquires as the library did before there were lives, and leaves that of the dead owner in the
 * record. */
static void the_life_of_an_earlier_owner_says_nothing_of_the_next(void **state)
{
    struct file *file = *state;
    pid_t pid = start_plain_owner(file);
    struct host host;

    end_owner(pid);
    assert_true(file_sql(file, "UPDATE simba_mutex SET owner_id = 'elder', version = version + 1"));
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_owner_is(&host, "elder");
    assert_true(host_close(&host));
}

static void a_link_in_place_of_the_file_is_not_followed(void **state)
{
    struct file *file = *state;
    char life[TEST_PATH_MAX + 32];
    char target[TEST_PATH_MAX + 32];
    struct host host;

    name_life(file, life);
    snprintf(target, sizeof target, "%s/target", file->folder);
    assert_int_equal(symlink(target, life), 0);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_owner_is(&host, "waiter");
    assert_int_equal(access(target, F_OK), -1);
    assert_true(host.log_count > 0);
    assert_non_null(strstr(host.log, "-life"));
    assert_true(host_close(&host));
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "next", 0).owner, "waiter");
    assert_true(host_close(&host));
}

static void the_file_has_the_permissions_of_the_database(void **state)
{
    struct file *file = *state;
    char life[TEST_PATH_MAX + 32];
    struct stat status;
    struct host host;

    name_life(file, life);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_owner_is(&host, "waiter");
    assert_int_equal(stat(life, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_true(host_close(&host));
}

static bool is_local(const char *path)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    bool local = sb_sqlite_side_is_local(fd);

    if (fd >= 0)
        close(fd);
    return local;
}

static void only_known_file_systems_are_relied_on(void **state)
{
    const struct file *file = *state;

    assert_true(is_local(file->folder));
    assert_false(is_local("/proc"));
    assert_false(sb_sqlite_side_is_local(-1));
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILE(a_killed_owner_is_succeeded_at_once),
        ON_FILE(an_observer_is_told_of_a_death),
        ON_FILE(who_comes_after_the_death_finds_the_mutex_free),
        ON_FILE(a_stopped_owner_keeps_its_lease),
        ON_FILE(a_forked_helper_that_outlives_the_owner_only_delays),
        ON_FILE(clients_of_one_process_have_lives_of_their_own),
        ON_FILE(no_race_makes_a_living_owner_look_dead),
        ON_FILE(a_deleted_file_leaves_the_end_to_the_clock),
        ON_FILE(a_copy_of_the_file_says_nothing),
        ON_FILE(a_life_of_another_kernel_says_nothing),
        ON_FILE(the_life_of_an_earlier_owner_says_nothing_of_the_next),
        ON_FILE(a_link_in_place_of_the_file_is_not_followed),
        ON_FILE(the_file_has_the_permissions_of_the_database),
        ON_FILE(only_known_file_systems_are_relied_on),
    };

    return cmocka_run_group_tests_name("sqlite_life", tests, NULL, NULL);
}
