/*
 * statement.c - the statements of the PostgreSQL dialect. Owns their text; must not know
 * connections.
 *
 * Clock: clock_timestamp() is the time at which it is evaluated. In a transaction now() stands
 * still at its start, which may lie before the request was made. Where an update had to wait for a
 * row, PostgreSQL evaluates its condition and its values again when it has the row; so the lease
 * that is recorded begins after the request was sent, and ends no earlier than the client believes.
 * An expression is set up anew for every request, function by function, which is most of what a
 * request costs besides its commit: hence no rounding of our own, and floating point up to the
 * column, which holds whole milliseconds.
 */
#include "backend/postgres/statement.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Where the names of the tables go. */
#define TABLE "@"
#define WAITERS "#"
#define MARKS TABLE WAITERS

/* Every function, operator and type is named with its schema. Otherwise a role that may create
 * others in a schema on the user's path could have its own called in their place. An operator that
 * is named so loses its own precedence: hence the parentheses. */
#define OP(operator) " OPERATOR(pg_catalog." operator") "
#define NOW SB_POSTGRES_NOW
#define TTL_AT NOW OP("+") "$3::pg_catalog.float8"
#define TRANSITION_AT NOW OP("+") "$4::pg_catalog.float8"
#define CHANGED_COLUMNS SB_SQL_COLUMNS ", " NOW "::bigint, 0, 0"
#define OF_TERM(column) "CASE WHEN term_version" OP("=") "version THEN " column " ELSE 0 END"
#define COLUMNS                                                                                    \
    SB_SQL_COLUMNS ", " NOW "::bigint, {" OF_TERM("term_fence") ", " OF_TERM("term_since") "|0, "  \
                                                                                           "0}"
#define VERSION_MAX "9223372036854775807"
#define LAST_BUT_ONE "9223372036854775806"
#define NEXT_VERSION "(version" OP("+") "1)"

/* A name that was deleted and comes back begins above every version that it had: sql/tend.c. */
#define NOW_US SB_POSTGRES_NOW_US
#define FREE_ROW TABLE " (" SB_SQL_COLUMNS ") VALUES ($1, '', 0, 0, 0, " NOW_US ")"

/* Nothing shortens a lease of the same owner; where the id does not own the row's times are over
 * anyway. */
#define SET_LEASE(term)                                                                            \
    "UPDATE " TABLE " SET owner_id = $2, acquired_at = " NOW ","                                   \
    " ttl_at = greatest(ttl_at, " TTL_AT "),"                                                      \
    " transition_at = greatest(transition_at, " TRANSITION_AT "),"                                 \
    " version = " NEXT_VERSION term
#define ACQUIRE                                                                                    \
    SET_LEASE("{, term_fence = " NEXT_VERSION ", term_since = " NOW                                \
              ", term_version = " NEXT_VERSION "|}")
#define GUARD                                                                                      \
    SET_LEASE("{, term_version = CASE WHEN term_version" OP("=") "version THEN " NEXT_VERSION      \
                                                                 " ELSE 0 END|}")

/* A release goes through at the last version too; only nobody can acquire any more. In a queue it
 * yields no row: to write one takes as long as to look for waiters. */
#define CLEAR(acquired_at)                                                                         \
    "UPDATE " TABLE " SET owner_id = '', acquired_at = " acquired_at ", ttl_at = 0,"               \
    " transition_at = 0, version = least(version, " LAST_BUT_ONE ")" OP("+") "1"
#define CLEAR_LEASE CLEAR("0")

/* A mutex that may be reserved has a mark in its row: `acquired_at` lies ahead. So an acquire that
 * finds none need not look at the queue, which would cost it a quarter more. The mark says nothing
 * else: one that finds it looks at the queue. It is there for longer than any reservation that is
 * made together with it. */
#define RESERVE_MAX "1000"
#define MARKED NOW OP("+") "(" RESERVE_MAX OP("+") "100)"
#define CLEAR_AND_MARK CLEAR(MARKED)

#define IS_MUTEX "mutex" OP("=") "$1"
/* By its bytes: the column's collation may take two ids for one. */
#define IS_OWNER "owner_id COLLATE pg_catalog.\"C\"" OP("=") "$2"
#define HAS_NEXT_VERSION "version" OP("<") VERSION_MAX
#define MAY_ACQUIRE                                                                                \
    IS_MUTEX " AND (transition_at" OP("<") NOW " OR " IS_OWNER ") AND " HAS_NEXT_VERSION
/* The row of the mutex tells of a reservation, too: see CLEAR_AND_MARK. */
#define MAY_ACQUIRE_AT_ONCE                                                                        \
    IS_MUTEX " AND (greatest(transition_at, acquired_at)" OP("<") NOW " OR " IS_OWNER              \
                                                                      ") AND " HAS_NEXT_VERSION
#define MAY_GUARD                                                                                  \
    IS_MUTEX " AND " IS_OWNER " AND transition_at" OP(">") NOW " AND " HAS_NEXT_VERSION
#define MAY_RELEASE IS_MUTEX " AND " IS_OWNER " AND version" OP("=") "$3::bigint"

/* ---- The queue: all look-ups are ranges of the index (mutex, reserved_until, since). A bound that
 * the clock gives cannot be one of an index, hence the bound 0 beside it. The collation of the
 * mutex decides on the index: a single waiter is found by the primary key, also by a plan that was
 * made while the table was empty. */

#define OF_MUTEX "w.mutex" OP("=") "$1"
#define OF_ID "w.id" OP("=") "$2"
#define IN_LINE_OF "w.mutex COLLATE pg_catalog.\"C\"" OP("=") "$1"
#define IN_LINE IN_LINE_OF " AND w.reserved_until" OP("=") "0"
/* Between now and two seconds: no reservation is longer than one. What a forged row says beyond
 * that is none. */
#define LASTS "(pg_catalog.abs(w.reserved_until" OP("-") "(" NOW OP("+") "1000))" OP("<") "1000)"
#define RESERVED IN_LINE_OF " AND w.reserved_until" OP(">") "0 AND " LASTS " AND w.id" OP("<>") "$2"
/* Over for less than five seconds: the waiter may still come, and has its place then. */
#define IS_MISSED                                                                                  \
    "(pg_catalog.abs(w.reserved_until" OP("-") "(" NOW OP("-") "2500))" OP("<=") "2500)"
#define IS_OVER "w.reserved_until" OP(">") "0 AND NOT " LASTS " AND NOT " IS_MISSED
/* A second after its mark or its lease has ended a mutex is reserved for nobody. Otherwise one who
 * may only write rows of the queue could bar it by reservations that end one after the other. */
#define IS_FREE_FOR_LONG "greatest(acquired_at, transition_at)" OP("<") "(" NOW OP("-") "1000)"
#define NOT_RESERVED                                                                               \
    "(" IS_FREE_FOR_LONG " OR NOT EXISTS (SELECT 1 FROM " WAITERS " w WHERE " RESERVED "))"

/* Counted up to a bound, see docs/internals/sql.md. */
#define PLACE                                                                                      \
    "(SELECT pg_catalog.count(*) FROM (SELECT 1 FROM " WAITERS " w WHERE " IN_LINE                 \
    " AND w.since" OP("<=") "(SELECT w.since FROM " WAITERS " w WHERE " OF_MUTEX " AND " OF_ID     \
                            " AND w.reserved_until" OP("=") "0) LIMIT 101) p)"
#define RESERVED_UNTIL                                                                             \
    "coalesce((SELECT pg_catalog.max(w.reserved_until) FROM " WAITERS " w WHERE " RESERVED "), 0)"

/* Another transaction has changed this version of the row, or is about to, and has not ended. A row
 * that its writer had locked first names that one twice. The row has the lower half of the number
 * of the transaction, the snapshot has numbers of 64 bits. */
#define SNAPSHOT "pg_catalog.txid_current_snapshot()"
#define FULL_XMAX                                                                                  \
    "(pg_catalog.txid_snapshot_xmax(" SNAPSHOT                                                     \
    ")" OP("&") "-4294967296)" OP("|") "xmax::pg_catalog.text::bigint"
#define IS_CHANGING                                                                                \
    "CASE WHEN xmax" OP("=") "'0'::pg_catalog.xid OR xmax" OP(                                     \
        "=") "xmin THEN false"                                                                     \
             " ELSE NOT pg_catalog.txid_visible_in_snapshot(" FULL_XMAX ", " SNAPSHOT ") END"

/* What the note of a waiter says whose last reservation was over when it came. */
#define LATE "'late'"

/* One that has waited before and was reserved for has its old place: another has overtaken it, or
 * it comes too late. The server may take longer for the commit of each release than a reservation
 * lasts, or messages may: at the end of the queue such a waiter would miss its next one, too, and
 * never own. So the next reservation for one that is late lasts long enough for all but those that
 * hang. One that misses that one as well goes to the end: otherwise it would cost the others a
 * second at each release. A row in the queue is left alone: it costs no commit. */
/* clang-format off */
#define JOIN                                                                                       \
    "INSERT INTO " WAITERS " AS w (mutex, id, since, client, reserved_until, note)"                \
    " SELECT $1::pg_catalog.text, $2::pg_catalog.text, " NOW_US ", $3::pg_catalog.text, 0, ''"     \
    " WHERE NOT EXISTS (SELECT 1 FROM " WAITERS " w WHERE " OF_MUTEX " AND " OF_ID                 \
    " AND w.reserved_until" OP("=") "0)"                                                           \
    " AND EXISTS (SELECT 1 FROM " TABLE " WHERE " IS_MUTEX                                         \
    " AND owner_id COLLATE pg_catalog.\"C\"" OP("<>") "$2)"                                        \
    " ON CONFLICT (mutex, id) DO UPDATE SET reserved_until = 0, client = excluded.client,"         \
    " since = CASE WHEN " LASTS " OR (" IS_MISSED " AND w.note" OP("<>") LATE ") THEN w.since"     \
    " ELSE excluded.since END,"                                                                    \
    " note = CASE WHEN " IS_MISSED " THEN " LATE " ELSE w.note END"
/* clang-format on */

#define LEAVE "DELETE FROM " WAITERS " w WHERE " OF_MUTEX " AND " OF_ID

/* A client may have given up a JOIN that the server is about to commit. A DELETE does not see that
 * row, but the primary key keeps this one from being added beside it until it is known what becomes
 * of it. Comes before LEAVE, which deletes either. */
#define AWAIT                                                                                      \
    "INSERT INTO " WAITERS " (mutex, id, since, client, reserved_until, note)"                     \
    " VALUES ($1, $2, 0, '', 1, '') ON CONFLICT DO NOTHING"

#define FORGET                                                                                     \
    "DELETE FROM " WAITERS " w WHERE " OF_MUTEX " AND " OF_ID " AND EXISTS (SELECT 1 FROM " TABLE  \
    " WHERE " IS_MUTEX " AND " IS_OWNER ")"

/* For a mutex that was released without a mark. A row that is locked is about to change: then the
 * mark would be of no use. */
#define OTHERS_WAIT "EXISTS (SELECT 1 FROM " WAITERS " w WHERE " IN_LINE " AND w.id" OP("<>") "$2)"
#define MARK                                                                                       \
    "UPDATE " TABLE " SET acquired_at = " MARKED                                                   \
    " WHERE " FREE_OF_LOCKS(IS_MUTEX " AND transition_at" OP("<") NOW " AND " OTHERS_WAIT)

/* Reservations that are over, and observers whose client is dead. Others may be deleting the same
 * ones. Each is a range of the index, which passes over the queue itself, and is deleted by where
 * it lies: a plan that was made while the table was empty would look for a list of ids in the whole
 * queue. */
#define IS_ONE_OF(condition)                                                                       \
    "w.ctid" OP("=") "ANY(ARRAY(SELECT w.ctid FROM " WAITERS " w WHERE " IN_LINE_OF                \
                     " AND " condition " LIMIT 100 FOR UPDATE SKIP LOCKED))"
#define IS_GONE "w.reserved_until" OP("<") "0 AND w.reserved_until" OP(">") "(0" OP("-") NOW ")"
#define DELETE_ALL(condition) "DELETE FROM " WAITERS " w WHERE " IS_ONE_OF(condition)
#define CLEAN "WITH past AS (" DELETE_ALL(IS_OVER) ") " DELETE_ALL(IS_GONE)

/* A forged row may name what is no channel: the server would refuse the notice, and with it the
 * release. The waiter counts as dead. */
#define CAN_BE_TOLD                                                                                \
    "pg_catalog.octet_length(l.client)" OP(">") "0 AND pg_catalog.octet_length(l.client)" OP(      \
        "<") "64 AND pg_catalog.octet_length(l.id)" OP("<") "1000"

#define RESERVE_MS                                                                                 \
    "CASE WHEN w.note" OP("=") LATE " AND $3::bigint" OP(">") "0 THEN " RESERVE_MAX                \
                                                              " ELSE $3::bigint END"

/* The first one leaves the queue also where nothing is reserved: a dead one is woken once. A waiter
 * whose row is locked is about to leave, or to win. It is passed over, so that two clients
 * that hand on never wait for each other.
 *
 * The one that is told of the reservation comes if the first does not. So it is one of another
 * client, if such a one is near: the waiters of a process that was killed are all dead. */
/* clang-format off */
#define TELL_CLIENT(kind, id)                                                                      \
    "pg_catalog.pg_notify(l.client::pg_catalog.text, " kind OP("||") "$1" OP("||") "E'\\n'" OP(    \
        "||") id ")"
#define FIRST_IN_LINE                                                                              \
    "SELECT w.id FROM " WAITERS " w WHERE " IN_LINE " AND w.id" OP("<>") "$2"                      \
    " AND EXISTS (SELECT 1 FROM " TABLE " WHERE " IS_MUTEX " AND transition_at" OP("<") NOW ")"    \
    " AND NOT EXISTS (SELECT FROM held) ORDER BY w.since LIMIT 1 FOR UPDATE OF w SKIP LOCKED"
#define NEXT_CLIENT                                                                                \
    "SELECT 's', n.id, n.client FROM (SELECT w.id, w.client FROM " WAITERS " w WHERE " IN_LINE     \
    " AND w.since" OP(">=") "(SELECT since FROM first) AND w.id" OP("<>") "$2"                     \
    " ORDER BY w.since LIMIT 16) n WHERE n.client" OP("<>") "(SELECT client FROM first)"           \
    " LIMIT CASE WHEN $3::bigint" OP(">") "0 THEN 1 ELSE 0 END"
/* The last one, in case the first two hang. In a crowd, of more than 16 behind the first, once in
 * the length of a reservation, by the first release of each such span of the clock: otherwise each
 * release would cost it an attempt in vain. */
#define IS_CROWD                                                                                   \
    "EXISTS (SELECT 1 FROM " WAITERS " w WHERE " IN_LINE                                           \
    " AND w.since" OP(">") "(SELECT since FROM first) ORDER BY w.since LIMIT 1 OFFSET 16)"
#define SPAN_OF(time) "pg_catalog.floor(" time OP("/") "$3::pg_catalog.float8)"
#define LAST_IN_LINE                                                                               \
    "SELECT 'l', n.id, n.client FROM (SELECT w.id, w.client FROM " WAITERS " w WHERE " IN_LINE     \
    " AND w.since" OP(">") "(SELECT since FROM first) AND w.id" OP("<>") "$2"                      \
    " ORDER BY w.since DESC LIMIT 1) n WHERE CASE WHEN $3::bigint" OP("=") "0 THEN false"          \
    " WHEN " IS_CROWD " THEN EXISTS (SELECT 1 FROM " TABLE " WHERE " IS_MUTEX " AND "              \
    SPAN_OF("{term_since|0}") OP("<>") SPAN_OF(NOW) ") ELSE true END"
#define OBSERVERS                                                                                  \
    "SELECT pg_catalog.count(" TELL_CLIENT("'c'", "''") ") FROM " WAITERS " l"                     \
    " WHERE l.mutex COLLATE pg_catalog.\"C\"" OP("=") "$1 AND l.reserved_until" OP("<") "0"        \
    " AND l.reserved_until" OP("<") "(0" OP("-") NOW ") AND " CAN_BE_TOLD
#define HAND_ON                                                                                    \
    "WITH held AS MATERIALIZED (SELECT 1 FROM " WAITERS " w WHERE " RESERVED " LIMIT 1),"          \
    " first AS (UPDATE " WAITERS " w SET reserved_until = " NOW OP("+") "(" RESERVE_MS ")"         \
    " WHERE " OF_MUTEX " AND w.id" OP("=") "(" FIRST_IN_LINE ")"                                   \
    " RETURNING w.id, w.client, w.since),"                                                         \
    " line AS (SELECT 'r' AS kind, id, client FROM first UNION ALL (" NEXT_CLIENT ")"              \
    " UNION ALL (" LAST_IN_LINE "))"                                                               \
    " SELECT pg_catalog.count(" TELL_CLIENT("l.kind", "l.id::pg_catalog.text") "), (" OBSERVERS    \
    "), EXISTS (SELECT FROM held) FROM line l WHERE " CAN_BE_TOLD

/* Reservations that another has overtaken: their waiters are in the queue again, in their old
 * places. A waiter whose row is locked is about to enter the queue itself, or to leave. */
#define RESTORE                                                                                    \
    "UPDATE " WAITERS " w SET reserved_until = 0 WHERE " IS_ONE_OF(                                \
        "w.reserved_until" OP(">") "0 AND " LASTS " AND w.id" OP("<>") "$2")

#define NEXT                                                                                       \
    "SELECT coalesce(r.id, ''), coalesce(r.client, ''), coalesce(f.id, ''),"                       \
    " coalesce(f.client, '') FROM (SELECT) one"                                                    \
    " LEFT JOIN (SELECT w.id, w.client FROM " WAITERS " w WHERE " RESERVED " LIMIT 1) r ON true"   \
    " LEFT JOIN (SELECT w.id, w.client FROM " WAITERS " w WHERE " IN_LINE                          \
    " ORDER BY w.since LIMIT 1) f ON true"

/* With the observers whose client is dead. */
#define WATCH                                                                                      \
    "WITH gone AS (DELETE FROM " WAITERS " w WHERE " IN_LINE_OF " AND " IS_GONE                    \
    " AND w.id" OP("<>") "$2)"                                                                     \
    " INSERT INTO " WAITERS " AS w (mutex, id, since, client, reserved_until, note)"               \
    " VALUES ($1, $2, " NOW_US ", $3, 0" OP("-") "(" NOW OP("+") "$4::pg_catalog.float8), '')"     \
    " ON CONFLICT (mutex, id) DO UPDATE SET reserved_until = excluded.reserved_until"
/* clang-format on */

#define QUEUE                                                                                      \
    "SELECT w.mutex, w.id, w.since" OP("/") "1000, 0, 0, 0, " NOW "::bigint, 0, 0 FROM " WAITERS   \
                                            " w WHERE " IN_LINE " ORDER BY w.since"

#define FREE_OF_LOCKS(condition)                                                                   \
    "mutex" OP("=") "(SELECT mutex FROM " TABLE " WHERE " condition " FOR UPDATE SKIP LOCKED)"

/* In a statement of its own: the lock on the table is waited for before any part of a statement
 * runs. With it goes the path on which names are looked up, for the sake of what the table's
 * triggers call. */
#define LIMIT(wait, only_here)                                                                     \
    "SELECT pg_catalog.set_config('lock_timeout', '" wait "', " only_here "),"                     \
    " pg_catalog.set_config('search_path', '', " only_here ")"
#define WAIT "100ms"

/* In which each statement sees what was committed before it: a release sees all waiters. */
#define READ_COMMITTED                                                                             \
    "pg_catalog.set_config('default_transaction_isolation', 'read committed', false)"

/* What is looked up does not depend on the values, and to plan takes as long as all the rest. A
 * plan that was made while the table of waiters was empty is good for thousands of rows, too. */
#define PLAN_ONCE                                                                                  \
    "pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', false),"                       \
    " pg_catalog.set_config('enable_seqscan', 'off', false)"

#define TELL                                                                                       \
    ", pg_catalog.pg_notify('" SB_POSTGRES_CHANNEL "'::pg_catalog.text, mutex::pg_catalog.text)"

struct statement {
    const char *name;
    const char *text;
};

static const struct statement statements[SB_POSTGRES_STATEMENTS] = {
    [SB_SQL_INSERT] = {"simba_insert", "INSERT INTO " FREE_ROW},
    [SB_SQL_INSERT_IF_MISSING] = {"simba_insert_if_missing",
                                  "INSERT INTO " FREE_ROW " ON CONFLICT DO NOTHING"},
    [SB_SQL_SELECT] = {"simba_select", "SELECT " COLUMNS " FROM " TABLE " WHERE " IS_MUTEX},
    [SB_SQL_SELECT_ALL] = {"simba_select_all", "SELECT " COLUMNS " FROM " TABLE " ORDER BY mutex"},
    [SB_SQL_ACQUIRE] = {"simba_acquire",
                        ACQUIRE " WHERE " MAY_ACQUIRE " RETURNING " CHANGED_COLUMNS},
    [SB_SQL_GUARD] = {"simba_guard", GUARD " WHERE " MAY_GUARD " RETURNING " CHANGED_COLUMNS},
    [SB_SQL_RELEASE] = {"simba_release",
                        CLEAR_LEASE " WHERE " MAY_RELEASE " RETURNING " CHANGED_COLUMNS TELL},
    [SB_POSTGRES_ACQUIRE_FREE] = {"simba_acquire_free",
                                  ACQUIRE " WHERE " FREE_OF_LOCKS(
                                      MAY_ACQUIRE) " RETURNING " CHANGED_COLUMNS},
    [SB_POSTGRES_GUARD_FREE] = {"simba_guard_free", GUARD
                                " WHERE " FREE_OF_LOCKS(MAY_GUARD) " RETURNING " CHANGED_COLUMNS},
    [SB_POSTGRES_RELEASE_FREE] = {"simba_release_free",
                                  CLEAR_LEASE " WHERE " FREE_OF_LOCKS(
                                      MAY_RELEASE) " RETURNING " CHANGED_COLUMNS TELL},
    [SB_SQL_SELECT_PLACE] = {"simba_place", "SELECT " COLUMNS ", " PLACE ", " RESERVED_UNTIL
                                            ", " IS_CHANGING " FROM " TABLE " WHERE " IS_MUTEX},
    [SB_SQL_JOIN] = {"simba_join", JOIN},
    [SB_SQL_LEAVE] = {"simba_leave", LEAVE},
    [SB_SQL_WATCH] = {"simba_watch", WATCH},
    [SB_SQL_QUEUE] = {"simba_queue", QUEUE},
    [SB_POSTGRES_ACQUIRE_FAIR] = {"simba_acquire_fair",
                                  ACQUIRE " WHERE " MAY_ACQUIRE " AND " NOT_RESERVED
                                          " RETURNING " CHANGED_COLUMNS},
    [SB_POSTGRES_ACQUIRE_FAIR_FREE] = {"simba_acquire_fair_free",
                                       ACQUIRE " WHERE " FREE_OF_LOCKS(
                                           MAY_ACQUIRE
                                           " AND " NOT_RESERVED) " RETURNING " CHANGED_COLUMNS},
    [SB_POSTGRES_ACQUIRE_AT_ONCE] = {"simba_acquire_at_once", ACQUIRE
                                     " WHERE " MAY_ACQUIRE_AT_ONCE " RETURNING " CHANGED_COLUMNS},
    [SB_POSTGRES_RELEASE_QUIET] = {"simba_release_quiet", CLEAR_LEASE " WHERE " MAY_RELEASE},
    [SB_POSTGRES_RELEASE_QUIET_FREE] = {"simba_release_quiet_free",
                                        CLEAR_LEASE " WHERE " FREE_OF_LOCKS(MAY_RELEASE)},
    [SB_POSTGRES_RELEASE_MARKED] = {"simba_release_marked", CLEAR_AND_MARK " WHERE " MAY_RELEASE},
    [SB_POSTGRES_RELEASE_MARKED_FREE] = {"simba_release_marked_free",
                                         CLEAR_AND_MARK " WHERE " FREE_OF_LOCKS(MAY_RELEASE)},
    [SB_POSTGRES_LOOK] = {"simba_look", "SELECT 1 FROM " WAITERS " w WHERE " IN_LINE_OF " LIMIT 1"},
    [SB_POSTGRES_FORGET] = {"simba_forget", FORGET},
    [SB_POSTGRES_AWAIT] = {"simba_await", AWAIT},
    [SB_POSTGRES_MARK] = {"simba_mark", MARK},
    [SB_POSTGRES_CLEAN] = {"simba_clean", CLEAN},
    [SB_POSTGRES_HAND_ON] = {"simba_hand_on", HAND_ON},
    [SB_POSTGRES_RESTORE] = {"simba_restore", RESTORE},
    [SB_POSTGRES_NEXT] = {"simba_next", NEXT},
    [SB_POSTGRES_LIMIT_WAIT] = {"simba_limit_wait", LIMIT(WAIT, "true")},
    [SB_POSTGRES_LIMIT_WAIT_MORE] = {"simba_limit_wait_more", LIMIT("10ms", "true")},
    [SB_POSTGRES_COMMIT_ASYNC] =
        {"simba_commit_async", "SELECT pg_catalog.set_config('synchronous_commit', 'off', true)"},
};

/* With the point behind it; 0: there is none. */
static int schema_length(const char *table)
{
    const char *point = strrchr(table, '.');

    return point != NULL ? (int)(point - table) + 1 : 0;
}

void sb_postgres_statement_text(int statement, const char *table, bool has_terms,
                                char ret_text[SB_POSTGRES_TEXT_MAX])
{
    char variant[SB_POSTGRES_TEXT_MAX];
    const char *from = variant;
    struct sb_text text;

    sb_text_init(&text, variant, sizeof variant);
    sb_sql_write_variant(&text, statements[statement].text, has_terms);
    SB_CHECK(!text.cut, "a statement fits into its buffer");

    sb_text_init(&text, ret_text, SB_POSTGRES_TEXT_MAX);
    for (;;) {
        size_t length = strcspn(from, MARKS);

        sb_text_add(&text, "%.*s", (int)length, from);
        if (from[length] == '\0')
            break;
        if (from[length] == TABLE[0])
            sb_text_add(&text, "%s", table);
        else
            sb_text_add(&text, "%.*s" SB_POSTGRES_WAITERS, schema_length(table), table);
        from += length + 1;
    }
    SB_CHECK(!text.cut, "a statement fits into its buffer");
}

/* A pooled session may hold what another version of the library, or a client of another schema, has
 * prepared: the name tells the text. */
void sb_postgres_statement_name(int statement, const char *table, bool has_terms,
                                char ret_name[SB_POSTGRES_NAME_MAX])
{
    char sql[SB_POSTGRES_TEXT_MAX];
    struct sb_text text;

    sb_postgres_statement_text(statement, table, has_terms, sql);
    sb_text_init(&text, ret_name, SB_POSTGRES_NAME_MAX);
    sb_text_add(&text, "%s_%08" PRIx32, statements[statement].name, sb_hash(sql));
}

/* To the server 0 is no limit. */
void sb_postgres_limit_transaction(int64_t wait_ms, char ret_text[SB_POSTGRES_LIMIT_TEXT_MAX])
{
    struct sb_text text;
    int64_t limit_ms = wait_ms < 1 ? 1 : wait_ms < INT_MAX ? wait_ms : INT_MAX;

    sb_text_init(&text, ret_text, SB_POSTGRES_LIMIT_TEXT_MAX);
    sb_text_add(&text, LIMIT("%" PRId64 "ms", "true"), limit_ms);
}

void sb_postgres_limit_session(int pid, char ret_text[SB_POSTGRES_LIMIT_TEXT_MAX])
{
    struct sb_text text;

    sb_text_init(&text, ret_text, SB_POSTGRES_LIMIT_TEXT_MAX);
    sb_text_add(&text,
                LIMIT(WAIT, "false") ", " READ_COMMITTED ", " PLAN_ONCE
                                     " WHERE pg_catalog.pg_backend_pid()" OP("=") "%d",
                pid);
}

bool sb_postgres_needs_queue(int statement)
{
    return (statement >= SB_SQL_SELECT_PLACE && statement < SB_SQL_STATEMENTS) ||
           (statement >= SB_POSTGRES_ACQUIRE_FAIR && statement < SB_POSTGRES_LIMIT_WAIT);
}

int sb_postgres_free_statement(int statement)
{
    switch (statement) {
    case SB_POSTGRES_ACQUIRE_AT_ONCE:
    case SB_POSTGRES_ACQUIRE_FAIR:
        return SB_POSTGRES_ACQUIRE_FAIR_FREE;
    case SB_POSTGRES_RELEASE_QUIET:
        return SB_POSTGRES_RELEASE_QUIET_FREE;
    case SB_POSTGRES_RELEASE_MARKED:
        return SB_POSTGRES_RELEASE_MARKED_FREE;
    case SB_SQL_ACQUIRE:
        return SB_POSTGRES_ACQUIRE_FREE;
    case SB_SQL_GUARD:
        return SB_POSTGRES_GUARD_FREE;
    case SB_SQL_RELEASE:
        return SB_POSTGRES_RELEASE_FREE;
    default:
        return statement;
    }
}

bool sb_postgres_writes(int statement)
{
    return statement != SB_SQL_SELECT && statement != SB_SQL_SELECT_ALL &&
           statement != SB_SQL_SELECT_PLACE && statement != SB_SQL_QUEUE &&
           statement != SB_POSTGRES_LOOK && statement != SB_POSTGRES_NEXT &&
           statement < SB_POSTGRES_LIMIT_WAIT;
}

/* Behind those of every record: */
enum { COLUMN_PLACE = SB_SQL_COLUMN_SINCE + 1, COLUMN_RESERVED_UNTIL, COLUMN_CHANGING };

unsigned char sb_postgres_columns(int statement)
{
    switch (statement) {
    case SB_SQL_INSERT:
    case SB_SQL_INSERT_IF_MISSING:
    case SB_SQL_JOIN:
    case SB_SQL_LEAVE:
    case SB_SQL_WATCH:
    case SB_POSTGRES_RELEASE_QUIET:
    case SB_POSTGRES_RELEASE_QUIET_FREE:
    case SB_POSTGRES_RELEASE_MARKED:
    case SB_POSTGRES_RELEASE_MARKED_FREE:
    case SB_POSTGRES_FORGET:
    case SB_POSTGRES_AWAIT:
    case SB_POSTGRES_MARK:
    case SB_POSTGRES_CLEAN:
    case SB_POSTGRES_RESTORE:
        return 0;
    case SB_POSTGRES_HAND_ON:
        return SB_POSTGRES_HAND_ON_COLUMNS;
    case SB_POSTGRES_NEXT:
        return SB_POSTGRES_NEXT_COLUMNS;
    case SB_POSTGRES_LOOK:
    case SB_POSTGRES_COMMIT_ASYNC:
        return 1;
    case SB_SQL_SELECT_PLACE:
        return COLUMN_CHANGING + 1;
    case SB_POSTGRES_LIMIT_WAIT:
    case SB_POSTGRES_LIMIT_WAIT_MORE:
        return 2;
    default:
        return SB_SQL_COLUMN_SINCE + 1;
    }
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static void bind_text(struct sb_postgres_parameters *p, const char *text)
{
    p->values[p->count++] = text;
}

/* Written from its end. printf would take as long as all the rest of the binding. */
static void bind_number(struct sb_postgres_parameters *p, uint64_t number)
{
    char *digit = p->numbers[p->count] + SB_POSTGRES_NUMBER_MAX - 1;

    *digit = '\0';
    do {
        *--digit = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    p->values[p->count++] = digit;
}

void sb_postgres_bind(int statement, const struct sb_sql_values *values,
                      struct sb_postgres_parameters *p)
{
    p->count = 0;
    if (statement >= SB_POSTGRES_LIMIT_WAIT || statement == SB_SQL_SELECT_ALL)
        return;
    bind_text(p, values->mutex);
    switch (statement) {
    case SB_SQL_ACQUIRE:
    case SB_SQL_GUARD:
    case SB_POSTGRES_ACQUIRE_FREE:
    case SB_POSTGRES_GUARD_FREE:
    case SB_POSTGRES_ACQUIRE_FAIR:
    case SB_POSTGRES_ACQUIRE_FAIR_FREE:
    case SB_POSTGRES_ACQUIRE_AT_ONCE:
        bind_text(p, values->id);
        bind_number(p, (uint64_t)values->ttl_ms);
        bind_number(p, (uint64_t)values->lease_ms);
        break;
    case SB_SQL_RELEASE:
    case SB_POSTGRES_RELEASE_FREE:
    case SB_POSTGRES_RELEASE_QUIET:
    case SB_POSTGRES_RELEASE_QUIET_FREE:
    case SB_POSTGRES_RELEASE_MARKED:
    case SB_POSTGRES_RELEASE_MARKED_FREE:
        bind_text(p, values->id);
        bind_number(p, values->version);
        break;
    case SB_SQL_SELECT_PLACE:
    case SB_SQL_LEAVE:
    case SB_POSTGRES_FORGET:
    case SB_POSTGRES_AWAIT:
    case SB_POSTGRES_RESTORE:
    case SB_POSTGRES_NEXT:
    case SB_POSTGRES_MARK:
        bind_text(p, values->id);
        break;
    case SB_SQL_JOIN:
        bind_text(p, values->id);
        bind_text(p, values->client);
        break;
    case SB_SQL_WATCH:
        bind_text(p, values->id);
        bind_text(p, values->client);
        bind_number(p, (uint64_t)values->lease_ms);
        break;
    case SB_POSTGRES_HAND_ON:
        bind_text(p, values->id);
        bind_number(p, (uint64_t)values->reserve_ms);
        break;
    default:
        break;
    }
}

uint64_t sb_postgres_released_version(const struct sb_sql_values *values)
{
    return values->version < INT64_MAX ? values->version + 1 : INT64_MAX;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static int64_t read_number(const PGresult *result, int row, int column)
{
    return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

void sb_postgres_read_record(const PGresult *result, int row, struct sb_sql_record *record)
{
    sb_text_copy(record->mutex, sizeof record->mutex, PQgetvalue(result, row, SB_SQL_COLUMN_MUTEX));
    sb_text_copy(record->owner_id, sizeof record->owner_id,
                 PQgetvalue(result, row, SB_SQL_COLUMN_OWNER_ID));
    record->acquired_at_ms = read_number(result, row, SB_SQL_COLUMN_ACQUIRED_AT);
    record->ttl_at_ms = read_number(result, row, SB_SQL_COLUMN_TTL_AT);
    record->transition_at_ms = read_number(result, row, SB_SQL_COLUMN_TRANSITION_AT);
    record->version = (uint64_t)read_number(result, row, SB_SQL_COLUMN_VERSION);
    record->current_db_at_ms = read_number(result, row, SB_SQL_COLUMN_CURRENT_DB_AT);
    record->fence = (uint64_t)read_number(result, row, SB_SQL_COLUMN_FENCE);
    record->since_ms = read_number(result, row, SB_SQL_COLUMN_SINCE);
    record->place = 0;
    record->reserved_until_ms = 0;
    record->changing = false;
    if (PQnfields(result) <= COLUMN_CHANGING)
        return;
    record->place = read_number(result, row, COLUMN_PLACE);
    record->reserved_until_ms = read_number(result, row, COLUMN_RESERVED_UNTIL);
    record->changing = PQgetvalue(result, row, COLUMN_CHANGING)[0] == 't';
}
