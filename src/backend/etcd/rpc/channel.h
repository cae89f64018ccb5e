/*
 * channel.h - one connection to a member of the cluster: HTTP/2, with all calls on it.
 */
#ifndef SB_ETCD_CHANNEL_H
#define SB_ETCD_CHANNEL_H

#include "backend/etcd/rpc/call.h"

struct sb_etcd_channel_events {
    /* The server speaks HTTP/2: calls may be sent. */
    void (*up)(void *user);
    /* A call is over: of gRPC its status tells how, or `error` where that is not NULL: then it was
     * lost with its stream. It is the user's again. */
    void (*ended)(void *user, struct sb_etcd_call *call, const struct simba_error *error,
                  bool maybe);
    /* It broke; its calls have ended. At most once, perhaps before sb_etcd_channel_flush or
     * sb_etcd_channel_drop returns. */
    void (*down)(void *user, const struct simba_error *error);
    /* After sb_etcd_channel_close; it is gone. */
    void (*closed)(void *user);
};

struct sb_etcd_channel_config {
    struct uv_loop_s *loop;
    const struct sb_wire_endpoint *endpoint;
    const struct sb_wire_tls *tls; /* NULL: plain; outlives the channel */
    int64_t connect_timeout_ms;
    const struct sb_etcd_channel_events *events;
    void *user;
};

enum sb_etcd_channel_state {
    SB_ETCD_CHANNEL_CONNECTING,
    SB_ETCD_CHANNEL_UP, /* calls may be sent */
    SB_ETCD_CHANNEL_BROKEN,
    SB_ETCD_CHANNEL_CLOSING
};

/* To be read by its owner. */
struct sb_etcd_channel {
    struct sb_etcd_channel_config config;
    enum sb_etcd_channel_state state;
    struct sb_wire_stream *stream;
    struct nghttp2_session *session;
    struct sb_etcd_call *calls; /* that were sent */
    struct sb_wire_buffer out;
    int64_t heard_ms; /* when something came last */
    bool receiving;
    char authority[SB_WIRE_PLACE_TEXT_MAX];
};

/* Creates it and begins to connect. NULL when memory is short. */
struct sb_etcd_channel *sb_etcd_channel_open(const struct sb_etcd_channel_config *config);

/* Sends a call with the first messages in its `out`; `token` may be NULL. False: it cannot be sent,
 * and `ended` does not come. */
bool sb_etcd_channel_send(struct sb_etcd_channel *channel, struct sb_etcd_call *call,
                          const char *token);

/* More was added to the `out` of a stream. */
void sb_etcd_channel_resume(struct sb_etcd_channel *channel, struct sb_etcd_call *call);

/* Ends a call without its answer; `ended` does not come. */
void sb_etcd_channel_cancel(struct sb_etcd_channel *channel, struct sb_etcd_call *call);

/* Writes what waits. Happens by itself behind what has come. */
void sb_etcd_channel_flush(struct sb_etcd_channel *channel);

/* Since when the server owes an answer, of all calls the longest; SIMBA_INFINITE: it owes none. */
int64_t sb_etcd_channel_owes_since_ms(const struct sb_etcd_channel *channel);

/* Takes a channel without calls to another loop: see sb_wire_stream_leave. */
bool sb_etcd_channel_leave(struct sb_etcd_channel *channel);
void sb_etcd_channel_join(struct sb_etcd_channel *channel, struct uv_loop_s *loop);

/* Takes it down for a reason of the owner's. */
void sb_etcd_channel_drop(struct sb_etcd_channel *channel, const struct simba_error *error);

/* Destroys it. Calls on it end first. No event but these and `closed` comes any more. */
void sb_etcd_channel_close(struct sb_etcd_channel *channel);

#endif
