/*
 * schema.h - the table on a MySQL or MariaDB server.
 */
#ifndef SB_BACKEND_MYSQL_SCHEMA_H
#define SB_BACKEND_MYSQL_SCHEMA_H

#include "backend/mysql/connection.h"

/* The statement that creates the table. */
extern const char sb_mysql_schema[];

/* Looks at the table, and creates it where it is missing and the user may. Takes note of the width and the
 * collation of its columns: the JVM library's table serves as it is. */
int sb_mysql_init_schema(struct sb_mysql_connection *connection, struct sb_sql_failure *failure);

#endif
