/*
 * settings.c - turns the URL into the keywords of libpq.
 */
#include "backend/postgres/settings.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/trusted_file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_MAX 4096

/* Bytes with the NUL. libpq cuts a longer path, and a longer HOME, without a word. */
#define LIBPQ_PATH_SIZE 1024

/* Cannot be there. libpq passes over files that are missing; without a name it looks for its own in
 * HOME. */
#define NO_FILE "/dev/null/none"

#define SYSTEM_AUTHORITIES "/etc/ssl/certs/ca-certificates.crt"
#define VERSION_16 160000

_Static_assert(offsetof(struct sb_postgres_settings, address) == 0, "the table reckons with it");

const struct sb_url_option sb_postgres_options[] = {
    SB_SQL_ADDRESS_OPTIONS,
    SB_URL_OPTION(CHOICE, "target-session-attrs",
                  "any read-write read-only primary standby prefer-standby",
                  offsetof(struct sb_postgres_settings, target_word), 0, 0, 0, 0),
    SB_URL_OPTION(TEXT, "service", NULL, offsetof(struct sb_postgres_settings, service), 0, 0, 0,
                  0),
    SB_URL_OPTIONS_END,
};

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

/* Of several hosts only the primary can hold leases. */
static int choose_target(struct sb_postgres_settings *s, simba_url *url, struct simba_error *error)
{
    const char *target = simba_url_param(url, "target-session-attrs");

    if (target == NULL && s->address.host_count > 1)
        target = "read-write";
    return sb_sql_copy(&s->target, target, error);
}

/* ---- Files of libpq's own -------------------------------------------------------------------- */

static const char password_file[] = "password file";
static const char service_file[] = "service file";

/* A path that libpq would cut is an error: it would open another file than the one that is
 * checked. */
static int write_path(const char *kind, const char *folder, const char *name,
                      char ret_path[LIBPQ_PATH_SIZE], struct simba_error *error)
{
    struct sb_text text;

    sb_text_init(&text, ret_path, LIBPQ_PATH_SIZE);
    sb_text_add(&text, "%s%s", folder, name);
    if (text.cut)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "the path of the %s is too long: libpq cuts it behind %d bytes", kind,
                            LIBPQ_PATH_SIZE - 1);
    return SIMBA_OK;
}

/* Where libpq looks for it; empty: in the home that the system knows of the user, or nowhere. */
static int find_own_file(const char *kind, const char *variable, const char *name,
                         char ret_path[LIBPQ_PATH_SIZE], struct simba_error *error)
{
    const char *path = getenv(variable);
    const char *home = getenv("HOME");

    if (path != NULL && path[0] != '\0')
        return write_path(kind, path, "", ret_path, error);
    if (home != NULL && home[0] != '\0')
        return write_path(kind, home, name, ret_path, error);
    ret_path[0] = '\0';
    return SIMBA_OK;
}

/* An empty password counts as none to libpq. */
static bool has_password(const struct sb_postgres_settings *s)
{
    return s->address.password.text != NULL && s->address.password.text[0] != '\0';
}

static int find_password_file(struct sb_postgres_settings *s, struct simba_error *error)
{
    char path[LIBPQ_PATH_SIZE];
    int code;

    if (has_password(s))
        return SIMBA_OK;
    code = find_own_file(password_file, "PGPASSFILE", "/.pgpass", path, error);
    if (code != SIMBA_OK || path[0] == '\0')
        return code;
    return sb_sql_copy(&s->password_file, access(path, F_OK) == 0 ? path : NO_FILE, error);
}

/* libpq looks into the user's file, and then into the system's, where a service is named. Without
 * the variable the system's is in a folder that libpq was built with. */
static int check_service_files(const struct sb_postgres_settings *s, struct simba_error *error)
{
    const char *system = getenv("PGSYSCONFDIR");
    char path[LIBPQ_PATH_SIZE];
    int code;

    if (s->service == NULL && getenv("PGSERVICE") == NULL)
        return SIMBA_OK;
    code = find_own_file(service_file, "PGSERVICEFILE", "/.pg_service.conf", path, error);
    if (code == SIMBA_OK && path[0] != '\0')
        code = sb_trusted_check(service_file, path, error);
    if (code != SIMBA_OK || system == NULL)
        return code;
    code = write_path(service_file, system, "/pg_service.conf", path, error);
    return code == SIMBA_OK ? sb_trusted_check(service_file, path, error) : code;
}

/* libpq opens them by itself for each connection. What is trusted stays so until then: nobody else
 * can exchange it, or create it where it is missing. */
static int check_own_files(const struct sb_postgres_settings *s, struct simba_error *error)
{
    int code = SIMBA_OK;

    if (s->password_file != NULL && strcmp(s->password_file, NO_FILE) != 0)
        code = sb_trusted_check(password_file, s->password_file, error);
    return code == SIMBA_OK ? check_service_files(s, error) : code;
}

/* ---- Keywords -------------------------------------------------------------------------------- */

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

bool sb_postgres_settings_need_tls(const struct sb_postgres_settings *s)
{
    return s->address.tls == SB_SQL_TLS_ENCRYPT || s->address.tls == SB_SQL_TLS_VERIFY;
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
    if (sb_postgres_settings_need_tls(s)) /* which Kerberos would take the place of */
        add_keyword(s, &count, "gssencmode", "disable");
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
    code = sb_sql_address_read(&s->address, sb_postgres_options, url, error);
    if (code == SIMBA_OK)
        code = list_hosts(s, error);
    if (code == SIMBA_OK)
        code = choose_target(s, url, error);
    if (code == SIMBA_OK)
        code = find_password_file(s, error);
    if (code == SIMBA_OK)
        code = check_own_files(s, error);
    if (code != SIMBA_OK) {
        sb_postgres_settings_clear(s);
        return code;
    }
    list_keywords(s);
    return SIMBA_OK;
}

void sb_postgres_settings_clear(struct sb_postgres_settings *s)
{
    sb_sql_address_clear(&s->address, sb_postgres_options);
    sb_free(s->hosts);
    sb_free(s->ports);
    sb_free(s->password_file);
    sb_free(s->target);
    memset(s, 0, sizeof *s);
}

/* Left to itself libpq prints what the server has to say besides. */
static void log_notice(void *user, const char *message)
{
    const struct sb_postgres_settings *s = user;

    if (s->host != NULL)
        s->host->log(s->host, SIMBA_LOG_DEBUG, "PostgreSQL: %.*s", (int)strcspn(message, "\n"),
                     message);
}

size_t sb_postgres_settings_hosts(const struct sb_postgres_settings *s)
{
    return s->address.host_count > 1 ? s->address.host_count : 1;
}

/* Skips that many entries of a list with commas. */
static const char *skip_values(const char *list, size_t count)
{
    while (count-- > 0 && strchr(list, ',') != NULL)
        list = strchr(list, ',') + 1;
    return list;
}

/* libpq reads certificates and keys from their files by itself, for each connection; it copies what
 * it is given. */
static PGconn *start_connecting(const struct sb_postgres_settings *s, size_t skipped,
                                struct simba_error *ret_unread)
{
    const char *values[SB_POSTGRES_KEYWORDS_MAX];
    char buffer[SB_SECRET_MAX + 2];
    PGconn *pg;

    memcpy(values, s->values, sizeof values);
    for (size_t i = 0; s->keywords[i] != NULL; i++) {
        if (strcmp(s->keywords[i], "password") == 0)
            sb_secret_now(&s->address.password, buffer, &values[i], ret_unread);
        else if (values[i] == s->hosts || values[i] == s->ports)
            values[i] = skip_values(values[i], skipped);
    }
    pg = PQconnectStartParams(s->keywords, values, 0);
    explicit_bzero(buffer, sizeof buffer);
    return pg;
}

/* The verbose form of messages holds the state, by which a refusal is told from an absence. */
int sb_postgres_settings_connect(const struct sb_postgres_settings *s, size_t skipped,
                                 PGconn **ret_pg, struct simba_error *ret_unread,
                                 struct simba_error *error)
{
    int code = check_own_files(s, error);
    PGconn *pg;

    if (code != SIMBA_OK)
        return code;
    pg = start_connecting(s, skipped, ret_unread);
    if (pg == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    PQsetErrorVerbosity(pg, PQERRORS_VERBOSE);
    PQsetNoticeProcessor(pg, log_notice, (void *)(uintptr_t)s);
    *ret_pg = pg;
    return SIMBA_OK;
}
