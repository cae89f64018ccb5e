/*
 * postgres.h - the backend `postgres://` and `postgresql://`.
 */
#ifndef SB_BACKEND_POSTGRES_POSTGRES_H
#define SB_BACKEND_POSTGRES_POSTGRES_H

#include "backend/sql/dialect.h"

extern const struct simba_backend_ops sb_postgres_ops;
extern const struct sb_sql_dialect sb_postgres_dialect;

#endif
