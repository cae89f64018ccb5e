/*
 * schema.c - the tables of the file. Owns what must hold over boots, drops and deletions:
 *
 *  - Times are on the boot clock, so they mean nothing after a boot. But another boot id alone is
 *    no proof of a boot: containers have ids of their own on one kernel and one clock, and their
 *    leases are alive. So a boot that the file does not know voids only what the clock refutes:
 *    leases that began in the future. Any other lease of an earlier boot ends by the clock, at most
 *    its own length from now.
 *  - Versions are fencing tokens and must never go back. A power cut may lose the last commits
 *    (synchronous=normal), so every boot that the file does not know raises a floor further than
 *    commits could be lost, and each term begins above the floor. It is kept at or above every row
 *    that was deleted, too. The rows themselves stay as they are: an owner that is alive still
 *    knows its own.
 *  - The column `fence` is ours alone: the version with which the owner's term began, to be shown
 *    to others. So are `life`, see liveness.h, and `life_version`, the version of the record that
 *    it was written for, `queued`: 0 where nobody waits; the reservation,
 *    `reserved_for`, `reserved_until` and `reserved_since`; `served`: waiters since then or before
 *    have had their turn; and `since`: when the owner's term began, of the term whose token is
 *    `since_fence`.
 *
 * The table simba_waiter is the queue of waiting contenders (queue.c). Clients that know nothing of
 * it may use the file at the same time, so it is no new version of the schema.
 *
 * The table simba_meta holds by name: `schema_version`, `version_floor`, `log` (file.c), and
 * `boot:ID` for each boot that the file knows, numbered as they came. The version of the schema is
 * not the file's user_version: that one belongs to the application, which may keep tables of its
 * own in the same file.
 */
#include "backend/sqlite/connection.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define SCHEMA_VERSION 2
#define LEAP "1048576" /* versions, 2^20: more than one host commits before it syncs */
#define BOOTS_KEPT                                                                                 \
    "64" /* more containers than use one file at a time; to forget one costs a leap */

/* WITHOUT ROWID: the row is in the index, so that every statement descends one tree. */
static const char create_tables[] =
    "CREATE TABLE IF NOT EXISTS simba_mutex ("
    " mutex VARCHAR(66) NOT NULL PRIMARY KEY,"
    " acquired_at INTEGER NOT NULL,"
    " ttl_at INTEGER NOT NULL,"
    " transition_at INTEGER NOT NULL,"
    " owner_id VARCHAR(128) NOT NULL,"
    " version INTEGER NOT NULL,"
    " fence INTEGER NOT NULL DEFAULT 0,"
    " life INTEGER NOT NULL DEFAULT 0,"
    " life_version INTEGER NOT NULL DEFAULT 0,"
    " queued INTEGER NOT NULL DEFAULT 0,"
    " reserved_for VARCHAR(128) NOT NULL DEFAULT '',"
    " reserved_until INTEGER NOT NULL DEFAULT 0,"
    " reserved_since INTEGER NOT NULL DEFAULT 0,"
    " served INTEGER NOT NULL DEFAULT 0,"
    " since INTEGER NOT NULL DEFAULT 0,"
    " since_fence INTEGER NOT NULL DEFAULT 0"
    ") WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS simba_waiter ("
    " mutex VARCHAR(66) NOT NULL,"
    " id VARCHAR(128) NOT NULL,"
    " since INTEGER NOT NULL,"
    " client VARCHAR(64) NOT NULL,"
    " note TEXT NOT NULL DEFAULT '',"
    " PRIMARY KEY (mutex, since, id)"
    ") WITHOUT ROWID;"
    "CREATE UNIQUE INDEX IF NOT EXISTS simba_waiter_id ON simba_waiter (mutex, id);"
    "CREATE TABLE IF NOT EXISTS simba_meta ("
    " name TEXT NOT NULL PRIMARY KEY,"
    " value NOT NULL"
    ") WITHOUT ROWID;"
    "CREATE TRIGGER IF NOT EXISTS simba_mutex_deleted AFTER DELETE ON simba_mutex BEGIN"
    " UPDATE simba_meta SET value = max(value, OLD.version) WHERE name = 'version_floor';"
    " END;"
    "INSERT OR IGNORE INTO simba_meta"
    " SELECT 'version_floor', coalesce(max(version), 0) FROM simba_mutex;";

static const char is_foreign[] =
    "SELECT count(*) > 0 AND coalesce(sum(name IN ('simba_mutex', 'simba_meta')), 0) = 0"
    " FROM sqlite_master";

static const char has_table[] =
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";

static const char schema_version[] = "SELECT value FROM simba_meta WHERE name = 'schema_version'";

/* The same of a schema that lacks nothing and knows the boot ?1: none otherwise. One statement,
 * because every client that opens the file asks it, and to prepare several takes longer than to
 * acquire a mutex. */
static const char whole_version[] =
    "SELECT value FROM simba_meta WHERE name = 'schema_version'"
    " AND 5 = (SELECT count(*) FROM sqlite_master WHERE name IN ('simba_mutex', 'simba_meta',"
    " 'simba_mutex_deleted', 'simba_waiter', 'simba_waiter_id')"
    " AND (name <> 'simba_mutex' OR instr(sql, 'since_fence') > 0))"
    " AND EXISTS (SELECT 1 FROM simba_meta WHERE name = 'boot:' || ?1)";

static const char set_schema_version[] =
    "INSERT OR REPLACE INTO simba_meta VALUES ('schema_version', ?1)";

static const char has_column[] =
    "SELECT count(*) FROM pragma_table_info('simba_mutex') WHERE name = ?1";

/* The first is missing in some files without a version, the next two in those of version 1, the
 * next five in files of before there was a queue, the last two in those of before `since`. */
static const struct addition {
    const char *name;
    const char *sql;
} additions[] = {
    {"fence", "ALTER TABLE simba_mutex ADD COLUMN fence INTEGER NOT NULL DEFAULT 0"},
    {"life", "ALTER TABLE simba_mutex ADD COLUMN life INTEGER NOT NULL DEFAULT 0"},
    {"life_version", "ALTER TABLE simba_mutex ADD COLUMN life_version INTEGER NOT NULL DEFAULT 0"},
    {"queued", "ALTER TABLE simba_mutex ADD COLUMN queued INTEGER NOT NULL DEFAULT 0"},
    {"reserved_for",
     "ALTER TABLE simba_mutex ADD COLUMN reserved_for VARCHAR(128) NOT NULL DEFAULT ''"},
    {"reserved_until",
     "ALTER TABLE simba_mutex ADD COLUMN reserved_until INTEGER NOT NULL DEFAULT 0"},
    {"reserved_since",
     "ALTER TABLE simba_mutex ADD COLUMN reserved_since INTEGER NOT NULL DEFAULT 0"},
    {"served", "ALTER TABLE simba_mutex ADD COLUMN served INTEGER NOT NULL DEFAULT 0"},
    {"since", "ALTER TABLE simba_mutex ADD COLUMN since INTEGER NOT NULL DEFAULT 0"},
    {"since_fence", "ALTER TABLE simba_mutex ADD COLUMN since_fence INTEGER NOT NULL DEFAULT 0"},
};

/* Before there was a version the file knew one boot only. */
static const char rename_boot[] =
    "UPDATE OR REPLACE simba_meta SET name = 'boot:' || value, value = 1"
    " WHERE name = 'boot_id'";

static const char knows_boot[] = "SELECT count(*) FROM simba_meta WHERE name = 'boot:' || ?1";

static const char add_boot[] =
    "INSERT INTO simba_meta SELECT 'boot:' || ?1, coalesce(max(value), 0) + 1"
    " FROM simba_meta WHERE name GLOB 'boot:*'";

static const char forget_boots[] =
    "DELETE FROM simba_meta WHERE name GLOB 'boot:*' AND value <= (SELECT max(value) - " BOOTS_KEPT
    " FROM simba_meta WHERE name GLOB 'boot:*')";

static const char raise_floor[] =
    "UPDATE simba_meta SET value = " LEAP
    " + max(value, ?1, (SELECT coalesce(max(version), 0) FROM simba_mutex))"
    " WHERE name = 'version_floor'";

static const char void_refuted[] =
    "UPDATE simba_mutex SET acquired_at = 0, ttl_at = 0, transition_at = 0,"
    " owner_id = '' WHERE acquired_at > simba_now();"
    "UPDATE simba_mutex SET queued = 0, reserved_for = '', reserved_until = 0, served = 0;"
    "DELETE FROM simba_waiter"; /* one that lives comes back when a lease ends */

int sb_sqlite_read_boot_id(char ret_boot_id[SB_SQLITE_BOOT_ID_MAX])
{
    int fd = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t length;
    int code;

    if (fd < 0)
        return errno;
    length = read(fd, ret_boot_id, SB_SQLITE_BOOT_ID_MAX - 1);
    code = length < 0 ? errno : 0;
    close(fd);
    if (code != 0)
        return code;
    ret_boot_id[length] = '\0';
    ret_boot_id[strcspn(ret_boot_id, "\n")] = '\0';
    return ret_boot_id[0] != '\0' ? 0 : ENODATA;
}

/* ---- Small statements ------------------------------------------------------------------------ */

/* Runs a statement that binds one text, one number or nothing. *ret_answer becomes the first column
 * of its first row, and stays as it is where there is none. */
static int ask(struct sb_sqlite_connection *c, const char *sql, const char *text, uint64_t number,
               int64_t *ret_answer)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &statement, NULL);

    if (rc != SQLITE_OK)
        return rc;
    if (sqlite3_bind_parameter_count(statement) > 0)
        rc = text != NULL ? sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC)
                          : sqlite3_bind_int64(statement, 1, (sqlite3_int64)number);
    sb_sqlite_start_time(c);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    if (rc == SQLITE_ROW)
        *ret_answer = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* For a statement that yields nothing. */
static int change(struct sb_sqlite_connection *c, const char *sql, const char *text,
                  uint64_t number)
{
    int64_t none;

    return ask(c, sql, text, number, &none);
}

static int execute(struct sb_sqlite_connection *c, const char *sql)
{
    c->clock_ms = 0;
    sb_sqlite_start_time(c);
    return sqlite3_exec(c->db, sql, NULL, NULL, NULL);
}

/* ---- Bringing it up to date ------------------------------------------------------------------ */

/* How the file was found. */
struct condition {
    int64_t version; /* 0: before there was one, or a new file */
    bool current;    /* nothing is to be done */
};

static int find_current(struct sb_sqlite_connection *c, bool *ret_current)
{
    int64_t version = 0;
    int rc = ask(c, whole_version, c->settings->boot_id, 0, &version);

    if (rc == SQLITE_OK)
        *ret_current = version == SCHEMA_VERSION;
    return rc;
}

static int examine(struct sb_sqlite_connection *c, struct condition *ret_condition)
{
    struct condition condition = {.current = false};
    int64_t tables = 0;
    int rc = ask(c, has_table, "simba_meta", 0, &tables);

    if (rc == SQLITE_OK && tables > 0)
        rc = ask(c, schema_version, NULL, 0, &condition.version);
    if (rc == SQLITE_OK && condition.version == SCHEMA_VERSION)
        rc = find_current(c, &condition.current);
    if (rc == SQLITE_OK)
        *ret_condition = condition;
    return rc;
}

static int migrate(struct sb_sqlite_connection *c)
{
    int rc = SQLITE_OK;

    for (size_t i = 0; i < sizeof additions / sizeof additions[0] && rc == SQLITE_OK; i++) {
        int64_t columns = 0;

        rc = ask(c, has_column, additions[i].name, 0, &columns);
        if (rc == SQLITE_OK && columns == 0)
            rc = execute(c, additions[i].sql);
    }
    if (rc == SQLITE_OK)
        rc = execute(c, rename_boot);
    return rc == SQLITE_OK ? change(c, set_schema_version, NULL, SCHEMA_VERSION) : rc;
}

static int enter_boot(struct sb_sqlite_connection *c)
{
    int rc = execute(c, void_refuted);

    if (rc == SQLITE_OK)
        rc = change(c, add_boot, c->settings->boot_id, 0);
    if (rc == SQLITE_OK)
        rc = execute(c, forget_boots);
    return rc;
}

/* Within a transaction. The floor leaps with every boot that comes to a used file, and when the
 * table is gone while something of it is known: from the other table, or from what this client has
 * seen. */
static int update_schema(struct sb_sqlite_connection *c)
{
    int64_t had_mutexes = 0;
    int64_t had_meta = 0;
    int64_t known_boot = 0;
    int rc = ask(c, has_table, "simba_mutex", 0, &had_mutexes);
    bool used;

    if (rc == SQLITE_OK)
        rc = ask(c, has_table, "simba_meta", 0, &had_meta);
    if (rc == SQLITE_OK)
        rc = execute(c, create_tables);
    if (rc == SQLITE_OK)
        rc = migrate(c);
    if (rc == SQLITE_OK)
        rc = ask(c, knows_boot, c->settings->boot_id, 0, &known_boot);
    if (rc == SQLITE_OK && known_boot == 0)
        rc = enter_boot(c);
    c->base.created_table = c->base.created_table || had_mutexes == 0;
    used = had_mutexes > 0 || had_meta > 0 || c->settings->highest_version > 0;
    if (rc == SQLITE_OK && used && (known_boot == 0 || had_mutexes == 0))
        rc = change(c, raise_floor, NULL, c->settings->highest_version);
    return rc;
}

/* Another process may have been faster. */
static int update_in_transaction(struct sb_sqlite_connection *c, struct condition *ret_condition)
{
    int rc = execute(c, "BEGIN IMMEDIATE");

    if (rc == SQLITE_OK)
        rc = examine(c, ret_condition);
    if (rc == SQLITE_OK && !ret_condition->current && ret_condition->version <= SCHEMA_VERSION)
        rc = update_schema(c);
    return rc == SQLITE_OK ? execute(c, "COMMIT") : rc;
}

/* Where a table is missing SQLite has an error for an answer. */
bool sb_sqlite_schema_is_current(struct sb_sqlite_connection *c)
{
    bool current = false;

    return find_current(c, &current) == SQLITE_OK && current;
}

/* One statement: between two of them another process may create the tables. */
bool sb_sqlite_schema_is_foreign(struct sb_sqlite_connection *c)
{
    int64_t foreign = 0;

    return ask(c, is_foreign, NULL, 0, &foreign) == SQLITE_OK && foreign != 0;
}

static int fail_newer(const struct sb_sqlite_connection *c, int64_t version,
                      struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_set(&failure->error, SIMBA_ESTORE,
                        "the tables of the database %s have version %lld, and this version of the "
                        "library knows none above %d",
                        c->settings->path, (long long)version, SCHEMA_VERSION);
}

int sb_sqlite_init_schema(struct sb_sqlite_connection *c, struct sb_sql_failure *failure)
{
    struct condition condition = {.current = false};
    int code = SIMBA_OK;
    int rc = examine(c, &condition);

    if (rc == SQLITE_OK && !condition.current && condition.version <= SCHEMA_VERSION)
        rc = update_in_transaction(c, &condition);
    if (rc != SQLITE_OK)
        code = sb_sqlite_fail(c, false, failure);
    else if (condition.version > SCHEMA_VERSION)
        code = fail_newer(c, condition.version, failure);
    if (!sqlite3_get_autocommit(c->db))
        execute(c, "ROLLBACK");
    return code;
}
