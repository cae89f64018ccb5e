/*
 * poll.c - the looks of a client at what its contenders wait for, and at who is next there, while
 * releases cannot be pushed to it: behind a pooler that gives every transaction to another session.
 * Must not know the text of statements.
 */
#include "backend/postgres/connection.h"

#include "backend/postgres/statement.h"
#include "base/check.h"
#include "base/text.h"

#include <string.h>

#define HAND_ON_MS 50 /* that a mutex is reserved which a poll has found */

enum { RECORD, QUEUE, PARTS }; /* of the results for a mutex, behind that of the limit */

static void take_waiter(struct sb_sql_waiter *waiter, const PGresult *result, int column)
{
    sb_text_copy(waiter->id, sizeof waiter->id, PQgetvalue(result, 0, column));
    sb_text_copy(waiter->client, sizeof waiter->client, PQgetvalue(result, 0, column + 1));
}

static int take_part(void *user, size_t index, const PGresult *result)
{
    struct sb_sql_item *const *items = user;
    struct sb_sql_item *item;

    if (index == 0)
        return SIMBA_OK;
    item = items[(index - 1) / PARTS];
    if ((index - 1) % PARTS == RECORD) {
        memset(item->next, 0, sizeof item->next);
        item->hit = PQntuples(result) > 0;
        if (item->hit)
            sb_postgres_read_record(result, 0, &item->record);
    } else if (PQntuples(result) > 0) {
        take_waiter(&item->next[0], result, SB_POSTGRES_NEXT_RESERVED_ID);
        take_waiter(&item->next[1], result, SB_POSTGRES_NEXT_FIRST_ID);
    }
    return SIMBA_OK;
}

/* A released mutex that was not handed on: another library has released it, or the one that it was
 * reserved for has not come. So the queue goes on over those that are dead. At the end of a lease
 * the waiters come by themselves. A waiter of this client is told; it may be about to be handed the
 * mutex, and to hand on at the same time could reserve for two. */
static int hand_on(struct sb_postgres_connection *c, const struct sb_sql_item *item,
                   struct sb_sql_failure *failure)
{
    const struct sb_sql_values nobody = {
        .mutex = item->values.mutex, .id = "", .reserve_ms = HAND_ON_MS};
    const struct sb_sql_waiter *first = &item->next[1];
    bool is_free = item->hit && item->record.owner_id[0] == '\0';

    if (!is_free || item->next[0].id[0] != '\0' || first->id[0] == '\0' ||
        strcmp(first->client, c->settings->channel) == 0)
        return SIMBA_OK;
    return c->base.driver->run(&c->base, SB_SQL_LEAVE, &nobody, NULL, NULL, failure);
}

int sb_postgres_read_queues(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                            size_t count, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = (struct sb_postgres_connection *)connection;
    struct sb_postgres_exchange exchange = {.take = take_part, .user = (void *)(uintptr_t)items};
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    sb_postgres_exchange_send(&exchange, SB_POSTGRES_LIMIT_WAIT, NULL);
    for (size_t i = 0; i < count; i++) {
        struct sb_sql_values values = {.mutex = items[i]->values.mutex, .id = ""};

        SB_CHECK(items[i]->statement == SB_SQL_SELECT, "a poll reads records");
        sb_postgres_exchange_send(&exchange, SB_SQL_SELECT, &values);
        sb_postgres_exchange_send(&exchange, SB_POSTGRES_NEXT, &values);
    }
    code = sb_postgres_exchange_end(&exchange, failure);
    for (size_t i = 0; i < count && code == SIMBA_OK; i++)
        code = hand_on(c, items[i], failure);
    return code;
}
