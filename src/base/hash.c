/*
 * hash.c - FNV-1a, and a chained hash table whose nodes are in what it holds.
 */
#include "base/hash.h"

#include "base/alloc.h"
#include "base/check.h"

#include <simba/simba.h>

#include <string.h>

#define FIRST_SIZE 64

uint32_t sb_hash_bytes(const char *bytes, size_t length)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    return hash;
}

uint32_t sb_hash(const char *text)
{
    return sb_hash_bytes(text, strlen(text));
}

/* ---- The table ------------------------------------------------------------------------------- */

int sb_hash_table_init(struct sb_hash_table *t)
{
    *t = (struct sb_hash_table){.buckets = sb_alloc_zero(FIRST_SIZE * sizeof *t->buckets)};
    if (t->buckets == NULL)
        return SIMBA_ENOMEM;
    t->size = FIRST_SIZE;
    return SIMBA_OK;
}

void sb_hash_table_free(struct sb_hash_table *t)
{
    sb_free(t->buckets);
    *t = (struct sb_hash_table){0};
}

static struct sb_hash_node **bucket_of(const struct sb_hash_table *t, uint32_t hash)
{
    return &t->buckets[hash & (t->size - 1)];
}

static void insert(struct sb_hash_table *t, struct sb_hash_node *node)
{
    struct sb_hash_node **bucket = bucket_of(t, node->hash);

    node->next = *bucket;
    *bucket = node;
}

static void grow(struct sb_hash_table *t)
{
    struct sb_hash_table larger = {.size = t->size * 2, .count = t->count};

    larger.buckets = sb_alloc_zero(larger.size * sizeof *larger.buckets);
    if (larger.buckets == NULL)
        return;
    for (size_t i = 0; i < t->size; i++) {
        while (t->buckets[i] != NULL) {
            struct sb_hash_node *node = t->buckets[i];

            t->buckets[i] = node->next;
            insert(&larger, node);
        }
    }
    sb_free(t->buckets);
    *t = larger;
}

void sb_hash_table_add(struct sb_hash_table *t, struct sb_hash_node *node, uint32_t hash)
{
    if (t->count >= t->size)
        grow(t);
    node->hash = hash;
    insert(t, node);
    t->count++;
}

void sb_hash_table_remove(struct sb_hash_table *t, struct sb_hash_node *node)
{
    struct sb_hash_node **link = bucket_of(t, node->hash);

    while (*link != NULL && *link != node)
        link = &(*link)->next;
    SB_CHECK(*link == node, "what is removed from a table is in it");
    *link = node->next;
    t->count--;
}

struct sb_hash_node *sb_hash_table_find(const struct sb_hash_table *t,
                                        const struct sb_hash_node *after, uint32_t hash)
{
    struct sb_hash_node *node = after != NULL ? after->next : *bucket_of(t, hash);

    while (node != NULL && node->hash != hash)
        node = node->next;
    return node;
}

struct sb_hash_node *sb_hash_table_next(const struct sb_hash_table *t,
                                        const struct sb_hash_node *after)
{
    size_t bucket = 0;

    if (after != NULL && after->next != NULL)
        return after->next;
    if (after != NULL)
        bucket = (after->hash & (t->size - 1)) + 1;
    while (bucket < t->size && t->buckets[bucket] == NULL)
        bucket++;
    return bucket < t->size ? t->buckets[bucket] : NULL;
}
