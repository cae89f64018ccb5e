/*
 * link.h - a connection to some member of the cluster, for as long as the client lives: the members
 * are tried in turn, with a growing pause when all have failed; it logs in, and again when its
 * token has expired; and calls have deadlines.
 */
#ifndef SB_ETCD_LINK_H
#define SB_ETCD_LINK_H

#include "backend/etcd/rpc/call.h"
#include "backend/etcd/rpc/channel.h"
#include "backend/wire/blocking.h"

#define SB_ETCD_TOKEN_MAX 4096

enum sb_etcd_link_state {
    SB_ETCD_IDLE,
    SB_ETCD_LOOKING_UP,
    SB_ETCD_CONNECTING,
    SB_ETCD_LOGGING_IN, /* the first time: a later login leaves it UP */
    SB_ETCD_UP,
    SB_ETCD_PAUSED,
    SB_ETCD_CLOSING
};

struct sb_etcd_link {
    /* Set by the owner. */
    struct uv_loop_s *loop;
    const struct simba_backend_host *host; /* NULL: nothing is logged, and it may block */
    const struct sb_etcd_options *options;
    const struct sb_wire_tls *tls; /* NULL: plain */
    void (*up)(void *user);
    void (*closed)(void *user);
    void *user;
    /* Its own. */
    enum sb_etcd_link_state state;
    struct sb_etcd_channel *channel;
    struct sb_wire_endpoint endpoint; /* of the channel, */
    struct sb_wire_login login;       /* likewise */
    size_t place;                     /* of the options, to be tried or connected to */
    size_t tried;                     /* in a row, without success */
    unsigned failures;                /* pauses in a row */
    bool is_down;                     /* it has told so in the log, and not of the end */
    bool was_up;                      /* before the last failure: calls wait for the next attempt */
    bool batching;                    /* what is sent is written later */
    bool looking_up;
    bool has_channel; /* open, or being closed */
    bool has_timer;
    bool leaves_member; /* soon: it has told that it cannot serve */
    uint64_t random;
    int64_t due_ms;                   /* the pause ends, or the attempt */
    struct sb_etcd_call *waiting;     /* until it is up */
    struct sb_etcd_call authenticate; /* in a list while it is under way */
    struct simba_error last_error;
    struct sb_wire_blocking lookup;
    struct simba_error lookup_error;
    uv_timer_t timer;
    char token[SB_ETCD_TOKEN_MAX + 1]; /* empty: none */
};

/* Begins to connect. The struct is all zeros but for what the owner has set. */
void sb_etcd_link_start(struct sb_etcd_link *link);

/* Takes a link without calls off its loop, which then runs until it has no handles. After that the
 * owner may set other things, the loop too, and start it again: it goes on with its connection if
 * it has one. */
void sb_etcd_link_leave(struct sb_etcd_link *link);

/* Takes a call, whose `out` has its message. It ends in any case, perhaps before this returns: at
 * once where the cluster cannot be reached. */
void sb_etcd_link_send(struct sb_etcd_link *link, struct sb_etcd_call *call);

/* Fills a call and sends it with one message. Without memory it ends with SIMBA_ENOMEM. */
void sb_etcd_link_call(struct sb_etcd_link *link, struct sb_etcd_call *call, const char *path,
                       const ProtobufCMessage *message, int64_t deadline_ms,
                       void (*ended)(struct sb_etcd_call *call, const struct simba_error *error,
                                     bool maybe),
                       void *user);

/* Ends a stream on this side; it is not told of that. */
void sb_etcd_link_cancel(struct sb_etcd_link *link, struct sb_etcd_call *call);

/* Where it has a user: the server does not know the token any more. Calls wait meanwhile. */
void sb_etcd_link_log_in_again(struct sb_etcd_link *link);

/* Another message of a stream that has not ended. */
void sb_etcd_link_resume(struct sb_etcd_link *link, struct sb_etcd_call *call);

/* Between the two, calls are gathered for one write. */
void sb_etcd_link_begin_batch(struct sb_etcd_link *link);
void sb_etcd_link_end_batch(struct sb_etcd_link *link);

bool sb_etcd_link_is_up(const struct sb_etcd_link *link);

/* Where it is connected to, for sentences. */
const char *sb_etcd_link_place(const struct sb_etcd_link *link,
                               char buffer[SB_WIRE_PLACE_TEXT_MAX]);

/* Closes it; its calls end first. `closed` follows later. */
void sb_etcd_link_close(struct sb_etcd_link *link);

#endif
