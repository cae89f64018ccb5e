/*
 * login.h - connects to a server and logs in, so that neither the server nor an option file learns or decides more
 * than the URL allows.
 */
#ifndef SB_BACKEND_MYSQL_LOGIN_H
#define SB_BACKEND_MYSQL_LOGIN_H

#include "backend/mysql/connection.h"

/* To hosts[host], or to the socket or what the option files name when there is none. Sets connection->mysql, also where
 * it fails. */
int sb_mysql_log_in(struct sb_mysql_connection *connection, size_t host,
                    struct sb_sql_failure *failure);

#endif
