/*
 * rows.c - what is done to single rows, one or many at a time. Owns what is learnt from the
 * answers; must not know the text of statements.
 */
#include "backend/mysql/connection.h"

#include "backend/sql/repository.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/time.h"

#include <string.h>

/* ---- Reads ----------------------------------------------------------------------------------- */

/* A reservation holds for others. The row's last column tells of one for this id. */
static void take_record(struct sb_sql_item *item, const struct sb_mysql_row *row, bool with_place)
{
    struct sb_sql_record *record = &item->record;

    *record = row->record;
    record->reserved_until_ms = 0;
    record->place = (int64_t)row->place;
    if (with_place && !sb_sql_record_is_owned(record) &&
        record->acquired_at_ms > record->current_db_at_ms &&
        record->acquired_at_ms <= sb_later(record->current_db_at_ms, SB_MYSQL_RESERVED_MAX_MS) &&
        row->record.reserved_until_ms <= record->current_db_at_ms)
        record->reserved_until_ms = record->acquired_at_ms;
}

static int select_row(struct sb_mysql_connection *c, struct sb_sql_item *item, bool with_place,
                      struct sb_sql_failure *failure)
{
    MYSQL_STMT *statement = NULL;
    struct sb_mysql_row row;
    int code = sb_mysql_execute(c, with_place ? SB_SQL_SELECT_PLACE : SB_SQL_SELECT, &item->values,
                                &statement, failure);

    if (code != SIMBA_OK)
        return code;
    if (!sb_mysql_bind_row(statement, SB_MYSQL_ROW_COLUMNS + (with_place ? 2 : 0), &row))
        return sb_mysql_fail_statement(c, statement, false, failure);
    item->hit = sb_mysql_fetch_row(c, statement, &row);
    mysql_stmt_free_result(statement);
    if (item->hit)
        take_record(item, &row, with_place);
    return SIMBA_OK;
}

static int select_one(struct sb_mysql_connection *c, struct sb_sql_item *item,
                      struct sb_sql_failure *failure)
{
    return select_row(c, item, false, failure);
}

/* With the place in the queue. A waiter has the owner's release look for waiters by a mark: see
 * queue.c. Where that comes too late, the record is read once more. */
static int read_place(struct sb_mysql_connection *c, struct sb_sql_item *item,
                      struct sb_sql_failure *failure)
{
    const struct sb_sql_record *record = &item->record;
    MYSQL_STMT *statement = NULL;
    int code = select_row(c, item, true, failure);

    if (code != SIMBA_OK || !item->hit || record->place == 0 || !sb_sql_record_is_owned(record) ||
        record->acquired_at_ms % 2 != 0)
        return code;
    code = sb_mysql_execute(c, SB_MYSQL_MARK, &item->values, &statement, failure);
    if (code == SIMBA_OK && mysql_stmt_affected_rows(statement) == 0)
        code = select_row(c, item, true, failure);
    return code;
}

/* Those that meet a lock are for another call. */
static int read_places(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                       size_t count, struct sb_sql_failure *failure)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < count && code == SIMBA_OK; i++) {
        code = read_place(c, items[i], failure);
        items[i]->done = code == SIMBA_OK;
    }
    return code;
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

static size_t choose_statement(const struct sb_mysql_connection *c, const struct sb_sql_item *item)
{
    const struct sb_sql_values *values = &item->values;

    if (!c->base.has_queue || values->client == NULL)
        return item->statement;
    if (item->statement == SB_SQL_ACQUIRE)
        return values->queued           ? SB_MYSQL_ACQUIRE_QUEUED
               : values->reserve_ms > 0 ? SB_MYSQL_ACQUIRE_FAIR
                                        : SB_SQL_ACQUIRE;
    if (item->statement == SB_SQL_RELEASE)
        return values->joins ? SB_MYSQL_RELEASE_ON : SB_MYSQL_RELEASE_ALONE;
    return item->statement;
}

/* Sets `hit`. The row of a waiter that is changed with it counts, too. A release that is not
 * carried out may be so because others wait. */
static int change_row(struct sb_mysql_connection *c, struct sb_sql_item *item,
                      MYSQL_STMT **ret_statement, struct sb_sql_failure *failure)
{
    size_t which = choose_statement(c, item);
    int code = sb_mysql_execute(c, which, &item->values, ret_statement, failure);

    if (code == SIMBA_OK && which == SB_MYSQL_RELEASE_ALONE &&
        mysql_stmt_affected_rows(*ret_statement) == 0) {
        which = SB_MYSQL_RELEASE_ON;
        code = sb_mysql_execute(c, which, &item->values, ret_statement, failure);
    }
    if (code != SIMBA_OK)
        return code;
    item->hit = mysql_stmt_affected_rows(*ret_statement) > 0;
    if (item->hit && which == SB_MYSQL_RELEASE_ON)
        sb_mysql_wake_next(c, item);
    return SIMBA_OK;
}

static bool is_beaten(const struct sb_sql_item *item)
{
    const struct sb_sql_record *record = &item->record;

    if (sb_sql_record_is_owned(record))
        return strcmp(record->owner_id, item->values.id) != 0;
    return item->values.reserve_ms > 0 && record->reserved_until_ms > 0;
}

/* In a crowd most attempts fail. They look first: an UPDATE locks the row also where it changes
 * nothing, and holds up the contender whose turn it is. Sets `read` where it cannot win. */
static int look_first(struct sb_mysql_connection *c, struct sb_sql_item *item,
                      struct sb_sql_failure *failure)
{
    int code = read_place(c, item, failure);
    bool beaten = code == SIMBA_OK && item->hit && is_beaten(item);

    if (beaten && item->record.place == 0 && item->values.joins) {
        code = sb_mysql_join(c, &item, 1, failure);
        if (code == SIMBA_OK)
            code = read_place(c, item, failure);
        item->joined = true;
    }
    item->read = beaten && item->hit;
    item->hit = false;
    return code;
}

static bool looks_first(struct sb_mysql_connection *c, const struct sb_sql_item *item)
{
    if (item->statement != SB_SQL_ACQUIRE || !c->base.has_queue || item->values.client == NULL)
        return false;
    return item->values.joins || (item->values.queued && !sb_mysql_is_called(c, item));
}

/* Where a trigger of the table keeps the version from us, it is read. */
static int change_one(struct sb_mysql_connection *c, struct sb_sql_item *item,
                      struct sb_sql_failure *failure)
{
    MYSQL_STMT *statement = NULL;
    struct sb_sql_failure ignored; /* a place that stays costs the others a reservation */
    uint64_t version;
    int code = looks_first(c, item) ? look_first(c, item, failure) : SIMBA_OK;

    if (code == SIMBA_OK && !item->read)
        code = change_row(c, item, &statement, failure);
    if (code != SIMBA_OK || !item->hit)
        return code;
    version = item->statement == SB_SQL_RELEASE
                  ? sb_mysql_next_version(item->values.version, c->base.version_max)
                  : mysql_stmt_insert_id(statement);
    if (item->statement == SB_SQL_RELEASE && item->values.queued && c->base.has_queue)
        item->left =
            sb_mysql_execute(c, SB_SQL_LEAVE, &item->values, &statement, &ignored) == SIMBA_OK;
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

/* Whether a row that was read behind a release is as it was before. */
static bool is_held_still(const struct sb_sql_item *item)
{
    const struct sb_sql_record *record = &item->record;

    return item->hit && record->version == item->values.version &&
           strcmp(record->owner_id, item->values.id) == 0;
}

/* A row that is neither as a release leaves it nor as it was before has another owner: the release
 * was carried out and another contender was quick, or the lease was lost before. How many releases
 * were carried out tells which it is, where it is the same for all such rows. */
static int tell_released(const struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                         size_t count, size_t changed, struct sb_sql_failure *failure)
{
    size_t certain = 0;
    size_t open = 0;

    for (size_t i = 0; i < count; i++) {
        bool released = items[i]->hit && is_changed(c, items[i]);

        certain += released;
        open += !released && !is_held_still(items[i]);
    }
    for (size_t i = 0; i < count; i++)
        items[i]->hit = !is_held_still(items[i]) &&
                        (changed == certain + open || (items[i]->hit && is_changed(c, items[i])));
    if (changed == certain || changed == certain + open)
        return SIMBA_OK;
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_set(&failure->error, SIMBA_EUNKNOWN,
                        "MySQL: of several releases some were carried out");
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
    if (items[0]->statement == SB_SQL_RELEASE)
        return tell_released(c, items, count, (size_t)changed, failure);
    for (size_t i = 0; i < count; i++)
        items[i]->hit = items[i]->hit && ((size_t)changed == count || is_changed(c, items[i]));
    return items[0]->statement == SB_SQL_ACQUIRE ? claim_hits(c, items, count, failure) : SIMBA_OK;
}

/* Whether a statement for many rows can carry it out. A release that waiters are to be told of
 * goes by itself. */
static bool is_plain(const struct sb_mysql_connection *c, const struct sb_sql_item *item)
{
    size_t which = choose_statement(c, item);

    return which != SB_MYSQL_ACQUIRE_QUEUED && which != SB_MYSQL_RELEASE_ON;
}

/* Those that one statement can change: of one kind, with one lease. Of one mutex only the first,
 * but all that leave. */
static size_t pick(const struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                   size_t count, struct sb_sql_item **picked)
{
    const struct sb_sql_item *first = items[0];
    bool leaves = first->statement == SB_SQL_LEAVE;
    size_t left = 0;

    for (size_t i = 0; i < count; i++) {
        const struct sb_sql_values *values = &items[i]->values;

        if (items[i]->statement == first->statement && values->ttl_ms == first->values.ttl_ms &&
            values->lease_ms == first->values.lease_ms &&
            values->reserve_ms == first->values.reserve_ms &&
            (i == 0 || leaves ||
             (strcmp(values->mutex, items[i - 1]->values.mutex) != 0 && is_plain(c, first) &&
              is_plain(c, items[i]))))
            picked[left++] = items[i];
    }
    return left;
}

/* Releases of mutexes that others wait for are left out by the statement for many. They are for
 * another call, unless there are no others. */
static int release_many(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                        size_t count, struct sb_sql_failure *failure)
{
    int code = change_many(c, items, count, failure);
    size_t hit = 0;

    for (size_t i = 0; i < count && code == SIMBA_OK; i++) {
        items[i]->done = items[i]->hit;
        items[i]->values.joins = !items[i]->hit;
        hit += items[i]->hit;
    }
    if (code != SIMBA_OK || hit > 0)
        return code;
    code = change_one(c, items[0], failure);
    items[0]->done = code == SIMBA_OK;
    return code;
}

static int change_picked(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure)
{
    int code;

    if (items[0]->statement == SB_SQL_RELEASE && c->base.has_queue && count > 1)
        return release_many(c, items, count, failure);
    code = items[0]->statement == SB_SQL_LEAVE ? sb_mysql_leave(c, items, count, failure)
           : count == 1                        ? change_one(c, items[0], failure)
                                               : change_many(c, items, count, failure);
    for (size_t i = 0; i < count && code == SIMBA_OK; i++)
        items[i]->done = true;
    return code;
}

static int change_some(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                       size_t count, struct sb_sql_failure *failure)
{
    struct sb_sql_item **picked = sb_alloc(count * sizeof(*picked));
    int code;

    if (picked == NULL)
        return sb_mysql_fail_memory(failure);
    count = pick(c, items, count, picked);
    code = change_picked(c, picked, count, failure);
    sb_free(picked);
    return code;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* How many items at the beginning have the statement of the first. */
static size_t count_alike(struct sb_sql_item *const *items, size_t count)
{
    size_t alike = 1;

    while (alike < count && items[alike]->statement == items[0]->statement)
        alike++;
    return alike;
}

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
    switch (items[0]->statement) {
    case SB_SQL_SELECT_PLACE:
        return read_places(c, items, count_alike(items, count), failure);
    case SB_SQL_SELECT:
        count = count_alike(items, count);
        code = select_all(c, items, count, failure);
        break;
    case SB_SQL_JOIN:
        code = sb_mysql_join(c, items, count, failure);
        break;
    case SB_SQL_INSERT_IF_MISSING:
        code = sb_mysql_check_writable(c, failure);
        if (code == SIMBA_OK)
            code = sb_mysql_insert_many(c, items, count, failure);
        break;
    default:
        return change_some(c, items, count, failure);
    }
    for (size_t i = 0; i < count && code == SIMBA_OK; i++)
        items[i]->done = true;
    return code;
}
