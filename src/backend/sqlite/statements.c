/*
 * statements.c - the statements of the dialect, the SQL functions that they call, and the rows that
 * they yield. Must not know requests, nor how a connection is made.
 */
#include "backend/sqlite/connection.h"

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

#include <string.h>

/* What comes behind the id is a lease, all of it and either the token of the term that it is for or
 * how long a reservation lasts; or the version that is meant; or what else the statement needs. */
enum parameter {
    PARAMETER_MUTEX = 1,
    PARAMETER_ID,
    PARAMETER_TTL,
    PARAMETER_LEASE,
    PARAMETER_LIFE,
    PARAMETER_FENCE,
    PARAMETER_HEEDS = PARAMETER_FENCE,
    PARAMETER_VERSION = PARAMETER_TTL,
    PARAMETER_RESERVE,
    PARAMETER_CLIENT = PARAMETER_TTL,
    PARAMETER_SINCE,
    PARAMETER_LEFT_RESERVE = PARAMETER_TTL
};

/* Behind the columns that all dialects have. */
enum own_column { COLUMN_LIFE = SB_SQL_COLUMN_SINCE + 1, COLUMN_RESERVED_UNTIL, COLUMN_PLACE };

/* A life counts for the version that it was written for. An owner whose life is over owns nothing,
 * whatever its lease says. */
#define LIFE "iif(life_version = version, life, 0)"
#define IS_OVER "simba_is_over(" LIFE ")"
/* Since when the owner owns counts for the term that it was written for. */
#define SINCE "iif(since_fence = fence, since, 0)"
#define CHANGED_COLUMNS SB_SQL_COLUMNS ", simba_now(), fence, " SINCE ", life"
#define COLUMNS                                                                                    \
    "mutex, owner_id, acquired_at, ttl_at, iif(" IS_OVER ", 0, transition_at), version,"           \
    " simba_now(), fence, " SINCE ", " LIFE
#define FLOOR "coalesce((SELECT value FROM simba_meta WHERE name = 'version_floor'), 0)"
#define FREE_ROW "simba_mutex (" SB_SQL_COLUMNS ") VALUES (?1, '', 0, 0, 0, " FLOOR ")"

/* The conditions are judged before anything is set, so that the floor is looked up once. */
#define HAS_NEXT_TERM "simba_next_term(version, " FLOOR ")"
/* Nothing shortens a lease of the same owner. */
#define NO_EARLIER(column, lease)                                                                  \
    column " = max(simba_now() + " lease ", iif(owner_id = ?2, " column ", 0))"
#define SET_LEASE                                                                                  \
    "UPDATE simba_mutex SET owner_id = ?2, acquired_at = simba_now(), " NO_EARLIER(                \
        "ttl_at", "?3") ", " NO_EARLIER("transition_at", "?4") ", life = ?5"
#define CLEAR_LEASE                                                                                \
    "UPDATE simba_mutex SET owner_id = '', acquired_at = 0, ttl_at = 0, transition_at = 0,"        \
    " version = simba_note(version + 1), life = 0, life_version = 0"

/* All that wait since then or before have had their turn. */
#define SERVED "(SELECT served FROM simba_mutex WHERE mutex = ?1)"
#define OTHERS_WAIT                                                                                \
    "EXISTS (SELECT 1 FROM simba_waiter AS w WHERE w.mutex = ?1 AND w.id <> ?2"                    \
    " AND w.since > served)"
#define BY_AGE " ORDER BY w.since, w.id"
#define OWN_SINCE "(SELECT w.since FROM simba_waiter AS w WHERE w.mutex = ?1 AND w.id = ?2)"

/* A waiter that the mutex was reserved for in vain is out of the queue: its `since` is negative
 * until it asks again. Then it has its old place, and the next reservation for it lasts long enough
 * for all but those that hang: the disk may take longer for each commit than a reservation lasts,
 * so at the end of the queue it could be too late again and again, and never own. One that misses
 * that one as well goes to the end: otherwise it would cost the others a second at each release.
 * One that hangs does not ask, and nothing is reserved for it again. */
#define LATE "'late'"
#define RESERVE_LATE_MS "1000"

#define IN_LINE                                                                                    \
    " FROM simba_waiter AS w WHERE w.mutex = ?1 AND w.since > served AND w.id <> ?2"               \
    " AND NOT simba_is_gone(w.client)"
/* Notes the first two waiters that are not known to be dead; always true. */
#define FINDS_NEXT                                                                                 \
    "(queued = 0 OR (SELECT count(simba_next(n.id, n.client, n.since, n.note = " LATE "))"         \
    " FROM (SELECT w.id, w.client, w.since, w.note" IN_LINE BY_AGE " LIMIT 2) AS n) >= 0)"

/* The same of the last one. In a crowd, of more than 16 behind the first, once in the length of a
 * reservation, by the first release of each such span of the clock: otherwise each release would
 * cost it an attempt in vain. */
#define IS_CROWD                                                                                   \
    "EXISTS (SELECT 1 FROM simba_waiter AS w WHERE w.mutex = ?1 AND w.since > served"              \
    " ORDER BY w.since LIMIT 1 OFFSET 17)"
#define BEGAN_EARLIER(reserve) "simba_now() / " reserve " <> " SINCE " / " reserve
#define MAY_TELL_LAST(reserve) reserve " > 0 AND (" BEGAN_EARLIER(reserve) " OR NOT " IS_CROWD ")"
#define LAST "(SELECT w.id, w.client" IN_LINE " ORDER BY w.since DESC, w.id DESC LIMIT 1)"
#define NOTES_LAST "(SELECT count(simba_last(n.id, n.client)) FROM " LAST " AS n) >= 0"
#define FINDS_LAST(condition)                                                                      \
    "(simba_next_count() < 2 OR (" condition ") IS NOT TRUE OR " NOTES_LAST ")"
#define RESERVE(reserve)                                                                           \
    "queued = simba_next_count() > 0,"                                                             \
    " reserved_for = iif(" reserve " > 0, simba_first(), ''),"                                     \
    " reserved_until = iif(simba_next_count() > 0 AND " reserve " > 0,"                            \
    " simba_now() + iif(simba_first_is_late(), " RESERVE_LATE_MS ", " reserve "), 0),"             \
    " reserved_since = simba_first_since()"

/* Counted up to a bound: to count a thousand would take longer than all else that an acquire
 * does. */
#define PLACE                                                                                      \
    "coalesce((SELECT 1 + (SELECT count(*) FROM (SELECT 1 FROM simba_waiter AS w"                  \
    " WHERE w.mutex = ?1 AND w.since > served AND w.since < own.since LIMIT 100))"                 \
    " FROM simba_waiter AS own WHERE own.mutex = ?1 AND own.id = ?2 AND own.since > served), 0)"

#define ACQUIRE                                                                                    \
    SET_LEASE ", version = simba_term(), fence = simba_term(), since = simba_now(),"               \
              " since_fence = simba_term(), life_version = simba_term()"
#define IS_FREE "(transition_at < simba_now() OR owner_id = ?2 OR " IS_OVER ")"
#define IS_FOR_OTHERS "(reserved_until > simba_now() AND reserved_for NOT IN ('', ?2))"

/* An ACQUIRE that nobody waits for, and every RELEASE, is one statement. */
static const char *const statement_texts[SB_SQLITE_STATEMENTS] = {
    [SB_SQL_INSERT] = "INSERT INTO " FREE_ROW,
    [SB_SQL_INSERT_IF_MISSING] = "INSERT OR IGNORE INTO " FREE_ROW,
    [SB_SQL_SELECT] = "SELECT " COLUMNS " FROM simba_mutex WHERE mutex = ?1",
    [SB_SQL_SELECT_ALL] = "SELECT " COLUMNS " FROM simba_mutex ORDER BY mutex",
    [SB_SQL_ACQUIRE] =
        ACQUIRE " WHERE mutex = ?1 AND " IS_FREE " AND queued = 0 AND " HAS_NEXT_TERM,
    [SB_SQL_GUARD] = SET_LEASE ", version = version + 1, life_version = version + 1"
                               " WHERE mutex = ?1 AND owner_id = ?2 AND transition_at > simba_now()"
                               " AND ?6 IN (0, fence) RETURNING " CHANGED_COLUMNS,
    [SB_SQL_RELEASE] = CLEAR_LEASE ", " RESERVE("?4") " WHERE mutex = ?1 AND owner_id = ?2"
                                                      " AND version = ?3 AND " FINDS_NEXT
                                                      " AND " FINDS_LAST(MAY_TELL_LAST("?4")),
    [SB_SQL_SELECT_PLACE] = "SELECT " COLUMNS ", iif(" IS_FOR_OTHERS ", reserved_until, 0),"
                            " iif(queued, " PLACE ", 0) FROM simba_mutex WHERE mutex = ?1",
    [SB_SQL_JOIN] = "INSERT INTO simba_waiter (mutex, id, client, since) VALUES (?1, ?2, ?3,"
                    " max(?4, 1 + coalesce((SELECT max(w.since) FROM simba_waiter AS w"
                    " WHERE w.mutex = ?1), 0), 1 + coalesce(" SERVED ", 0)))"
                    " ON CONFLICT (mutex, id) DO UPDATE SET client = excluded.client,"
                    " since = iif(since < 0, excluded.since, since)"
                    " WHERE since < 0 OR client <> excluded.client",
    [SB_SQL_LEAVE] = "DELETE FROM simba_waiter WHERE mutex = ?1 AND id = ?2",
    [SB_SQL_QUEUE] = "SELECT mutex, id, since / 1000, 0, 0, 0, simba_now(), 0, 0"
                     " FROM simba_waiter AS w WHERE w.mutex = ?1 AND w.since > " SERVED
                     " AND NOT simba_is_gone(client)" BY_AGE,
    [SB_SQLITE_ACQUIRE_QUEUED] =
        ACQUIRE ", queued = " OTHERS_WAIT ", reserved_for = '', reserved_until = 0"
                " WHERE mutex = ?1 AND " IS_FREE " AND (?6 = 0 OR NOT " IS_FOR_OTHERS
                ") AND simba_lapse(iif(reserved_until <= simba_now(), reserved_for, ''))"
                " AND " HAS_NEXT_TERM,
    [SB_SQLITE_ACQUIRE_RESERVED] =
        ACQUIRE ", served = reserved_since, reserved_for = '', reserved_until = 0"
                " WHERE mutex = ?1 AND " IS_FREE " AND reserved_for = ?2"
                " AND reserved_since > served AND " HAS_NEXT_TERM,
    [SB_SQLITE_DELETE_SERVED] = "DELETE FROM simba_waiter WHERE mutex = ?1 AND since <= " SERVED
                                " AND (since >= 0 OR simba_is_gone(client))",
    [SB_SQLITE_LAPSE] = "UPDATE simba_waiter SET since = -since"
                        " WHERE mutex = ?1 AND id = ?2 AND since > 0",
    [SB_SQLITE_LAPSE_FIRST] =
        "UPDATE simba_waiter SET since = -since WHERE mutex = ?1 AND since > 0"
        " AND id = (SELECT m.reserved_for FROM simba_mutex AS m WHERE m.mutex = ?1"
        " AND m.transition_at < simba_now() AND m.reserved_until <= simba_now())",
    [SB_SQLITE_COME_BACK] = "UPDATE simba_waiter SET since = -since, note = " LATE
                            " WHERE mutex = ?1 AND id = ?2 AND since < 0 AND note <> " LATE,
    [SB_SQLITE_MAKE_ROOM] =
        "UPDATE simba_mutex SET served = min(served, " OWN_SINCE " - 1),"
        " reserved_since = iif(reserved_since > " OWN_SINCE ", 0, reserved_since)"
        " WHERE mutex = ?1",
    [SB_SQLITE_HAND_ON] =
        "UPDATE simba_mutex SET " RESERVE("?3") " WHERE mutex = ?1"
                                                " AND (transition_at < simba_now() OR " IS_OVER
                                                ") AND NOT " IS_FOR_OTHERS " AND " FINDS_NEXT
                                                " AND " FINDS_LAST("?3 > 0"),
    [SB_SQLITE_SET_QUEUED] =
        "UPDATE simba_mutex SET queued = 1 - queued WHERE mutex = ?1 AND queued <>"
        " EXISTS (SELECT 1 FROM simba_waiter AS w WHERE w.mutex = ?1 AND w.since > served)",
    [SB_SQLITE_DELETE_GONE] = "DELETE FROM simba_waiter WHERE mutex = ?1 AND simba_is_gone(client)",
};

/* ---- SQL functions --------------------------------------------------------------------------- */

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

/* simba_is_gone(client): the same of a waiter, by the life in its address. */
static void tell_gone(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    struct sb_sqlite_connection *c = sqlite3_user_data(context);
    const unsigned char *client = sqlite3_value_text(arguments[0]);
    struct sb_sqlite_address address =
        sb_sqlite_address_read(client != NULL ? (const char *)client : "");
    bool gone = sb_sqlite_liveness_ask(&c->probe, address.life) == SB_SQLITE_DEAD;

    (void)count;
    c->met_gone = c->met_gone || gone;
    sqlite3_result_int(context, gone);
}

/* simba_next(id, client, since, is_late): notes a waiter, the first ones of the queue in their
 * order. */
static void note_next(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    struct sb_sqlite_connection *c = sqlite3_user_data(context);
    const unsigned char *id = sqlite3_value_text(arguments[0]);
    const unsigned char *client = sqlite3_value_text(arguments[1]);
    struct sb_sql_waiter *next;

    (void)count;
    sqlite3_result_int(context, 1);
    if (c->next_count == SB_SQL_LAST || id == NULL || client == NULL)
        return;
    if (c->next_count == 0) {
        c->first_since = sqlite3_value_int64(arguments[2]);
        c->first_is_late = sqlite3_value_int(arguments[3]) != 0;
    }
    next = &c->next[c->next_count++];
    sb_text_copy(next->id, sizeof next->id, (const char *)id);
    sb_text_copy(next->client, sizeof next->client, (const char *)client);
}

/* simba_last(id, client): notes the last waiter. */
static void note_last(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    struct sb_sqlite_connection *c = sqlite3_user_data(context);
    struct sb_sql_waiter *last = &c->next[SB_SQL_LAST];
    const unsigned char *id = sqlite3_value_text(arguments[0]);
    const unsigned char *client = sqlite3_value_text(arguments[1]);

    (void)count;
    sb_text_copy(last->id, sizeof last->id, id != NULL ? (const char *)id : "");
    sb_text_copy(last->client, sizeof last->client, client != NULL ? (const char *)client : "");
    sqlite3_result_int(context, 1);
}

/* simba_first(): the id of the first that was noted, '' where there is none. */
static void tell_first(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    const struct sb_sqlite_connection *c = sqlite3_user_data(context);

    (void)count;
    (void)arguments;
    sqlite3_result_text(context, c->next_count > 0 ? c->next[0].id : "", -1, SQLITE_STATIC);
}

/* simba_first_since(): since when that one waits. */
static void tell_first_since(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    const struct sb_sqlite_connection *c = sqlite3_user_data(context);

    (void)count;
    (void)arguments;
    sqlite3_result_int64(context, c->next_count > 0 ? c->first_since : 0);
}

/* simba_first_is_late(): whether that one was too late for a reservation before. */
static void tell_first_is_late(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    const struct sb_sqlite_connection *c = sqlite3_user_data(context);

    (void)count;
    (void)arguments;
    sqlite3_result_int(context, c->next_count > 0 && c->first_is_late);
}

/* simba_next_count(): how many were noted, 0 to 2. */
static void tell_next_count(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    const struct sb_sqlite_connection *c = sqlite3_user_data(context);

    (void)count;
    (void)arguments;
    sqlite3_result_int(context, c->next_count);
}

/* simba_lapse(id): notes the waiter whose reservation is over, '' where none is; always true. */
static void note_lapsed(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    struct sb_sqlite_connection *c = sqlite3_user_data(context);
    const unsigned char *id = sqlite3_value_text(arguments[0]);

    (void)count;
    sb_text_copy(c->lapsed, sizeof c->lapsed, id != NULL ? (const char *)id : "");
    sqlite3_result_int(context, 1);
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
    return sqlite3_stricmp(inside, "simba_mutex") == 0 ||
                   sqlite3_stricmp(inside, "simba_meta") == 0 ||
                   sqlite3_stricmp(inside, "simba_waiter") == 0 ||
                   sqlite3_stricmp(inside, "simba_property") == 0
               ? SQLITE_DENY
               : SQLITE_OK;
}

static const struct function {
    const char *name;
    int arguments;
    int flags;
    void (*call)(sqlite3_context *, int, sqlite3_value **);
} functions[] = {
    {"simba_now", 0, SQLITE_DETERMINISTIC, tell_now},
    {"simba_note", 1, 0, take_note},
    {"simba_next_term", 2, 0, find_next_term},
    {"simba_term", 0, 0, tell_term},
    {"simba_is_over", 1, 0, tell_over},
    {"simba_is_gone", 1, 0, tell_gone},
    {"simba_next", 4, 0, note_next},
    {"simba_last", 2, 0, note_last},
    {"simba_first_since", 0, 0, tell_first_since},
    {"simba_first_is_late", 0, 0, tell_first_is_late},
    {"simba_first", 0, 0, tell_first},
    {"simba_next_count", 0, 0, tell_next_count},
    {"simba_lapse", 1, 0, note_lapsed},
};

int sb_sqlite_set_functions(struct sb_sqlite_connection *c)
{
    int rc = SQLITE_OK;

    for (size_t i = 0; i < sizeof functions / sizeof functions[0] && rc == SQLITE_OK; i++)
        rc = sqlite3_create_function(c->db, functions[i].name, functions[i].arguments,
                                     SQLITE_UTF8 | SQLITE_DIRECTONLY | functions[i].flags, c,
                                     functions[i].call, NULL, NULL);
    if (rc != SQLITE_OK)
        return rc;
    sb_sqlite_start_time(c);
    sqlite3_drop_modules(c->db, NULL); /* none of our tables is a virtual one */
    sqlite3_limit(c->db, SQLITE_LIMIT_LENGTH, VALUE_BYTES);
    sqlite3_limit(c->db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_BYTES);
    sqlite3_progress_handler(c->db, STEPS, on_steps, c);
    return sqlite3_set_authorizer(c->db, authorize, NULL);
}

/* ---- Running statements ---------------------------------------------------------------------- */

/* A lease that outlives its client has no life: it ends by the clock. */
static int bind_lease(const struct sb_sqlite_connection *c, sqlite3_stmt *statement,
                      const struct sb_sql_values *values)
{
    struct sb_sqlite_liveness *own_life = values->outlives_client ? NULL : c->settings->life;
    int64_t life = own_life != NULL ? sb_sqlite_liveness_begin(own_life) : 0;
    int rc = sqlite3_bind_int64(statement, PARAMETER_TTL, values->ttl_ms);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(statement, PARAMETER_LEASE, values->lease_ms);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(statement, PARAMETER_LIFE, life);
    return rc;
}

/* The address under which this client is woken, and since when it waits. */
static int bind_waiter(struct sb_sqlite_connection *c, sqlite3_stmt *statement)
{
    const struct sb_sqlite_settings *settings = c->settings;
    struct sb_sqlite_address address = *sb_sqlite_wake_socket_open(settings->wake_socket);
    char client[SB_SQL_CLIENT_MAX + 1];
    int rc;

    address.life = sb_sqlite_liveness_begin(settings->life);
    sb_sqlite_address_write(&address, client);
    rc = sqlite3_bind_text(statement, PARAMETER_CLIENT, client, -1, SQLITE_TRANSIENT);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(statement, PARAMETER_SINCE,
                                sb_clock_us() - c->clock_offset_ms * 1000);
    return rc;
}

static int bind_rest(struct sb_sqlite_connection *c, int which, sqlite3_stmt *statement,
                     const struct sb_sql_values *values)
{
    int rc = SQLITE_OK;

    switch (which) {
    case SB_SQL_ACQUIRE:
    case SB_SQLITE_ACQUIRE_RESERVED:
        return bind_lease(c, statement, values);
    case SB_SQL_GUARD:
        rc = bind_lease(c, statement, values);
        return rc == SQLITE_OK
                   ? sqlite3_bind_int64(statement, PARAMETER_FENCE, (sqlite3_int64)values->fence)
                   : rc;
    case SB_SQLITE_ACQUIRE_QUEUED:
        rc = bind_lease(c, statement, values);
        return rc == SQLITE_OK ? sqlite3_bind_int64(statement, PARAMETER_HEEDS, values->reserve_ms)
                               : rc;
    case SB_SQL_RELEASE:
        rc = sqlite3_bind_int64(statement, PARAMETER_VERSION, (sqlite3_int64)values->version);
        return rc == SQLITE_OK
                   ? sqlite3_bind_int64(statement, PARAMETER_RESERVE, values->reserve_ms)
                   : rc;
    case SB_SQLITE_HAND_ON:
        return sqlite3_bind_int64(statement, PARAMETER_LEFT_RESERVE, values->reserve_ms);
    case SB_SQL_JOIN:
        return bind_waiter(c, statement);
    default:
        return rc;
    }
}

static int bind(struct sb_sqlite_connection *c, int which, sqlite3_stmt *statement,
                const struct sb_sql_values *values)
{
    int count = sqlite3_bind_parameter_count(statement);
    int rc = SQLITE_OK;

    if (count >= PARAMETER_MUTEX)
        rc = sqlite3_bind_text(statement, PARAMETER_MUTEX, values->mutex, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK && count >= PARAMETER_ID)
        rc = sqlite3_bind_text(statement, PARAMETER_ID, values->id, -1, SQLITE_STATIC);
    return rc == SQLITE_OK ? bind_rest(c, which, statement, values) : rc;
}

static void read_text(sqlite3_stmt *statement, enum sb_sql_column column, char *target, size_t size)
{
    const unsigned char *text = sqlite3_column_text(statement, (int)column);

    sb_text_copy(target, size, text != NULL ? (const char *)text : "");
}

/* Another program may have written an owner that we can only show in part, or that is no text: to
 * SQL it differs from every id that looks like it. No valid id has "@@", so no contender takes it
 * for its own. */
static void read_owner(sqlite3_stmt *statement, char owner_id[SIMBA_ID_MAX + 1])
{
    bool is_text = sqlite3_column_type(statement, SB_SQL_COLUMN_OWNER_ID) == SQLITE_TEXT;
    size_t end;

    read_text(statement, SB_SQL_COLUMN_OWNER_ID, owner_id, SIMBA_ID_MAX + 1);
    end = strlen(owner_id);
    if (is_text && end == (size_t)sqlite3_column_bytes(statement, SB_SQL_COLUMN_OWNER_ID))
        return;
    if (end > SIMBA_ID_MAX - 2)
        end = SIMBA_ID_MAX - 2;
    memcpy(owner_id + end, "@@", 3);
}

static void read_record(sqlite3_stmt *statement, struct sb_sql_record *record)
{
    read_text(statement, SB_SQL_COLUMN_MUTEX, record->mutex, sizeof record->mutex);
    read_owner(statement, record->owner_id);
    record->acquired_at_ms = sqlite3_column_int64(statement, SB_SQL_COLUMN_ACQUIRED_AT);
    record->ttl_at_ms = sqlite3_column_int64(statement, SB_SQL_COLUMN_TTL_AT);
    record->transition_at_ms = sqlite3_column_int64(statement, SB_SQL_COLUMN_TRANSITION_AT);
    record->version = (uint64_t)sqlite3_column_int64(statement, SB_SQL_COLUMN_VERSION);
    record->current_db_at_ms = sqlite3_column_int64(statement, SB_SQL_COLUMN_CURRENT_DB_AT);
    record->fence = (uint64_t)sqlite3_column_int64(statement, SB_SQL_COLUMN_FENCE);
    record->since_ms = sqlite3_column_int64(statement, SB_SQL_COLUMN_SINCE);
    record->place = 0;
    record->reserved_until_ms = 0;
    record->changing = false;
    if (sqlite3_column_count(statement) > COLUMN_PLACE) {
        record->reserved_until_ms = sqlite3_column_int64(statement, COLUMN_RESERVED_UNTIL);
        record->place = sqlite3_column_int64(statement, COLUMN_PLACE);
    }
}

/* Tells of an owner that is met. One that is known to be dead is no news: a waiter that was told
 * would ask again, without end. */
static void note_owner(const struct sb_sqlite_connection *c, sqlite3_stmt *statement)
{
    int64_t life = sqlite3_column_int64(statement, COLUMN_LIFE);
    bool over = sqlite3_column_int64(statement, SB_SQL_COLUMN_TRANSITION_AT) == 0;

    if (life != 0 && !over && c->settings->met != NULL)
        c->settings->met(c->settings->user, life);
}

/* Returns what the sink answers. */
static int give_row(struct sb_sqlite_connection *c, const struct sb_sql_record *record,
                    const struct sb_sql_sink *sink)
{
    if (record->version > c->settings->highest_version)
        c->settings->highest_version = record->version;
    return sink->row(sink->user, record);
}

/* What an ACQUIRE or a RELEASE has made of its row, from what it was given. To let it yield the row
 * (RETURNING) would cost a quarter of it. */
static int take_change(struct sb_sqlite_connection *c, bool acquires,
                       const struct sb_sql_values *values, const struct sb_sql_sink *sink)
{
    struct sb_sql_record record = {.version = (uint64_t)c->noted_version};

    if (sink == NULL)
        return SIMBA_OK;
    sb_text_copy(record.mutex, sizeof record.mutex, values->mutex);
    record.current_db_at_ms = c->clock_ms != 0 ? c->clock_ms : sb_sqlite_now_ms(c);
    if (acquires) {
        sb_text_copy(record.owner_id, sizeof record.owner_id, values->id);
        record.acquired_at_ms = c->clock_ms;
        record.ttl_at_ms = c->clock_ms + values->ttl_ms;
        record.transition_at_ms = c->clock_ms + values->lease_ms;
        record.fence = record.version;
    }
    return give_row(c, &record, sink);
}

int sb_sqlite_prepare_once(struct sb_sqlite_connection *c, const char *text,
                           sqlite3_stmt **statement)
{
    if (*statement != NULL)
        return SQLITE_OK;
    return sqlite3_prepare_v3(c->db, text, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
}

int sb_sqlite_run_one(struct sb_sqlite_connection *c, int which, const struct sb_sql_values *values,
                      const struct sb_sql_sink *sink, int64_t *ret_count,
                      struct sb_sql_failure *failure)
{
    bool acquires = which == SB_SQL_ACQUIRE || which == SB_SQLITE_ACQUIRE_QUEUED ||
                    which == SB_SQLITE_ACQUIRE_RESERVED;
    struct sb_sql_record record;
    sqlite3_stmt *statement;
    int64_t rows = 0;
    int code = SIMBA_OK;
    int rc = sb_sqlite_prepare_once(c, statement_texts[which], &c->statements[which]);

    if (rc != SQLITE_OK)
        return sb_sqlite_fail(c, false, failure);
    statement = c->statements[which];
    rc = bind(c, which, statement, values);
    c->clock_ms = 0;
    c->next_count = 0;
    c->next[SB_SQL_LAST].id[0] = '\0';
    c->committing = false;
    c->folder.quiet = false;
    sb_sqlite_start_time(c);
    while (rc == SQLITE_OK && code == SIMBA_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        rows++;
        if (which == SB_SQL_SELECT || which == SB_SQL_SELECT_PLACE)
            note_owner(c, statement);
        if (sink != NULL) {
            read_record(statement, &record);
            code = give_row(c, &record, sink);
        }
        rc = SQLITE_OK;
    }
    if (rc == SQLITE_DONE && (acquires || which == SB_SQL_RELEASE) && sqlite3_changes(c->db) > 0)
        code = take_change(c, acquires, values, sink);
    if (rc != SQLITE_OK && rc != SQLITE_DONE) {
        code = sb_sqlite_fail(c, c->committing, failure);
    } else if (code != SIMBA_OK) {
        failure->remedy = SB_SQL_GIVE_UP;
        sb_error_plain(&failure->error, code);
    } else if (ret_count != NULL) {
        *ret_count = sqlite3_column_count(statement) > 0 ? rows : sqlite3_changes(c->db);
    }
    sqlite3_reset(statement);
    return code;
}
