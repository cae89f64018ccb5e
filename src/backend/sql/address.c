/*
 * address.c - reads the URL of a database server. Owns the options that all servers have in common.
 */
#include "backend/sql/address.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

int sb_sql_copy(char **target, const char *text, struct simba_error *error)
{
    if (text == NULL)
        return SIMBA_OK;
    *target = sb_strdup(text);
    return *target != NULL ? SIMBA_OK : sb_error_plain(error, SIMBA_ENOMEM);
}

static int read_hosts(struct sb_sql_address *a, const simba_url *url, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < simba_url_host_count(url) && code == SIMBA_OK; i++) {
        if (i == SB_SQL_HOSTS_MAX)
            return sb_error_set(error, SIMBA_EINVAL, "the URL has more than %d hosts",
                                SB_SQL_HOSTS_MAX);
        a->hosts[i].port = simba_url_port(url, i);
        code = sb_sql_copy(&a->hosts[i].name, simba_url_host(url, i), error);
        a->host_count++;
    }
    return code;
}

static int read_place(struct sb_sql_address *a, simba_url *url, struct simba_error *error)
{
    const char *path = simba_url_path(url);
    int code = read_hosts(a, url, error);

    if (code == SIMBA_OK)
        code = sb_sql_copy(&a->user, simba_url_user(url), error);
    if (code == SIMBA_OK)
        code = sb_secret_take(&a->password, url, "password", error);
    if (code == SIMBA_OK && path[0] == '/' && path[1] != '\0')
        code = sb_sql_copy(&a->database, path + 1, error);
    if (code != SIMBA_OK)
        return code;
    if (a->socket != NULL && a->host_count > 0)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the URL names a host and a socket: give one of them");
    return SIMBA_OK;
}

/* A URL that asks for TLS in any way gets it verified, unless it says otherwise. */
static int read_tls(struct sb_sql_address *a, simba_url *url, struct simba_error *error)
{
    bool asked = simba_url_param(url, "tls") != NULL ||
                 simba_url_param(url, "tls-verify") != NULL || a->tls_ca != NULL ||
                 a->tls_cert != NULL;

    if ((a->tls_cert == NULL) != (a->tls_key == NULL))
        return sb_error_set(error, SIMBA_EINVAL, "tls-cert and tls-key must be given together");
    if (!a->tls_on)
        a->tls = SB_SQL_TLS_OFF;
    else if (asked)
        a->tls = a->tls_verify ? SB_SQL_TLS_VERIFY : SB_SQL_TLS_ENCRYPT;
    return SIMBA_OK;
}

int sb_sql_address_read(struct sb_sql_address *a, const struct sb_url_option *table, simba_url *url,
                        struct simba_error *error)
{
    int code = sb_url_options_fill(table, 0, url, a, error);

    if (code == SIMBA_OK)
        code = read_place(a, url, error);
    if (code == SIMBA_OK)
        code = read_tls(a, url, error);
    if (code != SIMBA_OK)
        sb_sql_address_clear(a, table);
    return code;
}

void sb_sql_address_clear(struct sb_sql_address *a, const struct sb_url_option *table)
{
    sb_url_options_clear(table, a);
    for (size_t i = 0; i < a->host_count; i++)
        sb_free(a->hosts[i].name);
    sb_free(a->user);
    sb_secret_clear(&a->password);
    sb_free(a->database);
    memset(a, 0, sizeof *a);
}
