/*
 * call.h - one call of gRPC: a request and its answer, or messages in both directions for as long
 * as both sides like (`streams`). Which status means what is in failure.c.
 *
 * A call is embedded by its owner, all zeros before it is first used, and belongs to the link from
 * sb_etcd_link_send until `ended`. All on the loop's thread.
 */
#ifndef SB_ETCD_CALL_H
#define SB_ETCD_CALL_H

#include "backend/etcd/options.h"

#include <etcd.pb-c.h>

#define SB_ETCD_FRAME_SIZE 5 /* of a message: whether it is compressed, and its length */
#define SB_ETCD_MESSAGE_MAX ((size_t)8 * 1024 * 1024)   /* bytes of one answer */
#define SB_ETCD_UNPACKED_MAX ((size_t)64 * 1024 * 1024) /* bytes of memory that it is unpacked to */
#define SB_ETCD_UNSENT_MAX ((size_t)64 * 1024 * 1024)   /* that the server does not take */
#define SB_ETCD_STATUS_TEXT_MAX 200
#define SB_ETCD_REVISION_MAX (INT64_MAX / 2) /* no server has counted so far */

struct sb_etcd_call {
    struct sb_etcd_call *next; /* in the list of the link or of its channel */
    struct sb_etcd_call **back;
    const char *path; /* "/etcdserverpb.KV/Range" */
    bool streams;
    bool owed;           /* streams: an answer is due */
    int64_t deadline_ms; /* SIMBA_INFINITE: none */
    /* Streams only: the next message has come. */
    void (*message)(struct sb_etcd_call *call, const void *bytes, size_t length);
    /* Exactly once. SIMBA_OK: the answer can be unpacked; never for a stream. `maybe`: the server
     * may have carried it out. */
    void (*ended)(struct sb_etcd_call *call, const struct simba_error *error, bool maybe);
    void *user;
    /* The rest is the link's. */
    struct sb_wire_buffer out; /* framed messages */
    struct sb_wire_buffer in;
    size_t done; /* bytes of `out` that were sent */
    int64_t sent_ms;
    int32_t stream; /* of HTTP/2; 0: not sent */
    int http_status;
    int status; /* of gRPC; -1: none yet */
    bool retried;
    bool nonsense; /* the answer breaks the protocol, or is too long */
    char *text;    /* the sentence with the status; NULL: none */
};

/* Adds a message to what is to be sent; false when memory is short, or too much is unsent. */
bool sb_etcd_call_add(struct sb_etcd_call *call, const ProtobufCMessage *message);

/* The answer, to be freed by sb_etcd_free_message; NULL: it is none. */
void *sb_etcd_call_unpack(const struct sb_etcd_call *call,
                          const ProtobufCMessageDescriptor *descriptor);
void *sb_etcd_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes,
                     size_t length);
void sb_etcd_free_message(void *message); /* NULL does nothing */

/* Frees what it has in memory; it may be used again. */
void sb_etcd_call_clear(struct sb_etcd_call *call);

void sb_etcd_call_link(struct sb_etcd_call **list, struct sb_etcd_call *call);
void sb_etcd_call_unlink(struct sb_etcd_call *call);

/* ---- failure.c ------------------------------------------------------------------------------- */

enum sb_etcd_refusal {
    SB_ETCD_REFUSAL_NONE,
    SB_ETCD_REFUSAL_LOGIN, /* the token is not good any more */
    SB_ETCD_REFUSAL_MEMBER /* this member cannot serve; another one may */
};

/* The error for a call that has ended with a status other than OK; *ret_maybe: it may have been
 * carried out. */
enum sb_etcd_refusal sb_etcd_fail(const struct sb_etcd_call *call, const char *place,
                                  struct simba_error *error, bool *ret_maybe);

/* Whether an error says that the lease is gone. */
bool sb_etcd_is_lease_gone(const struct simba_error *error);

#endif
