/*
 * statement.c - the statements of the MySQL dialect. Owns their text and parameters; must not know
 * connections.
 *
 * Clock: utc_timestamp(3) is the start of the statement, later than the request, even when the
 * statement then waits for a row. So the lease that is recorded ends no earlier than the client
 * believes; and what is decided by an older time is decided the careful way. Unlike sysdate() it
 * replicates statement by statement, and unlike current_timestamp() it knows no summer time. The
 * JVM library's expression has the same value.
 *
 * Owners are compared byte by byte: to the collation of an existing table "a" and "A" may be one.
 */
#include "backend/mysql/statement.h"

#include "base/check.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define NOW SB_MYSQL_NOW
#define COLUMNS SB_MYSQL_COLUMNS
#define IS_OWNER SB_MYSQL_OWNER " = cast(? AS binary)"
#define INSERT SB_MYSQL_INSERT SB_MYSQL_FREE_ROW

/* last_insert_id() sends the version back with the answer, so that no SELECT has to follow. */
#define SET_LEASE(term)                                                                            \
    "UPDATE simba_mutex SET owner_id = ?, " SB_MYSQL_SET_TIMES term                                \
    ", version = last_insert_id(version + 1)"
#define ACQUIRE SET_LEASE(SB_MYSQL_BEGIN_TERM)

/* A release goes through at the last version, too; after it no contender can acquire. */
#define RELEASED(acquired_at)                                                                      \
    "owner_id = '', acquired_at = " acquired_at ", ttl_at = 0, transition_at = 0, version = ?"
#define CLEAR_LEASE "UPDATE simba_mutex SET " RELEASED("0")

#define MAY_ACQUIRE(is_free) "(" is_free " OR " IS_OWNER ") AND version < ?"
#define IS_FREE SB_MYSQL_IS_FREE
#define MAY_RELEASE "version = ? AND " IS_OWNER

/* ---- The queue. All look-ups are ranges of the index (mutex, reserved_until, since, id). In READ
 * COMMITTED what is only read is not locked. */

#define WAITERS SB_MYSQL_WAITERS
#define BY_ORDER SB_MYSQL_BY_ORDER

/* A table that is updated cannot be read in a condition, but it can be joined. */
#define FIRST(condition)                                                                           \
    " (SELECT x.id FROM " WAITERS " x" BY_ORDER                                                    \
    " WHERE x.mutex = ? AND x.reserved_until = 0" condition                                        \
    " ORDER BY x.since, x.id LIMIT 1) f ON 1 = 1"
#define JOIN_FIRST " LEFT JOIN " WAITERS " w ON w.mutex = ? AND w.id = f.id"

/* With the mark: there may be more in the queue. Without a reservation the first one is called all
 * the same and so leaves the queue: a dead one is called once. */
#define RESERVE_MS "if(w.note = " SB_MYSQL_LATE ", " SB_MYSQL_LATE_MS ", ?)"
#define RESERVED "if(w.id IS NULL, 0, if(? > 0, " NOW " + " RESERVE_MS ", 0) | 1)"
#define CALLED ", w.reserved_until = " NOW " + " RESERVE_MS

/* Counted up to a bound, see docs/internals/sql.md. */
#define PLACE                                                                                      \
    "(SELECT count(*) FROM (SELECT 1 FROM " WAITERS " w" BY_ORDER " WHERE w.mutex = ? AND"         \
    " w.reserved_until = 0 AND w.since <= (SELECT y.since FROM " WAITERS " y WHERE y.mutex = ?"    \
    " AND y.id = ? AND y.reserved_until = 0) LIMIT 101) p)"
#define OWN_RESERVATION                                                                            \
    "coalesce((SELECT w.reserved_until FROM " WAITERS " w WHERE w.mutex = ? AND w.id = ?), 0)"

#define CALLED_MS 300 /* where nothing is reserved */

/* Which value stands for each question mark: (m)utex, (i)d, (t)tl, (l)ease, (v)ersion, the (n)ext
 * version, the last one that the column can hold (x), how long to (r)eserve, how long to (w)ait for
 * the one that is called, the (c)lient. */
struct statement {
    const char *text;
    const char *parameters;
};

static const struct statement statements[SB_MYSQL_STATEMENTS] = {
    [SB_SQL_INSERT] = {INSERT, "m"},
    [SB_SQL_INSERT_IF_MISSING] = {INSERT SB_MYSQL_UNLESS_THERE, "m"},
    [SB_SQL_SELECT] = {"SELECT " COLUMNS " FROM simba_mutex WHERE mutex = ?", "m"},
    [SB_MYSQL_SELECT_LATEST] = {"SELECT " COLUMNS " FROM simba_mutex WHERE mutex = ? FOR UPDATE",
                                "m"},
    [SB_SQL_SELECT_ALL] = {"SELECT " COLUMNS " FROM simba_mutex ORDER BY mutex", ""},
    [SB_SQL_ACQUIRE] = {ACQUIRE " WHERE mutex = ? AND " MAY_ACQUIRE(IS_FREE), "itlmix"},
    [SB_SQL_GUARD] = {SET_LEASE(SB_MYSQL_KEEP_TERM) " WHERE mutex = ? AND " IS_OWNER
                                                    " AND transition_at > " NOW " AND version < ?",
                      "itlmix"},
    [SB_SQL_RELEASE] = {CLEAR_LEASE " WHERE mutex = ? AND " MAY_RELEASE, "nmvi"},

    [SB_SQL_SELECT_PLACE] = {"SELECT " COLUMNS ", " PLACE ", " OWN_RESERVATION
                             " FROM simba_mutex WHERE mutex = ?",
                             "mmimim"},
    [SB_SQL_JOIN] = {SB_MYSQL_JOIN "(?, ?, " SB_MYSQL_NOW_US ", ?, 0, '')" SB_MYSQL_KEEP_PLACE,
                     "mic"},
    [SB_SQL_LEAVE] = {"DELETE FROM " WAITERS " WHERE mutex = ? AND id = ?", "mi"},
    [SB_SQL_QUEUE] = {"SELECT mutex, id, since DIV 1000, 0, 0, 0, " NOW
                      ", 0, 0, @@global.read_only FROM " WAITERS BY_ORDER
                      " WHERE mutex = ? AND reserved_until = 0 ORDER BY since, id",
                      "m"},
    [SB_MYSQL_ACQUIRE_FAIR] = {ACQUIRE
                               " WHERE mutex = ? AND " MAY_ACQUIRE(SB_MYSQL_IS_FREE_FOR_ALL),
                               "itlmix"},
    [SB_MYSQL_ACQUIRE_QUEUED] = {"UPDATE simba_mutex m LEFT JOIN " WAITERS
                                 " w ON w.mutex = ? AND w.id = ?"
                                 " SET owner_id = ?, " SB_MYSQL_SET_LEASE_TIMES
                                 ", acquired_at = " NOW " | 1" SB_MYSQL_BEGIN_TERM
                                 ", version = last_insert_id(version + 1),"
                                 " w.reserved_until = " SB_MYSQL_WON
                                 " WHERE m.mutex = ? AND " MAY_ACQUIRE(
                                     SB_MYSQL_IS_FREE_FOR_ALL
                                     " OR (" IS_FREE " AND (w.reserved_until > " NOW " OR ? = 0))"),
                                 "miitlmrix"},
    [SB_MYSQL_RELEASE_ALONE] = {CLEAR_LEASE " WHERE mutex = ? AND " MAY_RELEASE
                                            " AND " SB_MYSQL_NOT_MARKED,
                                "nmvi"},
    [SB_MYSQL_RELEASE_ON] = {"UPDATE simba_mutex m LEFT JOIN" FIRST(" AND x.id <> ?") JOIN_FIRST
                             " SET " RELEASED(RESERVED) CALLED
                             " WHERE m.mutex = ? AND " MAY_RELEASE,
                             "mimrrnwmvi"},
    [SB_MYSQL_HAND_ON] = {"UPDATE simba_mutex m LEFT JOIN" FIRST("") JOIN_FIRST
                          " LEFT JOIN " WAITERS " r" BY_ORDER " ON r.mutex = ? AND"
                          " r.reserved_until " SB_MYSQL_LASTS
                          " SET m.acquired_at = " RESERVED CALLED
                          " WHERE m.mutex = ? AND m." IS_FREE " AND r.id IS NULL",
                          "mmmrrwm"},
    [SB_MYSQL_MARK] = {"UPDATE simba_mutex SET acquired_at = acquired_at + 1 WHERE mutex = ? AND"
                       " transition_at > " NOW " AND " SB_MYSQL_NOT_MARKED,
                       "m"},
    [SB_MYSQL_NEXT] = {"(SELECT 1" SB_MYSQL_SELECT_NEXT SB_MYSQL_RESERVED
                       ") UNION ALL (SELECT 1" SB_MYSQL_SELECT_NEXT SB_MYSQL_FIRST ")",
                       "mm"},
    [SB_MYSQL_FORGET] = {"DELETE FROM " WAITERS
                         " WHERE mutex = ? AND reserved_until BETWEEN 1 AND " NOW
                         " - 30000 LIMIT 100",
                         "m"},
};

void sb_mysql_statement_text(size_t which, bool has_terms, char ret_text[SB_MYSQL_TEXT_MAX])
{
    struct sb_text text;

    sb_text_init(&text, ret_text, SB_MYSQL_TEXT_MAX);
    if (statements[which].text != NULL)
        sb_sql_write_variant(&text, statements[which].text, has_terms);
    SB_CHECK(!text.cut, "a statement fits into its buffer");
}

bool sb_mysql_writes(size_t which)
{
    switch (which) {
    case SB_SQL_SELECT:
    case SB_SQL_SELECT_ALL:
    case SB_SQL_SELECT_PLACE:
    case SB_SQL_QUEUE:
    case SB_MYSQL_SELECT_LATEST:
    case SB_MYSQL_NEXT:
        return false;
    default:
        return true;
    }
}

bool sb_mysql_updates(size_t which)
{
    switch (which) {
    case SB_SQL_INSERT:
    case SB_SQL_INSERT_IF_MISSING:
    case SB_SQL_JOIN:
    case SB_SQL_LEAVE:
    case SB_MYSQL_FORGET:
        return false;
    default:
        return sb_mysql_writes(which);
    }
}

bool sb_mysql_is_off(const char *read_only)
{
    return strcmp(read_only, "0") == 0 || strcasecmp(read_only, "OFF") == 0;
}

/* As a number every word is 0; to compare all as texts, and to ask for the id, takes the server
 * longer. */
void sb_mysql_write_condition(const char *read_only, const char *server_id,
                              char ret_condition[SB_MYSQL_CONDITION_MAX])
{
    bool is_number = strcmp(read_only, "0") == 0 || strcmp(read_only, "1") == 0;
    struct sb_text text;

    sb_text_init(&text, ret_condition, SB_MYSQL_CONDITION_MAX);
    sb_text_add(&text, " AND (@@global.read_only = %s", is_number ? "0" : "'OFF'");
    if (server_id[0] != '\0')
        sb_text_add(&text, " OR @@global.server_id <> %llu", strtoull(server_id, NULL, 10));
    sb_text_add(&text, ")");
}

uint64_t sb_mysql_next_version(uint64_t version, uint64_t version_max)
{
    return version < version_max ? version + 1 : version;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

void sb_mysql_bind_text(MYSQL_BIND *bind, const char *text)
{
    bind->buffer_type = MYSQL_TYPE_STRING;
    bind->buffer = (void *)(uintptr_t)text;
    bind->buffer_length = strlen(text);
}

void sb_mysql_bind_number(MYSQL_BIND *bind, const void *number)
{
    bind->buffer_type = MYSQL_TYPE_LONGLONG;
    bind->buffer = (void *)(uintptr_t)number;
    bind->is_unsigned = 1; /* none of them is negative */
}

static const void *number_of(char parameter, const struct sb_sql_values *values,
                             const struct sb_mysql_parameters *p)
{
    switch (parameter) {
    case 't':
        return &values->ttl_ms;
    case 'l':
        return &values->lease_ms;
    case 'v':
        return &values->version;
    case 'r':
        return &values->reserve_ms;
    case 'w':
        return &p->called_ms;
    case 'x':
        return &p->version_max;
    default:
        return &p->next_version;
    }
}

void sb_mysql_bind_values(size_t which, const struct sb_sql_values *values, uint64_t version_max,
                          struct sb_mysql_parameters *p)
{
    memset(p, 0, sizeof *p);
    p->version_max = version_max;
    p->called_ms = values->reserve_ms > 0 ? values->reserve_ms : CALLED_MS;
    p->next_version = sb_mysql_next_version(values->version, version_max);
    for (const char *c = statements[which].parameters; *c != '\0'; c++) {
        MYSQL_BIND *bind = &p->binds[p->count++];

        if (*c == 'm')
            sb_mysql_bind_text(bind, values->mutex);
        else if (*c == 'i')
            sb_mysql_bind_text(bind, values->id);
        else if (*c == 'c')
            sb_mysql_bind_text(bind, values->client);
        else
            sb_mysql_bind_number(bind, number_of(*c, values, p));
    }
}

bool sb_mysql_bind_parameters(MYSQL_STMT *statement, MYSQL_BIND *binds, size_t count)
{
    return mysql_stmt_param_count(statement) == count &&
           mysql_stmt_bind_param(statement, binds) == 0;
}
