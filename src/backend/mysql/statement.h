/*
 * statement.h - the statements of the MySQL dialect: their text and their parameters.
 */
#ifndef SB_MYSQL_STATEMENT_H
#define SB_MYSQL_STATEMENT_H

#include "backend/sql/driver.h"

#include <mysql.h>

/* Parts that several statements have. */
#define SB_MYSQL_NOW "timestampdiff(microsecond, '1970-01-01', utc_timestamp(3)) DIV 1000"
/* The times of a lease, of one instant each. A statement that has waited knows an older time than
 * the row: it must not shorten a lease that was granted since; and where the id does not own, the
 * row's times are over anyway. In its own assignment a column stands for its old value. In the next
 * ones that depends on the mode, and a lease must not: so the clock is asked each time. */
#define SB_MYSQL_SET_TIMES                                                                         \
    "acquired_at = " SB_MYSQL_NOW ", ttl_at = greatest(ttl_at, " SB_MYSQL_NOW " + ?),"             \
    " transition_at = greatest(transition_at, " SB_MYSQL_NOW " + ?)"
/* The last column tells whether the server is read-only: sb_mysql_is_off. */
#define SB_MYSQL_COLUMNS SB_SQL_COLUMNS ", " SB_MYSQL_NOW ", 0, @@global.read_only"
#define SB_MYSQL_OWNER "cast(convert(owner_id USING utf8mb4) AS binary)"
#define SB_MYSQL_INSERT "INSERT INTO simba_mutex (" SB_SQL_COLUMNS ") VALUES "
#define SB_MYSQL_FREE_ROW "(?, '', 0, 0, 0, 0)"
#define SB_MYSQL_UNLESS_THERE " ON DUPLICATE KEY UPDATE mutex = mutex"

/* Behind those of the repository: */
enum sb_mysql_statement {
    /* A SELECT that sees the latest row also within a transaction, which else shows the rows as
     * they were at its first look. */
    SB_MYSQL_SELECT_LATEST = SB_SQL_STATEMENTS,
    SB_MYSQL_STATEMENTS
};

#define SB_MYSQL_PARAMETERS_MAX 6
#define SB_MYSQL_CONDITION_MAX 128
#define SB_MYSQL_ANSWER_MAX 32 /* of a server to a question about itself */
#define SB_MYSQL_TEXT_MAX 1024 /* of a prepared statement with that */

/* What a statement binds, in the order of its question marks. */
struct sb_mysql_parameters {
    MYSQL_BIND binds[SB_MYSQL_PARAMETERS_MAX];
    size_t count;
    uint64_t next_version;
    uint64_t version_max;
};

/* The text of a statement, with a question mark for each value. */
const char *sb_mysql_statement_text(size_t which);

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
