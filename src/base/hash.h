/*
 * hash.h - one hash for the names of mutexes, and a table of what has such a name.
 */
#ifndef SB_BASE_HASH_H
#define SB_BASE_HASH_H

#include "base/shared.h"

#include <stddef.h>
#include <stdint.h>

/* FNV-1a with 32 bits: short names, no adversary. It never changes, for files hold what depends on
 * it. */
uint32_t sb_hash(const char *text) SB_SHARED("hash");

/* The same of bytes without a NUL behind them. */
uint32_t sb_hash_bytes(const char *bytes, size_t length) SB_SHARED("hash_bytes");

/* Embedded in what the table holds. */
struct sb_hash_node {
    struct sb_hash_node *next;
    uint32_t hash;
};

/* A chained hash table. It owns its buckets, not the nodes. */
struct sb_hash_table {
    struct sb_hash_node **buckets;
    size_t size; /* of the buckets, a power of two */
    size_t count;
};

/* Returns SIMBA_OK or SIMBA_ENOMEM. A table of zeroed memory, or one that failed, may be freed. */
int sb_hash_table_init(struct sb_hash_table *table) SB_SHARED("hash_table_init");
void sb_hash_table_free(struct sb_hash_table *table) SB_SHARED("hash_table_free");

/* Cannot fail: without memory for more buckets the chains just grow longer. */
void sb_hash_table_add(struct sb_hash_table *table, struct sb_hash_node *node, uint32_t hash)
    SB_SHARED("hash_table_add");
void sb_hash_table_remove(struct sb_hash_table *table, struct sb_hash_node *node)
    SB_SHARED("hash_table_remove");

/* The next node with this hash after `after`, the first where that is NULL; NULL: there is none.
 * The caller compares the names. */
struct sb_hash_node *sb_hash_table_find(const struct sb_hash_table *table,
                                        const struct sb_hash_node *after, uint32_t hash)
    SB_SHARED("hash_table_find");

/* The same for all nodes. A node may be removed once the one after it is known. */
struct sb_hash_node *sb_hash_table_next(const struct sb_hash_table *table,
                                        const struct sb_hash_node *after)
    SB_SHARED("hash_table_next");

#endif
