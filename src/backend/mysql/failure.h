/*
 * failure.h - what the numbers of MySQL and MariaDB mean to the library.
 */
#ifndef SB_MYSQL_FAILURE_H
#define SB_MYSQL_FAILURE_H

#include "backend/mysql/connection.h"

/* The last call on the connection failed, or its answer is not what was asked for; `sent` tells
 * whether it might have changed something. */
int sb_mysql_fail(const struct sb_mysql_connection *connection, bool sent,
                  struct sb_sql_failure *failure);

/* The same for a COMMIT: only few of its failures tell that nothing was committed. */
int sb_mysql_fail_commit(const struct sb_mysql_connection *connection,
                         struct sb_sql_failure *failure);

/* The same for a call on a statement. */
int sb_mysql_fail_statement(const struct sb_mysql_connection *connection, MYSQL_STMT *statement,
                            bool sent, struct sb_sql_failure *failure);

/* The server has closed the connection before anything was sent. */
int sb_mysql_fail_closed(struct sb_sql_failure *failure);

/* The server is read-only, whatever the user may do there. */
int sb_mysql_fail_read_only(struct sb_sql_failure *failure);

int sb_mysql_fail_memory(struct sb_sql_failure *failure);

#endif
