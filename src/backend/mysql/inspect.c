/*
 * inspect.c - what the settings of a MySQL or MariaDB server mean to leases.
 */
#include "backend/mysql/connection.h"

#include "base/findings.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* The session's own wait_timeout may be set by the client. */
static const char show_variables[] =
    "SHOW GLOBAL VARIABLES WHERE variable_name IN ('version', 'read_only', 'wait_timeout',"
    " 'innodb_flush_log_at_trx_commit', 'rpl_semi_sync_master_enabled',"
    " 'rpl_semi_sync_source_enabled')";

/* Without the right PROCESS a user sees none of them. */
static const char show_replicas[] = "SELECT 'replicas', count(*) FROM"
                                    " information_schema.processlist WHERE command LIKE"
                                    " 'Binlog Dump%'";

static const char add_terms[] =
    "ALTER TABLE simba_mutex ADD COLUMN term_fence bigint unsigned DEFAULT 0,"
    " ADD COLUMN term_since bigint unsigned DEFAULT 0,"
    " ADD COLUMN term_version bigint unsigned DEFAULT 0";

/* Empty where the server has no such setting. */
struct server {
    char version[SB_MYSQL_ANSWER_MAX];
    char read_only[SB_MYSQL_ANSWER_MAX];
    char wait_timeout[SB_MYSQL_ANSWER_MAX];
    char flush[SB_MYSQL_ANSWER_MAX];
    char semi_sync[SB_MYSQL_ANSWER_MAX];
    char replicas[SB_MYSQL_ANSWER_MAX];
};

static void take(struct server *server, const char *name, const char *value)
{
    const struct {
        const char *name;
        char *target;
    } places[] = {
        {"version", server->version},
        {"read_only", server->read_only},
        {"wait_timeout", server->wait_timeout},
        {"innodb_flush_log_at_trx_commit", server->flush},
        {"rpl_semi_sync_master_enabled", server->semi_sync},
        {"rpl_semi_sync_source_enabled", server->semi_sync},
        {"replicas", server->replicas},
    };

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (strcasecmp(name, places[i].name) == 0)
            sb_text_printable(places[i].target, SB_MYSQL_ANSWER_MAX, value, strlen(value));
}

static int ask(struct sb_mysql_connection *c, const char *question, struct server *server,
               struct sb_sql_failure *failure)
{
    MYSQL_RES *result;
    MYSQL_ROW row;

    if (sb_mysql_call_query(c, question) != 0)
        return sb_mysql_fail(c, false, failure);
    result = sb_mysql_call_store(c);
    if (result == NULL)
        return sb_mysql_fail(c, false, failure);
    while (mysql_num_fields(result) == 2 && (row = mysql_fetch_row(result)) != NULL)
        if (row[0] != NULL && row[1] != NULL)
            take(server, row[0], row[1]);
    mysql_free_result(result);
    return SIMBA_OK;
}

static void add_server(const struct server *server, struct sb_findings *findings)
{
    if (!sb_mysql_is_off(server->read_only))
        sb_findings_add(findings, SIMBA_SEVERITY_PROBLEM, "server",
                        "name the primary in the URL, or SET GLOBAL read_only = 0 there",
                        "%s, read_only is %s: a replica perhaps, which grants no lease",
                        server->version, server->read_only);
    else
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "server", NULL, "%s, read_only is off",
                        server->version);
}

static void add_durability(const struct server *server, struct sb_findings *findings)
{
    if (strcmp(server->flush, "1") != 0)
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "durability",
                        "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
                        "innodb_flush_log_at_trx_commit is %s: a crash forgets the leases of the "
                        "last second, and a mutex can get two owners",
                        server->flush);
    else
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "durability", NULL,
                        "innodb_flush_log_at_trx_commit is 1");
}

static void add_wait_timeout(const struct server *server, int64_t lease_ms,
                             struct sb_findings *findings)
{
    long long seconds = strtoll(server->wait_timeout, NULL, 10);

    if (seconds > 0 && seconds <= lease_ms / 1000)
        sb_findings_add(findings, SIMBA_SEVERITY_WARNING, "wait_timeout",
                        "SET GLOBAL wait_timeout to several leases: 28800 is the server's default",
                        "%lld s, not longer than the lease of %lld s: a client between two "
                        "renewals is disconnected",
                        seconds, (long long)(lease_ms / 1000));
    else
        sb_findings_add(findings, SIMBA_SEVERITY_OK, "wait_timeout", NULL, "%lld s", seconds);
}

static void add_connection(const struct sb_mysql_connection *c, struct sb_findings *findings)
{
    bool is_local = c->mysql->unix_socket != NULL && c->mysql->host == NULL;
    enum sb_tls_state state = mysql_get_ssl_cipher(c->mysql) == NULL          ? SB_TLS_NONE
                              : c->settings->address.tls == SB_SQL_TLS_VERIFY ? SB_TLS_VERIFIED
                                                                              : SB_TLS_UNVERIFIED;

    sb_findings_add_tls(findings, state, is_local ? NULL : c->mysql->host, "add tls=on to the URL");
}

int sb_mysql_inspect(struct sb_sql_connection *connection, int64_t lease_ms,
                     struct sb_findings *findings, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = (struct sb_mysql_connection *)connection;
    struct server server = {.semi_sync = "OFF"};
    int code = ask(c, show_variables, &server, failure);

    if (code == SIMBA_OK)
        code = ask(c, show_replicas, &server, failure);
    if (code != SIMBA_OK)
        return code;
    add_server(&server, findings);
    add_connection(c, findings);
    add_durability(&server, findings);
    sb_findings_add_replicas(findings, strtoul(server.replicas, NULL, 10),
                             !sb_mysql_is_off(server.semi_sync),
                             "turn semi-synchronous replication on, or check fencing tokens");
    add_wait_timeout(&server, lease_ms, findings);
    sb_sql_findings_add_terms(findings, c->has_terms, add_terms);
    return SIMBA_OK;
}
