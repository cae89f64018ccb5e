/*
 * raw_mysql.c - MySQL or MariaDB as libmariadb alone uses it, but for logging in: no server is told
 * more than the library would tell it.
 *
 * The server tells nobody of a change, so a hand-over by hand is the two writes alone.
 */
#include "bench/raw_store.h"
#include "bench/raw_sql.h"

#include "backend/mysql/connection.h"
#include "backend/mysql/statement.h"
#include "base/error.h"

#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_ACCESS_DENIED 1142
#define PATIENCE_S 10 /* of one wait for the server */

struct mysql {
    struct bench_sql sql; /* first: the client is one */
    struct sb_mysql_settings settings;
    struct sb_mysql_connection login;
    MYSQL *connection; /* that it has made */
    MYSQL_STMT *update;
    MYSQL_STMT *acquire; /* the library's own statements */
    MYSQL_STMT *release;
    struct sb_sql_values values; /* for the library's statements, with the row's version */
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

static void close_statement(MYSQL_STMT *statement)
{
    if (statement != NULL)
        mysql_stmt_close(statement);
}

static void close_raw(void *handle)
{
    struct mysql *raw = handle;

    close_statement(raw->update);
    close_statement(raw->acquire);
    close_statement(raw->release);
    if (raw->connection != NULL)
        mysql_close(raw->connection);
    sb_sql_address_clear(&raw->settings.address, sb_mysql_options);
    free(raw);
}

static int connect_to(struct mysql *raw, simba_url *url, struct simba_error *error)
{
    struct sb_mysql_connection *c = &raw->login;
    struct sb_sql_failure failure;
    int code = sb_sql_address_read(&raw->settings.address, sb_mysql_options, url, error);

    if (code != SIMBA_OK)
        return code;
    c->settings = &raw->settings;
    c->wait_max_s = PATIENCE_S;
    c->deadline_ms = simba_now_ms() + raw->settings.address.connect_timeout_ms;
    code = sb_mysql_log_in(c, 0, &failure);
    raw->connection = c->mysql;
    if (code == SIMBA_OK)
        code = sb_mysql_ask_read_only(c, &failure);
    return code == SIMBA_OK ? SIMBA_OK
                            : sb_error_set(error, code, "by hand: %s", failure.error.text);
}

static int prepare(struct mysql *raw, const char *sql, MYSQL_STMT **ret_statement,
                   struct simba_error *error)
{
    *ret_statement = mysql_stmt_init(raw->connection);
    if (*ret_statement == NULL || mysql_stmt_prepare(*ret_statement, sql, strlen(sql)) != 0)
        return fail(raw, error);
    return SIMBA_OK;
}

/* One of the library's statements, with its condition. */
static int prepare_own(struct mysql *raw, size_t which, MYSQL_STMT **ret_statement,
                       struct simba_error *error)
{
    sb_mysql_write_text(&raw->login, which);
    return prepare(raw, raw->login.text, ret_statement, error);
}

static int prepare_all(struct mysql *raw, struct simba_error *error)
{
    char sql[BENCH_SQL_MAX];

    bench_sql_write_update(&raw->sql, sql);
    int code = prepare(raw, sql, &raw->update, error);
    if (code == SIMBA_OK)
        code = prepare_own(raw, SB_MYSQL_ACQUIRE_FAIR, &raw->acquire, error);
    if (code == SIMBA_OK)
        code = prepare_own(raw, SB_MYSQL_RELEASE_ALONE, &raw->release, error);
    return code;
}

static int refuse(MYSQL_STMT *statement, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ESTORE, "MySQL by hand: %s", mysql_stmt_error(statement));
}

static int update(void *handle, struct simba_error *error)
{
    struct mysql *raw = handle;

    return mysql_stmt_execute(raw->update) == 0 ? SIMBA_OK : refuse(raw->update, error);
}

/* ---- The library's statements ---------------------------------------------------------------- */

static int change(struct mysql *raw, MYSQL_STMT *statement, size_t which, struct simba_error *error)
{
    struct sb_mysql_parameters parameters;

    sb_mysql_bind_values(which, &raw->values, INT64_MAX, &parameters);
    if (!sb_mysql_bind_parameters(statement, parameters.binds, parameters.count) ||
        mysql_stmt_execute(statement) != 0)
        return refuse(statement, error);
    if (mysql_stmt_affected_rows(statement) != 1)
        return sb_error_set(error, SIMBA_ESTORE, "MySQL by hand: the row is not as it was left");
    raw->values.version = parameters.next_version;
    return SIMBA_OK;
}

static int cycle_statements(void *handle, struct simba_error *error)
{
    struct mysql *raw = handle;
    int code = change(raw, raw->acquire, SB_MYSQL_ACQUIRE_FAIR, error);

    return code == SIMBA_OK ? change(raw, raw->release, SB_MYSQL_RELEASE_ALONE, error) : code;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void set_up(struct mysql *raw, const char *prefix)
{
    raw->sql = (struct bench_sql){.execute = execute,
                                  .update = update,
                                  .begin = "START TRANSACTION",
                                  .unless_there = " ON DUPLICATE KEY UPDATE mutex = mutex"};
    bench_sql_set_names(&raw->sql, prefix);
    bench_sql_set_values(&raw->sql, &raw->values);
}

static int open_raw(simba_url *url, const char *prefix, void **ret_raw, struct simba_error *error)
{
    int code = bench_sql_check_plain(url, error);
    if (code != SIMBA_OK)
        return code;
    struct mysql *raw = calloc(1, sizeof *raw);
    if (raw == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    set_up(raw, prefix);
    code = connect_to(raw, url, error);
    if (code == SIMBA_OK)
        code = bench_sql_create_rows(raw, error);
    if (code == SIMBA_OK)
        code = prepare_all(raw, error);
    if (code != SIMBA_OK)
        close_raw(raw);
    else
        *ret_raw = raw;
    return code;
}

/* Each is a transaction of its own. One that finds nothing to change counts, too, though the server
 * has nothing to commit then. What only reads does not. */
static int counter(void *handle, double *ret_value, struct simba_error *error)
{
    struct mysql *raw = handle;
    int code = execute(raw,
                       "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_update',"
                       " 'Com_update_multi', 'Com_insert', 'Com_insert_select', 'Com_replace',"
                       " 'Com_delete', 'Com_delete_multi')",
                       error);
    double count = 0;

    if (code != SIMBA_OK)
        return code;
    MYSQL_RES *rows = mysql_store_result(raw->connection);
    if (rows == NULL || mysql_num_fields(rows) != 2 || mysql_num_rows(rows) == 0)
        code = fail(raw, error);
    for (MYSQL_ROW row; code == SIMBA_OK && (row = mysql_fetch_row(rows)) != NULL;)
        count += row[1] != NULL ? strtod(row[1], NULL) : 0;
    if (code == SIMBA_OK)
        *ret_value = count;
    if (rows != NULL)
        mysql_free_result(rows);
    return code;
}

static const struct bench_way ways[] = {
    {.key = "raw",
     .cycle_label = "two committed UPDATEs",
     .handover_label = "two committed UPDATEs, nobody waits",
     .cycle = bench_sql_cycle},
    {.key = "statements", .cycle_label = "the same statements by hand", .cycle = cycle_statements},
    {.key = NULL},
};

const struct bench_raw_ops bench_raw_mysql = {
    .open = open_raw,
    .close = close_raw,
    .ways = ways,
    .rest_ms = 20,
    .renew_label = "UPDATEs in one transaction",
    .renew = bench_sql_renew,
    .counter_name = "statements that write, each a commit",
    .counter = counter,
    .forget = bench_sql_forget,
};
