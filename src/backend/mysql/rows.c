/*
 * rows.c - what is done to single rows, one or many at a time. Owns what is learnt from the
 * answers; must not know the text of statements.
 */
#include "backend/mysql/connection.h"

#include "backend/sql/repository.h"
#include "base/alloc.h"
#include "base/check.h"

#include <string.h>

/* ---- Reads ----------------------------------------------------------------------------------- */

static int select_one(struct sb_mysql_connection *c, struct sb_sql_item *item,
                      struct sb_sql_failure *failure)
{
    MYSQL_STMT *statement = NULL;
    struct sb_mysql_row row;
    int code = sb_mysql_execute(c, SB_SQL_SELECT, &item->values, &statement, failure);

    if (code != SIMBA_OK)
        return code;
    if (!sb_mysql_bind_row(statement, SB_MYSQL_ROW_COLUMNS, &row))
        return sb_mysql_fail_statement(c, statement, false, failure);
    item->hit = sb_mysql_fetch_row(c, statement, &row);
    if (item->hit)
        item->record = row.record;
    mysql_stmt_free_result(statement);
    return SIMBA_OK;
}

/* Where two names can mean one row, a row that was found for one of them is missing for the
 * other. */
static int select_all(struct sb_mysql_connection *c, struct sb_sql_item *const *items, size_t count,
                      struct sb_sql_failure *failure)
{
    int code;

    if (count == 1)
        return select_one(c, items[0], failure);
    code = sb_mysql_select_many(c, items, count, failure);
    for (size_t i = 0; i < count && code == SIMBA_OK && !c->exact_names; i++)
        if (!items[i]->hit)
            code = select_one(c, items[i], failure);
    return code;
}

/* ---- Changes --------------------------------------------------------------------------------- */

/* Once a change has been made, no failure may say that it was not applied. */
static int fail_behind(struct sb_sql_failure *failure)
{
    failure->error.code = SIMBA_EUNKNOWN;
    return SIMBA_EUNKNOWN;
}

/* Where a trigger of the table keeps the version from us, it is read. */
static int change_one(struct sb_mysql_connection *c, struct sb_sql_item *item,
                      struct sb_sql_failure *failure)
{
    MYSQL_STMT *statement = NULL;
    uint64_t version;
    int code = sb_mysql_execute(c, item->statement, &item->values, &statement, failure);

    if (code != SIMBA_OK)
        return code;
    item->hit = mysql_stmt_affected_rows(statement) == 1;
    if (!item->hit)
        return SIMBA_OK;
    version = item->statement == SB_SQL_RELEASE
                  ? sb_mysql_next_version(item->values.version, c->base.version_max)
                  : mysql_stmt_insert_id(statement);
    if (version == 0)
        return select_one(c, item, failure) == SIMBA_OK ? SIMBA_OK : fail_behind(failure);
    sb_sql_item_set_record(item, version);
    return SIMBA_OK;
}

/* Whether a row that was read behind a change is as the change leaves it. At the last version
 * nothing is changed any more, and the row may have been so before. */
static bool is_changed(const struct sb_mysql_connection *c, const struct sb_sql_item *item)
{
    const struct sb_sql_record *record = &item->record;

    if (item->statement == SB_SQL_RELEASE)
        return record->owner_id[0] == '\0' && record->version == item->values.version + 1;
    return strcmp(record->owner_id, item->values.id) == 0 &&
           record->transition_at_ms > record->current_db_at_ms &&
           record->version < c->base.version_max;
}

/* Another contender may have the same id. Then a row with that id may have been read that is the
 * other one's term, and its version would be the token of both. So the rows get one more version,
 * if they still have the one that was read: that can succeed for one contender only. Where it does
 * not for all, each row is acquired by itself. */
static int claim(struct sb_mysql_connection *c, struct sb_sql_item *const *items, size_t count,
                 struct sb_sql_failure *failure)
{
    int64_t claimed = 0;

    for (size_t i = 0; i < count; i++)
        items[i]->values.version = items[i]->record.version;
    if (sb_mysql_claim_many(c, items, count, &claimed, failure) != SIMBA_OK)
        return fail_behind(failure);
    for (size_t i = 0; i < count; i++) {
        if ((size_t)claimed == count)
            sb_sql_item_set_record(items[i], items[i]->values.version + 1);
        else if (change_one(c, items[i], failure) != SIMBA_OK)
            return fail_behind(failure);
    }
    return SIMBA_OK;
}

static int claim_hits(struct sb_mysql_connection *c, struct sb_sql_item *const *items, size_t count,
                      struct sb_sql_failure *failure)
{
    struct sb_sql_item **hits = sb_alloc(count * sizeof(*hits));
    size_t hit = 0;
    int code = SIMBA_OK;

    if (hits == NULL) {
        sb_mysql_fail_memory(failure);
        return fail_behind(failure);
    }
    for (size_t i = 0; i < count; i++)
        if (items[i]->hit)
            hits[hit++] = items[i];
    if (hit > 0)
        code = claim(c, hits, hit, failure);
    sb_free(hits);
    return code;
}

/* The rows tell what became of the change: a lease with my id that runs. But where the server is
 * read-only and nothing was changed, that is why. */
static int change_many(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                       size_t count, struct sb_sql_failure *failure)
{
    int64_t changed = 0;
    int code = sb_mysql_update_many(c, items, count, &changed, failure);

    if (code != SIMBA_OK)
        return code;
    if (sb_mysql_select_many(c, items, count, failure) != SIMBA_OK)
        return fail_behind(failure);
    if (changed == 0 && c->read_only)
        return sb_mysql_fail_read_only(failure);
    for (size_t i = 0; i < count; i++)
        items[i]->hit = items[i]->hit && ((size_t)changed == count || is_changed(c, items[i]));
    return items[0]->statement == SB_SQL_ACQUIRE ? claim_hits(c, items, count, failure) : SIMBA_OK;
}

/* Those that one statement can change: of one kind, with one lease. Of one mutex only the first. */
static size_t pick(struct sb_sql_item *const *items, size_t count, struct sb_sql_item **picked)
{
    const struct sb_sql_item *first = items[0];
    size_t left = 0;

    for (size_t i = 0; i < count; i++) {
        const struct sb_sql_values *values = &items[i]->values;

        if (items[i]->statement == first->statement && values->ttl_ms == first->values.ttl_ms &&
            values->lease_ms == first->values.lease_ms &&
            (i == 0 || strcmp(values->mutex, items[i - 1]->values.mutex) != 0))
            picked[left++] = items[i];
    }
    return left;
}

static int change_some(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                       size_t count, struct sb_sql_failure *failure)
{
    struct sb_sql_item **picked = sb_alloc(count * sizeof(*picked));
    int code;

    if (picked == NULL)
        return sb_mysql_fail_memory(failure);
    count = pick(items, count, picked);
    code = count == 1 ? change_one(c, picked[0], failure) : change_many(c, picked, count, failure);
    for (size_t i = 0; i < count && code == SIMBA_OK; i++)
        picked[i]->done = true;
    sb_free(picked);
    return code;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* All of a call are of one kind: changes, reads or additions. A free row that is added does no harm
 * on a server that becomes read-only meanwhile. */
int sb_mysql_run_all(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                     size_t count, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = (struct sb_mysql_connection *)connection;
    int code;

    SB_CHECK(count > 0 && !c->in_transaction, "items run together outside of a transaction");
    if (sb_mysql_is_closed(c))
        return sb_mysql_fail_closed(failure);
    if (c->read_only && sb_mysql_writes(items[0]->statement))
        return sb_mysql_fail_read_only(failure);
    if (items[0]->statement == SB_SQL_SELECT)
        code = select_all(c, items, count, failure);
    else if (items[0]->statement != SB_SQL_INSERT_IF_MISSING)
        return change_some(c, items, count, failure);
    else
        code = sb_mysql_check_writable(c, failure);
    if (code == SIMBA_OK && items[0]->statement == SB_SQL_INSERT_IF_MISSING)
        code = sb_mysql_insert_many(c, items, count, failure);
    for (size_t i = 0; i < count && code == SIMBA_OK; i++)
        items[i]->done = true;
    return code;
}
