/*
 * many.c - statements whose length depends on the number of their rows. Owns their text; must not
 * know what becomes of the rows.
 *
 * A row finds its own values by the place of its name among the names: elt(field(mutex, names),
 * values). Joining a table of values would be shorter, but its names would have a collation of
 * their own, which not every table's can be compared with.
 */
#include "backend/mysql/execute.h"

#include "backend/mysql/failure.h"
#include "base/alloc.h"
#include "base/text.h"

#include <string.h>

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
    char *buffer;
    struct sb_text text;
    const uint64_t *version_max;
    MYSQL_BIND *binds;
    size_t bound;
    MYSQL_STMT *statement;
};

static void end(struct many *m)
{
    if (m->statement != NULL)
        mysql_stmt_close(m->statement);
    sb_free(m->binds);
    sb_free(m->buffer);
}

static bool begin(struct many *m, const struct sb_mysql_connection *c,
                  struct sb_sql_item *const *items, size_t count)
{
    size_t size = FIXED_MAX + LISTS_MAX * count * PART_MAX;

    *m = (struct many){.items = items, .count = count, .version_max = &c->base.version_max};
    m->buffer = sb_alloc(size);
    m->binds = sb_alloc_zero((LISTS_MAX * count + FIXED_BINDS_MAX) * sizeof *m->binds);
    if (m->buffer != NULL)
        sb_text_init(&m->text, m->buffer, size);
    return m->buffer != NULL && m->binds != NULL;
}

static int run(struct sb_mysql_connection *c, struct many *m, bool writes,
               struct sb_sql_failure *failure)
{
    int code = sb_mysql_prepare(c, m->buffer, &m->statement, failure);

    if (code != SIMBA_OK)
        return code;
    return sb_mysql_run_bound(c, m->statement, m->binds, m->bound, writes, failure);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

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
        sb_mysql_bind_number(&m->binds[m->bound++], &m->items[i]->values.version);
}

static void add_is_owner(struct many *m)
{
    sb_text_add(&m->text, SB_MYSQL_OWNER " = cast(");
    add_own_id(m);
    sb_text_add(&m->text, " AS binary)");
}

static void bind_lease(struct many *m)
{
    sb_mysql_bind_number(&m->binds[m->bound++], &m->items[0]->values.ttl_ms);
    sb_mysql_bind_number(&m->binds[m->bound++], &m->items[0]->values.lease_ms);
}

static void bind_version_max(struct many *m)
{
    sb_mysql_bind_number(&m->binds[m->bound++], m->version_max);
}

/* ---- Statements ------------------------------------------------------------------------------ */

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
    bind_version_max(m);
}

static void write_guard(struct many *m)
{
    sb_text_add(&m->text, UPDATE SET_TIMES);
    bind_lease(m);
    add_names(m);
    sb_text_add(&m->text, ") AND transition_at > " NOW " AND version < ? AND ");
    bind_version_max(m);
    add_is_owner(m);
}

static void write_release(struct many *m)
{
    sb_text_add(&m->text, UPDATE CLEAR_LEASE);
    bind_version_max(m);
    add_names(m);
    sb_text_add(&m->text, ") AND ");
    add_is_owner(m);
    sb_text_add(&m->text, " AND version = ");
    add_own_version(m);
}

static int update(struct sb_mysql_connection *c, struct sb_sql_item *const *items, size_t count,
                  void (*write)(struct many *), int64_t *ret_count, struct sb_sql_failure *failure)
{
    struct many m;
    int code = SIMBA_ENOMEM;

    if (!begin(&m, c, items, count)) {
        sb_mysql_fail_memory(failure);
    } else {
        write(&m);
        sb_text_add(&m.text, "%s", c->condition);
        code = run(c, &m, true, failure);
    }
    if (code == SIMBA_OK)
        *ret_count = (int64_t)mysql_stmt_affected_rows(m.statement);
    end(&m);
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
    struct many m;
    int code = SIMBA_ENOMEM;

    if (!begin(&m, c, items, count)) {
        sb_mysql_fail_memory(failure);
    } else {
        sb_text_add(&m.text, SB_MYSQL_INSERT);
        add_parts(&m, SB_MYSQL_FREE_ROW);
        sb_text_add(&m.text, SB_MYSQL_UNLESS_THERE);
        for (size_t i = 0; i < count; i++)
            sb_mysql_bind_text(&m.binds[m.bound++], items[i]->values.mutex);
        code = run(c, &m, true, failure);
    }
    end(&m);
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
    struct many m;
    int code = SIMBA_ENOMEM;

    if (!begin(&m, c, items, count)) {
        sb_mysql_fail_memory(failure);
    } else {
        sb_text_add(&m.text, "SELECT " SB_MYSQL_COLUMNS ", field(mutex, ");
        add_names(&m);
        sb_text_add(&m.text, ") FROM simba_mutex FORCE INDEX (PRIMARY) WHERE mutex IN (");
        add_names(&m);
        sb_text_add(&m.text, ")");
        code = run(c, &m, false, failure);
    }
    if (code == SIMBA_OK && !take_rows(c, &m))
        code = sb_mysql_fail_statement(c, m.statement, false, failure);
    end(&m);
    return code;
}
