/*
 * session.c - a store of sessions, as ZooKeeper is one: each contender has a node in a queue, the
 * first node owns, and the nodes of a session that is over are taken off the list some time later.
 *
 * A reply counts from an instant at which the session was alive; the session's timeout is the
 * lease. A node that lies there from an older session of the same id is not mine: nobody is
 * reported then.
 *
 * A node's revision is that of its creation and never changes. Requests of one contender are
 * carried out in the order in which they were sent, or never, because one connection carries them.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static struct sim_session *find_session(struct sim_world *w, uint64_t session)
{
    return &w->store.sessions[session - 1];
}

uint64_t sim_session_open(struct sim_world *w, int process)
{
    struct sim_session *s;

    if (w->store.session_count == SIM_SESSIONS_MAX) {
        fputs("simba-sim: SIM_SESSIONS_MAX is too small\n", stderr);
        exit(2);
    }
    s = &w->store.sessions[w->store.session_count++];
    s->process = process;
    s->heard_ms = sim_store_ms(w);
    return w->store.session_count;
}

/* ---- The queue of nodes ---------------------------------------------------------------------- */

static struct sim_node *first_node(struct sim_world *w)
{
    return w->store.node_count > 0 ? &w->store.nodes[0] : NULL;
}

/* The first record goes, or becomes another one. */
static void end_first(struct sim_world *w)
{
    struct sim_ended *ended = &w->store.ended[w->store.ended_count++ % SIM_ENDED];

    ended->revision = first_node(w)->revision;
    ended->at_us = w->now_us;
}

/* Whether the record with this revision was first no more at that instant. */
bool sim_session_has_ended(const struct sim_world *w, uint64_t revision, int64_t by_us)
{
    const struct sim_store *s = &w->store;

    if (s->node_count > 0 && s->nodes[0].revision == revision)
        return false;
    for (size_t i = 0; i < SIM_ENDED; i++) {
        if (s->ended[i].revision == revision)
            return s->ended[i].at_us <= by_us;
    }
    return true;
}

/* The first in the queue owns, whether or not it was told. */
static void tell_first(struct sim_world *w)
{
    struct sim_node *first = first_node(w);

    if (first == NULL)
        return;
    first->touched_ms = sim_process_ms(w, w->members[first->origin.member].process);
    sim_check_grant(w, first->origin.member, first->revision, first->origin.given_up);
    sim_net_wake(w, first->origin.member);
    sim_net_change(w);
}

static void remove_node(struct sim_world *w, size_t index)
{
    struct sim_store *s = &w->store;

    if (index == 0)
        end_first(w);
    s->node_count--;
    memmove(&s->nodes[index], &s->nodes[index + 1], (s->node_count - index) * sizeof s->nodes[0]);
    if (index == 0)
        tell_first(w);
}

/* A contender watches its own node too: one that waits for its turn must learn that it lost its
 * place, be it to a late release of its own. */
static void take_away(struct sim_world *w, size_t index)
{
    sim_net_wake(w, w->store.nodes[index].origin.member);
    remove_node(w, index);
}

static struct sim_node *find_node(struct sim_world *w, int member, uint64_t session)
{
    for (size_t i = 0; i < w->store.node_count; i++) {
        struct sim_node *node = &w->store.nodes[i];

        if (node->origin.member == member && node->session == session)
            return node;
    }
    return NULL;
}

static struct sim_node *add_node(struct sim_world *w, const struct sim_request *r)
{
    struct sim_node *node = &w->store.nodes[w->store.node_count++];

    if (w->store.node_count == SIM_NODES_MAX) {
        fputs("simba-sim: SIM_NODES_MAX is too small\n", stderr);
        exit(2);
    }
    memset(node, 0, sizeof *node);
    node->session = r->session;
    node->revision = sim_store_new_revision(w);
    return node;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* A contender that was told that it owns and asks again needs a new term, hence a new node at the
 * end of the queue. */
static void acquire(struct sim_world *w, const struct sim_request *r)
{
    struct sim_node *node = find_node(w, r->member, r->session);
    bool fresh;

    if (node != NULL && node->granted) {
        if (node == first_node(w))
            sim_check_release(w, r->member);
        remove_node(w, (size_t)(node - w->store.nodes));
        node = NULL;
    }
    fresh = node == NULL;
    if (fresh)
        node = add_node(w, r);
    node->origin = sim_origin_of(r);
    if (node != first_node(w))
        return;
    node->touched_ms = sim_process_ms(w, w->members[r->member].process);
    if (fresh)
        sim_check_grant(w, r->member, node->revision, sim_request_is_old(w, r));
}

static void guard(struct sim_world *w, const struct sim_request *r)
{
    struct sim_node *node = find_node(w, r->member, r->session);

    if (node == NULL || node != first_node(w) || (r->fence != 0 && r->fence != node->revision))
        return;
    node->touched_ms = sim_process_ms(w, w->members[r->member].process);
    sim_check_renewal(w, r->member, r->member, false);
}

/* The client answers for the node: nobody has forsaken it. */
void sim_session_touch(struct sim_world *w, const struct sim_request *r)
{
    struct sim_node *node = find_node(w, r->member, r->session);

    if (node != NULL)
        node->touched_ms = sim_process_ms(w, w->members[r->member].process);
}

/* Its contender is told that it owns. */
void sim_session_told(struct sim_world *w, const struct sim_request *r)
{
    struct sim_node *node = find_node(w, r->member, r->session);

    if (node != NULL && node->revision == r->reply_revision)
        node->granted = true;
}

/* A place in the queue is left in any case, also one that has come first meanwhile; a term that its
 * contender was told of only when it is the one that is meant. */
static void release(struct sim_world *w, struct sim_request *r)
{
    struct sim_node *node = find_node(w, r->member, r->session);

    if (node == NULL || (node->granted && node->revision != r->revision))
        return;
    if (node->revision == r->revision)
        sim_check_gave_back(w, r, node->origin.member, node->revision);
    if (node == first_node(w))
        sim_check_release(w, r->member);
    take_away(w, (size_t)(node - w->store.nodes));
}

static void answer(struct sim_world *w, struct sim_request *r)
{
    const struct sim_node *first = first_node(w);
    bool mine = first != NULL && sim_same_id(w, first->origin.member, r->member);
    bool session = mine && first->session == r->session;
    int64_t proved_ms = w->processes[w->members[r->member].process].proved_ms;

    if (first == NULL || (mine && !session) ||
        (w->store.curt && r->op == SIMBA_OP_RELEASE && r->revision == 0))
        return;
    r->owner = first->origin.member;
    r->foreign = mine && r->fence != 0 && r->fence != first->revision;
    r->reply_revision = first->revision;
    r->reply_fence = first->revision;
    r->transition_left_ms = w->store.session_ms;
    r->ttl_left_ms = w->members[r->member].timing.ttl_ms;
    if (mine && proved_ms != 0 && proved_ms < r->sent_at_ms && sim_chance(w, 200))
        r->as_of_ms = proved_ms;
    if (!mine && w->store.endless) {
        r->ttl_left_ms = SIMBA_INFINITE;
        r->transition_left_ms = SIMBA_INFINITE;
    }
}

static bool is_over(const struct sim_world *w, const struct sim_session *s)
{
    return s->over || s->heard_ms + w->store.session_ms < sim_store_ms(w);
}

void sim_session_apply(struct sim_world *w, struct sim_request *r)
{
    struct sim_session *s = find_session(w, r->session);
    uint64_t *applied = &w->members[r->member].applied;

    if (r->serial <= *applied) {
        r->reply_lost = true;
        return;
    }
    *applied = r->serial;
    if (is_over(w, s)) {
        r->expelled = true;
        if (r->code == SIMBA_OK)
            r->code = SIMBA_EUNAVAILABLE;
        return;
    }
    s->heard_ms = sim_store_ms(w);
    if (r->op == SIMBA_OP_ACQUIRE)
        acquire(w, r);
    else if (r->op == SIMBA_OP_GUARD)
        guard(w, r);
    else if (r->op == SIMBA_OP_RELEASE)
        release(w, r);
    answer(w, r);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

/* A node lives as long as its session, but a contender may have let go of it without telling,
 * because the release was lost or a callback of it is stuck. So its client, when it reaches the
 * store, takes away the first node when nobody has acquired or guarded it for a lease by the
 * client's clock, and one that no contender waits for or was told of. */
static bool is_forsaken(const struct sim_world *w, size_t index)
{
    const struct sim_node *node = &w->store.nodes[index];
    const struct sim_member *m = &w->members[node->origin.member];
    const struct sim_process *p = &w->processes[m->process];

    if (p->session != node->session || p->paused_until_us > w->now_us ||
        sim_net_is_cut(w, m->process))
        return false;
    if (!m->listening && !node->granted)
        return true;
    return index == 0 && node->touched_ms + w->store.session_ms < sim_process_ms(w, m->process);
}

/* The nodes of a session that is over stay listed for a moment. */
void sim_session_sweep(struct sim_world *w)
{
    int64_t now_ms = sim_store_ms(w);

    for (size_t i = 0; i < w->store.node_count;) {
        struct sim_session *s = find_session(w, w->store.nodes[i].session);

        if (!s->over && is_over(w, s)) {
            s->over = true;
            s->removed_ms = now_ms + sim_roll(w, 0, w->store.session_ms / 4);
        }
        if ((s->over && s->removed_ms <= now_ms) || is_forsaken(w, i))
            take_away(w, i);
        else
            i++;
    }
    if (!w->over)
        sim_after(w, w->store.session_ms * SIM_MS / 4, SIM_SWEEP, 0, 0);
}

bool sim_session_hear(struct sim_world *w, uint64_t session)
{
    struct sim_session *s = find_session(w, session);

    if (is_over(w, s))
        return false;
    s->heard_ms = sim_store_ms(w);
    return true;
}

int sim_session_owner(struct sim_world *w)
{
    const struct sim_node *first = first_node(w);

    return first != NULL ? first->origin.member : SIM_NOBODY;
}

void sim_session_force_release(struct sim_world *w)
{
    take_away(w, 0);
}

void sim_session_lose_data(struct sim_world *w)
{
    if (w->store.node_count > 0)
        end_first(w);
    w->store.node_count = 0;
    for (uint64_t i = 0; i < w->store.session_count; i++)
        w->store.sessions[i].over = true;
}

bool sim_session_has_left(struct sim_world *w, int member, uint32_t start)
{
    for (size_t i = 0; i < w->store.node_count; i++) {
        const struct sim_node *node = &w->store.nodes[i];

        if (sim_origin_is_left(&node->origin, member, start) &&
            !is_over(w, find_session(w, node->session)))
            return true;
    }
    return false;
}
