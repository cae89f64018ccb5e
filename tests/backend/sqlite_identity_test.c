/*
 * sqlite_identity_test.c - what the SQLite store does when a name leads to another file than the
 * one that it has open: how far the date of a folder is relied upon, and that a record which others
 * do not see makes nobody an owner.
 *
 * stat() is led through here, so that names can change between two looks of the store at them.
 */
#include "file.h"
#include "host.h"

#include "backend/sqlite/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define ROUNDS 20

static struct call acquire(struct host *host, const char *mutex, const char *id)
{
    return host_do(host, SIMBA_OP_ACQUIRE, mutex, id, 0);
}

/* ---- Names that change between two looks ----------------------------------------------------- */

enum stage {
    IDLE,
    ARMED, /* the folder is changed when it is looked at next */
    DATED, /* the log leaves it after it was looked at next */
    STRUCK
};

static struct {
    struct file *_Atomic file;
    _Atomic enum stage stage;
    bool one_date;      /* that of the folder tells nothing of the second change */
    atomic_bool denied; /* the system does not say what is behind the name of the database */
} fault;

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Without a pause: the tick has just begun afterwards. */
static void wait_for_tick(void)
{
    struct timespec before;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &before);
    do
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    while (is_same_time(&before, &now));
}

static void change_folder(const struct file *file)
{
    char path[sizeof file->path + 8];
    int fd;

    snprintf(path, sizeof path, "%s-other", file->path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    unlink(path);
}

/* As when the thread has to wait for a processor, once it has found that all is in its place. */
static void strike(struct file *file)
{
    struct stat before;
    struct stat after;
    bool looked = fstatat(AT_FDCWD, file->folder, &before, 0) == 0;

    file_unlink(file, "-wal");
    file_unlink(file, "-shm");
    looked = looked && fstatat(AT_FDCWD, file->folder, &after, 0) == 0;
    fault.one_date = looked && is_same_time(&before.st_ctim, &after.st_ctim) && file_settle(file);
}

static bool is_index(const char *path)
{
    size_t length = strlen(fault.file->path);

    return strncmp(path, fault.file->path, length) == 0 && strcmp(path + length, "-shm") == 0;
}

/* Takes the place of the system's. */
int stat(const char *restrict path, struct stat *restrict status)
{
    enum stage stage = atomic_load(&fault.stage);
    int code;

    if (atomic_load(&fault.denied) && strcmp(path, fault.file->path) == 0) {
        errno = EACCES;
        return -1;
    }
    if (stage == ARMED && strcmp(path, fault.file->folder) == 0) {
        wait_for_tick();
        change_folder(fault.file);
        atomic_store(&fault.stage, DATED);
    }
    code = fstatat(AT_FDCWD, path, status, 0);
    if (stage == DATED && is_index(path)) {
        atomic_store(&fault.stage, STRUCK);
        strike(fault.file);
    }
    return code;
}

/* The change makes sure that the store does not rely on what it has noted of the folder before. */
static void arm(struct file *file)
{
    change_folder(file);
    fault.file = file;
    atomic_store(&fault.stage, ARMED);
}

static void lose_the_log_unseen(struct file *file, int round)
{
    struct host host;
    char mutex[16];
    char sql[96];

    snprintf(mutex, sizeof mutex, "m%d", round);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM simba_mutex WHERE mutex = '%s'", mutex);
    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    acquire(&host, "held", "a");
    arm(file);
    acquire(&host, "held", "a");
    assert_int_equal(atomic_load(&fault.stage), STRUCK);
    assert_string_equal(acquire(&host, mutex, "b").owner, "b");
    assert_true(host_close(&host));
    assert_int_equal(file_number(file, sql), 1);
}

/* Where dates are finer than ticks the folder always tells: then each round shows that it is
 * asked. */
static void a_log_that_goes_within_the_tick_of_another_change_is_missed(void **state)
{
    struct file *file = *state;

    fault.one_date = false;
    for (int round = 0; round < ROUNDS && !fault.one_date; round++)
        lose_the_log_unseen(file, round);
    if (!fault.one_date)
        print_message("two changes of %s never have one date\n", file->folder);
}

/* ---- Names that change in the folder --------------------------------------------------------- */

/* Puts a copy with all its records in the place of the database. */
static void exchange_for_copy(const struct file *file)
{
    char copy[sizeof file->path + 8];
    char sql[sizeof copy + 32];

    snprintf(copy, sizeof copy, "%s-copy", file->path);
    snprintf(sql, sizeof sql, "VACUUM INTO '%s'", copy);
    assert_true(file_sql(file, sql));
    file_unlink_store(file);
    assert_int_equal(rename(copy, file->path), 0);
}

/* A waiter at the copy would wait for the end of a lease that its owner has given back. */
static void a_release_on_an_exchanged_file_is_one_of_the_copy(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call held;
    struct call call;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = acquire(&host, "m", "a");
    exchange_for_copy(file);
    call = host_do(&host, SIMBA_OP_RELEASE, "m", "a", held.revision);
    assert_int_equal(call.code, SIMBA_OK);
    assert_string_equal(call.owner, "");
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex WHERE owner_id = 'a'"), 0);
    assert_true(host_close(&host));
}

/* The first answer looks at all files, the second relies on their folder. */
static void rely_on_folder(struct file *file, struct host *host)
{
    assert_true(file_settle(file));
    assert_string_equal(host_do(host, SIMBA_OP_READ, "m", NULL, 0).owner, "a");
    assert_string_equal(host_do(host, SIMBA_OP_READ, "m", NULL, 0).owner, "a");
}

/* The files keep their dates and their links; only their names are gone. */
static void files_that_are_moved_out_of_a_quiet_folder_are_missed(void **state)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    struct file *file = *state;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    acquire(&host, "m", "a");
    rely_on_folder(file, &host);
    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        char from[sizeof file->path + 8];
        char to[sizeof file->path + 16];

        snprintf(from, sizeof from, "%s%s", file->path, parts[i]);
        snprintf(to, sizeof to, "%s-old%s", file->path, parts[i]);
        assert_int_equal(rename(from, to), 0);
    }
    assert_string_equal(acquire(&host, "m", "b").owner, "b");
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex WHERE owner_id = 'b'"), 1);
    assert_true(host_close(&host));
}

static void another_folder_in_the_place_of_a_quiet_one_is_another_store(void **state)
{
    struct file *file = *state;
    char moved[TEST_PATH_MAX + 8];
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    acquire(&host, "m", "a");
    rely_on_folder(file, &host);
    snprintf(moved, sizeof moved, "%s-moved", file->folder);
    assert_int_equal(rename(file->folder, moved), 0);
    assert_int_equal(mkdir(file->folder, 0700), 0);
    assert_string_equal(acquire(&host, "m", "b").owner, "b");
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex WHERE owner_id = 'b'"), 1);
    assert_true(host_close(&host));
    file_remove(file);
    assert_int_equal(rename(moved, file->folder), 0); /* so that it is removed as well */
}

static void a_release_on_a_file_exchanged_in_a_quiet_folder_is_one_of_the_copy(void **state)
{
    struct file *file = *state;
    struct host host;
    struct call held;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    held = acquire(&host, "m", "a");
    rely_on_folder(file, &host);
    exchange_for_copy(file);
    assert_int_equal(host_do(&host, SIMBA_OP_RELEASE, "m", "a", held.revision).code, SIMBA_OK);
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex WHERE owner_id = 'a'"), 0);
    assert_true(host_close(&host));
}

/* ---- Names of which the system does not tell ------------------------------------------------- */

static void deny(struct file *file, bool denied)
{
    fault.file = file;
    atomic_store(&fault.denied, denied);
}

/* The answer to a request whose outcome cannot be made sure of. */
static struct call do_denied(struct host *host, struct file *file, enum simba_op op, const char *id,
                             uint64_t revision)
{
    struct call call;

    change_folder(file); /* so that a release looks at the name, too */
    deny(file, true);
    call = host_do(host, op, "m", id, revision);
    deny(file, false);
    return call;
}

/* What is committed, and may be seen by others, is not answered as if it had not been. */
static void a_change_that_cannot_be_made_sure_of_has_an_unknown_outcome(void **state)
{
    static const char owned_by_a[] = "SELECT count(*) FROM simba_mutex WHERE owner_id = 'a'";
    struct file *file = *state;
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).code, SIMBA_OK);
    call = do_denied(&host, file, SIMBA_OP_ACQUIRE, "a", 0);
    assert_int_equal(file_number(file, owned_by_a), 1);
    assert_int_equal(call.code, SIMBA_EUNKNOWN);
    call = acquire(&host, "m", "a");
    assert_string_equal(call.owner, "a");
    call = do_denied(&host, file, SIMBA_OP_GUARD, "a", call.revision);
    assert_int_equal(call.code, SIMBA_EUNKNOWN);
    call = acquire(&host, "m", "a");
    call = do_denied(&host, file, SIMBA_OP_RELEASE, "a", call.revision);
    assert_int_equal(file_number(file, owned_by_a), 0);
    assert_int_equal(call.code, SIMBA_EUNKNOWN);
    assert_true(host_close(&host));
}

static void changes_of_one_transaction_that_cannot_be_made_sure_of_are_all_unknown(void **state)
{
    struct file *file = *state;
    struct call calls[3];
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    acquire(&host, "held", "other");
    calls[0] = host_call(SIMBA_OP_ACQUIRE, "m", "a", 0);
    calls[1] = host_call(SIMBA_OP_ACQUIRE, "n", "a", 0);
    calls[2] = host_call(SIMBA_OP_ACQUIRE, "held", "a", 0);
    deny(file, true);
    host_submit(&host, calls, TEST_COUNT(calls));
    assert_true(host_wait(&host, calls, TEST_COUNT(calls)));
    deny(file, false);
    assert_int_equal(file_number(file, "SELECT count(*) FROM simba_mutex WHERE owner_id = 'a'"), 2);
    assert_int_equal(calls[0].code, SIMBA_EUNKNOWN);
    assert_int_equal(calls[1].code, SIMBA_EUNKNOWN);
    assert_int_equal(calls[2].code, SIMBA_EDENIED);
    assert_true(host_close(&host));
}

/* A client that has changed nothing knows that. */
static void a_look_that_cannot_be_made_sure_of_is_refused(void **state)
{
    struct file *file = *state;
    struct host host;

    assert_int_equal(host_open(&host, file->url), SIMBA_OK);
    acquire(&host, "m", "other");
    assert_int_equal(do_denied(&host, file, SIMBA_OP_READ, NULL, 0).code, SIMBA_EDENIED);
    assert_int_equal(do_denied(&host, file, SIMBA_OP_ACQUIRE, "a", 0).code, SIMBA_EDENIED);
    assert_true(host_close(&host));
}

/* ---- Names that change further up ------------------------------------------------------------ */

/* A path below the folder of the test. */
static void name_below(const struct file *file, const char *below, char path[TEST_PATH_MAX])
{
    assert_true(snprintf(path, TEST_PATH_MAX, "%s/%s", file->folder, below) < TEST_PATH_MAX);
}

static void create_folder(const struct file *file, const char *below)
{
    char path[TEST_PATH_MAX];

    name_below(file, below, path);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void rename_below(const struct file *file, const char *from, const char *to)
{
    char from_path[TEST_PATH_MAX];
    char to_path[TEST_PATH_MAX];

    name_below(file, from, from_path);
    name_below(file, to, to_path);
    assert_int_equal(rename(from_path, to_path), 0);
}

/* The database is in now/in, and then/in shall take the place of that. */
static void create_folders(const struct file *file, struct file *ret_inner,
                           char ret_other_path[TEST_PATH_MAX])
{
    create_folder(file, "now");
    create_folder(file, "now/in");
    create_folder(file, "then");
    create_folder(file, "then/in");
    name_below(file, "now/in", ret_inner->folder);
    name_below(file, "now/in/x.db", ret_inner->path);
    name_below(file, "then/in/x.db", ret_other_path);
    snprintf(ret_inner->url, sizeof ret_inner->url, "sqlite:%.*s", TEST_PATH_MAX, ret_inner->path);
}

/* Nothing in the folder of the database tells of it. */
static void exchange_folders(const struct file *file)
{
    rename_below(file, "now", "before");
    rename_below(file, "then", "now");
}

static bool is_over(void *user)
{
    return test_now_ms() > *(const int64_t *)user;
}

static void an_exchange_further_up_is_hidden_from_releases_for_a_second_at_most(void **state)
{
    struct file *file = *state;
    struct file inner;
    struct host host;
    struct call held;
    char sql[TEST_PATH_MAX + 32];
    char copy[TEST_PATH_MAX];
    int64_t hidden_until_ms;

    create_folders(file, &inner, copy);
    assert_int_equal(host_open(&host, inner.url), SIMBA_OK);
    held = acquire(&host, "m", "a");
    rely_on_folder(&inner, &host);
    hidden_until_ms = test_now_ms() + 1000;
    snprintf(sql, sizeof sql, "VACUUM INTO '%s'", copy);
    assert_true(file_sql(&inner, sql));
    exchange_folders(file);
    assert_true(test_wait(is_over, &hidden_until_ms));
    assert_int_equal(host_do(&host, SIMBA_OP_RELEASE, "m", "a", held.revision).code, SIMBA_OK);
    assert_int_equal(file_number(&inner, "SELECT count(*) FROM simba_mutex WHERE owner_id = 'a'"),
                     0);
    assert_true(host_close(&host));
}

/* The path leads to the same database afterwards, by another name of it, but not to its log. */
static void a_file_with_two_names_is_not_taken_for_that_of_the_other_name(void **state)
{
    struct file *file = *state;
    struct file inner;
    char other_name[TEST_PATH_MAX];
    struct host host;
    struct call held;
    struct call call;

    create_folders(file, &inner, other_name);
    assert_int_equal(host_open(&host, inner.url), SIMBA_OK);
    held = acquire(&host, "m", "a");
    rely_on_folder(&inner, &host);
    assert_int_equal(link(inner.path, other_name), 0);
    exchange_folders(file);
    call = host_do(&host, SIMBA_OP_GUARD, "m", "a", held.revision);
    assert_true(call.code != SIMBA_OK || call.owner[0] == '\0');
    assert_true(host_close(&host));
}

/* ---- What is noted of the folder ------------------------------------------------------------- */

/* The paths of a store, without one. */
struct paths {
    char log[TEST_PATH_MAX + 32];
    char index[TEST_PATH_MAX + 32];
    struct sb_sqlite_settings settings;
    struct sb_sqlite_connection connection;
};

static void create_plain(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static void create_files(struct file *file, struct paths *paths)
{
    struct sb_sqlite_connection *c = &paths->connection;
    struct sb_sql_failure failure;
    struct stat database;

    memset(paths, 0, sizeof *paths);
    snprintf(paths->log, sizeof paths->log, "%s-wal", file->path);
    snprintf(paths->index, sizeof paths->index, "%s-shm", file->path);
    create_plain(file->path);
    create_plain(paths->log);
    create_plain(paths->index);
    paths->settings.path = file->path;
    paths->settings.folder_path = file->folder;
    paths->settings.log_path = paths->log;
    paths->settings.index_path = paths->index;
    c->settings = &paths->settings;
    c->folder.fd = -1;
    assert_int_equal(stat(file->path, &database), 0);
    c->file.device = database.st_dev;
    c->file.inode = database.st_ino;
    assert_int_equal(sb_sqlite_identify_log(c, &failure), SIMBA_OK);
}

static bool relies_on_folder(struct sb_sqlite_connection *c)
{
    struct sb_sql_failure failure;
    bool moved = false;

    assert_int_equal(sb_sqlite_check(c, &moved, &failure), SIMBA_OK);
    return sb_sqlite_names_note(c) != 0;
}

/* The other name is in another folder: nothing in that of the database tells of it. */
static void a_second_name_is_noticed_while_the_folder_is_relied_upon(void **state)
{
    struct file *file = *state;
    char other_name[TEST_PATH_MAX];
    struct sb_sql_failure failure;
    struct paths paths;
    bool moved = true;

    create_folder(file, "then");
    name_below(file, "then/x.db", other_name);
    create_files(file, &paths);
    assert_true(file_settle(file));
    assert_false(relies_on_folder(&paths.connection)); /* which is the first look at it */
    assert_true(relies_on_folder(&paths.connection));
    assert_int_equal(link(file->path, other_name), 0);
    assert_int_equal(sb_sqlite_check(&paths.connection, &moved, &failure), SIMBA_EDENIED);
    assert_false(moved);
    assert_int_equal(unlink(other_name), 0);
    assert_true(relies_on_folder(&paths.connection));
    sb_sqlite_forget_folder(&paths.connection);
}

/* A file system in memory dates by the ticks, also where a disk has finer dates. */
#define IN_MEMORY "/dev/shm"

static int setup_in_memory(void **state)
{
    const char *parent = getenv("TMPDIR");
    char *before = parent != NULL ? strdup(parent) : NULL;

    if (access(IN_MEMORY, W_OK) == 0)
        setenv("TMPDIR", IN_MEMORY, 1);
    file_setup(state);
    if (before != NULL)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    free(before);
    return 0;
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, file_setup, file_teardown)
#define IN_MEMORY_FILE(test) cmocka_unit_test_setup_teardown(test, setup_in_memory, file_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_MEMORY_FILE(a_log_that_goes_within_the_tick_of_another_change_is_missed),
        ON_FILE(a_release_on_an_exchanged_file_is_one_of_the_copy),
        ON_FILE(files_that_are_moved_out_of_a_quiet_folder_are_missed),
        ON_FILE(another_folder_in_the_place_of_a_quiet_one_is_another_store),
        ON_FILE(a_release_on_a_file_exchanged_in_a_quiet_folder_is_one_of_the_copy),
        ON_FILE(a_change_that_cannot_be_made_sure_of_has_an_unknown_outcome),
        ON_FILE(changes_of_one_transaction_that_cannot_be_made_sure_of_are_all_unknown),
        ON_FILE(a_look_that_cannot_be_made_sure_of_is_refused),
        ON_FILE(an_exchange_further_up_is_hidden_from_releases_for_a_second_at_most),
        ON_FILE(a_file_with_two_names_is_not_taken_for_that_of_the_other_name),
        ON_FILE(a_second_name_is_noticed_while_the_folder_is_relied_upon),
    };

    return cmocka_run_group_tests_name("sqlite_identity", tests, NULL, NULL);
}
