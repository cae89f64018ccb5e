/*
 * many.h - statements that concern many rows at once, each a transaction of its own.
 *
 * Items of one mutex stand side by side. A failure that leaves open what was applied is
 * SIMBA_EUNKNOWN; with any other code nothing was.
 */
#ifndef SB_BACKEND_MYSQL_MANY_H
#define SB_BACKEND_MYSQL_MANY_H

#include "backend/mysql/connection.h"

/* Reads rows: hits those items whose row was found. */
int sb_mysql_select_many(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure);

/* Adds free rows, where they are missing. */
int sb_mysql_insert_many(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                         size_t count, struct sb_sql_failure *failure);

/* Changes rows: ACQUIRE, GUARD or RELEASE_EXACT, the same for all of them and with one lease, of different
 * mutexes. *ret_count is how many were changed. */
int sb_mysql_update_many(struct sb_mysql_connection *connection, struct sb_sql_item *const *items,
                         size_t count, int64_t *ret_count, struct sb_sql_failure *failure);

#endif
