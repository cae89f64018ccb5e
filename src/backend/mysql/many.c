/*
 * many.c - statements of the MySQL dialect that concern many rows at a time. Owns their text; must
 * not know what becomes of the rows.
 */
#include "backend/mysql/connection.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/text.h"

#include <string.h>

/* A row finds its own values by the place of its name among the names: elt(field(mutex, names),
 * values). Joining a table of values would be shorter, but its names would have a collation of
 * their own, which not every table's can be compared with. */

#define NOW SB_MYSQL_NOW
#define FIXED_MAX 2048 /* bytes of a statement but for its repetitions */
#define LISTS_MAX 5    /* of names or values in one statement */
#define FIXED_BINDS_MAX 3
#define PART_MAX sizeof("(?, ?, " SB_MYSQL_NOW_US " + ?, ?, 0, ''), ")

/* Without the hint all rows of a small table may be read for the sake of a few, and locked. */
#define UPDATE "UPDATE simba_mutex FORCE INDEX (PRIMARY) SET "
#define SET_TIMES(term) SB_MYSQL_SET_TIMES term ", version = version + 1 WHERE mutex IN ("
#define CLEAR_LEASE                                                                                \
    "owner_id = '', acquired_at = 0, ttl_at = 0, transition_at = 0,"                               \
    " version = least(version, ? - 1) + 1 WHERE mutex IN ("

struct many {
    struct sb_sql_item *const *items;
    size_t count;
    const uint64_t *version_max;
    bool has_terms;
    bool fair; /* heeds the queue: see SB_MYSQL_ACQUIRE_FAIR, SB_MYSQL_RELEASE_ALONE */
    struct sb_text text;
    MYSQL_BIND *binds;
    size_t bound;
    MYSQL_STMT *statement;
};

static void bind_number(struct many *m, const void *number)
{
    sb_mysql_bind_number(&m->binds[m->bound++], number);
}

static void add(struct many *m, const char *text)
{
    sb_sql_write_variant(&m->text, text, m->has_terms);
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

/* The rows as they were read get the next version, with which their terms begin. */
static void write_claim(struct many *m)
{
    add(m, UPDATE "{" SB_MYSQL_NEW_TERM ", |}version = version + 1 WHERE mutex IN (");
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
    add(m, "SELECT " SB_MYSQL_COLUMNS ", field(mutex, ");
    add_names(m);
    sb_text_add(&m->text, ") FROM simba_mutex FORCE INDEX (PRIMARY) WHERE mutex IN (");
    add_names(m);
    sb_text_add(&m->text, ")");
}

static void write_acquire(struct many *m)
{
    sb_text_add(&m->text, UPDATE "owner_id = ");
    add_own_id(m);
    sb_text_add(&m->text, ", " SET_TIMES(""));
    bind_lease(m);
    add_names(m);
    sb_text_add(&m->text, ") AND (%s OR ", m->fair ? SB_MYSQL_IS_FREE_FOR_ALL : SB_MYSQL_IS_FREE);
    add_is_owner(m);
    sb_text_add(&m->text, ") AND version < ?");
    bind_number(m, m->version_max);
}

static void write_guard(struct many *m)
{
    add(m, UPDATE SET_TIMES(SB_MYSQL_KEEP_TERM));
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
    if (m->fair)
        sb_text_add(&m->text, " AND " SB_MYSQL_NOT_MARKED);
}

/* Each a microsecond behind the one before, so that they stand in the order in which they came. */
static void write_join(struct many *m)
{
    sb_text_add(&m->text, SB_MYSQL_JOIN);
    for (size_t i = 0; i < m->count; i++) {
        const struct sb_sql_values *values = &m->items[i]->values;

        sb_text_add(&m->text, "%s(?, ?, " SB_MYSQL_NOW_US " + %zu, ?, 0, '')", i > 0 ? ", " : "",
                    i);
        sb_mysql_bind_text(&m->binds[m->bound++], values->mutex);
        sb_mysql_bind_text(&m->binds[m->bound++], values->id);
        sb_mysql_bind_text(&m->binds[m->bound++], values->client);
    }
    sb_text_add(&m->text, SB_MYSQL_KEEP_PLACE);
}

static void write_leave(struct many *m)
{
    sb_text_add(&m->text, "DELETE FROM " SB_MYSQL_WAITERS " WHERE (mutex, id) IN (");
    add_parts(m, "(?, ?)");
    sb_text_add(&m->text, ")");
    for (size_t i = 0; i < m->count; i++) {
        sb_mysql_bind_text(&m->binds[m->bound++], m->items[i]->values.mutex);
        sb_mysql_bind_text(&m->binds[m->bound++], m->items[i]->values.id);
    }
}

static void write_next(struct many *m)
{
    for (size_t i = 0; i < m->count; i++) {
        sb_text_add(&m->text,
                    "%s(SELECT %zu" SB_MYSQL_SELECT_NEXT SB_MYSQL_RESERVED
                    ") UNION ALL (SELECT %zu" SB_MYSQL_SELECT_NEXT SB_MYSQL_FIRST ")",
                    i > 0 ? " UNION ALL " : "", i + 1, i + 1);
        for (int part = 0; part < 2; part++)
            sb_mysql_bind_text(&m->binds[m->bound++], m->items[i]->values.mutex);
    }
}

static void write_passed(struct many *m)
{
    for (size_t i = 0; i < m->count; i++) {
        sb_text_add(&m->text, "%s(SELECT %zu" SB_MYSQL_SELECT_NEXT SB_MYSQL_PASSED ")",
                    i > 0 ? " UNION ALL " : "", i + 1);
        sb_mysql_bind_text(&m->binds[m->bound++], m->items[i]->values.mutex);
        sb_mysql_bind_text(&m->binds[m->bound++], m->items[i]->values.client);
    }
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
    m->has_terms = c->has_terms;
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
    const struct sb_sql_item *first = items[0];
    struct many m = {.items = items,
                     .count = count,
                     .fair = c->base.has_queue &&
                             (first->statement == SB_SQL_RELEASE || first->values.reserve_ms > 0)};
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

int sb_mysql_join_many(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                       size_t count, struct sb_sql_failure *failure)
{
    struct many m = {.items = items, .count = count};
    int code = run_many(c, &m, write_join, true, "", failure);

    close_many(&m);
    return code;
}

int sb_mysql_leave_many(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                        size_t count, int64_t *ret_count, struct sb_sql_failure *failure)
{
    struct many m = {.items = items, .count = count};
    int code = run_many(c, &m, write_leave, true, "", failure);

    if (code == SIMBA_OK)
        *ret_count = (int64_t)mysql_stmt_affected_rows(m.statement);
    close_many(&m);
    return code;
}

int sb_mysql_next_many(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                       size_t count, struct sb_sql_failure *failure)
{
    struct many m = {.items = items, .count = count};
    struct sb_mysql_next next;
    int code = run_many(c, &m, write_next, false, "", failure);

    if (code == SIMBA_OK && !sb_mysql_bind_next(m.statement, &next))
        code = sb_mysql_fail_statement(c, m.statement, false, failure);
    while (code == SIMBA_OK && sb_mysql_fetch_next(m.statement, &next))
        if (next.place >= 1 && next.place <= count)
            items[next.place - 1]->next[next.reserved_until_ms == 0] = next.waiter;
    close_many(&m);
    return code;
}

int sb_mysql_tell_passed(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure)
{
    const struct simba_backend_host *host = c->settings->host;
    struct many m = {.items = items, .count = count};
    struct sb_mysql_next next;
    int code = run_many(c, &m, write_passed, false, "", failure);

    if (code == SIMBA_OK && !sb_mysql_bind_next(m.statement, &next))
        code = sb_mysql_fail_statement(c, m.statement, false, failure);
    while (code == SIMBA_OK && sb_mysql_fetch_next(m.statement, &next))
        if (next.place >= 1 && next.place <= count)
            host->notice(host, SIMBA_NOTICE_RELEASED, items[next.place - 1]->values.mutex,
                         next.waiter.id);
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
