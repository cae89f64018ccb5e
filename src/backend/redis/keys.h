/*
 * keys.h - the names of keys and channels, which contenders of every language agree on; those of
 * the JVM know neither the counter nor the reservation.
 *
 *     simba:{MUTEX}             the owner's key, and the channel of all changes
 *     simba:{MUTEX}:contender   the wait queue
 *     simba:{MUTEX}:fence       the counter behind the token
 *     simba:{MUTEX}:reserved    the waiter that the free mutex is reserved for
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

/* The four keys, as arguments of a script. */
struct sb_redis_keys {
    char owner[SB_REDIS_KEY_MAX];
    char queue[SB_REDIS_KEY_MAX];
    char fence[SB_REDIS_KEY_MAX];
    char reserved[SB_REDIS_KEY_MAX];
    struct sb_redis_argument arguments[4];
};

void sb_redis_keys_make(struct sb_redis_keys *keys, const char *mutex);

/* The mutex that a key belongs to, whichever of the four it is. False for other keys, and for what
 * cannot be the name of a mutex. */
bool sb_redis_key_mutex(const char *key, size_t length, char ret_mutex[SIMBA_MUTEX_MAX + 1]);

/* The channel of a contender, or of the mutex (`id` NULL). Returns its length. */
size_t sb_redis_channel_make(char target[SB_REDIS_CHANNEL_MAX], const char *mutex, const char *id);

#endif
