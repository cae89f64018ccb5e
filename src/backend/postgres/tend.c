/*
 * tend.c - what removes a row with all that belongs to it, and what raises its version. Owns these
 * two statements; they are rare, so nothing is prepared. Every name in them has its schema, see
 * statement.c.
 */
#include "backend/postgres/connection.h"

#include "backend/postgres/tables.h"
#include "base/check.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define IS SB_POSTGRES_IS
#define OP(operator) " OPERATOR(pg_catalog." operator") "
#define NOW SB_POSTGRES_NOW
#define NOW_US SB_POSTGRES_NOW_US

/* All in one statement: until it is committed nobody can insert the row again. */
static const char forget_row[] =
    "WITH gone AS (DELETE FROM %s m WHERE m.mutex" IS "$1 AND m.version" IS "$2::bigint AND"
    " m.version" OP("<") NOW_US " AND m.transition_at" OP("<") NOW " RETURNING m.mutex)";
static const char forget_others[] =
    ", %s AS (DELETE FROM %.*ssimba_%s o WHERE o.mutex COLLATE pg_catalog.\"C\"" IS
    "$1 AND EXISTS (SELECT 1 FROM gone))";
static const char count_gone[] = " SELECT pg_catalog.count(*) FROM gone";

static const char raise_version[] =
    "WITH raised AS (UPDATE %s m SET version = greatest(m.version" OP(
        "+") "1, $2::bigint)"
             " WHERE m.mutex" IS "$1 AND (m.transition_at" OP("<") NOW
    " OR m.owner_id COLLATE"
    " pg_catalog.\"C\"" IS "$3) RETURNING m.mutex) SELECT pg_catalog.count(*) FROM raised";

static void write_text(const struct sb_postgres_connection *c, bool forgets,
                       char ret_text[SB_POSTGRES_TEXT_MAX])
{
    int schema = sb_postgres_schema_length(c);
    struct sb_text text;

    sb_text_init(&text, ret_text, SB_POSTGRES_TEXT_MAX);
    sb_text_add(&text, forgets ? forget_row : raise_version, c->table);
    if (forgets && c->has_properties)
        sb_text_add(&text, forget_others, "p", schema, c->table, "property");
    if (forgets && c->base.has_queue)
        sb_text_add(&text, forget_others, "w", schema, c->table, "waiter");
    if (forgets)
        sb_text_add(&text, count_gone);
    SB_CHECK(!text.cut, "a statement fits into its buffer");
}

struct answer {
    bool done;
};

static int take(void *user, size_t index, const PGresult *result)
{
    struct answer *answer = user;

    if (index == 1)
        answer->done = strcmp(PQgetvalue(result, 0, 0), "0") != 0;
    return SIMBA_OK;
}

int sb_postgres_tend(struct sb_sql_connection *connection, const struct sb_sql_tending *tending,
                     bool *ret_done, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = (struct sb_postgres_connection *)connection;
    char version[24];
    const char *const values[] = {tending->mutex, version, tending->id};
    struct answer answer = {.done = false};
    struct sb_postgres_exchange exchange = {.take = take, .user = &answer};
    char text[SB_POSTGRES_TEXT_MAX];
    int code = sb_postgres_find_properties(c, failure);

    if (code == SIMBA_OK)
        code = sb_postgres_exchange_begin(&exchange, c, failure);
    if (code != SIMBA_OK)
        return code;
    snprintf(version, sizeof version, "%" PRIu64, tending->version);
    write_text(c, tending->forgets, text);
    sb_postgres_exchange_send(&exchange, SB_POSTGRES_LIMIT_WAIT, NULL);
    sb_postgres_exchange_send_values(&exchange, text, values, tending->forgets ? 2 : 3, true,
                                     (struct sb_postgres_shape){1, SB_POSTGRES_ROW});
    code = sb_postgres_exchange_end(&exchange, failure);
    if (code == SIMBA_OK)
        *ret_done = answer.done;
    return code;
}
