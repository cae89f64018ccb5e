/*
 * keys.h - the names of keys and channels, which contenders of every language agree on; those of
 * the JVM know neither the counter, nor the reservation, nor the properties.
 *
 *     simba:{MUTEX}             the owner's key, and the channel of all changes
 *     simba:{MUTEX}:contender   the wait queue
 *     simba:{MUTEX}:fence       the counter behind the token
 *     simba:{MUTEX}:reserved    the waiter that the free mutex is reserved for
 *     simba:{MUTEX}:property    a hash of the mutex's properties
 *     simba:{MUTEX}:ID          the channel of one contender
 */
#ifndef SB_REDIS_KEYS_H
#define SB_REDIS_KEYS_H

#include "backend/redis/wire/resp.h"

#include <simba/simba.h>

#define SB_REDIS_KEY_PATTERN "simba:{*}*" /* all keys, for SCAN */
#define SB_REDIS_KEY_MAX (SIMBA_MUTEX_MAX + 24)
#define SB_REDIS_CHANNEL_MAX (SIMBA_MUTEX_MAX + SIMBA_ID_MAX + 16)
#define SB_REDIS_CHANNEL_MUTEX_AT 7 /* where MUTEX begins in the name of a channel */

enum { SB_REDIS_KEY_RESERVED = 3, SB_REDIS_KEY_PROPERTY, SB_REDIS_KEYS };

/* The keys, as arguments of a script: all of them have the first three. */
struct sb_redis_keys {
    char owner[SB_REDIS_KEY_MAX];
    char queue[SB_REDIS_KEY_MAX];
    char fence[SB_REDIS_KEY_MAX];
    char reserved[SB_REDIS_KEY_MAX];
    char property[SB_REDIS_KEY_MAX];
    struct sb_redis_argument arguments[SB_REDIS_KEYS];
};

void sb_redis_keys_make(struct sb_redis_keys *keys, const char *mutex);

/* The mutex that a key belongs to, whichever of the first four it is. False for other keys, and for
 * what cannot be the name of a mutex. */
bool sb_redis_key_mutex(const char *key, size_t length, char ret_mutex[SIMBA_MUTEX_MAX + 1]);

/* The channel of a contender, or of the mutex (`id` NULL). Returns its length. */
size_t sb_redis_channel_make(char target[SB_REDIS_CHANNEL_MAX], const char *mutex, const char *id);

#endif
