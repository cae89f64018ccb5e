/*
 * schema.c - the table on a MySQL or MariaDB server: what it is, and its creation.
 *
 * A view in its place would run what its creator has written with the rights of every client. A
 * table cannot: its triggers run with the rights of their creators, and its columns can call no
 * function that a user has written.
 */
#include "backend/mysql/connection.h"

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_MAX_S 3600 /* that a server takes as a limit */

/* Binary collation: names and ids that differ are different, but for spaces at their end, which
 * nobody gets to store. */
#define CREATE_MUTEX                                                                               \
    "CREATE TABLE IF NOT EXISTS simba_mutex (mutex varchar(66) PRIMARY KEY, acquired_at bigint"    \
    " unsigned NOT NULL, ttl_at bigint unsigned NOT NULL, transition_at bigint unsigned NOT NULL," \
    " owner_id varchar(128) NOT NULL, version bigint unsigned NOT NULL,"                           \
    " term_fence bigint unsigned DEFAULT 0, term_since bigint unsigned DEFAULT 0,"                 \
    " term_version bigint unsigned DEFAULT 0) ENGINE = InnoDB"                                     \
    " COLLATE utf8mb4_bin"
#define CREATE_WAITER                                                                              \
    "CREATE TABLE IF NOT EXISTS " SB_MYSQL_WAITERS " (mutex varchar(264) NOT NULL,"                \
    " id varchar(128) NOT NULL, since bigint unsigned NOT NULL, client varchar(64) NOT NULL,"      \
    " reserved_until bigint NOT NULL, note varchar(255) NOT NULL, PRIMARY KEY (mutex, id),"        \
    " KEY " SB_MYSQL_ORDER " (mutex, reserved_until, since, id)) ENGINE = InnoDB"                  \
    " ROW_FORMAT = DYNAMIC COLLATE utf8mb4_bin"

const char sb_mysql_schema[] = CREATE_MUTEX ";\n" CREATE_WAITER ";\n" SB_MYSQL_CREATE_PROPERTIES;

/* One row for the table, and one for each of the columns. Both halves name the schema and the table
 * in their WHERE: the columns in a LEFT JOIN have the server open all tables of all databases. */
static const char describe_table[] =
    "SELECT NULL, NULL, NULL, NULL, NULL, table_type, engine FROM information_schema.tables"
    " WHERE table_schema = database() AND table_name = 'simba_mutex' UNION ALL"
    " SELECT column_name, character_maximum_length, collation_name LIKE '%\\_bin' OR"
    " collation_name LIKE 'binary', data_type, column_type LIKE '%unsigned%', NULL, NULL"
    " FROM information_schema.columns WHERE table_schema = database() AND"
    " table_name = 'simba_mutex' AND column_name IN ('mutex', 'acquired_at', 'ttl_at',"
    " 'transition_at', 'owner_id', 'version', 'term_fence', 'term_since', 'term_version')";

enum {
    COLUMN_NAME,
    COLUMN_WIDTH,
    COLUMN_IS_BINARY,
    COLUMN_TYPE,
    COLUMN_IS_UNSIGNED,
    TABLE_TYPE,
    TABLE_ENGINE,
    DESCRIPTION_COLUMNS
};

/* Tables of other libraries may lack the last ones. */
static const char *const columns[] = {"mutex",         "acquired_at", "ttl_at",
                                      "transition_at", "owner_id",    "version",
                                      "term_fence",    "term_since",  "term_version"};

#define NEEDED_COLUMNS 6
#define COLUMNS (sizeof columns / sizeof columns[0])
#define WORD_MAX 32

/* What was found. */
struct look {
    bool found;
    bool has[COLUMNS]; /* that the user may use */
    char type[WORD_MAX];
    char engine[WORD_MAX]; /* a view has none */
};

/* Tables that others have created count in 32 bits. */
static const char widen_version[] =
    "ALTER TABLE simba_mutex MODIFY version bigint unsigned NOT NULL";

static void take_version(struct sb_mysql_connection *c, bool is_wide, bool is_unsigned)
{
    c->base.version_max = is_wide ? INT64_MAX : is_unsigned ? UINT32_MAX : INT32_MAX;
    c->base.widen_version = is_wide ? NULL : widen_version;
}

/* Whatever the server says is NULL is not so. */
static bool is(const char *text, const char *word)
{
    return text != NULL && strcasecmp(text, word) == 0;
}

/* A column of another type may have no width. */
static void take_column(struct sb_mysql_connection *c, MYSQL_ROW row)
{
    const char *width = row[COLUMN_WIDTH];

    if (is(row[COLUMN_NAME], "mutex")) {
        c->exact_names = is(row[COLUMN_IS_BINARY], "1");
        if (width != NULL)
            c->base.mutex_max = strtoul(width, NULL, 10);
    } else if (is(row[COLUMN_NAME], "version")) {
        take_version(c, is(row[COLUMN_TYPE], "bigint"), is(row[COLUMN_IS_UNSIGNED], "1"));
    } else if (is(row[COLUMN_NAME], "owner_id") && width != NULL) {
        c->base.owner_id_max = strtoul(width, NULL, 10);
    }
}

static void take_look(struct sb_mysql_connection *c, MYSQL_RES *result, struct look *ret_look)
{
    MYSQL_ROW row;

    while ((row = mysql_fetch_row(result)) != NULL) {
        if (row[COLUMN_NAME] == NULL) {
            ret_look->found = true;
            sb_text_copy(ret_look->type, WORD_MAX, row[TABLE_TYPE] != NULL ? row[TABLE_TYPE] : "");
            sb_text_copy(ret_look->engine, WORD_MAX,
                         row[TABLE_ENGINE] != NULL ? row[TABLE_ENGINE] : "");
        }
        take_column(c, row);
        for (size_t i = 0; i < COLUMNS; i++)
            ret_look->has[i] = ret_look->has[i] || is(row[COLUMN_NAME], columns[i]);
    }
}

static int look_for_table(struct sb_mysql_connection *c, struct look *ret_look,
                          struct sb_sql_failure *failure)
{
    MYSQL_RES *result;
    bool is_whole;

    *ret_look = (struct look){.found = false};
    if (sb_mysql_call_query(c, describe_table) != 0)
        return sb_mysql_fail(c, false, failure);
    result = sb_mysql_call_store(c);
    if (result == NULL)
        return sb_mysql_fail(c, false, failure);
    is_whole = mysql_num_fields(result) == DESCRIPTION_COLUMNS;
    if (is_whole)
        take_look(c, result, ret_look);
    mysql_free_result(result);
    return is_whole ? SIMBA_OK : sb_mysql_fail(c, false, failure);
}

static int check_table(struct sb_mysql_connection *c, const struct look *look,
                       struct sb_sql_failure *failure)
{
    size_t i = 0;

    failure->remedy = SB_SQL_GIVE_UP;
    if (!is(look->type, "BASE TABLE")) {
        c->distrusted = true;
        return sb_error_set(&failure->error, SIMBA_EDENIED,
                            "MySQL: simba_mutex is a %s and not a BASE TABLE: what a view calls "
                            "would run with the user's rights",
                            look->type);
    }
    if (!is(look->engine, "InnoDB"))
        return sb_error_set(&failure->error, SIMBA_ECONFIG,
                            "MySQL: the table simba_mutex has the engine %s, which does not keep "
                            "what was committed as InnoDB does: ALTER TABLE simba_mutex ENGINE = "
                            "InnoDB",
                            look->engine);
    while (i < COLUMNS && look->has[i])
        i++;
    c->has_terms = i == COLUMNS;
    if (i >= NEEDED_COLUMNS)
        return SIMBA_OK;
    return sb_error_set(&failure->error, SIMBA_ECONFIG,
                        "MySQL: the table simba_mutex has no column %s, or the user may not see "
                        "it: rename a table that is not Simba's, and run simba init",
                        columns[i]);
}

static int create(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    int code = sb_mysql_check_writable(c, failure);

    if (code != SIMBA_OK)
        return code;
    if (sb_mysql_call_query(c, CREATE_MUTEX) == 0)
        return SIMBA_OK;
    code = sb_mysql_fail(c, false, failure);
    if (code == SIMBA_EDENIED)
        return sb_error_set_backend(&failure->error, code, (int)mysql_errno(c->mysql),
                                    "the user %s may not create a table in the database %s; "
                                    "an administrator has to run: %s",
                                    c->mysql->user, c->mysql->db, CREATE_MUTEX);
    return code == SIMBA_EEXISTS ? SIMBA_OK : code;
}

/* How long statements wait for locks on the table or the whole server, which may stay as long as
 * another client likes. A statement that is left there would be carried out late. To the server the
 * least is a second, or none at all. */
static int limit_waits(struct sb_mysql_connection *c, int64_t seconds,
                       struct sb_sql_failure *failure)
{
    char buffer[64];
    struct sb_text text;

    sb_text_init(&text, buffer, sizeof buffer);
    sb_text_add(&text, "SET SESSION lock_wait_timeout = %lld", (long long)seconds);
    if (sb_mysql_call_query(c, buffer) != 0)
        return sb_mysql_fail(c, false, failure);
    return SIMBA_OK;
}

/* A user who may not see the table in the catalogue may not use it either. */
static int find_or_create(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    struct look look;
    int code = look_for_table(c, &look, failure);

    if (code == SIMBA_OK && !look.found) {
        code = create(c, failure);
        c->base.created_table = c->base.created_table || code == SIMBA_OK;
        if (code == SIMBA_OK)
            code = look_for_table(c, &look, failure);
    }
    return code == SIMBA_OK && look.found ? check_table(c, &look, failure) : code;
}

/* ---- The table of waiters -------------------------------------------------------------------- */

/* Yields a row whether or not there are waiters, unless a column or the index is missing; and fails
 * where the user may not read. */
static const char try_waiters[] =
    "SELECT count(*) FROM (SELECT mutex, id, since, client, reserved_until, note FROM"
    " " SB_MYSQL_WAITERS SB_MYSQL_BY_ORDER " WHERE mutex = '' LIMIT 1) w";

/* A view in its place is none of ours, nor is a table whose changes cannot be rolled back. */
static const char find_waiters[] =
    "SELECT table_type = 'BASE TABLE' AND engine = 'InnoDB' FROM information_schema.tables"
    " WHERE table_schema = database() AND table_name = '" SB_MYSQL_WAITERS "'";

/* Whether the user may change it. Nothing is changed. */
static const char *const try_rights[] = {
    "UPDATE " SB_MYSQL_WAITERS " SET note = note WHERE mutex = '' AND id = ''",
    "DELETE FROM " SB_MYSQL_WAITERS " WHERE mutex = '' AND id = ''",
    "INSERT INTO " SB_MYSQL_WAITERS " (mutex, id, since, client, reserved_until, note) SELECT"
    " mutex, id, since, client, reserved_until, note FROM " SB_MYSQL_WAITERS
    " WHERE mutex = '' AND id = ''",
};

/* Runs a statement that yields a number, or none; *ret_number is -1 then. */
static int ask_number(struct sb_mysql_connection *c, const char *text, int64_t *ret_number,
                      struct sb_sql_failure *failure)
{
    MYSQL_RES *result;
    MYSQL_ROW row;

    if (sb_mysql_call_query(c, text) != 0)
        return sb_mysql_fail(c, false, failure);
    *ret_number = -1;
    if (mysql_field_count(c->mysql) == 0)
        return SIMBA_OK;
    result = sb_mysql_call_store(c);
    if (result == NULL)
        return sb_mysql_fail(c, false, failure);
    row = mysql_fetch_row(result);
    if (row != NULL && row[0] != NULL)
        *ret_number = strtoll(row[0], NULL, 10);
    mysql_free_result(result);
    return SIMBA_OK;
}

/* Once in a client's life. */
static void tell_no_queue(const struct sb_mysql_connection *c, const char *why)
{
    const struct simba_backend_host *host = c->settings->host;

    if (host == NULL || atomic_exchange(&c->settings->warned_of_queue, true))
        return;
    host->log(host, SIMBA_LOG_WARN,
              "MySQL: contenders do not wait in line, and poll for a release: %s. "
              "simba init --print shows the table " SB_MYSQL_WAITERS,
              why);
}

static int create_waiters(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    int code = SIMBA_OK;

    if (c->read_only) {
        code = sb_mysql_fail_read_only(failure);
        failure->remedy = SB_SQL_GIVE_UP;
    } else if (sb_mysql_call_query(c, CREATE_WAITER) != 0) {
        code = sb_mysql_fail(c, false, failure);
    }
    return code;
}

static int find_or_create_waiters(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    int64_t fits;
    int code = ask_number(c, find_waiters, &fits, failure);

    if (code == SIMBA_OK && fits == -1) {
        code = create_waiters(c, failure);
        if (code == SIMBA_OK)
            code = ask_number(c, find_waiters, &fits, failure);
    }
    if (code == SIMBA_OK && fits != 1) {
        failure->remedy = SB_SQL_GIVE_UP;
        code = sb_error_set(&failure->error, SIMBA_ECONFIG,
                            "MySQL: " SB_MYSQL_WAITERS " is not a table of the engine InnoDB");
    }
    return code;
}

/* Whatever is wrong with it: mutexes work without it. Only a connection that is lost is a
 * failure. */
static int init_waiters(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    int64_t number;
    int code;

    c->base.has_queue = false;
    if (c->server_id[0] != '\0') {
        tell_no_queue(c, "with binlog_format = STATEMENT a release would lock the line");
        return SIMBA_OK;
    }
    code = find_or_create_waiters(c, failure);
    if (code == SIMBA_OK)
        code = ask_number(c, try_waiters, &number, failure);
    for (size_t i = 0; i < sizeof try_rights / sizeof try_rights[0] && code == SIMBA_OK; i++)
        if (!c->read_only)
            code = ask_number(c, try_rights[i], &number, failure);
    if (code != SIMBA_OK && failure->remedy == SB_SQL_RECONNECT)
        return code;
    c->base.has_queue = code == SIMBA_OK;
    if (!c->base.has_queue)
        tell_no_queue(c, failure->error.text);
    return SIMBA_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* The look at the table waits for locks until the caller gives up. Without the limit for what
 * follows a connection is of no use. */
int sb_mysql_init_schema(struct sb_sql_connection *connection, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = (struct sb_mysql_connection *)connection;
    int64_t left_s = (c->deadline_ms - simba_now_ms()) / 1000;
    struct sb_sql_failure unlimited;
    int code;

    c->base.mutex_max = SIMBA_MUTEX_MAX;
    c->base.owner_id_max = SIMBA_ID_MAX;
    take_version(c, false, true);
    code = limit_waits(c, left_s < 1 ? 1 : sb_earlier(left_s, WAIT_MAX_S), failure);
    if (code == SIMBA_OK)
        code = find_or_create(c, failure);
    if (code == SIMBA_OK)
        code = init_waiters(c, failure);
    if (limit_waits(c, c->mariadb ? 0 : 1, &unlimited) == SIMBA_OK)
        return code;
    if (code == SIMBA_OK)
        *failure = unlimited;
    failure->remedy = SB_SQL_RECONNECT;
    return failure->error.code;
}
