/*
 * tend.c - what removes a row with all that belongs to it, and what raises its version. Owns these
 * two statements, which are rare and prepared anew each time.
 */
#include "backend/mysql/connection.h"

#include "base/check.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

/* All in one statement: until it is committed nobody can insert the row again. */
static const char forget_rows[] =
    " simba_mutex m%s%s WHERE m.mutex = ? AND version = cast(? AS unsigned) AND"
    " version < " SB_MYSQL_FIRST_VERSION " AND " SB_MYSQL_IS_FREE_FOR_ALL;
static const char join_properties[] = " LEFT JOIN simba_property p ON p.mutex = ?";
static const char join_waiters[] = " LEFT JOIN " SB_MYSQL_WAITERS " w ON w.mutex = ?";

/* The row changes in any case: otherwise the server would say that there was nothing to do. */
static const char raise_version[] =
    "UPDATE simba_mutex SET version = greatest(version + 1, cast(? AS unsigned)) WHERE mutex = ?"
    " AND (" SB_MYSQL_IS_FREE " OR " SB_MYSQL_OWNER " = cast(? AS binary))";

static int forget(struct sb_mysql_connection *c, const char *mutex, const char *version,
                  bool *ret_done, struct sb_sql_failure *failure)
{
    const char *values[4];
    size_t count = 0;
    char buffer[SB_MYSQL_TEXT_MAX];
    struct sb_text text;
    int code = sb_mysql_find_properties(c, failure);

    if (code != SIMBA_OK)
        return code;
    sb_text_init(&text, buffer, sizeof buffer);
    sb_text_add(&text, "DELETE m%s%s FROM", c->has_properties ? ", p" : "",
                c->base.has_queue ? ", w" : "");
    sb_text_add(&text, forget_rows, c->has_properties ? join_properties : "",
                c->base.has_queue ? join_waiters : "");
    sb_text_add(&text, "%s", c->condition);
    SB_CHECK(!text.cut, "a statement fits into its buffer");
    if (c->has_properties)
        values[count++] = mutex;
    if (c->base.has_queue)
        values[count++] = mutex;
    values[count++] = mutex;
    values[count++] = version;
    return sb_mysql_run_texts(c, buffer, values, count, ret_done, NULL, failure);
}

static int raise_row(struct sb_mysql_connection *c, const struct sb_sql_tending *tending,
                     const char *version, bool *ret_done, struct sb_sql_failure *failure)
{
    const char *const values[] = {version, tending->mutex, tending->id};
    char buffer[SB_MYSQL_TEXT_MAX];
    struct sb_text text;

    sb_text_init(&text, buffer, sizeof buffer);
    sb_text_add(&text, "%s%s", raise_version, c->condition);
    return sb_mysql_run_texts(c, buffer, values, 3, ret_done, NULL, failure);
}

int sb_mysql_tend(struct sb_sql_connection *connection, const struct sb_sql_tending *tending,
                  bool *ret_done, struct sb_sql_failure *failure)
{
    struct sb_mysql_connection *c = (struct sb_mysql_connection *)connection;
    char version[24];
    int code = sb_mysql_check_writable(c, failure);

    if (code != SIMBA_OK)
        return code;
    snprintf(version, sizeof version, "%" PRIu64, tending->version);
    return tending->forgets ? forget(c, tending->mutex, version, ret_done, failure)
                            : raise_row(c, tending, version, ret_done, failure);
}
