/*
 * session.h - the one session of a client: a handle that is replaced when its session is over, or
 * when it should have been heard of long ago.
 *
 *     DOWN --connected--> UP --connection broken--> DOWN --connected--> UP ...
 *                                                    |
 *                                expired, refused    |   silent for long, no belief left
 *                                      v             v
 *                        OVER: a new handle,    a new handle that asks to go on with the
 *                        a new session          same session: UP, or OVER
 *
 * The second way is for servers that take a connection and do not answer, as they do while they
 * start, and for servers that came back without their data: to a client that has seen more than
 * they know they do not talk at all, so that its session would never end for it.
 */
#ifndef SB_ZK_SESSION_H
#define SB_ZK_SESSION_H

#include "backend/zookeeper/handle/handle.h"
#include "backend/zookeeper/handle/liveness.h"

#include <uv.h>

enum sb_zk_session_event {
    SB_ZK_UP,   /* connected, with the session that was there before or with a new one */
    SB_ZK_DOWN, /* disconnected; the session may live on */
    SB_ZK_OVER  /* the session has ended, and with it all its nodes and watches */
};

struct sb_zk_session {
    const struct simba_backend_host *host;
    const struct sb_zk_options *options;
    void *user;
    void (*tell)(void *user, enum sb_zk_session_event event);
    void (*watched)(void *user, const char *path, bool deleted);

    struct sb_zk_worker worker;
    struct sb_zk_handle *handle; /* NULL: none; a retry is due */
    unsigned handles;            /* that have not been freed */
    bool up;
    bool useful; /* the ensemble has answered since it came up */
    bool closing;
    bool rewatch;       /* watches of the session went with an older handle */
    unsigned drops;     /* of the handle, that have been told */
    unsigned number;    /* of the session: those of older ones are dead */
    unsigned failures;  /* to make a handle, in a row */
    clientid_t id;      /* of the session; 0: none yet */
    int64_t timeout_ms; /* that the servers granted */
    int64_t proved_ms;  /* that the last proof counts from; 0: none */
    int64_t synced_ms;  /* when it came up, or a proof was last asked for */
    struct sb_zk_liveness liveness;
    uv_timer_t timer; /* makes a handle again */
    uint64_t random;
    struct ACL entries[2]; /* for the creator, and for everybody to read */
    struct ACL_vector creator_read;
    void (*closed)(void *user);
};

/* Waits for the first connection. On failure nothing is left behind. */
int sb_zk_session_open(struct sb_zk_session *session, struct simba_error *error);

/* Ends it; calls closed(user) when that is done. */
void sb_zk_session_close(struct sb_zk_session *session, void (*closed)(void *user));

/* Whether the last proof is so young that most of the lease is left; and how often one is needed
 * for that. */
bool sb_zk_session_is_proved(const struct sb_zk_session *session);
int64_t sb_zk_session_proof_interval_ms(const struct sb_zk_session *session);

/* For how long a proof counts: until then the session cannot have expired. */
int64_t sb_zk_session_lease_ms(const struct sb_zk_session *session);

#endif
