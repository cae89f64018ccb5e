/*
 * session.h - the one session of a client (session.c), and since when the leader of the ensemble
 * must count it, as far as the client can know (liveness.c).
 */
#ifndef SB_ZK_SESSION_H
#define SB_ZK_SESSION_H

#include "backend/zookeeper/handle/handle.h"

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* ---- Liveness -------------------------------------------------------------------------------- */

/* The leader ends a session when it has not heard of it for the session timeout T. It hears of it
 * in two ways:
 *  - when the client connects: the server asks the leader, which counts from then on;
 *  - twice per tick the leader pings every server, which answers with a report: the sessions from
 *    which a request came. Sessions have at least two ticks, so pings are at most T/4 apart. A
 *    leader that stands still does not ping.
 *
 * A sync passes through the leader, which does not count from it; but pings, reports, syncs and
 * their answers keep their order on the connection of server and leader. So four syncs, each
 * sent after the answer to the one before, prove that the leader counts from the first or later:
 *
 *       first                      second              third               proof
 *     |-------|                     |-------|          |-------|          |-------|
 *   sent   answered -- 13/48 T --> sent  answered --> sent  answered --> sent  answered
 *                                          1/48 T
 *             |<-------------- a ping of the leader ----------->|<-- its report -->|
 *
 * If the leader stood still between first and second, it runs when it answers the second, and pings
 * within T/48 of that. docs/internals/zookeeper.md has the steps.
 *
 * A belief lasts for 5/12 T from the proof and must end within T of the first sync. Where that is
 * older than 7/12 T, because a process or a connection stood still, the proof counts from 7/12 T
 * after the first sync instead of from its own sending. The client sends a sync at least every
 * T/12, so that does not happen while all run. */

/* Every other one was sent T/12 or more after the last but one: they reach back for 11/12 T. */
#define SB_ZK_SYNCS_MAX 24

struct sb_zk_liveness {
    int64_t timeout_ms;
    int64_t counted_ms; /* the leader counts from here, or from a later instant */
    size_t count;
    struct {
        int64_t sent_ms;
        int64_t answered_ms;
    } syncs[SB_ZK_SYNCS_MAX]; /* answered on this connection, the oldest first */
};

/* The client is connected, by a handle that did not exist before `since_ms`. */
void sb_zk_liveness_connect(struct sb_zk_liveness *liveness, int64_t timeout_ms, int64_t since_ms);

/* A sync was answered. */
void sb_zk_liveness_answer(struct sb_zk_liveness *liveness, int64_t sent_ms, int64_t now_ms);

/* The instant from which a sync or create counts as a proof that is sent now and answered. */
int64_t sb_zk_liveness_proof_ms(const struct sb_zk_liveness *liveness, int64_t now_ms);

/* For how long a proof counts. */
int64_t sb_zk_liveness_lease_ms(const struct sb_zk_liveness *liveness);

/* How often a sync has to be sent; and how often while a contender waits. */
int64_t sb_zk_liveness_interval_ms(const struct sb_zk_liveness *liveness);
int64_t sb_zk_liveness_short_interval_ms(const struct sb_zk_liveness *liveness);

/* ---- The session ----------------------------------------------------------------------------- */

/* A handle is replaced when its session is over, or when it should have been heard of long ago.
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
 *
 * Confirmation: a server drops the requests of a session that has ended, pings too, without a word.
 * A client meets that when another one has taken its session over and closes it while this one
 * connects again. The close may come shortly after, when a first sync has been answered. So an
 * owner's session that comes UP again is OVER unless a later sync is answered in time:
 *
 *     UP ---- CONFIRM_DELAY_MS ----> sync ---- sb_zk_session_confirm_time_ms ----> OVER
 */

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
    int64_t confirm_ms; /* when its confirmation goes on; SIMBA_INFINITE: none is needed */
    int64_t asked_ms;   /* when the sync was sent that confirms it; 0: not yet */
    struct sb_zk_liveness liveness;
    uv_timer_t timer; /* makes a handle again */
    uint64_t random;
    struct ACL entries[2]; /* for the creator, and for everybody to read */
    struct ACL_vector creator_read;
    void (*closed)(void *user);
};

/* Waits for the first connection. On failure nothing is left behind. */
int sb_zk_session_open(struct sb_zk_session *session, struct simba_error *error);

/* It was connected again and has an owner: from now on its confirmation is due at confirm_ms. */
void sb_zk_session_doubt(struct sb_zk_session *session);

/* How long an answer may take then. */
int64_t sb_zk_session_confirm_time_ms(const struct sb_zk_session *session);

/* There was none: the session is over, unless its connection has broken meanwhile. */
void sb_zk_session_give_up(struct sb_zk_session *session);

/* Ends it; calls closed(user) when that is done. */
void sb_zk_session_close(struct sb_zk_session *session, void (*closed)(void *user));

/* Whether the last proof is so young that most of the lease is left; and how often one is needed
 * for that. */
bool sb_zk_session_is_proved(const struct sb_zk_session *session);
int64_t sb_zk_session_proof_interval_ms(const struct sb_zk_session *session);

/* For how long a proof counts: until then the session cannot have expired. */
int64_t sb_zk_session_lease_ms(const struct sb_zk_session *session);

#endif
