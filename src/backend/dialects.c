/*
 * dialects.c - which SQL dialects there are. Owns the table; must not know what a dialect does.
 */
#include "backend/sql/dialect.h"
#ifdef SIMBA_HAVE_MYSQL
#include "backend/mysql/mysql.h"
#endif
#ifdef SIMBA_HAVE_POSTGRES
#include "backend/postgres/postgres.h"
#endif
#ifdef SIMBA_HAVE_SQLITE
#include "backend/sqlite/sqlite.h"
#endif

static const struct sb_sql_dialect *const dialects[] = {
#ifdef SIMBA_HAVE_SQLITE
    &sb_sqlite_dialect,
#endif
#ifdef SIMBA_HAVE_MYSQL
    &sb_mysql_dialect,
#endif
#ifdef SIMBA_HAVE_POSTGRES
    &sb_postgres_dialect,
#endif
    NULL,
};

const struct sb_sql_dialect *sb_sql_dialect_find(const char *scheme)
{
    for (size_t i = 0; dialects[i] != NULL; i++)
        if (dialects[i]->serves(scheme))
            return dialects[i];
    return NULL;
}
