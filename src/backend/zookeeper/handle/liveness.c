/*
 * liveness.c - remembers answered requests until the server must have reported them. Knows no
 * clock.
 */
#include "backend/zookeeper/handle/session.h"

#include "backend/zookeeper/options.h"
#include "base/check.h"
#include "base/time.h"

#include <string.h>

#define PARTS 24 /* of the session timeout */
#define REPORT_PARTS 7
#define INTERVAL_PARTS 3
#define SPACING_PARTS 1 /* between remembered requests */

static int64_t parts(const struct sb_zk_liveness *l, int64_t count)
{
    return l->timeout_ms * count / PARTS;
}

static int64_t newest_ms(const struct sb_zk_liveness *l)
{
    return l->count > 0 ? l->requests[l->count - 1].sent_ms : l->counted_ms;
}

/* What was answered on an older connection was sent before this one was made. */
void sb_zk_liveness_connect(struct sb_zk_liveness *l, int64_t timeout_ms, int64_t since_ms)
{
    l->timeout_ms = timeout_ms;
    l->counted_ms = sb_max(newest_ms(l), since_ms);
    l->count = 0;
}

static void take_reported(struct sb_zk_liveness *l, int64_t now_ms)
{
    size_t reported = 0;

    while (reported < l->count &&
           l->requests[reported].answered_ms + parts(l, REPORT_PARTS) <= now_ms)
        reported++;
    if (reported == 0)
        return;
    l->counted_ms = l->requests[reported - 1].sent_ms;
    l->count -= reported;
    memmove(l->requests, l->requests + reported, l->count * sizeof l->requests[0]);
}

/* One that is not remembered only makes the next proofs a little older. An answer of an older
 * connection, which may come late, was sent before what is known by now. */
void sb_zk_liveness_answer(struct sb_zk_liveness *l, int64_t sent_ms, int64_t now_ms)
{
    SB_CHECK(sent_ms <= now_ms, "an answer follows its request");
    take_reported(l, now_ms);
    if (l->count == SB_ZK_REQUESTS_MAX || sent_ms < newest_ms(l) + parts(l, SPACING_PARTS))
        return;
    l->requests[l->count].sent_ms = sent_ms;
    l->requests[l->count].answered_ms = now_ms;
    l->count++;
}

int64_t sb_zk_liveness_lease_ms(const struct sb_zk_liveness *l)
{
    return l->timeout_ms * SB_ZK_LEASE_PARTS / SB_ZK_SESSION_PARTS;
}

int64_t sb_zk_liveness_proof_ms(struct sb_zk_liveness *l, int64_t now_ms)
{
    int64_t latest_ms;

    take_reported(l, now_ms);
    latest_ms = l->counted_ms + l->timeout_ms - sb_zk_liveness_lease_ms(l);
    return sb_earlier(now_ms, latest_ms);
}

int64_t sb_zk_liveness_interval_ms(const struct sb_zk_liveness *l)
{
    return parts(l, INTERVAL_PARTS);
}
