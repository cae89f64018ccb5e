/*
 * property.c - the table simba_property: small facts kept with a mutex. Owns its statements and its
 * creation, which waits for the first write: most files need none.
 */
#include "backend/sqlite/connection.h"

#include "base/error.h"
#include "base/text.h"

static const char create_table[] = "CREATE TABLE IF NOT EXISTS simba_property ("
                                   " mutex VARCHAR(66) NOT NULL,"
                                   " name VARCHAR(32) NOT NULL,"
                                   " value VARCHAR(512) NOT NULL,"
                                   " written_at INTEGER NOT NULL,"
                                   " PRIMARY KEY (mutex, name)"
                                   ") WITHOUT ROWID";

static const char has_table[] =
    "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'simba_property'";

static const char select_property[] =
    "SELECT value, written_at FROM simba_property WHERE mutex = ?1 AND name = ?2";

/* By the time at which it has the lock an owner may be another one. */
static const char write_property[] =
    "INSERT INTO simba_property (mutex, name, value, written_at)"
    " SELECT ?1, ?2, ?3, ?4 WHERE ?5 IS NULL OR EXISTS (SELECT 1 FROM simba_mutex"
    " WHERE mutex = ?1 AND owner_id = ?5 AND transition_at >= simba_now())"
    " ON CONFLICT (mutex, name) DO UPDATE SET value = excluded.value,"
    " written_at = excluded.written_at";

enum { PARAMETER_MUTEX = 1, PARAMETER_NAME, PARAMETER_VALUE, PARAMETER_WRITTEN_AT, PARAMETER_ID };
enum { COLUMN_VALUE, COLUMN_WRITTEN_AT };

static int64_t wall_now_ms(void)
{
    return simba_wall_ms(simba_now_ms());
}

static int bind(sqlite3_stmt *statement, const struct sb_sql_property *property)
{
    int rc = SQLITE_OK;

    if (sqlite3_bind_parameter_count(statement) >= PARAMETER_NAME) {
        rc = sqlite3_bind_text(statement, PARAMETER_MUTEX, property->mutex, -1, SQLITE_STATIC);
        if (rc == SQLITE_OK)
            rc = sqlite3_bind_text(statement, PARAMETER_NAME, property->name, -1, SQLITE_STATIC);
    }
    if (rc == SQLITE_OK && sqlite3_bind_parameter_count(statement) >= PARAMETER_ID) {
        rc = sqlite3_bind_text(statement, PARAMETER_VALUE, property->value, -1, SQLITE_STATIC);
        if (rc == SQLITE_OK)
            rc = sqlite3_bind_int64(statement, PARAMETER_WRITTEN_AT, wall_now_ms());
        if (rc == SQLITE_OK && property->id != NULL)
            rc = sqlite3_bind_text(statement, PARAMETER_ID, property->id, -1, SQLITE_STATIC);
    }
    return rc;
}

/* *ret_row: it yielded a row. */
static int run(struct sb_sqlite_connection *c, const char *text,
               const struct sb_sql_property *property, bool *ret_row,
               struct simba_property *ret_property, struct sb_sql_failure *failure)
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(c->db, text, -1, &statement, NULL);
    int code = SIMBA_OK;

    if (rc == SQLITE_OK)
        rc = bind(statement, property);
    c->clock_ms = 0;
    c->committing = false;
    c->folder.quiet = false;
    sb_sqlite_start_time(c);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(statement);
    *ret_row = rc == SQLITE_ROW;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        code = sb_sqlite_fail(c, c->committing, failure);
    } else if (rc == SQLITE_ROW && ret_property != NULL &&
               sqlite3_column_count(statement) > COLUMN_WRITTEN_AT) {
        const unsigned char *value = sqlite3_column_text(statement, COLUMN_VALUE);

        sb_text_copy(ret_property->value, sizeof ret_property->value,
                     value != NULL ? (const char *)value : "");
        ret_property->written_ms = sqlite3_column_int64(statement, COLUMN_WRITTEN_AT);
    }
    sqlite3_finalize(statement);
    return code;
}

int sb_sqlite_run_texts(struct sb_sqlite_connection *c, const char *text,
                        const struct sb_sql_property *property, struct simba_property *ret_property,
                        struct sb_sql_failure *failure)
{
    bool row;

    return run(c, text, property, &row, ret_property, failure);
}

int sb_sqlite_find_properties(struct sb_sqlite_connection *c, bool *ret_exists,
                              struct sb_sql_failure *failure)
{
    return run(c, has_table, NULL, ret_exists, NULL, failure);
}

int sb_sqlite_property(struct sb_sql_connection *connection, const struct sb_sql_property *property,
                       struct simba_property *ret_property, struct sb_sql_failure *failure)
{
    struct sb_sqlite_connection *c = (struct sb_sqlite_connection *)connection;
    bool exists = false;
    int code = sb_sqlite_find_properties(c, &exists, failure);

    if (property->value == NULL) {
        if (code == SIMBA_OK && exists)
            code = sb_sqlite_run_texts(c, select_property, property, ret_property, failure);
        ret_property->store_ms = wall_now_ms();
        return code;
    }
    if (code == SIMBA_OK && !exists)
        code = sb_sqlite_run_texts(c, create_table, property, NULL, failure);
    if (code == SIMBA_OK)
        code = sb_sqlite_run_texts(c, write_property, property, NULL, failure);
    if (code != SIMBA_OK || sqlite3_changes(c->db) > 0)
        return code;
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_set(&failure->error, SIMBA_ELOST, "%s does not own the mutex \"%s\"",
                        property->id, property->mutex);
}
