/*
 * keys.c - the names of keys and channels.
 */
#include "backend/redis/keys.h"

#include <string.h>

#define PREFIX "simba:{"
#define QUEUE "}:contender"
#define FENCE "}:fence"
#define RESERVED "}:reserved"
#define PROPERTY "}:property"

static struct sb_redis_argument make_key(char target[SB_REDIS_KEY_MAX], const char *mutex,
                                         size_t length, const char *suffix)
{
    size_t suffix_length = strlen(suffix);

    memcpy(target, PREFIX, sizeof PREFIX - 1);
    memcpy(target + sizeof PREFIX - 1, mutex, length);
    memcpy(target + sizeof PREFIX - 1 + length, suffix, suffix_length);
    return (struct sb_redis_argument){target, sizeof PREFIX - 1 + length + suffix_length};
}

static size_t mutex_length(const char *mutex)
{
    return strnlen(mutex, SIMBA_MUTEX_MAX);
}

void sb_redis_keys_make(struct sb_redis_keys *keys, const char *mutex)
{
    size_t length = mutex_length(mutex);

    keys->arguments[0] = make_key(keys->owner, mutex, length, "}");
    keys->arguments[1] = make_key(keys->queue, mutex, length, QUEUE);
    keys->arguments[2] = make_key(keys->fence, mutex, length, FENCE);
    keys->arguments[SB_REDIS_KEY_RESERVED] = make_key(keys->reserved, mutex, length, RESERVED);
    keys->arguments[SB_REDIS_KEY_PROPERTY] = make_key(keys->property, mutex, length, PROPERTY);
}

/* The end tells which key it is, whatever is in the name of the mutex. */
static size_t suffix_length(const char *key, size_t length)
{
    static const char *const suffixes[] = {"}", QUEUE, FENCE, RESERVED};

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        size_t suffix = strlen(suffixes[i]);

        if (length > suffix && memcmp(key + length - suffix, suffixes[i], suffix) == 0)
            return suffix;
    }
    return 0;
}

bool sb_redis_key_mutex(const char *key, size_t length, char ret_mutex[SIMBA_MUTEX_MAX + 1])
{
    size_t around = sizeof PREFIX - 1 + suffix_length(key, length);
    char mutex[SIMBA_MUTEX_MAX + 1];

    if (around == sizeof PREFIX - 1 || length <= around || length - around > SIMBA_MUTEX_MAX ||
        memcmp(key, PREFIX, sizeof PREFIX - 1) != 0)
        return false;
    memcpy(mutex, key + sizeof PREFIX - 1, length - around);
    mutex[length - around] = '\0';
    if (strlen(mutex) != length - around || simba_mutex_validate(mutex, NULL) != SIMBA_OK)
        return false;
    memcpy(ret_mutex, mutex, sizeof mutex);
    return true;
}

size_t sb_redis_channel_make(char target[SB_REDIS_CHANNEL_MAX], const char *mutex, const char *id)
{
    struct sb_redis_argument channel = make_key(target, mutex, mutex_length(mutex), "}");
    size_t length = channel.length;
    size_t id_length;

    if (id == NULL)
        return length;
    id_length = strnlen(id, SIMBA_ID_MAX);
    target[length++] = ':';
    memcpy(target + length, id, id_length);
    return length + id_length;
}
