/*
 * raw_postgres.c - PostgreSQL as libpq alone uses it, but for logging in: no server is told more
 * than the library would tell it.
 *
 * The waiter listens from the first hand-over on: the server wakes every listener of any channel,
 * and nobody does where a mutex is measured that nobody else wants.
 */
#include "bench/raw_store.h"
#include "bench/raw_sql.h"

#include "backend/postgres/connection.h"
#include "backend/postgres/statement.h"
#include "base/error.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 10000 /* for one answer */
#define INSUFFICIENT_PRIVILEGE "42501"

struct postgres {
    struct bench_sql sql; /* first: the client is one */
    struct sb_postgres_settings settings;
    struct sb_postgres_connection login;
    PGconn *connection; /* that it has made */
    bool listens;
    struct sb_sql_values values; /* for the library's statements, with the row's version */
    char names[SB_POSTGRES_STATEMENTS][SB_POSTGRES_NAME_MAX]; /* of those that are prepared */
};

/* The first line of what it says; the others are hints. */
static int refuse(PGconn *connection, int code, struct simba_error *error)
{
    const char *text = PQerrorMessage(connection);

    return sb_error_set(error, code, "PostgreSQL by hand: %.*s", (int)strcspn(text, "\n"), text);
}

static int fail(PGconn *connection, struct simba_error *error)
{
    return refuse(connection, SIMBA_ESTORE, error);
}

/* Takes in what comes before the deadline, and within the library's limit of bytes. After a failure
 * the connection is of no use. */
static int take_in(PGconn *connection, int64_t deadline_ms, size_t *received,
                   struct simba_error *error)
{
    int unsent = PQflush(connection);

    if (unsent < 0)
        return fail(connection, error);
    if (sb_sql_wait(NULL, PQsocket(connection), unsent > 0 ? POLLIN | POLLOUT : POLLIN,
                    deadline_ms) == 0)
        return sb_error_set(error, SIMBA_ETIMEDOUT,
                            "PostgreSQL by hand: the server did not answer in time");
    if (!sb_postgres_count(connection, received))
        return sb_error_set(
            error, SIMBA_ESTORE,
            "PostgreSQL by hand: the server sends data that the client did not ask for");
    return PQconsumeInput(connection) != 0 ? SIMBA_OK : fail(connection, error);
}

static bool is_copy(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

/* The last result, as PQexec gives it. There would be no end of those of a COPY. */
static int receive(PGconn *connection, PGresult **ret_result, struct simba_error *error)
{
    int64_t deadline_ms = simba_now_ms() + PATIENCE_MS;
    PGresult *last = NULL;
    PGresult *next;
    size_t received = 0;
    int code = SIMBA_OK;

    do {
        while (code == SIMBA_OK && PQisBusy(connection) != 0)
            code = take_in(connection, deadline_ms, &received, error);
        next = code == SIMBA_OK ? PQgetResult(connection) : NULL;
        if (next != NULL || code != SIMBA_OK) {
            PQclear(last);
            last = next;
        }
    } while (next != NULL && !is_copy(next));
    *ret_result = last;
    return code;
}

/* Waits for the answer to what was sent. Where it is good and `ret_result` is not NULL it becomes
 * the caller's. */
static int finish(PGconn *connection, int sent, PGresult **ret_result, struct simba_error *error)
{
    PGresult *result = NULL;

    if (sent == 0)
        return fail(connection, error);
    int code = receive(connection, &result, error);
    if (code != SIMBA_OK)
        return code;
    ExecStatusType status = PQresultStatus(result);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (state != NULL && strcmp(state, INSUFFICIENT_PRIVILEGE) == 0)
        code = refuse(connection, SIMBA_EDENIED, error);
    else if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        code = fail(connection, error);
    if (code == SIMBA_OK && ret_result != NULL)
        *ret_result = result;
    else
        PQclear(result);
    return code;
}

static int execute(void *handle, const char *sql, struct simba_error *error)
{
    struct postgres *raw = handle;

    return finish(raw->connection, PQsendQuery(raw->connection, sql), NULL, error);
}

/* In the usual form of messages, which the library's log-in changes. */
static int connect_to(struct postgres *raw, simba_url *url, struct simba_error *error)
{
    struct sb_postgres_connection *c = &raw->login;
    struct sb_sql_failure failure;
    int code = sb_postgres_settings_read(&raw->settings, url, error);

    if (code != SIMBA_OK)
        return code;
    c->settings = &raw->settings;
    c->deadline_ms = simba_now_ms() + raw->settings.address.connect_timeout_ms;
    code = sb_postgres_log_in(c, &failure);
    raw->connection = c->pg;
    if (code != SIMBA_OK)
        return sb_error_set(error, code, "by hand: %s", failure.error.text);
    PQsetErrorVerbosity(raw->connection, PQERRORS_DEFAULT);
    return SIMBA_OK;
}

/* Asks for one row of so many columns, which becomes the caller's. */
static int ask_row(struct postgres *raw, const char *sql, int columns, PGresult **ret_result,
                   struct simba_error *error)
{
    PGresult *result = NULL;
    int code = finish(raw->connection, PQsendQuery(raw->connection, sql), &result, error);

    if (code != SIMBA_OK)
        return code;
    if (PQntuples(result) == 1 && PQnfields(result) == columns) {
        *ret_result = result;
        return SIMBA_OK;
    }
    PQclear(result);
    return sb_error_set(error, SIMBA_ESTORE,
                        "PostgreSQL by hand: the server answers something else than it was asked");
}

/* The table as the library has found it. Then names are looked up in the system's schema alone: in
 * others there may be functions and operators of strangers. */
static int find_table(struct postgres *raw, struct simba_error *error)
{
    static const char find[] =
        "SELECT pg_catalog.quote_ident(n.nspname),"
        " coalesce(pg_catalog.has_table_privilege(pg_catalog.to_regclass(pg_catalog.quote_ident("
        "n.nspname) OPERATOR(pg_catalog.||) '.simba_waiter'), 'DELETE'), false),"
        " pg_catalog.set_config('search_path', '', false)"
        " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n"
        " ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
        " WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('simba_mutex')";
    PGresult *result = NULL;
    int code = ask_row(raw, find, 3, &result, error);

    if (code != SIMBA_OK)
        return code;
    snprintf(raw->sql.table, sizeof raw->sql.table, "%s.simba_mutex", PQgetvalue(result, 0, 0));
    if (PQgetvalue(result, 0, 1)[0] == 't')
        snprintf(raw->sql.waiters, sizeof raw->sql.waiters, "%s.simba_waiter",
                 PQgetvalue(result, 0, 0));
    PQclear(result);
    return SIMBA_OK;
}

static void close_raw(void *handle)
{
    struct postgres *raw = handle;

    PQfinish(raw->connection);
    sb_postgres_settings_clear(&raw->settings);
    free(raw);
}

static int prepare_update(struct postgres *raw, struct simba_error *error)
{
    char sql[BENCH_SQL_MAX];

    bench_sql_write_update(&raw->sql, sql);
    return finish(raw->connection, PQsendPrepare(raw->connection, "u", sql, 0, NULL), NULL, error);
}

static int update(void *handle, struct simba_error *error)
{
    struct postgres *raw = handle;

    int sent = PQsendQueryPrepared(raw->connection, "u", 0, NULL, NULL, NULL, 0);

    return finish(raw->connection, sent, NULL, error);
}

/* ---- The library's statements ---------------------------------------------------------------- */

static int prepare(struct postgres *raw, int statement, struct simba_error *error)
{
    char text[SB_POSTGRES_TEXT_MAX];

    sb_postgres_statement_text(statement, raw->sql.table, false, text);
    sb_postgres_statement_name(statement, raw->sql.table, false, raw->names[statement]);
    int sent = PQsendPrepare(raw->connection, raw->names[statement], text, 0, NULL);
    return finish(raw->connection, sent, NULL, error);
}

static int change(struct postgres *raw, int statement, struct simba_error *error)
{
    struct sb_postgres_parameters parameters;

    sb_postgres_bind(statement, &raw->values, &parameters);
    PGresult *result = NULL;
    int sent = PQsendQueryPrepared(raw->connection, raw->names[statement], parameters.count,
                                   parameters.values, NULL, NULL, 0);
    int code = finish(raw->connection, sent, &result, error);
    if (code != SIMBA_OK)
        return code;
    bool missed = strcmp(PQcmdTuples(result), "0") == 0;
    PQclear(result);
    if (missed)
        return sb_error_set(error, SIMBA_ESTORE,
                            "PostgreSQL by hand: the row is not as it was left");
    raw->values.version++;
    return SIMBA_OK;
}

static int cycle_statements(void *handle, struct simba_error *error)
{
    struct postgres *raw = handle;
    int code = change(raw, SB_SQL_ACQUIRE, error);

    return code == SIMBA_OK ? change(raw, SB_SQL_RELEASE, error) : code;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void set_up(struct postgres *raw, const char *prefix)
{
    raw->sql = (struct bench_sql){.execute = execute,
                                  .update = update,
                                  .begin = "BEGIN",
                                  .unless_there = " ON CONFLICT DO NOTHING"};
    bench_sql_set_names(&raw->sql, prefix);
    bench_sql_set_values(&raw->sql, &raw->values);
}

static int prepare_all(struct postgres *raw, struct simba_error *error)
{
    int code = find_table(raw, error);
    if (code == SIMBA_OK)
        code = bench_sql_create_rows(raw, error);
    if (code == SIMBA_OK)
        code = prepare_update(raw, error);
    if (code == SIMBA_OK)
        code = prepare(raw, SB_SQL_ACQUIRE, error);
    if (code == SIMBA_OK)
        code = prepare(raw, SB_SQL_RELEASE, error);
    return code;
}

static int open_raw(simba_url *url, const char *prefix, void **ret_raw, struct simba_error *error)
{
    int code = bench_sql_check_plain(url, error);
    if (code != SIMBA_OK)
        return code;
    struct postgres *raw = calloc(1, sizeof *raw);
    if (raw == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    set_up(raw, prefix);
    code = connect_to(raw, url, error);
    if (code == SIMBA_OK)
        code = prepare_all(raw, error);
    if (code != SIMBA_OK)
        close_raw(raw);
    else
        *ret_raw = raw;
    return code;
}

/* ---- A hand-over ----------------------------------------------------------------------------- */

static int await_notice(PGconn *connection, struct simba_error *error)
{
    int64_t deadline_ms = simba_now_ms() + PATIENCE_MS;
    PGnotify *notice = PQnotifies(connection);
    size_t received = 0;
    int code = SIMBA_OK;

    while (notice == NULL && code == SIMBA_OK) {
        code = take_in(connection, deadline_ms, &received, error);
        notice = code == SIMBA_OK ? PQnotifies(connection) : NULL;
    }
    PQfreemem(notice);
    return code;
}

/* The channel is named after the mutex, for others may measure on the same database. */
static int notify(void *handle, struct simba_error *error)
{
    struct postgres *raw = handle;
    char sql[BENCH_SQL_MAX];

    snprintf(sql, sizeof sql, "NOTIFY \"%s\"", raw->sql.raw_mutex);
    return execute(raw, sql, error);
}

static int listen_once(void *handle, struct simba_error *error)
{
    struct postgres *raw = handle;
    char sql[BENCH_SQL_MAX];

    if (raw->listens)
        return SIMBA_OK;
    snprintf(sql, sizeof sql, "LISTEN \"%s\"", raw->sql.raw_mutex);
    int code = execute(raw, sql, error);
    raw->listens = code == SIMBA_OK;
    return code;
}

static int hear_and_update(void *handle, struct simba_error *error)
{
    struct postgres *raw = handle;
    int code = await_notice(raw->connection, error);

    return code == SIMBA_OK ? update(raw, error) : code;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int counter(void *handle, double *ret_value, struct simba_error *error)
{
    struct postgres *raw = handle;
    PGresult *result = NULL;
    int code =
        ask_row(raw, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()",
                1, &result, error);

    if (code != SIMBA_OK)
        return code;
    *ret_value = strtod(PQgetvalue(result, 0, 0), NULL);
    PQclear(result);
    return SIMBA_OK;
}

static const struct bench_way ways[] = {
    {.key = "raw",
     .cycle_label = "two committed UPDATEs",
     .handover_label = "NOTIFY heard + one committed UPDATE",
     .cycle = bench_sql_cycle,
     .owner = {.release = notify},
     .waiter = {.join = listen_once, .take = hear_and_update}},
    {.key = "statements", .cycle_label = "the same statements by hand", .cycle = cycle_statements},
    {.key = NULL},
};

const struct bench_raw_ops bench_raw_postgres = {
    .open = open_raw,
    .close = close_raw,
    .ways = ways,
    .rest_ms = 20,
    .renew_label = "UPDATEs in one transaction",
    .renew = bench_sql_renew,
    .counter_name = "commits, reads included",
    .counter = counter,
    .forget = bench_sql_forget,
};
