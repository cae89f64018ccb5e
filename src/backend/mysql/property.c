/*
 * property.c - the table simba_property: small facts kept with a mutex. Owns its statements, which
 * are rare and prepared anew each time, and its creation, which waits for the first write.
 */
#include "backend/mysql/connection.h"

#include "base/error.h"
#include "base/text.h"

#include <string.h>

#define NOW SB_MYSQL_NOW

/* A view in its place would run what its creator has written with the user's rights. */
static const char kind_of_table[] =
    "SELECT table_type LIKE 'BASE TABLE', engine LIKE 'InnoDB' FROM information_schema.tables"
    " WHERE table_schema = database() AND table_name = 'simba_property'";

/* One row in any case, for the sake of the clock. A column may be longer than ours. */
static const char read_property[] =
    "SELECT left(p.value, 512), p.written_at, " NOW " FROM (SELECT 1) one"
    " LEFT JOIN simba_property p ON p.mutex = ? AND p.name = ?";

/* Where there is no table yet. */
static const char read_clock[] = "SELECT '', 0, " NOW;

/* Without a lock: to wait for the row of the mutex would cost more than it is worth. */
static const char is_owner[] =
    "SELECT '', 0, " NOW " FROM simba_mutex WHERE mutex = ? AND " SB_MYSQL_OWNER
    " = cast(? AS binary) AND transition_at >= " NOW;

/* The time of a row that is written twice within a millisecond changes, too: otherwise the server
 * would say that there was nothing to write. Behind it stands the condition that the server is not
 * read-only. */
static const char write_property[] = "INSERT INTO simba_property (mutex, name, value, written_at)"
                                     " SELECT ?, ?, ?, " NOW " FROM (SELECT 1) one WHERE true";
static const char overwrite[] =
    " ON DUPLICATE KEY UPDATE value = VALUES(value), written_at ="
    " if(written_at = VALUES(written_at), written_at + 1, VALUES(written_at))";

enum { COLUMN_VALUE, COLUMN_WRITTEN_AT, COLUMN_NOW, COLUMNS };

/* ---- The table ------------------------------------------------------------------------------- */

enum kind { NOTHING, NO_TABLE, OTHER_ENGINE, TABLE };

static enum kind read_kind(MYSQL_ROW row)
{
    if (row == NULL)
        return NOTHING;
    if (row[0] == NULL || strcmp(row[0], "1") != 0)
        return NO_TABLE;
    return row[1] != NULL && strcmp(row[1], "1") == 0 ? TABLE : OTHER_ENGINE;
}

static int look_for_table(struct sb_mysql_connection *c, enum kind *ret_kind,
                          struct sb_sql_failure *failure)
{
    MYSQL_RES *result;

    if (sb_mysql_call_query(c, kind_of_table) != 0)
        return sb_mysql_fail(c, false, failure);
    result = sb_mysql_call_store(c);
    if (result == NULL)
        return sb_mysql_fail(c, false, failure);
    *ret_kind = mysql_num_fields(result) == 2 ? read_kind(mysql_fetch_row(result)) : NO_TABLE;
    mysql_free_result(result);
    return SIMBA_OK;
}

static int create_table(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    int code = sb_mysql_check_writable(c, failure);

    if (code != SIMBA_OK || sb_mysql_call_query(c, SB_MYSQL_CREATE_PROPERTIES) == 0)
        return code;
    code = sb_mysql_fail(c, false, failure);
    if (code == SIMBA_EDENIED)
        return sb_error_set_backend(&failure->error, code, (int)mysql_errno(c->mysql),
                                    "the user %s may not create the table simba_property in the "
                                    "database %s, which keeps the properties of mutexes; an "
                                    "administrator has to run: %s",
                                    c->mysql->user, c->mysql->db, SB_MYSQL_CREATE_PROPERTIES);
    return code == SIMBA_EEXISTS ? SIMBA_OK : code;
}

static int find_table(struct sb_mysql_connection *c, bool creates, struct sb_sql_failure *failure)
{
    enum kind kind = NOTHING;
    int code;

    if (c->has_properties)
        return SIMBA_OK;
    code = look_for_table(c, &kind, failure);
    if (code == SIMBA_OK && kind == NOTHING && !creates)
        return SIMBA_OK;
    if (code == SIMBA_OK && kind == NOTHING) {
        code = create_table(c, failure);
        if (code == SIMBA_OK)
            code = look_for_table(c, &kind, failure);
    }
    if (code != SIMBA_OK)
        return code;
    c->has_properties = kind == TABLE;
    if (c->has_properties)
        return SIMBA_OK;
    failure->remedy = SB_SQL_GIVE_UP;
    if (kind == OTHER_ENGINE)
        return sb_error_set(&failure->error, SIMBA_ECONFIG,
                            "MySQL: the table simba_property is not of the engine InnoDB, which "
                            "keeps what was committed: ALTER TABLE simba_property ENGINE = InnoDB");
    return sb_error_set(&failure->error, SIMBA_EDENIED,
                        "MySQL: simba_property is not a BASE TABLE: what a view calls would run "
                        "with the user's rights");
}

int sb_mysql_find_properties(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    return find_table(c, false, failure);
}

/* ---- Statements ------------------------------------------------------------------------------ */

static bool fetch(MYSQL_STMT *statement, struct simba_property *property)
{
    MYSQL_BIND binds[COLUMNS];
    unsigned long length = 0;
    int fetched;

    memset(binds, 0, sizeof binds);
    binds[COLUMN_VALUE].buffer_type = MYSQL_TYPE_STRING;
    binds[COLUMN_VALUE].buffer = property->value;
    binds[COLUMN_VALUE].buffer_length = sizeof property->value - 1;
    binds[COLUMN_VALUE].length = &length;
    binds[COLUMN_WRITTEN_AT].buffer_type = MYSQL_TYPE_LONGLONG;
    binds[COLUMN_WRITTEN_AT].buffer = &property->written_ms;
    binds[COLUMN_NOW].buffer_type = MYSQL_TYPE_LONGLONG;
    binds[COLUMN_NOW].buffer = &property->store_ms;
    memset(property, 0, sizeof *property); /* what is NULL is left as it is */
    if (mysql_stmt_field_count(statement) != COLUMNS ||
        mysql_stmt_bind_result(statement, binds) != 0)
        return false;
    fetched = mysql_stmt_fetch(statement);
    return fetched == 0 || fetched == MYSQL_DATA_TRUNCATED;
}

int sb_mysql_run_texts(struct sb_mysql_connection *c, const char *text, const char *const *values,
                       size_t count, bool *ret_hit, struct simba_property *ret_property,
                       struct sb_sql_failure *failure)
{
    MYSQL_BIND binds[SB_MYSQL_PARAMETERS_MAX];
    MYSQL_STMT *statement = NULL;
    int code;

    if (sb_mysql_is_closed(c))
        return sb_mysql_fail_closed(failure);
    code = sb_mysql_prepare(c, text, &statement, failure);
    if (code != SIMBA_OK)
        return code;
    memset(binds, 0, sizeof binds);
    for (size_t i = 0; i < count; i++)
        sb_mysql_bind_text(&binds[i], values[i]);
    code = sb_mysql_run_bound(c, statement, binds, count, ret_property == NULL, failure);
    if (code == SIMBA_OK)
        *ret_hit = ret_property != NULL ? fetch(statement, ret_property)
                                        : mysql_stmt_affected_rows(statement) > 0;
    mysql_stmt_close(statement);
    return code;
}

static int read_one(struct sb_mysql_connection *c, const struct sb_sql_property *property,
                    struct simba_property *ret_property, struct sb_sql_failure *failure)
{
    const char *const values[] = {property->mutex, property->name};
    bool hit = false;
    const char *text = c->has_properties ? read_property : read_clock;
    int code =
        sb_mysql_run_texts(c, text, values, c->has_properties ? 2 : 0, &hit, ret_property, failure);

    return code == SIMBA_OK && !hit ? sb_mysql_fail(c, false, failure) : code;
}

static int check_owner(struct sb_mysql_connection *c, const struct sb_sql_property *property,
                       struct sb_sql_failure *failure)
{
    const char *const values[] = {property->mutex, property->id};
    struct simba_property none;
    bool owns = false;
    int code = sb_mysql_run_texts(c, is_owner, values, 2, &owns, &none, failure);

    if (code != SIMBA_OK || owns)
        return code;
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_set(&failure->error, SIMBA_ELOST, "%s does not own the mutex \"%s\"",
                        property->id, property->mutex);
}

static int write_one(struct sb_mysql_connection *c, const struct sb_sql_property *property,
                     struct sb_sql_failure *failure)
{
    const char *const values[] = {property->mutex, property->name, property->value};
    char buffer[SB_MYSQL_TEXT_MAX];
    struct sb_text text;
    bool written = false;
    int code = sb_mysql_check_writable(c, failure);

    if (code == SIMBA_OK && property->id != NULL)
        code = check_owner(c, property, failure);
    if (code != SIMBA_OK)
        return code;
    sb_text_init(&text, buffer, sizeof buffer);
    sb_text_add(&text, "%s%s%s", write_property, c->condition, overwrite);
    code = sb_mysql_run_texts(c, buffer, values, 3, &written, NULL, failure);
    return code == SIMBA_OK && !written ? sb_mysql_fail_read_only(failure) : code;
}

/* After a failure the table is looked for again. */
int sb_mysql_property(struct sb_sql_connection *connection, const struct sb_sql_property *property,
                      struct simba_property *ret_property, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = (struct sb_mysql_connection *)connection;
    int code = find_table(c, property->value != NULL, failure);

    if (code == SIMBA_OK)
        code = property->value == NULL ? read_one(c, property, ret_property, failure)
                                       : write_one(c, property, failure);
    if (code != SIMBA_OK)
        c->has_properties = false;
    return code;
}
