/*
 * statement.c - the statements of the MySQL dialect. Owns their text and parameters.
 *
 * Clock: utc_timestamp(3) is the start of the statement, later than the request, even when the statement
 * then waits for a row. So the lease that is recorded ends no earlier than the client believes; and what is
 * decided by an older time is decided the careful way. Unlike sysdate() it replicates statement by statement,
 * and unlike current_timestamp() it knows no summer time. The JVM library's expression has the same value.
 *
 * Owners are compared byte by byte: to the collation of an existing table "a" and "A" may be one.
 */
#include "backend/mysql/statement.h"

#include "backend/mysql/call.h"
#include "backend/mysql/failure.h"
#include "base/alloc.h"
#include "base/text.h"

#include <string.h>

#define NOW SB_MYSQL_NOW
#define COLUMNS SB_MYSQL_COLUMNS
#define IS_OWNER SB_MYSQL_OWNER " = cast(? AS binary)"
#define INSERT SB_MYSQL_INSERT SB_MYSQL_FREE_ROW

/* last_insert_id() sends the version back with the answer, so that no SELECT has to follow. The three
 * times are of one instant. The expression is repeated because whether a column stands for its new value depends on
 * the mode, and a lease must not depend on that. */
#define SET_LEASE                                                                                  \
    "UPDATE simba_mutex SET owner_id = ?, acquired_at = " NOW ", ttl_at = " NOW " + ?,"            \
    " transition_at = " NOW " + ?, version = last_insert_id(version + 1)"

/* A release goes through at the last version too; only nobody can acquire any more. */
#define CLEAR_LEASE                                                                                \
    "UPDATE simba_mutex SET owner_id = '', acquired_at = 0, ttl_at = 0, transition_at = 0,"        \
    " version = last_insert_id(least(version + 1, " SB_MYSQL_VERSION_MAX "))"

#define PARAMETERS_MAX 5

/* Which value stands for each question mark: (m)utex, (i)d, (t)tl, (l)ease, (v)ersion. */
struct statement {
    const char *text;
    const char *parameters;
};

static const struct statement statements[SB_MYSQL_STATEMENTS] = {
    [SB_SQL_INSERT] = {INSERT, "m"},
    [SB_SQL_INSERT_IF_MISSING] = {INSERT SB_MYSQL_UNLESS_THERE, "m"},
    [SB_SQL_SELECT] = {"SELECT " COLUMNS " FROM simba_mutex WHERE mutex = ?", "m"},
    [SB_MYSQL_SELECT_LATEST] = {"SELECT " COLUMNS " FROM simba_mutex WHERE mutex = ? FOR UPDATE",
                                "m"},
    [SB_SQL_SELECT_ALL] = {"SELECT " COLUMNS " FROM simba_mutex ORDER BY mutex", ""},
    [SB_SQL_ACQUIRE] = {SET_LEASE " WHERE mutex = ? AND (transition_at < " NOW " OR " IS_OWNER
                                  ") AND version < " SB_MYSQL_VERSION_MAX,
                        "itlmi"},
    [SB_SQL_GUARD] = {SET_LEASE " WHERE mutex = ? AND " IS_OWNER " AND transition_at > " NOW
                                " AND version < " SB_MYSQL_VERSION_MAX,
                      "itlmi"},
    [SB_SQL_RELEASE] = {CLEAR_LEASE " WHERE mutex = ? AND " IS_OWNER, "mi"},
    [SB_SQL_RELEASE_EXACT] = {CLEAR_LEASE " WHERE mutex = ? AND " IS_OWNER " AND version = ?",
                              "miv"},
};

const char *sb_mysql_statement_text(size_t which)
{
    return statements[which].text;
}

bool sb_mysql_writes(enum sb_sql_statement which)
{
    return which != SB_SQL_SELECT && which != SB_SQL_SELECT_ALL;
}

/* ---- Parameters ----------------------------------------------------------------------------- */

void sb_mysql_bind_text(MYSQL_BIND *bind, const char *text)
{
    bind->buffer_type = MYSQL_TYPE_STRING;
    bind->buffer = (void *)(uintptr_t)text;
    bind->buffer_length = strlen(text);
}

void sb_mysql_bind_number(MYSQL_BIND *bind, const void *number)
{
    bind->buffer_type = MYSQL_TYPE_LONGLONG;
    bind->buffer = (void *)(uintptr_t)number;
    bind->is_unsigned = 1; /* none of them is negative */
}

static void bind_values(MYSQL_BIND *binds, const char *parameters,
                        const struct sb_sql_values *values)
{
    memset(binds, 0, PARAMETERS_MAX * sizeof *binds);
    for (; *parameters != '\0'; parameters++, binds++) {
        if (*parameters == 'm')
            sb_mysql_bind_text(binds, values->mutex);
        else if (*parameters == 'i')
            sb_mysql_bind_text(binds, values->id);
        else
            sb_mysql_bind_number(binds, *parameters == 't'   ? (const void *)&values->ttl_ms
                                        : *parameters == 'l' ? (const void *)&values->lease_ms
                                                             : (const void *)&values->version);
    }
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static void take_text(MYSQL_BIND *bind, char *target, size_t size, unsigned long *length)
{
    bind->buffer_type = MYSQL_TYPE_STRING;
    bind->buffer = target;
    bind->buffer_length = size - 1;
    bind->length = length;
}

static void take_number(MYSQL_BIND *bind, void *target)
{
    bind->buffer_type = MYSQL_TYPE_LONGLONG;
    bind->buffer = target;
}

bool sb_mysql_bind_row(MYSQL_STMT *statement, struct sb_mysql_row *row)
{
    struct sb_sql_record *r = &row->record;
    MYSQL_BIND binds[SB_SQL_COLUMN_FENCE + 2];

    memset(binds, 0, sizeof binds);
    take_text(&binds[SB_SQL_COLUMN_MUTEX], r->mutex, sizeof r->mutex, &row->mutex_length);
    take_text(&binds[SB_SQL_COLUMN_OWNER_ID], r->owner_id, sizeof r->owner_id,
              &row->owner_id_length);
    take_number(&binds[SB_SQL_COLUMN_ACQUIRED_AT], &r->acquired_at_ms);
    take_number(&binds[SB_SQL_COLUMN_TTL_AT], &r->ttl_at_ms);
    take_number(&binds[SB_SQL_COLUMN_TRANSITION_AT], &r->transition_at_ms);
    take_number(&binds[SB_SQL_COLUMN_VERSION], &r->version);
    take_number(&binds[SB_SQL_COLUMN_CURRENT_DB_AT], &r->current_db_at_ms);
    take_number(&binds[SB_SQL_COLUMN_FENCE], &r->fence);
    take_number(&binds[SB_SQL_COLUMN_FENCE + 1], &row->place);
    return mysql_stmt_bind_result(statement, binds) == 0;
}

static void end_text(char *text, size_t size, unsigned long length)
{
    text[length < size ? length : size - 1] = '\0';
}

bool sb_mysql_fetch_row(MYSQL_STMT *statement, struct sb_mysql_row *row)
{
    int fetched = mysql_stmt_fetch(statement);

    if (fetched != 0 && fetched != MYSQL_DATA_TRUNCATED)
        return false;
    end_text(row->record.mutex, sizeof row->record.mutex, row->mutex_length);
    end_text(row->record.owner_id, sizeof row->record.owner_id, row->owner_id_length);
    return true;
}

/* ---- Running -------------------------------------------------------------------------------- */

int sb_mysql_prepare(struct sb_mysql_connection *c, const char *text, MYSQL_STMT **ret_statement,
                     struct sb_sql_failure *failure)
{
    MYSQL_STMT *statement = mysql_stmt_init(c->mysql);
    int code;

    if (statement == NULL)
        return sb_mysql_fail_memory(failure);
    if (sb_mysql_call_prepare(c, statement, text) != 0) {
        code = sb_mysql_fail_statement(c, statement, false, failure);
        mysql_stmt_close(statement);
        return code;
    }
    *ret_statement = statement;
    return SIMBA_OK;
}

int sb_mysql_run_bound(struct sb_mysql_connection *c, MYSQL_STMT *statement, MYSQL_BIND *binds,
                       bool writes, struct sb_sql_failure *failure)
{
    if (mysql_stmt_bind_param(statement, binds) != 0)
        return sb_mysql_fail_statement(c, statement, false, failure);
    if (sb_mysql_call_execute(c, statement) != 0 ||
        (!writes && sb_mysql_call_store_rows(c, statement) != 0))
        return sb_mysql_fail_statement(c, statement, writes && !c->in_transaction, failure);
    return SIMBA_OK;
}

bool sb_mysql_bind(struct sb_mysql_connection *c, size_t which, const struct sb_sql_values *values)
{
    MYSQL_BIND binds[PARAMETERS_MAX];

    bind_values(binds, statements[which].parameters, values);
    return mysql_stmt_bind_param(c->statements[which], binds) == 0;
}

int sb_mysql_execute(struct sb_mysql_connection *c, enum sb_sql_statement which,
                     const struct sb_sql_values *values, MYSQL_STMT **ret_statement,
                     struct sb_sql_failure *failure)
{
    size_t index = which == SB_SQL_SELECT && c->in_transaction ? SB_MYSQL_SELECT_LATEST : which;
    MYSQL_BIND binds[PARAMETERS_MAX];
    int code = SIMBA_OK;

    if (!c->in_transaction && sb_mysql_is_closed(c))
        return sb_mysql_fail_closed(failure);
    if (c->statements[index] == NULL)
        code = sb_mysql_prepare(c, statements[index].text, &c->statements[index], failure);
    if (code != SIMBA_OK)
        return code;
    bind_values(binds, statements[index].parameters, values);
    code = sb_mysql_run_bound(c, c->statements[index], binds, sb_mysql_writes(which), failure);
    if (code == SIMBA_OK)
        *ret_statement = c->statements[index];
    return code;
}
