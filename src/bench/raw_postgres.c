/*
 * raw_postgres.c - PostgreSQL as libpq alone uses it.
 *
 * The waiter listens from the first hand-over on: the server wakes whoever listens to anything, and nobody does
 * where a mutex is measured that nobody else wants.
 */
#include "bench/machine.h"
#include "bench/raw_store.h"
#include "bench/raw_sql.h"

#include "base/error.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 10000
#define INSUFFICIENT_PRIVILEGE "42501"

struct postgres {
    struct bench_sql sql; /* first: the client is one */
    PGconn *owner;
    PGconn *waiter;
    bool listens; /* the waiter does */
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

static int finish(PGconn *connection, PGresult *result, struct simba_error *error)
{
    bool good = PQresultStatus(result) == PGRES_COMMAND_OK;
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    bool denied = state != NULL && strcmp(state, INSUFFICIENT_PRIVILEGE) == 0;

    PQclear(result);
    if (denied)
        return refuse(connection, SIMBA_EDENIED, error);
    return good ? SIMBA_OK : fail(connection, error);
}

static int execute_on(PGconn *connection, const char *sql, struct simba_error *error)
{
    return finish(connection, PQexec(connection, sql), error);
}

static int execute(void *handle, const char *sql, struct simba_error *error)
{
    struct postgres *raw = handle;

    return execute_on(raw->owner, sql, error);
}

static PGconn *connect_to(simba_url *url)
{
    const char *path = simba_url_path(url);
    char port[16] = "";
    const char *const keywords[] = {"host", "port", "user", "password", "dbname", NULL};
    const char *const values[] = {simba_url_host_count(url) > 0 ? simba_url_host(url, 0)
                                                                : simba_url_param(url, "socket"),
                                  port,
                                  simba_url_user(url),
                                  simba_url_password(url),
                                  path[0] == '/' ? path + 1 : path,
                                  NULL};

    if (simba_url_host_count(url) > 0 && simba_url_port(url, 0) != 0)
        snprintf(port, sizeof port, "%d", simba_url_port(url, 0));
    return PQconnectdbParams(keywords, values, 0);
}

static void close_raw(void *handle)
{
    struct postgres *raw = handle;

    PQfinish(raw->owner);
    PQfinish(raw->waiter);
    free(raw);
}

static int prepare_connection(struct postgres *raw, PGconn *connection, struct simba_error *error)
{
    char sql[BENCH_SQL_MAX];

    if (PQstatus(connection) != CONNECTION_OK)
        return fail(connection, error);
    snprintf(sql, sizeof sql, BENCH_SQL_DELETE, raw->sql.prefix);
    int code = execute_on(connection, sql, error);
    snprintf(sql, sizeof sql, BENCH_SQL_INSERT " ON CONFLICT DO NOTHING", raw->sql.prefix);
    if (code == SIMBA_OK)
        code = execute_on(connection, sql, error);
    snprintf(sql, sizeof sql, BENCH_SQL_UPDATE, raw->sql.prefix);
    if (code == SIMBA_OK)
        code = finish(connection, PQprepare(connection, "u", sql, 0, NULL), error);
    return code;
}

static int update_on(PGconn *connection, struct simba_error *error)
{
    return finish(connection, PQexecPrepared(connection, "u", 0, NULL, NULL, NULL, 0), error);
}

static int update(void *handle, struct simba_error *error)
{
    struct postgres *raw = handle;

    return update_on(raw->owner, error);
}

static int open_raw(simba_url *url, const char *prefix, void **ret_raw, struct simba_error *error)
{
    int code = bench_sql_check_plain(url, error);
    if (code != SIMBA_OK)
        return code;
    struct postgres *raw = calloc(1, sizeof *raw);
    if (raw == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    raw->sql = (struct bench_sql){.execute = execute, .update = update, .begin = "BEGIN"};
    snprintf(raw->sql.prefix, sizeof raw->sql.prefix, "%s", prefix);
    raw->owner = connect_to(url);
    raw->waiter = connect_to(url);
    code = prepare_connection(raw, raw->owner, error);
    if (code == SIMBA_OK)
        code = prepare_connection(raw, raw->waiter, error);
    if (code != SIMBA_OK)
        close_raw(raw);
    else
        *ret_raw = raw;
    return code;
}

static int await_notice(PGconn *connection, struct simba_error *error)
{
    struct pollfd socket = {.fd = PQsocket(connection), .events = POLLIN};
    PGnotify *notice = PQnotifies(connection);

    while (notice == NULL) {
        if (poll(&socket, 1, PATIENCE_MS) <= 0)
            return sb_error_set(error, SIMBA_ETIMEDOUT, "PostgreSQL by hand: no notice came");
        if (PQconsumeInput(connection) == 0)
            return fail(connection, error);
        notice = PQnotifies(connection);
    }
    PQfreemem(notice);
    return SIMBA_OK;
}

static int prepare_hand_over(void *handle, struct simba_error *error)
{
    struct postgres *raw = handle;

    if (raw->listens)
        return SIMBA_OK;
    int code = execute_on(raw->waiter, "LISTEN simba_bench", error);
    raw->listens = code == SIMBA_OK;
    return code;
}

/* A NOTIFY, until the other connection has heard of it and has committed an UPDATE. */
static int hand_over(void *handle, double *ret_us, struct simba_error *error)
{
    struct postgres *raw = handle;
    double begin = bench_now_us();

    if (PQsendQuery(raw->owner, "NOTIFY simba_bench") == 0)
        return fail(raw->owner, error);
    int code = await_notice(raw->waiter, error);
    if (code == SIMBA_OK)
        code = update_on(raw->waiter, error);
    double end = bench_now_us();
    for (PGresult *result; (result = PQgetResult(raw->owner)) != NULL;)
        PQclear(result);
    if (code == SIMBA_OK)
        *ret_us = end - begin;
    return code;
}

static int counter(void *handle, double *ret_value, struct simba_error *error)
{
    struct postgres *raw = handle;
    PGresult *result = PQexec(
        raw->owner, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()");
    bool good = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1;

    if (good)
        *ret_value = strtod(PQgetvalue(result, 0, 0), NULL);
    PQclear(result);
    return good ? SIMBA_OK : fail(raw->owner, error);
}

static const struct bench_way ways[] = {
    {"raw", "two committed UPDATEs", "NOTIFY heard + one committed UPDATE", bench_sql_cycle,
     prepare_hand_over, hand_over},
    {NULL, NULL, NULL, NULL, NULL, NULL},
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
