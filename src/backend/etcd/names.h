/*
 * names.h - the keys of mutexes, contenders and properties, as bytes and as names.
 *
 *     PREFIX NAME "/" LEASE            a contender, as Go's concurrency package names it
 *     PREFIX ".simba/" NAME "/" PROPERTY
 */
#ifndef SB_ETCD_NAMES_H
#define SB_ETCD_NAMES_H

#include "backend/etcd/options.h"

#define SB_ETCD_PROPERTIES ".simba/"
#define SB_ETCD_KEY_SIZE (SB_ETCD_PREFIX_MAX + SIMBA_MUTEX_MAX + SIMBA_PROPERTY_NAME_MAX + 16)

/* A name below that of the properties would be taken for one of them. */
int sb_etcd_check_mutex(const char *mutex, struct simba_error *error);

/* The keys of all contenders of a mutex begin with it. */
void sb_etcd_folder(char ret_key[SB_ETCD_KEY_SIZE], const char *prefix, const char *mutex);
void sb_etcd_key(char ret_key[SB_ETCD_KEY_SIZE], const char *prefix, const char *mutex,
                 int64_t lease);
void sb_etcd_property_key(char ret_key[SB_ETCD_KEY_SIZE], const char *prefix, const char *mutex,
                          const char *property);

/* The first key behind all that begin with `key`, which ends in a slash. */
void sb_etcd_range_end(char ret_end[SB_ETCD_KEY_SIZE], const char *key);

/* Whether the key, of which the server says that this lease holds it, is that of a contender:
 * writes the name of its mutex. */
bool sb_etcd_mutex_of(char ret_mutex[SIMBA_MUTEX_MAX + 1], const char *prefix, const void *key,
                      size_t length, int64_t lease);

/* Whether the key of another program is one that this client can name in a request, and no folder:
 * writes it as text. */
bool sb_etcd_key_text(char ret_key[SB_ETCD_KEY_SIZE], const void *key, size_t length);

/* What stands behind the last slash of a contender's key. */
int64_t sb_etcd_lease_of(const void *key, size_t length);

/* The id of a contender: its value. Others than Simba leave that empty, or write what they like:
 * then it is told by the lease. */
void sb_etcd_id_of(char ret_id[SIMBA_ID_MAX + 1], const void *value, size_t length, int64_t lease);

#endif
