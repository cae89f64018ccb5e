/*
 * schema.c - the table on a PostgreSQL server.
 */
#include "backend/postgres/schema.h"

#include "backend/postgres/exchange.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* bigint holds an unsigned 32-bit version; PostgreSQL has no such type. Half-empty pages let an update stay on
 * its page and leave the index alone. */
const char sb_postgres_schema[] =
    "CREATE TABLE IF NOT EXISTS simba_mutex (mutex varchar(66) PRIMARY KEY, acquired_at bigint"
    " NOT NULL, ttl_at bigint NOT NULL, transition_at bigint NOT NULL, owner_id varchar(128)"
    " NOT NULL, version bigint NOT NULL) WITH (fillfactor = 50)";

/* A type's modifier is its width and 4; -1: without a limit. */
static const char find_width[] =
    "SELECT atttypmod - 4 FROM pg_attribute WHERE attrelid = to_regclass('simba_mutex')"
    " AND attname = 'owner_id'";

static int take_width(void *user, size_t index, const PGresult *result)
{
    long *width = user;

    (void)index;
    if (PQntuples(result) > 0)
        *width = strtol(PQgetvalue(result, 0, 0), NULL, 10);
    return SIMBA_OK;
}

/* *ret_width stays as it is where there is no table. */
static int look_for_table(struct sb_postgres_connection *c, long *ret_width,
                          struct sb_sql_failure *failure)
{
    struct sb_postgres_exchange exchange = {.take = take_width, .user = ret_width};
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    sb_postgres_exchange_send_text(&exchange, find_width);
    return sb_postgres_exchange_end(&exchange, failure);
}

/* Who creates it at the same moment is waited for, and has done our work; PostgreSQL reports that as a duplicate. */
static int create(struct sb_postgres_connection *c, struct sb_sql_failure *failure)
{
    struct sb_postgres_exchange exchange = {.take = NULL};
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    sb_postgres_exchange_limit(&exchange);
    sb_postgres_exchange_send_text(&exchange, sb_postgres_schema);
    code = sb_postgres_exchange_end(&exchange, failure);
    if (code == SIMBA_EDENIED)
        return sb_error_set(
            &failure->error, SIMBA_EDENIED,
            "the user %s may not create a table in the current schema of the database %s; "
            "somebody who may has to run: %s",
            PQuser(c->pg), PQdb(c->pg), sb_postgres_schema);
    return code == SIMBA_EEXISTS ? SIMBA_OK : code;
}

int sb_postgres_init_schema(struct sb_postgres_connection *c, struct sb_sql_failure *failure)
{
    const long missing = -2;
    long width = missing;
    int code = look_for_table(c, &width, failure);

    if (code == SIMBA_OK && width == missing) {
        code = create(c, failure);
        c->base.created_table = c->base.created_table || code == SIMBA_OK;
        if (code == SIMBA_OK)
            code = look_for_table(c, &width, failure);
    }
    if (code != SIMBA_OK)
        return code;
    c->base.owner_id_max = width > 0 ? (size_t)width : SIMBA_ID_MAX;
    return SIMBA_OK;
}
