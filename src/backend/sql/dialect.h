/*
 * dialect.h - a driver and how its settings are read from a URL.
 */
#ifndef SB_BACKEND_SQL_DIALECT_H
#define SB_BACKEND_SQL_DIALECT_H

#include "backend/sql/driver.h"

/* How long things may take. */
struct sb_sql_limits {
    int64_t connect_ms;
    int64_t timeout_ms;
};

struct sb_sql_dialect {
    const struct sb_sql_driver *driver;
    const char *schema; /* the statement that creates the table; NULL: nobody can by hand */

    /* Creates the settings for driver->connect. Of the host only `log` is used. */
    int (*open)(simba_url *url, const struct simba_backend_host *host, void **ret_settings,
                struct sb_sql_limits *ret_limits, struct simba_error *error);
    void (*close)(void *settings); /* destroys */
};

#endif
