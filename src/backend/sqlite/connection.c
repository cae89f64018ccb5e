/*
 * connection.c - the SQLite driver: one connection to the file. Owns how it is made, how it waits
 * and its transactions; must not know requests.
 */
#include "backend/sqlite/connection.h"

#include "backend/sqlite/trusted_folder.h"
#include "base/alloc.h"
#include "base/time.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/random.h"

#include <time.h>
#include <unistd.h>

/* ---- The process ----------------------------------------------------------------------------- */

/* SQLite keeps, for the whole process, a table of the files that it has open and of the locks on
 * them. A child that is forked meanwhile inherits the table but not the locks, and believes in
 * locks that nobody holds: it could damage the log of a database that its parent is using. It may
 * also inherit mutexes that no thread will ever unlock. So in such a child SQLite is not touched at
 * all. */
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static unsigned connections;
static bool unusable;

/* The connections belong to the parent. */
static void judge_child(void)
{
    if (connections > 0)
        unusable = true;
    connections = 0;
}

static struct sb_fork_guard lock_guard = {.lock = &process_lock, .in_child = judge_child};

/* Before the first call for a connection. SIMBA_EFORKED when an ancestor had one when it forked. */
static int enter_process(struct simba_error *error)
{
    bool refused;

    sb_fork_guard(&lock_guard);
    pthread_mutex_lock(&process_lock);
    refused = unusable;
    if (!refused)
        connections++;
    pthread_mutex_unlock(&process_lock);
    if (!refused)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EFORKED,
                        "this process was forked while its parent had an SQLite database open, so "
                        "SQLite cannot be used in it: fork before the first client is opened, or "
                        "let the child exec");
}

/* After the last call for a connection that was entered for. */
static void leave_process(void)
{
    pthread_mutex_lock(&process_lock);
    connections--;
    pthread_mutex_unlock(&process_lock);
}

#define RECONNECT_PAUSE_US 1000

static struct sb_sqlite_connection *own(struct sb_sql_connection *connection)
{
    return (struct sb_sqlite_connection *)connection;
}

/* ---- Waiting and time ------------------------------------------------------------------------ */

/* SQLite's own handler sleeps up to 100 ms; a lock of ours is held for microseconds. */
static int on_busy(void *argument, int count)
{
    struct sb_sqlite_connection *c = argument;
    int64_t most_us = SB_SQLITE_PAUSE_MIN_US << (count < 5 ? count : 5);

    if (simba_now_ms() >= c->deadline_ms)
        return 0;
    sb_sqlite_pause(c, most_us < SB_SQLITE_PAUSE_MAX_US ? most_us : SB_SQLITE_PAUSE_MAX_US);
    sb_sqlite_start_time(c);
    return 1;
}

static void set_deadline(struct sb_sql_connection *connection, int64_t deadline_ms)
{
    own(connection)->deadline_ms = deadline_ms;
}

/* ---- Running statements ---------------------------------------------------------------------- */

/* From here on a failure does not say that nothing was applied. */
static int on_committing(void *connection)
{
    struct sb_sqlite_connection *c = connection;

    c->committing = true;
    return 0;
}

static int run_plain(struct sb_sqlite_connection *c, const char *text, sqlite3_stmt **statement,
                     struct sb_sql_failure *failure)
{
    int code = SIMBA_OK;

    if (sb_sqlite_prepare_once(c, text, statement) != SQLITE_OK)
        return sb_sqlite_fail(c, false, failure);
    c->committing = false;
    sb_sqlite_start_time(c);
    if (sqlite3_step(*statement) != SQLITE_DONE)
        code = sb_sqlite_fail(c, c->committing, failure);
    sqlite3_reset(*statement);
    return code;
}

/* IMMEDIATE: waits for the write lock now. A transaction that reads first and writes later fails
 * when another process wrote in between. */
static int begin(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    return run_plain(own(connection), "BEGIN IMMEDIATE", &own(connection)->begin, failure);
}

static int commit(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    return run_plain(own(connection), "COMMIT", &own(connection)->commit, failure);
}

/* After some failures SQLite has rolled back already. */
static void rollback(struct sb_sql_connection *connection)
{
    struct sb_sqlite_connection *c = own(connection);
    struct sb_sql_failure ignored;

    if (!sqlite3_get_autocommit(c->db))
        run_plain(c, "ROLLBACK", &c->rollback, &ignored);
}

static int check(struct sb_sql_connection *connection, bool *ret_moved,
                 struct sb_sql_failure *failure)
{
    return sb_sqlite_check(own(connection), ret_moved, failure);
}

static int check_name(struct sb_sql_connection *connection, bool *ret_moved,
                      struct sb_sql_failure *failure)
{
    return sb_sqlite_check_name(own(connection), ret_moved, failure);
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* The log stays when the last connection closes: moving it into the file costs two syncs,
 * milliseconds that every short-lived process would pay. See sb_sqlite_log_tend. */
static int configure(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    const char *sync =
        c->settings->full_sync ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";

    sb_sqlite_log_tend(c);
    sqlite3_commit_hook(c->db, on_committing, c);
    if (sqlite3_busy_handler(c->db, on_busy, c) != SQLITE_OK ||
        sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) != SQLITE_OK ||
        sb_sqlite_set_functions(c) != SQLITE_OK ||
        sqlite3_exec(c->db, sync, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(c->db, "PRAGMA trusted_schema = OFF", NULL, NULL, NULL) != SQLITE_OK)
        return sb_sqlite_fail(c, false, failure);
    return SIMBA_OK;
}

/* A client with create=no adds nothing to a database that others use for something else. */
static int fail_foreign(const struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_ENOTFOUND,
                        "the database %s is not one of Simba's: it has no table simba_mutex",
                        c->settings->path);
}

/* Times of an earlier boot mean nothing, and only a client that may write can enter the new one. */
static int fail_outdated(const struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(
        &failure->error, SIMBA_EDENIED,
        "to read the status you need write access to the database %s, because it has to be "
        "brought up to date first: nobody has used it since the host came up",
        c->settings->path);
}

/* Mostly there is nothing to do, and nothing is locked to find that out. A file that must exist may
 * be empty: then the first client sets it up. */
static int set_up(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    int lock;
    int code;

    if (!c->settings->may_create && sb_sqlite_schema_is_foreign(c))
        return fail_foreign(c, failure);
    if (sb_sqlite_is_wal(c) && sb_sqlite_schema_is_current(c))
        return SIMBA_OK;
    if (sb_sqlite_is_read_only(c))
        return fail_outdated(c, failure);
    lock = sb_sqlite_lock_set_up(c);
    code = sb_sqlite_enable_wal(c, failure);
    if (code == SIMBA_OK)
        code = sb_sqlite_init_schema(c, failure);
    if (code == SIMBA_OK)
        sb_sqlite_log_move(c); /* so that the file has room for all of its pages */
    if (lock >= 0)
        close(lock);
    return code;
}

static void disconnect(struct sb_sql_connection *connection)
{
    struct sb_sqlite_connection *c = own(connection);

    if (c == NULL)
        return;
    for (size_t i = 0; i < SB_SQLITE_STATEMENTS; i++)
        sqlite3_finalize(c->statements[i]);
    sqlite3_finalize(c->begin);
    sqlite3_finalize(c->commit);
    sqlite3_finalize(c->rollback);
    sqlite3_close(c->db);
    leave_process();
    sb_sqlite_forget_folder(c);
    sb_sqlite_wake_writer_close(&c->wake);
    if (c->sender >= 0)
        close(c->sender);
    sb_sqlite_liveness_probe_close(&c->probe);
    sb_free(c);
}

/* Creates a connection that nothing has been opened for yet. */
static int create(struct sb_sqlite_settings *settings, int64_t deadline_ms,
                  struct sb_sqlite_connection **ret_connection, struct sb_sql_failure *failure)
{
    const struct sb_sqlite_liveness_file lives = sb_sqlite_settings_liveness(settings);
    struct sb_sqlite_connection *c;
    int code = enter_process(&failure->error);

    failure->remedy = SB_SQL_GIVE_UP;
    if (code != SIMBA_OK)
        return code;
    c = sb_alloc_zero(sizeof *c);
    if (c == NULL) {
        leave_process();
        return sb_error_plain(&failure->error, SIMBA_ENOMEM);
    }
    c->base.driver = &sb_sqlite_driver;
    c->base.mutex_max = SIMBA_MUTEX_MAX;
    c->base.owner_id_max = SIMBA_ID_MAX;
    c->base.version_max = INT64_MAX;
    c->settings = settings;
    c->deadline_ms = deadline_ms;
    c->random = sb_random_seed();
    c->clock_offset_ms = sb_clock_offset_ms();
    c->folder.fd = -1;
    c->sender = -1;
    c->base.has_queue = true;
    sb_sqlite_wake_writer_init(&c->wake, settings->host, settings->wake_path, settings->path);
    sb_sqlite_liveness_probe_init(&c->probe, &lives);
    *ret_connection = c;
    return SIMBA_OK;
}

static int try_connect(struct sb_sqlite_settings *settings, int64_t deadline_ms,
                       struct sb_sqlite_connection **ret_connection, struct sb_sql_failure *failure)
{
    struct sb_sqlite_connection *c = NULL;
    int code = create(settings, deadline_ms, &c, failure);

    if (code != SIMBA_OK)
        return code;
    code = sb_sqlite_open(c, failure);
    if (code == SIMBA_OK)
        code = configure(c, failure);
    if (code == SIMBA_OK)
        code = set_up(c, failure);
    if (code == SIMBA_OK)
        code = sb_sqlite_identify_log(c, failure);
    if (code == SIMBA_OK) /* once more: of what was opened */
        code = sb_sqlite_check_names(settings, failure);
    if (code == SIMBA_OK)
        code = sb_sqlite_check_folder(settings, failure);
    if (code != SIMBA_OK) {
        disconnect(&c->base);
        return code;
    }
    *ret_connection = c;
    return SIMBA_OK;
}

/* SQLite refuses some locks without asking the busy handler, and a file can be replaced while it is
 * being opened. */
static int connect_to_file(void *settings, int64_t timeout_ms,
                           struct sb_sql_connection **ret_connection,
                           struct sb_sql_failure *failure)
{
    const struct timespec pause = {0, RECONNECT_PAUSE_US * 1000};
    int64_t deadline_ms = simba_now_ms() + timeout_ms;
    struct sb_sqlite_connection *c = NULL;
    int code = try_connect(settings, deadline_ms, &c, failure);

    while (code != SIMBA_OK && failure->remedy == SB_SQL_RETRY && simba_now_ms() < deadline_ms) {
        nanosleep(&pause, NULL);
        code = try_connect(settings, deadline_ms, &c, failure);
    }
    if (code == SIMBA_OK)
        *ret_connection = &c->base;
    return code;
}

static int init_schema(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    return sb_sqlite_init_schema(own(connection), failure);
}

/* Tells one waiter. A contender of the same client hears it without the kernel. */
static bool tell(struct sb_sqlite_connection *c, enum simba_notice notice, const char *mutex,
                 const struct sb_sql_waiter *to)
{
    const struct sb_sqlite_settings *settings = c->settings;
    const struct sb_sqlite_address address = sb_sqlite_address_read(to->client);

    if (address.name == 0)
        return false;
    if (settings->wake_socket != NULL && address.name == settings->wake_socket->address.name) {
        if (notice == SIMBA_NOTICE_RELEASED)
            atomic_store(&settings->wake_socket->called, true);
        settings->host->notice(settings->host, notice, mutex, to->id);
        return true;
    }
    if (c->sender < 0)
        c->sender = sb_sqlite_wake_socket_create_sender();
    return c->sender >= 0 && sb_sqlite_wake_socket_send(c->sender, &address, notice, mutex, to->id);
}

static void announce(struct sb_sql_connection *connection, enum simba_notice notice,
                     const char *mutex, const struct sb_sql_waiter *to)
{
    struct sb_sqlite_connection *c = own(connection);

    if (to == NULL)
        sb_sqlite_wake_write(&c->wake, notice, mutex, sb_sqlite_names_note(c));
    else if (!tell(c, notice, mutex, to))
        sb_sqlite_wake_write(&c->wake, SIMBA_NOTICE_RELEASED, mutex, sb_sqlite_names_note(c));
}

static bool is_called(struct sb_sql_connection *connection)
{
    struct sb_sqlite_wake_socket *wake_socket = own(connection)->settings->wake_socket;

    return wake_socket != NULL && atomic_exchange(&wake_socket->called, false);
}

static void contended(struct sb_sql_connection *connection)
{
    const struct sb_sqlite_settings *settings = own(connection)->settings;

    settings->contended(settings->user);
}

const struct sb_sql_driver sb_sqlite_driver = {
    .returns_rows = true,
    .reads_first = true,
    .connect = connect_to_file,
    .disconnect = disconnect,
    .set_deadline = set_deadline,
    .check = check,
    .check_name = check_name,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .run = sb_sqlite_run,
    .property = sb_sqlite_property,
    .tend = sb_sqlite_tend,
    .inspect = sb_sqlite_inspect,
    .init_schema = init_schema,
    .announce = announce,
    .contended = contended,
    .is_called = is_called,
};
