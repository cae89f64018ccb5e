/*
 * mysql.h - the backend `mysql://` and `mariadb://`.
 */
#ifndef SB_BACKEND_MYSQL_MYSQL_H
#define SB_BACKEND_MYSQL_MYSQL_H

#include <simba/backend.h>

extern const struct simba_backend_ops sb_mysql_ops;

#endif
