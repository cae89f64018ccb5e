/*
 * module.c - the library's own backends. Owns the table of them and their loading; must not know
 * what a backend does.
 *
 * A module is never unloaded: clients may be open, and libraries behind it may have threads.
 */
#include "backend/module.h"

#include "base/error.h"
#include "base/text.h"
#include "base/trusted_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

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
    {"memory", {"memory"}, &sb_module_memory},
#ifdef SIMBA_HAVE_SQLITE
    {"sqlite", {"sqlite"}, &sb_module_sqlite},
#endif
#ifdef SIMBA_HAVE_MYSQL
    {"mysql", {"mysql", "mariadb"}, LOADED_LATER(sb_module_mysql)},
#endif
#ifdef SIMBA_HAVE_POSTGRES
    {"postgres", {"postgres", "postgresql"}, LOADED_LATER(sb_module_postgres)},
#endif
#ifdef SIMBA_HAVE_REDIS
    {"redis", {"redis", "rediss", "valkey", "valkeys"}, LOADED_LATER(sb_module_redis)},
#endif
#ifdef SIMBA_HAVE_ETCD
    {"etcd", {"etcd", "etcds"}, LOADED_LATER(sb_module_etcd)},
#endif
#ifdef SIMBA_HAVE_ZOOKEEPER
    {"zookeeper", {"zookeeper", "zookeepers"}, LOADED_LATER(sb_module_zookeeper)},
#endif
};

#define ENTRY_COUNT (sizeof entries / sizeof entries[0])

_Static_assert(ENTRY_COUNT <= SB_MODULES_MAX, "SB_MODULES_MAX is what they are reckoned with");

#ifdef SIMBA_MODULES

/* ---- Folders ---------------------------------------------------------------------------------
 *
 * find_program: the real path of the program or the shared library that this code is in; false: it
 * is not known. find_folder: the folders where modules may lie, one after the other; false: there
 * are no more. They need not exist, and nobody has checked them. */

#ifdef SIMBA_WAY_TO_LIBRARY

/* The program, which has the library in itself and shows its names. Without /proc there is the name
 * by which it was started. */
static bool find_program(char ret_path[PATH_MAX])
{
    const char *name = (const char *)getauxval(AT_EXECFN);

    return realpath("/proc/self/exe", ret_path) != NULL ||
           (name != NULL && realpath(name, ret_path) != NULL);
}

/* Modules lie beside the program, where it was built; or beside the library that is installed with
 * it, wherever the tree was put; or where the library was to be installed. The path has no links,
 * so a ".." is the folder above in its text, too. */
static bool find_folder(size_t index, const char *program, char ret_folder[PATH_MAX])
{
    size_t place = program != NULL ? index : index + 2;
    const char *way = SIMBA_WAY_TO_LIBRARY;
    struct sb_text text;
    size_t length;

    sb_text_init(&text, ret_folder, PATH_MAX);
    if (place > 2)
        return false;
    if (place == 2) {
        sb_text_add(&text, "%s/", SIMBA_LIBRARY_FOLDER);
    } else {
        length = (size_t)(strrchr(program, '/') - program);
        for (; place == 1 && strncmp(way, "../", 3) == 0; way += 3)
            while (length > 0 && program[--length] != '/') {
            }
        sb_text_add(&text, "%.*s/%s%s", (int)length, program, place == 1 ? way : "",
                    place == 1 ? "/" : "");
    }
    sb_text_add(&text, "simba-" SIMBA_VERSION);
    return !text.cut;
}

#else

static char library[PATH_MAX]; /* empty: not known */

/* Now, because what the loader knows may be relative to where the process was started. */
__attribute__((constructor)) static void remember_library(void)
{
    Dl_info found;
    char path[PATH_MAX];

    if (dladdr(&library, &found) != 0 && realpath(found.dli_fname, path) != NULL)
        sb_text_copy(library, sizeof library, path);
}

static bool find_program(char ret_path[PATH_MAX])
{
    sb_text_copy(ret_path, PATH_MAX, library);
    return library[0] != '\0';
}

/* Modules lie beside the shared library. */
static bool find_folder(size_t index, const char *program, char ret_folder[PATH_MAX])
{
    struct sb_text text;

    if (index > 0 || program == NULL)
        return false;
    sb_text_init(&text, ret_folder, PATH_MAX);
    sb_text_add(&text, "%.*s/simba-" SIMBA_VERSION, (int)(strrchr(program, '/') - program),
                program);
    return !text.cut;
}

#endif

/* ---- Loading --------------------------------------------------------------------------------- */

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
    const char *known = find_program(program) ? program : NULL;
    struct simba_error why;
    struct sb_text text;
    bool refused = false;
    int code = sb_error_set(error, SIMBA_ECONFIG, "the library's folder is not known");

    for (size_t i = 0; find_folder(i, known, folder); i++) {
        sb_text_init(&text, path, PATH_MAX);
        sb_text_add(&text, "%s/%s", folder, file);
        if (text.cut)
            continue;
        if (sb_trusted_code(kind, path, known, &why) == SIMBA_OK)
            return SIMBA_OK;
        if (!refused)
            code = sb_error_set_backend(error, load_code(why.backend_code), why.backend_code, "%s",
                                        why.text);
        refused = refused || why.backend_code != ENOENT;
    }
    return code;
}

/* Without a lock, because a library may do anything while it is loaded. Two threads that load the
 * same file at a time get the same object. By the path that was checked, not by a descriptor: the
 * module finds its libraries beside that path. Only users who are trusted can put another file
 * there. */
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

    if (found->abi != own.abi || found->dialect != own.dialect || found->driver != own.driver)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "belongs to another build; if Simba was updated, restart this process");
    if (found->open != own.open)
        return sb_error_set(
            error, SIMBA_ECONFIG,
            "uses another copy of the library, which this process has loaded as well");
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
        return sb_error_set(error, why.code, "the backend '%s' cannot be loaded: %s%s%s",
                            entry->name, why.text,
                            why.backend_code == ENOENT ? "; on Debian install libsimba0-" : "",
                            why.backend_code == ENOENT ? entry->name : "");
    module = object;
    if (check_library(&module->library, &why) != SIMBA_OK)
        return sb_error_set(error, why.code, "the backend '%s' cannot be loaded: %s %s",
                            entry->name, path, why.text);
    atomic_store(&entry->module, module);
    return SIMBA_OK;
}

/* It is kept: an update may remove the file, and connections come and go. */
int sb_module_load_tls(const struct sb_wire_tls_ops **ret_ops, struct simba_error *error)
{
    static _Atomic(const struct sb_module_tls *) loaded;
    const struct sb_module_tls *tls = atomic_load(&loaded);
    char path[PATH_MAX];
    const void *object = tls;
    struct simba_error why;
    int code = SIMBA_OK;

    if (tls == NULL)
        code = open_file("wire-tls.so", "simba_private_tls_module", path, &object, &why);
    if (code != SIMBA_OK)
        return sb_error_set(error, code, "TLS cannot be used: %s%s", why.text,
                            why.backend_code == ENOENT ? "; on Debian install libsimba0" : "");
    tls = object;
    if (check_library(&tls->library, &why) != SIMBA_OK)
        return sb_error_set(error, why.code, "TLS cannot be used: %s %s", path, why.text);
    atomic_store(&loaded, tls);
    *ret_ops = tls->ops;
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

#if defined(SIMBA_HAVE_REDIS) || defined(SIMBA_HAVE_ETCD)

int sb_module_load_tls(const struct sb_wire_tls_ops **ret_ops, struct simba_error *error)
{
    (void)error;
    *ret_ops = sb_module_tls.ops;
    return SIMBA_OK;
}

#endif

/* All backends are linked in. */
static int load(struct entry *entry, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_EUNSUPPORTED, "the library does not load '%s'", entry->name);
}

#endif

/* ---- Table ----------------------------------------------------------------------------------- */

static struct entry *find_entry(const char *scheme)
{
    size_t length = strcspn(scheme, "+");

    for (size_t i = 0; i < ENTRY_COUNT; i++)
        for (const char *const *word = entries[i].words; *word != NULL; word++)
            if (strlen(*word) == length && memcmp(*word, scheme, length) == 0)
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
