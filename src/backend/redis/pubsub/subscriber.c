/*
 * subscriber.c - subscriptions of one connection. Must not know what a channel is for.
 *
 * Confirmations come in the order of the subscriptions, one for each channel, so each subscription
 * gets a ticket: its number on this connection. When its ticket is confirmed a listener is told to
 * look, because it has missed all earlier messages.
 */
#include "backend/redis/pubsub/subscriptions.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"

#include <hiredis/hiredis.h>
#include <string.h>
#include <uv.h>

#define CHUNK 256 /* channels in one command, so that a server is not held up */
#define RELEASED "released@@"
#define RESERVED "reserved@@"
#define STANDBY "standby@@"
#define ACQUIRED "acquired@@"

struct sb_redis_subscriber {
    const struct simba_backend_host *host;
    struct sb_redis_listeners *listeners;
    struct sb_redis_reconnecting *connection;
    /* Before the loop waits, the commands of this turn are sent in one write. */
    uv_prepare_t flusher;
    bool has_flusher; /* it is a handle of the loop */
    unsigned parts;   /* the connection and the flusher */
    uint64_t asked;   /* the last ticket */
    uint64_t confirmed;
    uint64_t bulk; /* the last ticket of those given when the connection came up */
    bool dirty;
    void (*closed)(void *user);
    int (*where)(void *user, struct sb_wire_place *ret_place, struct simba_error *error);
    void *user;

    struct sb_redis_argument chunk[CHUNK + 1]; /* the word and the channels */
    size_t chunk_count;
};

/* ---- Sending --------------------------------------------------------------------------------- */

static void on_flush(uv_prepare_t *prepare)
{
    struct sb_redis_subscriber *s = prepare->data;

    uv_prepare_stop(prepare);
    s->dirty = false;
    sb_redis_reconnecting_flush(s->connection);
}

static void push(struct sb_redis_subscriber *s, const struct sb_redis_argument *arguments,
                 size_t count)
{
    if (sb_redis_reconnecting_push(s->connection, arguments, count) != SIMBA_OK) {
        struct simba_error error;

        sb_error_set(&error, SIMBA_ENOMEM, "no memory for a subscription");
        /* Only a new connection makes sure what is subscribed. */
        sb_redis_reconnecting_drop(s->connection, &error);
        return;
    }
    if (!s->has_flusher) { /* a client that never listens has none */
        uv_prepare_init(s->host->loop, &s->flusher);
        s->flusher.data = s;
        s->has_flusher = true;
        s->parts++;
    }
    if (!s->dirty)
        uv_prepare_start(&s->flusher, on_flush);
    s->dirty = true;
}

void sb_redis_subscriber_add(struct sb_redis_subscriber *s, struct sb_redis_listener *listener)
{
    const struct sb_redis_argument arguments[2] = {{"SUBSCRIBE", 9},
                                                   {listener->channel, listener->length}};

    SB_CHECK(listener->at == NULL, "a listener is at one subscriber");
    listener->at = s;
    listener->ticket = 0;
    if (sb_redis_reconnecting_is_ready(s->connection)) {
        listener->ticket = ++s->asked;
        push(s, arguments, 2);
    } else {
        sb_redis_reconnecting_start(s->connection, NULL);
    }
}

void sb_redis_subscriber_remove(struct sb_redis_subscriber *s, struct sb_redis_listener *listener)
{
    const struct sb_redis_argument arguments[2] = {{"UNSUBSCRIBE", 11},
                                                   {listener->channel, listener->length}};

    SB_CHECK(listener->at == s, "a listener is removed where it is");
    listener->at = NULL;
    if (listener->ticket > 0 && sb_redis_reconnecting_is_ready(s->connection) &&
        !sb_redis_listeners_share(s->listeners, listener))
        push(s, arguments, 2);
}

/* ---- Connected ------------------------------------------------------------------------------- */

static void push_chunk(struct sb_redis_subscriber *s)
{
    if (s->chunk_count > 0)
        push(s, s->chunk, s->chunk_count + 1);
    s->chunk_count = 0;
}

static void add_to_chunk(void *argument, struct sb_redis_listener *listener)
{
    struct sb_redis_subscriber *s = argument;

    if (listener->at != s)
        return;
    listener->ticket = ++s->asked;
    s->chunk[++s->chunk_count] = (struct sb_redis_argument){listener->channel, listener->length};
    if (s->chunk_count == CHUNK)
        push_chunk(s);
}

static void on_ready(void *user)
{
    struct sb_redis_subscriber *s = user;

    s->asked = 0;
    s->confirmed = 0;
    s->chunk[0] = (struct sb_redis_argument){"SUBSCRIBE", 9};
    s->chunk_count = 0;
    sb_redis_listeners_each(s->listeners, add_to_chunk, s);
    push_chunk(s);
    s->bulk = s->asked;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static void on_confirmed(struct sb_redis_subscriber *s, const redisReply *channel)
{
    struct sb_redis_listener *listener = NULL;

    s->confirmed++;
    if (s->confirmed == s->bulk)
        s->host->notice(s->host, SIMBA_NOTICE_RELEASED, NULL, NULL);
    if (s->confirmed <= s->bulk)
        return;
    do {
        listener = sb_redis_listeners_next(s->listeners, listener, channel->str, channel->len);
    } while (listener != NULL && (listener->at != s || listener->ticket != s->confirmed));
    if (listener != NULL)
        sb_redis_listener_tell(s->listeners, listener, SIMBA_NOTICE_RELEASED);
}

static bool begins_with(const redisReply *text, const char *word)
{
    return strncmp(text->str, word, strlen(word)) == 0;
}

/* Any client may have published it, so it is only a reason to look. A listener that is told to look
 * does not stop listening, so the table does not change meanwhile. Other messages are ignored. */
static void on_message(struct sb_redis_subscriber *s, const redisReply *channel,
                       const redisReply *text)
{
    struct sb_redis_listener *listener = NULL;

    while ((listener = sb_redis_listeners_next(s->listeners, listener, channel->str,
                                               channel->len)) != NULL) {
        bool observes = sb_redis_listener_is_observer(listener);

        if (begins_with(text, observes ? ACQUIRED : RELEASED))
            sb_redis_listener_tell(s->listeners, listener, SIMBA_NOTICE_RELEASED);
        else if (!observes && begins_with(text, RESERVED))
            sb_redis_listener_tell(s->listeners, listener, SIMBA_NOTICE_RESERVED);
        else if (!observes && begins_with(text, STANDBY))
            sb_redis_listener_tell(s->listeners, listener, SIMBA_NOTICE_STANDBY);
    }
}

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING;
}

/* A refused subscription would make the tickets wrong, so the connection ends and begins anew. */
static void on_pushed(void *user, const redisReply *reply)
{
    struct sb_redis_subscriber *s = user;
    struct simba_error error;

    if (reply->type == REDIS_REPLY_ERROR) {
        sb_error_set(&error, SIMBA_EDENIED, "the server does not let this client subscribe: %s",
                     reply->str);
        sb_redis_reconnecting_drop(s->connection, &error);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || !is_text(reply->element[0]) ||
        !is_text(reply->element[1]))
        return; /* the answer to a PING */
    if (strcmp(reply->element[0]->str, "subscribe") == 0)
        on_confirmed(s, reply->element[1]);
    else if (strcmp(reply->element[0]->str, "message") == 0 && is_text(reply->element[2]))
        on_message(s, reply->element[1], reply->element[2]);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

void sb_redis_subscriber_drop(struct sb_redis_subscriber *s, const struct simba_error *error)
{
    sb_redis_reconnecting_drop(s->connection, error);
}

void sb_redis_subscriber_retry(struct sb_redis_subscriber *s)
{
    sb_redis_reconnecting_retry(s->connection);
}

static void release(void *part_of)
{
    struct sb_redis_subscriber *s = part_of;
    void (*closed)(void *user) = s->closed;
    void *user = s->user;

    SB_CHECK(s->parts > 0, "a part of a subscriber is closed once");
    if (--s->parts > 0)
        return;
    sb_free(s);
    closed(user);
}

static void on_flusher_closed(uv_handle_t *handle)
{
    release(handle->data);
}

static int where(void *user, struct sb_wire_place *ret_place, struct simba_error *error)
{
    struct sb_redis_subscriber *s = user;

    return s->where(s->user, ret_place, error);
}

static const struct sb_redis_reconnecting_events connection_events = {on_ready, on_pushed, release,
                                                                      NULL};

struct sb_redis_subscriber *
sb_redis_subscriber_create(const struct sb_redis_reconnecting_config *config,
                           struct sb_redis_listeners *listeners, void (*closed)(void *user))
{
    struct sb_redis_subscriber *s = sb_alloc_zero(sizeof *s);
    struct sb_redis_reconnecting_config own = *config;

    if (s == NULL)
        return NULL;
    s->host = config->host;
    s->listeners = listeners;
    s->closed = closed;
    s->where = config->where;
    s->user = config->user;
    own.where = where;
    own.events = &connection_events;
    own.user = s;
    s->connection = sb_redis_reconnecting_create(&own);
    if (s->connection == NULL) {
        sb_free(s);
        return NULL;
    }
    s->parts = 1;
    return s;
}

void sb_redis_subscriber_close(struct sb_redis_subscriber *s)
{
    if (s->has_flusher)
        uv_close((uv_handle_t *)&s->flusher, on_flusher_closed);
    sb_redis_reconnecting_close(s->connection);
}
