/*
 * registry.c - which backend serves which scheme. Owns the table; must not know what a backend does.
 *
 * The built-in ones come first, so that an application cannot take over `sqlite:` by accident; it
 * names its own backend in simba_client_options where it wants to.
 */
#include "backend/memory/memory.h"
#ifdef SIMBA_HAVE_MYSQL
#include "backend/mysql/mysql.h"
#endif
#ifdef SIMBA_HAVE_POSTGRES
#include "backend/postgres/postgres.h"
#endif
#ifdef SIMBA_HAVE_REDIS
#include "backend/redis/redis.h"
#endif
#ifdef SIMBA_HAVE_SQLITE
#include "backend/sqlite/sqlite.h"
#endif
#ifdef SIMBA_HAVE_ZOOKEEPER
#include "backend/zookeeper/zookeeper.h"
#endif

#include "base/fork.h"

#include <simba/backend.h>

#include <pthread.h>
#include <string.h>

static const struct simba_backend_ops *const built_in[] = {
    &sb_memory_ops,
#ifdef SIMBA_HAVE_SQLITE
    &sb_sqlite_ops,
#endif
#ifdef SIMBA_HAVE_MYSQL
    &sb_mysql_ops,
#endif
#ifdef SIMBA_HAVE_POSTGRES
    &sb_postgres_ops,
#endif
#ifdef SIMBA_HAVE_REDIS
    &sb_redis_ops,
#endif
#ifdef SIMBA_HAVE_ZOOKEEPER
    &sb_zookeeper_ops,
#endif
};

#define BUILT_IN_COUNT (sizeof built_in / sizeof built_in[0])

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sb_fork_guard lock_guard = {.lock = &lock};
static const struct simba_backend_ops *registered[SIMBA_BACKENDS_MAX - BUILT_IN_COUNT];
static size_t registered_count;

static bool is_complete(const struct simba_backend_ops *ops)
{
    return ops != NULL && ops->size >= sizeof *ops && ops->name != NULL && ops->serves != NULL &&
           ops->open != NULL && ops->submit != NULL && ops->close != NULL;
}

static bool is_built_in(const char *name)
{
    for (size_t i = 0; i < BUILT_IN_COUNT; i++)
        if (strcmp(built_in[i]->name, name) == 0)
            return true;
    return false;
}

/* With the lock held. */
static bool is_registered(const char *name)
{
    for (size_t i = 0; i < registered_count; i++)
        if (strcmp(registered[i]->name, name) == 0)
            return true;
    return false;
}

int simba_backend_register(const struct simba_backend_ops *ops)
{
    int code = SIMBA_OK;

    if (!is_complete(ops))
        return SIMBA_EINVAL;
    if (is_built_in(ops->name))
        return SIMBA_EEXISTS;
    sb_fork_guard(&lock_guard);
    pthread_mutex_lock(&lock);
    if (is_registered(ops->name))
        code = SIMBA_EEXISTS;
    else if (registered_count == sizeof registered / sizeof registered[0])
        code = SIMBA_EMISUSE;
    else
        registered[registered_count++] = ops;
    pthread_mutex_unlock(&lock);
    return code;
}

static const struct simba_backend_ops *find_in(const struct simba_backend_ops *const *table,
                                               size_t count, const char *scheme)
{
    for (size_t i = 0; i < count; i++)
        if (table[i]->serves(scheme))
            return table[i];
    return NULL;
}

const struct simba_backend_ops *simba_backend_find(const char *scheme)
{
    const struct simba_backend_ops *ops;

    if (scheme == NULL)
        return NULL;
    ops = find_in(built_in, BUILT_IN_COUNT, scheme);
    if (ops != NULL)
        return ops;
    sb_fork_guard(&lock_guard);
    pthread_mutex_lock(&lock);
    ops = find_in(registered, registered_count, scheme);
    pthread_mutex_unlock(&lock);
    return ops;
}
