/*
 * settings.c - turns the URL into the keywords of libpq.
 */
#include "backend/postgres/settings.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/trusted_file.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_MAX 4096

/* Cannot be there. libpq passes over files that are missing; without a name it looks for its own in HOME. */
#define NO_FILE "/dev/null/none"

#define SYSTEM_AUTHORITIES "/etc/ssl/certs/ca-certificates.crt"
#define VERSION_16 160000

/* libpq takes the folder of a socket as a host, and makes the file's name of the port. */
static int use_socket(struct sb_postgres_settings *s, struct simba_error *error)
{
    static const char prefix[] = "/.s.PGSQL.";
    int code = sb_sql_copy(&s->hosts, s->address.socket, error);
    char *file = s->hosts != NULL ? strstr(s->hosts, prefix) : NULL;

    if (code != SIMBA_OK || file == NULL)
        return code;
    code = sb_sql_copy(&s->ports, file + strlen(prefix), error);
    *file = '\0';
    return code;
}

/* libpq takes several hosts as a list. */
static int list_hosts(struct sb_postgres_settings *s, struct simba_error *error)
{
    const struct sb_sql_address *a = &s->address;
    char hosts[LIST_MAX];
    char ports[LIST_MAX];
    struct sb_text host_text;
    struct sb_text port_text;
    int code;

    if (a->host_count == 0)
        return use_socket(s, error);
    sb_text_init(&host_text, hosts, sizeof hosts);
    sb_text_init(&port_text, ports, sizeof ports);
    for (size_t i = 0; i < a->host_count; i++) {
        sb_text_add(&host_text, "%s%s", i > 0 ? "," : "", a->hosts[i].name);
        if (a->hosts[i].port != 0)
            sb_text_add(&port_text, "%s%d", i > 0 ? "," : "", a->hosts[i].port);
        else
            sb_text_add(&port_text, "%s", i > 0 ? "," : "");
    }
    if (host_text.cut)
        return sb_error_set(error, SIMBA_EINVAL, "the hosts of the URL are too long");
    code = sb_sql_copy(&s->hosts, hosts, error);
    return code == SIMBA_OK ? sb_sql_copy(&s->ports, ports, error) : code;
}

static int read_target(struct sb_postgres_settings *s, simba_url *url, struct simba_error *error)
{
    static const char *const words[] = {"any",     "read-write", "read-only",
                                        "primary", "standby",    "prefer-standby"};
    const char *target = simba_url_param(url, "target-session-attrs");
    bool known = target == NULL;

    for (size_t i = 0; i < sizeof words / sizeof words[0] && !known; i++)
        known = strcmp(target, words[i]) == 0;
    if (!known)
        return sb_error_set(error, SIMBA_EINVAL, "target-session-attrs=%s is no word of libpq's",
                            target);
    if (target == NULL && s->address.host_count > 1)
        target = "read-write"; /* only the primary can hold leases */
    return sb_sql_copy(&s->target, target, error);
}

/* ---- Files of libpq's own --------------------------------------------------------------------- */

/* Where libpq looks for it. False: in the home that the system knows of the user, or nowhere. */
static bool find_own_file(const char *variable, const char *name, char ret_path[PATH_MAX])
{
    const char *path = getenv(variable);
    const char *home = getenv("HOME");
    struct sb_text text;

    sb_text_init(&text, ret_path, PATH_MAX);
    if (path != NULL && path[0] != '\0')
        sb_text_add(&text, "%s", path);
    else if (home != NULL && home[0] != '\0')
        sb_text_add(&text, "%s/%s", home, name);
    return text.length > 0 && !text.cut;
}

/* What is trusted stays so until libpq reads it: nobody else can exchange it. */
static int check_own_file(const char *kind, const char *path, struct simba_error *error)
{
    int fd;
    int code = sb_trusted_open(kind, path, &fd, NULL, error);

    if (code == SIMBA_OK)
        close(fd);
    return code;
}

static int find_password_file(struct sb_postgres_settings *s, struct simba_error *error)
{
    char path[PATH_MAX];
    int code;

    if (s->address.password.text != NULL || !find_own_file("PGPASSFILE", ".pgpass", path))
        return SIMBA_OK;
    if (access(path, F_OK) != 0)
        return sb_sql_copy(&s->password_file, NO_FILE, error);
    code = check_own_file("password file", path, error);
    return code == SIMBA_OK ? sb_sql_copy(&s->password_file, path, error) : code;
}

/* Where there is none libpq looks for the system's. */
static int check_service_file(const struct sb_postgres_settings *s, struct simba_error *error)
{
    const char *asked = getenv("PGSERVICE");
    struct simba_error why = {.code = SIMBA_OK};
    char path[PATH_MAX];

    if ((s->service == NULL && asked == NULL) ||
        !find_own_file("PGSERVICEFILE", ".pg_service.conf", path))
        return SIMBA_OK;
    if (check_own_file("service file", path, &why) == SIMBA_OK || why.backend_code == ENOENT)
        return SIMBA_OK;
    return sb_error_set(error, why.code, "%s", why.text);
}

/* ---- Keywords ------------------------------------------------------------------------------- */

static const char *ssl_mode(enum sb_sql_tls tls)
{
    switch (tls) {
    case SB_SQL_TLS_OFF:
        return "disable";
    case SB_SQL_TLS_ENCRYPT:
        return "require";
    case SB_SQL_TLS_VERIFY:
        return "verify-full";
    default:
        return NULL;
    }
}

static void add_keyword(struct sb_postgres_settings *s, size_t *count, const char *keyword,
                        const char *value)
{
    if (value == NULL)
        return;
    assert(*count + 1 < SB_POSTGRES_KEYWORDS_MAX);
    s->keywords[*count] = keyword;
    s->values[*count] = value;
    (*count)++;
}

/* Where libpq has authorities it verifies by them, whatever the mode is. */
static const char *authorities(const struct sb_sql_address *a)
{
    if (a->tls != SB_SQL_TLS_VERIFY)
        return NO_FILE;
    return PQlibVersion() >= VERSION_16 ? "system" : SYSTEM_AUTHORITIES;
}

/* What the URL says, or else a variable of libpq's; never what is in HOME. */
static void add_or_else(struct sb_postgres_settings *s, size_t *count, const char *keyword,
                        const char *value, const char *variable, const char *otherwise)
{
    if (value == NULL && getenv(variable) == NULL)
        value = otherwise;
    add_keyword(s, count, keyword, value);
}

/* The keep-alive finds a server that vanished while nobody was asking it anything. */
static void list_keywords(struct sb_postgres_settings *s)
{
    const struct sb_sql_address *a = &s->address;
    size_t count = 0;

    add_keyword(s, &count, "service", s->service);
    add_keyword(s, &count, "host", s->hosts);
    add_keyword(s, &count, "port", s->ports);
    add_keyword(s, &count, "user", a->user);
    add_keyword(s, &count, "password", a->password.text);
    add_keyword(s, &count, "dbname", a->database);
    add_keyword(s, &count, "sslmode", ssl_mode(a->tls));
    add_or_else(s, &count, "sslrootcert", a->tls_ca, "PGSSLROOTCERT", authorities(a));
    add_or_else(s, &count, "sslcert", a->tls_cert, "PGSSLCERT", NO_FILE);
    add_or_else(s, &count, "sslkey", a->tls_key, "PGSSLKEY", NO_FILE);
    add_or_else(s, &count, "sslcrl", NULL, "PGSSLCRL", NO_FILE);
    add_keyword(s, &count, "passfile", s->password_file);
    if (PQlibVersion() >= VERSION_16 && a->tls != SB_SQL_TLS_VERIFY)
        add_or_else(s, &count, "require_auth", NULL, "PGREQUIREAUTH", "!password");
    add_keyword(s, &count, "target_session_attrs", s->target);
    add_keyword(s, &count, "fallback_application_name", "simba");
    add_keyword(s, &count, "client_encoding", "UTF8");
    add_keyword(s, &count, "keepalives_idle", "30");
    add_keyword(s, &count, "keepalives_interval", "10");
    add_keyword(s, &count, "keepalives_count", "3");
}

int sb_postgres_settings_read(struct sb_postgres_settings *s, simba_url *url,
                              struct simba_error *error)
{
    int code;

    memset(s, 0, sizeof *s);
    code = sb_sql_address_read(&s->address, url, error);
    if (code == SIMBA_OK)
        code = list_hosts(s, error);
    if (code == SIMBA_OK)
        code = read_target(s, url, error);
    if (code == SIMBA_OK)
        code = sb_sql_copy(&s->service, simba_url_param(url, "service"), error);
    if (code == SIMBA_OK)
        code = simba_url_check_params(url, error);
    if (code == SIMBA_OK)
        code = find_password_file(s, error);
    if (code == SIMBA_OK)
        code = check_service_file(s, error);
    if (code != SIMBA_OK) {
        sb_postgres_settings_clear(s);
        return code;
    }
    list_keywords(s);
    return SIMBA_OK;
}

void sb_postgres_settings_clear(struct sb_postgres_settings *s)
{
    sb_sql_address_clear(&s->address);
    sb_free(s->hosts);
    sb_free(s->ports);
    sb_free(s->service);
    sb_free(s->password_file);
    sb_free(s->target);
    memset(s, 0, sizeof *s);
}

/* Left to itself libpq prints what the server has to say besides. */
static void log_notice(void *user, const char *message)
{
    const struct sb_postgres_settings *s = user;

    s->host->log(s->host, SIMBA_LOG_DEBUG, "PostgreSQL: %.*s", (int)strcspn(message, "\n"),
                 message);
}

/* libpq reads certificates and keys from their files by itself, for each connection; it copies what it is given. */
static PGconn *start_connecting(const struct sb_postgres_settings *s,
                                struct simba_error *ret_unread)
{
    const char *values[SB_POSTGRES_KEYWORDS_MAX];
    char buffer[SB_SECRET_MAX + 2];
    PGconn *pg;

    memcpy(values, s->values, sizeof values);
    for (size_t i = 0; s->keywords[i] != NULL; i++)
        if (strcmp(s->keywords[i], "password") == 0)
            sb_secret_now(&s->address.password, buffer, &values[i], ret_unread);
    pg = PQconnectStartParams(s->keywords, values, 0);
    explicit_bzero(buffer, sizeof buffer);
    return pg;
}

/* The verbose form of messages holds the state, by which a refusal is told from an absence. */
PGconn *sb_postgres_settings_connect(const struct sb_postgres_settings *s,
                                     struct simba_error *ret_unread)
{
    PGconn *pg = start_connecting(s, ret_unread);

    if (pg != NULL) {
        PQsetErrorVerbosity(pg, PQERRORS_VERBOSE);
        PQsetNoticeProcessor(pg, log_notice, (void *)(uintptr_t)s);
    }
    return pg;
}
