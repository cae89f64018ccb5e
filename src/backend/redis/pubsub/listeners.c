/*
 * listeners.c - a hash table by the name of the channel. Owns the listeners; subscribes to
 * nothing itself.
 */
#include "backend/redis/pubsub/subscriptions.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/hash.h"

#include <stddef.h>
#include <string.h>

/* NULL for NULL. */
static struct sb_redis_listener *listener_of(struct sb_hash_node *node)
{
    return node != NULL ? SB_CONTAINER(struct sb_redis_listener, node, node) : NULL;
}

int sb_redis_listeners_init(struct sb_redis_listeners *t, const struct simba_backend_host *host)
{
    memset(t, 0, sizeof *t);
    t->host = host;
    return sb_hash_table_init(&t->table);
}

void sb_redis_listeners_free(struct sb_redis_listeners *t)
{
    struct sb_hash_node *node = sb_hash_table_next(&t->table, NULL);

    while (node != NULL) {
        struct sb_hash_node *next = sb_hash_table_next(&t->table, node);

        sb_free(listener_of(node));
        node = next;
    }
    sb_hash_table_free(&t->table);
}

bool sb_redis_listener_is_observer(const struct sb_redis_listener *listener)
{
    return listener->length == SB_REDIS_CHANNEL_MUTEX_AT + listener->mutex_length + 1;
}

struct sb_redis_listener *sb_redis_listeners_next(const struct sb_redis_listeners *t,
                                                  const struct sb_redis_listener *after,
                                                  const char *channel, size_t length)
{
    const struct sb_hash_node *node = after != NULL ? &after->node : NULL;
    uint32_t hash = sb_hash_bytes(channel, length);
    struct sb_redis_listener *listener;

    do {
        listener = listener_of(sb_hash_table_find(&t->table, node, hash));
        node = listener != NULL ? &listener->node : NULL;
    } while (listener != NULL &&
             (listener->length != length || memcmp(listener->channel, channel, length) != 0));
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

    if (listener == NULL) {
        listener = create(mutex, id);
        if (listener == NULL)
            return NULL;
        sb_hash_table_add(&t->table, &listener->node,
                          sb_hash_bytes(listener->channel, listener->length));
    }
    listener->count++;
    return listener;
}

bool sb_redis_listeners_remove(struct sb_redis_listeners *t, struct sb_redis_listener *listener)
{
    SB_CHECK(listener->count > 0, "a listener is counted as often as it is added");
    if (--listener->count > 0)
        return false;
    sb_redis_listeners_end_wait(t, listener);
    sb_hash_table_remove(&t->table, &listener->node);
    return true;
}

void sb_redis_listeners_begin_wait(struct sb_redis_listeners *t, struct sb_redis_listener *listener,
                                   int64_t since_us)
{
    SB_CHECK(!sb_redis_listener_is_observer(listener), "an observer does not wait");
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
    struct sb_hash_node *node = NULL;

    while ((node = sb_hash_table_next(&t->table, node)) != NULL)
        visit(argument, listener_of(node));
}

void sb_redis_listener_mutex(const struct sb_redis_listener *listener,
                             char ret_mutex[SIMBA_MUTEX_MAX + 1])
{
    memcpy(ret_mutex, listener->channel + SB_REDIS_CHANNEL_MUTEX_AT, listener->mutex_length);
    ret_mutex[listener->mutex_length] = '\0';
}

void sb_redis_listener_tell(const struct sb_redis_listeners *t,
                            const struct sb_redis_listener *listener, enum simba_notice what)
{
    size_t at = SB_REDIS_CHANNEL_MUTEX_AT + listener->mutex_length + 2; /* behind "}:" */
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];

    sb_redis_listener_mutex(listener, mutex);
    if (sb_redis_listener_is_observer(listener)) {
        t->host->notice(t->host, SIMBA_NOTICE_CHANGED, mutex, NULL);
        return;
    }
    SB_CHECK(listener->length - at <= SIMBA_ID_MAX, "the channel of a contender ends in its id");
    memcpy(id, listener->channel + at, listener->length - at);
    id[listener->length - at] = '\0';
    t->host->notice(t->host, what, mutex, id);
}
