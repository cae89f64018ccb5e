/*
 * registry.c - a chained hash table by mutex, with its nodes in the services.
 */
#include "runtime/registry.h"

#include "base/alloc.h"
#include "base/check.h"
#include "runtime/lock.h"
#include "base/hash.h"

#include <string.h>

#define FIRST_SIZE 64

static struct sb_member **bucket_of(const struct sb_registry *r, const char *mutex)
{
    SB_CHECK((r->size & (r->size - 1)) == 0, "the size of the registry is a power of two");
    return &r->buckets[sb_hash(mutex) & (r->size - 1)];
}

int sb_registry_init(struct sb_registry *r)
{
    memset(r, 0, sizeof *r);
    r->buckets = sb_alloc_zero(FIRST_SIZE * sizeof *r->buckets);
    if (r->buckets == NULL)
        return SIMBA_ENOMEM;
    r->size = FIRST_SIZE;
    sb_lock_init(&r->lock);
    return SIMBA_OK;
}

void sb_registry_destroy(struct sb_registry *r)
{
    if (r->buckets == NULL)
        return;
    SB_CHECK(r->count == 0, "a registry is freed when it is empty");
    pthread_mutex_destroy(&r->lock);
    sb_free(r->buckets);
}

/* Doubles the table. Without memory for it the chains just grow longer. */
static void grow(struct sb_registry *r)
{
    struct sb_registry larger = {.size = r->size * 2};

    SB_CHECK(sb_lock_is_mine(&r->lock), "the registry grows with its lock held");
    larger.buckets = sb_alloc_zero(larger.size * sizeof *larger.buckets);
    if (larger.buckets == NULL)
        return;
    for (size_t i = 0; i < r->size; i++) {
        while (r->buckets[i] != NULL) {
            struct sb_member *member = r->buckets[i];
            struct sb_member **to = bucket_of(&larger, member->mutex);

            r->buckets[i] = member->next;
            member->next = *to;
            *to = member;
        }
    }
    sb_free(r->buckets);
    r->buckets = larger.buckets;
    r->size = larger.size;
}

static bool has(struct sb_registry *r, const char *mutex, const char *id)
{
    SB_CHECK(sb_lock_is_mine(&r->lock), "the registry is searched with its lock held");
    for (const struct sb_member *m = *bucket_of(r, mutex); m != NULL; m = m->next) {
        if (m->id != NULL && strcmp(m->mutex, mutex) == 0 && strcmp(m->id, id) == 0)
            return true;
    }
    return false;
}

int sb_registry_add(struct sb_registry *r, struct sb_member *member)
{
    int code = SIMBA_EEXISTS;

    sb_lock_take(&r->lock);
    if (member->id == NULL || !has(r, member->mutex, member->id)) {
        struct sb_member **bucket;

        if (r->count >= r->size)
            grow(r);
        bucket = bucket_of(r, member->mutex);
        SB_CHECK(*bucket != member, "a member is added once");
        member->next = *bucket;
        *bucket = member;
        r->count++;
        code = SIMBA_OK;
    }
    sb_lock_release(&r->lock);
    return code;
}

void sb_registry_remove(struct sb_registry *r, struct sb_member *member)
{
    struct sb_member **at;

    sb_lock_take(&r->lock);
    for (at = bucket_of(r, member->mutex); *at != NULL; at = &(*at)->next) {
        if (*at == member) {
            SB_CHECK(r->count > 0, "the registry counts its members");
            *at = member->next;
            r->count--;
            break;
        }
    }
    sb_lock_release(&r->lock);
}

static void visit_bucket(struct sb_member *first, const char *mutex, const char *id,
                         void (*visit)(struct sb_member *member, void *argument), void *argument)
{
    for (struct sb_member *m = first; m != NULL; m = m->next) {
        if ((mutex == NULL || strcmp(m->mutex, mutex) == 0) &&
            (id == NULL || (m->id != NULL && strcmp(m->id, id) == 0)))
            visit(m, argument);
    }
}

void sb_registry_visit(struct sb_registry *r, const char *mutex, const char *id,
                       void (*visit)(struct sb_member *member, void *argument), void *argument)
{
    sb_lock_take(&r->lock);
    if (mutex != NULL) {
        visit_bucket(*bucket_of(r, mutex), mutex, id, visit, argument);
    } else {
        for (size_t i = 0; i < r->size; i++)
            visit_bucket(r->buckets[i], mutex, id, visit, argument);
    }
    sb_lock_release(&r->lock);
}
