/*
 * exchange.c - one round trip to the server. Owns sending, waiting and the order of results; must not know
 * what the statements mean.
 */
#include "backend/postgres/exchange.h"

#include "backend/postgres/failure.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>

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

/* ---- Sending -------------------------------------------------------------------------------- */

int sb_postgres_exchange_begin(struct sb_postgres_exchange *e, struct sb_postgres_connection *c,
                               struct sb_sql_failure *failure)
{
    e->connection = c;
    e->writes = false;
    e->broken = false;
    while (poll_socket(c->pg, POLLIN, 0) != 0)
        if (PQconsumeInput(c->pg) == 0) /* the last words come before the end */
            return sb_postgres_fail_lost(c, false, "the connection was closed", failure);
    if (PQstatus(c->pg) != CONNECTION_OK)
        return sb_postgres_fail_lost(c, false, "the connection is broken", failure);
    return SIMBA_OK;
}

void sb_postgres_exchange_send(struct sb_postgres_exchange *e, int statement,
                               const struct sb_sql_values *values)
{
    PGconn *pg = e->connection->pg;
    struct sb_postgres_parameters p;
    int sent;

    sb_postgres_bind(statement, values, &p);
    if (e->connection->prepared)
        sent = PQsendQueryPrepared(pg, sb_postgres_statement_name(statement), p.count, p.values,
                                   NULL, NULL, 0);
    else
        sent = PQsendQueryParams(pg, sb_postgres_statement_text(statement), p.count, NULL, p.values,
                                 NULL, NULL, 0);
    e->broken = e->broken || sent == 0;
    e->writes = e->writes || sb_postgres_writes(statement);
}

void sb_postgres_exchange_send_text(struct sb_postgres_exchange *e, const char *text)
{
    if (PQsendQueryParams(e->connection->pg, text, 0, NULL, NULL, NULL, NULL, 0) == 0)
        e->broken = true;
}

void sb_postgres_exchange_prepare(struct sb_postgres_exchange *e, int statement)
{
    if (PQsendPrepare(e->connection->pg, sb_postgres_statement_name(statement),
                      sb_postgres_statement_text(statement), 0, NULL) == 0)
        e->broken = true;
}

/* The server may want to be read from before it reads on. */
static bool flush(struct sb_postgres_connection *c)
{
    int rest;

    while ((rest = PQflush(c->pg)) > 0) {
        if (!sb_postgres_wait(c->pg, POLLIN | POLLOUT, c->deadline_ms))
            return false;
        if (poll_socket(c->pg, POLLIN, 0) > 0 && PQconsumeInput(c->pg) == 0)
            return false;
    }
    return rest == 0;
}

/* ---- Receiving ------------------------------------------------------------------------------ */

static bool wait_for_result(struct sb_postgres_connection *c)
{
    while (PQisBusy(c->pg) != 0)
        if (!sb_postgres_wait(c->pg, POLLIN, c->deadline_ms) || PQconsumeInput(c->pg) == 0)
            return false;
    return true;
}

struct receipt {
    size_t index; /* of the next result */
    bool synced;
    bool failed;
    int code;
};

/* The first error is the one that counts: those behind it are its consequences. */
static void receive(struct sb_postgres_exchange *e, struct receipt *receipt, const PGresult *result,
                    struct sb_sql_failure *failure)
{
    ExecStatusType status = PQresultStatus(result);

    if (status == PGRES_PIPELINE_SYNC) {
        receipt->synced = true;
        return;
    }
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
        if (e->take != NULL && receipt->code == SIMBA_OK)
            receipt->code = e->take(e->user, receipt->index, result);
    } else if (status != PGRES_PIPELINE_ABORTED && !receipt->failed) {
        receipt->failed = true;
        receipt->code = sb_postgres_fail_result(e->connection, result, failure);
    }
    receipt->index++;
}

/* Nothing is believed before the last synchronisation point has come back: until then nothing has been
 * committed. */
static bool receive_all(struct sb_postgres_exchange *e, struct receipt *receipt,
                        struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = e->connection;

    while (!receipt->synced) {
        PGresult *result;

        if (!wait_for_result(c))
            return false;
        result = PQgetResult(c->pg);
        if (result != NULL)
            receive(e, receipt, result, failure);
        PQclear(result);
        if (PQstatus(c->pg) != CONNECTION_OK)
            return false;
    }
    return true;
}

/* Without the synchronisation point nothing of what was sent can be committed. */
int sb_postgres_exchange_end(struct sb_postgres_exchange *e, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = e->connection;
    struct receipt receipt = {.code = SIMBA_OK};

    if (e->broken || PQpipelineSync(c->pg) == 0)
        return sb_postgres_fail_lost(c, false, "the connection is broken", failure);
    if (!flush(c) || !receive_all(e, &receipt, failure))
        return sb_postgres_fail_lost(c, e->writes,
                                     simba_now_ms() >= c->deadline_ms
                                         ? "the server did not answer in time"
                                         : "the connection was lost",
                                     failure);
    if (!receipt.failed && receipt.code != SIMBA_OK) {
        failure->remedy = SB_SQL_GIVE_UP;
        failure->error.code = receipt.code;
    }
    return receipt.code;
}
