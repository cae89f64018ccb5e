/*
 * mysql.h - the backend `mysql://` and `mariadb://`.
 */
#ifndef SB_MYSQL_MYSQL_H
#define SB_MYSQL_MYSQL_H

#include "backend/module.h"

extern const struct sb_module sb_mysql_module SB_SHARED("mysql_module");

#endif
