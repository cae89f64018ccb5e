/*
 * queue.c - the queue of contenders that wait for a mutex: entering, leaving, handing on. Owns
 * which waiter is told what; must not know the text of statements, nor how a client sleeps.
 *
 *     release, not marked     one plain statement
 *     release, marked         one statement frees the row and reserves it for the first of the
 *                             queue; then its client is woken, and that of the second
 *     leave                   the row is deleted; then a free mutex is handed on
 *
 * The row of the mutex says what an uncontended request has to know, in the column acquired_at,
 * whose values other libraries show at most:
 *
 *     owned    its lowest bit is the mark: others wait. Acquires and renewals keep it, so it is
 *              half a millisecond off at the mean
 *     free     0, or the end of a reservation with the mark. Whom it is for says simba_waiter
 *
 * No waiter is overlooked. One that has entered the queue reads the row, and marks it if it is
 * owned and not marked. A release that is not marked by then is committed, and that is seen. A
 * release that is marked looks at the queue once more when it is committed:
 *
 *     release    look at the queue, free the row, commit      look again
 *     waiter                          enter, commit     read the row
 *
 * Either the second look comes after the waiter's commit, or the waiter's read after the release's.
 *
 * Rows whose reservation is over count for nothing, but a contender that joins within five seconds
 * has its old place, unless it has won. It uses its row again; others are deleted by a release now
 * and then.
 */
#include "backend/mysql/connection.h"

#include "backend/sql/repository.h"
#include "base/random.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

#define NAME_PREFIX "simba_"
#define NAME_DIGITS 16
#define FORGET_EVERY 64 /* times that a connection hands on, rows that count for nothing go */

/* ---- Names ----------------------------------------------------------------------------------- */

void sb_mysql_name_client(char ret_client[SB_SQL_CLIENT_MAX + 1])
{
    struct sb_text text;

    sb_text_init(&text, ret_client, SB_SQL_CLIENT_MAX + 1);
    sb_text_add(&text, NAME_PREFIX "%016" PRIx64, sb_random_seed());
}

/* The table is read here, and others write to it. */
bool sb_mysql_is_client(const char *name)
{
    const char *digits = name + strlen(NAME_PREFIX);

    return strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) == 0 && strlen(digits) == NAME_DIGITS &&
           strspn(digits, "0123456789abcdef") == NAME_DIGITS;
}

/* ---- Waking ---------------------------------------------------------------------------------- */

void sb_mysql_wake(struct sb_mysql_connection *c, const char *client)
{
    char buffer[sizeof "KILL QUERY IS_USED_LOCK('')" + SB_SQL_CLIENT_MAX];
    struct sb_text text;

    if (!sb_mysql_is_client(client))
        return;
    sb_text_init(&text, buffer, sizeof buffer);
    sb_text_add(&text, "KILL QUERY IS_USED_LOCK('%s')", client);
    sb_mysql_call_query(c, buffer);
}

/* ---- Handing on ------------------------------------------------------------------------------ */

int sb_mysql_next_one(struct sb_mysql_connection *c, struct sb_sql_item *item,
                      struct sb_sql_failure *failure)
{
    MYSQL_STMT *statement = NULL;
    struct sb_mysql_next next;
    int code = sb_mysql_execute(c, SB_MYSQL_NEXT, &item->values, &statement, failure);

    memset(item->next, 0, sizeof item->next);
    if (code != SIMBA_OK)
        return code;
    if (!sb_mysql_bind_next(statement, &next))
        return sb_mysql_fail_statement(c, statement, false, failure);
    while (sb_mysql_fetch_next(statement, &next))
        item->next[next.reserved_until_ms == 0] = next.waiter;
    mysql_stmt_free_result(statement);
    return SIMBA_OK;
}

/* The second look. A waiter that has come meanwhile is in the queue, and nothing is reserved. */
static int reserve_late(struct sb_mysql_connection *c, struct sb_sql_item *item,
                        struct sb_sql_failure *failure)
{
    MYSQL_STMT *statement = NULL;
    int code;

    if (item->next[0].id[0] != '\0' || item->next[1].id[0] == '\0')
        return SIMBA_OK;
    code = sb_mysql_execute(c, SB_MYSQL_HAND_ON, &item->values, &statement, failure);
    return code == SIMBA_OK ? sb_mysql_next_one(c, item, failure) : code;
}

/* One call wakes all waiters of a client; this client needs none. A failure costs the waiters a
 * poll; and a connection that is lost is found out by the next statement. */
void sb_mysql_wake_next(struct sb_mysql_connection *c, struct sb_sql_item *item)
{
    const struct sb_sql_waiter *next = item->next;
    MYSQL_STMT *statement = NULL;
    struct sb_sql_failure failure;

    if (sb_mysql_next_one(c, item, &failure) != SIMBA_OK ||
        reserve_late(c, item, &failure) != SIMBA_OK)
        return;
    item->crowded = next[0].id[0] != '\0' || next[1].id[0] != '\0';
    for (int i = 0; i < 2; i++)
        if (next[i].id[0] != '\0' && strcmp(next[i].client, c->settings->client) != 0 &&
            (i == 0 || strcmp(next[0].client, next[1].client) != 0))
            sb_mysql_wake(c, next[i].client);
    if (c->handed_on++ % FORGET_EVERY == 0)
        sb_mysql_execute(c, SB_MYSQL_FORGET, &item->values, &statement, &failure);
}

void sb_mysql_hand_on(struct sb_mysql_connection *c, struct sb_sql_item *item)
{
    MYSQL_STMT *statement = NULL;
    struct sb_sql_failure failure;

    if (sb_mysql_execute(c, SB_MYSQL_HAND_ON, &item->values, &statement, &failure) == SIMBA_OK &&
        mysql_stmt_affected_rows(statement) > 0)
        sb_mysql_wake_next(c, item);
}

void sb_mysql_call(struct sb_mysql_connection *c, const char *mutex, const char *id)
{
    sb_text_copy(c->called_mutex, sizeof c->called_mutex, mutex);
    sb_text_copy(c->called_id, sizeof c->called_id, id);
}

bool sb_mysql_is_called(struct sb_mysql_connection *c, const struct sb_sql_item *item)
{
    bool called = strcmp(c->called_mutex, item->values.mutex) == 0 &&
                  strcmp(c->called_id, item->values.id) == 0;

    if (called)
        c->called_mutex[0] = '\0';
    return atomic_exchange(&c->settings->called, false) || called;
}

void sb_mysql_announce(struct sb_sql_connection *connection, enum simba_notice notice,
                       const char *mutex, const struct sb_sql_waiter *to)
{
    struct sb_mysql_connection *c = (struct sb_mysql_connection *)connection;
    const struct simba_backend_host *host = c->settings->host;

    if (to == NULL || host == NULL || strcmp(to->client, c->settings->client) != 0)
        return;
    if (notice == SIMBA_NOTICE_RELEASED)
        sb_mysql_call(c, mutex, to->id);
    host->notice(host, notice, mutex, to->id);
}

/* ---- Leaving and entering -------------------------------------------------------------------- */

static int leave_all(struct sb_mysql_connection *c, struct sb_sql_item *const *items, size_t count,
                     int64_t *ret_left, struct sb_sql_failure *failure)
{
    MYSQL_STMT *statement = NULL;
    int code;

    if (count > 1)
        return sb_mysql_leave_many(c, items, count, ret_left, failure);
    code = sb_mysql_execute(c, SB_SQL_LEAVE, &items[0]->values, &statement, failure);
    if (code == SIMBA_OK)
        *ret_left = (int64_t)mysql_stmt_affected_rows(statement);
    return code;
}

/* Without a lock on the row, which its owner may be about to renew. */
static bool is_free(struct sb_mysql_connection *c, const struct sb_sql_item *item)
{
    MYSQL_STMT *statement = NULL;
    struct sb_sql_failure failure;
    struct sb_mysql_row row;
    bool found;

    if (sb_mysql_execute(c, SB_SQL_SELECT, &item->values, &statement, &failure) != SIMBA_OK ||
        !sb_mysql_bind_row(statement, SB_MYSQL_ROW_COLUMNS, &row))
        return false;
    found = sb_mysql_fetch_row(c, statement, &row);
    mysql_stmt_free_result(statement);
    return found && !sb_sql_record_is_owned(&row.record);
}

/* The mutex may have been reserved for the one that has left. */
static void hand_on_left(struct sb_mysql_connection *c, struct sb_sql_item *item)
{
    if (is_free(c, item))
        sb_mysql_hand_on(c, item);
}

int sb_mysql_leave(struct sb_mysql_connection *c, struct sb_sql_item *const *items, size_t count,
                   struct sb_sql_failure *failure)
{
    int64_t left = 0;
    int code = leave_all(c, items, count, &left, failure);

    for (size_t i = 0; i < count && code == SIMBA_OK && left > 0; i++)
        if (i == 0 || strcmp(items[i]->values.mutex, items[i - 1]->values.mutex) != 0)
            hand_on_left(c, items[i]);
    return code;
}

int sb_mysql_join(struct sb_mysql_connection *c, struct sb_sql_item *const *items, size_t count,
                  struct sb_sql_failure *failure)
{
    MYSQL_STMT *statement = NULL;

    if (count > 1)
        return sb_mysql_join_many(c, items, count, failure);
    return sb_mysql_execute(c, SB_SQL_JOIN, &items[0]->values, &statement, failure);
}
