/*
 * statement.h - the statements of the PostgreSQL dialect: their text, their parameters, their rows.
 */
#ifndef SB_POSTGRES_STATEMENT_H
#define SB_POSTGRES_STATEMENT_H

#include "backend/sql/driver.h"

#include <libpq-fe.h>

/* The server's clock, in milliseconds and in microseconds. */
#define SB_POSTGRES_NOW                                                                            \
    "(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)"
#define SB_POSTGRES_NOW_US                                                                         \
    "(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*)"          \
    " 1000000)::bigint"

/* Behind those of the repository: */
enum sb_postgres_statement {
    /* The same as their namesakes, but a row that another client has locked is passed over. */
    SB_POSTGRES_ACQUIRE_FREE = SB_SQL_STATEMENTS,
    SB_POSTGRES_GUARD_FREE,
    SB_POSTGRES_RELEASE_FREE,

    /* Where the table of waiters is there: */
    SB_POSTGRES_ACQUIRE_FAIR, /* heeds reservations */
    SB_POSTGRES_ACQUIRE_FAIR_FREE,
    SB_POSTGRES_ACQUIRE_AT_ONCE, /* only where the row tells that the mutex is not reserved */
    SB_POSTGRES_RELEASE_QUIET,   /* tells nobody: HAND_ON does */
    SB_POSTGRES_RELEASE_QUIET_FREE,
    SB_POSTGRES_RELEASE_MARKED, /* the same for a mutex that is about to be reserved */
    SB_POSTGRES_RELEASE_MARKED_FREE,
    SB_POSTGRES_LOOK,    /* mutex: a row where there is a waiter or an observer */
    SB_POSTGRES_FORGET,  /* mutex, id: its place, if it owns */
    SB_POSTGRES_AWAIT,   /* mutex, id: waits for a JOIN of its own that is not committed */
    SB_POSTGRES_MARK,    /* mutex, id: a free mutex that is about to be reserved */
    SB_POSTGRES_CLEAN,   /* mutex: deletes the rows that count for nothing */
    SB_POSTGRES_HAND_ON, /* mutex, id, reserve: reserves for the first, and tells the others */
    SB_POSTGRES_RESTORE, /* mutex, id: ends the reservations of others */
    SB_POSTGRES_NEXT,    /* mutex, id: whom it is reserved for, but not the id; who is the first */

    /* How long the transaction waits for a lock, where the session is not ours alone. */
    SB_POSTGRES_LIMIT_WAIT,
    SB_POSTGRES_LIMIT_WAIT_MORE, /* where there was a lock a while ago */
    SB_POSTGRES_COMMIT_ASYNC,    /* the commit of this transaction does not wait for the disk */
    SB_POSTGRES_STATEMENTS
};

/* What HAND_ON yields: how many waiters and how many observers were told, and whether a reservation
 * was in the way. */
enum sb_postgres_hand_on_column {
    SB_POSTGRES_HAND_ON_TOLD,
    SB_POSTGRES_HAND_ON_OBSERVERS,
    SB_POSTGRES_HAND_ON_HELD,
    SB_POSTGRES_HAND_ON_COLUMNS
};

/* What NEXT yields; empty where there is none. */
enum sb_postgres_next_column {
    SB_POSTGRES_NEXT_RESERVED_ID,
    SB_POSTGRES_NEXT_RESERVED_CLIENT,
    SB_POSTGRES_NEXT_FIRST_ID,
    SB_POSTGRES_NEXT_FIRST_CLIENT,
    SB_POSTGRES_NEXT_COLUMNS
};

#define SB_POSTGRES_PARAMETERS_MAX 4
#define SB_POSTGRES_LIMIT_TEXT_MAX 512
#define SB_POSTGRES_TEXT_MAX 4096
#define SB_POSTGRES_NAME_MAX 48
#define SB_POSTGRES_TABLE_MAX 160 /* schema and table, quoted */
#define SB_POSTGRES_NUMBER_MAX 24

/* Where a release is told to everybody, inside its transaction, if there is no table of waiters;
 * the payload is the mutex. With that table each client has a channel of its own, and the payload
 * is one of these, the mutex, a newline and the id of the waiter. */
#define SB_POSTGRES_CHANNEL "simba_mutex"
#define SB_POSTGRES_SAYS_RELEASED 'r'
#define SB_POSTGRES_SAYS_RESERVED 's'
#define SB_POSTGRES_SAYS_STANDBY 'l'
#define SB_POSTGRES_SAYS_CHANGED 'c'

/* The table of waiters, in the schema of the other. */
#define SB_POSTGRES_WAITERS "simba_waiter"

/* The text of a statement, and the name under which it is prepared. The table is named with its
 * schema. */
void sb_postgres_statement_text(int statement, const char *table, bool has_terms,
                                char ret_text[SB_POSTGRES_TEXT_MAX]);
void sb_postgres_statement_name(int statement, const char *table, bool has_terms,
                                char ret_name[SB_POSTGRES_NAME_MAX]);

/* Writes the statement that limits the waits of a transaction, and empties its path. */
void sb_postgres_limit_transaction(int64_t wait_ms, char ret_text[SB_POSTGRES_LIMIT_TEXT_MAX]);

/* Writes the statement that does so for a session, for good, and yields a row, where it is the
 * session of the process `pid`. */
void sb_postgres_limit_session(int pid, char ret_text[SB_POSTGRES_LIMIT_TEXT_MAX]);

/* What a statement binds, in the order of its numbers. The values point into `values` and
 * `numbers`. */
struct sb_postgres_parameters {
    int count;
    const char *values[SB_POSTGRES_PARAMETERS_MAX];
    char numbers[SB_POSTGRES_PARAMETERS_MAX][SB_POSTGRES_NUMBER_MAX];
};

void sb_postgres_bind(int statement, const struct sb_sql_values *values,
                      struct sb_postgres_parameters *ret_parameters);

/* The version of the row after such a release. */
uint64_t sb_postgres_released_version(const struct sb_sql_values *values);

/* Whether it needs the table of waiters. */
bool sb_postgres_needs_queue(int statement);

/* The version of a statement that passes over what is locked; itself where it has none. */
int sb_postgres_free_statement(int statement);

/* Whether it may change anything. */
bool sb_postgres_writes(int statement);

/* How many columns its rows have; 0: it yields none. */
unsigned char sb_postgres_columns(int statement);

void sb_postgres_read_record(const PGresult *result, int row, struct sb_sql_record *ret_record);

#endif
