/*
 * execute.c - runs the statements of the MySQL dialect on a connection, and takes in their rows.
 * Must not know what becomes of the rows.
 */
#include "backend/mysql/connection.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/text.h"

#include <string.h>

/* ---- Rows ------------------------------------------------------------------------------------ */

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

bool sb_mysql_bind_row(MYSQL_STMT *statement, size_t columns, struct sb_mysql_row *row)
{
    struct sb_sql_record *r = &row->record;
    MYSQL_BIND binds[SB_MYSQL_ROW_COLUMNS + 2];

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
    take_number(&binds[SB_SQL_COLUMN_SINCE], &r->since_ms);
    take_text(&binds[SB_SQL_COLUMN_SINCE + 1], row->read_only, sizeof row->read_only,
              &row->read_only_length);
    take_number(&binds[SB_MYSQL_ROW_COLUMNS], &row->place);
    take_number(&binds[SB_MYSQL_ROW_COLUMNS + 1], &r->reserved_until_ms);
    return mysql_stmt_field_count(statement) == columns &&
           mysql_stmt_bind_result(statement, binds) == 0;
}

bool sb_mysql_bind_next(MYSQL_STMT *statement, struct sb_mysql_next *next)
{
    MYSQL_BIND binds[4];

    memset(binds, 0, sizeof binds);
    take_number(&binds[0], &next->place);
    take_text(&binds[1], next->waiter.id, sizeof next->waiter.id, &next->id_length);
    take_text(&binds[2], next->waiter.client, sizeof next->waiter.client, &next->client_length);
    take_number(&binds[3], &next->reserved_until_ms);
    return mysql_stmt_field_count(statement) == 4 && mysql_stmt_bind_result(statement, binds) == 0;
}

static void end_text(char *text, size_t size, unsigned long length)
{
    text[length < size ? length : size - 1] = '\0';
}

bool sb_mysql_fetch_row(struct sb_mysql_connection *c, MYSQL_STMT *statement,
                        struct sb_mysql_row *row)
{
    int fetched;

    *row = (struct sb_mysql_row){.place = 0};
    fetched = mysql_stmt_fetch(statement);
    if (fetched != 0 && fetched != MYSQL_DATA_TRUNCATED)
        return false;
    end_text(row->record.mutex, sizeof row->record.mutex, row->mutex_length);
    end_text(row->record.owner_id, sizeof row->record.owner_id, row->owner_id_length);
    end_text(row->read_only, sizeof row->read_only, row->read_only_length);
    c->read_only = !sb_mysql_is_off(row->read_only);
    return true;
}

bool sb_mysql_fetch_next(MYSQL_STMT *statement, struct sb_mysql_next *next)
{
    int fetched;

    *next = (struct sb_mysql_next){.place = 0};
    fetched = mysql_stmt_fetch(statement);
    if (fetched != 0 && fetched != MYSQL_DATA_TRUNCATED)
        return false;
    end_text(next->waiter.id, sizeof next->waiter.id, next->id_length);
    end_text(next->waiter.client, sizeof next->waiter.client, next->client_length);
    return true;
}

/* ---- A server that is read-only -------------------------------------------------------------- */

/* The last column; empty where the server has no answer. */
static int ask(struct sb_mysql_connection *c, const char *question,
               char ret_answer[SB_MYSQL_ANSWER_MAX], struct sb_sql_failure *failure)
{
    const char *answer = NULL;
    MYSQL_RES *result;
    MYSQL_ROW row;

    if (sb_mysql_call_query(c, question) != 0)
        return sb_mysql_fail(c, false, failure);
    result = sb_mysql_call_store(c);
    if (result == NULL)
        return sb_mysql_fail(c, false, failure);
    row = mysql_fetch_row(result);
    if (row != NULL)
        answer = row[mysql_num_fields(result) - 1];
    sb_text_copy(ret_answer, SB_MYSQL_ANSWER_MAX, answer != NULL ? answer : "");
    mysql_free_result(result);
    return SIMBA_OK;
}

int sb_mysql_ask_log_format(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    char format[SB_MYSQL_ANSWER_MAX];
    int code = ask(c, "SHOW VARIABLES LIKE 'binlog_format'", format, failure);

    c->server_id[0] = '\0';
    if (code != SIMBA_OK || strcasecmp(format, "STATEMENT") != 0)
        return code;
    return ask(c, "SELECT @@global.server_id", c->server_id, failure);
}

int sb_mysql_ask_read_only(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    char read_only[SB_MYSQL_ANSWER_MAX];
    int code = ask(c, "SELECT @@global.read_only", read_only, failure);

    if (code != SIMBA_OK)
        return code;
    c->read_only = !sb_mysql_is_off(read_only);
    sb_mysql_write_condition(read_only, c->server_id, c->condition);
    return SIMBA_OK;
}

int sb_mysql_check_writable(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    int code = sb_mysql_ask_read_only(c, failure);

    return code == SIMBA_OK && c->read_only ? sb_mysql_fail_read_only(failure) : code;
}

/* ---- Running --------------------------------------------------------------------------------- */

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

void sb_mysql_write_text(struct sb_mysql_connection *c, size_t which)
{
    char statement[SB_MYSQL_TEXT_MAX];
    struct sb_text text;

    sb_mysql_statement_text(which, c->has_terms, statement);
    sb_text_init(&text, c->text, sizeof c->text);
    sb_text_add(&text, "%s%s", statement, sb_mysql_updates(which) ? c->condition : "");
}

int sb_mysql_run_bound(struct sb_mysql_connection *c, MYSQL_STMT *statement, MYSQL_BIND *binds,
                       size_t count, bool writes, struct sb_sql_failure *failure)
{
    if (!sb_mysql_bind_parameters(statement, binds, count))
        return sb_mysql_fail_statement(c, statement, false, failure);
    if (sb_mysql_call_execute(c, statement) != 0 ||
        (!writes && sb_mysql_call_store_rows(c, statement) != 0))
        return sb_mysql_fail_statement(c, statement, writes && !c->in_transaction, failure);
    return SIMBA_OK;
}

int sb_mysql_execute(struct sb_mysql_connection *c, size_t which,
                     const struct sb_sql_values *values, MYSQL_STMT **ret_statement,
                     struct sb_sql_failure *failure)
{
    size_t index = which == SB_SQL_SELECT && c->in_transaction ? SB_MYSQL_SELECT_LATEST : which;
    int code = SIMBA_OK;

    if (!c->in_transaction && sb_mysql_is_closed(c))
        return sb_mysql_fail_closed(failure);
    if (c->statements[index] == NULL) {
        sb_mysql_write_text(c, index);
        code = sb_mysql_prepare(c, c->text, &c->statements[index], failure);
    }
    if (code != SIMBA_OK)
        return code;
    sb_mysql_bind_values(index, values, c->base.version_max, &c->parameters);
    code = sb_mysql_run_bound(c, c->statements[index], c->parameters.binds, c->parameters.count,
                              sb_mysql_writes(which), failure);
    if (code == SIMBA_OK)
        *ret_statement = c->statements[index];
    return code;
}
