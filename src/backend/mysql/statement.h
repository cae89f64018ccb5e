/*
 * statement.h - the statements of the MySQL dialect: their text and their parameters.
 */
#ifndef SB_MYSQL_STATEMENT_H
#define SB_MYSQL_STATEMENT_H

#include "backend/sql/driver.h"

#include <mysql.h>

/* Parts that several statements have. */
#define SB_MYSQL_NOW "timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) DIV 1000"
/* The lowest bit of acquired_at is the mark of a mutex that others wait for: see queue.c. */
#define SB_MYSQL_KEEP_MARK                                                                         \
    "acquired_at = timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) DIV 2000 * 2"        \
    " + mod(acquired_at, 2)"
#define SB_MYSQL_NOT_MARKED "mod(acquired_at, 2) = 0"
/* No reservation is longer than a second. What forged rows say beyond two is none. */
#define SB_MYSQL_RESERVED_MAX_MS 2000
#define SB_MYSQL_LASTS "BETWEEN " SB_MYSQL_NOW " + 1 AND " SB_MYSQL_NOW " + 2000"

/* Where nobody owns, acquired_at is the end of a reservation. */
#define SB_MYSQL_IS_FREE "transition_at < " SB_MYSQL_NOW
#define SB_MYSQL_IS_FREE_FOR_ALL SB_MYSQL_IS_FREE " AND acquired_at NOT " SB_MYSQL_LASTS
/* The times of a lease, of one instant each. A statement that has waited knows an older time than
 * the row: it must not shorten a lease that was granted since; and where the id does not own, the
 * row's times are over anyway. In its own assignment a column stands for its old value. In the next
 * ones that depends on the mode, and a lease must not: so the clock is asked each time. */
#define SB_MYSQL_SET_LEASE_TIMES                                                                   \
    "ttl_at = greatest(ttl_at, " SB_MYSQL_NOW " + ?),"                                             \
    " transition_at = greatest(transition_at, " SB_MYSQL_NOW " + ?)"
#define SB_MYSQL_SET_TIMES SB_MYSQL_KEEP_MARK ", " SB_MYSQL_SET_LEASE_TIMES
/* The last column tells whether the server is read-only: sb_mysql_is_off. */
#define SB_MYSQL_COLUMNS                                                                           \
    SB_SQL_COLUMNS ", " SB_MYSQL_NOW                                                               \
                   ", {if(term_version = version, term_fence, 0), if(term_version = version,"      \
                   " term_since, 0)|0, 0}, @@global.read_only"
/* Of the term, before the version is set: whether a column then stands for its old or its new value
 * depends on the mode. */
#define SB_MYSQL_NEW_TERM                                                                          \
    "term_fence = version + 1, term_since = " SB_MYSQL_NOW ", term_version = version + 1"
#define SB_MYSQL_BEGIN_TERM "{, " SB_MYSQL_NEW_TERM "|}"
#define SB_MYSQL_KEEP_TERM "{, term_version = if(term_version = version, version + 1, 0)|}"
#define SB_MYSQL_OWNER "cast(convert(owner_id USING utf8mb4) AS binary)"
#define SB_MYSQL_INSERT "INSERT INTO simba_mutex (" SB_SQL_COLUMNS ") VALUES "
#define SB_MYSQL_NOW_US "timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))"
/* A name that was deleted and comes back begins above every version that it had (sql/tend.c). In
 * seconds, and not since 1970: the JVM library reads no version above 2^31. */
#define SB_MYSQL_FIRST_VERSION "timestampdiff(second, '2020-01-01', utc_timestamp())"
#define SB_MYSQL_FREE_ROW "(?, '', 0, 0, 0, " SB_MYSQL_FIRST_VERSION ")"
#define SB_MYSQL_UNLESS_THERE " ON DUPLICATE KEY UPDATE mutex = mutex"

/* Those of the table of waiters. Without the hint the optimizer may read all waiters of a mutex. */
#define SB_MYSQL_WAITERS "simba_waiter"
#define SB_MYSQL_ORDER "simba_waiter_order"
#define SB_MYSQL_BY_ORDER " FORCE INDEX (" SB_MYSQL_ORDER ")"
#define SB_MYSQL_JOIN                                                                              \
    "INSERT INTO " SB_MYSQL_WAITERS " (mutex, id, since, client, reserved_until, note) VALUES "

/* What the note of a waiter says whose last reservation was over when it came, and how long its
 * next one lasts. */
#define SB_MYSQL_LATE "'late'"
#define SB_MYSQL_LATE_MS "1000"
/* Of the row of one that has won: long over, also after a step of the clock. */
#define SB_MYSQL_WON "1"
#define SB_MYSQL_IS_OVER "reserved_until BETWEEN " SB_MYSQL_WON " AND " SB_MYSQL_NOW
#define SB_MYSQL_IS_MISSED                                                                         \
    "reserved_until BETWEEN " SB_MYSQL_NOW " - 5000 AND " SB_MYSQL_NOW " AND note "                \
    "<> " SB_MYSQL_LATE

/* A row in the queue is left alone. One that was reserved for has its old place: another has
 * overtaken it, or it comes too late. The server may take longer for the commit of each release
 * than a reservation lasts: at the end of the queue such a waiter would miss its next one, too, and
 * never own. So its next one lasts long enough for all but those that hang, which do not ask. After
 * that one it goes to the end. What an assignment sets, the next ones see. */
#define SB_MYSQL_KEEP_PLACE                                                                        \
    " ON DUPLICATE KEY UPDATE note = if(" SB_MYSQL_IS_MISSED ", " SB_MYSQL_LATE                    \
    ", if(" SB_MYSQL_IS_OVER ", '', note)),"                                                       \
    " since = if(" SB_MYSQL_IS_OVER " AND note <> " SB_MYSQL_LATE ", VALUES(since), since),"       \
    " client = VALUES(client), reserved_until = 0"

/* Who is to be woken when a mutex is free, as two rows: the one that it is reserved for, and the
 * first of the queue. Behind the select list's first column, the item's place. */
#define SB_MYSQL_SELECT_NEXT                                                                       \
    ", id, client, reserved_until FROM " SB_MYSQL_WAITERS SB_MYSQL_BY_ORDER                        \
    " WHERE mutex = ? AND reserved_until "
#define SB_MYSQL_RESERVED SB_MYSQL_LASTS " ORDER BY reserved_until DESC LIMIT 1"
#define SB_MYSQL_FIRST "= 0 ORDER BY since, id LIMIT 1"
/* And a waiter of one client that was called, and has not come in time. */
#define SB_MYSQL_PASSED                                                                            \
    "BETWEEN " SB_MYSQL_WON " + 1 AND " SB_MYSQL_NOW                                               \
    " AND client = ? ORDER BY reserved_until LIMIT 1"

/* Behind those of the repository: */
enum sb_mysql_statement {
    /* A SELECT that sees the latest row also within a transaction, which else shows the rows as
     * they were at its first look. */
    SB_MYSQL_SELECT_LATEST = SB_SQL_STATEMENTS,

    /* With the table of waiters: */
    SB_MYSQL_ACQUIRE_FAIR,   /* unless the mutex is reserved for another id */
    SB_MYSQL_ACQUIRE_QUEUED, /* the same, for an id that may have a place; that ends */
    SB_MYSQL_RELEASE_ALONE,  /* unless it is marked */
    SB_MYSQL_RELEASE_ON,     /* and reserve for the first of the queue */
    SB_MYSQL_HAND_ON,        /* reserve a free mutex for the first of the queue */
    SB_MYSQL_MARK,           /* that others wait for a mutex which is owned */
    SB_MYSQL_NEXT,           /* SB_MYSQL_SELECT_NEXT */
    SB_MYSQL_FORGET,         /* delete rows that have counted for nothing for 30 s */
    SB_MYSQL_STATEMENTS
};

#define SB_MYSQL_PARAMETERS_MAX 12
#define SB_MYSQL_CONDITION_MAX 128
#define SB_MYSQL_ANSWER_MAX 32 /* of a server to a question about itself */
#define SB_MYSQL_TEXT_MAX 2048 /* of a prepared statement with that */

/* What a statement binds, in the order of its question marks. */
struct sb_mysql_parameters {
    MYSQL_BIND binds[SB_MYSQL_PARAMETERS_MAX];
    size_t count;
    uint64_t next_version;
    uint64_t version_max;
    int64_t called_ms;
};

/* The text of a statement, with a question mark for each value; empty: the dialect has none. */
void sb_mysql_statement_text(size_t which, bool has_terms, char ret_text[SB_MYSQL_TEXT_MAX]);

/* Whether it may change anything. */
bool sb_mysql_writes(size_t which);

/* Whether it changes a row that is there. */
bool sb_mysql_updates(size_t which);

/* Whether that is the value of read_only at which a server takes changes. Newer servers have words
 * for it. */
bool sb_mysql_is_off(const char *read_only);

/* What stands behind every UPDATE: that the server is not read-only. A server waits for statements
 * that run before it becomes that, so it grants nothing from then on, also to users that may write
 * there. `read_only` is what the server has said. `server_id`, unless it is empty, is for replicas
 * that are sent the statement itself: they carry it out, because their id is another one. */
void sb_mysql_write_condition(const char *read_only, const char *server_id,
                              char ret_condition[SB_MYSQL_CONDITION_MAX]);

/* The version that a release makes of one; the last one stays. */
uint64_t sb_mysql_next_version(uint64_t version, uint64_t version_max);

/* The parameters point into `values` and into themselves. */
void sb_mysql_bind_values(size_t which, const struct sb_sql_values *values, uint64_t version_max,
                          struct sb_mysql_parameters *ret_parameters);
void sb_mysql_bind_text(MYSQL_BIND *bind, const char *text);
void sb_mysql_bind_number(MYSQL_BIND *bind, const void *number); /* 64 bits, not negative */

/* Gives a prepared statement its parameters. False when memory is short, or when the server wants
 * another number of them: the library would take as many as the server says. */
bool sb_mysql_bind_parameters(MYSQL_STMT *statement, MYSQL_BIND *binds, size_t count);

#endif
