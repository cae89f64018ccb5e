/*
 * sqlite.h - `sqlite:PATH`: mutexes of the processes of one host, in one file.
 */
#ifndef SB_BACKEND_SQLITE_SQLITE_H
#define SB_BACKEND_SQLITE_SQLITE_H

#include "backend/sql/dialect.h"

extern const struct simba_backend_ops sb_sqlite_ops;
extern const struct sb_sql_dialect sb_sqlite_dialect;

#endif
