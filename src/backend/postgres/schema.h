/*
 * schema.h - the table on a PostgreSQL server.
 */
#ifndef SB_BACKEND_POSTGRES_SCHEMA_H
#define SB_BACKEND_POSTGRES_SCHEMA_H

#include "backend/postgres/connection.h"

/* The statement that creates the table. */
extern const char sb_postgres_schema[];

/* Looks at the table, and creates it where it is missing and the user may. Refuses one of a stranger. Takes note of its
 * schema and of the width of its columns. */
int sb_postgres_init_schema(struct sb_postgres_connection *connection,
                            struct sb_sql_failure *failure);

#endif
