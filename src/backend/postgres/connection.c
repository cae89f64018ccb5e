/*
 * connection.c - the PostgreSQL driver. Owns the life of a connection and what it does with a
 * failure; must not know requests.
 */
#include "backend/postgres/connection.h"

#include "backend/postgres/statement.h"
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* For how long rows that are locked are passed over after one was waited for in vain. Passing over
 * costs every statement more, so it is not the rule. */
#define CAREFUL_MS 10000

static struct sb_postgres_connection *own(struct sb_sql_connection *connection)
{
    return (struct sb_postgres_connection *)connection;
}

static void set_deadline(struct sb_sql_connection *connection, int64_t deadline_ms)
{
    own(connection)->deadline_ms = deadline_ms;
}

/* A lock that is waited for in vain once will mostly be there the next time. */
static int note_failure(struct sb_postgres_connection *c, int code,
                        const struct sb_sql_failure *failure)
{
    if (code != SIMBA_OK && failure->remedy == SB_SQL_RETRY)
        c->careful_until_ms = simba_now_ms() + CAREFUL_MS;
    return code;
}

/* ---- Locks ----------------------------------------------------------------------------------- */

/* Sends what has to come before statements, so that no lock is waited for without an end. Returns
 * how many results that yields. A session that is ours alone has its limit for good. */
static size_t send_limit(struct sb_postgres_exchange *exchange, bool careful)
{
    if (exchange->connection->limited && !careful)
        return 0;
    sb_postgres_exchange_send(exchange,
                              careful ? SB_POSTGRES_LIMIT_WAIT_MORE : SB_POSTGRES_LIMIT_WAIT, NULL);
    return 1;
}

/* ---- One statement --------------------------------------------------------------------------- */

struct rows {
    const struct sb_sql_sink *sink;
    size_t skip; /* results before that of the statement */
    int64_t count;
};

static int64_t count_of(const PGresult *result)
{
    const char *changed = PQcmdTuples((PGresult *)(uintptr_t)result);

    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        return PQntuples(result);
    return changed[0] != '\0' ? strtoll(changed, NULL, 10) : 0;
}

static int take_rows(void *user, size_t index, const PGresult *result)
{
    struct rows *rows = user;
    struct sb_sql_record record;
    int code = SIMBA_OK;

    if (index < rows->skip)
        return SIMBA_OK;
    rows->count += count_of(result);
    for (int row = 0; rows->sink != NULL && row < PQntuples(result) && code == SIMBA_OK; row++) {
        sb_postgres_read_record(result, row, &record);
        code = rows->sink->row(rows->sink->user, &record);
    }
    return code;
}

static int run(struct sb_sql_connection *connection, enum sb_sql_statement statement,
               const struct sb_sql_values *values, const struct sb_sql_sink *sink,
               int64_t *ret_count, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = own(connection);
    struct rows rows = {.sink = sink};
    struct sb_postgres_exchange exchange = {.take = take_rows, .user = &rows};
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    rows.skip = send_limit(&exchange, false);
    sb_postgres_exchange_send(&exchange, (int)statement, values);
    code = note_failure(c, sb_postgres_exchange_end(&exchange, failure), failure);
    if (code == SIMBA_OK && ret_count != NULL)
        *ret_count = rows.count;
    return code;
}

/* ---- Many statements ------------------------------------------------------------------------- */

struct many {
    struct sb_sql_item *const *items;
    size_t skip;
};

static int take_item(void *user, size_t index, const PGresult *result)
{
    const struct many *many = user;
    struct sb_sql_item *item;

    if (index < many->skip)
        return SIMBA_OK;
    item = many->items[index - many->skip];
    item->hit = count_of(result) > 0;
    if (item->hit && PQntuples(result) > 0)
        sb_postgres_read_record(result, 0, &item->record);
    return SIMBA_OK;
}

static bool any_writes(struct sb_sql_item *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sb_postgres_writes((int)items[i]->statement))
            return true;
    return false;
}

/* Returns how many results come before those of the items. */
static size_t send_items(struct sb_postgres_exchange *exchange, struct sb_sql_item *const *items,
                         size_t count)
{
    bool careful =
        any_writes(items, count) && simba_now_ms() < exchange->connection->careful_until_ms;
    size_t skip = send_limit(exchange, careful);

    for (size_t i = 0; i < count; i++) {
        int statement = (int)items[i]->statement;

        sb_postgres_exchange_send(exchange,
                                  careful ? sb_postgres_free_statement(statement) : statement,
                                  &items[i]->values);
    }
    return skip;
}

static int run_all(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                   size_t count, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = own(connection);
    struct many many = {.items = items};
    struct sb_postgres_exchange exchange = {.take = take_item, .user = &many};
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    many.skip = send_items(&exchange, items, count);
    code = note_failure(c, sb_postgres_exchange_end(&exchange, failure), failure);
    for (size_t i = 0; i < count; i++) {
        items[i]->done = code == SIMBA_OK;
        items[i]->hit = items[i]->hit && items[i]->done;
    }
    return code;
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* Behind the limit of the transaction and what is prepared comes that of the session, which yields
 * nothing where it was not set. */
static int take_limit(void *user, size_t index, const PGresult *result)
{
    struct sb_postgres_connection *c = user;

    if (index == 1 + SB_POSTGRES_STATEMENTS)
        c->limited = PQntuples(result) > 0;
    return SIMBA_OK;
}

/* What is prepared waits for the table's lock, also behind a pooler. At the end the waits of this
 * session are limited for good, provided that it is the one that we were told of: behind a pooler
 * it is another client's, too, and must not be changed. */
static int prepare_all(struct sb_postgres_connection *c, struct sb_sql_failure *failure)
{
    struct sb_postgres_exchange exchange = {.take = take_limit, .user = c};
    char limit[SB_POSTGRES_LIMIT_TEXT_MAX];
    int code;

    if (atomic_load(&c->settings->unprepared))
        return SIMBA_OK;
    code = sb_postgres_exchange_begin(&exchange, c, failure);
    if (code != SIMBA_OK)
        return code;
    sb_postgres_exchange_limit(&exchange);
    for (int i = 0; i < SB_POSTGRES_STATEMENTS; i++)
        sb_postgres_exchange_prepare(&exchange, i);
    sb_postgres_limit_session(PQbackendPID(c->pg), limit);
    sb_postgres_exchange_send_text(&exchange, limit, NULL,
                                   (struct sb_postgres_shape){2, SB_POSTGRES_ROW_OR_NONE});
    code = sb_postgres_exchange_end(&exchange, failure);
    c->prepared = code == SIMBA_OK;
    c->limited = c->limited && c->prepared && !atomic_exchange(&c->settings->doubted, false);
    return code;
}

static void disconnect(struct sb_sql_connection *connection)
{
    if (connection == NULL)
        return;
    PQfinish(own(connection)->pg);
    sb_free(own(connection)->search_path);
    sb_free(connection);
}

/* A database in SQL_ASCII takes any bytes. */
static int connect_once(struct sb_postgres_settings *settings, int64_t deadline_ms,
                        struct sb_sql_connection **ret_connection, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = sb_alloc_zero(sizeof *c);
    const char *encoding;
    int code;

    if (c == NULL)
        return sb_postgres_fail_memory(failure);
    c->base.driver = &sb_postgres_driver;
    c->base.version_max = INT64_MAX;
    c->settings = settings;
    c->deadline_ms = deadline_ms;
    code = sb_postgres_log_in(c, failure);
    if (code == SIMBA_OK && (PQsetnonblocking(c->pg, 1) != 0 || PQenterPipelineMode(c->pg) != 1))
        code = sb_postgres_fail_lost(c, false, "the connection cannot be used", failure);
    if (code == SIMBA_OK) {
        encoding = PQparameterStatus(c->pg, "server_encoding");
        c->base.needs_utf8 = encoding == NULL || strcmp(encoding, "SQL_ASCII") != 0;
        code = sb_postgres_init_schema(c, failure);
    }
    if (code == SIMBA_OK)
        code = prepare_all(c, failure);
    if (code != SIMBA_OK) {
        disconnect(&c->base);
        return code;
    }
    *ret_connection = &c->base;
    return SIMBA_OK;
}

/* Behind a pooler the first attempt may find another client's prepared statements. */
static int connect_to_server(void *user, int64_t timeout_ms,
                             struct sb_sql_connection **ret_connection,
                             struct sb_sql_failure *failure)
{
    struct sb_postgres_settings *settings = user;
    int64_t deadline_ms = simba_now_ms() + timeout_ms;
    bool unprepared = atomic_load(&settings->unprepared);
    int code = connect_once(settings, deadline_ms, ret_connection, failure);

    if (code != SIMBA_OK && !unprepared && atomic_load(&settings->unprepared))
        code = connect_once(settings, deadline_ms, ret_connection, failure);
    return code;
}

/* It may have come back in another schema. */
static int init_schema(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = own(connection);
    char before[SB_POSTGRES_TABLE_MAX];
    int code;

    memcpy(before, c->table, sizeof before);
    code = sb_postgres_init_schema(c, failure);
    if (code != SIMBA_OK || strcmp(before, c->table) == 0)
        return code;
    c->prepared = false;
    c->limited = false;
    return prepare_all(c, failure);
}

const struct sb_sql_driver sb_postgres_driver = {
    .returns_rows = true,
    .connect = connect_to_server,
    .disconnect = disconnect,
    .set_deadline = set_deadline,
    .run = run,
    .run_all = run_all,
    .init_schema = init_schema,
};
