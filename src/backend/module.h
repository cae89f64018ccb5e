/*
 * module.h - how the library gets a backend: linked in, or loaded when its first client is opened.
 *
 * Each store has a client library, and those have libraries of their own; a program that uses one
 * store should not pay for the start of all. So the shared library, and the program, have memory
 * and SQLite in them and load the others from the folder simba-VERSION; in the static library all
 * are linked in.
 */
#ifndef SB_BACKEND_MODULE_H
#define SB_BACKEND_MODULE_H

#include "backend/sql/driver.h"
#include "base/shared.h"

#include <simba/backend.h>

#include <limits.h>

#define SB_MODULES_MAX 8

struct sb_wire_tls_ops;

/* What a file in the folder of the modules has under the name `symbol`. It is never unloaded:
 * whatever library is behind it may have threads. SIMBA_ECONFIG: it cannot be loaded.
 * SIMBA_EUNSUPPORTED: the library was built to load nothing. */
int sb_module_open(const char *file, const char *symbol, const void **ret_object,
                   struct simba_error *error) SB_SHARED("module_open");

/* The path of a file in the folder of the modules that may be run or loaded: see sb_trusted_code.
 * `kind` names it in errors. SIMBA_ECONFIG: there is none. */
int sb_module_path(const char *kind, const char *file, char ret_path[PATH_MAX],
                   struct simba_error *error);

/* The library that a module belongs to. One of another build, which an update has put in its place,
 * is refused, and so is one that has found the names of another copy: that has other memory,
 * clients and threads. */
struct sb_module_library {
    uint32_t abi;   /* SIMBA_BACKEND_ABI, as the module was built with it */
    size_t dialect; /* sizes, likewise */
    size_t driver;
    int (*open)(const char *, const char *, const void **, struct simba_error *); /* its own */
};

/* A private name stands for the copy: the address of a public one may be an application's stub. */
#define SB_MODULE_LIBRARY                                                                          \
    {                                                                                              \
        SIMBA_BACKEND_ABI, sizeof(struct sb_sql_dialect), sizeof(struct sb_sql_driver),            \
            sb_module_open                                                                         \
    }

struct sb_module {
    struct sb_module_library library;
    const struct simba_backend_ops *ops;
    const struct sb_sql_dialect *dialect; /* NULL: no SQL database */
};

/* What stores encrypt with: see backend/wire. */
struct sb_module_tls {
    struct sb_module_library library;
    const struct sb_wire_tls_ops *ops;
};

extern const struct sb_module_tls sb_module_tls SB_SHARED("tls_module");

/* Loads it, the first time. SIMBA_ECONFIG: it cannot be loaded. */
int sb_module_load_tls(const struct sb_wire_tls_ops **ret_ops, struct simba_error *error)
    SB_SHARED("module_load_tls");

extern const struct sb_module sb_module_memory;
extern const struct sb_module sb_module_mysql SB_SHARED("mysql_module");
extern const struct sb_module sb_module_postgres SB_SHARED("postgres_module");
extern const struct sb_module sb_module_redis SB_SHARED("redis_module");
extern const struct sb_module sb_module_sqlite;
extern const struct sb_module sb_module_etcd SB_SHARED("etcd_module");
extern const struct sb_module sb_module_zookeeper SB_SHARED("zookeeper_module");

/* The module that serves a scheme, loaded if need be; NULL where there is none. SIMBA_ECONFIG:
 * there is one, but it cannot be loaded. */
int sb_module_find(const char *scheme, const struct sb_module **ret_module,
                   struct simba_error *error);

/* The schemes of all of them, one after the other, without what may follow a '+'; NULL behind the
 * last. */
const char *sb_module_scheme(size_t index);

/* Whether one of the library's own backends has this name. */
bool sb_module_is_named(const char *name);

#endif
