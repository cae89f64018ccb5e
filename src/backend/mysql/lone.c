/*
 * lone.c - one item for a thread that must not wait. Owns the order of the library's calls; must not know who
 * watches the socket.
 *
 * The library runs each call on a stack of its own, which it leaves when it would have to wait. Whichever
 * thread goes on with the call enters that stack.
 */
#include "backend/mysql/lone.h"

#include "backend/mysql/call.h"
#include "backend/mysql/execute.h"
#include "backend/mysql/failure.h"
#include "backend/mysql/rows.h"
#include "backend/sql/repository.h"

#include <string.h>

static MYSQL_STMT *statement_of(const struct sb_mysql_connection *c)
{
    return c->statements[c->lone.which];
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static void begin_call(struct sb_mysql_connection *c, enum sb_mysql_stage stage)
{
    struct sb_mysql_lone *lone = &c->lone;
    MYSQL_STMT *statement = statement_of(c);

    lone->stage = stage;
    if (stage == SB_MYSQL_PREPARE) {
        sb_mysql_write_text(c, lone->which);
        lone->wanted = mysql_stmt_prepare_start(&lone->result, statement, c->text, strlen(c->text));
    } else if (stage == SB_MYSQL_EXECUTE) {
        lone->wanted = mysql_stmt_execute_start(&lone->result, statement);
    } else {
        lone->wanted = mysql_stmt_store_result_start(&lone->result, statement);
    }
}

static void go_on_with_call(struct sb_mysql_connection *c, int occurred)
{
    struct sb_mysql_lone *lone = &c->lone;
    MYSQL_STMT *statement = statement_of(c);

    if (lone->stage == SB_MYSQL_PREPARE)
        lone->wanted = mysql_stmt_prepare_cont(&lone->result, statement, occurred);
    else if (lone->stage == SB_MYSQL_EXECUTE)
        lone->wanted = mysql_stmt_execute_cont(&lone->result, statement, occurred);
    else
        lone->wanted = mysql_stmt_store_result_cont(&lone->result, statement, occurred);
}

/* ---- Stages --------------------------------------------------------------------------------- */

/* Once a change has been made, nobody may hear that it has not. */
static int end_failed(struct sb_mysql_lone *lone, struct sb_sql_failure *failure)
{
    lone->over = true;
    lone->item->hit = false;
    if (lone->behind)
        failure->error.code = SIMBA_EUNKNOWN;
    return failure->error.code;
}

static int fail_call(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    struct sb_mysql_lone *lone = &c->lone;
    bool sent = lone->stage == SB_MYSQL_EXECUTE && sb_mysql_writes(lone->which);

    sb_mysql_fail_statement(c, statement_of(c), sent, failure);
    if (lone->stage == SB_MYSQL_PREPARE) {
        mysql_stmt_close(statement_of(c));
        c->statements[lone->which] = NULL;
    }
    return end_failed(lone, failure);
}

static int execute(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    if (!sb_mysql_bind(c, c->lone.which, &c->lone.item->values))
        return fail_call(c, failure);
    begin_call(c, SB_MYSQL_EXECUTE);
    return SIMBA_OK;
}

static int begin_statement(struct sb_mysql_connection *c, size_t which,
                           struct sb_sql_failure *failure)
{
    c->lone.which = which;
    c->lone.stage = SB_MYSQL_PREPARE;
    if (c->statements[which] != NULL)
        return execute(c, failure);
    c->statements[which] = mysql_stmt_init(c->mysql);
    if (c->statements[which] == NULL) {
        sb_mysql_fail_memory(failure);
        return end_failed(&c->lone, failure);
    }
    begin_call(c, SB_MYSQL_PREPARE);
    return SIMBA_OK;
}

/* Another one who has come in between is found out by the version; then it is asked for in the usual way. */
static int begin_acquire(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    struct sb_sql_values *values = &c->lone.item->values;

    values->version = sb_sql_left_expect(&c->left, values->mutex);
    return begin_statement(c, values->version != 0 ? SB_MYSQL_ACQUIRE_AGAIN : SB_SQL_ACQUIRE,
                           failure);
}

static int begin_item(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    if (c->lone.item->statement == SB_SQL_ACQUIRE)
        return begin_acquire(c, failure);
    return begin_statement(c, c->lone.item->statement, failure);
}

static void note_version(struct sb_mysql_connection *c, uint64_t version)
{
    sb_sql_left_note(&c->left, c->lone.item, version, c->base.version_max);
}

static void take_version(struct sb_mysql_connection *c, uint64_t version)
{
    sb_sql_item_set_record(c->lone.item, version);
    note_version(c, version);
}

static int take_change(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    struct sb_sql_item *item = c->lone.item;
    uint64_t version = sb_mysql_version_left(c, statement_of(c), c->lone.which, &item->values);

    item->hit = mysql_stmt_affected_rows(statement_of(c)) == 1;
    if (!item->hit && c->lone.which == SB_MYSQL_ACQUIRE_AGAIN)
        return begin_acquire(c, failure);
    c->lone.over = !item->hit || version != 0;
    if (item->hit && version != 0)
        take_version(c, version);
    if (c->lone.over)
        return SIMBA_OK;
    c->lone.behind = true;
    return begin_statement(c, SB_SQL_SELECT, failure);
}

/* The call of a stage has returned: what comes next? */
static int end_stage(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    struct sb_mysql_lone *lone = &c->lone;

    if (lone->result != 0)
        return fail_call(c, failure);
    if (lone->stage == SB_MYSQL_PREPARE)
        return execute(c, failure);
    if (lone->stage == SB_MYSQL_EXECUTE && sb_mysql_writes(lone->which))
        return take_change(c, failure);
    if (lone->stage == SB_MYSQL_EXECUTE) {
        begin_call(c, SB_MYSQL_STORE);
        return SIMBA_OK;
    }
    if (!sb_mysql_fetch_item(c, statement_of(c), lone->item))
        return fail_call(c, failure);
    if (lone->behind && lone->item->hit)
        note_version(c, lone->item->record.version);
    lone->over = true;
    return SIMBA_OK;
}

/* ---- The whole ------------------------------------------------------------------------------ */

static int advance(struct sb_mysql_connection *c, short *ret_wants, struct sb_sql_failure *failure)
{
    struct sb_mysql_lone *lone = &c->lone;
    int code = SIMBA_OK;

    while (!lone->over && lone->wanted == 0)
        code = end_stage(c, failure);
    lone->item->done = lone->over && code == SIMBA_OK;
    *ret_wants = lone->over ? 0 : sb_mysql_wanted_events(lone->wanted);
    return code;
}

int sb_mysql_lone_start(struct sb_sql_connection *connection, struct sb_sql_item *item,
                        short *ret_wants, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = (struct sb_mysql_connection *)connection;
    int code;

    *ret_wants = 0;
    if (sb_mysql_is_closed(c))
        return sb_mysql_fail_closed(failure);
    if (c->read_only && sb_mysql_writes(item->statement))
        return sb_mysql_fail_read_only(failure);
    c->lone = (struct sb_mysql_lone){.item = item};
    code = begin_item(c, failure);
    return code == SIMBA_OK ? advance(c, ret_wants, failure) : code;
}

/* The library looks for itself whether the socket is ready. */
int sb_mysql_lone_proceed(struct sb_sql_connection *connection, short *ret_wants,
                          struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = (struct sb_mysql_connection *)connection;

    go_on_with_call(c, c->lone.wanted & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE));
    return advance(c, ret_wants, failure);
}

int sb_mysql_lone_abandon(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = (struct sb_mysql_connection *)connection;

    while (c->lone.wanted != 0)
        go_on_with_call(c, sb_mysql_give_up(c));
    return fail_call(c, failure);
}
