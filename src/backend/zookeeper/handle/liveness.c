/*
 * liveness.c - remembers answered syncs until the leader must have heard of one. Knows no clock.
 */
#include "backend/zookeeper/handle/session.h"

#include "backend/zookeeper/options.h"
#include "base/check.h"
#include "base/time.h"

#include <string.h>

#define PARTS 48        /* of the session timeout */
#define REPORT_PARTS 13 /* half a tick, and one for a late ping */
#define RUN_PARTS 1     /* a leader that stood still pings within it, once it runs */
#define INTERVAL_PARTS 4
#define INTERVAL_MIN_MS 10 /* a server may grant a session of a millisecond */

static int64_t parts(const struct sb_zk_liveness *l, int64_t count)
{
    return l->timeout_ms * count / PARTS;
}

static int64_t newest_ms(const struct sb_zk_liveness *l)
{
    return l->count > 0 ? l->syncs[l->count - 1].sent_ms : l->counted_ms;
}

/* A sync that an older connection answered was sent before this connection was made. */
void sb_zk_liveness_connect(struct sb_zk_liveness *l, int64_t timeout_ms, int64_t since_ms)
{
    l->timeout_ms = timeout_ms;
    l->counted_ms = sb_max(newest_ms(l), since_ms);
    l->count = 0;
}

/* When the newest sync was sent that had been answered by then; 0: none is remembered. */
static int64_t sent_before(const struct sb_zk_liveness *l, int64_t answered_ms)
{
    size_t i = l->count;

    while (i > 0 && l->syncs[i - 1].answered_ms > answered_ms)
        i--;
    return i > 0 ? l->syncs[i - 1].sent_ms : 0;
}

/* Of three syncs within an interval the middle one is forgotten: so there are no gaps that are
 * longer than the interval, and few syncs. */
static void remember(struct sb_zk_liveness *l, int64_t sent_ms, int64_t now_ms)
{
    if (l->count >= 2 && sent_ms < l->syncs[l->count - 2].sent_ms + parts(l, INTERVAL_PARTS))
        l->count--;
    if (l->count == SB_ZK_SYNCS_MAX)
        memmove(l->syncs, l->syncs + 1, --l->count * sizeof l->syncs[0]);
    l->syncs[l->count].sent_ms = sent_ms;
    l->syncs[l->count].answered_ms = now_ms;
    l->count++;
}

/* An answer of an older connection, which may come late, was sent before what is known by now. */
void sb_zk_liveness_answer(struct sb_zk_liveness *l, int64_t sent_ms, int64_t now_ms)
{
    int64_t second_ms = sent_before(l, sent_ms - parts(l, RUN_PARTS));
    int64_t first_ms = sent_before(l, second_ms - parts(l, REPORT_PARTS));

    SB_CHECK(sent_ms <= now_ms, "an answer follows its request");
    if (first_ms > l->counted_ms)
        l->counted_ms = first_ms;
    if (sent_ms > newest_ms(l))
        remember(l, sent_ms, now_ms);
}

int64_t sb_zk_liveness_lease_ms(const struct sb_zk_liveness *l)
{
    return l->timeout_ms * SB_ZK_LEASE_PARTS / SB_ZK_SESSION_PARTS;
}

int64_t sb_zk_liveness_proof_ms(const struct sb_zk_liveness *l, int64_t now_ms)
{
    int64_t latest_ms = l->counted_ms + l->timeout_ms - sb_zk_liveness_lease_ms(l);

    return sb_earlier(now_ms, latest_ms);
}

int64_t sb_zk_liveness_interval_ms(const struct sb_zk_liveness *l)
{
    return sb_max(parts(l, INTERVAL_PARTS), INTERVAL_MIN_MS);
}

int64_t sb_zk_liveness_short_interval_ms(const struct sb_zk_liveness *l)
{
    return sb_max(sb_zk_liveness_lease_ms(l) / 8, INTERVAL_MIN_MS);
}
