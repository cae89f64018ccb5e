/*
 * tables.h - what schema.c and property.c share: who may own a table of ours, and the statement
 * that creates the table of properties.
 */
#ifndef SB_POSTGRES_TABLES_H
#define SB_POSTGRES_TABLES_H

#define SB_POSTGRES_IS " OPERATOR(pg_catalog.=) "

/* The first column of the relation c that is missing; NULL: none is. */
#define SB_POSTGRES_MISSING_COLUMN(columns)                                                        \
    "(SELECT w.name FROM pg_catalog.unnest(ARRAY[" columns                                         \
    "]) w(name) WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_attribute x"                         \
    " WHERE x.attrelid" SB_POSTGRES_IS "c.oid AND x.attname::pg_catalog.text" SB_POSTGRES_IS       \
    "w.name AND x.attnum OPERATOR(pg_catalog.>) 0 AND NOT x.attisdropped) LIMIT 1)"

/* Of the owner o of a table in the schema n of the database d; see schema.c. */
#define SB_POSTGRES_IS_TRUSTED                                                                     \
    "o.rolsuper OR o.rolname" SB_POSTGRES_IS "current_user OR o.oid" SB_POSTGRES_IS                \
    "d.datdba OR o.oid" SB_POSTGRES_IS "n.nspowner"

/* `schema` is a text with the point behind it. */
#define SB_POSTGRES_CREATE_PROPERTIES(schema)                                                      \
    "CREATE TABLE IF NOT EXISTS " schema "simba_property (mutex varchar COLLATE \"C\" NOT NULL,"   \
    " name varchar(32) COLLATE \"C\" NOT NULL, value varchar(512) NOT NULL, written_at bigint"     \
    " NOT NULL, PRIMARY KEY (mutex, name))"

#endif
