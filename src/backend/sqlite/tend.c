/*
 * tend.c - what removes a mutex, and what raises the floor of all tokens (schema.c).
 */
#include "backend/sqlite/connection.h"

#include <inttypes.h>
#include <stdio.h>

#define MUTEX_IS_FREE                                                                              \
    "(transition_at < simba_now() OR simba_is_over(iif(life_version = version, life, 0)))"

/* The trigger keeps the floor above its version. */
static const char forget_mutex[] = "DELETE FROM simba_mutex WHERE mutex = ?1 AND"
                                   " version = CAST(?2 AS INTEGER) AND " MUTEX_IS_FREE;
static const char forget_waiters[] = "DELETE FROM simba_waiter WHERE mutex = ?1 AND ?2 IS NOT NULL";
static const char forget_properties[] =
    "DELETE FROM simba_property WHERE mutex = ?1 AND ?2 IS NOT NULL";

/* Each term begins above the floor, so what is in the row does not matter. */
static const char raise_floor[] = "UPDATE simba_meta SET value = max(value, CAST(?2 AS INTEGER))"
                                  " WHERE name = 'version_floor' AND ?1 IS NOT NULL";

static int forget(struct sb_sqlite_connection *c, const struct sb_sql_property *values,
                  bool *ret_done, struct sb_sql_failure *failure)
{
    bool exists = false;
    int code = sb_sqlite_run_texts(c, forget_mutex, values, NULL, failure);

    *ret_done = code == SIMBA_OK && sqlite3_changes(c->db) > 0;
    if (code == SIMBA_OK && *ret_done)
        code = sb_sqlite_run_texts(c, forget_waiters, values, NULL, failure);
    if (code == SIMBA_OK && *ret_done)
        code = sb_sqlite_find_properties(c, &exists, failure);
    if (code == SIMBA_OK && exists)
        code = sb_sqlite_run_texts(c, forget_properties, values, NULL, failure);
    return code;
}

int sb_sqlite_tend(struct sb_sql_connection *connection, const struct sb_sql_tending *tending,
                   bool *ret_done, struct sb_sql_failure *failure)
{
    struct sb_sqlite_connection *c = (struct sb_sqlite_connection *)connection;
    char version[24];
    const struct sb_sql_property values = {.mutex = tending->mutex, .name = version};
    bool done = true;
    int code = connection->driver->begin(connection, failure);

    if (code != SIMBA_OK)
        return code;
    snprintf(version, sizeof version, "%" PRIu64, tending->version);
    code = tending->forgets ? forget(c, &values, &done, failure)
                            : sb_sqlite_run_texts(c, raise_floor, &values, NULL, failure);
    if (code == SIMBA_OK)
        code = connection->driver->commit(connection, failure);
    if (code != SIMBA_OK)
        connection->driver->rollback(connection);
    else
        *ret_done = done;
    return code;
}
