/*
 * watch.c - what the watches are for: a contender watches the node before its own, and its own
 * while it is the second; the observers of a mutex share one on the leader's node, or on the mutex
 * while nobody leads.
 *
 * All watches of a path are one for the library, so that one is taken back only when nobody else
 * needs it.
 */
#include "backend/zookeeper/handle/call.h"
#include "backend/zookeeper/latch/store.h"

#include <string.h>

static bool is_wanted(const struct sb_zk_mutex *mutex, const char *node)
{
    if (strcmp(mutex->watched, node) == 0)
        return true;
    for (const struct sb_zk_latch *latch = mutex->latches; latch != NULL; latch = latch->next)
        if (strcmp(latch->watched, node) == 0 ||
            (latch->watches_self && strcmp(latch->name, node) == 0))
            return true;
    return false;
}

static void unwatch(simba_backend *store, const struct sb_zk_mutex *mutex, const char *node)
{
    char path[SB_ZK_PATH_SIZE];

    if (!is_wanted(mutex, node) && sb_zk_node_path(path, store->options.base, mutex->name, node))
        sb_zk_unwatch_node(&store->session, path);
}

void sb_zk_unwatch_before(simba_backend *store, struct sb_zk_latch *latch)
{
    char node[SB_ZK_NODE_MAX + 1];

    if (latch->watched[0] == '\0')
        return;
    memcpy(node, latch->watched, sizeof node);
    latch->watched[0] = '\0';
    latch->second = false;
    unwatch(store, latch->mutex, node);
}

void sb_zk_unwatch_self(simba_backend *store, struct sb_zk_latch *latch)
{
    if (!latch->watches_self)
        return;
    sb_zk_latch_forget_succession(latch);
    unwatch(store, latch->mutex, latch->name);
}

void sb_zk_unwatch_observed(simba_backend *store, struct sb_zk_mutex *mutex)
{
    char node[SB_ZK_NODE_MAX + 1];
    char path[SB_ZK_PATH_SIZE];

    memcpy(node, mutex->watched, sizeof node);
    mutex->watched[0] = '\0';
    if (node[0] != '\0')
        unwatch(store, mutex, node);
    sb_zk_mutex_path(path, store->options.base, mutex->name);
    if (mutex->watches_children)
        sb_zk_unwatch_children(&store->session, path);
    if (mutex->watches_parent)
        sb_zk_unwatch_node(&store->session, path);
    mutex->watches_children = false;
    mutex->watches_parent = false;
}

static void forget_watches(struct sb_zk_mutex *mutex)
{
    mutex->watches_children = false;
    mutex->watches_parent = false;
    mutex->watched[0] = '\0';
    for (struct sb_zk_latch *latch = mutex->latches; latch != NULL; latch = latch->next) {
        latch->watched[0] = '\0';
        sb_zk_latch_forget_succession(latch);
    }
}

void sb_zk_watches_lost(simba_backend *store)
{
    struct sb_zk_mutex *mutex = NULL;

    while ((mutex = sb_zk_mutex_next(&store->mutexes, mutex)) != NULL)
        forget_watches(mutex);
}
