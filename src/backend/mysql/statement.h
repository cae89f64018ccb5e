/*
 * statement.h - the statements of the MySQL dialect: their text, their parameters, their rows.
 */
#ifndef SB_BACKEND_MYSQL_STATEMENT_H
#define SB_BACKEND_MYSQL_STATEMENT_H

#include "backend/mysql/connection.h"

/* Parts that several statements have. */
#define SB_MYSQL_NOW "timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) DIV 1000"
#define SB_MYSQL_COLUMNS SB_SQL_COLUMNS ", " SB_MYSQL_NOW ", 0"
#define SB_MYSQL_VERSION_MAX "4294967295"
#define SB_MYSQL_OWNER "cast(convert(owner_id USING utf8mb4) AS binary)"
#define SB_MYSQL_INSERT "INSERT INTO simba_mutex (" SB_SQL_COLUMNS ") VALUES "
#define SB_MYSQL_FREE_ROW "(?, '', 0, 0, 0, 0)"
#define SB_MYSQL_UNLESS_THERE " ON DUPLICATE KEY UPDATE mutex = mutex"

/* Runs a prepared statement with these values. The statement is the connection's; its rows, if it has any,
 * are stored and can be fetched. */
int sb_mysql_execute(struct sb_mysql_connection *connection, enum sb_sql_statement which,
                     const struct sb_sql_values *values, MYSQL_STMT **ret_statement,
                     struct sb_sql_failure *failure);

/* Gives a statement that is prepared its values, which stay where they are until it has been sent. False when
 * memory is short. */
bool sb_mysql_bind(struct sb_mysql_connection *connection, size_t which,
                   const struct sb_sql_values *values);

/* The parts of that, for statements that are made as they are needed. */
int sb_mysql_prepare(struct sb_mysql_connection *connection, const char *text,
                     MYSQL_STMT **ret_statement, struct sb_sql_failure *failure);
int sb_mysql_run_bound(struct sb_mysql_connection *connection, MYSQL_STMT *statement,
                       MYSQL_BIND *binds, bool writes, struct sb_sql_failure *failure);
void sb_mysql_bind_text(MYSQL_BIND *bind, const char *text);
void sb_mysql_bind_number(MYSQL_BIND *bind, const void *number); /* 64 bits, not negative */

/* Where the rows of a statement go to, one after the other. */
struct sb_mysql_row {
    struct sb_sql_record record;
    uint64_t place; /* sb_mysql_select_many: 1 is the first item */
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
