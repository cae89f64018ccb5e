/*
 * net.c - carries requests to the store and answers back, badly. It is network and backend in one:
 * what it promises the machine is what backend.h demands, exactly one answer each, and nothing
 * more.
 *
 *     sent ---> ARRIVE (carried out) ---> ANSWER      the first of both is the answer;
 *       \____________________________ TIMEOUT         a request may arrive after both
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define CALM_DELAY_US (2 * SIM_MS)
#define EXPELLED_US (5 * SIM_MS)
#define RECALL_US (1 * SIM_MS)

static struct sim_request *allocate(struct sim_world *w, size_t *ret_index)
{
    for (size_t tries = 0; tries < SIM_REQUESTS_MAX; tries++) {
        size_t i = w->request_hint++ % SIM_REQUESTS_MAX;

        if (!w->requests[i].used) {
            memset(&w->requests[i], 0, sizeof w->requests[i]);
            w->requests[i].used = true;
            *ret_index = i;
            return &w->requests[i];
        }
    }
    fputs("simba-sim: SIM_REQUESTS_MAX is too small\n", stderr);
    exit(2);
}

static void refer(struct sim_world *w, int64_t in_us, enum sim_event_type type, size_t index)
{
    w->requests[index].events++;
    sim_after(w, in_us, type, w->requests[index].member, index);
}

void sim_net_drop(struct sim_world *w, size_t index)
{
    if (--w->requests[index].events == 0)
        w->requests[index].used = false;
}

/* ---- Delays ---------------------------------------------------------------------------------- */

/* Whatever was slow arrives at the latest shortly after the faults have healed. */
static int64_t until_healed(const struct sim_world *w, int64_t in_us)
{
    int64_t most_us = w->heal_us + CALM_DELAY_US - w->now_us;

    return in_us < most_us ? in_us : most_us;
}

int64_t sim_net_delay(struct sim_world *w)
{
    if (w->healed)
        return sim_roll(w, 0, CALM_DELAY_US);
    if (sim_chance(w, w->network.slow)) {
        w->counts[SIM_SLOW]++;
        return until_healed(w, sim_roll(w, 0, 2 * w->lease_ms * SIM_MS));
    }
    return until_healed(w, sim_roll(w, 0, w->network.delay_us));
}

bool sim_net_is_cut(const struct sim_world *w, int process)
{
    return w->processes[process].cut_until_us > w->now_us;
}

/* What is in a cut cable is lost, or comes through when the cable is whole again. */
static bool pass_cut(struct sim_world *w, int process, int64_t *in_us)
{
    if (!sim_net_is_cut(w, process))
        return true;
    if (sim_chance(w, 500))
        return false;
    *in_us += w->processes[process].cut_until_us - w->now_us;
    *in_us = until_healed(w, *in_us);
    return true;
}

/* Whether its sender has given it up, stopped or crashed since. */
bool sim_request_is_old(const struct sim_world *w, const struct sim_request *r)
{
    const struct sim_member *m = &w->members[r->member];

    return r->answered || r->start != m->starts || r->life != w->processes[m->process].life;
}

/* Whether its answer is what the member waits for. */
bool sim_request_is_current(const struct sim_world *w, const struct sim_request *r)
{
    const struct sim_member *m = &w->members[r->member];

    return r->start == m->starts && r->generation == m->generation &&
           r->session == w->processes[m->process].session;
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Whether a request cleans up after a start that is over. */
static bool is_afterthought(struct sim_world *w, int member, const struct sb_step *step)
{
    struct sim_member *m = &w->members[member];

    if (m->generation < step->request.generation)
        m->generation = step->request.generation;
    return w->check.seen[member].phase == SIM_DOWN || step->request.generation < m->generation;
}

static struct sim_request *make_request(struct sim_world *w, int member, const struct sb_step *step,
                                        size_t *ret_index)
{
    const struct sim_member *m = &w->members[member];
    struct sim_process *p = &w->processes[m->process];
    struct sim_request *r = allocate(w, ret_index);

    if (w->store.kind == SIM_SESSION && p->session == 0)
        p->session = sim_session_open(w, m->process);
    r->serial = ++w->serial;
    r->term = sim_check_believes(w, member) ? w->check.seen[member].term : 0;
    r->member = member;
    r->life = p->life;
    r->start = is_afterthought(w, member, step) ? 0 : m->starts;
    r->session = p->session;
    r->op = step->request.op;
    r->generation = step->request.generation;
    r->revision = step->request.revision;
    r->fence = step->request.fence;
    r->timeout_ms = step->request.timeout_ms;
    r->sent_at_ms = sim_process_ms(w, m->process);
    r->owner = SIM_NOBODY;
    return r;
}

/* The backend gives up after its timeout, or, being patient, much later: a reply may then come when
 * the lease that it tells of is long over. */
static void plan_timeout(struct sim_world *w, size_t index)
{
    const struct sim_request *r = &w->requests[index];
    int64_t plain_us = r->timeout_ms * SIM_MS;
    int64_t in_us = plain_us * (w->healed ? 1 : w->network.patience);
    int64_t most_us = w->heal_us + plain_us - w->now_us;

    if (in_us > most_us)
        in_us = plain_us > most_us ? plain_us : most_us;
    refer(w, in_us + sim_roll(w, 0, 2 * SIM_MS), SIM_TIMEOUT, index);
}

/* The connection breaks: the machine is answered at once, the request arrives or does not. */
static void reset_connection(struct sim_world *w, size_t index, bool sent)
{
    struct sim_request *r = &w->requests[index];
    int64_t most_us = w->healed ? CALM_DELAY_US : w->network.delay_us;

    w->counts[sent ? SIM_RESET : SIM_REFUSED]++;
    r->reply_lost = true;
    r->code = sent ? SIMBA_EUNKNOWN : SIMBA_EUNAVAILABLE;
    if (sent && sim_chance(w, 600))
        refer(w, sim_net_delay(w), SIM_ARRIVE, index);
    refer(w, sim_roll(w, 0, most_us), SIM_ANSWER, index);
}

/* Whether the network takes the request at all. */
static bool get_through(struct sim_world *w, size_t index, int64_t *in_us)
{
    struct sim_request *r = &w->requests[index];
    const struct sim_network *n = &w->network;

    if (sim_chance(w, n->refused)) {
        reset_connection(w, index, false);
        return false;
    }
    if (sim_chance(w, n->reset)) {
        reset_connection(w, index, true);
        return false;
    }
    r->reply_lost = sim_chance(w, n->reply_lost);
    w->counts[SIM_REPLY_LOST] += r->reply_lost;
    if (sim_chance(w, n->lost) || !pass_cut(w, w->members[r->member].process, in_us)) {
        w->counts[SIM_LOST]++;
        return false;
    }
    if (sim_chance(w, n->duplicated)) {
        w->counts[SIM_DUPLICATED]++;
        r->twice = true;
        refer(w, sim_net_delay(w), SIM_ARRIVE, index);
    }
    return true;
}

/* For a short time nothing arrives: it is refused, or it is never heard of. */
static void stumble(struct sim_world *w, size_t index)
{
    if (sim_chance(w, 500))
        reset_connection(w, index, false);
}

static void transmit(struct sim_world *w, size_t index)
{
    int64_t in_us = sim_net_delay(w);

    if (w->hiccup_until_us > w->now_us)
        stumble(w, index);
    else if (w->healed || get_through(w, index, &in_us))
        refer(w, in_us, SIM_ARRIVE, index);
}

/* Memory is short: the driver answers the machine itself, from within the step. */
static void refuse_memory(struct sim_world *w, int member, const struct sb_step *step)
{
    struct sb_event event = {
        .type = SB_EVENT_REPLY,
        .now_ms = sim_process_ms(w, w->members[member].process),
        .generation = step->request.generation,
        .op = step->request.op,
        .answer = SB_ANSWER_FAILED,
        .code = SIMBA_ENOMEM,
    };
    bool after = is_afterthought(w, member, step);
    struct sim_request r = {.member = member,
                            .start = after ? 0 : w->members[member].starts,
                            .generation = step->request.generation,
                            .session = w->processes[w->members[member].process].session,
                            .op = step->request.op};

    w->counts[SIM_NO_MEMORY]++;
    sim_trace(w, "%s has no memory for %s", w->members[member].id, sim_op_name(event.op));
    sim_check_answered(w, &r, event.answer);
    sim_member_drive(w, member, &event);
}

void sim_net_send(struct sim_world *w, int member, const struct sb_step *step)
{
    struct sim_request *r;
    size_t index;

    sim_check_sent(w, member, step);
    if (!w->healed && sim_chance(w, w->network.no_memory)) {
        refuse_memory(w, member, step);
        return;
    }
    r = make_request(w, member, step, &index);
    if (r->op == SIMBA_OP_ACQUIRE) {
        w->check.seen[member].acquiring = r->serial;
        w->check.seen[member].woken = false;
    }
    sim_trace(w, "%s sends #%zu %s generation %u revision %llu timeout %lld", w->members[member].id,
              index, sim_op_name(r->op), r->generation, (unsigned long long)r->revision,
              (long long)r->timeout_ms);
    sim_tell(w, "send", member, " op=%s names=%llu awaited=%d", sim_op_name(r->op),
             (unsigned long long)(r->op == SIMBA_OP_RELEASE ? r->revision : r->fence),
             sim_is_awaited(w, r));
    sim_client_sent(w, r);
    plan_timeout(w, index);
    if (sim_client_recall(w, r))
        refer(w, sim_roll(w, 0, RECALL_US), SIM_ANSWER, index);
    else
        transmit(w, index);
}

/* ---- Arriving and answering ------------------------------------------------------------------ */

static void reply(struct sim_world *w, size_t index)
{
    struct sim_request *r = &w->requests[index];
    int64_t in_us = sim_net_delay(w);

    if (w->hiccup_until_us > w->now_us)
        return;
    if (!r->reply_lost && (w->healed || pass_cut(w, w->members[r->member].process, &in_us)))
        refer(w, in_us, SIM_ANSWER, index);
}

static void apply(struct sim_world *w, size_t index)
{
    struct sim_request *r = &w->requests[index];

    int owner;

    w->counts[SIM_LATE_APPLIED] += r->answered;
    sim_store_apply(w, r);
    r->applied_us = w->now_us;
    sim_trace(w, "store: %s #%zu %s%s, owner %s revision %llu", w->members[r->member].id, index,
              sim_op_name(r->op), r->answered ? " (given up)" : "",
              r->owner == SIM_NOBODY ? "-" : w->members[r->owner].id,
              (unsigned long long)r->reply_revision);
    owner = sim_store_owner(w);
    sim_tell(w, "apply", r->member, " op=%s names=%llu awaited=%d owner=%s token=%llu left=%lld",
             sim_op_name(r->op),
             (unsigned long long)(r->op == SIMBA_OP_RELEASE ? r->revision : r->fence),
             sim_is_awaited(w, r), owner == SIM_NOBODY ? "-" : w->members[owner].id,
             (unsigned long long)w->store.record.fence,
             (long long)(w->store.record.transition_at_ms - sim_store_ms(w)));
}

/* It waits inside the store, and its sender gives it up and sends another one, which need not
 * wait. */
static bool is_blocked(struct sim_world *w, struct sim_request *r)
{
    if (w->healed || r->arrived_ms != 0 || !sim_chance(w, w->network.blocked))
        return false;
    r->arrived_ms = sim_store_ms(w);
    w->counts[SIM_BLOCKED]++;
    return true;
}

/* Of what arrives twice nobody can say that it was not carried out. */
void sim_net_arrive(struct sim_world *w, size_t index)
{
    struct sim_request *r = &w->requests[index];
    bool down = w->store.down_until_us > w->now_us;

    if (!down && is_blocked(w, r)) {
        refer(w, until_healed(w, sim_roll(w, 0, 2 * w->lease_ms * SIM_MS)), SIM_ARRIVE, index);
        sim_net_drop(w, index);
        return;
    }
    if (!down)
        apply(w, index);
    else if (r->code == SIMBA_OK && !r->twice)
        r->code = SIMBA_EUNAVAILABLE;
    if (!down || !r->twice)
        reply(w, index);
    sim_net_drop(w, index);
}

static enum sb_answer answer_of(const struct sim_world *w, const struct sim_request *r)
{
    if (r->code == SIMBA_EUNKNOWN)
        return SB_ANSWER_UNKNOWN;
    if (r->code != SIMBA_OK)
        return SB_ANSWER_FAILED;
    if (r->owner == SIM_NOBODY || r->transition_left_ms < 0)
        return SB_ANSWER_NOBODY;
    return sim_same_id(w, r->owner, r->member) ? SB_ANSWER_MINE : SB_ANSWER_OTHER;
}

/* An answer proves the lease from when it was sent, less the margin. */
static void show_proof(struct sim_world *w, const struct sim_request *r,
                       const struct sb_event *event)
{
    const struct sim_member *m = &w->members[r->member];
    const struct sim_clock *clock = &w->clocks[w->processes[m->process].host];
    int64_t until_ms = event->sent_at_ms + event->transition_left_ms - m->timing.margin_ms;
    int64_t ttl_ms = event->sent_at_ms + event->ttl_left_ms;

    if ((event->op == SIMBA_OP_ACQUIRE || event->op == SIMBA_OP_GUARD) &&
        event->answer == SB_ANSWER_MINE && !(r->foreign && event->fence != 0) &&
        sim_request_is_current(w, r))
        sim_check_proof(w, r->member, sim_clock_true_us(clock, until_ms),
                        sim_clock_true_us(clock, ttl_ms));
}

/* Lets the machine have its answer, and the judges what it makes of it. */
static void judge_answer(struct sim_world *w, const struct sim_request *r,
                         const struct sb_event *event)
{
    const struct sim_seen before = w->check.seen[r->member];

    show_proof(w, r, event);
    sim_check_answered(w, r, event->answer);
    sim_store_told(w, r);
    sim_check_excused(w, r, event);
    sim_member_drive(w, r->member, event);
    sim_check_answer_told(w, r, event, &before);
    sim_check_given_back(w, r, event, &before);
    sim_check_wake_kept(w, r, event, &before);
    sim_check_foreign(w, r, event, &before);
    if (r->op == SIMBA_OP_GUARD &&
        (event->answer == SB_ANSWER_OTHER || event->answer == SB_ANSWER_NOBODY))
        sim_check_deposed(w, r->member, r->term, "its guard found that it does not own");
}

static void tell_machine(struct sim_world *w, size_t index)
{
    struct sim_request *r = &w->requests[index];
    const struct sim_member *m = &w->members[r->member];
    enum sb_answer answer = answer_of(w, r);
    struct sb_event event = {
        .type = SB_EVENT_REPLY,
        .now_ms = sim_process_ms(w, m->process),
        .generation = r->generation,
        .op = r->op,
        .answer = m->observer && answer == SB_ANSWER_MINE ? SB_ANSWER_OTHER : answer,
        .code = r->code,
        .named = r->fence,
        .sent_at_ms = r->as_of_ms != 0 ? r->as_of_ms : r->sent_at_ms,
        .owner = r->owner == SIM_NOBODY ? "" : w->members[r->owner].id,
        .ttl_left_ms = r->ttl_left_ms,
        .transition_left_ms = r->transition_left_ms,
        .revision = r->reply_revision,
        .revision_counts = w->store.kind == SIM_SQL,
        .fence = r->reply_fence,
        .place = r->place,
        .reserved_left_ms = r->reserved_left_ms,
        .missed = r->op == SIMBA_OP_RELEASE && r->revision != 0 && !r->gave_back,
    };
    static const char *const names[] = {"MINE", "OTHER", "NOBODY", "FAILED", "UNKNOWN"};

    sim_tell(w, "take", r->member, " op=%s answer=%s awaited=%d", sim_op_name(r->op),
             names[event.answer], sim_is_awaited(w, r));
    sim_trace(w, "%s answer #%zu %s %s %s revision %llu code %d", m->id, index, sim_op_name(r->op),
              names[event.answer], event.owner, (unsigned long long)event.revision, event.code);
    r->answered = true;
    if (r->life != w->processes[m->process].life)
        return; /* the asker is no more */
    w->counts[SIM_UNKNOWN] += answer == SB_ANSWER_UNKNOWN;
    sim_client_answered(w, r);
    judge_answer(w, r, &event);
}

void sim_net_answer(struct sim_world *w, size_t index)
{
    struct sim_request *r = &w->requests[index];

    if (r->answered) {
        w->counts[SIM_LATE_DROPPED]++;
    } else {
        if (r->expelled)
            sim_after(w, sim_roll(w, 0, EXPELLED_US), SIM_EXPELLED, w->members[r->member].process,
                      r->session);
        tell_machine(w, index);
    }
    sim_net_drop(w, index);
}

void sim_net_timeout(struct sim_world *w, size_t index)
{
    struct sim_request *r = &w->requests[index];

    if (!r->answered) {
        r->code = SIMBA_EUNKNOWN;
        tell_machine(w, index);
    }
    sim_net_drop(w, index);
}

/* ---- Notices --------------------------------------------------------------------------------- */

/* Messages get lost; the watch of a session comes, be it after the partition. */
static void send_notice(struct sim_world *w, int member, enum sim_event_type type)
{
    bool reliable = w->store.kind == SIM_SESSION;
    int64_t in_us = sim_net_delay(w);

    if (!reliable && sim_chance(w, w->network.wake_lost)) {
        w->counts[SIM_WAKE_LOST]++;
        return;
    }
    if (!pass_cut(w, w->members[member].process, &in_us)) {
        if (!reliable)
            return;
        in_us = until_healed(w, w->processes[w->members[member].process].cut_until_us - w->now_us);
    }
    sim_after(w, in_us, type, member, 0);
}

void sim_net_wake(struct sim_world *w, int member)
{
    send_notice(w, member, SIM_WAKE);
}

void sim_net_reserved(struct sim_world *w, int member, enum sim_event_type type)
{
    send_notice(w, member, type);
}

/* Lost, late and repeated, like any message: a follower is told none, one or two of them. */
void sim_net_change(struct sim_world *w)
{
    for (int i = 0; i < w->member_count; i++) {
        int64_t notices = w->members[i].follows ? sim_roll(w, 0, 3) : 0;

        for (int64_t n = 0; n < notices; n++) {
            int64_t in_us = sim_net_delay(w);

            if (pass_cut(w, w->members[i].process, &in_us))
                sim_after(w, in_us, SIM_CHANGED, i, 0);
        }
    }
}

/* The client has learned it: all its members are told, and the next request opens a new session. */
void sim_net_expelled(struct sim_world *w, int process)
{
    w->counts[SIM_SESSIONS_LOST]++;
    w->processes[process].session = 0;
    w->processes[process].proved_ms = 0;
    sim_trace(w, "p%d has lost its session", process);
    for (int i = 0; i < w->member_count; i++) {
        uint64_t term = w->check.seen[i].term;

        if (w->members[i].process != process)
            continue;
        w->members[i].told_revision = 0;
        sim_check_expelled(w, i);
        sim_member_event(w, i, SB_EVENT_SESSION_LOST);
        sim_check_deposed(w, i, term, "its session was lost");
    }
}
