/*
 * inspect.c - what the settings of a PostgreSQL server mean to leases. Every name in the question
 * has its schema, see statement.c.
 */
#include "backend/postgres/connection.h"

#include "base/findings.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 64
#define SETTING(name) "pg_catalog.current_setting('" name "')"

/* clang-format off */
static const char question[] =
    "SELECT " SETTING("server_version") ", " SETTING("fsync") ", " SETTING("synchronous_commit")
    ", " SETTING("synchronous_standby_names") ", pg_catalog.pg_is_in_recovery(),"
    " pg_catalog.pg_backend_pid(),"
    " (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication),"
    " (SELECT setting FROM pg_catalog.pg_settings"
    " WHERE name OPERATOR(pg_catalog.=) 'idle_session_timeout')";
/* clang-format on */

enum { VERSION, FSYNC, COMMIT, STANDBYS, IN_RECOVERY, PROCESS, REPLICAS, IDLE_MS, COLUMNS };

static const char add_terms[] = "ALTER TABLE simba_mutex ADD COLUMN term_fence bigint DEFAULT 0,"
                                " ADD COLUMN term_since bigint DEFAULT 0,"
                                " ADD COLUMN term_version bigint DEFAULT 0";

struct server {
    char values[COLUMNS][VALUE_MAX];
};

static int take(void *user, size_t index, const PGresult *result)
{
    struct server *server = user;

    if (index != 1)
        return SIMBA_OK;
    for (int i = 0; i < COLUMNS; i++) {
        const char *value = PQgetvalue(result, 0, i);

        if (value[0] != '\0')
            sb_text_printable(server->values[i], VALUE_MAX, value, strlen(value));
    }
    return SIMBA_OK;
}

static bool is(const struct server *server, int column, const char *word)
{
    return strcmp(server->values[column], word) == 0;
}

static void add_server(const struct server *server, struct sb_findings *findings)
{
    const char *version = server->values[VERSION];

    if (is(server, IN_RECOVERY, "t"))
        sb_findings_add(findings, SIMBA_SEVERITY_PROBLEM, "server",
                        "name the primary in the URL, or all servers and target=read-write",
                        "PostgreSQL %s, a standby: it is read-only and grants no lease", version);
    else
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "server", NULL, "PostgreSQL %s, a primary",
                        version);
}

static void add_durability(const struct server *server, struct sb_findings *findings)
{
    if (is(server, FSYNC, "off"))
        sb_findings_add(findings, SIMBA_SEVERITY_PROBLEM, "durability",
                        "ALTER SYSTEM SET fsync = on, then SELECT pg_reload_conf()",
                        "fsync is off: after a crash of its host the server may have lost leases, "
                        "or the whole database");
    else if (is(server, COMMIT, "off"))
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "durability",
                        "ALTER ROLE ... SET synchronous_commit = on, for the user of simba",
                        "synchronous_commit is off: a crash forgets the newest leases, and a mutex "
                        "can get two owners");
    else
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "durability", NULL,
                        "fsync is on, synchronous_commit is %s", server->values[COMMIT]);
}

static void add_connection(const struct sb_postgres_connection *c, const struct server *server,
                           struct sb_findings *findings)
{
    enum sb_tls_state state = PQsslInUse(c->pg) == 0                          ? SB_TLS_NONE
                              : c->settings->address.tls == SB_SQL_TLS_VERIFY ? SB_TLS_VERIFIED
                                                                              : SB_TLS_UNVERIFIED;

    sb_findings_add_tls(findings, state, PQhost(c->pg), "add tls=on to the URL");
    if (strtol(server->values[PROCESS], NULL, 10) != PQbackendPID(c->pg))
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "pooler",
                        "connect to the server itself, or let the pooler pool sessions",
                        "a pooler is in between: if it pools transactions, LISTEN hears nothing, "
                        "and waiters poll");
    else
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "pooler", NULL,
                        "none: waiters hear of a release at once");
}

/* Servers before PostgreSQL 14 have no such setting. */
static void add_idle_sessions(const struct server *server, int64_t lease_ms,
                              struct sb_findings *findings)
{
    long long idle_ms = strtoll(server->values[IDLE_MS], NULL, 10);

    if (idle_ms == 0)
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "idle sessions", NULL, "stay");
    else if (idle_ms <= lease_ms)
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "idle sessions",
                        "ALTER ROLE ... SET idle_session_timeout = 0, for the user of simba",
                        "idle_session_timeout is %lld s, not longer than the lease of %lld s: a "
                        "client between two renewals, or a waiter, is disconnected",
                        idle_ms / 1000, (long long)(lease_ms / 1000));
    else
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "idle sessions", NULL,
                        "end after %lld s, longer than the lease", idle_ms / 1000);
}

int sb_postgres_inspect(struct sb_sql_connection *connection, int64_t lease_ms,
                        struct sb_findings *findings, struct sb_sql_failure *failure)
{
    struct sb_postgres_connection *c = (struct sb_postgres_connection *)connection;
    struct server server = {.values = {""}};
    struct sb_postgres_exchange exchange = {.take = take, .user = &server};
    int code = sb_postgres_exchange_begin(&exchange, c, failure);

    if (code != SIMBA_OK)
        return code;
    sb_postgres_exchange_send(&exchange, SB_POSTGRES_LIMIT_WAIT, NULL);
    sb_postgres_exchange_send_text(&exchange, question, NULL,
                                   (struct sb_postgres_shape){COLUMNS, SB_POSTGRES_ROW});
    code = sb_postgres_exchange_end(&exchange, failure);
    if (code != SIMBA_OK)
        return code;
    add_server(&server, findings);
    add_connection(c, &server, findings);
    add_durability(&server, findings);
    add_idle_sessions(&server, lease_ms, findings);
    sb_findings_add_replicas(findings, strtoul(server.values[REPLICAS], NULL, 10),
                             !is(&server, STANDBYS, ""),
                             "set synchronous_standby_names, or check fencing tokens");
    sb_sql_findings_add_terms(findings, c->has_terms, add_terms);
    return SIMBA_OK;
}
