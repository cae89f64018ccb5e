/*
 * exchange.c - one round trip to the server. Owns sending, waiting and the order of results; must not know
 * what the statements mean.
 */
#include "backend/postgres/exchange.h"

#include "backend/postgres/connection.h"
#include "backend/postgres/failure.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>

/* ---- Waiting -------------------------------------------------------------------------------- */

static int poll_socket(const PGconn *pg, short events, int64_t timeout_ms)
{
    struct pollfd socket = {.fd = PQsocket(pg), .events = events};
    int ready = poll(&socket, 1, timeout_ms < INT_MAX ? (int)timeout_ms : INT_MAX);

    return ready < 0 && errno == EINTR ? 0 : ready;
}

bool sb_postgres_wait(const PGconn *pg, short events, int64_t deadline_ms)
{
    for (;;) {
        int64_t left_ms = deadline_ms - simba_now_ms();
        int ready = poll_socket(pg, events, left_ms > 0 ? left_ms : 0);

        if (ready != 0)
            return true; /* what is wrong with the socket shows when it is used */
        if (left_ms <= 0)
            return false;
    }
}

/* ---- Limits --------------------------------------------------------------------------------- */

bool sb_postgres_count(const PGconn *pg, size_t *received, size_t max)
{
    int waiting = 0;

    if (PQsocket(pg) >= 0 && ioctl(PQsocket(pg), FIONREAD, &waiting) == 0 && waiting > 0)
        *received += (size_t)waiting;
    return *received <= max;
}

bool sb_postgres_consume(PGconn *pg, size_t *received, size_t max)
{
    return sb_postgres_count(pg, received, max) && PQconsumeInput(pg) != 0;
}

static bool consume(struct sb_postgres_exchange *e)
{
    return sb_postgres_consume(e->connection->pg, &e->received, e->receive_max);
}

static const char *why_lost(const struct sb_postgres_exchange *e)
{
    return e->received > e->receive_max ? "the server sends more than anybody has asked for"
                                        : "the connection was lost";
}

/* ---- Sending -------------------------------------------------------------------------------- */

int sb_postgres_exchange_begin(struct sb_postgres_exchange *e, struct sb_postgres_connection *c,
                               struct sb_sql_failure *failure)
{
    e->connection = c;
    e->writes = false;
    e->broken = false;
    e->receive_max = SB_POSTGRES_RECEIVED_MAX;
    e->received = 0;
    e->index = 0;
    e->synced = false;
    e->failed = false;
    e->code = SIMBA_OK;
    while (poll_socket(c->pg, POLLIN, 0) != 0)
        if (!consume(e)) /* the last words come before the end */
            return sb_postgres_fail_lost(c, false, why_lost(e), failure);
    if (PQstatus(c->pg) != CONNECTION_OK)
        return sb_postgres_fail_lost(c, false, "the connection is broken", failure);
    if (c->distrusted)
        return sb_postgres_fail_lost(c, false, "the table is another user's", failure);
    return SIMBA_OK;
}

void sb_postgres_exchange_send(struct sb_postgres_exchange *e, int statement,
                               const struct sb_sql_values *values)
{
    const struct sb_postgres_connection *c = e->connection;
    char text[SB_POSTGRES_TEXT_MAX];
    struct sb_postgres_parameters p;
    int sent;

    sb_postgres_bind(statement, values, &p);
    if (c->prepared) {
        sent = PQsendQueryPrepared(c->pg, c->names[statement], p.count, p.values, NULL, NULL, 0);
    } else {
        sb_postgres_statement_text(statement, c->table, text);
        sent = PQsendQueryParams(c->pg, text, p.count, NULL, p.values, NULL, NULL, 0);
    }
    e->broken = e->broken || sent == 0;
    e->writes = e->writes || sb_postgres_writes(statement);
    if (statement == SB_SQL_SELECT_ALL)
        e->receive_max = SB_POSTGRES_LIST_MAX;
}

void sb_postgres_exchange_send_text(struct sb_postgres_exchange *e, const char *text)
{
    if (PQsendQueryParams(e->connection->pg, text, 0, NULL, NULL, NULL, NULL, 0) == 0)
        e->broken = true;
}

void sb_postgres_exchange_send_value(struct sb_postgres_exchange *e, const char *text,
                                     const char *value)
{
    if (PQsendQueryParams(e->connection->pg, text, 1, NULL, &value, NULL, NULL, 0) == 0)
        e->broken = true;
}

/* A little less, so that the server tells what was in the way before it is left. */
void sb_postgres_exchange_limit(struct sb_postgres_exchange *e)
{
    char text[SB_POSTGRES_LIMIT_TEXT_MAX];
    int64_t left_ms = e->connection->deadline_ms - simba_now_ms();

    sb_postgres_limit_transaction(left_ms - left_ms / 8, text);
    sb_postgres_exchange_send_text(e, text);
}

void sb_postgres_exchange_prepare(struct sb_postgres_exchange *e, int statement)
{
    struct sb_postgres_connection *c = e->connection;
    char text[SB_POSTGRES_TEXT_MAX];

    sb_postgres_statement_text(statement, c->table, text);
    if (PQsendPrepare(c->pg, c->names[statement], text, 0, NULL) == 0)
        e->broken = true;
}

/* Without the synchronisation point nothing of what was sent can be committed. */
int sb_postgres_exchange_sync(struct sb_postgres_exchange *e, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = e->connection;

    if (e->broken || PQpipelineSync(c->pg) == 0)
        return sb_postgres_fail_lost(c, false, "the connection is broken", failure);
    return SIMBA_OK;
}

/* ---- Receiving ------------------------------------------------------------------------------ */

/* The first error is the one that counts: those behind it are its consequences. */
static void receive(struct sb_postgres_exchange *e, const PGresult *result,
                    struct sb_sql_failure *failure)
{
    ExecStatusType status = PQresultStatus(result);

    if (status == PGRES_PIPELINE_SYNC) {
        e->synced = true;
        return;
    }
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
        if (e->take != NULL && e->code == SIMBA_OK)
            e->code = e->take(e->user, e->index, result);
    } else if (status != PGRES_PIPELINE_ABORTED && !e->failed) {
        e->failed = true;
        e->code = sb_postgres_fail_result(e->connection, result, failure);
    }
    e->index++;
}

/* Takes the results that have come. False: the connection is lost. */
static bool receive_some(struct sb_postgres_exchange *e, struct sb_sql_failure *failure)
{
    PGconn *pg = e->connection->pg;

    while (!e->synced && PQisBusy(pg) == 0) {
        PGresult *result = PQgetResult(pg);

        if (result != NULL)
            receive(e, result, failure);
        PQclear(result);
        if (PQstatus(pg) != CONNECTION_OK)
            return false;
    }
    return true;
}

static int fail_lost(struct sb_postgres_exchange *e, const char *what,
                     struct sb_sql_failure *failure)
{
    return sb_postgres_fail_lost(e->connection, e->writes, what, failure);
}

int sb_postgres_exchange_late(struct sb_postgres_exchange *e, struct sb_sql_failure *failure)
{
    if (e->connection->limited)
        atomic_store(&e->connection->settings->doubted, true);
    return fail_lost(e, "the server did not answer in time", failure);
}

/* Nothing is believed before the synchronisation point has come back: until then nothing has been
 * committed. The server may want to be read from before it reads on. */
int sb_postgres_exchange_proceed(struct sb_postgres_exchange *e, short *ret_wants,
                                 struct sb_sql_failure *failure)
{
    PGconn *pg = e->connection->pg;
    int unsent = PQflush(pg);

    *ret_wants = 0;
    if (unsent < 0 || !receive_some(e, failure))
        return fail_lost(e, "the connection was lost", failure);
    if (!e->synced) {
        *ret_wants = unsent > 0 ? POLLIN | POLLOUT : POLLIN;
        return SIMBA_OK;
    }
    if (!e->failed && e->code != SIMBA_OK) {
        failure->remedy = SB_SQL_GIVE_UP;
        failure->error.code = e->code;
    }
    return e->code;
}

int sb_postgres_exchange_ready(struct sb_postgres_exchange *e, short *ret_wants,
                               struct sb_sql_failure *failure)
{
    *ret_wants = 0;
    if (!consume(e))
        return fail_lost(e, why_lost(e), failure);
    return sb_postgres_exchange_proceed(e, ret_wants, failure);
}

int sb_postgres_exchange_end(struct sb_postgres_exchange *e, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = e->connection;
    short wants = 0;
    int code = sb_postgres_exchange_sync(e, failure);

    if (code == SIMBA_OK)
        code = sb_postgres_exchange_proceed(e, &wants, failure);
    while (wants != 0) {
        if (!sb_postgres_wait(c->pg, wants, c->deadline_ms))
            return sb_postgres_exchange_late(e, failure);
        code = sb_postgres_exchange_ready(e, &wants, failure);
    }
    return code;
}
