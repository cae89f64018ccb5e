/*
 * poll.c - the looks of a client at what its contenders wait for, and at who is next there. Owns
 * the worker's part in the client's sleep: see listener.h.
 */
#include "backend/mysql/connection.h"

#include "base/check.h"
#include "base/text.h"

#include <string.h>

#define HAND_ON_MS 50 /* that a mutex is reserved which a poll has found */

/* What the client's second connection waits for. Nothing waits for it here: anybody may take a lock
 * of that name, and renewals come over this connection. */
static void hold_lock(struct sb_mysql_connection *c)
{
    char buffer[64 + SB_SQL_CLIENT_MAX];
    struct sb_text text;
    MYSQL_RES *result;
    MYSQL_ROW row;

    if (c->holds_lock || atomic_load(&c->settings->listener) == SB_MYSQL_DEAF)
        return;
    sb_text_init(&text, buffer, sizeof buffer);
    sb_text_add(&text, "SELECT GET_LOCK('%s" SB_MYSQL_HELD "', 0)", c->settings->client);
    if (sb_mysql_call_query(c, buffer) != 0 || (result = sb_mysql_call_store(c)) == NULL)
        return;
    row = mysql_num_fields(result) == 1 ? mysql_fetch_row(result) : NULL;
    c->holds_lock = row != NULL && row[0] != NULL && strcmp(row[0], "1") == 0;
    mysql_free_result(result);
}

static bool is_mine(const struct sb_mysql_connection *c, const struct sb_sql_waiter *waiter)
{
    return waiter->id[0] != '\0' && strcmp(waiter->client, c->settings->client) == 0;
}

/* Takes note of whose turn it is. A released mutex that was not handed on is: another library has
 * released it, or the one that it was reserved for has not come. So the queue goes on over those
 * that are dead. At the end of a lease the waiters come by themselves. */
static void take_line(struct sb_mysql_connection *c, struct sb_sql_item *item)
{
    const struct sb_sql_waiter *next = item->next;

    if (item->hit && item->record.owner_id[0] == '\0' && next[0].id[0] == '\0' &&
        next[1].id[0] != '\0') {
        item->values.reserve_ms = HAND_ON_MS;
        sb_mysql_hand_on(c, item);
    }
    if (is_mine(c, &next[0]))
        sb_mysql_call(c, item->values.mutex, next[0].id);
}

/* A mutex that is reserved is free, so its record need not be read. */
static int read_line(struct sb_mysql_connection *c, struct sb_sql_item *item,
                     struct sb_sql_failure *failure)
{
    struct sb_sql_item *const items[] = {item};
    int code = sb_mysql_next_one(c, item, failure);

    if (code != SIMBA_OK || item->next[0].id[0] != '\0')
        return code;
    return sb_mysql_run_all(&c->base, items, 1, failure);
}

static int read_many(struct sb_mysql_connection *c, struct sb_sql_item *const *items, size_t count,
                     struct sb_sql_failure *failure)
{
    int code = sb_mysql_run_all(&c->base, items, count, failure);

    for (size_t i = 0; i < count && code == SIMBA_OK; i += SB_MYSQL_NEXT_MAX) {
        size_t some = count - i < SB_MYSQL_NEXT_MAX ? count - i : SB_MYSQL_NEXT_MAX;

        for (size_t k = 0; k < some; k++)
            memset(items[i + k]->next, 0, sizeof items[i + k]->next);
        code = sb_mysql_next_many(c, items + i, some, failure);
    }
    return code;
}

/* A client that is woken mostly finds that one of its waiters is next. Where it does not, the
 * wake-up may have come too late. */
static int look_for_passed(struct sb_mysql_connection *c, struct sb_sql_item *const *items,
                           size_t count, struct sb_sql_failure *failure)
{
    struct sb_sql_item *others[SB_MYSQL_NEXT_MAX];
    size_t other = 0;
    int code = SIMBA_OK;

    for (size_t i = 0; i < count && code == SIMBA_OK; i++) {
        if (!is_mine(c, &items[i]->next[0]) && !is_mine(c, &items[i]->next[1])) {
            items[i]->values.client = c->settings->client;
            others[other++] = items[i];
        }
        if (other == SB_MYSQL_NEXT_MAX || (other > 0 && i + 1 == count)) {
            code = sb_mysql_tell_passed(c, others, other, failure);
            other = 0;
        }
    }
    return code;
}

/* The trial shows whether a wake-up reaches this client's own sleeping connection. */
int sb_mysql_read_queues(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = (struct sb_mysql_connection *)connection;
    int code = SIMBA_OK;

    SB_CHECK(count == 0 || items[0]->statement == SB_SQL_SELECT, "a poll reads records");
    hold_lock(c);
    if (sb_mysql_is_closed(c))
        return sb_mysql_fail_closed(failure);
    if (count > 0)
        code = count == 1 ? read_line(c, items[0], failure) : read_many(c, items, count, failure);
    for (size_t i = 0; i < count && code == SIMBA_OK && !c->read_only; i++)
        take_line(c, items[i]);
    if (code == SIMBA_OK)
        code = look_for_passed(c, items, count, failure);
    if (code == SIMBA_OK && atomic_load(&c->settings->listener) == SB_MYSQL_ON_TRIAL)
        sb_mysql_wake(c, c->settings->client);
    return code;
}
