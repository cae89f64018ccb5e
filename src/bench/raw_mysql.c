/*
 * raw_mysql.c - MySQL or MariaDB as libmariadb alone uses it.
 *
 * The server tells nobody of a change, so a hand-over by hand is the two writes alone; a waiter polls.
 */
#include "bench/raw_store.h"
#include "bench/raw_sql.h"

#include "base/error.h"

#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_ACCESS_DENIED 1142

struct mysql {
    struct bench_sql sql; /* first: the client is one */
    MYSQL *connection;
    MYSQL_STMT *update;
};

static int fail(struct mysql *raw, struct simba_error *error)
{
    bool denied = mysql_errno(raw->connection) == TABLE_ACCESS_DENIED;

    return sb_error_set(error, denied ? SIMBA_EDENIED : SIMBA_ESTORE, "MySQL by hand: %s",
                        mysql_error(raw->connection));
}

static int execute(void *handle, const char *sql, struct simba_error *error)
{
    struct mysql *raw = handle;

    return mysql_query(raw->connection, sql) == 0 ? SIMBA_OK : fail(raw, error);
}

static void close_raw(void *handle)
{
    struct mysql *raw = handle;

    if (raw->update != NULL)
        mysql_stmt_close(raw->update);
    if (raw->connection != NULL)
        mysql_close(raw->connection);
    free(raw);
}

static int connect_to(struct mysql *raw, simba_url *url, struct simba_error *error)
{
    const char *path = simba_url_path(url);
    bool has_host = simba_url_host_count(url) > 0;

    raw->connection = mysql_init(NULL);
    if (raw->connection == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    if (mysql_real_connect(raw->connection, has_host ? simba_url_host(url, 0) : NULL,
                           simba_url_user(url), simba_url_password(url),
                           path[0] == '/' ? path + 1 : path,
                           has_host ? (unsigned)simba_url_port(url, 0) : 0,
                           simba_url_param(url, "socket"), 0) == NULL)
        return fail(raw, error);
    return SIMBA_OK;
}

static int prepare_row(struct mysql *raw, struct simba_error *error)
{
    char sql[BENCH_SQL_MAX];

    snprintf(sql, sizeof sql, BENCH_SQL_DELETE, raw->sql.prefix);
    int code = execute(raw, sql, error);
    snprintf(sql, sizeof sql, BENCH_SQL_INSERT " ON DUPLICATE KEY UPDATE mutex = mutex",
             raw->sql.prefix);
    if (code == SIMBA_OK)
        code = execute(raw, sql, error);
    if (code != SIMBA_OK)
        return code;
    snprintf(sql, sizeof sql, BENCH_SQL_UPDATE, raw->sql.prefix);
    raw->update = mysql_stmt_init(raw->connection);
    if (raw->update == NULL || mysql_stmt_prepare(raw->update, sql, strlen(sql)) != 0)
        return fail(raw, error);
    return SIMBA_OK;
}

static int update(void *handle, struct simba_error *error)
{
    struct mysql *raw = handle;

    if (mysql_stmt_execute(raw->update) == 0)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_ESTORE, "MySQL by hand: %s", mysql_stmt_error(raw->update));
}

static int open_raw(simba_url *url, const char *prefix, void **ret_raw, struct simba_error *error)
{
    int code = bench_sql_check_plain(url, error);
    if (code != SIMBA_OK)
        return code;
    struct mysql *raw = calloc(1, sizeof *raw);
    if (raw == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    raw->sql =
        (struct bench_sql){.execute = execute, .update = update, .begin = "START TRANSACTION"};
    snprintf(raw->sql.prefix, sizeof raw->sql.prefix, "%s", prefix);
    code = connect_to(raw, url, error);
    if (code == SIMBA_OK)
        code = prepare_row(raw, error);
    if (code != SIMBA_OK)
        close_raw(raw);
    else
        *ret_raw = raw;
    return code;
}

static int counter(void *handle, double *ret_value, struct simba_error *error)
{
    struct mysql *raw = handle;
    int code = execute(raw, "SHOW GLOBAL STATUS LIKE 'Handler_commit'", error);

    if (code != SIMBA_OK)
        return code;
    MYSQL_RES *rows = mysql_store_result(raw->connection);
    MYSQL_ROW row = rows != NULL ? mysql_fetch_row(rows) : NULL;
    if (row != NULL && row[1] != NULL)
        *ret_value = strtod(row[1], NULL);
    else
        code = fail(raw, error);
    if (rows != NULL)
        mysql_free_result(rows);
    return code;
}

static const struct bench_way ways[] = {
    {"raw", "two committed UPDATEs", "two committed UPDATEs, nobody polls", bench_sql_cycle, NULL,
     bench_sql_hand_over},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};

const struct bench_raw_ops bench_raw_mysql = {
    .open = open_raw,
    .close = close_raw,
    .ways = ways,
    .rest_ms = 400, /* until the waiter polls at its longest interval */
    .renew_label = "UPDATEs in one transaction",
    .renew = bench_sql_renew,
    .counter_name = "commits, reads included",
    .counter = counter,
    .forget = bench_sql_forget,
};
