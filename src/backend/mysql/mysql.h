/*
 * mysql.h - the backend `mysql://` and `mariadb://`.
 */
#ifndef SB_BACKEND_MYSQL_MYSQL_H
#define SB_BACKEND_MYSQL_MYSQL_H

#include "backend/sql/dialect.h"

extern const struct simba_backend_ops sb_mysql_ops;
extern const struct sb_sql_dialect sb_mysql_dialect;

#endif
