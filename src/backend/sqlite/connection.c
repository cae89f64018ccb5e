/*
 * connection.c - the SQLite driver: one connection to the file. Owns the statements of the dialect;
 * must not know requests.
 */
#include "backend/sqlite/connection.h"

#include "backend/sqlite/failure.h"
#include "backend/sqlite/file.h"
#include "backend/sqlite/functions.h"
#include "backend/sqlite/process.h"
#include "backend/sqlite/schema.h"
#include "backend/sqlite/settings.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

#include <string.h>
#include <time.h>

#define RECONNECT_PAUSE_US 1000
#define YOUNG_COMMITS 8     /* a process that lives for one lease makes two */
#define LOG_FRAMES_MAX 1000 /* pages in the log */
#define LOG_FRAMES 200 /* of young connections; to read them takes a fraction of a millisecond */
#define LOG_TRIES 4

/* Parameters have the same number in every statement. */
enum parameter {
    PARAMETER_MUTEX = 1,
    PARAMETER_ID,
    PARAMETER_TTL,
    PARAMETER_LEASE,
    PARAMETER_VERSION,
    PARAMETER_LIFE
};

/* Behind the columns that all dialects have. */
#define COLUMN_LIFE (SB_SQL_COLUMN_FENCE + 1)

/* A life counts for the version that it was written for. Whose life is over owns nothing any more, whatever its
 * lease says. */
#define LIFE "iif(life_version = version, life, 0)"
#define IS_OVER "simba_is_over(" LIFE ")"
#define CHANGED_COLUMNS SB_SQL_COLUMNS ", simba_now(), fence, life"
#define COLUMNS                                                                                    \
    "mutex, owner_id, acquired_at, ttl_at, iif(" IS_OVER ", 0, transition_at), version,"           \
    " simba_now(), fence, " LIFE
#define FLOOR "coalesce((SELECT value FROM simba_meta WHERE name = 'version_floor'), 0)"
#define FREE_ROW "simba_mutex (" SB_SQL_COLUMNS ") VALUES (?1, '', 0, 0, 0, " FLOOR ")"
#define NEXT_TERM "max(version, " FLOOR ") + 1"
#define SET_LEASE                                                                                  \
    "UPDATE simba_mutex SET owner_id = ?2, acquired_at = simba_now(),"                             \
    " ttl_at = simba_now() + ?3, transition_at = simba_now() + ?4, life = ?6"
#define CLEAR_LEASE                                                                                \
    "UPDATE simba_mutex SET owner_id = '', acquired_at = 0, ttl_at = 0, transition_at = 0,"        \
    " version = simba_note(version + 1), life = 0, life_version = 0"

static const char *const statement_texts[SB_SQL_STATEMENTS] = {
    [SB_SQL_INSERT] = "INSERT INTO " FREE_ROW,
    [SB_SQL_INSERT_IF_MISSING] = "INSERT OR IGNORE INTO " FREE_ROW,
    [SB_SQL_SELECT] = "SELECT " COLUMNS " FROM simba_mutex WHERE mutex = ?1",
    [SB_SQL_SELECT_ALL] = "SELECT " COLUMNS " FROM simba_mutex ORDER BY mutex",
    [SB_SQL_ACQUIRE] = SET_LEASE ", version = simba_note(" NEXT_TERM "), fence = " NEXT_TERM
                                 ", life_version = " NEXT_TERM " WHERE mutex = ?1 AND"
                                 " (transition_at < simba_now() OR owner_id = ?2 OR " IS_OVER ")",
    [SB_SQL_GUARD] = SET_LEASE ", version = version + 1, life_version = version + 1"
                               " WHERE mutex = ?1 AND owner_id = ?2 AND transition_at > simba_now()"
                               " RETURNING " CHANGED_COLUMNS,
    [SB_SQL_RELEASE] = CLEAR_LEASE " WHERE mutex = ?1 AND owner_id = ?2",
    [SB_SQL_RELEASE_EXACT] = CLEAR_LEASE " WHERE mutex = ?1 AND owner_id = ?2 AND version = ?5",
};

static struct sb_sqlite_connection *own(struct sb_sql_connection *connection)
{
    return (struct sb_sqlite_connection *)connection;
}

/* ---- Waiting and time ----------------------------------------------------------------------- */

/* SQLite's own handler sleeps up to 100 ms; a lock of ours is held for microseconds. */
static int on_busy(void *argument, int count)
{
    struct sb_sqlite_connection *c = argument;
    int64_t most_us = SB_SQLITE_PAUSE_MIN_US << (count < 5 ? count : 5);

    if (simba_now_ms() >= c->deadline_ms)
        return 0;
    sb_sqlite_pause(c, most_us < SB_SQLITE_PAUSE_MAX_US ? most_us : SB_SQLITE_PAUSE_MAX_US);
    return 1;
}

static void set_deadline(struct sb_sql_connection *connection, int64_t deadline_ms)
{
    own(connection)->deadline_ms = deadline_ms;
}

/* ---- The log -------------------------------------------------------------------------------- */

/* As far as nobody is in the way; nobody is waited for. */
static void truncate_log(struct sb_sqlite_connection *c, const char *name)
{
    sqlite3_busy_handler(c->db, NULL, NULL);
    sqlite3_wal_checkpoint_v2(c->db, name, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    sqlite3_busy_handler(c->db, on_busy, c);
}

/* The log moves into the file when it has grown. Whoever opens the file alone has to read all of the log, so that
 * processes which are here for a moment keep it short for each other: now and then one of them pays the two syncs. */
static int on_commit(void *connection, sqlite3 *db, const char *name, int frames)
{
    struct sb_sqlite_connection *c = connection;

    if (c->commits < YOUNG_COMMITS)
        c->commits++;
    if (frames >= LOG_FRAMES_MAX)
        sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    else if (c->commits < YOUNG_COMMITS && frames >= LOG_FRAMES && frames % LOG_FRAMES < LOG_TRIES)
        truncate_log(c, name);
    return SQLITE_OK;
}

/* ---- Running statements --------------------------------------------------------------------- */

static int bind_text(sqlite3_stmt *statement, enum parameter parameter, const char *text)
{
    return sqlite3_bind_text(statement, parameter, text, -1, SQLITE_STATIC);
}

/* Binds all that the statement counts; a number that it skips may be bound all the same. */
static int bind(const struct sb_sqlite_connection *c, sqlite3_stmt *statement,
                const struct sb_sql_values *values)
{
    struct sb_life *own_life = c->settings->life;
    int count = sqlite3_bind_parameter_count(statement);
    int64_t life = count >= PARAMETER_LIFE && own_life != NULL ? sb_life_begin(own_life) : 0;
    int rc = SQLITE_OK;

    if (count >= PARAMETER_MUTEX)
        rc = bind_text(statement, PARAMETER_MUTEX, values->mutex);
    if (rc == SQLITE_OK && count >= PARAMETER_ID)
        rc = bind_text(statement, PARAMETER_ID, values->id);
    if (rc == SQLITE_OK && count >= PARAMETER_TTL)
        rc = sqlite3_bind_int64(statement, PARAMETER_TTL, values->ttl_ms);
    if (rc == SQLITE_OK && count >= PARAMETER_LEASE)
        rc = sqlite3_bind_int64(statement, PARAMETER_LEASE, values->lease_ms);
    if (rc == SQLITE_OK && count >= PARAMETER_VERSION)
        rc = sqlite3_bind_int64(statement, PARAMETER_VERSION, (sqlite3_int64)values->version);
    if (rc == SQLITE_OK && count >= PARAMETER_LIFE)
        rc = sqlite3_bind_int64(statement, PARAMETER_LIFE, life);
    return rc;
}

static void read_text(sqlite3_stmt *statement, enum sb_sql_column column, char *target, size_t size)
{
    const unsigned char *text = sqlite3_column_text(statement, (int)column);

    sb_text_copy(target, size, text != NULL ? (const char *)text : "");
}

/* Another program may have written an owner that we can only show in part, or that is no text: to SQL it
 * differs from every id that looks like it. No valid id has "@@", so no contender takes it for its own. */
static void read_owner(sqlite3_stmt *statement, char owner_id[SIMBA_ID_MAX + 1])
{
    bool is_text = sqlite3_column_type(statement, SB_SQL_COLUMN_OWNER_ID) == SQLITE_TEXT;
    size_t end;

    read_text(statement, SB_SQL_COLUMN_OWNER_ID, owner_id, SIMBA_ID_MAX + 1);
    end = strlen(owner_id);
    if (is_text && end == (size_t)sqlite3_column_bytes(statement, SB_SQL_COLUMN_OWNER_ID))
        return;
    if (end > SIMBA_ID_MAX - 2)
        end = SIMBA_ID_MAX - 2;
    memcpy(owner_id + end, "@@", 3);
}

static void read_record(sqlite3_stmt *statement, struct sb_sql_record *record)
{
    read_text(statement, SB_SQL_COLUMN_MUTEX, record->mutex, sizeof record->mutex);
    read_owner(statement, record->owner_id);
    record->acquired_at_ms = sqlite3_column_int64(statement, SB_SQL_COLUMN_ACQUIRED_AT);
    record->ttl_at_ms = sqlite3_column_int64(statement, SB_SQL_COLUMN_TTL_AT);
    record->transition_at_ms = sqlite3_column_int64(statement, SB_SQL_COLUMN_TRANSITION_AT);
    record->version = (uint64_t)sqlite3_column_int64(statement, SB_SQL_COLUMN_VERSION);
    record->current_db_at_ms = sqlite3_column_int64(statement, SB_SQL_COLUMN_CURRENT_DB_AT);
    record->fence = (uint64_t)sqlite3_column_int64(statement, SB_SQL_COLUMN_FENCE);
}

/* An owner that somebody else may be waiting for. One that is known to be dead is no news: whoever was told of it
 * would ask again, without end. */
static void note_owner(const struct sb_sqlite_connection *c, sqlite3_stmt *statement)
{
    int64_t life = sqlite3_column_int64(statement, COLUMN_LIFE);
    bool over = sqlite3_column_int64(statement, SB_SQL_COLUMN_TRANSITION_AT) == 0;

    if (life != 0 && !over && c->settings->met != NULL)
        c->settings->met(c->settings->user, life);
}

/* Returns what the sink answers. */
static int hand_on(struct sb_sqlite_connection *c, const struct sb_sql_record *record,
                   const struct sb_sql_sink *sink)
{
    if (record->version > c->settings->highest_version)
        c->settings->highest_version = record->version;
    return sink->row(sink->user, record);
}

static int take_row(struct sb_sqlite_connection *c, sqlite3_stmt *statement,
                    const struct sb_sql_sink *sink)
{
    struct sb_sql_record record;

    if (sink == NULL)
        return SIMBA_OK;
    read_record(statement, &record);
    return hand_on(c, &record, sink);
}

static bool notes_version(enum sb_sql_statement which)
{
    return which == SB_SQL_ACQUIRE || which == SB_SQL_RELEASE || which == SB_SQL_RELEASE_EXACT;
}

/* What such a statement has made of its row, from what it was given. To let it yield the row (RETURNING) would cost
 * a quarter of it. */
static int take_change(struct sb_sqlite_connection *c, enum sb_sql_statement which,
                       const struct sb_sql_values *values, const struct sb_sql_sink *sink)
{
    struct sb_sql_record record = {.version = (uint64_t)c->noted_version};

    if (sink == NULL)
        return SIMBA_OK;
    sb_text_copy(record.mutex, sizeof record.mutex, values->mutex);
    record.current_db_at_ms = c->clock_ms != 0 ? c->clock_ms : simba_now_ms();
    if (which == SB_SQL_ACQUIRE) {
        sb_text_copy(record.owner_id, sizeof record.owner_id, values->id);
        record.acquired_at_ms = c->clock_ms;
        record.ttl_at_ms = c->clock_ms + values->ttl_ms;
        record.transition_at_ms = c->clock_ms + values->lease_ms;
        record.fence = record.version;
    }
    return hand_on(c, &record, sink);
}

/* What the receiver of the rows would not go on with. */
static int fail_sink(int code, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_plain(&failure->error, code);
}

/* When it is first needed: a process that is here for one lease needs few of them. */
static int prepare_once(struct sb_sqlite_connection *c, const char *text, sqlite3_stmt **statement)
{
    if (*statement != NULL)
        return SQLITE_OK;
    return sqlite3_prepare_v3(c->db, text, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
}

static int run(struct sb_sql_connection *connection, enum sb_sql_statement which,
               const struct sb_sql_values *values, const struct sb_sql_sink *sink,
               int64_t *ret_count, struct sb_sql_failure *failure)
{
    struct sb_sqlite_connection *c = own(connection);
    sqlite3_stmt *statement;
    bool alone = sqlite3_get_autocommit(c->db) != 0;
    int64_t rows = 0;
    int code = SIMBA_OK;
    int rc = prepare_once(c, statement_texts[which], &c->statements[which]);

    if (rc != SQLITE_OK)
        return sb_sqlite_fail(c, false, failure);
    statement = c->statements[which];
    rc = bind(c, statement, values);
    c->clock_ms = 0;
    while (rc == SQLITE_OK && code == SIMBA_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        rows++;
        if (which == SB_SQL_SELECT)
            note_owner(c, statement);
        code = take_row(c, statement, sink);
        rc = SQLITE_OK;
    }
    if (rc == SQLITE_DONE && notes_version(which) && sqlite3_changes(c->db) > 0)
        code = take_change(c, which, values, sink);
    if (rc != SQLITE_OK && rc != SQLITE_DONE)
        code = sb_sqlite_fail(c, alone && sqlite3_stmt_readonly(statement) == 0, failure);
    else if (code != SIMBA_OK)
        code = fail_sink(code, failure);
    else if (ret_count != NULL)
        *ret_count = sqlite3_column_count(statement) > 0 ? rows : sqlite3_changes(c->db);
    sqlite3_reset(statement);
    return code;
}

static int run_plain(struct sb_sqlite_connection *c, const char *text, sqlite3_stmt **statement,
                     bool applies, struct sb_sql_failure *failure)
{
    int code = SIMBA_OK;

    if (prepare_once(c, text, statement) != SQLITE_OK)
        return sb_sqlite_fail(c, false, failure);
    if (sqlite3_step(*statement) != SQLITE_DONE)
        code = sb_sqlite_fail(c, applies, failure);
    sqlite3_reset(*statement);
    return code;
}

/* IMMEDIATE: waits for the write lock now. A transaction that reads first and writes later fails when
 * somebody else wrote in between. */
static int begin(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    return run_plain(own(connection), "BEGIN IMMEDIATE", &own(connection)->begin, false, failure);
}

static int commit(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    return run_plain(own(connection), "COMMIT", &own(connection)->commit, true, failure);
}

/* After some failures SQLite has rolled back already. */
static void rollback(struct sb_sql_connection *connection)
{
    struct sb_sqlite_connection *c = own(connection);
    struct sb_sql_failure ignored;

    if (!sqlite3_get_autocommit(c->db))
        run_plain(c, "ROLLBACK", &c->rollback, false, &ignored);
}

static int check(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    return sb_sqlite_check(own(connection), failure);
}

/* ---- Connecting ----------------------------------------------------------------------------- */

/* The log stays when the last connection closes: moving it into the file costs two syncs, milliseconds
 * that every short-lived process would pay. See on_commit. */
static int configure(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    const char *sync =
        c->settings->full_sync ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";

    sqlite3_wal_hook(c->db, on_commit, c);
    if (sqlite3_busy_handler(c->db, on_busy, c) != SQLITE_OK ||
        sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) != SQLITE_OK ||
        sb_sqlite_add_functions(c) != SQLITE_OK ||
        sqlite3_exec(c->db, sync, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(c->db, "PRAGMA trusted_schema = OFF", NULL, NULL, NULL) != SQLITE_OK)
        return sb_sqlite_fail(c, false, failure);
    return SIMBA_OK;
}

/* Who only looks adds nothing to a database that others use for something else. */
static int fail_foreign(const struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_ENOTFOUND,
                        "the database %s belongs to others: it has no table simba_mutex",
                        c->settings->path);
}

/* Times of an earlier boot mean nothing, and only who may write can enter the new one. */
static int fail_outdated(const struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_EDENIED,
                        "looking needs write access to the database %s, because it has to be "
                        "brought up to date first: nobody has used it since the host came up",
                        c->settings->path);
}

/* Mostly there is nothing to do, and nothing is locked to find that out. A file that must exist may be empty:
 * then somebody is about to use it, and whoever comes first sets it up. */
static int set_up(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    int lock;
    int code;

    if (c->settings->must_exist && sb_sqlite_schema_is_foreign(c))
        return fail_foreign(c, failure);
    if (sb_sqlite_is_wal(c) && sb_sqlite_schema_is_current(c))
        return SIMBA_OK;
    if (sb_sqlite_is_read_only(c))
        return fail_outdated(c, failure);
    lock = sb_sqlite_lock_set_up(c);
    code = sb_sqlite_enable_wal(c, failure);
    if (code == SIMBA_OK)
        code = sb_sqlite_init_schema(c, failure);
    sb_sqlite_unlock_set_up(lock);
    return code;
}

static void disconnect(struct sb_sql_connection *connection)
{
    struct sb_sqlite_connection *c = own(connection);

    if (c == NULL)
        return;
    for (size_t i = 0; i < SB_SQL_STATEMENTS; i++)
        sqlite3_finalize(c->statements[i]);
    sqlite3_finalize(c->begin);
    sqlite3_finalize(c->commit);
    sqlite3_finalize(c->rollback);
    sqlite3_close(c->db);
    sb_sqlite_leave();
    sb_wake_writer_close(&c->wake);
    sb_life_probe_close(&c->probe);
    sb_free(c);
}

/* Creates a connection that nothing has been opened for yet. */
static int create(struct sb_sqlite_settings *settings, int64_t deadline_ms,
                  struct sb_sqlite_connection **ret_connection, struct sb_sql_failure *failure)
{
    const struct sb_life_file lives = sb_sqlite_lives(settings);
    struct sb_sqlite_connection *c;
    int code = sb_sqlite_enter(&failure->error);

    failure->remedy = SB_SQL_GIVE_UP;
    if (code != SIMBA_OK)
        return code;
    c = sb_alloc_zero(sizeof *c);
    if (c == NULL) {
        sb_sqlite_leave();
        return sb_error_plain(&failure->error, SIMBA_ENOMEM);
    }
    c->base.driver = &sb_sqlite_driver;
    c->base.owner_id_max = SIMBA_ID_MAX;
    c->base.version_max = INT64_MAX;
    c->settings = settings;
    c->deadline_ms = deadline_ms;
    c->random = sb_random_seed();
    sb_wake_writer_init(&c->wake, settings->host, settings->wake_path, settings->path);
    sb_life_probe_init(&c->probe, &lives);
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
    if (code != SIMBA_OK) {
        disconnect(&c->base);
        return code;
    }
    *ret_connection = c;
    return SIMBA_OK;
}

/* SQLite refuses some locks without asking the busy handler, and a file can be replaced while it is being
 * opened. */
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

static void announce(struct sb_sql_connection *connection, enum simba_notice notice,
                     const char *mutex)
{
    sb_wake_write(&own(connection)->wake, notice, mutex);
}

static void contended(struct sb_sql_connection *connection)
{
    const struct sb_sqlite_settings *settings = own(connection)->settings;

    settings->contended(settings->user);
}

const struct sb_sql_driver sb_sqlite_driver = {
    .returns_rows = true,
    .looks_first = true,
    .connect = connect_to_file,
    .disconnect = disconnect,
    .set_deadline = set_deadline,
    .check = check,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .run = run,
    .init_schema = init_schema,
    .announce = announce,
    .contended = contended,
};
