/*
 * registry.c - which backend serves which scheme. Owns the table of those that applications add;
 * must not know what a backend does.
 *
 * The library's own come first, so that an application cannot take over `sqlite:` by accident; it
 * names its own backend in simba_client_options where it wants to.
 */
#include "backend/registry.h"

#include "backend/module.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/url_options.h"

#include <simba/backend.h>

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sb_fork_guard lock_guard = {.lock = &lock};
static const struct simba_backend_ops *registered[SIMBA_BACKENDS_MAX - SB_MODULES_MAX];
static size_t registered_count;

/* The words of an option are read without another look at their number. */
static int check_options(const struct simba_backend_ops *ops, struct simba_error *error)
{
    const struct simba_backend_option *option;

    for (size_t i = 0; (option = sb_url_declared_option(ops, i)) != NULL; i++) {
        const char *space = option->words != NULL ? strchr(option->words, ' ') : NULL;

        if (option->type == SIMBA_OPTION_CHOICE && option->words == NULL)
            return sb_error_set(error, SIMBA_EINVAL,
                                "the option '%.60s' of the backend '%.60s' has no words",
                                option->name, ops->name);
        if (option->type == SIMBA_OPTION_SWITCH &&
            (space == NULL || space == option->words || strchr(space + 1, ' ') != NULL))
            return sb_error_set(error, SIMBA_EINVAL,
                                "the option '%.60s' of the backend '%.60s' needs two words, for "
                                "yes and no",
                                option->name, ops->name);
    }
    return SIMBA_OK;
}

int sb_backend_check(const struct simba_backend_ops *ops, struct simba_error *error)
{
    if (ops == NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the backend is missing");
    if (ops->abi != SIMBA_BACKEND_ABI)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the backend was built with version %lu of simba/backend.h, and this "
                            "library has version %d; set abi to SIMBA_BACKEND_ABI, and build the "
                            "backend again",
                            (unsigned long)ops->abi, SIMBA_BACKEND_ABI);
    if (ops->name == NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the backend has no name");
    if (ops->serves == NULL || ops->open == NULL || ops->submit == NULL || ops->close == NULL)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the backend '%.60s' needs serves, open, submit and close", ops->name);
    return check_options(ops, error);
}

/* ---- Registering ----------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Fails for a name that no key of a configuration can be. */
static int check_name(const char *name, struct simba_error *error)
{
    size_t length = 0;

    if (is_letter(name[0]))
        while (is_letter(name[length]) || (name[length] >= '0' && name[length] <= '9') ||
               name[length] == '-' || name[length] == '_')
            length++;
    if (length > 0 && length <= SIMBA_BACKEND_NAME_MAX && name[length] == '\0')
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL,
                        "a backend cannot be named '%.60s': a section of a configuration has its "
                        "name, which is a letter, followed by letters, digits, '-' and '_', at "
                        "most %d characters in all",
                        name, SIMBA_BACKEND_NAME_MAX);
}

/* Names that a configuration key cannot tell apart become equal. */
static void fold_name(const char *name, char folded[SIMBA_BACKEND_NAME_MAX + 1])
{
    size_t length = 0;

    for (; *name != '\0'; name++)
        if (*name != '-' && *name != '_')
            folded[length++] = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;
    folded[length] = '\0';
}

/* With the lock held. */
static const struct simba_backend_ops *find_same(const char *folded)
{
    char other[SIMBA_BACKEND_NAME_MAX + 1];

    for (size_t i = 0; i < registered_count; i++) {
        fold_name(registered[i]->name, other);
        if (strcmp(other, folded) == 0)
            return registered[i];
    }
    return NULL;
}

/* With the lock held. */
static int add(const struct simba_backend_ops *ops, const char *folded, struct simba_error *error)
{
    const struct simba_backend_ops *same = find_same(folded);

    if (same != NULL)
        return sb_error_set(error, SIMBA_EEXISTS,
                            "a backend cannot be named '%s': '%s' is registered already%s",
                            ops->name, same->name,
                            strcmp(same->name, ops->name) == 0
                                ? ""
                                : ", and a configuration does not tell the two apart");
    if (registered_count == sizeof registered / sizeof registered[0])
        return sb_error_set(error, SIMBA_EMISUSE,
                            "%zu backends are registered; there can be no more", registered_count);
    registered[registered_count++] = ops;
    return SIMBA_OK;
}

int simba_backend_register(const struct simba_backend_ops *ops, struct simba_error *error)
{
    char folded[SIMBA_BACKEND_NAME_MAX + 1];
    int code = sb_backend_check(ops, error);

    if (code == SIMBA_OK)
        code = check_name(ops->name, error);
    if (code != SIMBA_OK)
        return code;
    fold_name(ops->name, folded);
    if (sb_module_is_named(folded))
        return sb_error_set(error, SIMBA_EEXISTS,
                            "a backend cannot be named '%s': the library has one of this name",
                            ops->name);
    sb_fork_guard(&lock_guard);
    pthread_mutex_lock(&lock);
    code = add(ops, folded, error);
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- Finding --------------------------------------------------------------------------------- */

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
