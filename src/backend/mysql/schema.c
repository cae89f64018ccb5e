/*
 * schema.c - the table on a MySQL or MariaDB server.
 */
#include "backend/mysql/schema.h"

#include "backend/mysql/call.h"
#include "backend/mysql/execute.h"
#include "backend/mysql/failure.h"
#include "base/error.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_MAX_S 3600 /* that a server takes as a limit */

/* Binary collation: names and ids that differ are different, but for spaces at their end, which nobody gets
 * to store. */
const char sb_mysql_schema[] =
    "CREATE TABLE IF NOT EXISTS simba_mutex (mutex varchar(66) PRIMARY KEY, acquired_at bigint"
    " unsigned NOT NULL, ttl_at bigint unsigned NOT NULL, transition_at bigint unsigned NOT NULL,"
    " owner_id varchar(128) NOT NULL, version bigint unsigned NOT NULL) ENGINE = InnoDB"
    " COLLATE utf8mb4_bin";

static const char describe_table[] =
    "SELECT column_name, character_maximum_length, collation_name LIKE '%\\_bin' OR"
    " collation_name LIKE 'binary', data_type, column_type LIKE '%unsigned%' FROM"
    " information_schema.columns WHERE table_schema = database() AND table_name = 'simba_mutex' AND"
    " column_name IN ('mutex', 'owner_id', 'version')";

/* Tables that others have created count in 32 bits. */
static const char widen_version[] =
    "ALTER TABLE simba_mutex MODIFY version bigint unsigned NOT NULL";

static void take_version(struct sb_mysql_connection *c, bool is_wide, bool is_unsigned)
{
    c->base.version_max = is_wide ? INT64_MAX : is_unsigned ? UINT32_MAX : INT32_MAX;
    c->base.widen_version = is_wide ? NULL : widen_version;
}

/* A column of another type may have none. */
static void take_width(size_t *width, const char *text)
{
    if (text != NULL)
        *width = strtoul(text, NULL, 10);
}

static void take_columns(struct sb_mysql_connection *c, MYSQL_RES *result)
{
    MYSQL_ROW row;

    while ((row = mysql_fetch_row(result)) != NULL) {
        if (strcmp(row[0], "mutex") == 0) {
            c->exact_names = row[2] != NULL && strcmp(row[2], "1") == 0;
            take_width(&c->base.mutex_max, row[1]);
        } else if (strcmp(row[0], "version") == 0) {
            take_version(c, strcmp(row[3], "bigint") == 0, strcmp(row[4], "1") == 0);
        } else {
            take_width(&c->base.owner_id_max, row[1]);
        }
    }
}

static int look_for_table(struct sb_mysql_connection *c, bool *ret_there,
                          struct sb_sql_failure *failure)
{
    MYSQL_RES *result;

    if (sb_mysql_call_query(c, describe_table) != 0)
        return sb_mysql_fail(c, false, failure);
    result = sb_mysql_call_store(c);
    if (result == NULL)
        return sb_mysql_fail(c, false, failure);
    *ret_there = mysql_num_rows(result) > 0;
    take_columns(c, result);
    mysql_free_result(result);
    return SIMBA_OK;
}

static int create(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    int code = sb_mysql_check_writable(c, failure);

    if (code != SIMBA_OK)
        return code;
    if (sb_mysql_call_query(c, sb_mysql_schema) == 0)
        return SIMBA_OK;
    code = sb_mysql_fail(c, false, failure);
    if (code == SIMBA_EDENIED)
        return sb_error_set_backend(&failure->error, code, (int)mysql_errno(c->mysql),
                                    "the user %s may not create a table in the database %s; "
                                    "somebody who may has to run: %s",
                                    c->mysql->user, c->mysql->db, sb_mysql_schema);
    return code == SIMBA_EEXISTS ? SIMBA_OK : code;
}

/* How long statements wait for locks on the table or the whole server, which may stay as long as somebody likes. One
 * that is left there comes when nobody expects it any more. To the server the least is a second, or none at all. */
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

/* Until the caller gives up, and no longer. */
static int64_t seconds_left(const struct sb_mysql_connection *c)
{
    int64_t left_s = (c->deadline_ms - simba_now_ms()) / 1000;

    return left_s < 1 ? 1 : left_s < WAIT_MAX_S ? left_s : WAIT_MAX_S;
}

/* Who may not see the table in the catalogue may not use it either. */
static int find_or_create(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    bool there = false;
    int code = look_for_table(c, &there, failure);

    if (code != SIMBA_OK || there)
        return code;
    code = create(c, failure);
    c->base.created_table = c->base.created_table || code == SIMBA_OK;
    return code == SIMBA_OK ? look_for_table(c, &there, failure) : code;
}

/* Without its limit a connection is of no use. */
int sb_mysql_init_schema(struct sb_mysql_connection *c, struct sb_sql_failure *failure)
{
    struct sb_sql_failure unlimited;
    int code;

    c->base.mutex_max = SIMBA_MUTEX_MAX;
    c->base.owner_id_max = SIMBA_ID_MAX;
    take_version(c, false, true);
    code = limit_waits(c, seconds_left(c), failure);
    if (code == SIMBA_OK)
        code = find_or_create(c, failure);
    if (limit_waits(c, c->mariadb ? 0 : 1, &unlimited) == SIMBA_OK)
        return code;
    if (code == SIMBA_OK)
        *failure = unlimited;
    failure->remedy = SB_SQL_RECONNECT;
    return failure->error.code;
}
