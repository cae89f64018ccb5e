/*
 * registry.h - who takes part in which mutex: finds the services that a notice of the store is for.
 */
#ifndef SB_RUNTIME_REGISTRY_H
#define SB_RUNTIME_REGISTRY_H

#include <simba/backend.h>

#include <pthread.h>

/* Lives in its service. The strings are the service's. */
struct sb_member {
    const char *mutex;
    const char *id; /* NULL: an observer */
    struct sb_member *next;
    struct sb_member *found; /* links what a visit has found; the visitor's */
};

struct sb_registry {
    pthread_mutex_t lock;
    struct sb_member **buckets;
    size_t size; /* of buckets, a power of two */
    size_t count;
};

int sb_registry_init(struct sb_registry *registry);
void sb_registry_destroy(struct sb_registry *registry);

/* SIMBA_EEXISTS when the mutex has a contender with this id already: both would own. From any
 * thread. */
int sb_registry_add(struct sb_registry *registry, struct sb_member *member);
void sb_registry_remove(struct sb_registry *registry, struct sb_member *member);

/* Calls `visit` for all members of a mutex, or of all when it is NULL, with this id, or with any
 * when it is NULL, under the lock: it must not add, remove or call anything foreign. */
void sb_registry_visit(struct sb_registry *registry, const char *mutex, const char *id,
                       void (*visit)(struct sb_member *member, void *argument), void *argument);

#endif
