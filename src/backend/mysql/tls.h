/*
 * tls.h - what the client library is told about TLS before it connects.
 */
#ifndef SB_MYSQL_TLS_H
#define SB_MYSQL_TLS_H

#include "backend/sql/address.h"

#include <mysql.h>
#include <simba/simba.h>

/* SIMBA_ENOMEM, or SIMBA_ECONFIG where this library cannot verify a server as the address asks. */
int sb_mysql_set_tls(MYSQL *mysql, const struct sb_sql_address *address, struct simba_error *error);

#endif
