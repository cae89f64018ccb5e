/*
 * rows.h - what is done to single rows, one or many at a time, without a transaction that stays open.
 */
#ifndef SB_BACKEND_MYSQL_ROWS_H
#define SB_BACKEND_MYSQL_ROWS_H

#include "backend/mysql/connection.h"

/* See run_all of struct sb_sql_driver. */
int sb_mysql_run_all(struct sb_sql_connection *connection, struct sb_sql_item *const *items,
                     size_t count, struct sb_sql_failure *failure);

#endif
