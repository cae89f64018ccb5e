/*
 * connection.c - the MySQL and MariaDB driver. Owns the life of a connection and its transactions; must not
 * know requests.
 */
#include "backend/mysql/connection.h"

#include "backend/mysql/call.h"
#include "backend/mysql/failure.h"
#include "backend/mysql/schema.h"
#include "backend/mysql/statement.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>

/* MariaDB can refuse at once what somebody has locked; MySQL waits for a second at least. */
static const char set_up_mariadb[] =
    "SET SESSION autocommit = 1, innodb_lock_wait_timeout = 0, sql_mode = 'STRICT_ALL_TABLES'";
static const char set_up_mysql[] =
    "SET SESSION autocommit = 1, innodb_lock_wait_timeout = 1, sql_mode = 'STRICT_ALL_TABLES'";

static struct sb_mysql_connection *own(struct sb_sql_connection *connection)
{
    return (struct sb_mysql_connection *)connection;
}

static void set_deadline(struct sb_sql_connection *connection, int64_t deadline_ms)
{
    own(connection)->deadline_ms = deadline_ms;
}

/* ---- One statement -------------------------------------------------------------------------- */

/* A column of fixed width drops spaces at the end of an id, and most collations do not see them. */
static int check_id(const struct sb_sql_values *values, struct sb_sql_failure *failure)
{
    size_t length = values->id != NULL ? strlen(values->id) : 0;

    if (length == 0 || values->id[length - 1] != ' ')
        return SIMBA_OK;
    failure->remedy = SB_SQL_GIVE_UP;
    return sb_error_set(&failure->error, SIMBA_EINVAL,
                        "the id \"%s\" ends with a space, which MySQL may drop", values->id);
}

static int take_rows(struct sb_mysql_connection *c, MYSQL_STMT *statement,
                     const struct sb_sql_sink *sink, int64_t *ret_count,
                     struct sb_sql_failure *failure)
{
    struct sb_mysql_row row;
    int64_t count = 0;
    int code = SIMBA_OK;

    if (!sb_mysql_bind_row(statement, &row))
        return sb_mysql_fail_statement(c, statement, false, failure);
    while (code == SIMBA_OK && sb_mysql_fetch_row(statement, &row)) {
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

static int run(struct sb_sql_connection *connection, enum sb_sql_statement which,
               const struct sb_sql_values *values, const struct sb_sql_sink *sink,
               int64_t *ret_count, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = own(connection);
    MYSQL_STMT *statement = NULL;
    int64_t count = 0;
    int code = check_id(values, failure);

    if (code == SIMBA_OK)
        code = sb_mysql_execute(c, which, values, &statement, failure);
    if (code != SIMBA_OK)
        return code;
    if (sb_mysql_writes(which))
        count = (int64_t)mysql_stmt_affected_rows(statement);
    else
        code = take_rows(c, statement, sink, &count, failure);
    if (code == SIMBA_OK && ret_count != NULL)
        *ret_count = count;
    return code;
}

/* ---- Transactions --------------------------------------------------------------------------- */

static int begin(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = own(connection);

    if (sb_mysql_is_closed(c))
        return sb_mysql_fail_closed(failure);
    if (sb_mysql_call_query(c, "START TRANSACTION") != 0)
        return sb_mysql_fail(c, false, failure);
    c->in_transaction = true;
    return SIMBA_OK;
}

static int commit(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = own(connection);

    c->in_transaction = false;
    if (sb_mysql_call_query(c, "COMMIT") != 0)
        return sb_mysql_fail(c, true, failure);
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

/* ---- Many statements ------------------------------------------------------------------------ */

/* The record as it is after a change, as far as times are concerned from the moment of the change on. */
static void make_record(struct sb_sql_item *item, uint64_t version)
{
    const struct sb_sql_values *values = &item->values;
    struct sb_sql_record *record = &item->record;

    memset(record, 0, sizeof *record);
    sb_text_copy(record->mutex, sizeof record->mutex, values->mutex);
    record->version = version;
    if (item->statement != SB_SQL_ACQUIRE && item->statement != SB_SQL_GUARD)
        return;
    sb_text_copy(record->owner_id, sizeof record->owner_id, values->id);
    record->ttl_at_ms = values->ttl_ms;
    record->transition_at_ms = values->lease_ms;
}

/* What somebody else has locked is not hit, and no failure unless it has ended the transaction. */
static int change(struct sb_mysql_connection *c, struct sb_sql_item *item,
                  struct sb_sql_failure *failure)
{
    MYSQL_STMT *statement = NULL;
    int code = check_id(&item->values, failure);

    if (code == SIMBA_OK)
        code = sb_mysql_execute(c, item->statement, &item->values, &statement, failure);
    if (code == SIMBA_EUNAVAILABLE &&
        sb_mysql_is_lock_wait((unsigned)failure->error.backend_code) &&
        !(c->in_transaction && c->timeout_ends_all))
        return SIMBA_OK;
    if (code != SIMBA_OK)
        return code;
    item->hit = mysql_stmt_affected_rows(statement) == 1;
    if (item->hit)
        make_record(item, mysql_stmt_insert_id(statement));
    return SIMBA_OK;
}

static int change_all(struct sb_mysql_connection *c, struct sb_sql_item *const *items, size_t count,
                      struct sb_sql_failure *failure)
{
    int code = count > 1 ? begin(&c->base, failure) : SIMBA_OK;

    for (size_t i = 0; i < count && code == SIMBA_OK; i++)
        code = change(c, items[i], failure);
    if (count > 1 && code == SIMBA_OK)
        return commit(&c->base, failure);
    if (count > 1 && c->in_transaction)
        rollback(&c->base);
    return code;
}

static int select_one(struct sb_mysql_connection *c, struct sb_sql_item *item,
                      struct sb_sql_failure *failure)
{
    MYSQL_STMT *statement = NULL;
    struct sb_mysql_row row;
    int code = sb_mysql_execute(c, SB_SQL_SELECT, &item->values, &statement, failure);

    if (code != SIMBA_OK)
        return code;
    if (!sb_mysql_bind_row(statement, &row))
        return sb_mysql_fail_statement(c, statement, false, failure);
    item->hit = sb_mysql_fetch_row(statement, &row);
    if (item->hit)
        item->record = row.record;
    mysql_stmt_free_result(statement);
    return SIMBA_OK;
}

/* Where two names can mean one row, a row that was found for one of them is missing for the other. */
static int select_all(struct sb_mysql_connection *c, struct sb_sql_item *const *items, size_t count,
                      struct sb_sql_failure *failure)
{
    int code;

    if (count == 1)
        return select_one(c, items[0], failure);
    code = sb_mysql_select_some(c, items, count, failure);
    for (size_t i = 0; i < count && code == SIMBA_OK && !c->exact_names; i++)
        if (!items[i]->hit)
            code = select_one(c, items[i], failure);
    return code;
}

/* All of a call are of one kind: changes, looks or additions. */
static int run_all(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                   size_t count, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = own(connection);

    if (sb_mysql_is_closed(c))
        return sb_mysql_fail_closed(failure);
    switch (items[0]->statement) {
    case SB_SQL_SELECT:
        return select_all(c, items, count, failure);
    case SB_SQL_INSERT_IF_MISSING:
        return sb_mysql_insert_some(c, items, count, failure);
    default:
        return change_all(c, items, count, failure);
    }
}

/* ---- Connecting ----------------------------------------------------------------------------- */

static void set_tls(MYSQL *mysql, const struct sb_sql_address *a)
{
    const my_bool yes = 1;

    if (a->tls == SB_SQL_TLS_UNSET || a->tls == SB_SQL_TLS_OFF)
        return;
    mysql_ssl_set(mysql, a->tls_key, a->tls_cert, a->tls_ca, NULL, NULL);
    mysql_optionsv(mysql, MYSQL_OPT_SSL_ENFORCE, &yes);
    if (a->tls == SB_SQL_TLS_VERIFY)
        mysql_optionsv(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
}

/* Some versions of the library go on in the clear where the server does not offer TLS. */
static int check_tls(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    enum sb_sql_tls tls = c->settings->address.tls;

    if ((tls != SB_SQL_TLS_ENCRYPT && tls != SB_SQL_TLS_VERIFY) ||
        mysql_get_ssl_cipher(c->mysql) != NULL)
        return SIMBA_OK;
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_EUNAVAILABLE,
                        "MySQL: TLS was asked for and the server does not offer it");
}

/* The library's own files come first, so that what the URL says wins. */
static bool set_options(struct sb_mysql_connection *c)
{
    const my_bool no = 0;

    return mysql_optionsv(c->mysql, MYSQL_READ_DEFAULT_GROUP, "simba") == 0 &&
           mysql_optionsv(c->mysql, MYSQL_OPT_NONBLOCK, (void *)0) == 0 &&
           mysql_optionsv(c->mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4") == 0 &&
           mysql_optionsv(c->mysql, MYSQL_OPT_RECONNECT, &no) == 0 &&
           mysql_optionsv(c->mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "simba") == 0;
}

static int connect_to_host(struct sb_mysql_connection *c, size_t host,
                           struct sb_sql_failure *failure)
{
    c->mysql = mysql_init(NULL);
    c->timed_out = false;
    if (c->mysql == NULL || !set_options(c))
        return sb_mysql_fail_memory(failure);
    set_tls(c->mysql, &c->settings->address);
    if (!sb_mysql_call_connect(c, host))
        return sb_mysql_fail(c, false, failure);
    fcntl(mysql_get_socket(c->mysql), F_SETFD, FD_CLOEXEC);
    return check_tls(c, failure);
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

static int set_up(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    MYSQL_RES *result;
    MYSQL_ROW row;
    const char *text = mariadb_connection(c->mysql) ? set_up_mariadb : set_up_mysql;

    if (sb_mysql_call_query(c, text) != 0 ||
        sb_mysql_call_query(c, "SELECT @@innodb_rollback_on_timeout") != 0)
        return sb_mysql_fail(c, false, failure);
    result = sb_mysql_call_store(c);
    if (result == NULL)
        return sb_mysql_fail(c, false, failure);
    row = mysql_fetch_row(result);
    c->timeout_ends_all = row != NULL && row[0] != NULL && strcmp(row[0], "0") != 0;
    mysql_free_result(result);
    return SIMBA_OK;
}

static void disconnect(struct sb_sql_connection *connection)
{
    struct sb_mysql_connection *c = own(connection);

    if (c == NULL)
        return;
    for (size_t i = 0; i < SB_MYSQL_STATEMENTS && c->mysql != NULL; i++)
        if (c->statements[i] != NULL)
            mysql_stmt_close(c->statements[i]);
    if (c->mysql != NULL)
        mysql_close(c->mysql);
    sb_free(c);
}

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void begin_library(void)
{
    mysql_library_init(0, NULL, NULL);
}

static int connect_to_server(void *settings, int64_t timeout_ms,
                             struct sb_sql_connection **ret_connection,
                             struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = sb_alloc_zero(sizeof *c);
    int code;

    if (c == NULL)
        return sb_mysql_fail_memory(failure);
    pthread_once(&library_once, begin_library);
    c->base.driver = &sb_mysql_driver;
    c->base.version_max = UINT32_MAX;
    c->settings = settings;
    c->deadline_ms = simba_now_ms() + timeout_ms;
    code = connect_to_any(c, failure);
    if (code == SIMBA_OK)
        code = set_up(c, failure);
    if (code == SIMBA_OK)
        code = sb_mysql_init_schema(c, failure);
    if (code != SIMBA_OK) {
        disconnect(&c->base);
        return code;
    }
    *ret_connection = &c->base;
    return SIMBA_OK;
}

static int init_schema(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    return sb_mysql_init_schema(own(connection), failure);
}

const struct sb_sql_driver sb_mysql_driver = {
    .connect = connect_to_server,
    .disconnect = disconnect,
    .set_deadline = set_deadline,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .run = run,
    .run_all = run_all,
    .init_schema = init_schema,
};
