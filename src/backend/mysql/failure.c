/*
 * failure.c - what the numbers of MySQL and MariaDB mean to the library. Owns the sentences;
 * changes nothing.
 */
#include "backend/mysql/connection.h"

#include "base/error.h"

#include <errmsg.h>
#include <mysqld_error.h>
#include <string.h>

/* Those that have other names, or none, in one of the two families. */
#define CONNECTION_KILLED 1927      /* MariaDB */
#define DISCONNECTED_BY_IDLING 4031 /* MySQL */
#define LOCK_NOWAIT 3572            /* MySQL */
#define NODE_NOT_READY 1047         /* Galera answers every command so */
#define RECORD_CHANGED 1020         /* MariaDB's innodb_snapshot_isolation */

struct meaning {
    unsigned number;
    int code;
    enum sb_sql_remedy remedy;
    const char *text;
};

#define NONE 0 /* the library finds nothing wrong; the caller does */

#define NEEDS "the user lacks a right, and needs SELECT, INSERT and UPDATE on the table"

static const struct meaning meanings[] = {
    {NONE, SIMBA_ESTORE, SB_SQL_RECONNECT, "the server's answer is not what was asked for"},
    {ER_NO_SUCH_TABLE, SIMBA_ESTORE, SB_SQL_SCHEMA, "the table is not there"},
    {ER_DUP_ENTRY, SIMBA_EEXISTS, SB_SQL_GIVE_UP, "it is there already"},
    {ER_TABLE_EXISTS_ERROR, SIMBA_EEXISTS, SB_SQL_GIVE_UP, "it is there already"},
    {ER_LOCK_WAIT_TIMEOUT, SIMBA_EUNAVAILABLE, SB_SQL_RETRY,
     "the row or the table is locked by another client"},
    {LOCK_NOWAIT, SIMBA_EUNAVAILABLE, SB_SQL_RETRY, "the row is locked by another client"},
    {ER_LOCK_DEADLOCK, SIMBA_EUNAVAILABLE, SB_SQL_RETRY,
     "the transaction was rolled back for another"},
    {RECORD_CHANGED, SIMBA_EUNAVAILABLE, SB_SQL_RETRY,
     "the transaction was rolled back for another"},
    {ER_QUERY_INTERRUPTED, SIMBA_EUNAVAILABLE, SB_SQL_RETRY, "the statement was killed"},
    {ER_OPTION_PREVENTS_STATEMENT, SIMBA_ESTORE, SB_SQL_RECONNECT,
     "the server is read-only, a replica perhaps"},
    {ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, SIMBA_ESTORE, SB_SQL_RECONNECT,
     "the server is read-only, a replica perhaps"},
    {ER_READ_ONLY_MODE, SIMBA_ESTORE, SB_SQL_RECONNECT, "the server is read-only"},
    {ER_OPEN_AS_READONLY, SIMBA_ESTORE, SB_SQL_RECONNECT, "the table is read-only"},
    {ER_ACCESS_DENIED_ERROR, SIMBA_EDENIED, SB_SQL_RECONNECT, "the server refuses the user"},
    {ER_ACCESS_DENIED_NO_PASSWORD_ERROR, SIMBA_EDENIED, SB_SQL_RECONNECT,
     "the server refuses the user"},
    {ER_HOST_NOT_PRIVILEGED, SIMBA_EDENIED, SB_SQL_RECONNECT, "the server refuses this host"},
    {ER_HOST_IS_BLOCKED, SIMBA_EDENIED, SB_SQL_RECONNECT, "the server refuses this host"},
    {ER_DBACCESS_DENIED_ERROR, SIMBA_EDENIED, SB_SQL_RECONNECT, "the user lacks a right"},
    {ER_TABLEACCESS_DENIED_ERROR, SIMBA_EDENIED, SB_SQL_GIVE_UP, NEEDS},
    {ER_COLUMNACCESS_DENIED_ERROR, SIMBA_EDENIED, SB_SQL_GIVE_UP, NEEDS},
    {ER_SPECIFIC_ACCESS_DENIED_ERROR, SIMBA_EDENIED, SB_SQL_GIVE_UP, "the user lacks a right"},
    {ER_BAD_DB_ERROR, SIMBA_ECONFIG, SB_SQL_RECONNECT, "there is no such database"},
    {ER_NO_DB_ERROR, SIMBA_ECONFIG, SB_SQL_GIVE_UP, "the URL names no database"},
    {ER_UNKNOWN_STMT_HANDLER, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "what was prepared is gone"},
    {ER_NEED_REPREPARE, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "what was prepared is gone"},
    {ER_DATA_TOO_LONG, SIMBA_EINVAL, SB_SQL_GIVE_UP, "a value does not fit into its column"},
    {ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, SIMBA_EINVAL, SB_SQL_GIVE_UP,
     "a value does not fit into its column"},
    {ER_CON_COUNT_ERROR, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "the server is full"},
    {ER_TOO_MANY_USER_CONNECTIONS, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "the server is full"},
    {ER_USER_LIMIT_REACHED, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "the server is full"},
    {NODE_NOT_READY, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "the node is not part of its cluster"},
    {DISCONNECTED_BY_IDLING, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "the connection was closed"},
    {CR_CONNECTION_ERROR, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "cannot connect"},
    {CR_CONN_HOST_ERROR, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "cannot connect"},
    {CR_UNKNOWN_HOST, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "cannot connect"},
    {CR_PLUGIN_NOT_ALLOWED, SIMBA_EDENIED, SB_SQL_RECONNECT, "the server asks for the password"},
    {CR_SSL_CONNECTION_ERROR, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT, "TLS failed"},
};

static const struct meaning other = {0, SIMBA_ESTORE, SB_SQL_GIVE_UP, "the statement failed"};
static const struct meaning lost = {0, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT,
                                    "the connection was lost"};

/* The table was replaced by one without SB_SQL_TERM_COLUMNS: a new connection does without. */
static const struct meaning changed = {0, SIMBA_EUNAVAILABLE, SB_SQL_RECONNECT,
                                       "the table has another form"};

static bool is_changed(const struct sb_mysql_connection *c, unsigned number, const char *message)
{
    return number == ER_BAD_FIELD_ERROR && c->has_terms && strstr(message, "term_") != NULL;
}

/* All of these leave open whether the last statement was carried out. */
static bool is_lost(unsigned number)
{
    switch (number) {
    case CR_SERVER_GONE_ERROR:
    case CR_SERVER_LOST:
    case CR_SERVER_LOST_EXTENDED:
    case CONNECTION_KILLED:
    case ER_SERVER_SHUTDOWN:
    case ER_NET_READ_ERROR:
    case ER_NET_READ_INTERRUPTED:
    case ER_NET_ERROR_ON_WRITE:
    case ER_NET_WRITE_INTERRUPTED:
    case ER_ERROR_DURING_COMMIT:
    case CR_MALFORMED_PACKET:
    case CR_COMMANDS_OUT_OF_SYNC:
        return true;
    default:
        return false;
    }
}

static const struct meaning *find_meaning(unsigned number)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].number == number)
            return &meanings[i];
    return is_lost(number) ? &lost : &other;
}

static int fail(const struct sb_mysql_connection *c, unsigned number, const char *message,
                bool sent, struct sb_sql_failure *failure)
{
    const struct meaning *meaning = c->timed_out                     ? &lost
                                    : is_changed(c, number, message) ? &changed
                                                                     : find_meaning(number);
    int code = meaning == &lost && sent ? SIMBA_EUNKNOWN : meaning->code;

    failure->remedy = meaning->remedy;
    return sb_error_set_backend(&failure->error, code, (int)number, "MySQL: %s%s%s",
                                c->timed_out ? "the server did not answer in time" : meaning->text,
                                message[0] != '\0' ? ": " : "", message);
}

int sb_mysql_fail(const struct sb_mysql_connection *c, bool sent, struct sb_sql_failure *failure)
{
    return fail(c, mysql_errno(c->mysql), mysql_error(c->mysql), sent, failure);
}

/* With a deadlock Galera tells that a commit was not certified. */
int sb_mysql_fail_commit(const struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    unsigned number = mysql_errno(c->mysql);
    int code = sb_mysql_fail(c, true, failure);

    if (number != ER_LOCK_DEADLOCK && number != RECORD_CHANGED)
        failure->error.code = code = SIMBA_EUNKNOWN;
    return code;
}

int sb_mysql_fail_statement(const struct sb_mysql_connection *c, MYSQL_STMT *statement, bool sent,
                            struct sb_sql_failure *failure)
{
    return fail(c, mysql_stmt_errno(statement), mysql_stmt_error(statement), sent, failure);
}

int sb_mysql_fail_closed(struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_EUNAVAILABLE, "MySQL: %s", lost.text);
}

int sb_mysql_fail_read_only(struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_ESTORE,
                        "MySQL: the server is read-only, a replica perhaps, and holds no leases");
}

int sb_mysql_fail_memory(struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_plain(&failure->error, SIMBA_ENOMEM);
}
