/*
 * log.h - the write-ahead log under a connection: when it moves into the file.
 */
#ifndef SB_BACKEND_SQLITE_LOG_H
#define SB_BACKEND_SQLITE_LOG_H

#include "backend/sqlite/connection.h"

/* From now on every commit of the connection sees to it that the log stays short. */
void sb_sqlite_log_tend(struct sb_sqlite_connection *connection);

#endif
