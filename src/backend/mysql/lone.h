/*
 * lone.h - one item for a thread that must not wait: its statements are sent, and their answers taken in as
 * they come.
 *
 *     prepare (once) -- execute -- store its rows (a look)
 *                          +------ look behind, where a trigger keeps the version from us
 *                          +------ acquire in the usual way, where the row is not as we left it
 *
 * See `start` of struct sb_sql_driver for what the calls do.
 */
#ifndef SB_BACKEND_MYSQL_LONE_H
#define SB_BACKEND_MYSQL_LONE_H

#include "backend/mysql/connection.h"

int sb_mysql_lone_start(struct sb_sql_connection *connection, struct sb_sql_item *item,
                        short *ret_wants, struct sb_sql_failure *failure);
int sb_mysql_lone_proceed(struct sb_sql_connection *connection, short *ret_wants,
                          struct sb_sql_failure *failure);
int sb_mysql_lone_abandon(struct sb_sql_connection *connection, struct sb_sql_failure *failure);

#endif
