/*
 * latch.c - the table of mutexes, with their latches. Must not know jobs.
 */
#include "backend/etcd/store/latch.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/text.h"

#include <string.h>

static struct sb_etcd_mutex *mutex_of(struct sb_hash_node *node)
{
    return node != NULL ? SB_CONTAINER(struct sb_etcd_mutex, node, node) : NULL;
}

static struct sb_etcd_mutex *next_mutex_after(const struct sb_hash_table *t,
                                              const struct sb_etcd_mutex *after)
{
    return mutex_of(sb_hash_table_next(t, after != NULL ? &after->node : NULL));
}

/* ---- Mutexes --------------------------------------------------------------------------------- */

static void free_latch(struct sb_etcd_latch *latch)
{
    sb_etcd_unwatch(&latch->mutex->store->watches, &latch->watcher);
    sb_free(latch);
}

static void free_mutex(struct sb_etcd_mutex *mutex)
{
    sb_hash_table_remove(&mutex->store->mutexes, &mutex->node);
    sb_etcd_unwatch(&mutex->store->watches, &mutex->watcher);
    sb_etcd_unwatch(&mutex->store->watches, &mutex->properties);
    while (mutex->latches != NULL) {
        struct sb_etcd_latch *latch = mutex->latches;

        mutex->latches = latch->next;
        free_latch(latch);
    }
    sb_free(mutex);
}

void sb_etcd_mutexes_free(struct sb_hash_table *t)
{
    struct sb_etcd_mutex *mutex = t->buckets != NULL ? next_mutex_after(t, NULL) : NULL;

    while (mutex != NULL) {
        struct sb_etcd_mutex *next = next_mutex_after(t, mutex);

        free_mutex(mutex);
        mutex = next;
    }
    sb_hash_table_free(t);
}

struct sb_etcd_mutex *sb_etcd_mutex_find(const struct sb_hash_table *t, const char *name)
{
    uint32_t hash = sb_hash(name);
    struct sb_hash_node *node = sb_hash_table_find(t, NULL, hash);

    while (node != NULL && strcmp(mutex_of(node)->name, name) != 0)
        node = sb_hash_table_find(t, node, hash);
    return mutex_of(node);
}

struct sb_etcd_mutex *sb_etcd_mutex_ensure(simba_backend *store, const char *name)
{
    struct sb_etcd_mutex *mutex = sb_etcd_mutex_find(&store->mutexes, name);
    size_t size = strlen(name) + 1;

    if (mutex != NULL)
        return mutex;
    mutex = sb_alloc_zero(sizeof *mutex + size);
    if (mutex == NULL)
        return NULL;
    memcpy(mutex->name, name, size);
    mutex->store = store;
    sb_hash_table_add(&store->mutexes, &mutex->node, sb_hash(name));
    return mutex;
}

void sb_etcd_mutex_drop(struct sb_etcd_mutex *mutex)
{
    if (mutex->latches == NULL && mutex->users == 0 && mutex->observers == 0)
        free_mutex(mutex);
}

/* ---- Latches --------------------------------------------------------------------------------- */

struct sb_etcd_latch *sb_etcd_latch_find(const struct sb_etcd_mutex *mutex, const char *id)
{
    struct sb_etcd_latch *latch = mutex->latches;

    while (latch != NULL && strcmp(latch->id, id) != 0)
        latch = latch->next;
    return latch;
}

/* The first lease that no contender of the mutex has. */
static struct sb_etcd_lease *free_lease(const struct sb_etcd_mutex *mutex)
{
    struct sb_etcd_leases *leases = &mutex->store->leases;
    struct sb_etcd_lease *lease;

    for (size_t skip = 0;; skip++) {
        const struct sb_etcd_latch *latch = mutex->latches;

        lease = sb_etcd_lease_take(leases, skip);
        while (latch != NULL && latch->lease != lease)
            latch = latch->next;
        if (lease == NULL || latch == NULL)
            return lease;
    }
}

struct sb_etcd_latch *sb_etcd_latch_ensure(struct sb_etcd_mutex *mutex, const char *id)
{
    struct sb_etcd_latch *latch = sb_etcd_latch_find(mutex, id);
    struct sb_etcd_lease *lease;
    size_t size = strlen(id) + 1;

    if (latch != NULL)
        return latch;
    lease = free_lease(mutex);
    latch = lease != NULL ? sb_alloc_zero(sizeof *latch + size) : NULL;
    if (latch == NULL)
        return NULL;
    memcpy(latch->id, id, size);
    latch->mutex = mutex;
    latch->lease = lease;
    lease->users++;
    latch->withdraw_ms = SIMBA_INFINITE;
    latch->next = mutex->latches;
    mutex->latches = latch;
    return latch;
}

void sb_etcd_latch_drop(struct sb_etcd_latch *latch)
{
    struct sb_etcd_latch **link = &latch->mutex->latches;

    if (latch->key != SB_ETCD_KEY_NONE || latch->active != NULL || latch->listening ||
        latch->doubt_until_ms != 0 || latch->untold_release != 0)
        return;
    SB_CHECK(latch->queue == NULL, "no job waits for a latch that has none");
    while (*link != NULL && *link != latch)
        link = &(*link)->next;
    SB_CHECK(*link == latch, "a latch is in the list of its mutex");
    *link = latch->next;
    SB_CHECK(latch->lease->users > 0, "a lease counts its latches");
    latch->lease->users--;
    free_latch(latch);
}

void sb_etcd_latch_forget(struct sb_etcd_latch *latch)
{
    latch->key = SB_ETCD_KEY_NONE;
    latch->granted = false;
    latch->leaving = false;
    latch->stuck = false;
    latch->created = 0;
    latch->fence = 0;
    latch->before = 0;
    latch->withdraw_ms = SIMBA_INFINITE;
    sb_etcd_unwatch(&latch->mutex->store->watches, &latch->watcher);
}

void sb_etcd_latch_key(char ret_key[SB_ETCD_KEY_SIZE], const struct sb_etcd_latch *latch)
{
    SB_CHECK(latch->lease->id != 0, "a key is named after its lease");
    sb_etcd_key(ret_key, latch->mutex->store->options.prefix, latch->mutex->name, latch->lease->id);
}

void sb_etcd_latches_each(simba_backend *store,
                          void (*visit)(void *argument, struct sb_etcd_latch *latch),
                          void *argument)
{
    struct sb_etcd_mutex *mutex = next_mutex_after(&store->mutexes, NULL);

    while (mutex != NULL) {
        struct sb_etcd_mutex *next_mutex = next_mutex_after(&store->mutexes, mutex);
        struct sb_etcd_latch *latch = mutex->latches;

        mutex->users++; /* it stays while its latches are visited */
        while (latch != NULL) {
            struct sb_etcd_latch *next = latch->next;

            visit(argument, latch);
            latch = next;
        }
        mutex->users--;
        sb_etcd_mutex_drop(mutex);
        mutex = next_mutex;
    }
}
