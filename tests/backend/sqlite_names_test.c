/*
 * sqlite_names_test.c - a database file with two names: a hard link, or a mount of the file alone.
 * SQLite keeps a log for each name, so that each name could have an owner. The store refuses the
 * file, and works again when one name is left.
 *
 * statx() is led through here, so that the kernel can be one that does not tell of mounts.
 */
#include "file.h"
#include "host.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define CANNOT_TRY 77 /* a child could not mount */

static atomic_bool kernel_is_old;

/* Takes the place of the system's. Kernels before 5.8 do not tell of mounts. */
int statx(int folder, const char *restrict path, int flags, unsigned mask,
          struct statx *restrict status)
{
    long code = syscall(SYS_statx, folder, path, flags, mask, status);

    if (code == 0 && atomic_load(&kernel_is_old)) {
        status->stx_attributes = 0;
        status->stx_attributes_mask = 0;
    }
    return (int)code;
}

static struct call acquire(struct host *host, const char *id)
{
    return host_do(host, SIMBA_OP_ACQUIRE, "m", id, 0);
}

/* ---- Another name ---------------------------------------------------------------------------- */

/* The file by another name, in a folder of its own. */
static void name_other(const struct file *file, struct file *ret_other)
{
    snprintf(ret_other->folder, sizeof ret_other->folder, "%.*s/other", TEST_PATH_MAX - 16,
             file->folder);
    snprintf(ret_other->path, sizeof ret_other->path, "%s/x.db", ret_other->folder);
    snprintf(ret_other->url, sizeof ret_other->url, "sqlite:%s/x.db", ret_other->folder);
    mkdir(ret_other->folder, 0700);
}

static bool create_store(const struct file *file)
{
    struct host host;

    return host_open(&host, file->url) == SIMBA_OK && host_close(&host);
}

static bool create_beside(const struct file *file, const char *suffix)
{
    char path[sizeof file->path + 8];
    int fd;

    snprintf(path, sizeof path, "%s%s", file->path, suffix);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 && close(fd) == 0;
}

static bool has_log(const struct file *file)
{
    char path[sizeof file->path + 8];

    snprintf(path, sizeof path, "%s-wal", file->path);
    return access(path, F_OK) == 0;
}

/* Whether the store says what is wrong and what to do, and has written nothing beside the file. */
static bool is_refused(const struct file *file, const char *fix)
{
    bool had_log = has_log(file);
    struct host host;
    int code = host_open(&host, file->url);

    if (code == SIMBA_OK)
        host_close(&host);
    return code == SIMBA_EDENIED && strstr(host.open_error.text, file->path) != NULL &&
           strstr(host.open_error.text, fix) != NULL && has_log(file) == had_log;
}

/* ---- Hard links ------------------------------------------------------------------------------ */

static void a_database_with_a_hard_link_is_refused_by_both_names(void **state)
{
    struct file *file = *state;
    struct file other;

    name_other(file, &other);
    assert_true(create_store(file));
    assert_int_equal(link(file->path, other.path), 0);
    assert_true(is_refused(file, "find / -samefile"));
    assert_true(is_refused(&other, "find / -samefile"));
    assert_int_equal(unlink(other.path), 0);
    assert_true(create_store(file));
}

static bool can_acquire(void *user)
{
    return strcmp(acquire(user, "a").owner, "a") == 0;
}

/* The owner may have been granted the mutex by a name that the link has not. */
static void a_hard_link_made_under_an_owner_is_noticed_before_the_next_grant(void **state)
{
    struct file *file = *state;
    struct file other;
    struct host host;
    struct call held;
    struct call call;

    name_other(file, &other);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = acquire(&host, "a");
    assert_string_equal(held.owner, "a");
    assert_int_equal(link(file->path, other.path), 0);
    call = host_do(&host, SIMBA_OP_GUARD, "m", "a", held.revision);
    assert_int_equal(call.code, SIMBA_EUNKNOWN); /* it is in the log of this name */
    assert_non_null(strstr(call.error.text, "find / -samefile"));
    assert_int_not_equal(acquire(&host, "b").code, SIMBA_OK);
    assert_int_not_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).code, SIMBA_OK);
    assert_true(is_refused(&other, "hard link"));
    assert_int_equal(unlink(other.path), 0);
    assert_true(test_wait(can_acquire, &host));
    assert_true(host_close(&host));
}

static bool exists(void *path)
{
    return access(path, F_OK) == 0;
}

/* The client of the other name: it opens that while it is the only one, and asks when there are
 * two. */
static int ask_by_other_name(struct file *file)
{
    struct file other;
    struct host host;
    int result;

    name_other(file, &other);
    if (!test_wait(exists, other.path) || host_open(&host, other.url) != SIMBA_OK)
        return 1;
    if (!create_beside(&other, "-opened") || !test_wait(exists, file->path))
        return 2;
    result = acquire(&host, "b").code != SIMBA_OK ? 0 : 3;
    return host_close(&host) ? result : 4;
}

/* A name that was away for a moment leads to the same file again, and its log is where it was. */
static void clients_of_two_names_do_not_both_own(void **state)
{
    struct file *file = *state;
    char opened[sizeof file->path + 8];
    struct file other;
    struct host host;
    struct call held;
    pid_t pid;

    name_other(file, &other);
    snprintf(opened, sizeof opened, "%s-opened", other.path);
    pid = file_fork(ask_by_other_name, file, false);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = acquire(&host, "a");
    assert_int_equal(rename(file->path, other.path), 0);
    assert_true(test_wait(exists, opened));
    assert_int_equal(link(other.path, file->path), 0);
    held = host_do(&host, SIMBA_OP_GUARD, "m", "a", held.revision);
    assert_true(host_close(&host));
    assert_int_equal(file_wait(pid), 0);
    assert_int_not_equal(held.code, SIMBA_OK);
}

/* ---- Mounts, in a process with a mount namespace of its own ---------------------------------- */

static bool mount_at(const char *source, const char *target)
{
    return mount(source, target, NULL, MS_BIND, NULL) == 0;
}

static bool can_mount(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0;
}

static int try_mounted_file(struct file *file)
{
    struct file other;

    name_other(file, &other);
    if (!create_store(file))
        return 3;
    if (!can_mount() || !create_beside(&other, "") || !mount_at(file->path, other.path))
        return CANNOT_TRY;
    if (!is_refused(&other, "mount the folder"))
        return 1;
    return create_store(file) ? 0 : 2;
}

static int try_mounted_file_on_an_old_kernel(struct file *file)
{
    atomic_store(&kernel_is_old, true);
    return try_mounted_file(file);
}

/* The database is the one that others see, and its log is not. */
static int try_mounted_log(struct file *file)
{
    struct file other;
    char log[sizeof file->path + 8];

    name_other(file, &other);
    if (!create_store(file))
        return 3;
    snprintf(log, sizeof log, "%s-wal", file->path);
    if (!can_mount() || !create_beside(&other, "") || !mount_at(other.path, log))
        return CANNOT_TRY;
    return is_refused(file, "mount the folder") ? 0 : 1;
}

/* A folder at two places is one folder: everything beside the file is the same. */
static int try_mounted_folder(struct file *file)
{
    struct file other;
    struct host here;
    struct host there;
    int result = 0;

    name_other(file, &other);
    if (!can_mount() || !mount_at(file->folder, other.folder))
        return CANNOT_TRY;
    snprintf(other.url, sizeof other.url, "sqlite:%.*s/simba.db", TEST_PATH_MAX, other.folder);
    if (host_open(&here, file->url) != SIMBA_OK || host_open(&there, other.url) != SIMBA_OK)
        return 1;
    if (strcmp(acquire(&here, "a").owner, "a") != 0 || strcmp(acquire(&there, "b").owner, "a") != 0)
        result = 2;
    return host_close(&here) && host_close(&there) ? result : 3;
}

static void run_apart(int (*function)(struct file *file), struct file *file)
{
    int result = file_wait(file_fork(function, file, false));

    if (result == CANNOT_TRY) {
        print_message("mounting is not allowed here\n");
        skip();
    }
    assert_int_equal(result, 0);
}

static void a_database_that_is_mounted_without_its_folder_is_refused(void **state)
{
    run_apart(try_mounted_file, *state);
}

static void the_list_of_mounts_tells_where_the_kernel_does_not(void **state)
{
    run_apart(try_mounted_file_on_an_old_kernel, *state);
}

static void a_log_that_is_mounted_without_its_folder_is_refused(void **state)
{
    run_apart(try_mounted_log, *state);
}

static void a_folder_that_is_mounted_twice_is_one_store(void **state)
{
    run_apart(try_mounted_folder, *state);
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILE(a_database_that_is_mounted_without_its_folder_is_refused),
        ON_FILE(the_list_of_mounts_tells_where_the_kernel_does_not),
        ON_FILE(a_log_that_is_mounted_without_its_folder_is_refused),
        ON_FILE(a_folder_that_is_mounted_twice_is_one_store),
        ON_FILE(clients_of_two_names_do_not_both_own),
        ON_FILE(a_database_with_a_hard_link_is_refused_by_both_names),
        ON_FILE(a_hard_link_made_under_an_owner_is_noticed_before_the_next_grant),
    };

    return cmocka_run_group_tests_name("sqlite_names", tests, NULL, NULL);
}
