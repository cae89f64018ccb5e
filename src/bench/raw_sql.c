/*
 * raw_sql.c - what the plain clients of the SQL stores do alike. Must not know their libraries.
 */
#include "bench/raw_sql.h"

#include "bench/machine.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

int bench_sql_check_plain(simba_url *url, struct simba_error *error)
{
    const char *tls = simba_url_param(url, "tls");

    if (simba_url_host_count(url) <= 1 && (tls == NULL || strcmp(tls, "off") == 0))
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EUNSUPPORTED, "by hand only one server without TLS");
}

int bench_sql_cycle(void *raw, struct simba_error *error)
{
    const struct bench_sql *sql = raw;
    int code = sql->update(raw, error);

    return code == SIMBA_OK ? sql->update(raw, error) : code;
}

int bench_sql_hand_over(void *raw, double *ret_us, struct simba_error *error)
{
    double begin = bench_now_us();
    int code = bench_sql_cycle(raw, error);

    if (code == SIMBA_OK)
        *ret_us = bench_now_us() - begin;
    return code;
}

int bench_sql_renew(void *raw, int count, struct simba_error *error)
{
    const struct bench_sql *sql = raw;
    int code = sql->execute(raw, sql->begin, error);

    for (int i = 0; i < count && code == SIMBA_OK; i++)
        code = sql->update(raw, error);
    return code == SIMBA_OK ? sql->execute(raw, "COMMIT", error) : code;
}

int bench_sql_forget(void *raw, struct simba_error *error)
{
    const struct bench_sql *sql = raw;
    char text[BENCH_SQL_MAX];

    snprintf(text, sizeof text, "DELETE FROM simba_mutex WHERE mutex LIKE '%s%%'", sql->prefix);
    return sql->execute(raw, text, error);
}
