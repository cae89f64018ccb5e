/*
 * address.c - reads the URL of a database server. Owns the options that all servers have in common.
 */
#include "backend/sql/address.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

#define CONNECT_TIMEOUT_MS 5000
#define TIMEOUT_MS 5000
#define POLL_MS 200

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
        code = sb_sql_copy(&a->socket, simba_url_param(url, "socket"), error);
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
                            "the URL names a host and a socket; a client has one of them");
    return SIMBA_OK;
}

/* ---- TLS ------------------------------------------------------------------------------------- */

static int read_files(struct sb_sql_address *a, simba_url *url, struct simba_error *error)
{
    int code = sb_sql_copy(&a->tls_ca, simba_url_param(url, "tls-ca"), error);

    if (code == SIMBA_OK)
        code = sb_sql_copy(&a->tls_cert, simba_url_param(url, "tls-cert"), error);
    if (code == SIMBA_OK)
        code = sb_sql_copy(&a->tls_key, simba_url_param(url, "tls-key"), error);
    if (code == SIMBA_OK && (a->tls_cert == NULL) != (a->tls_key == NULL))
        return sb_error_set(error, SIMBA_EINVAL, "tls-cert and tls-key need each other");
    return code;
}

static bool is_one_of(const char *text, const char *first, const char *second)
{
    return strcmp(text, first) == 0 || strcmp(text, second) == 0;
}

/* A URL that asks for TLS in any way gets it verified, unless it says otherwise. */
static int read_tls(struct sb_sql_address *a, simba_url *url, struct simba_error *error)
{
    const char *tls = simba_url_param(url, "tls");
    const char *verify = simba_url_param(url, "tls-verify");
    int code = read_files(a, url, error);
    bool asked = tls != NULL || verify != NULL || a->tls_ca != NULL || a->tls_cert != NULL;

    if (code != SIMBA_OK)
        return code;
    if (tls != NULL && !is_one_of(tls, "on", "off"))
        return sb_error_set(error, SIMBA_EINVAL, "tls=%s is neither \"on\" nor \"off\"", tls);
    if (verify != NULL && !is_one_of(verify, "yes", "no"))
        return sb_error_set(error, SIMBA_EINVAL, "tls-verify=%s is neither \"yes\" nor \"no\"",
                            verify);
    if (tls != NULL && strcmp(tls, "off") == 0)
        a->tls = SB_SQL_TLS_OFF;
    else if (asked)
        a->tls =
            verify != NULL && strcmp(verify, "no") == 0 ? SB_SQL_TLS_ENCRYPT : SB_SQL_TLS_VERIFY;
    return SIMBA_OK;
}

/* ---- Times ----------------------------------------------------------------------------------- */

static int read_time(simba_url *url, const char *name, int64_t *value, struct simba_error *error)
{
    int code = simba_url_duration(url, name, value, error);

    if (code == SIMBA_OK && *value <= 0)
        return sb_error_set(error, SIMBA_EINVAL, "%s must be more than 0", name);
    return code;
}

static int read_times(struct sb_sql_address *a, simba_url *url, struct simba_error *error)
{
    int code = read_time(url, "connect-timeout", &a->connect_timeout_ms, error);

    if (code == SIMBA_OK)
        code = read_time(url, "timeout", &a->timeout_ms, error);
    if (code == SIMBA_OK)
        code = read_time(url, "poll", &a->poll_ms, error);
    return code;
}

/* ---- The whole ------------------------------------------------------------------------------- */

int sb_sql_address_read(struct sb_sql_address *a, simba_url *url, struct simba_error *error)
{
    int code;

    memset(a, 0, sizeof *a);
    a->connect_timeout_ms = CONNECT_TIMEOUT_MS;
    a->timeout_ms = TIMEOUT_MS;
    a->poll_ms = POLL_MS;
    code = read_place(a, url, error);
    if (code == SIMBA_OK)
        code = read_tls(a, url, error);
    if (code == SIMBA_OK)
        code = read_times(a, url, error);
    if (code != SIMBA_OK)
        sb_sql_address_clear(a);
    return code;
}

void sb_sql_address_clear(struct sb_sql_address *a)
{
    for (size_t i = 0; i < a->host_count; i++)
        sb_free(a->hosts[i].name);
    sb_free(a->socket);
    sb_free(a->user);
    sb_secret_clear(&a->password);
    sb_free(a->database);
    sb_free(a->tls_ca);
    sb_free(a->tls_cert);
    sb_free(a->tls_key);
    memset(a, 0, sizeof *a);
}
