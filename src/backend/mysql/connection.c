/*
 * connection.c - the MySQL and MariaDB driver. Owns the life of a connection and its transactions;
 * must not know requests, nor how a client logs in.
 */
#include "backend/mysql/connection.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/socket.h"
#include "base/thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>

/* What an administrator or an option file may have set otherwise for all sessions. MariaDB can
 * refuse at once what another client has locked, and end a transaction whose client has vanished;
 * MySQL waits for a second at least, and can only end the connection. */
#define SET_UP                                                                                     \
    "SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES', character_set_client = utf8mb4,"  \
    " character_set_connection = utf8mb4, character_set_results = utf8mb4,"
static const char set_up_mariadb[] =
    SET_UP " innodb_lock_wait_timeout = 0, idle_transaction_timeout = 3";
static const char set_up_mysql[] = SET_UP " innodb_lock_wait_timeout = 1";
/* In which a statement locks no rows that it only reads. Servers that send statements to their
 * replicas do not take it. */
static const char read_committed[] = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
static const char end_idling_mysql[] = "SET SESSION wait_timeout = 5";

static struct sb_mysql_connection *own(struct sb_sql_connection *connection)
{
    return (struct sb_mysql_connection *)connection;
}

static void set_deadline(struct sb_sql_connection *connection, int64_t deadline_ms)
{
    own(connection)->deadline_ms = deadline_ms;
}

/* ---- One statement --------------------------------------------------------------------------- */

static int take_rows(struct sb_mysql_connection *c, MYSQL_STMT *statement,
                     const struct sb_sql_sink *sink, int64_t *ret_count,
                     struct sb_sql_failure *failure)
{
    struct sb_mysql_row row;
    int64_t count = 0;
    int code = SIMBA_OK;

    if (!sb_mysql_bind_row(statement, SB_MYSQL_ROW_COLUMNS, &row))
        return sb_mysql_fail_statement(c, statement, false, failure);
    while (code == SIMBA_OK && sb_mysql_fetch_row(c, statement, &row)) {
        count++;
        if (sink != NULL)
            code = sink->row(sink->user, &row.record);
    }
    mysql_stmt_free_result(statement);
    *ret_count = count;
    if (code == SIMBA_OK)
        return SIMBA_OK;
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_plain(&failure->error, code);
}

/* A change of no row may be that because the server is read-only. */
static int run(struct sb_sql_connection *connection, enum sb_sql_statement which,
               const struct sb_sql_values *values, const struct sb_sql_sink *sink,
               int64_t *ret_count, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = own(connection);
    MYSQL_STMT *statement = NULL;
    int64_t count = 0;
    bool adds = sb_mysql_writes(which) && !sb_mysql_updates(which);
    int code = adds ? sb_mysql_check_writable(c, failure) : SIMBA_OK;

    if (code == SIMBA_OK)
        code = sb_mysql_execute(c, which, values, &statement, failure);
    if (code != SIMBA_OK)
        return code;
    if (sb_mysql_writes(which))
        count = (int64_t)mysql_stmt_affected_rows(statement);
    else
        code = take_rows(c, statement, sink, &count, failure);
    if (count == 0 && sb_mysql_updates(which))
        code = sb_mysql_check_writable(c, failure);
    if (code == SIMBA_OK && ret_count != NULL)
        *ret_count = count;
    return code;
}

/* ---- Transactions ---------------------------------------------------------------------------- */

/* Only the repository's calls need one, and so a client's connection may idle as long as it
 * likes. */
static int begin(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = own(connection);

    SB_CHECK(!c->in_transaction, "a transaction begins outside of another");
    if (sb_mysql_is_closed(c))
        return sb_mysql_fail_closed(failure);
    if (!c->ends_idling && sb_mysql_call_query(c, end_idling_mysql) != 0)
        return sb_mysql_fail(c, false, failure);
    c->ends_idling = true;
    if (sb_mysql_call_query(c, "START TRANSACTION") != 0)
        return sb_mysql_fail(c, false, failure);
    c->in_transaction = true;
    return SIMBA_OK;
}

static int commit(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = own(connection);

    SB_CHECK(c->in_transaction, "only an open transaction is committed");
    c->in_transaction = false;
    if (sb_mysql_call_query(c, "COMMIT") != 0)
        return sb_mysql_fail_commit(c, failure);
    return SIMBA_OK;
}

/* Where even that fails the connection is broken, and the server rolls back by itself. */
static void rollback(struct sb_sql_connection *connection)
{
    struct sb_mysql_connection *c = own(connection);

    c->in_transaction = false;
    if (!c->timed_out)
        sb_mysql_call_query(c, "ROLLBACK");
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* A replica lets a privileged user write, where nobody else sees it: it holds no leases. Where
 * there are several servers to choose from it is passed over; a single one can still be read. */
static int choose_writable(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    int code = sb_mysql_ask_read_only(c, failure);

    if (code != SIMBA_OK || !c->read_only || c->settings->address.host_count < 2)
        return code;
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_EUNAVAILABLE,
                        "MySQL: none of the hosts can be written to: the last is read-only");
}

/* With TLS the library leaves the socket blocking, and would wait where it thinks that it does
 * not. */
static int connect_to_host(struct sb_mysql_connection *c, size_t host,
                           struct sb_sql_failure *failure)
{
    int socket;
    int code;

    c->mysql = NULL;
    code = sb_mysql_log_in(c, host, failure);
    if (code != SIMBA_OK)
        return code;
    socket = (int)mysql_get_socket(c->mysql);
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
    c->mariadb = mariadb_connection(c->mysql) != 0;
    c->ends_idling = c->mariadb;
    if (sb_mysql_call_query(c, c->mariadb ? set_up_mariadb : set_up_mysql) != 0)
        return sb_mysql_fail(c, false, failure);
    code = sb_mysql_ask_log_format(c, failure);
    if (code == SIMBA_OK && c->server_id[0] == '\0' && sb_mysql_call_query(c, read_committed) != 0)
        code = sb_mysql_fail(c, false, failure);
    if (code == SIMBA_OK)
        code = choose_writable(c, failure);
    return code;
}

/* The hosts in turn, each with its share of the time that is left. */
static int connect_to_any(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    size_t count = c->settings->address.host_count > 0 ? c->settings->address.host_count : 1;
    int64_t end_ms = c->deadline_ms;
    int code = SIMBA_OK;

    for (size_t i = 0; i < count; i++) {
        int64_t now_ms = simba_now_ms();

        if (c->mysql != NULL)
            mysql_close(c->mysql);
        c->deadline_ms = now_ms + (end_ms - now_ms) / (int64_t)(count - i);
        code = connect_to_host(c, i, failure);
        if (code == SIMBA_OK)
            break;
    }
    c->deadline_ms = end_ms;
    return code;
}

/* TLS writes its farewell with write(2), on any thread. */
static void disconnect(struct sb_sql_connection *connection)
{
    struct sb_mysql_connection *c = own(connection);
    struct sb_signal_hold hold;

    if (c == NULL)
        return;
    sb_signal_hold(&hold, SIGPIPE);
    for (size_t i = 0; i < SB_MYSQL_STATEMENTS && c->mysql != NULL; i++)
        if (c->statements[i] != NULL)
            mysql_stmt_close(c->statements[i]);
    if (c->mysql != NULL) {
        sb_socket_drop_unsent((int)mysql_get_socket(c->mysql));
        mysql_close(c->mysql);
    }
    sb_signal_let_go(&hold);
    sb_free(c);
}

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

/* The library has the whole process ignore SIGPIPE, and so its children; but how it is taken is the
 * application's business. */
static void begin_library(void)
{
    struct sigaction before;
    bool known = sigaction(SIGPIPE, NULL, &before) == 0;

    mysql_library_init(0, NULL, NULL);
    if (known)
        sigaction(SIGPIPE, &before, NULL);
}

static int connect_to_server(void *settings, int64_t timeout_ms,
                             struct sb_sql_connection **ret_connection,
                             struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = sb_alloc_zero(sizeof *c);
    struct sb_signal_hold hold;
    int code;

    if (c == NULL)
        return sb_mysql_fail_memory(failure);
    pthread_once(&library_once, begin_library);
    c->base.driver = &sb_mysql_driver;
    c->base.needs_utf8 = true;
    c->base.drops_spaces = true; /* most collations do not see them, and char(32) has none */
    c->settings = settings;
    c->deadline_ms = simba_now_ms() + timeout_ms;
    sb_signal_hold(&hold, SIGPIPE);
    code = connect_to_any(c, failure);
    if (code == SIMBA_OK)
        code = sb_mysql_init_schema(&c->base, failure);
    sb_signal_let_go(&hold);
    if (code != SIMBA_OK) {
        disconnect(&c->base);
        return code;
    }
    *ret_connection = &c->base;
    return SIMBA_OK;
}

const struct sb_sql_driver sb_mysql_driver = {
    .connect = connect_to_server,
    .disconnect = disconnect,
    .set_deadline = set_deadline,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .run = run,
    .property = sb_mysql_property,
    .tend = sb_mysql_tend,
    .inspect = sb_mysql_inspect,
    .run_all = sb_mysql_run_all,
    .read_queues = sb_mysql_read_queues,
    .init_schema = sb_mysql_init_schema,
    .announce = sb_mysql_announce,
};
