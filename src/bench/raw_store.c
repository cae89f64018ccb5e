/*
 * raw_store.c - finds the plain client for a URL, and loads it.
 */
#include "bench/raw_store.h"

#include "backend/module.h"
#include "base/error.h"
#include "base/url.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int load(const char *name, const struct bench_raw_ops **ret_ops, struct simba_error *error)
{
    char file[64];
    char symbol[64];
    struct simba_error why;
    const void *ops;

    snprintf(file, sizeof file, "bench-%s.so", name);
    snprintf(symbol, sizeof symbol, "bench_raw_%s", name);
    if (sb_module_open(file, symbol, &ops, &why) != SIMBA_OK)
        return sb_error_set(error, SIMBA_EUNSUPPORTED, "there is no plain client: %s", why.text);
    *ret_ops = ops;
    return SIMBA_OK;
}

static int find(const char *scheme, const struct bench_raw_ops **ret_ops, struct simba_error *error)
{
    const struct simba_backend_ops *backend = simba_backend_find(scheme);

    if (backend == NULL)
        return sb_error_set(error, SIMBA_EUNSUPPORTED, "there is no store '%s:'", scheme);
#ifdef SIMBA_HAVE_SQLITE
    if (strcmp(backend->name, "sqlite") == 0) {
        *ret_ops = &bench_raw_sqlite;
        return SIMBA_OK;
    }
#endif
    return load(backend->name, ret_ops, error);
}

static int open_parsed(struct bench_raw *raw, simba_url *url, const char *prefix,
                       struct simba_error *error)
{
    int code = sb_url_resolve(url, error);

    if (code == SIMBA_OK)
        code = find(simba_url_scheme(url), &raw->ops, error);
    return code == SIMBA_OK ? raw->ops->open(url, prefix, &raw->handle, error) : code;
}

int bench_raw_open(struct bench_raw *raw, const char *url, const char *prefix,
                   struct simba_error *error)
{
    simba_url *parsed = NULL;

    *raw = (struct bench_raw){NULL, NULL};
    int code = sb_url_parse(url, &parsed, error);
    if (code == SIMBA_OK)
        code = open_parsed(raw, parsed, prefix, error);
    sb_url_free(parsed);
    if (code != SIMBA_OK)
        *raw = (struct bench_raw){NULL, NULL};
    return code;
}

void bench_raw_close(struct bench_raw *raw)
{
    if (raw->handle != NULL)
        raw->ops->close(raw->handle);
    raw->handle = NULL;
}

double bench_raw_counter(const struct bench_raw *raw)
{
    double value = 0;

    if (raw->handle == NULL || raw->ops->counter == NULL ||
        raw->ops->counter(raw->handle, &value, NULL) != SIMBA_OK)
        return NAN;
    return value;
}
