/*
 * listeners.c - a chained hash table by the name of the channel. Owns the listeners; subscribes to
 * nothing itself.
 */
#include "backend/redis/pubsub/subscriptions.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"

#include <stddef.h>
#include <string.h>

#define FIRST_SIZE 64

static struct sb_redis_listener **bucket_of(const struct sb_redis_listeners *t, const char *channel,
                                            size_t length)
{
    return &t->buckets[sb_hash_bytes(channel, length) & (t->size - 1)];
}

int sb_redis_listeners_init(struct sb_redis_listeners *t, const struct simba_backend_host *host)
{
    memset(t, 0, sizeof *t);
    t->host = host;
    t->buckets = sb_alloc_zero(FIRST_SIZE * sizeof *t->buckets);
    t->size = FIRST_SIZE;
    return t->buckets != NULL ? SIMBA_OK : SIMBA_ENOMEM;
}

void sb_redis_listeners_free(struct sb_redis_listeners *t)
{
    for (size_t i = 0; t->buckets != NULL && i < t->size; i++) {
        while (t->buckets[i] != NULL) {
            struct sb_redis_listener *listener = t->buckets[i];

            t->buckets[i] = listener->next;
            sb_free(listener);
        }
    }
    sb_free(t->buckets);
    t->buckets = NULL;
}

/* Doubles the table. Without memory for it the chains just grow longer. */
static void grow(struct sb_redis_listeners *t)
{
    struct sb_redis_listeners larger = {.size = t->size * 2};

    larger.buckets = sb_alloc_zero(larger.size * sizeof *larger.buckets);
    if (larger.buckets == NULL)
        return;
    for (size_t i = 0; i < t->size; i++) {
        while (t->buckets[i] != NULL) {
            struct sb_redis_listener *listener = t->buckets[i];
            struct sb_redis_listener **to = bucket_of(&larger, listener->channel, listener->length);

            t->buckets[i] = listener->next;
            listener->next = *to;
            *to = listener;
        }
    }
    sb_free(t->buckets);
    t->buckets = larger.buckets;
    t->size = larger.size;
}

bool sb_redis_listener_is_observer(const struct sb_redis_listener *listener)
{
    return listener->length == SB_REDIS_CHANNEL_MUTEX_AT + listener->mutex_length + 1;
}

struct sb_redis_listener *sb_redis_listeners_next(const struct sb_redis_listeners *t,
                                                  const struct sb_redis_listener *after,
                                                  const char *channel, size_t length)
{
    struct sb_redis_listener *listener =
        after != NULL ? after->next : *bucket_of(t, channel, length);

    while (listener != NULL &&
           (listener->length != length || memcmp(listener->channel, channel, length) != 0))
        listener = listener->next;
    return listener;
}

struct sb_redis_listener *sb_redis_listeners_find(const struct sb_redis_listeners *t,
                                                  const char *mutex, const char *id)
{
    char channel[SB_REDIS_CHANNEL_MAX];
    size_t length = sb_redis_channel_make(channel, mutex, id);
    struct sb_redis_listener *listener = NULL;

    do {
        listener = sb_redis_listeners_next(t, listener, channel, length);
    } while (listener != NULL && (listener->mutex_length != strlen(mutex) ||
                                  sb_redis_listener_is_observer(listener) != (id == NULL)));
    return listener;
}

static struct sb_redis_listener *create(const char *mutex, const char *id)
{
    char channel[SB_REDIS_CHANNEL_MAX];
    size_t length = sb_redis_channel_make(channel, mutex, id);
    size_t mutex_length = strnlen(mutex, SIMBA_MUTEX_MAX);
    struct sb_redis_listener *listener =
        sb_alloc_zero(offsetof(struct sb_redis_listener, channel) + length);

    if (listener == NULL)
        return NULL;
    listener->mutex_length = (uint8_t)mutex_length;
    listener->length = (uint16_t)length;
    memcpy(listener->channel, channel, length);
    return listener;
}

struct sb_redis_listener *sb_redis_listeners_add(struct sb_redis_listeners *t, const char *mutex,
                                                 const char *id)
{
    struct sb_redis_listener *listener = sb_redis_listeners_find(t, mutex, id);
    struct sb_redis_listener **bucket;

    if (listener == NULL) {
        listener = create(mutex, id);
        if (listener == NULL)
            return NULL;
        if (t->count >= t->size)
            grow(t);
        bucket = bucket_of(t, listener->channel, listener->length);
        listener->next = *bucket;
        *bucket = listener;
        t->count++;
    }
    listener->count++;
    return listener;
}

bool sb_redis_listeners_remove(struct sb_redis_listeners *t, struct sb_redis_listener *listener)
{
    struct sb_redis_listener **place = bucket_of(t, listener->channel, listener->length);

    SB_CHECK(listener->count > 0, "a listener is counted as often as it is added");
    if (--listener->count > 0)
        return false;
    sb_redis_listeners_end_wait(t, listener);
    while (*place != NULL && *place != listener)
        place = &(*place)->next;
    SB_CHECK(*place == listener, "a listener is in the table");
    *place = listener->next;
    t->count--;
    return true;
}

void sb_redis_listeners_begin_wait(struct sb_redis_listeners *t, struct sb_redis_listener *listener,
                                   int64_t since_us)
{
    if (listener->waits_since_us != 0 || since_us == 0)
        return;
    listener->waits_since_us = since_us;
    t->waiting++;
}

void sb_redis_listeners_end_wait(struct sb_redis_listeners *t, struct sb_redis_listener *listener)
{
    if (listener->waits_since_us == 0)
        return;
    SB_CHECK(t->waiting > 0, "a contender that waits is counted");
    listener->waits_since_us = 0;
    t->waiting--;
}

bool sb_redis_listeners_share(const struct sb_redis_listeners *t,
                              const struct sb_redis_listener *listener)
{
    const struct sb_redis_listener *other = NULL;

    do {
        other = sb_redis_listeners_next(t, other, listener->channel, listener->length);
    } while (other != NULL && (other == listener || other->at == NULL));
    return other != NULL;
}

void sb_redis_listeners_each(const struct sb_redis_listeners *t,
                             void (*visit)(void *argument, struct sb_redis_listener *listener),
                             void *argument)
{
    for (size_t i = 0; i < t->size; i++)
        for (struct sb_redis_listener *l = t->buckets[i]; l != NULL; l = l->next)
            visit(argument, l);
}

void sb_redis_listener_mutex(const struct sb_redis_listener *listener,
                             char ret_mutex[SIMBA_MUTEX_MAX + 1])
{
    memcpy(ret_mutex, listener->channel + SB_REDIS_CHANNEL_MUTEX_AT, listener->mutex_length);
    ret_mutex[listener->mutex_length] = '\0';
}

void sb_redis_listener_id(const struct sb_redis_listener *listener, char ret_id[SIMBA_ID_MAX + 1])
{
    size_t at = SB_REDIS_CHANNEL_MUTEX_AT + listener->mutex_length + 2; /* behind "}:" */
    size_t length = listener->length - at;

    SB_CHECK(!sb_redis_listener_is_observer(listener) && length <= SIMBA_ID_MAX,
             "the channel of a contender ends in its id");
    memcpy(ret_id, listener->channel + at, length);
    ret_id[length] = '\0';
}

void sb_redis_listener_wake(const struct sb_redis_listeners *t,
                            const struct sb_redis_listener *listener)
{
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];

    sb_redis_listener_mutex(listener, mutex);
    if (sb_redis_listener_is_observer(listener)) {
        t->host->notice(t->host, SIMBA_NOTICE_CHANGED, mutex, NULL);
        return;
    }
    sb_redis_listener_id(listener, id);
    t->host->notice(t->host, SIMBA_NOTICE_RELEASED, mutex, id);
}
