/*
 * functions.c - the SQL functions of the library, and what keeps the schema of a database from
 * running without end, or as what it is not. Must not know the statements that call them.
 */
#include "backend/sqlite/connection.h"

int64_t sb_sqlite_now_ms(const struct sb_sqlite_connection *c)
{
    return simba_now_ms() - c->clock_offset_ms;
}

/* simba_now(): the same instant wherever one statement asks. Being "deterministic" it is called
 * once for each run of a statement, when that has its lock, and not for each time that it is
 * named. */
static void tell_now(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    struct sb_sqlite_connection *c = sqlite3_user_data(context);

    (void)count;
    (void)arguments;
    if (c->clock_ms == 0)
        c->clock_ms = sb_sqlite_now_ms(c);
    sqlite3_result_int64(context, c->clock_ms);
}

/* simba_note(version): the version that a changed row gets, so that it need not be read back. */
static void take_note(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    struct sb_sqlite_connection *c = sqlite3_user_data(context);

    (void)count;
    c->noted_version = sqlite3_value_int64(arguments[0]);
    sqlite3_result_int64(context, c->noted_version);
}

/* simba_next_term(version, floor): notes the version with which the row's next term begins; false:
 * there is none. */
static void find_next_term(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    struct sb_sqlite_connection *c = sqlite3_user_data(context);
    int64_t version = sqlite3_value_int64(arguments[0]);
    int64_t floor = sqlite3_value_int64(arguments[1]);
    int64_t last = version > floor ? version : floor;

    (void)count;
    if (last < INT64_MAX)
        c->noted_version = last + 1;
    sqlite3_result_int(context, last < INT64_MAX);
}

/* simba_term(): what simba_next_term() has noted. */
static void tell_term(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    const struct sb_sqlite_connection *c = sqlite3_user_data(context);

    (void)count;
    (void)arguments;
    sqlite3_result_int64(context, c->noted_version);
}

/* simba_is_over(life): what the kernel says, asked while the statement has the record. */
static void tell_over(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    struct sb_sqlite_connection *c = sqlite3_user_data(context);
    enum sb_sqlite_liveness_state state =
        sb_sqlite_liveness_ask(&c->probe, sqlite3_value_int64(arguments[0]));

    (void)count;
    sqlite3_result_int(context, state == SB_SQLITE_DEAD);
}

static int add(struct sb_sqlite_connection *c, const char *name, int arguments, int flags,
               void (*function)(sqlite3_context *, int, sqlite3_value **))
{
    return sqlite3_create_function(c->db, name, arguments, SQLITE_UTF8 | SQLITE_DIRECTONLY | flags,
                                   c, function, NULL, NULL);
}

int sb_sqlite_add_functions(struct sb_sqlite_connection *c)
{
    int rc = add(c, "simba_now", 0, SQLITE_DETERMINISTIC, tell_now);

    if (rc == SQLITE_OK)
        rc = add(c, "simba_note", 1, 0, take_note);
    if (rc == SQLITE_OK)
        rc = add(c, "simba_next_term", 2, 0, find_next_term);
    if (rc == SQLITE_OK)
        rc = add(c, "simba_term", 0, 0, tell_term);
    if (rc == SQLITE_OK)
        rc = add(c, "simba_is_over", 1, 0, tell_over);
    return rc;
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* A function counts as one step, however long it takes. With values this short the slowest ones
 * take some 10 ms. */
#define STEPS 500         /* of SQLite's machine between two looks at the clock */
#define VALUE_BYTES 16384 /* names, ids and notes are far shorter */
#define PATTERN_BYTES 64  /* of LIKE and GLOB */

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
    sqlite3_limit(c->db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_BYTES);
    sqlite3_progress_handler(c->db, STEPS, on_steps, c);
    return sqlite3_set_authorizer(c->db, authorize, NULL);
}
