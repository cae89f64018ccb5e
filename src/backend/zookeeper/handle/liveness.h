/*
 * liveness.h - since when the leader of the ensemble must count the session, as far as the client
 * can know.
 *
 * The leader ends a session when it has not heard of it for the session timeout T. It hears of it
 * in two ways:
 *  - when the client connects: the server asks the leader, which counts from then on;
 *  - twice per tick every server reports the sessions from which a request came. Sessions have at
 *    least two ticks, so a report follows a request within T/4, if server and leader reach each
 *    other; T/24 is added for late ones.
 *
 * An answered sync or create shows that the leader knew the session, and that server and leader
 * reach each other; the leader does not count from it. But it shows that all older reports have
 * arrived. So:
 *
 *     request sent   answered                       sync sent   answered
 *        |--------------|------- 7/24 T or more --------|----------|
 *        |<------- the leader does not end the session within T -------->|
 *
 * A belief lasts for 5/12 T from the sync and must end within T of that request. Where the request
 * is older than 7/12 T, because the process stood still, the proof counts from 7/12 T after the
 * request instead of from the sync. The client sends a request at least every T/8, so that does not
 * happen while it runs.
 */
#ifndef SB_ZK_LIVENESS_H
#define SB_ZK_LIVENESS_H

#include <stddef.h>
#include <stdint.h>

#define SB_ZK_REQUESTS_MAX 8

struct sb_zk_liveness {
    int64_t timeout_ms;
    int64_t counted_ms; /* the leader counts from here, or from a later instant */
    size_t count;
    /* Requests of this connection that the server may not have reported yet, the oldest first. */
    struct {
        int64_t sent_ms;
        int64_t answered_ms;
    } requests[SB_ZK_REQUESTS_MAX];
};

/* The client is connected, by a handle that did not exist before `since_ms`. */
void sb_zk_liveness_connect(struct sb_zk_liveness *liveness, int64_t timeout_ms, int64_t since_ms);

/* The server has answered a request. */
void sb_zk_liveness_answer(struct sb_zk_liveness *liveness, int64_t sent_ms, int64_t now_ms);

/* The instant from which a sync or create counts as a proof that is sent now and answered. */
int64_t sb_zk_liveness_proof_ms(struct sb_zk_liveness *liveness, int64_t now_ms);

/* For how long a proof counts. */
int64_t sb_zk_liveness_lease_ms(const struct sb_zk_liveness *liveness);

/* How often a request has to be sent. */
int64_t sb_zk_liveness_interval_ms(const struct sb_zk_liveness *liveness);

#endif
