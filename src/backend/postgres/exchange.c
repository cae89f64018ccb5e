/*
 * exchange.c - one round trip to the server. Owns sending, waiting and the order of results; must
 * not know what the statements mean.
 */
#include "backend/postgres/connection.h"

#include "base/check.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* ---- Limits ---------------------------------------------------------------------------------- */

/* libpq may leave most of what waits in a large buffer for its next call, where it counts again. So
 * no single look uses up the limit: a server whose rows arrive is never left for what waits behind
 * them. */
bool sb_postgres_count(const PGconn *pg, size_t *received)
{
    const size_t most = SB_POSTGRES_RECEIVED_MAX / 2;
    int waiting = 0;

    if (PQsocket(pg) >= 0 && ioctl(PQsocket(pg), FIONREAD, &waiting) == 0 && waiting > 0)
        *received += (size_t)waiting < most ? (size_t)waiting : most;
    return *received <= SB_POSTGRES_RECEIVED_MAX;
}

bool sb_postgres_consume(PGconn *pg, size_t *received)
{
    return sb_postgres_count(pg, received) && PQconsumeInput(pg) != 0;
}

/* On the wire, in the messages that libpq needs for it; never more. A description of columns comes
 * once for rows that come one by one, with the result behind them. */
static size_t weight_of(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    int columns = PQnfields(result);
    int rows = PQntuples(result);
    size_t weight = 0;

    if (status == PGRES_PIPELINE_SYNC)
        return 6;
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        weight += 5 + strlen(PQcmdStatus((PGresult *)(uintptr_t)result));
    if (status == PGRES_TUPLES_OK)
        weight += 7;
    for (int i = 0; i < columns && status == PGRES_TUPLES_OK; i++)
        weight += strlen(PQfname(result, i)) + 19;
    for (int row = 0; row < rows; row++) {
        weight += 7;
        for (int i = 0; i < columns; i++)
            weight += 4 + (size_t)PQgetlength(result, row, i);
    }
    return weight;
}

/* What came between the two looks counts as taken in. */
size_t sb_postgres_unasked(const PGconn *pg, size_t asked)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int waiting = 0;
    size_t taken;

    if (ioctl(PQsocket(pg), FIONREAD, &waiting) != 0 ||
        getsockopt(PQsocket(pg), IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    taken = (size_t)info.tcpi_bytes_received - (size_t)waiting;
    return taken > asked ? taken - asked : 0;
}

/* Nobody listens on this connection, but behind a pooler somebody may have. */
static void drop_notes(PGconn *pg)
{
    PGnotify *note;

    while ((note = PQnotifies(pg)) != NULL)
        PQfreemem(note);
}

static bool consume(struct sb_postgres_exchange *e)
{
    struct sb_postgres_connection *c = e->connection;
    size_t unasked = sb_postgres_unasked(c->pg, c->asked);

    if (unasked > SB_POSTGRES_UNASKED_MAX)
        c->base.outdated = true;
    if (!sb_postgres_count(c->pg, &e->received) || unasked > SB_POSTGRES_RECEIVED_MAX) {
        e->wrong = SB_POSTGRES_TOO_MUCH;
        return false;
    }
    if (PQconsumeInput(c->pg) == 0)
        return false;
    drop_notes(c->pg);
    return true;
}

static const char *why_lost(const struct sb_postgres_exchange *e)
{
    return e->wrong != NULL ? e->wrong : "the connection was lost";
}

/* ---- Sending --------------------------------------------------------------------------------- */

int sb_postgres_exchange_begin(struct sb_postgres_exchange *e, struct sb_postgres_connection *c,
                               struct sb_sql_failure *failure)
{
    e->connection = c;
    e->writes = false;
    e->broken = false;
    e->sent = 0;
    e->received = 0;
    e->rows = 0;
    e->index = 0;
    e->synced = false;
    e->wrong = NULL;
    e->failed = false;
    e->code = SIMBA_OK;
    while (sb_sql_wait(NULL, PQsocket(c->pg), POLLIN, SB_SQL_AT_ONCE) != 0)
        if (!consume(e)) /* the last words come before the end */
            return sb_postgres_fail_lost(c, false, why_lost(e), failure);
    if (PQstatus(c->pg) != CONNECTION_OK)
        return sb_postgres_fail_lost(c, false, "the connection is broken", failure);
    if (c->given_up)
        return sb_postgres_fail_lost(c, false, "the connection was given up", failure);
    if (c->distrusted)
        return sb_postgres_fail_lost(c, false, "the table is another user's", failure);
    return SIMBA_OK;
}

static void note_sent(struct sb_postgres_exchange *e, bool sent, struct sb_postgres_shape shape)
{
    SB_CHECK(e->sent < SB_POSTGRES_RESULTS_MAX, "an exchange has room for its statements");
    e->shapes[e->sent++] = shape;
    e->broken = e->broken || !sent;
}

static struct sb_postgres_shape shape_of(int statement)
{
    return (struct sb_postgres_shape){
        sb_postgres_columns(statement),
        statement == SB_SQL_SELECT_ALL || statement == SB_SQL_QUEUE ? SB_POSTGRES_ROWS
                                                                    : SB_POSTGRES_ROW_OR_NONE,
    };
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
        sb_postgres_statement_text(statement, c->table, c->has_terms, text);
        sent = PQsendQueryParams(c->pg, text, p.count, NULL, p.values, NULL, NULL, 0);
    }
    note_sent(e, sent != 0, shape_of(statement));
    e->writes = e->writes || sb_postgres_writes(statement);
}

void sb_postgres_exchange_send_values(struct sb_postgres_exchange *e, const char *text,
                                      const char *const *values, int count, bool writes,
                                      struct sb_postgres_shape shape)
{
    int sent = PQsendQueryParams(e->connection->pg, text, count, NULL, values, NULL, NULL, 0);

    note_sent(e, sent != 0, shape);
    e->writes = e->writes || writes;
}

void sb_postgres_exchange_send_text(struct sb_postgres_exchange *e, const char *text,
                                    const char *value, struct sb_postgres_shape shape)
{
    sb_postgres_exchange_send_values(e, text, &value, value != NULL ? 1 : 0, false, shape);
}

/* A little less, so that the server tells what was in the way before it is left. */
void sb_postgres_exchange_limit(struct sb_postgres_exchange *e)
{
    char text[SB_POSTGRES_LIMIT_TEXT_MAX];
    int64_t left_ms = e->connection->deadline_ms - simba_now_ms();

    sb_postgres_limit_transaction(left_ms - left_ms / 8, text);
    sb_postgres_exchange_send_text(e, text, NULL, shape_of(SB_POSTGRES_LIMIT_WAIT));
}

void sb_postgres_exchange_prepare(struct sb_postgres_exchange *e, int statement)
{
    struct sb_postgres_connection *c = e->connection;
    char text[SB_POSTGRES_TEXT_MAX];

    sb_postgres_statement_text(statement, c->table, c->has_terms, text);
    note_sent(e, PQsendPrepare(c->pg, c->names[statement], text, 0, NULL) != 0,
              (struct sb_postgres_shape){.columns = 0});
}

/* Asks libpq for the rows of the next statement one by one, where there may be many: it would keep
 * them all. */
static void expect_next(const struct sb_postgres_exchange *e)
{
    if (e->index < e->sent && e->shapes[e->index].rows == SB_POSTGRES_ROWS)
        PQsetSingleRowMode(e->connection->pg);
}

/* ---- Receiving ------------------------------------------------------------------------------- */

/* Whether it is an answer to the statement. A server may send any number of columns, rows and
 * results; what is taken is looked at no further. */
static bool fits(const struct sb_postgres_exchange *e, const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    const struct sb_postgres_shape *shape;

    if (e->index >= e->sent)
        return false;
    shape = &e->shapes[e->index];
    if (shape->columns == 0)
        return status == PGRES_COMMAND_OK;
    if (PQnfields(result) < shape->columns)
        return false;
    if (shape->rows == SB_POSTGRES_ROWS)
        return status == PGRES_SINGLE_TUPLE ||
               (status == PGRES_TUPLES_OK && PQntuples(result) == 0);
    return status == PGRES_TUPLES_OK && PQntuples(result) <= 1 &&
           (PQntuples(result) == 1 || shape->rows == SB_POSTGRES_ROW_OR_NONE);
}

static void take(struct sb_postgres_exchange *e, const PGresult *result)
{
    if (PQresultStatus(result) == PGRES_SINGLE_TUPLE) {
        e->received = 0;
        e->rows++;
    }
    if (e->rows > SB_POSTGRES_ROWS_MAX)
        e->wrong = SB_POSTGRES_TOO_MUCH;
    else if (e->take != NULL && e->code == SIMBA_OK)
        e->code = e->take(e->user, e->index, result);
}

/* The first error is the one that counts: those behind it are its consequences. */
static void receive(struct sb_postgres_exchange *e, const PGresult *result,
                    struct sb_sql_failure *failure)
{
    ExecStatusType status = PQresultStatus(result);

    e->connection->asked += weight_of(result);
    if (status == PGRES_PIPELINE_SYNC && (e->failed || e->index == e->sent)) {
        e->synced = true;
        return;
    }
    if (status == PGRES_FATAL_ERROR && !e->failed) {
        e->failed = true;
        e->code = sb_postgres_fail_result(e->connection, result, failure);
    } else if (status != PGRES_FATAL_ERROR && status != PGRES_PIPELINE_ABORTED) {
        if (fits(e, result))
            take(e, result);
        else
            e->wrong = "the server answers something else than it was asked";
    }
    if (status != PGRES_SINGLE_TUPLE)
        e->index++;
}

/* Takes the results that have come. False: the connection is lost, or not to be used any more. */
static bool receive_some(struct sb_postgres_exchange *e, struct sb_sql_failure *failure)
{
    PGconn *pg = e->connection->pg;

    while (!e->synced && PQisBusy(pg) == 0) {
        PGresult *result = PQgetResult(pg);

        if (result != NULL)
            receive(e, result, failure);
        else
            expect_next(e);
        PQclear(result);
        if (PQstatus(pg) != CONNECTION_OK || e->wrong != NULL)
            return false;
    }
    return true;
}

/* Whatever becomes of the failure: what still comes is not the answer to the next exchange. */
static int give_up(const struct sb_postgres_exchange *e, const char *why,
                   struct sb_sql_failure *failure)
{
    e->connection->given_up = true;
    return sb_postgres_fail_lost(e->connection, e->writes, why, failure);
}

/* Nothing is believed before the synchronisation point has come back: until then nothing has been
 * committed. The server may want to be read from before it reads on. */
static int proceed(struct sb_postgres_exchange *e, short *ret_wants, struct sb_sql_failure *failure)
{
    PGconn *pg = e->connection->pg;
    int unsent = PQflush(pg);

    *ret_wants = 0;
    if (unsent < 0 || !receive_some(e, failure))
        return give_up(e, why_lost(e), failure);
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

int sb_postgres_exchange_end(struct sb_postgres_exchange *e, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = e->connection;
    short wants = 0;
    int code;

    /* without the synchronisation point nothing of what was sent can be committed */
    if (e->broken || PQpipelineSync(c->pg) == 0) {
        e->writes = false;
        return give_up(e, "the connection is broken", failure);
    }
    expect_next(e);
    code = proceed(e, &wants, failure);
    while (wants != 0) {
        if (sb_sql_wait(&c->base, PQsocket(c->pg), wants, c->deadline_ms) == 0) {
            if (c->limited)
                atomic_store(&c->settings->doubted, true);
            return give_up(e, "the server did not answer in time", failure);
        }
        if (!consume(e))
            return give_up(e, why_lost(e), failure);
        code = proceed(e, &wants, failure);
    }
    SB_CHECK(code != SIMBA_OK || (e->synced && !e->failed),
             "a success has come back to its synchronisation point");
    return code;
}
