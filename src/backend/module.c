/*
 * module.c - the library's own backends. Owns the table of them and their loading; must not know what a
 * backend does.
 *
 * A module is never unloaded: clients may be open, and libraries behind it may have threads.
 */
#include "backend/module.h"

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
#include "base/error.h"
#include "base/fork.h"
#include "base/text.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

#ifdef SIMBA_MODULES
#define LOADED_LATER(module) NULL
#else
#define LOADED_LATER(module) &(module)
#endif

#define WORDS_MAX 4

struct entry {
    const char *name;
    const char *words[WORDS_MAX + 1]; /* its schemes up to a '+' */
    const struct sb_module *module;   /* NULL: not loaded yet */
};

static struct entry entries[] = {
    {"memory", {"memory"}, &sb_memory_module},
#ifdef SIMBA_HAVE_SQLITE
    {"sqlite", {"sqlite"}, &sb_sqlite_module},
#endif
#ifdef SIMBA_HAVE_MYSQL
    {"mysql", {"mysql", "mariadb"}, LOADED_LATER(sb_mysql_module)},
#endif
#ifdef SIMBA_HAVE_POSTGRES
    {"postgres", {"postgres", "postgresql"}, LOADED_LATER(sb_postgres_module)},
#endif
#ifdef SIMBA_HAVE_REDIS
    {"redis", {"redis", "rediss", "valkey", "valkeys"}, LOADED_LATER(sb_redis_module)},
#endif
#ifdef SIMBA_HAVE_ZOOKEEPER
    {"zookeeper", {"zookeeper", "zookeepers"}, LOADED_LATER(sb_zookeeper_module)},
#endif
};

#define ENTRY_COUNT (sizeof entries / sizeof entries[0])

_Static_assert(ENTRY_COUNT <= SB_MODULES_MAX, "SB_MODULES_MAX is what they are reckoned with");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards entry.module */
static struct sb_fork_guard lock_guard = {.lock = &lock};

/* ---- Loading -------------------------------------------------------------------------------- */

/* The folder that the library itself was loaded from. */
static void add_own_folder(struct sb_text *text)
{
    Dl_info library;
    const char *slash = NULL;

    if (dladdr(&entries, &library) != 0 && library.dli_fname != NULL)
        slash = strrchr(library.dli_fname, '/');
    if (slash != NULL)
        sb_text_add(text, "%.*s/", (int)(slash - library.dli_fname), library.dli_fname);
}

static int load(struct entry *entry, struct simba_error *error)
{
    char path[PATH_MAX];
    char symbol[32];
    struct sb_text text;
    void *file;

    sb_text_init(&text, symbol, sizeof symbol);
    sb_text_add(&text, "sb_%s_module", entry->name);
    sb_text_init(&text, path, sizeof path);
    add_own_folder(&text);
    sb_text_add(&text, "simba-" SIMBA_VERSION "/simba-%s.so", entry->name);
    file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (file != NULL)
        entry->module = dlsym(file, symbol);
    if (entry->module != NULL)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_ECONFIG, "the backend '%s' cannot be loaded: %s", entry->name,
                        dlerror());
}

/* ---- Table ---------------------------------------------------------------------------------- */

static bool has_word(const struct entry *entry, const char *scheme)
{
    size_t length = strcspn(scheme, "+");

    for (size_t i = 0; entry->words[i] != NULL; i++)
        if (strlen(entry->words[i]) == length && memcmp(entry->words[i], scheme, length) == 0)
            return true;
    return false;
}

static struct entry *find_entry(const char *scheme)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++)
        if (has_word(&entries[i], scheme))
            return &entries[i];
    return NULL;
}

int sb_module_find(const char *scheme, const struct sb_module **ret_module,
                   struct simba_error *error)
{
    struct entry *entry = find_entry(scheme);
    int code = SIMBA_OK;

    *ret_module = NULL;
    if (entry == NULL)
        return SIMBA_OK;
    sb_fork_guard(&lock_guard);
    pthread_mutex_lock(&lock);
    if (entry->module == NULL)
        code = load(entry, error);
    if (code == SIMBA_OK && entry->module->ops->serves(scheme))
        *ret_module = entry->module;
    pthread_mutex_unlock(&lock);
    return code;
}

const char *sb_module_scheme(size_t index)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++)
        for (size_t j = 0; entries[i].words[j] != NULL; j++)
            if (index-- == 0)
                return entries[i].words[j];
    return NULL;
}

bool sb_module_is_named(const char *name)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++)
        if (strcmp(entries[i].name, name) == 0)
            return true;
    return false;
}
