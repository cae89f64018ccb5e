/*
 * connection.c - the PostgreSQL driver. Owns the life of a connection and what it does with a
 * failure; must not know requests.
 */
#include "backend/postgres/connection.h"

#include "backend/postgres/statement.h"
#include "backend/sql/repository.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/socket.h"

#include <stdlib.h>
#include <string.h>

/* For how long rows that are locked are passed over after one was waited for in vain. Passing over
 * costs every statement more, so it is not the rule. */
#define CAREFUL_MS 10000

#define CLEAN_EVERY 64 /* times that a connection hands on in a crowd */

static struct sb_postgres_connection *own(struct sb_sql_connection *connection)
{
    return (struct sb_postgres_connection *)connection;
}

static void set_deadline(struct sb_sql_connection *connection, int64_t deadline_ms)
{
    own(connection)->deadline_ms = deadline_ms;
}

/* A lock that is waited for in vain once will mostly be there the next time. Rights on the table of
 * waiters that were taken away are noticed by a new connection, which does without. */
static int note_failure(struct sb_postgres_connection *c, int code,
                        const struct sb_sql_failure *failure)
{
    if (code != SIMBA_OK && failure->remedy == SB_SQL_RETRY)
        c->careful_until_ms = simba_now_ms() + CAREFUL_MS;
    if (code == SIMBA_EDENIED && c->base.has_queue)
        c->base.outdated = true;
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

/* ---- What a statement of the repository is --------------------------------------------------- */

#define STEPS_MAX 4

/* An acquire of a mutex that has a mark in its row looks at the queue in a second statement. */
static int list_acquire(const struct sb_sql_values *values, int steps[STEPS_MAX])
{
    bool looks = values->queued || values->joins || values->thorough;
    int count = 0;

    steps[count++] = values->reserve_ms <= 0 ? (int)SB_SQL_ACQUIRE
                     : looks                 ? (int)SB_POSTGRES_ACQUIRE_FAIR
                                             : (int)SB_POSTGRES_ACQUIRE_AT_ONCE;
    if (values->queued) {
        steps[count++] = SB_POSTGRES_FORGET;
    } else if (values->joins) {
        steps[count++] = SB_SQL_JOIN;
        steps[count++] = SB_SQL_SELECT_PLACE;
    }
    return count;
}

static int list_release(struct sb_postgres_connection *c, const struct sb_sql_values *values,
                        int steps[STEPS_MAX])
{
    bool crowded = values->queued || values->joins;
    int count = 0;

    steps[count++] =
        crowded && values->reserve_ms > 0 ? SB_POSTGRES_RELEASE_MARKED : SB_POSTGRES_RELEASE_QUIET;
    if (values->queued)
        steps[count++] = SB_SQL_LEAVE;
    if (crowded && c->handed_on++ % CLEAN_EVERY == 0)
        steps[count++] = SB_POSTGRES_CLEAN;
    steps[count++] = crowded ? SB_POSTGRES_HAND_ON : SB_POSTGRES_LOOK;
    return count;
}

/* The server's statements for one of the repository, in one transaction; the first tells whether it
 * hits. Returns how many they are.
 *
 * A release looks for waiters in a statement of its own, behind that which takes the row of the
 * mutex: so it sees all that were in the queue by then (rows.c relies on it). A statement sees what
 * was there when it began, so one statement for both could miss one that joins meanwhile. To hand
 * on would cost more than the release where nobody waits: without a crowd it follows only if the
 * look finds a waiter.
 *
 * A contender that knows of a crowd passes over a row that is locked. If it waited for a release to
 * be committed, it would see the mutex as it is then, but the reservations as they were before. */
static int list_steps(struct sb_postgres_connection *c, enum sb_sql_statement statement,
                      const struct sb_sql_values *values, bool careful, int steps[STEPS_MAX])
{
    bool crowded = values->queued || values->joins;
    int count = 1;

    steps[0] = (int)statement;
    if (c->base.has_queue && statement == SB_SQL_ACQUIRE) {
        count = list_acquire(values, steps);
    } else if (c->base.has_queue && statement == SB_SQL_RELEASE) {
        count = list_release(c, values, steps);
    } else if (statement == SB_SQL_LEAVE) {
        steps[0] = SB_POSTGRES_AWAIT;
        steps[count++] = SB_SQL_LEAVE;
        if (values->reserve_ms > 0)
            steps[count++] = SB_POSTGRES_MARK;
        steps[count++] = SB_POSTGRES_HAND_ON;
    }
    SB_CHECK(count <= STEPS_MAX, "a statement has room for its steps");
    if (careful || (crowded && statement == SB_SQL_ACQUIRE))
        steps[0] = sb_postgres_free_statement(steps[0]);
    return count;
}

/* ---- One statement --------------------------------------------------------------------------- */

struct rows {
    const struct sb_sql_sink *sink;
    size_t index; /* of the result that counts */
    size_t read;  /* of the one that has the rows */
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

    if (index == rows->index)
        rows->count += count_of(result);
    if (index != rows->read || rows->count == 0 || rows->sink == NULL)
        return SIMBA_OK;
    for (int row = 0; row < PQntuples(result) && code == SIMBA_OK; row++) {
        sb_postgres_read_record(result, row, &record);
        code = rows->sink->row(rows->sink->user, &record);
    }
    return code;
}

/* A release in a queue yields no row, so that its record is read behind it. */
static int run(struct sb_sql_connection *connection, enum sb_sql_statement statement,
               const struct sb_sql_values *values, const struct sb_sql_sink *sink,
               int64_t *ret_count, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = own(connection);
    struct rows rows = {.sink = sink};
    struct sb_postgres_exchange exchange = {.take = take_rows, .user = &rows};
    struct sb_sql_values crowded = *values;
    int steps[STEPS_MAX];
    int count;
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    crowded.joins = statement == SB_SQL_RELEASE;
    count = list_steps(c, statement, &crowded, false, steps);
    rows.index = rows.read = send_limit(&exchange, false);
    for (int i = 0; i < count; i++) {
        if (statement == SB_SQL_RELEASE && steps[i] == SB_POSTGRES_HAND_ON)
            sb_postgres_exchange_send(&exchange, SB_POSTGRES_RESTORE, values);
        sb_postgres_exchange_send(&exchange, steps[i], values);
    }
    if (statement == SB_SQL_RELEASE && c->base.has_queue) {
        rows.read = exchange.sent;
        sb_postgres_exchange_send(&exchange, SB_SQL_SELECT, values);
    }
    code = note_failure(c, sb_postgres_exchange_end(&exchange, failure), failure);
    if (code == SIMBA_OK && ret_count != NULL)
        *ret_count = rows.count;
    return code;
}

/* ---- Many statements ------------------------------------------------------------------------- */

struct step {
    struct sb_sql_item *item;
    int statement;
    bool is_first; /* of its item */
    bool finds;    /* LOOK: a row. HAND_ON: a reservation that is in the way */
};

struct many {
    size_t skip;
    size_t count;
    struct step steps[SB_POSTGRES_RESULTS_MAX]; /* behind those that are skipped */
};

static int take_item(void *user, size_t index, const PGresult *result)
{
    struct many *many = user;
    struct step *step;
    struct sb_sql_item *item;

    if (index < many->skip)
        return SIMBA_OK;
    step = &many->steps[index - many->skip];
    item = step->item;
    if (step->is_first) {
        item->hit = count_of(result) > 0;
        if (item->hit && PQntuples(result) > 0)
            sb_postgres_read_record(result, 0, &item->record);
        else if (item->hit && item->statement == SB_SQL_RELEASE)
            sb_sql_item_set_record(item, sb_postgres_released_version(&item->values));
    } else if (step->statement == SB_POSTGRES_LOOK) {
        item->crowded = step->finds = PQntuples(result) > 0;
    } else if (step->statement == SB_POSTGRES_HAND_ON && PQntuples(result) > 0) {
        item->crowded = PQgetvalue(result, 0, SB_POSTGRES_HAND_ON_TOLD)[0] != '0' ||
                        PQgetvalue(result, 0, SB_POSTGRES_HAND_ON_OBSERVERS)[0] != '0';
        step->finds = PQgetvalue(result, 0, SB_POSTGRES_HAND_ON_HELD)[0] == 't';
    } else if (step->statement == SB_SQL_JOIN) {
        item->joined = count_of(result) > 0;
    } else if (step->statement == SB_SQL_LEAVE) {
        item->left = true;
    } else if (step->statement == SB_SQL_SELECT_PLACE && !item->hit) {
        item->read = PQntuples(result) > 0;
        if (item->read)
            sb_postgres_read_record(result, 0, &item->record);
    }
    return SIMBA_OK;
}

static bool any_writes(struct sb_sql_item *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sb_postgres_writes((int)items[i]->statement))
            return true;
    return false;
}

static void send_step(struct sb_postgres_exchange *exchange, struct many *many,
                      struct sb_sql_item *item, int statement, bool is_first)
{
    many->steps[many->count++] =
        (struct step){.item = item, .statement = statement, .is_first = is_first};
    sb_postgres_exchange_send(exchange, statement, &item->values);
}

/* A crash of the server may take back what was released last: then the lease ends by itself, and
 * its token stays the largest. The next term is on the disk only together with the release before
 * it. What was acquired or renewed must not be lost. */
static bool may_be_lost(struct sb_sql_item *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (items[i]->statement != SB_SQL_RELEASE && items[i]->statement != SB_SQL_LEAVE)
            return false;
    return true;
}

static size_t send_commit_async(struct sb_postgres_exchange *exchange)
{
    sb_postgres_exchange_send(exchange, SB_POSTGRES_COMMIT_ASYNC, NULL);
    return 1;
}

static void send_items(struct sb_postgres_exchange *exchange, struct sb_sql_item *const *items,
                       size_t count, struct many *many)
{
    struct sb_postgres_connection *c = exchange->connection;
    bool careful = any_writes(items, count) && simba_now_ms() < c->careful_until_ms;

    many->count = 0;
    many->skip = send_limit(exchange, careful);
    if (may_be_lost(items, count))
        many->skip += send_commit_async(exchange);
    for (size_t i = 0; i < count; i++) {
        struct sb_sql_item *item = items[i];
        int steps[STEPS_MAX];
        int left = list_steps(c, item->statement, &item->values, careful, steps);

        for (int step = 0; step < left; step++)
            send_step(exchange, many, item, steps[step], step == 0);
    }
}

/* Whether a release has to go on: it did not know of a waiter, or an older reservation was in the
 * way. All that were there when the mutex was owned are of no more use: its owner has overtaken the
 * waiters that they are for. If one has been made since, its waiter is told once more. */
static bool goes_on(const struct step *step)
{
    return step->finds && step->item->statement == SB_SQL_RELEASE && step->item->hit;
}

/* After releases. They are committed: if this fails, the waiters come by their own clocks. False:
 * there is nothing left to do. */
static bool hand_on(struct sb_postgres_connection *c, const struct many *before, struct many *many)
{
    struct sb_postgres_exchange exchange = {.take = take_item, .user = many};
    struct sb_sql_failure failure;
    bool any = false;

    many->count = 0;
    for (size_t i = 0; i < before->count; i++)
        any = any || goes_on(&before->steps[i]);
    if (!any || sb_postgres_exchange_begin(&exchange, c, &failure) != SIMBA_OK)
        return false;
    many->skip = send_limit(&exchange, false) + send_commit_async(&exchange);
    for (size_t i = 0; i < before->count; i++) {
        const struct step *step = &before->steps[i];

        if (!goes_on(step))
            continue;
        if (step->statement == SB_POSTGRES_HAND_ON)
            send_step(&exchange, many, step->item, SB_POSTGRES_RESTORE, false);
        else
            send_step(&exchange, many, step->item, SB_POSTGRES_CLEAN, false);
        if (step->statement == SB_POSTGRES_LOOK && step->item->values.reserve_ms > 0)
            send_step(&exchange, many, step->item, SB_POSTGRES_MARK, false);
        send_step(&exchange, many, step->item, SB_POSTGRES_HAND_ON, false);
    }
    return note_failure(c, sb_postgres_exchange_end(&exchange, &failure), &failure) == SIMBA_OK;
}

static int run_all(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                   size_t count, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = own(connection);
    struct many many, late, later;
    struct sb_postgres_exchange exchange = {.take = take_item, .user = &many};
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    send_items(&exchange, items, count, &many);
    code = note_failure(c, sb_postgres_exchange_end(&exchange, failure), failure);
    for (size_t i = 0; i < count; i++) {
        items[i]->done = code == SIMBA_OK;
        items[i]->hit = items[i]->hit && items[i]->done;
        items[i]->read = items[i]->read && items[i]->done;
    }
    if (code == SIMBA_OK && hand_on(c, &many, &late))
        hand_on(c, &late, &later);
    return code;
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* Behind what is prepared comes the limit of the session, which yields nothing where it was not
 * set. */
static int take_limit(void *user, size_t index, const PGresult *result)
{
    struct sb_postgres_exchange *exchange = user;

    if (index + 1 == exchange->sent)
        exchange->connection->limited = PQntuples(result) > 0;
    return SIMBA_OK;
}

/* What is prepared waits for the table's lock, also behind a pooler. At the end the waits of this
 * session are limited for good, provided that it is the one that we were told of: behind a pooler
 * it is another client's, too, and must not be changed. */
static int prepare_all(struct sb_postgres_connection *c, struct sb_sql_failure *failure)
{
    struct sb_postgres_exchange exchange = {.take = take_limit, .user = &exchange};
    char limit[SB_POSTGRES_LIMIT_TEXT_MAX];
    int code;

    if (atomic_load(&c->settings->unprepared))
        return SIMBA_OK;
    code = sb_postgres_exchange_begin(&exchange, c, failure);
    if (code != SIMBA_OK)
        return code;
    sb_postgres_exchange_limit(&exchange);
    for (int i = 0; i < SB_POSTGRES_STATEMENTS; i++)
        if (c->base.has_queue || !sb_postgres_needs_queue(i))
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
    sb_socket_drop_unsent(PQsocket(own(connection)->pg));
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

/* The tables may have come back in another schema, or one of them only now. */
static int init_schema(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = own(connection);
    bool had_queue = c->base.has_queue;
    char before[SB_POSTGRES_TABLE_MAX];
    int code;

    memcpy(before, c->table, sizeof before);
    code = sb_postgres_init_schema(c, failure);
    if (code != SIMBA_OK || (strcmp(before, c->table) == 0 && had_queue == c->base.has_queue))
        return code;
    c->prepared = false;
    c->limited = false;
    return prepare_all(c, failure);
}

const struct sb_sql_driver sb_postgres_driver = {
    .returns_rows = true,
    .keeps_observers = true,
    .connect = connect_to_server,
    .disconnect = disconnect,
    .set_deadline = set_deadline,
    .run = run,
    .property = sb_postgres_property,
    .tend = sb_postgres_tend,
    .inspect = sb_postgres_inspect,
    .run_all = run_all,
    .read_queues = sb_postgres_read_queues,
    .init_schema = init_schema,
};
