/*
 * latch.c - the table of mutexes, with their latches and watches. Must not know jobs.
 */
#include "backend/zookeeper/latch/latch.h"

#include "backend/zookeeper/handle/call.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/text.h"

#include <string.h>

/* ---- Mutexes --------------------------------------------------------------------------------- */

static struct sb_zk_mutex *mutex_of(struct sb_hash_node *node)
{
    return node != NULL ? SB_CONTAINER(struct sb_zk_mutex, node, node) : NULL;
}

/* The first where `after` is NULL; NULL: there is none. */
static struct sb_zk_mutex *next_mutex_after(const struct sb_hash_table *t,
                                            const struct sb_zk_mutex *after)
{
    return mutex_of(sb_hash_table_next(t, after != NULL ? &after->node : NULL));
}

static void free_mutex(struct sb_hash_table *t, struct sb_zk_mutex *mutex)
{
    sb_hash_table_remove(t, &mutex->node);
    while (mutex->latches != NULL) {
        struct sb_zk_latch *latch = mutex->latches;

        mutex->latches = latch->next;
        sb_free(latch);
    }
    sb_free(mutex);
}

void sb_zk_mutexes_free(struct sb_hash_table *t)
{
    struct sb_zk_mutex *mutex = t->buckets != NULL ? next_mutex_after(t, NULL) : NULL;

    while (mutex != NULL) {
        struct sb_zk_mutex *next = next_mutex_after(t, mutex);

        free_mutex(t, mutex);
        mutex = next;
    }
    sb_hash_table_free(t);
}

struct sb_zk_mutex *sb_zk_mutex_find(const struct sb_hash_table *t, const char *name)
{
    uint32_t hash = sb_hash(name);
    struct sb_hash_node *node = sb_hash_table_find(t, NULL, hash);

    while (node != NULL && strcmp(mutex_of(node)->name, name) != 0)
        node = sb_hash_table_find(t, node, hash);
    return mutex_of(node);
}

struct sb_zk_mutex *sb_zk_mutex_ensure(struct sb_hash_table *t, const char *name)
{
    struct sb_zk_mutex *mutex = sb_zk_mutex_find(t, name);

    if (mutex != NULL)
        return mutex;
    mutex = sb_alloc_zero(sizeof *mutex);
    if (mutex == NULL)
        return NULL;
    sb_text_copy(mutex->name, sizeof mutex->name, name);
    sb_hash_table_add(t, &mutex->node, sb_hash(name));
    return mutex;
}

void sb_zk_mutex_drop(struct sb_hash_table *t, struct sb_zk_mutex *mutex)
{
    if (mutex->latches == NULL && mutex->users == 0 && mutex->observers == 0)
        free_mutex(t, mutex);
}

/* ---- Latches --------------------------------------------------------------------------------- */

struct sb_zk_latch *sb_zk_latch_find(const struct sb_zk_mutex *mutex, const char *id)
{
    struct sb_zk_latch *latch = mutex->latches;

    while (latch != NULL && strcmp(latch->id, id) != 0)
        latch = latch->next;
    return latch;
}

struct sb_zk_latch *sb_zk_latch_ensure(struct sb_zk_mutex *mutex, const char *id)
{
    struct sb_zk_latch *latch = sb_zk_latch_find(mutex, id);

    if (latch != NULL)
        return latch;
    latch = sb_alloc_zero(sizeof *latch);
    if (latch == NULL)
        return NULL;
    sb_text_copy(latch->id, sizeof latch->id, id);
    latch->mutex = mutex;
    latch->withdraw_ms = SIMBA_INFINITE;
    latch->next = mutex->latches;
    mutex->latches = latch;
    return latch;
}

void sb_zk_latch_drop(struct sb_zk_latch *latch)
{
    struct sb_zk_latch **link = &latch->mutex->latches;

    if (latch->node != SB_ZK_NODE_NONE || latch->active != NULL || latch->listening)
        return;
    SB_CHECK(latch->queue == NULL, "no job waits for a latch that has none");
    while (*link != NULL && *link != latch)
        link = &(*link)->next;
    SB_CHECK(*link == latch, "a latch is in the list of its mutex");
    *link = latch->next;
    sb_free(latch);
}

void sb_zk_latch_set_node(struct sb_zk_latch *latch, const char *name, const struct Stat *stat)
{
    SB_CHECK(latch->node != SB_ZK_NODE_NONE, "only a node that was created can be there");
    latch->node = SB_ZK_NODE_THERE;
    latch->czxid = (uint64_t)stat->czxid;
    sb_text_copy(latch->name, sizeof latch->name, name);
}

void sb_zk_latch_forget_node(struct sb_zk_latch *latch)
{
    latch->node = SB_ZK_NODE_NONE;
    latch->granted = false;
    latch->leaving = false;
    latch->refused = false;
    latch->checked = false;
    latch->stuck = false;
    latch->czxid = 0;
    latch->withdraw_ms = SIMBA_INFINITE;
    latch->uuid[0] = '\0';
    latch->name[0] = '\0';
    sb_zk_latch_forget_succession(latch);
}

void sb_zk_latch_forget_succession(struct sb_zk_latch *latch)
{
    latch->watches_self = false;
    latch->second = false;
    latch->first = false;
}

void sb_zk_latches_each(struct sb_hash_table *t,
                        void (*visit)(void *argument, struct sb_zk_latch *latch), void *argument)
{
    struct sb_zk_mutex *mutex = next_mutex_after(t, NULL);

    while (mutex != NULL) {
        struct sb_zk_mutex *next_mutex = next_mutex_after(t, mutex);
        struct sb_zk_latch *latch = mutex->latches;

        mutex->users++; /* it stays while its latches are visited */
        while (latch != NULL) {
            struct sb_zk_latch *next = latch->next;

            visit(argument, latch);
            latch = next;
        }
        mutex->users--;
        sb_zk_mutex_drop(t, mutex);
        mutex = next_mutex;
    }
}

/* ---- Watches --------------------------------------------------------------------------------- */

/* A contender watches the node before its own, and its own while it is the second; the observers of
 * a mutex share one watch on the leader's node, or on the mutex while nobody leads. All watches of
 * a path are one for the library, so that one is taken back only when nobody else needs it. */

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
    if (mutex->property[0] != '\0' &&
        sb_zk_property_path(path, store->options.base, mutex->name, mutex->property))
        sb_zk_unwatch_node(&store->session, path);
    mutex->watches_children = false;
    mutex->watches_parent = false;
    mutex->property[0] = '\0';
}

void sb_zk_watches_lost(simba_backend *store)
{
    struct sb_zk_mutex *mutex = NULL;

    while ((mutex = next_mutex_after(&store->mutexes, mutex)) != NULL) {
        mutex->watches_children = false;
        mutex->watches_parent = false;
        mutex->watched[0] = '\0';
        mutex->property[0] = '\0';
        for (struct sb_zk_latch *latch = mutex->latches; latch != NULL; latch = latch->next) {
            latch->watched[0] = '\0';
            sb_zk_latch_forget_succession(latch);
        }
    }
}
