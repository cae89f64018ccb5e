/*
 * statement.h - the statements of the MySQL dialect: their text, their parameters, their rows.
 */
#ifndef SB_BACKEND_MYSQL_STATEMENT_H
#define SB_BACKEND_MYSQL_STATEMENT_H

#include "backend/mysql/connection.h"

/* Runs a prepared statement with these values. The statement is the connection's; its rows, if it has any,
 * are stored and can be fetched. */
int sb_mysql_execute(struct sb_mysql_connection *connection, enum sb_sql_statement which,
                     const struct sb_sql_values *values, MYSQL_STMT **ret_statement,
                     struct sb_sql_failure *failure);

/* Reads many rows with one statement: hits those items whose row was found. */
int sb_mysql_select_some(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure);

/* Adds free rows with one statement, where they are missing. */
int sb_mysql_insert_some(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure);

/* Where the rows of a statement go to, one after the other. */
struct sb_mysql_row {
    struct sb_sql_record record;
    uint64_t place; /* sb_mysql_select_some: 1 is the first item */
    unsigned long mutex_length;
    unsigned long owner_id_length;
};

/* Binds the columns of a record to `row`; false when memory is short. */
bool sb_mysql_bind_row(MYSQL_STMT *statement, struct sb_mysql_row *row);

/* Fetches the next row into what was bound: false when there is none left. */
bool sb_mysql_fetch_row(MYSQL_STMT *statement, struct sb_mysql_row *row);

/* The text of a statement, with a question mark for each value. */
const char *sb_mysql_statement_text(size_t which);

/* Whether it may change anything. */
bool sb_mysql_writes(enum sb_sql_statement which);

#endif
