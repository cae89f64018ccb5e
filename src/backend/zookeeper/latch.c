/*
 * latch.c - the table of places and latches. Must not know calls.
 */
#include "backend/zookeeper/latch.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"

#include <string.h>

#define SIZE_MIN 64

int sb_zk_places_init(struct sb_zk_places *t)
{
    t->buckets = sb_alloc_zero(SIZE_MIN * sizeof *t->buckets);
    if (t->buckets == NULL)
        return SIMBA_ENOMEM;
    t->size = SIZE_MIN;
    return SIMBA_OK;
}

static void free_latches(struct sb_zk_place *place)
{
    while (place->latches != NULL) {
        struct sb_zk_latch *latch = place->latches;

        place->latches = latch->next;
        sb_free(latch);
    }
}

void sb_zk_places_free(struct sb_zk_places *t)
{
    for (size_t i = 0; i < t->size; i++)
        while (t->buckets[i] != NULL) {
            struct sb_zk_place *place = t->buckets[i];

            t->buckets[i] = place->next;
            free_latches(place);
            sb_free(place);
        }
    sb_free(t->buckets);
}

static struct sb_zk_place **bucket_of(const struct sb_zk_places *t, const char *mutex)
{
    return &t->buckets[sb_hash(mutex) & (t->size - 1)];
}

struct sb_zk_place *sb_zk_place_find(const struct sb_zk_places *t, const char *mutex)
{
    struct sb_zk_place *place = *bucket_of(t, mutex);

    while (place != NULL && strcmp(place->mutex, mutex) != 0)
        place = place->next;
    return place;
}

/* Without memory the chains just become longer. */
static void grow(struct sb_zk_places *t)
{
    struct sb_zk_places larger = {.size = t->size * 2, .count = t->count};

    larger.buckets = sb_alloc_zero(larger.size * sizeof *larger.buckets);
    if (larger.buckets == NULL)
        return;
    for (size_t i = 0; i < t->size; i++)
        while (t->buckets[i] != NULL) {
            struct sb_zk_place *place = t->buckets[i];
            struct sb_zk_place **bucket = bucket_of(&larger, place->mutex);

            t->buckets[i] = place->next;
            place->next = *bucket;
            *bucket = place;
        }
    sb_free(t->buckets);
    *t = larger;
}

struct sb_zk_place *sb_zk_place_ensure(struct sb_zk_places *t, const char *mutex)
{
    struct sb_zk_place *place = sb_zk_place_find(t, mutex);
    struct sb_zk_place **bucket;

    if (place != NULL)
        return place;
    place = sb_alloc_zero(sizeof *place);
    if (place == NULL)
        return NULL;
    sb_text_copy(place->mutex, sizeof place->mutex, mutex);
    if (t->count >= t->size)
        grow(t);
    bucket = bucket_of(t, mutex);
    place->next = *bucket;
    *bucket = place;
    t->count++;
    return place;
}

void sb_zk_place_drop(struct sb_zk_places *t, struct sb_zk_place *place)
{
    struct sb_zk_place **link;

    if (place->latches != NULL || place->jobs > 0 || place->observers > 0)
        return;
    link = bucket_of(t, place->mutex);
    while (*link != place)
        link = &(*link)->next;
    *link = place->next;
    t->count--;
    sb_free(place);
}

struct sb_zk_latch *sb_zk_latch_find(const struct sb_zk_place *place, const char *id)
{
    struct sb_zk_latch *latch = place->latches;

    while (latch != NULL && strcmp(latch->id, id) != 0)
        latch = latch->next;
    return latch;
}

struct sb_zk_latch *sb_zk_latch_ensure(struct sb_zk_place *place, const char *id)
{
    struct sb_zk_latch *latch = sb_zk_latch_find(place, id);

    if (latch != NULL)
        return latch;
    latch = sb_alloc_zero(sizeof *latch);
    if (latch == NULL)
        return NULL;
    sb_text_copy(latch->id, sizeof latch->id, id);
    latch->place = place;
    latch->withdraw_ms = SIMBA_INFINITE;
    latch->next = place->latches;
    place->latches = latch;
    return latch;
}

void sb_zk_latch_drop(struct sb_zk_latch *latch)
{
    struct sb_zk_latch **link = &latch->place->latches;

    if (latch->node != SB_ZK_NODE_NONE || latch->active != NULL || latch->queue != NULL ||
        latch->listening)
        return;
    while (*link != latch)
        link = &(*link)->next;
    *link = latch->next;
    sb_free(latch);
}

void sb_zk_latch_forget_node(struct sb_zk_latch *latch)
{
    latch->node = SB_ZK_NODE_NONE;
    latch->granted = false;
    latch->leaving = false;
    latch->checked = false;
    latch->stuck = false;
    latch->czxid = 0;
    latch->withdraw_ms = SIMBA_INFINITE;
    latch->uuid[0] = '\0';
    latch->name[0] = '\0';
    sb_zk_latch_forget_turn(latch);
}

void sb_zk_latch_forget_turn(struct sb_zk_latch *latch)
{
    latch->watches_self = false;
    latch->second = false;
    latch->first = false;
}

void sb_zk_latches_each(struct sb_zk_places *t,
                        void (*visit)(void *argument, struct sb_zk_latch *latch), void *argument)
{
    for (size_t i = 0; i < t->size; i++)
        for (struct sb_zk_place *place = t->buckets[i]; place != NULL;) {
            struct sb_zk_place *next_place = place->next;
            struct sb_zk_latch *latch = place->latches;

            place->jobs++; /* it stays while its latches are visited */
            while (latch != NULL) {
                struct sb_zk_latch *next = latch->next;

                visit(argument, latch);
                latch = next;
            }
            place->jobs--;
            sb_zk_place_drop(t, place);
            place = next_place;
        }
}
