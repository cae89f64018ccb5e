/*
 * options.c - fuzzes what URLs say about times and about each kind of store, up to where a store
 * would be connected to.
 */
#include "fuzz.h"

#include "base/url.h"

#include <simba/backend.h>

#ifdef SIMBA_HAVE_REDIS
#include "backend/redis/options.h"
#endif
#ifdef SIMBA_HAVE_MYSQL
#include "backend/sql/address.h"
#endif
#ifdef SIMBA_HAVE_POSTGRES
#include "backend/postgres/settings.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int code, const struct simba_error *error)
{
    if (code != SIMBA_OK)
        fuzz_demand(error->code == code && error->text[0] != '\0', "a refusal says why");
}

static simba_url *parse(const char *text)
{
    simba_url *url = NULL;

    return sb_url_parse(text, &url, NULL) == SIMBA_OK ? url : NULL;
}

#ifdef SIMBA_HAVE_REDIS
static void read_redis(const char *text)
{
    struct simba_backend_config config = {parse(text), 10000, 6000};
    struct simba_error error = {0};
    struct sb_redis_options options;
    int code;

    if (config.url == NULL)
        return;
    code = sb_redis_serves(simba_url_scheme(config.url))
               ? sb_redis_options_read(&options, &config, &error)
               : SIMBA_EINVAL;
    if (code == SIMBA_OK)
        sb_redis_options_free(&options);
    else if (sb_redis_serves(simba_url_scheme(config.url)))
        check(code, &error);
    sb_url_free(config.url);
}
#endif

#ifdef SIMBA_HAVE_MYSQL
static const struct sb_url_option mysql_options[] = {SB_SQL_ADDRESS_OPTIONS, SB_URL_OPTIONS_END};

static void read_mysql(const char *text)
{
    struct sb_sql_address address = {0};
    struct simba_error error = {0};
    simba_url *url = parse(text);
    int code;

    if (url == NULL)
        return;
    code = sb_sql_address_read(&address, mysql_options, url, &error);
    check(code, &error);
    if (code == SIMBA_OK)
        sb_sql_address_clear(&address, mysql_options);
    sb_url_free(url);
}
#endif

#ifdef SIMBA_HAVE_POSTGRES
static void read_postgres(const char *text)
{
    struct sb_postgres_settings settings = {0};
    struct simba_error error = {0};
    simba_url *url = parse(text);
    int code;

    if (url == NULL)
        return;
    code = sb_postgres_settings_read(&settings, url, &error);
    check(code, &error);
    if (code == SIMBA_OK)
        sb_postgres_settings_clear(&settings);
    sb_url_free(url);
}
#endif

/* Stores that cannot be reached by accident: one in this process, and files in a folder that is not
 * there. */
static void open_client(const char *scheme, const char *text)
{
    size_t size = strlen(scheme) + strlen(text) + 1;
    simba_client *client = NULL;
    struct simba_error error = {0};
    char *url = malloc(size);
    int code;

    fuzz_demand(url != NULL, "there is memory");
    snprintf(url, size, "%s%s", scheme, text);
    code = simba_client_open(url, NULL, &client, &error);
    check(code, &error);
    if (code == SIMBA_OK)
        fuzz_demand(simba_client_close(client, NULL) == SIMBA_OK, "a client can be closed");
    free(url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);

#ifdef SIMBA_HAVE_REDIS
    read_redis(text);
#endif
#ifdef SIMBA_HAVE_MYSQL
    read_mysql(text);
#endif
#ifdef SIMBA_HAVE_POSTGRES
    read_postgres(text);
#endif
    if (strncmp(text, "memory:", 7) == 0)
        open_client("memory:", text + 7);
    if (strncmp(text, "sqlite:", 7) == 0)
        open_client("sqlite:/proc/nowhere/", text + 7);
    free(text);
    return 0;
}
