/*
 * net.c - carries requests to the store and answers back, badly. It is network and backend in one: what it
 * promises the machine is what backend.h demands, exactly one answer each, and nothing more.
 *
 *     sent ---> ARRIVE (carried out) ---> ANSWER      whichever of ANSWER and TIMEOUT comes first is the
 *       \____________________________ TIMEOUT         answer; a request may arrive after both
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
    if (sim_chance(w, w->network.slow))
        return until_healed(w, sim_roll(w, 0, 2 * w->lease_ms * SIM_MS));
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

/* Whether whoever sent it has given it up, stopped or crashed since. */
bool sim_request_is_old(const struct sim_world *w, const struct sim_request *r)
{
    const struct sim_member *m = &w->members[r->member];

    return r->answered || r->start != m->starts || r->life != w->processes[m->process].life;
}

/* ---- Sending --------------------------------------------------------------------------------- */

static struct sim_request *make_request(struct sim_world *w, int member, const struct sb_step *step,
                                        size_t *ret_index)
{
    const struct sim_member *m = &w->members[member];
    struct sim_process *p = &w->processes[m->process];
    struct sim_request *r = allocate(w, ret_index);

    if (w->store.kind == SIM_SESSION && p->session == 0)
        p->session = sim_session_open(w, m->process);
    r->member = member;
    r->life = p->life;
    r->start = m->starts;
    r->session = p->session;
    r->op = step->request.op;
    r->generation = step->request.generation;
    r->revision = step->request.revision;
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

    r->reply_lost = true;
    r->code = sent ? SIMBA_EUNKNOWN : SIMBA_EUNAVAILABLE;
    if (sent && sim_chance(w, 600))
        refer(w, sim_net_delay(w), SIM_ARRIVE, index);
    refer(w, until_healed(w, sim_roll(w, 0, w->network.delay_us)), SIM_ANSWER, index);
}

static void transmit(struct sim_world *w, size_t index)
{
    struct sim_request *r = &w->requests[index];
    const struct sim_network *n = &w->network;
    int64_t in_us = sim_net_delay(w);

    if (!w->healed) {
        if (sim_chance(w, n->refused)) {
            reset_connection(w, index, false);
            return;
        }
        if (sim_chance(w, n->reset)) {
            reset_connection(w, index, true);
            return;
        }
        r->reply_lost = sim_chance(w, n->reply_lost);
        if (sim_chance(w, n->lost) || !pass_cut(w, w->members[r->member].process, &in_us))
            return;
    }
    refer(w, in_us, SIM_ARRIVE, index);
}

void sim_net_send(struct sim_world *w, int member, const struct sb_step *step)
{
    size_t index;
    struct sim_request *r = make_request(w, member, step, &index);

    sim_trace(w, "%s sends #%zu %s generation %u revision %llu timeout %lld", w->members[member].id,
              index, sim_op_name(r->op), r->generation, (unsigned long long)r->revision,
              (long long)r->timeout_ms);
    sim_check_sent(w, member);
    sim_client_sent(w, r);
    plan_timeout(w, index);
    if (sim_client_recall(w, r))
        refer(w, sim_roll(w, 0, RECALL_US), SIM_ANSWER, index);
    else
        transmit(w, index);
}

/* ---- Arriving and answering ------------------------------------------------------------------- */

static void reply(struct sim_world *w, size_t index)
{
    struct sim_request *r = &w->requests[index];
    int64_t in_us = sim_net_delay(w);

    if (!r->reply_lost && (w->healed || pass_cut(w, w->members[r->member].process, &in_us)))
        refer(w, in_us, SIM_ANSWER, index);
}

void sim_net_arrive(struct sim_world *w, size_t index)
{
    struct sim_request *r = &w->requests[index];

    if (w->store.down_until_us > w->now_us) {
        r->code = r->code == SIMBA_OK ? SIMBA_EUNAVAILABLE : r->code;
    } else {
        if (r->answered)
            w->counts.late_applied++;
        sim_store_apply(w, r);
        r->applied_us = w->now_us;
        sim_trace(w, "store: %s #%zu %s%s, owner %s revision %llu", w->members[r->member].id, index,
                  sim_op_name(r->op), r->answered ? " (given up)" : "",
                  r->owner == SIM_NOBODY ? "-" : w->members[r->owner].id,
                  (unsigned long long)r->reply_revision);
    }
    reply(w, index);
    sim_net_drop(w, index);
}

static enum sb_answer answer_of(const struct sim_request *r)
{
    if (r->code == SIMBA_EUNKNOWN)
        return SB_ANSWER_UNKNOWN;
    if (r->code != SIMBA_OK)
        return SB_ANSWER_FAILED;
    if (r->owner == SIM_NOBODY || r->transition_left_ms < 0)
        return SB_ANSWER_NOBODY;
    return r->owner == r->member ? SB_ANSWER_MINE : SB_ANSWER_OTHER;
}

/* A guard that was answered proves the lease from when it was sent, less the margin. */
static void show_renewal(struct sim_world *w, const struct sim_request *r,
                         const struct sb_event *event)
{
    const struct sim_member *m = &w->members[r->member];

    if (event->op == SIMBA_OP_GUARD && event->answer == SB_ANSWER_MINE && r->start == m->starts)
        sim_check_kept(
            w, r->member,
            sim_clock_true_us(&w->clocks[w->processes[m->process].host],
                              event->sent_at_ms + event->transition_left_ms - m->timing.margin_ms));
}

static void tell_machine(struct sim_world *w, size_t index)
{
    struct sim_request *r = &w->requests[index];
    const struct sim_member *m = &w->members[r->member];
    enum sb_answer answer = answer_of(r);
    struct sb_event event = {
        .type = SB_EVENT_REPLY,
        .now_ms = sim_process_ms(w, m->process),
        .generation = r->generation,
        .op = r->op,
        .answer = m->observer && answer == SB_ANSWER_MINE ? SB_ANSWER_OTHER : answer,
        .code = r->code,
        .sent_at_ms = r->as_of_ms != 0 ? r->as_of_ms : r->sent_at_ms,
        .owner = r->owner == SIM_NOBODY ? "" : w->members[r->owner].id,
        .ttl_left_ms = r->ttl_left_ms,
        .transition_left_ms = r->transition_left_ms,
        .revision = r->reply_revision,
        .fence = r->reply_fence,
    };
    static const char *const names[] = {"MINE", "OTHER", "NOBODY", "FAILED", "UNKNOWN"};

    r->answered = true;
    if (r->life != w->processes[m->process].life)
        return; /* whoever asked is no more */
    w->counts.unknown += answer == SB_ANSWER_UNKNOWN;
    sim_client_answered(w, r);
    sim_trace(w, "%s answer #%zu %s %s %s revision %llu", m->id, index, sim_op_name(r->op),
              names[event.answer], event.owner, (unsigned long long)event.revision);
    show_renewal(w, r, &event);
    sim_member_drive(w, r->member, &event);
}

void sim_net_answer(struct sim_world *w, size_t index)
{
    struct sim_request *r = &w->requests[index];

    if (r->answered) {
        w->counts.late_dropped++;
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
void sim_net_wake(struct sim_world *w, int member)
{
    bool reliable = w->store.kind == SIM_SESSION;
    int64_t in_us = sim_net_delay(w);

    if (!reliable && sim_chance(w, w->network.wake_lost))
        return;
    if (!pass_cut(w, w->members[member].process, &in_us)) {
        if (!reliable)
            return;
        in_us = until_healed(w, w->processes[w->members[member].process].cut_until_us - w->now_us);
    }
    sim_after(w, in_us, SIM_WAKE, member, 0);
}

/* The client has learned it: all its members are told, and the next request opens a new session. */
void sim_net_expelled(struct sim_world *w, int process)
{
    w->counts.sessions_lost++;
    w->processes[process].session = 0;
    w->processes[process].proved_ms = 0;
    sim_trace(w, "p%d has lost its session", process);
    for (int i = 0; i < w->member_count; i++) {
        if (w->members[i].process != process)
            continue;
        w->members[i].told_revision = 0;
        sim_member_event(w, i, SB_EVENT_SESSION_LOST);
    }
}
