/*
 * limits.c - keeps the schema of a database from running without end, or as what it is not. Must not know statements.
 */
#include "backend/sqlite/limits.h"

#define STEPS 20000 /* of SQLite's machine between two looks at the clock: about a millisecond */
#define VALUE_BYTES 1000000 /* names and ids are far shorter */

void sb_sqlite_start_time(struct sb_sqlite_connection *c)
{
    c->running_since_ms = simba_now_ms();
}

/* Another answer than 0 ends the statement with SQLITE_INTERRUPT, and undoes it. */
static int on_steps(void *connection)
{
    const struct sb_sqlite_connection *c = connection;

    return simba_now_ms() - c->running_since_ms >= c->settings->busy_timeout_ms;
}

/* `inside` names the view or the trigger that a statement has come to. */
static int authorize(void *user, int action, const char *first, const char *second,
                     const char *database, const char *inside)
{
    (void)user;
    (void)action;
    (void)first;
    (void)second;
    (void)database;
    if (inside == NULL)
        return SQLITE_OK;
    return sqlite3_stricmp(inside, "simba_mutex") == 0 || sqlite3_stricmp(inside, "simba_meta") == 0
               ? SQLITE_DENY
               : SQLITE_OK;
}

int sb_sqlite_set_limits(struct sb_sqlite_connection *c)
{
    sb_sqlite_start_time(c);
    sqlite3_limit(c->db, SQLITE_LIMIT_LENGTH, VALUE_BYTES);
    sqlite3_progress_handler(c->db, STEPS, on_steps, c);
    return sqlite3_set_authorizer(c->db, authorize, NULL);
}
