/*
 * registry.c - which backend serves which scheme. Owns the table of those that applications add; must not know
 * what a backend does.
 *
 * The library's own come first, so that an application cannot take over `sqlite:` by accident; it
 * names its own backend in simba_client_options where it wants to.
 */
#include "backend/registry.h"

#include "backend/module.h"
#include "base/fork.h"

#include <simba/backend.h>

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sb_fork_guard lock_guard = {.lock = &lock};
static const struct simba_backend_ops *registered[SIMBA_BACKENDS_MAX - SB_MODULES_MAX];
static size_t registered_count;

bool sb_backend_is_complete(const struct simba_backend_ops *ops)
{
    return ops != NULL && ops->size >= sizeof *ops && ops->name != NULL && ops->serves != NULL &&
           ops->open != NULL && ops->submit != NULL && ops->close != NULL;
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

    if (!sb_backend_is_complete(ops))
        return SIMBA_EINVAL;
    if (sb_module_is_named(ops->name))
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

size_t sb_backend_registered(const struct simba_backend_ops *ret_ops[], size_t most)
{
    size_t count;

    sb_fork_guard(&lock_guard);
    pthread_mutex_lock(&lock);
    count = registered_count < most ? registered_count : most;
    for (size_t i = 0; i < count; i++)
        ret_ops[i] = registered[i];
    pthread_mutex_unlock(&lock);
    return count;
}

static const struct simba_backend_ops *find_registered(const char *scheme)
{
    const struct simba_backend_ops *ops = NULL;

    sb_fork_guard(&lock_guard);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < registered_count && ops == NULL; i++)
        if (registered[i]->serves(scheme))
            ops = registered[i];
    pthread_mutex_unlock(&lock);
    return ops;
}

int sb_backend_find(const char *scheme, const struct simba_backend_ops **ret_ops,
                    struct simba_error *error)
{
    const struct sb_module *module;
    int code = sb_module_find(scheme, &module, error);

    if (code == SIMBA_OK)
        *ret_ops = module != NULL ? module->ops : find_registered(scheme);
    return code;
}

const struct simba_backend_ops *simba_backend_find(const char *scheme)
{
    const struct simba_backend_ops *ops = NULL;

    if (scheme != NULL)
        sb_backend_find(scheme, &ops, NULL);
    return ops;
}
