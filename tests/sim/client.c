/*
 * client.c - the client of a store of sessions, as ZooKeeper has one. It proves its session alive
 * by heartbeats, and it can answer a guard from what it remembers, without asking the store. It
 * must not know more of the store than what has reached it.
 *
 *     PING sent ---> HEARD by the store ---> PONG
 *       |              |                 the session is proved alive for the instant of PING,
 *       |              |                 and all that happened before HEARD is known: watches
 *       |              |                 come in order
 */
#include "sim.h"

#define EXPELLED_US (5 * SIM_MS)

/* Nothing gets through in a hiccup; before the faults heal some is lost at any time. */
static bool is_lost(struct sim_world *w, int process, int permille)
{
    if (w->healed)
        return w->hiccup_until_us > w->now_us;
    return sim_net_is_cut(w, process) || sim_chance(w, permille);
}

static struct sim_process *process_of(struct sim_world *w, const struct sim_request *r)
{
    return &w->processes[w->members[r->member].process];
}

/* ---- Proofs ---------------------------------------------------------------------------------- */

static void learn(struct sim_process *p, int64_t proved_ms, int64_t known_us)
{
    if (p->proved_ms < proved_ms)
        p->proved_ms = proved_ms;
    if (p->known_us < known_us)
        p->known_us = known_us;
}

static struct sim_ping *find_ping(struct sim_process *p, uint64_t number)
{
    struct sim_ping *ping = &p->pings[number % SIM_PINGS];

    return ping->number == number ? ping : NULL;
}

void sim_client_ping(struct sim_world *w, int process)
{
    struct sim_process *p = &w->processes[process];
    uint64_t number = p->ping_count++;

    if (!w->over)
        sim_after(w, w->store.session_ms * SIM_MS / 4, SIM_PING, process, 0);
    if (p->session == 0)
        return;
    p->pings[number % SIM_PINGS] = (struct sim_ping){
        .number = number, .session = p->session, .sent_ms = sim_process_ms(w, process)};
    if (!is_lost(w, process, w->network.lost))
        sim_after(w, sim_net_delay(w), SIM_HEARD, process, number);
}

void sim_client_heard(struct sim_world *w, int process, uint64_t number)
{
    struct sim_ping *ping = find_ping(&w->processes[process], number);

    if (ping == NULL || w->store.down_until_us > w->now_us)
        return;
    if (!sim_session_hear(w, ping->session)) {
        sim_after(w, sim_roll(w, 0, EXPELLED_US), SIM_EXPELLED, process, ping->session);
        return;
    }
    ping->heard_us = w->now_us;
    if (!is_lost(w, process, w->network.reply_lost))
        sim_after(w, sim_net_delay(w), SIM_PONG, process, number);
}

void sim_client_pong(struct sim_world *w, int process, uint64_t number)
{
    struct sim_process *p = &w->processes[process];
    const struct sim_ping *ping = find_ping(p, number);

    if (ping != NULL && ping->session == p->session)
        learn(p, ping->sent_ms, ping->heard_us);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* What the store has of the member may be another record from here on. */
void sim_client_sent(struct sim_world *w, const struct sim_request *r)
{
    if (r->op == SIMBA_OP_ACQUIRE || r->op == SIMBA_OP_RELEASE)
        w->members[r->member].told_revision = 0;
}

void sim_client_answered(struct sim_world *w, const struct sim_request *r)
{
    struct sim_process *p = process_of(w, r);

    if (w->store.kind != SIM_SESSION || r->code != SIMBA_OK || r->applied_us == 0 ||
        r->session != p->session)
        return;
    learn(p, r->sent_at_ms, r->applied_us);
    if (r->owner != r->member || r->foreign || r->op == SIMBA_OP_READ)
        return; /* a look is no grant: the contender leaves the queue as any waiter */
    sim_session_told(w, r);
    if (r->start == w->members[r->member].starts)
        w->members[r->member].told_revision = r->reply_revision;
}

/* Answers a guard while nothing has come to tell that the record is gone, with the lease that the
 * last proof gives, however old that is. */
bool sim_client_recall(struct sim_world *w, struct sim_request *r)
{
    const struct sim_member *m = &w->members[r->member];
    const struct sim_process *p = process_of(w, r);

    if (!w->store.recalls || r->op != SIMBA_OP_GUARD || m->told_revision == 0 ||
        sim_session_has_ended(w, m->told_revision, p->known_us))
        return false;
    r->owner = r->member;
    r->ttl_left_ms = m->timing.ttl_ms;
    r->transition_left_ms = w->store.session_ms;
    r->as_of_ms = p->proved_ms;
    r->reply_revision = m->told_revision;
    r->reply_fence = m->told_revision;
    r->foreign = r->fence != 0 && r->fence != m->told_revision;
    sim_session_touch(w, r);
    w->counts[SIM_RECALLED]++;
    return true;
}
