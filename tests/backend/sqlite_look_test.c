/*
 * sqlite_look_test.c - who only looks at an SQLite file (create=no): at an empty one, at one that
 * is being made, at one that belongs to others, and at one that only others may write.
 */
#include "file.h"
#include "host.h"

#include <fcntl.h>
#include <sys/stat.h>

#define CANNOT_TRY 77 /* a child could not become another user */
#define ROUNDS 40

static void write_empty_file(const struct file *file, mode_t mode)
{
    int fd = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static int open_to_look(struct host *host, const struct file *file)
{
    char url[TEST_PATH_MAX + 96];

    snprintf(url, sizeof url, "%s?create=no", file->url);
    return host_open(host, url);
}

/* ---- Empty files ----------------------------------------------------------------------------- */

static void an_empty_file_has_no_mutexes(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call call;

    write_empty_file(file, 0600);
    assert_int_equal(open_to_look(&host, file), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0);
    assert_int_equal(call.code, SIMBA_OK);
    assert_int_equal(call.list_count, 0);
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).owner, "");
    assert_true(host_close(&host));
}

static void who_watches_an_empty_file_sees_the_first_owner(void **state)
{
    struct file *file = *state;
    struct host host;
    struct host owner;

    write_empty_file(file, 0600);
    assert_int_equal(open_to_look(&host, file), SIMBA_OK);
    host.ops->listen(host.backend, "m", NULL, true);
    host_forget_notices(&host);
    assert_int_equal(host_open(&owner, file->url), SIMBA_OK);
    assert_string_equal(host_do(&owner, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_CHANGED, "m", NULL));
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).owner, "a");
    assert_true(host_close(&owner));
    assert_true(host_close(&host));
}

static bool is_there(void *user)
{
    const struct file *file = user;

    return access(file->path, F_OK) == 0;
}

static int make(struct file *file)
{
    struct host host;

    if (host_open(&host, file->url) != SIMBA_OK)
        return 1;
    return host_close(&host) ? 0 : 2;
}

static int look_as_soon_as_it_is_there(struct file *file)
{
    struct host host;

    while (!is_there(file))
        ;
    if (open_to_look(&host, file) != SIMBA_OK)
        return 1;
    if (host_do(&host, SIMBA_OP_LIST, NULL, NULL, 0).code != SIMBA_OK)
        return 2;
    return host_close(&host) ? 0 : 3;
}

static void a_look_while_the_file_is_being_made_does_not_fail(void **state)
{
    static const char *const parts[] = {"", "-wal", "-shm", "-wake", "-life"};
    struct file *file = *state;

    for (int round = 0; round < ROUNDS; round++) {
        pid_t looker = file_fork(look_as_soon_as_it_is_there, file, false);
        pid_t maker = file_fork(make, file, false);

        assert_int_equal(file_wait(maker), 0);
        assert_int_equal(file_wait(looker), 0);
        for (size_t i = 0; i < TEST_COUNT(parts); i++)
            file_unlink(file, parts[i]);
    }
}

static void a_database_of_others_is_left_alone(void **state)
{
    struct file *file = *state;
    struct host host;

    write_empty_file(file, 0600);
    assert_true(file_sql(file, "CREATE TABLE theirs (a)"));
    assert_int_equal(open_to_look(&host, file), SIMBA_ENOTFOUND);
    assert_non_null(strstr(host.open_error.text, "is not one of Simba's"));
    assert_int_equal(file_number(file, "SELECT count(*) FROM sqlite_master"), 1);
}

/* ---- Files that only others may write -------------------------------------------------------- */

/* Runs as another user, who may do no more than the modes of the files say. */
static void run_as_other(int (*function)(struct file *file), struct file *file)
{
    int result = file_wait(file_fork(function, file, true));

    if (result == CANNOT_TRY)
        skip();
    assert_int_equal(result, 0);
}

/* A store with the owner `a` of `m`, whose files have the mode; so has the folder, and may be
 * entered. */
static void prepare_store(struct file *file, mode_t mode)
{
    struct host host;

    write_empty_file(file, mode);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_true(host_close(&host));
    assert_true(file_forget_lives(file));
    assert_int_equal(chmod(file->folder, 0755), 0);
}

static int read_without_writing(struct file *file)
{
    struct host host;
    struct call call;

    if (geteuid() == 0 || access(file->path, W_OK) == 0)
        return CANNOT_TRY;
    if (open_to_look(&host, file) != SIMBA_OK)
        return 1;
    host.ops->listen(host.backend, "m", NULL, true);
    call = host_do(&host, SIMBA_OP_READ, "m", NULL, 0);
    if (call.code != SIMBA_OK || strcmp(call.owner, "a") != 0 || call.ttl_left_ms <= 0)
        return 2;
    if (host.log_count != 0) /* the side file is watched, too */
        return 3;
    if (host_do(&host, SIMBA_OP_ACQUIRE, "free", "b", 0).code != SIMBA_EDENIED)
        return 4;
    return host_close(&host) ? 0 : 5;
}

static void who_may_only_read_the_files_can_look(void **state)
{
    struct file *file = *state;

    prepare_store(file, 0644);
    run_as_other(read_without_writing, file);
}

static int miss_the_log(struct file *file)
{
    char log[TEST_PATH_MAX + 32];
    struct host host;

    if (geteuid() == 0)
        return CANNOT_TRY;
    if (open_to_look(&host, file) != SIMBA_EDENIED)
        return 1;
    if (strstr(host.open_error.text, "need write access") == NULL)
        return 2;
    snprintf(log, sizeof log, "%s-wal", file->path);
    return access(log, F_OK) != 0 ? 0 : 3;
}

/* Nor is a log created that the owner of the database could not write. */
static void who_may_only_read_is_told_when_the_log_is_missing(void **state)
{
    struct file *file = *state;

    prepare_store(file, 0644);
    assert_int_equal(file_number(file, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
    file_unlink(file, "-wal");
    file_unlink(file, "-shm");
    assert_true(file_give_folder(file));
    run_as_other(miss_the_log, file);
}

static int write_beside_a_closed_folder(struct file *file)
{
    struct host host;

    if (geteuid() == 0)
        return CANNOT_TRY;
    if (host_open(&host, file->url) != SIMBA_EDENIED)
        return 1;
    return strstr(host.open_error.text, "write access to its folder") != NULL ? 0 : 2;
}

static void a_folder_that_cannot_hold_the_log_is_named_as_the_cause(void **state)
{
    struct file *file = *state;

    write_empty_file(file, 0666);
    assert_int_equal(chmod(file->folder, 0755), 0);
    run_as_other(write_beside_a_closed_folder, file);
}

static int create_in_a_closed_folder(struct file *file)
{
    char expected[TEST_PATH_MAX + 64];
    struct host host;

    if (geteuid() == 0)
        return CANNOT_TRY;
    if (host_open(&host, file->url) != SIMBA_EDENIED)
        return 1;
    snprintf(expected, sizeof expected, "cannot be created in %s", file->folder);
    return strstr(host.open_error.text, expected) != NULL ? 0 : 2;
}

static void a_folder_that_cannot_hold_the_file_is_named(void **state)
{
    struct file *file = *state;

    assert_int_equal(chmod(file->folder, 0755), 0);
    run_as_other(create_in_a_closed_folder, file);
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILE(a_look_while_the_file_is_being_made_does_not_fail),
        ON_FILE(who_may_only_read_the_files_can_look),
        ON_FILE(who_may_only_read_is_told_when_the_log_is_missing),
        ON_FILE(a_folder_that_cannot_hold_the_log_is_named_as_the_cause),
        ON_FILE(a_folder_that_cannot_hold_the_file_is_named),
        ON_FILE(an_empty_file_has_no_mutexes),
        ON_FILE(who_watches_an_empty_file_sees_the_first_owner),
        ON_FILE(a_database_of_others_is_left_alone),
    };

    return cmocka_run_group_tests_name("sqlite_look", tests, NULL, NULL);
}
