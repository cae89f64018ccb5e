/*
 * raw_sql.c - what the plain clients of the SQL stores do alike. Must not know their libraries.
 */
#include "bench/raw_sql.h"

#include "backend/sql/driver.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

#define TTL_MS 10000
#define LEASE_MS 16000

/* As the library decides it: any word on TLS asks for it, but "off". */
static bool asks_for_tls(simba_url *url)
{
    static const char *const others[] = {"tls-verify", "tls-ca", "tls-cert", "tls-key"};
    const char *tls = simba_url_param(url, "tls");
    bool asked = tls != NULL;

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        asked = simba_url_param(url, others[i]) != NULL || asked;
    return asked && (tls == NULL || strcmp(tls, "off") != 0);
}

int bench_sql_check_plain(simba_url *url, struct simba_error *error)
{
    if (simba_url_host_count(url) <= 1 && !asks_for_tls(url))
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EUNSUPPORTED, "by hand only one server without TLS");
}

void bench_sql_set_names(struct bench_sql *sql, const char *prefix)
{
    snprintf(sql->table, sizeof sql->table, "simba_mutex");
    snprintf(sql->prefix, sizeof sql->prefix, "%s", prefix);
    snprintf(sql->raw_mutex, sizeof sql->raw_mutex, "%sraw", prefix);
    snprintf(sql->hand_mutex, sizeof sql->hand_mutex, "%shand", prefix);
}

/* Deleted first, so that nothing stays where the right to delete is missing. */
int bench_sql_create_rows(void *raw, struct simba_error *error)
{
    const struct bench_sql *sql = raw;
    char text[BENCH_SQL_MAX];

    snprintf(text, sizeof text, "DELETE FROM %s WHERE mutex IN ('%s', '%s')", sql->table,
             sql->raw_mutex, sql->hand_mutex);
    int code = sql->execute(raw, text, error);
    snprintf(text, sizeof text,
             "INSERT INTO %s (mutex, acquired_at, ttl_at, transition_at, owner_id, version)"
             " VALUES ('%s', 0, 0, 0, '', 0), ('%s', 0, 0, 0, '', 0)%s",
             sql->table, sql->raw_mutex, sql->hand_mutex, sql->unless_there);
    return code == SIMBA_OK ? sql->execute(raw, text, error) : code;
}

void bench_sql_write_update(const struct bench_sql *sql, char ret_text[BENCH_SQL_MAX])
{
    snprintf(ret_text, BENCH_SQL_MAX,
             "UPDATE %s SET acquired_at = 1, ttl_at = 2, transition_at = 3,"
             " owner_id = 'raw', version = version + 1 WHERE mutex = '%s'",
             sql->table, sql->raw_mutex);
}

/* An id as long as the library's own are. */
void bench_sql_set_values(const struct bench_sql *sql, struct sb_sql_values *ret_values)
{
    *ret_values = (struct sb_sql_values){.mutex = sql->hand_mutex,
                                         .id = "0:12345@192.168.1.100~k3v9qd",
                                         .ttl_ms = TTL_MS,
                                         .lease_ms = LEASE_MS};
}

int bench_sql_cycle(void *raw, struct simba_error *error)
{
    const struct bench_sql *sql = raw;
    int code = sql->update(raw, error);

    return code == SIMBA_OK ? sql->update(raw, error) : code;
}

int bench_sql_renew(void *raw, int count, struct simba_error *error)
{
    const struct bench_sql *sql = raw;
    int code = sql->execute(raw, sql->begin, error);

    for (int i = 0; i < count && code == SIMBA_OK; i++)
        code = sql->update(raw, error);
    return code == SIMBA_OK ? sql->execute(raw, "COMMIT", error) : code;
}

static int forget_in(const struct bench_sql *sql, const char *table, struct simba_error *error)
{
    char text[BENCH_SQL_MAX];

    if (table[0] == '\0')
        return SIMBA_OK;
    snprintf(text, sizeof text, "DELETE FROM %s WHERE mutex LIKE '%s%%'", table, sql->prefix);
    return sql->execute((void *)(uintptr_t)sql, text, error);
}

int bench_sql_forget(void *raw, struct simba_error *error)
{
    const struct bench_sql *sql = raw;
    int code = forget_in(sql, sql->waiters, error);

    return code == SIMBA_OK ? forget_in(sql, sql->table, error) : code;
}
