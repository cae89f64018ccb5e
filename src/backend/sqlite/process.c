/*
 * process.c - counts the connections of this process, so that a child knows what it was forked from. Must
 * not call SQLite.
 */
#include "backend/sqlite/process.h"

#include "base/error.h"
#include "base/fork.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static unsigned connections;
static bool unusable;

/* The connections belong to the parent. */
static void judge(void)
{
    if (connections > 0)
        unusable = true;
    connections = 0;
}

static struct sb_fork_guard lock_guard = {.lock = &lock, .in_child = judge};

int sb_sqlite_enter(struct simba_error *error)
{
    bool refused;

    sb_fork_guard(&lock_guard);
    pthread_mutex_lock(&lock);
    refused = unusable;
    if (!refused)
        connections++;
    pthread_mutex_unlock(&lock);
    if (!refused)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EFORKED,
                        "this process was forked while its parent had an SQLite database open, so "
                        "SQLite cannot be used in it: fork before the first client is opened, or "
                        "let the child exec");
}

void sb_sqlite_leave(void)
{
    pthread_mutex_lock(&lock);
    connections--;
    pthread_mutex_unlock(&lock);
}
