/*
 * module.c - the library's own backends. Owns the table of them and their loading; must not know
 * what a backend does.
 *
 * A module is never unloaded: clients may be open, and libraries behind it may have threads.
 */
#include "backend/module.h"

#include "backend/folder.h"
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
#include "base/text.h"
#include "base/trusted_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#ifdef SIMBA_MODULES
#define LOADED_LATER(module) NULL
#else
#define LOADED_LATER(module) &(module)
#endif

#define WORDS_MAX 4
#define FILE_MAX 64 /* bytes of a module's name, or of its symbol */

struct entry {
    const char *name;
    const char *words[WORDS_MAX + 1];         /* its schemes up to a '+' */
    _Atomic(const struct sb_module *) module; /* NULL: not loaded yet */
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
    {"zookeeper", {"zookeeper", "zookeepers"}, LOADED_LATER(sb_zk_module)},
#endif
};

#define ENTRY_COUNT (sizeof entries / sizeof entries[0])

_Static_assert(ENTRY_COUNT <= SB_MODULES_MAX, "SB_MODULES_MAX is what they are reckoned with");

/* ---- Loading --------------------------------------------------------------------------------- */

#ifdef SIMBA_MODULES

/* What a failure to load means: the file is missing or does not fit, or the system gave no room for
 * it. */
static int load_code(int system_code)
{
    bool short_of = system_code == EMFILE || system_code == ENFILE || system_code == ENOMEM;

    return short_of ? SIMBA_ENOMEM : SIMBA_ECONFIG;
}

/* The first file that may be used. Where there is none, a file that may not be used is told rather
 * than one that is missing. */
int sb_module_path(const char *kind, const char *file, char path[PATH_MAX],
                   struct simba_error *error)
{
    char program[PATH_MAX];
    char folder[PATH_MAX];
    const char *known = sb_folder_find_program(program) ? program : NULL;
    struct simba_error why;
    struct sb_text text;
    bool refused = false;
    int code = sb_error_set(error, SIMBA_ECONFIG, "the library's folder is not known");

    for (size_t i = 0; sb_folder_find(i, known, folder); i++) {
        sb_text_init(&text, path, PATH_MAX);
        sb_text_add(&text, "%s/%s", folder, file);
        if (text.cut)
            continue;
        if (sb_trusted_code(kind, path, known, &why) == SIMBA_OK)
            return SIMBA_OK;
        if (!refused)
            code = sb_error_set(error, load_code(why.backend_code), "%s", why.text);
        refused = refused || why.backend_code != ENOENT;
    }
    return code;
}

/* Without a lock: whatever a library does when it is loaded must not meet one of ours. Two that
 * load the same file at a time are given the same object. By the path that was checked, not by a
 * descriptor: the module finds its libraries beside that path. Only users who are trusted can put
 * another file there. */
static int open_file(const char *file, const char *symbol, char path[PATH_MAX],
                     const void **ret_object, struct simba_error *error)
{
    int code = sb_module_path("module", file, path, error);
    const void *object;
    void *opened;

    if (code != SIMBA_OK)
        return code;
    errno = 0;
    opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    object = opened != NULL ? dlsym(opened, symbol) : NULL;
    if (object == NULL)
        return sb_error_set(error, load_code(errno), "%s", dlerror());
    *ret_object = object;
    return SIMBA_OK;
}

int sb_module_open(const char *file, const char *symbol, const void **ret_object,
                   struct simba_error *error)
{
    char path[PATH_MAX];

    return open_file(file, symbol, path, ret_object, error);
}

static int check_library(const struct sb_module_library *found, struct simba_error *error)
{
    const struct sb_module_library own = SB_MODULE_LIBRARY;

    if (found->ops != own.ops || found->dialect != own.dialect || found->driver != own.driver)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "belongs to another build; a process that was started before an update "
                            "has to be started again");
    if (found->open != own.open)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "has found another copy of the library, which this process has loaded, "
                            "too");
    return SIMBA_OK;
}

static int load(struct entry *entry, struct simba_error *error)
{
    char file[FILE_MAX];
    char symbol[FILE_MAX];
    char path[PATH_MAX];
    struct sb_text text;
    struct simba_error why;
    const void *object;
    const struct sb_module *module;

    sb_text_init(&text, file, sizeof file);
    sb_text_add(&text, "simba-%s.so", entry->name);
    sb_text_init(&text, symbol, sizeof symbol);
    sb_text_add(&text, "simba_private_%s_module", entry->name);
    if (open_file(file, symbol, path, &object, &why) != SIMBA_OK)
        return sb_error_set(error, why.code, "the backend '%s' cannot be loaded: %s", entry->name,
                            why.text);
    module = object;
    if (check_library(&module->library, &why) != SIMBA_OK)
        return sb_error_set(error, why.code, "the backend '%s' cannot be loaded: %s %s",
                            entry->name, path, why.text);
    atomic_store(&entry->module, module);
    return SIMBA_OK;
}

#else

int sb_module_open(const char *file, const char *symbol, const void **ret_object,
                   struct simba_error *error)
{
    (void)symbol;
    (void)ret_object;
    return sb_error_set(error, SIMBA_EUNSUPPORTED, "the library does not load %s", file);
}

/* All of them are there from the beginning. */
static int load(struct entry *entry, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_EUNSUPPORTED, "the library does not load '%s'", entry->name);
}

#endif

/* ---- Table ----------------------------------------------------------------------------------- */

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
    const struct sb_module *module;
    int code = SIMBA_OK;

    *ret_module = NULL;
    if (entry == NULL)
        return SIMBA_OK;
    if (atomic_load(&entry->module) == NULL)
        code = load(entry, error);
    if (code != SIMBA_OK)
        return code;
    module = atomic_load(&entry->module);
    if (module->ops->serves(scheme))
        *ret_module = module;
    return SIMBA_OK;
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
