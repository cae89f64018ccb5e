/*
 * execute.c - runs the statements of the MySQL dialect on a connection, for one row or for many,
 * and takes in their rows. Owns the text of those for many; must not know what becomes of the rows.
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
    MYSQL_BIND binds[SB_MYSQL_ROW_COLUMNS + 1];

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
    take_text(&binds[SB_SQL_COLUMN_FENCE + 1], row->read_only, sizeof row->read_only,
              &row->read_only_length);
    take_number(&binds[SB_MYSQL_ROW_COLUMNS], &row->place);
    return mysql_stmt_field_count(statement) == columns &&
           mysql_stmt_bind_result(statement, binds) == 0;
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
    struct sb_text text;

    sb_text_init(&text, c->text, sizeof c->text);
    sb_text_add(&text, "%s%s", sb_mysql_statement_text(which),
                sb_mysql_updates(which) ? c->condition : "");
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

int sb_mysql_execute(struct sb_mysql_connection *c, enum sb_sql_statement which,
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

/* ---- Many rows ------------------------------------------------------------------------------- */

/* A row finds its own values by the place of its name among the names: elt(field(mutex, names),
 * values). Joining a table of values would be shorter, but its names would have a collation of
 * their own, which not every table's can be compared with. */

#define NOW SB_MYSQL_NOW
#define FIXED_MAX 2048 /* bytes of a statement but for its repetitions */
#define LISTS_MAX 5    /* of names or values in one statement */
#define FIXED_BINDS_MAX 3
#define PART_MAX sizeof(SB_MYSQL_FREE_ROW ", ")

/* Without the hint all rows of a small table may be read for the sake of a few, and locked. */
#define UPDATE "UPDATE simba_mutex FORCE INDEX (PRIMARY) SET "
#define SET_TIMES SB_MYSQL_SET_TIMES ", version = version + 1 WHERE mutex IN ("
#define CLEAR_LEASE                                                                                \
    "owner_id = '', acquired_at = 0, ttl_at = 0, transition_at = 0,"                               \
    " version = least(version, ? - 1) + 1 WHERE mutex IN ("

struct many {
    struct sb_sql_item *const *items;
    size_t count;
    const uint64_t *version_max;
    struct sb_text text;
    MYSQL_BIND *binds;
    size_t bound;
    MYSQL_STMT *statement;
};

static void bind_number(struct many *m, const void *number)
{
    sb_mysql_bind_number(&m->binds[m->bound++], number);
}

static void add_parts(struct many *m, const char *part)
{
    for (size_t i = 0; i < m->count; i++)
        sb_text_add(&m->text, "%s%s", i > 0 ? ", " : "", part);
}

static void add_names(struct many *m)
{
    add_parts(m, "?");
    for (size_t i = 0; i < m->count; i++)
        sb_mysql_bind_text(&m->binds[m->bound++], m->items[i]->values.mutex);
}

/* The row's own one of the values that are bound next. */
static void add_own(struct many *m)
{
    sb_text_add(&m->text, "elt(field(mutex, ");
    add_names(m);
    sb_text_add(&m->text, "), ");
    add_parts(m, "?");
    sb_text_add(&m->text, ")");
}

static void add_own_id(struct many *m)
{
    add_own(m);
    for (size_t i = 0; i < m->count; i++)
        sb_mysql_bind_text(&m->binds[m->bound++], m->items[i]->values.id);
}

static void add_own_version(struct many *m)
{
    sb_text_add(&m->text, "cast(");
    add_own(m);
    sb_text_add(&m->text, " AS unsigned)");
    for (size_t i = 0; i < m->count; i++)
        bind_number(m, &m->items[i]->values.version);
}

static void add_is_owner(struct many *m)
{
    sb_text_add(&m->text, SB_MYSQL_OWNER " = cast(");
    add_own_id(m);
    sb_text_add(&m->text, " AS binary)");
}

static void bind_lease(struct many *m)
{
    bind_number(m, &m->items[0]->values.ttl_ms);
    bind_number(m, &m->items[0]->values.lease_ms);
}

/* The rows as they were read get the next version. */
static void write_claim(struct many *m)
{
    sb_text_add(&m->text, UPDATE "version = version + 1 WHERE mutex IN (");
    add_names(m);
    sb_text_add(&m->text, ") AND ");
    add_is_owner(m);
    sb_text_add(&m->text, " AND version = ");
    add_own_version(m);
}

static void write_insert(struct many *m)
{
    sb_text_add(&m->text, SB_MYSQL_INSERT);
    add_parts(m, SB_MYSQL_FREE_ROW);
    sb_text_add(&m->text, SB_MYSQL_UNLESS_THERE);
    for (size_t i = 0; i < m->count; i++)
        sb_mysql_bind_text(&m->binds[m->bound++], m->items[i]->values.mutex);
}

static void write_select(struct many *m)
{
    sb_text_add(&m->text, "SELECT " SB_MYSQL_COLUMNS ", field(mutex, ");
    add_names(m);
    sb_text_add(&m->text, ") FROM simba_mutex FORCE INDEX (PRIMARY) WHERE mutex IN (");
    add_names(m);
    sb_text_add(&m->text, ")");
}

static void write_acquire(struct many *m)
{
    sb_text_add(&m->text, UPDATE "owner_id = ");
    add_own_id(m);
    sb_text_add(&m->text, ", " SET_TIMES);
    bind_lease(m);
    add_names(m);
    sb_text_add(&m->text, ") AND (transition_at < " NOW " OR ");
    add_is_owner(m);
    sb_text_add(&m->text, ") AND version < ?");
    bind_number(m, m->version_max);
}

static void write_guard(struct many *m)
{
    sb_text_add(&m->text, UPDATE SET_TIMES);
    bind_lease(m);
    add_names(m);
    sb_text_add(&m->text, ") AND transition_at > " NOW " AND version < ? AND ");
    bind_number(m, m->version_max);
    add_is_owner(m);
}

static void write_release(struct many *m)
{
    sb_text_add(&m->text, UPDATE CLEAR_LEASE);
    bind_number(m, m->version_max);
    add_names(m);
    sb_text_add(&m->text, ") AND ");
    add_is_owner(m);
    sb_text_add(&m->text, " AND version = ");
    add_own_version(m);
}

/* Writes, prepares and runs a statement, behind which stands `condition`. The caller closes
 * m->statement, which is NULL where there is none. */
static int run_many(struct sb_mysql_connection *c, struct many *m, void (*write)(struct many *),
                    bool writes, const char *condition, struct sb_sql_failure *failure)
{
    size_t size = FIXED_MAX + LISTS_MAX * m->count * PART_MAX;
    size_t binds = LISTS_MAX * m->count + FIXED_BINDS_MAX;
    char *buffer = sb_alloc(size);
    int code = SIMBA_ENOMEM;

    m->version_max = &c->base.version_max;
    m->binds = sb_alloc_zero(binds * sizeof *m->binds);
    if (buffer == NULL || m->binds == NULL) {
        sb_mysql_fail_memory(failure);
    } else {
        sb_text_init(&m->text, buffer, size);
        write(m);
        sb_text_add(&m->text, "%s", condition);
        SB_CHECK(!m->text.cut && m->bound <= binds, "a statement for many rows has its room");
        code = sb_mysql_prepare(c, buffer, &m->statement, failure);
    }
    if (code == SIMBA_OK)
        code = sb_mysql_run_bound(c, m->statement, m->binds, m->bound, writes, failure);
    sb_free(m->binds);
    sb_free(buffer);
    return code;
}

static void close_many(const struct many *m)
{
    if (m->statement != NULL)
        mysql_stmt_close(m->statement);
}

static int update(struct sb_mysql_connection *c, struct sb_sql_item *const *items, size_t count,
                  void (*write)(struct many *), int64_t *ret_count, struct sb_sql_failure *failure)
{
    struct many m = {.items = items, .count = count};
    int code = run_many(c, &m, write, true, c->condition, failure);

    if (code == SIMBA_OK)
        *ret_count = (int64_t)mysql_stmt_affected_rows(m.statement);
    close_many(&m);
    return code;
}

int sb_mysql_update_many(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                         size_t count, int64_t *ret_count, struct sb_sql_failure *failure)
{
    return update(c, items, count,
                  items[0]->statement == SB_SQL_ACQUIRE ? write_acquire
                  : items[0]->statement == SB_SQL_GUARD ? write_guard
                                                        : write_release,
                  ret_count, failure);
}

int sb_mysql_claim_many(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                        size_t count, int64_t *ret_count, struct sb_sql_failure *failure)
{
    return update(c, items, count, write_claim, ret_count, failure);
}

int sb_mysql_insert_many(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure)
{
    struct many m = {.items = items, .count = count};
    int code = run_many(c, &m, write_insert, true, "", failure);

    close_many(&m);
    return code;
}

/* A name that was asked for twice stands in the first place. */
static bool take_rows(struct sb_mysql_connection *c, const struct many *m)
{
    struct sb_mysql_row row;

    if (!sb_mysql_bind_row(m->statement, SB_MYSQL_ROW_COLUMNS + 1, &row))
        return false;
    while (sb_mysql_fetch_row(c, m->statement, &row)) {
        struct sb_sql_item *item;

        if (row.place < 1 || row.place > m->count)
            continue;
        item = m->items[row.place - 1];
        item->hit = true;
        item->record = row.record;
    }
    for (size_t i = 1; i < m->count; i++) {
        const struct sb_sql_item *first = m->items[i - 1];

        if (!first->hit || strcmp(first->values.mutex, m->items[i]->values.mutex) != 0)
            continue;
        m->items[i]->hit = true;
        m->items[i]->record = first->record;
    }
    return true;
}

int sb_mysql_select_many(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure)
{
    struct many m = {.items = items, .count = count};
    int code = run_many(c, &m, write_select, false, "", failure);

    if (code == SIMBA_OK && !take_rows(c, &m))
        code = sb_mysql_fail_statement(c, m.statement, false, failure);
    close_many(&m);
    return code;
}
