/*
 * raw_sqlite.c - an SQLite file as sqlite3 alone uses it.
 *
 * A waiter learns of a release by other means than the file, so a hand-over by hand is the two
 * writes alone.
 */
#include "bench/raw_store.h"
#include "bench/raw_sql.h"

#include "base/error.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUSY_MS 5000

struct sqlite {
    struct bench_sql sql; /* first: the client is one */
    sqlite3 *db;
    sqlite3_stmt *update;
};

static int fail(struct sqlite *raw, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ESTORE, "SQLite by hand: %s", sqlite3_errmsg(raw->db));
}

static int execute(void *handle, const char *sql, struct simba_error *error)
{
    struct sqlite *raw = handle;

    return sqlite3_exec(raw->db, sql, NULL, NULL, NULL) == SQLITE_OK ? SIMBA_OK : fail(raw, error);
}

static void close_raw(void *handle)
{
    struct sqlite *raw = handle;

    sqlite3_finalize(raw->update);
    sqlite3_close(raw->db);
    free(raw);
}

/* As durable as the library's own connection. */
static int prepare_file(struct sqlite *raw, simba_url *url, struct simba_error *error)
{
    const char *synchronous = simba_url_param(url, "synchronous");
    char sql[BENCH_SQL_MAX];

    snprintf(sql, sizeof sql, "PRAGMA synchronous = %s",
             synchronous != NULL && strcmp(synchronous, "full") == 0 ? "FULL" : "NORMAL");
    sqlite3_busy_timeout(raw->db, BUSY_MS);
    int code = execute(raw, sql, error);
    if (code == SIMBA_OK)
        code = bench_sql_create_rows(raw, error);
    bench_sql_write_update(&raw->sql, sql);
    if (code == SIMBA_OK && sqlite3_prepare_v2(raw->db, sql, -1, &raw->update, NULL) != SQLITE_OK)
        code = fail(raw, error);
    return code;
}

static int update(void *handle, struct simba_error *error)
{
    struct sqlite *raw = handle;
    bool done = sqlite3_step(raw->update) == SQLITE_DONE;

    return sqlite3_reset(raw->update) == SQLITE_OK && done ? SIMBA_OK : fail(raw, error);
}

static int open_raw(simba_url *url, const char *prefix, void **ret_raw, struct simba_error *error)
{
    struct sqlite *raw = calloc(1, sizeof *raw);

    if (raw == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    raw->sql = (struct bench_sql){.execute = execute,
                                  .update = update,
                                  .begin = "BEGIN IMMEDIATE",
                                  .unless_there = " ON CONFLICT DO NOTHING"};
    bench_sql_set_names(&raw->sql, prefix);
    snprintf(raw->sql.waiters, sizeof raw->sql.waiters, "simba_waiter");
    int code = sqlite3_open_v2(simba_url_path(url), &raw->db, SQLITE_OPEN_READWRITE, NULL);
    code = code == SQLITE_OK ? prepare_file(raw, url, error) : fail(raw, error);
    if (code != SIMBA_OK)
        close_raw(raw);
    else
        *ret_raw = raw;
    return code;
}

static const struct bench_way ways[] = {
    {.key = "raw",
     .cycle_label = "two committed UPDATEs",
     .handover_label = "two committed UPDATEs",
     .cycle = bench_sql_cycle},
    {.key = NULL},
};

const struct bench_raw_ops bench_raw_sqlite = {
    .open = open_raw,
    .close = close_raw,
    .ways = ways,
    .rest_ms = 20,
    .renew_label = "UPDATEs in one transaction",
    .renew = bench_sql_renew,
    .forget = bench_sql_forget,
};
