/*
 * queue.c - what is done to a mutex that others wait for, each in one transaction. Must not know
 * requests, nor how a waiter is woken.
 *
 *     acquire    nobody waits, or it is reserved for this one: one statement. Otherwise: heed the
 *                reservation, and either win and leave the queue, or join it
 *     release    nobody waits: one statement. Otherwise: free the mutex, and hand it on
 *     leave      leave the queue, and hand the mutex on where it is free
 *
 * To hand on is to reserve the mutex for the first waiter that is not known to be dead. A
 * reservation only says which contender may try. The record decides who owns: every statement that
 * changes it has the whole condition.
 *
 * The column `queued` of the mutex is 0 only where no row of simba_waiter is of that mutex. So
 * one statement finds out that nobody waits without a look at another table.
 */
#include "backend/sqlite/connection.h"

#include "base/text.h"

#include <string.h>

struct change {
    struct sb_sqlite_connection *connection;
    const struct sb_sql_values *values;
    const struct sb_sql_sink *sink;
    struct sb_sql_failure *failure;
    int64_t count; /* of the rows of simba_mutex that it has changed */
};

static int run_one(struct change *change, int which, const struct sb_sql_sink *sink,
                   int64_t *ret_count)
{
    return sb_sqlite_run_one(change->connection, which, change->values, sink, ret_count,
                             change->failure);
}

/* Runs the steps in a transaction, unless there is one already. */
static int run_together(struct change *change, int (*steps)(struct change *change))
{
    struct sb_sql_connection *base = &change->connection->base;
    bool alone = sqlite3_get_autocommit(change->connection->db) != 0;
    int code = alone ? base->driver->begin(base, change->failure) : SIMBA_OK;

    if (code != SIMBA_OK)
        return code;
    code = steps(change);
    if (alone && code == SIMBA_OK)
        code = base->driver->commit(base, change->failure);
    if (alone && code != SIMBA_OK)
        base->driver->rollback(base);
    return code;
}

/* ---- The changes ----------------------------------------------------------------------------- */

static int keep_record(void *user, const struct sb_sql_record *record)
{
    *(struct sb_sql_record *)user = *record;
    return SIMBA_OK;
}

/* Whether the claim has to wait: another contender owns, or the mutex is reserved for one. */
static bool has_to_wait(const struct change *change, const struct sb_sql_record *record)
{
    bool owned =
        record->owner_id[0] != '\0' && record->transition_at_ms >= record->current_db_at_ms;

    return owned ? strcmp(record->owner_id, change->values->id) != 0
                 : change->values->reserve_ms > 0 && record->reserved_until_ms > 0;
}

/* Rows of those that have had their turn are deleted before this, so the mark of these can be
 * moved. Where the mutex is reserved for one that came later, that one must not count as the last
 * of them when it wins. */
static int come_back(struct change *change, bool *ret_came)
{
    int64_t count = 0;
    int code = run_one(change, SB_SQLITE_COME_BACK, NULL, &count);

    *ret_came = count > 0;
    return code == SIMBA_OK && count > 0 ? run_one(change, SB_SQLITE_MAKE_ROOM, NULL, NULL) : code;
}

static int enter(struct change *change)
{
    bool came_back = false;
    int code = run_one(change, SB_SQLITE_DELETE_SERVED, NULL, NULL);

    if (code == SIMBA_OK && change->values->queued)
        code = come_back(change, &came_back);
    if (code == SIMBA_OK && !came_back)
        code = run_one(change, SB_SQL_JOIN, NULL, NULL);
    return code == SIMBA_OK ? run_one(change, SB_SQLITE_SET_QUEUED, NULL, NULL) : code;
}

/* A place that the client does not know of may be one of an earlier client: then it is taken over.
 * A mutex that is missing is told by no row. */
static int join(struct change *change)
{
    struct sb_sql_record record = {.place = 0};
    const struct sb_sql_sink keep = {.row = keep_record, .user = &record};
    int64_t found = 0;
    int code = run_one(change, SB_SQL_SELECT_PLACE, &keep, &found);

    change->connection->crowded = true;
    if (code == SIMBA_OK && found > 0 && (record.place == 0 || !change->values->queued) &&
        has_to_wait(change, &record)) {
        code = enter(change);
        if (code == SIMBA_OK)
            code = run_one(change, SB_SQL_SELECT_PLACE, &keep, &found);
    }
    if (code != SIMBA_OK || found == 0 || change->sink == NULL)
        return code;
    return change->sink->row(change->sink->user, &record);
}

/* Each release passes over the dead. They are deleted in the next transaction that has several
 * statements anyway. */
static int delete_gone(struct change *change)
{
    if (!change->connection->met_gone)
        return SIMBA_OK;
    change->connection->met_gone = false;
    return run_one(change, SB_SQLITE_DELETE_GONE, NULL, NULL);
}

/* A waiter that the mutex was reserved for in vain is out of the queue until it asks again. */
static int take_out_lapsed(struct change *change)
{
    struct sb_sqlite_connection *c = change->connection;
    const struct sb_sql_values values = {.mutex = change->values->mutex, .id = c->lapsed};

    if (c->lapsed[0] == '\0')
        return SIMBA_OK;
    return sb_sqlite_run_one(c, SB_SQLITE_LAPSE, &values, NULL, NULL, change->failure);
}

static int acquire_queued(struct change *change)
{
    int code = delete_gone(change);

    if (code == SIMBA_OK)
        code = run_one(change, SB_SQLITE_ACQUIRE_QUEUED, change->sink, &change->count);
    if (code != SIMBA_OK)
        return code;
    if (change->count == 0)
        return change->values->client != NULL ? join(change) : SIMBA_OK;
    code = run_one(change, SB_SQL_LEAVE, NULL, NULL);
    return code == SIMBA_OK ? take_out_lapsed(change) : code;
}

/* The waiters that the last statement has noted. With two waiters the second is also the last, and
 * is told once. */
static void tell_next(const struct change *change)
{
    const struct sb_sqlite_connection *c = change->connection;
    struct sb_sql_waiter *next = change->sink != NULL ? change->sink->next : NULL;

    if (next == NULL || c->next_count == 0)
        return;
    next[SB_SQL_FIRST] = c->next[SB_SQL_FIRST];
    if (c->next_count == 1 || change->values->reserve_ms == 0)
        return;
    next[SB_SQL_SECOND] = c->next[SB_SQL_SECOND];
    if (strcmp(c->next[SB_SQL_LAST].id, c->next[SB_SQL_SECOND].id) != 0)
        next[SB_SQL_LAST] = c->next[SB_SQL_LAST];
}

static int release(struct change *change)
{
    struct sb_sqlite_connection *c = change->connection;
    int code = run_one(change, SB_SQL_RELEASE, change->sink, &change->count);

    if (code != SIMBA_OK)
        return code;
    c->crowded = c->next_count > 0;
    if (change->count > 0)
        tell_next(change);
    return change->values->queued ? run_one(change, SB_SQL_LEAVE, NULL, NULL) : SIMBA_OK;
}

static int leave(struct change *change)
{
    int code = run_one(change, SB_SQL_LEAVE, NULL, NULL);

    if (code == SIMBA_OK)
        code = delete_gone(change);
    if (code == SIMBA_OK)
        code = run_one(change, SB_SQLITE_LAPSE_FIRST, NULL, NULL);
    if (code == SIMBA_OK)
        code = run_one(change, SB_SQLITE_HAND_ON, NULL, &change->count);
    if (code == SIMBA_OK && change->count > 0)
        tell_next(change);
    return code == SIMBA_OK ? run_one(change, SB_SQLITE_SET_QUEUED, NULL, NULL) : code;
}

/* One statement is enough where nobody waits, and for the waiter that it is reserved for. That one
 * moves the head of the queue, and the next that joins deletes its row. */
static int acquire(struct change *change)
{
    int code = SIMBA_OK;

    if (change->values->queued)
        code = run_one(change, SB_SQLITE_ACQUIRE_RESERVED, change->sink, &change->count);
    else if (!change->connection->crowded)
        code = run_one(change, SB_SQL_ACQUIRE, change->sink, &change->count);
    if (code != SIMBA_OK || change->count > 0)
        return code;
    return run_together(change, acquire_queued);
}

static int run(struct change *change, enum sb_sql_statement which)
{
    if (which == SB_SQL_ACQUIRE)
        return acquire(change);
    if (which == SB_SQL_RELEASE)
        return change->values->queued ? run_together(change, release) : release(change);
    if (which == SB_SQL_LEAVE)
        return run_together(change, leave);
    return run_one(change, which, change->sink, &change->count);
}

/* Whether a write has failed because the disk is full, and may succeed now. */
static bool has_room_again(const struct change *change)
{
    struct sb_sqlite_connection *c = change->connection;

    return change->failure->error.backend_code == SQLITE_FULL && sqlite3_get_autocommit(c->db) &&
           sb_sqlite_log_make_room(c, change->failure);
}

int sb_sqlite_run(struct sb_sql_connection *connection, enum sb_sql_statement which,
                  const struct sb_sql_values *values, const struct sb_sql_sink *sink,
                  int64_t *ret_count, struct sb_sql_failure *failure)
{
    struct sb_sqlite_connection *c = (struct sb_sqlite_connection *)connection;
    struct change change = {c, values, sink, failure, 0};
    int code = run(&change, which);

    if (code != SIMBA_OK && has_room_again(&change)) {
        change.count = 0;
        code = run(&change, which);
    }
    if (c->log_moved && sqlite3_get_autocommit(c->db))
        sb_sqlite_log_begin(c);
    if (code == SIMBA_OK && ret_count != NULL)
        *ret_count = change.count;
    return code;
}
