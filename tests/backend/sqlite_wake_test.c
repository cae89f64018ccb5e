/*
 * sqlite_wake_test.c - processes on one file wake each other after the commit, by notification and
 * not by a timeout: all leases here are longer than the tests are patient.
 */
#include "file.h"
#include "host.h"

#include "backend/sqlite/wake.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define CANNOT_TRY 77
#define SOON_MS 2000 /* far below any lease */

/* ---- Another process that owns and releases when it is told to ------------------------------- */

struct owner {
    int orders[2]; /* a byte each: release */
    int facts[2];  /* a byte each: it owns, it has released */
    pid_t pid;
};

static struct owner owner;

static bool tell(int fd)
{
    return write(fd, "x", 1) == 1;
}

static bool hear(int fd)
{
    char byte;

    return read(fd, &byte, 1) == 1;
}

/* It stays until the orders end: its death would be told as well. */
static int own_and_release(struct file *file)
{
    struct host host;
    struct call call;

    close(owner.orders[1]);
    if (host_open(&host, file->url) != SIMBA_OK)
        return 1;
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "owner", 0);
    if (strcmp(call.owner, "owner") != 0 || !tell(owner.facts[1]) || !hear(owner.orders[0]))
        return 2;
    call = host_do(&host, SIMBA_OP_RELEASE, "m", "owner", call.revision);
    if (call.owner[0] != '\0' || !tell(owner.facts[1]))
        return 3;
    while (hear(owner.orders[0]))
        continue;
    return host_close(&host) ? 0 : 4;
}

/* Forks before this process has threads, and returns when the other one owns. */
static void start_owner(struct file *file)
{
    assert_int_equal(pipe(owner.orders), 0);
    assert_int_equal(pipe(owner.facts), 0);
    owner.pid = file_fork(own_and_release, file, false);
    assert_true(owner.pid > 0);
    close(owner.orders[0]);
    close(owner.facts[1]); /* so that the end of the other process is heard */
    assert_true(hear(owner.facts[0]));
}

static void end_owner(void)
{
    close(owner.orders[1]);
    assert_int_equal(file_wait(owner.pid), 0);
    close(owner.facts[0]);
}

/* Loses an attempt and waits until the watch stands: it begins with a wake-up of its own. */
static void wait_in_line(struct host *host)
{
    struct call call;

    host->ops->listen(host->backend, "m", "waiter", true);
    call = host_do(host, SIMBA_OP_ACQUIRE, "m", "waiter", 0);
    assert_string_equal(call.owner, "owner");
    assert_true(host_wait_notice(host, SIMBA_NOTICE_RELEASED, "m", NULL));
    host_forget_notices(host);
    assert_string_equal(host_do(host, SIMBA_OP_ACQUIRE, "m", "waiter", 0).owner, "owner");
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void a_release_wakes_the_waiter_of_another_process(void **state)
{
    struct file *file = *state;
    struct host host;
    int64_t begin;

    start_owner(file);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    wait_in_line(&host);
    begin = test_now_ms();
    assert_true(tell(owner.orders[1]));
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", NULL));
    assert_true(test_now_ms() - begin < SOON_MS);
    /* The first look after the wake-up sees the commit. */
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "waiter", 0).owner, "waiter");
    assert_true(host_close(&host));
    end_owner();
}

static void an_observer_is_told_of_acquires_and_releases(void **state)
{
    struct file *file = *state;
    struct host observer;
    struct host other;
    struct call call;

    assert_int_equal(host_open(&observer, file->url), SIMBA_OK);
    assert_int_equal(host_open(&other, file->url), SIMBA_OK);
    observer.ops->listen(observer.backend, "m", NULL, true);
    host_forget_notices(&observer);
    call = host_do(&other, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_true(host_wait_notice(&observer, SIMBA_NOTICE_CHANGED, "m", NULL));
    host_forget_notices(&observer);
    host_do(&other, SIMBA_OP_RELEASE, "m", "a", call.revision);
    assert_true(host_wait_notice(&observer, SIMBA_NOTICE_CHANGED, "m", NULL));
    assert_true(host_close(&other));
    assert_true(host_close(&observer));
}

static void waiters_sleep_through_what_does_not_concern_them(void **state)
{
    struct file *file = *state;
    struct host host;
    struct host other;
    struct call call;

    start_owner(file);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_int_equal(host_open(&other, file->url), SIMBA_OK);
    wait_in_line(&host);
    for (int i = 0; i < 20; i++) {
        call = host_do(&other, SIMBA_OP_ACQUIRE, "unrelated", "b", 0);
        host_do(&other, SIMBA_OP_RELEASE, "unrelated", "b", call.revision);
    }
    tell(owner.orders[1]);
    assert_true(hear(owner.facts[0]));
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", NULL));
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "m", NULL), 1);
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "unrelated", NULL), 0);
    assert_true(host_close(&other));
    assert_true(host_close(&host));
    end_owner();
}

static void nobody_is_told_after_having_stopped_listening(void **state)
{
    struct file *file = *state;
    struct host host;

    start_owner(file);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    wait_in_line(&host);
    host.ops->listen(host.backend, "m", "waiter", false);
    tell(owner.orders[1]);
    assert_true(hear(owner.facts[0]));
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "waiter", 0).owner, "waiter");
    assert_int_equal(host_notices(&host, SIMBA_NOTICE_RELEASED, "m", NULL), 0);
    assert_true(host_close(&host));
    end_owner();
}

static void a_deleted_side_file_is_replaced_and_wakes_again(void **state)
{
    struct file *file = *state;
    struct host host;

    start_owner(file);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    wait_in_line(&host);
    file_unlink(file, "-wake");
    /* Found by the regular check, which begins with a wake-up. */
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", NULL));
    host_forget_notices(&host);
    tell(owner.orders[1]);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", NULL));
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "waiter", 0).owner, "waiter");
    assert_true(host_close(&host));
    end_owner();
}

/* After that the client looks at the side file's name no more while the folder tells of no
 * change. */
static void rely_on_folder(struct file *file, struct host *host)
{
    assert_true(file_settle(file));
    for (int i = 0; i < 3; i++) {
        struct call held = host_do(host, SIMBA_OP_ACQUIRE, "n", "owner", 0);

        host_do(host, SIMBA_OP_RELEASE, "n", "owner", held.revision);
    }
}

/* The owner has used the side file a moment before it loses its name. The next waiter makes another
 * one. */
static void assert_told_after(struct file *file, bool quiet,
                              void (*take_away)(const struct file *file))
{
    struct host releaser;
    struct host host;
    struct call held;

    assert_int_equal(host_open(&releaser, file->url), SIMBA_OK);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = host_do(&releaser, SIMBA_OP_ACQUIRE, "m", "owner", 0);
    if (quiet)
        rely_on_folder(file, &releaser);
    take_away(file);
    wait_in_line(&host);
    host_do(&releaser, SIMBA_OP_RELEASE, "m", "owner", held.revision);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", NULL));
    assert_true(host_close(&host));
    assert_true(host_close(&releaser));
}

static void delete_side_file(const struct file *file)
{
    file_unlink(file, "-wake");
}

static void rename_side_file(const struct file *file)
{
    char from[TEST_PATH_MAX + 32];
    char to[TEST_PATH_MAX + 32];

    snprintf(from, sizeof from, "%s-wake", file->path);
    snprintf(to, sizeof to, "%s-old", file->path);
    assert_int_equal(rename(from, to), 0);
}

static void a_release_just_after_the_side_file_was_deleted_is_told(void **state)
{
    assert_told_after(*state, false, delete_side_file);
}

static void a_release_just_after_the_side_file_was_renamed_is_told(void **state)
{
    assert_told_after(*state, false, rename_side_file);
}

static void a_release_after_the_side_file_left_a_quiet_folder_is_told(void **state)
{
    assert_told_after(*state, true, delete_side_file);
    assert_told_after(*state, true, rename_side_file);
}

/* So that a disk that is full when somebody waits does not keep a release from being told. */
static void the_side_file_has_its_room_from_the_beginning(void **state)
{
    struct file *file = *state;
    struct host host;
    struct stat status;
    char path[TEST_PATH_MAX + 32];

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_true(host_close(&host));
    snprintf(path, sizeof path, "%s-wake", file->path);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, SB_SQLITE_WAKE_SLOTS * sizeof(uint64_t));
    assert_true(status.st_blocks > 0);
}

/* ---- Who listens is heard before it looks ---------------------------------------------------- */

static struct {
    const struct file *file;
    bool told;
    bool locked; /* the byte of who listens, when it was told */
} first_look;

static struct flock releases_byte(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

    lock.l_start = SB_SQLITE_WAKE_SLOTS * sizeof(uint64_t);
    return lock;
}

static int open_side_file(const struct file *file)
{
    char path[TEST_PATH_MAX + 32];

    snprintf(path, sizeof path, "%s-wake", file->path);
    return open(path, O_RDWR | O_CLOEXEC);
}

static bool is_listened_to(const struct file *file)
{
    struct flock lock = releases_byte();
    int fd = open_side_file(file);
    bool locked;

    locked = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_RDLCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

static void note_first_look(const struct simba_backend_host *base, enum simba_notice notice,
                            const char *mutex, const char *id)
{
    (void)base;
    (void)notice;
    (void)mutex;
    (void)id;
    if (!first_look.told)
        first_look.locked = is_listened_to(first_look.file);
    first_look.told = true;
}

static bool has_been_told(void *user)
{
    (void)user;
    return first_look.told;
}

/* Otherwise a release between the two would find nobody, and be seen by nobody. */
static void who_comes_to_wait_is_heard_before_it_is_told_to_look(void **state)
{
    struct file *file = *state;
    struct host other;
    struct host host;

    assert_int_equal(host_open(&other, file->url), SIMBA_OK);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host_do(&other, SIMBA_OP_ACQUIRE, "m", "owner", 0);
    first_look.file = file;
    host.base.notice = note_first_look;
    host.ops->listen(host.backend, "m", "waiter", true);
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "waiter", 0);
    assert_true(host_run_until(&host, has_been_told, NULL));
    assert_true(first_look.locked);
    assert_true(host_close(&host));
    assert_true(host_close(&other));
}

static bool is_heard(void *user)
{
    return is_listened_to(user);
}

/* As on a file system that gives no locks. */
static void who_cannot_be_heard_looks_once_a_second_until_it_is(void **state)
{
    struct file *file = *state;
    struct flock lock = releases_byte();
    struct host other;
    struct host host;
    int fd;

    assert_int_equal(host_open(&other, file->url), SIMBA_OK);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host_do(&other, SIMBA_OP_ACQUIRE, "m", "owner", 0);
    fd = open_side_file(file);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    wait_in_line(&host);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", NULL));
    host_forget_notices(&host);
    assert_true(host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", NULL));
    close(fd);
    assert_true(host_run_until(&host, is_heard, file));
    assert_true(host_close(&host));
    assert_true(host_close(&other));
}

/* ---- What is written for whom ---------------------------------------------------------------- */

#define LONG_AGO_S 1000

/* Whether the request makes the client write into the side file, or touch it. */
static bool writes(const struct file *file, struct host *host, struct call *call)
{
    const struct timespec long_ago[2] = {{LONG_AGO_S, 0}, {LONG_AGO_S, 0}};
    struct stat status;
    char path[TEST_PATH_MAX + 32];

    snprintf(path, sizeof path, "%s-wake", file->path);
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    host_submit(host, call, 1);
    assert_true(host_wait(host, call, 1));
    assert_int_equal(call->code, SIMBA_OK);
    assert_int_equal(stat(path, &status), 0);
    return status.st_mtim.tv_sec != LONG_AGO_S;
}

/* Acquires and releases, and checks which of the two writes. */
static void assert_writes(const struct file *file, struct host *host, bool acquire, bool release)
{
    struct call acquired = host_call(SIMBA_OP_ACQUIRE, "n", "b", 0);
    struct call released;

    assert_int_equal(writes(file, host, &acquired), acquire);
    assert_string_equal(acquired.owner, "b");
    released = host_call(SIMBA_OP_RELEASE, "n", "b", acquired.revision);
    assert_int_equal(writes(file, host, &released), release);
}

static void only_what_somebody_listens_to_is_written(void **state)
{
    struct file *file = *state;
    struct host host;
    struct host other;

    start_owner(file);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_int_equal(host_open(&other, file->url), SIMBA_OK);
    assert_writes(file, &other, false, false);
    wait_in_line(&host); /* it is told by itself */
    assert_writes(file, &other, false, false);
    host.ops->listen(host.backend, "n", NULL, true);
    assert_writes(file, &other, true, true);
    host.ops->listen(host.backend, "n", NULL, false);
    assert_writes(file, &other, false, false);
    host.ops->listen(host.backend, "m", "waiter", false);
    assert_writes(file, &other, false, false);
    assert_true(host_close(&other));
    assert_true(host_close(&host));
    tell(owner.orders[1]);
    end_owner();
}

/* ---- Listeners that leave when they are told ------------------------------------------------- */

static void leave_when_told(const struct simba_backend_host *base, enum simba_notice notice,
                            const char *mutex, const char *id)
{
    struct host *host = (struct host *)(uintptr_t)base;

    (void)notice;
    (void)id;
    host->ops->listen(host->backend, mutex, "waiter", false);
}

static void count_timer(uv_handle_t *handle, void *argument)
{
    int *timers = argument;

    if (handle->type == UV_TIMER && uv_is_active(handle))
        (*timers)++;
}

static int active_timers(struct host *host)
{
    int timers = 0;

    uv_walk(&host->loop, count_timer, &timers);
    return timers;
}

static bool has_no_timer(void *user)
{
    struct host *host = user;

    uv_run(&host->loop, UV_RUN_NOWAIT);
    return active_timers(host) == 0;
}

static void the_watch_ends_with_a_listener_that_leaves_when_told(void **state)
{
    struct file *file = *state;
    struct host host;

    start_owner(file);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    wait_in_line(&host);
    assert_int_equal(active_timers(&host), 1);
    host.base.notice = leave_when_told;
    tell(owner.orders[1]);
    assert_true(hear(owner.facts[0]));
    assert_true(test_wait(has_no_timer, &host));
    assert_true(host_close(&host));
    end_owner();
}

static void the_watch_ends_with_a_listener_that_leaves_when_it_begins(void **state)
{
    struct file *file = *state;
    struct host host;

    start_owner(file);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host.base.notice = leave_when_told;
    host.ops->listen(host.backend, "m", "waiter", true);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "waiter", 0).owner, "owner");
    assert_true(test_wait(has_no_timer, &host));
    assert_true(host_close(&host));
    tell(owner.orders[1]);
    end_owner();
}

/* ---- Without inotify ------------------------------------------------------------------------- */

/* As a user of its own, so that nobody else runs out of instances. */
static int wait_without_inotify(struct file *file)
{
    struct host host;
    struct host other;
    struct call held;

    if (geteuid() == 0)
        return CANNOT_TRY;
    while (inotify_init1(IN_CLOEXEC) >= 0)
        ;
    if (host_open(&host, file->url) != SIMBA_OK || host_open(&other, file->url) != SIMBA_OK)
        return 1;
    held = host_do(&other, SIMBA_OP_ACQUIRE, "m", "owner", 0);
    host.ops->listen(host.backend, "m", "waiter", true);
    host.ops->listen(host.backend, "m", NULL, true);
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "waiter", 0);
    if (host.log_count == 0 || strstr(host.log, "polled") == NULL)
        return 2;
    host_forget_notices(&host);
    host_do(&other, SIMBA_OP_RELEASE, "m", "owner", held.revision);
    if (!host_wait_notice(&host, SIMBA_NOTICE_RELEASED, "m", NULL) ||
        !host_wait_notice(&host, SIMBA_NOTICE_CHANGED, "m", NULL))
        return 3;
    if (host.log_count != 1)
        return 4;
    return host_close(&other) && host_close(&host) ? 0 : 5;
}

static void without_inotify_the_side_file_is_polled(void **state)
{
    struct file *file = *state;
    int result;

    if (geteuid() != 0)
        skip();
    assert_true(file_give_folder(file));
    result = file_wait(file_fork(wait_without_inotify, file, true));
    if (result == CANNOT_TRY)
        skip();
    assert_int_equal(result, 0);
}

/* ---- The format of the file ------------------------------------------------------------------ */

/* FNV-1a of these names, as published, modulo 512. Processes of all versions must agree. */
static void the_slot_of_a_name_never_changes(void **state)
{
    assert_int_equal(sb_sqlite_wake_slot(""), 0x811c9dc5u % 512);
    assert_int_equal(sb_sqlite_wake_slot("a"), 0xe40c292cu % 512);
    assert_int_equal(sb_sqlite_wake_slot("foobar"), 0xbf9cf968u % 512);
}

/* ---- Who may touch what ---------------------------------------------------------------------- */

#define SHARED_GROUP 54322
#define MEMBER 54323

static void name_beside(const struct file *file, const char *suffix, char path[TEST_PATH_MAX + 32])
{
    snprintf(path, TEST_PATH_MAX + 32, "%s%s", file->path, suffix);
}

/* Uses the store in every way that opens the side file. */
static void use_store(const struct file *file)
{
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    host.ops->listen(host.backend, "m", NULL, true);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_string_equal(call.owner, "a");
    assert_int_equal(host_do(&host, SIMBA_OP_RELEASE, "m", "a", call.revision).code, SIMBA_OK);
    assert_true(host_close(&host));
}

static void create_plain(const char *path, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void assert_untouched(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 0);
    assert_int_equal(status.st_mode & 07777, 0640);
}

static void a_link_in_place_of_the_side_file_is_not_followed(void **state)
{
    struct file *file = *state;
    char victim[TEST_PATH_MAX + 32];
    char wake[TEST_PATH_MAX + 32];

    name_beside(file, ".victim", victim);
    name_beside(file, "-wake", wake);
    create_plain(victim, 0640);
    assert_int_equal(symlink(victim, wake), 0);
    use_store(file);
    assert_untouched(victim);
    assert_int_equal(unlink(wake), 0);
    assert_int_equal(link(victim, wake), 0);
    use_store(file);
    assert_untouched(victim);
}

static void a_link_to_nothing_creates_nothing_elsewhere(void **state)
{
    struct file *file = *state;
    char victim[TEST_PATH_MAX + 32];
    char wake[TEST_PATH_MAX + 32];

    name_beside(file, ".victim", victim);
    name_beside(file, "-wake", wake);
    assert_int_equal(symlink(victim, wake), 0);
    use_store(file);
    assert_int_equal(access(victim, F_OK), -1);
}

/* As a user who gets at the database by a group that is not its first one. */
static int use_as_member(struct file *file)
{
    const gid_t group = SHARED_GROUP;
    struct host host;

    if (setgroups(1, &group) != 0 || setgid(MEMBER) != 0 || setuid(MEMBER) != 0)
        return CANNOT_TRY;
    umask(077);
    if (host_open(&host, file->url) != SIMBA_OK)
        return 1;
    return host_close(&host) ? 0 : 2;
}

static void a_database_of_a_group_has_a_side_file_of_that_group(void **state)
{
    struct file *file = *state;
    char wake[TEST_PATH_MAX + 32];
    struct stat status;
    int result;

    if (geteuid() != 0)
        skip();
    create_plain(file->path, 0660);
    assert_int_equal(chown(file->path, 0, SHARED_GROUP), 0);
    assert_int_equal(chown(file->folder, 0, SHARED_GROUP), 0);
    assert_int_equal(chmod(file->folder, 0770), 0);
    result = file_wait(file_fork(use_as_member, file, false));
    if (result == CANNOT_TRY)
        skip();
    assert_int_equal(result, 0);
    name_beside(file, "-wake", wake);
    assert_int_equal(stat(wake, &status), 0);
    assert_int_equal(status.st_gid, SHARED_GROUP);
    assert_int_equal(status.st_uid, MEMBER);
    assert_int_equal(status.st_mode & 07777, 0660);
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_FILE(without_inotify_the_side_file_is_polled),
        ON_FILE(a_release_wakes_the_waiter_of_another_process),
        ON_FILE(an_observer_is_told_of_acquires_and_releases),
        ON_FILE(waiters_sleep_through_what_does_not_concern_them),
        ON_FILE(nobody_is_told_after_having_stopped_listening),
        ON_FILE(a_deleted_side_file_is_replaced_and_wakes_again),
        ON_FILE(a_release_just_after_the_side_file_was_deleted_is_told),
        ON_FILE(a_release_after_the_side_file_left_a_quiet_folder_is_told),
        ON_FILE(a_release_just_after_the_side_file_was_renamed_is_told),
        ON_FILE(the_side_file_has_its_room_from_the_beginning),
        ON_FILE(who_comes_to_wait_is_heard_before_it_is_told_to_look),
        ON_FILE(who_cannot_be_heard_looks_once_a_second_until_it_is),
        ON_FILE(only_what_somebody_listens_to_is_written),
        ON_FILE(the_watch_ends_with_a_listener_that_leaves_when_told),
        ON_FILE(the_watch_ends_with_a_listener_that_leaves_when_it_begins),
        cmocka_unit_test(the_slot_of_a_name_never_changes),
        ON_FILE(a_link_in_place_of_the_side_file_is_not_followed),
        ON_FILE(a_link_to_nothing_creates_nothing_elsewhere),
        ON_FILE(a_database_of_a_group_has_a_side_file_of_that_group),
    };

    return cmocka_run_group_tests_name("sqlite_wake", tests, NULL, NULL);
}
