/*
 * raw.c - the three databases as their own client libraries use them.
 */
#include "raw.h"

#include "base/url.h"

#ifdef SIMBA_HAVE_MYSQL
#include <mysql.h>
#endif
#ifdef SIMBA_HAVE_POSTGRES
#include <libpq-fe.h>
#endif
#ifdef SIMBA_HAVE_SQLITE
#include <sqlite3.h>
#endif

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_US 200000 /* the library's longest poll interval, where it is not told otherwise */

struct store;

struct raw {
    const struct store *store;
    void *connection;
    void *listener;  /* PostgreSQL */
    void *statement; /* MySQL and SQLite */
};

struct store {
    bool (*open)(struct raw *raw, const simba_url *url);
    void (*close)(struct raw *raw);
    void (*update)(struct raw *raw);
    double (*handover_us)(struct raw *raw);
    const char *handover_name;
    long long (*number)(struct raw *raw, const char *sql); /* NULL: it has no counters */
    const char *commits;
    const char *connections;
};

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void end_if(bool failed, const char *why)
{
    if (!failed)
        return;
    fprintf(stderr, "bench-sql: %s\n", why);
    exit(1);
}

#define ROW "'bench-raw'"
#define INSERT                                                                                     \
    "INSERT INTO simba_mutex (mutex, acquired_at, ttl_at, transition_at, owner_id, version)"       \
    " VALUES (" ROW ", 0, 0, 0, '', 0)"
#define UPDATE                                                                                     \
    "UPDATE simba_mutex SET acquired_at = 1, ttl_at = 2, transition_at = 3, owner_id = 'raw',"     \
    " version = version + 1 WHERE mutex = " ROW

#if defined(SIMBA_HAVE_POSTGRES) || defined(SIMBA_HAVE_MYSQL)
static const char *database_of(const simba_url *url)
{
    const char *path = simba_url_path(url);

    return path[0] == '/' ? path + 1 : path;
}
#endif

/* ---- PostgreSQL ----------------------------------------------------------------------------- */

#ifdef SIMBA_HAVE_POSTGRES
static PGconn *connect_postgres(const simba_url *url)
{
    char port[16];
    const char *const keywords[] = {"host", "port", "user", "password", "dbname", NULL};
    const char *const values[] = {simba_url_host(url, 0), port,
                                  simba_url_user(url),    simba_url_password(url),
                                  database_of(url),       NULL};

    snprintf(port, sizeof port, "%d", simba_url_port(url, 0));
    return PQconnectdbParams(keywords, values, 0);
}

static bool open_postgres(struct raw *raw, const simba_url *url)
{
    raw->connection = connect_postgres(url);
    raw->listener =
        connect_postgres(url); /* and does not listen yet: every release would wake it */
    PQclear(PQexec(raw->connection, INSERT " ON CONFLICT DO NOTHING"));
    PQclear(PQprepare(raw->connection, "u", UPDATE, 0, NULL));
    return PQstatus(raw->connection) == CONNECTION_OK && PQstatus(raw->listener) == CONNECTION_OK;
}

static void close_postgres(struct raw *raw)
{
    PQfinish(raw->connection);
    PQfinish(raw->listener);
}

static void update_postgres(struct raw *raw)
{
    PGresult *result = PQexecPrepared(raw->connection, "u", 0, NULL, NULL, NULL, 0);

    end_if(PQresultStatus(result) != PGRES_COMMAND_OK, PQerrorMessage(raw->connection));
    PQclear(result);
}

/* From the sending of a NOTIFY to its arrival on the other connection, and an UPDATE. */
static double handover_postgres(struct raw *raw)
{
    struct pollfd socket = {.fd = PQsocket(raw->listener), .events = POLLIN};
    PGnotify *note = NULL;
    double began;

    PQclear(PQexec(raw->listener, "LISTEN bench"));
    began = now_us();

    PQclear(PQexec(raw->connection, "NOTIFY bench"));
    while (note == NULL) {
        poll(&socket, 1, 1000);
        PQconsumeInput(raw->listener);
        note = PQnotifies(raw->listener);
    }
    PQfreemem(note);
    update_postgres(raw);
    return now_us() - began;
}

static long long number_postgres(struct raw *raw, const char *sql)
{
    PGresult *result = PQexec(raw->connection, sql);
    long long number;

    end_if(PQresultStatus(result) != PGRES_TUPLES_OK, PQerrorMessage(raw->connection));
    number = atoll(PQgetvalue(result, 0, 0));
    PQclear(result);
    return number;
}

static const struct store postgres = {
    open_postgres,
    close_postgres,
    update_postgres,
    handover_postgres,
    "NOTIFY heard + one committed UPDATE",
    number_postgres,
    "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()",
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'simba'",
};
#endif

/* ---- MySQL ---------------------------------------------------------------------------------- */

#ifdef SIMBA_HAVE_MYSQL
static bool open_mysql(struct raw *raw, const simba_url *url)
{
    MYSQL *mysql = mysql_init(NULL);
    MYSQL_STMT *statement;

    if (mysql_real_connect(mysql, simba_url_host(url, 0), simba_url_user(url),
                           simba_url_password(url), database_of(url),
                           (unsigned)simba_url_port(url, 0), NULL, 0) == NULL)
        return false;
    mysql_query(mysql, INSERT " ON DUPLICATE KEY UPDATE mutex = mutex");
    mysql_query(mysql, "SET GLOBAL innodb_monitor_enable = 'trx_rw_commits'");
    statement = mysql_stmt_init(mysql);
    raw->connection = mysql;
    raw->statement = statement;
    return mysql_stmt_prepare(statement, UPDATE, sizeof UPDATE - 1) == 0;
}

static void close_mysql(struct raw *raw)
{
    mysql_stmt_close(raw->statement);
    mysql_close(raw->connection);
}

static void update_mysql(struct raw *raw)
{
    end_if(mysql_stmt_execute(raw->statement) != 0, mysql_stmt_error(raw->statement));
}

static double handover_mysql(struct raw *raw)
{
    double began = now_us();

    update_mysql(raw);
    update_mysql(raw);
    return now_us() - began + POLL_US;
}

static long long number_mysql(struct raw *raw, const char *sql)
{
    MYSQL_RES *result;
    long long number;

    end_if(mysql_query(raw->connection, sql) != 0, mysql_error(raw->connection));
    result = mysql_store_result(raw->connection);
    number = atoll(mysql_fetch_row(result)[0]);
    mysql_free_result(result);
    return number;
}

static const struct store mysql = {
    open_mysql,
    close_mysql,
    update_mysql,
    handover_mysql,
    "the poll interval + two committed UPDATEs",
    number_mysql,
    "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rw_commits'",
    "SELECT count(*) - 1 FROM information_schema.processlist WHERE db = database()",
};
#endif

/* ---- SQLite --------------------------------------------------------------------------------- */

#ifdef SIMBA_HAVE_SQLITE
static bool open_sqlite(struct raw *raw, const simba_url *url)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    bool opened = sqlite3_open(simba_url_path(url), &db) == SQLITE_OK &&
                  sqlite3_exec(db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL) == SQLITE_OK;

    sqlite3_busy_timeout(db, 5000);
    sqlite3_exec(db, INSERT " ON CONFLICT DO NOTHING", NULL, NULL, NULL);
    opened = opened && sqlite3_prepare_v2(db, UPDATE, -1, &statement, NULL) == SQLITE_OK;
    raw->connection = db;
    raw->statement = statement;
    return opened;
}

static void close_sqlite(struct raw *raw)
{
    sqlite3_finalize(raw->statement);
    sqlite3_close(raw->connection);
}

static void update_sqlite(struct raw *raw)
{
    end_if(sqlite3_step(raw->statement) != SQLITE_DONE, sqlite3_errmsg(raw->connection));
    sqlite3_reset(raw->statement);
}

static double handover_sqlite(struct raw *raw)
{
    double began = now_us();

    update_sqlite(raw);
    update_sqlite(raw);
    return now_us() - began;
}

static const struct store sqlite = {
    open_sqlite, close_sqlite, update_sqlite, handover_sqlite, "two committed UPDATEs",
    NULL,        NULL,         NULL,
};
#endif

/* ---- Which ---------------------------------------------------------------------------------- */

static const struct store *find_store(const char *scheme)
{
#ifdef SIMBA_HAVE_POSTGRES
    if (strncmp(scheme, "postgres", 8) == 0)
        return &postgres;
#endif
#ifdef SIMBA_HAVE_MYSQL
    if (strcmp(scheme, "mysql") == 0 || strcmp(scheme, "mariadb") == 0)
        return &mysql;
#endif
#ifdef SIMBA_HAVE_SQLITE
    if (strcmp(scheme, "sqlite") == 0)
        return &sqlite;
#endif
    return NULL;
}

struct raw *raw_open(const char *text)
{
    struct raw *raw = calloc(1, sizeof *raw);
    simba_url *url = NULL;

    if (raw == NULL || sb_url_parse(text, &url, NULL) != SIMBA_OK)
        return NULL;
    raw->store = find_store(simba_url_scheme(url));
    if (raw->store == NULL || !raw->store->open(raw, url)) {
        free(raw);
        raw = NULL;
    }
    sb_url_free(url);
    return raw;
}

void raw_close(struct raw *raw)
{
    raw->store->close(raw);
    free(raw);
}

void raw_update(struct raw *raw)
{
    raw->store->update(raw);
}

double raw_handover_us(struct raw *raw)
{
    return raw->store->handover_us(raw);
}

const char *raw_handover_name(const struct raw *raw)
{
    return raw->store->handover_name;
}

long long raw_commits(struct raw *raw)
{
    return raw->store->number != NULL ? raw->store->number(raw, raw->store->commits) : 0;
}

long long raw_connections(struct raw *raw)
{
    return raw->store->number != NULL ? raw->store->number(raw, raw->store->connections) : 0;
}
