/*
 * sqlite_memory_test.c - allocations of SQLite itself fail in turn.
 *
 *     fault-sqlite-memory [PATTERN]
 *
 * A new file takes two thousand of them, a contest two hundred.
 */
#include "heap.h"
#include "torture.h"

#include <simba/simba.h>

#include <sqlite3.h>
#include <stddef.h>

static struct shortage none = {.piece = "allocation"};
static struct shortage allocations = {.piece = "allocation of SQLite", .code = SIMBA_ENOMEM};
static sqlite3_mem_methods plain;

static void *allocate(int size)
{
    return shortage_strikes(&allocations) ? NULL : plain.xMalloc(size);
}

static void *resize(void *memory, int size)
{
    return shortage_strikes(&allocations) ? NULL : plain.xRealloc(memory, size);
}

static int install(void)
{
    sqlite3_mem_methods methods;
    int code = sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain);

    methods = plain;
    methods.xMalloc = allocate;
    methods.xRealloc = resize;
    if (code == SQLITE_OK)
        code = sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
    return code == SQLITE_OK ? sqlite3_initialize() : code;
}

int main(int argc, char **argv)
{
    const struct torture torture = {
        .shortage = &allocations,
        .scenes = scenes,
        .store = "sqlite",
        .stride = 31,
        .open_first = true,
    };

    if (heap_install(&none) != SIMBA_OK || install() != SQLITE_OK)
        return 1;
    return torture_run(&torture, argc > 1 ? argv[1] : NULL);
}
