/*
 * Two machines and a store walk at random: requests are carried out late, answers come later, are
 * lost or overtake each other, callbacks hang, services stop and start, sessions end. After every
 * step the rules of a contest must hold. One number decides the whole walk; a failure prints it.
 */
#include "base/random.h"
#include "core/machine.h"
#include "test.h"

#define SEEDS 40
#define STEPS 50000 /* for each seed */
#define MACHINES 2
#define REQUESTS_MAX 64
#define TTL 100
#define TRANSITION 60

/* A request on its way. It is carried out once, or never, and answered once, in either order. */
struct request {
    int machine;
    enum simba_op op;
    uint32_t generation;
    uint64_t revision;
    int64_t sent_at_ms;
    bool open; /* the slot is in use */
    bool carried_out;
    bool answered;
    struct sb_event reply; /* what the store said */
};

struct store {
    int owner; /* -1: nobody */
    int64_t transition_at_ms;
    uint64_t revision;
};

struct contender {
    struct sb_machine machine;
    int64_t deadline_ms;
    unsigned owed; /* callbacks that have not returned */
    bool owns;     /* by what was told */
    uint64_t fence;
    uint64_t fence_before;
};

struct walk {
    uint64_t seed;
    uint64_t random;
    int64_t now_ms;
    bool reorders;     /* requests of one contender may overtake each other */
    uint64_t slowness; /* of the network, different in each walk */
    struct sb_timing timing;
    struct store store;
    struct contender contenders[MACHINES];
    struct request requests[REQUESTS_MAX];
    unsigned terms;
};

static const char *const ids[MACHINES] = {"a", "b"};

static uint64_t draw(struct walk *w, uint64_t below)
{
    return sb_random_next(&w->random) % below;
}

static bool believes(const struct walk *w, int machine)
{
    return sb_machine_belief_ms(&w->contenders[machine].machine) > w->now_ms;
}

#define RULE(w, holds)                                                                             \
    do {                                                                                           \
        if (!(holds))                                                                              \
            fail_msg("seed %llu, at %lld: %s", (unsigned long long)(w)->seed,                      \
                     (long long)(w)->now_ms, #holds);                                              \
    } while (0)

/* ---- The machines ---------------------------------------------------------------------------- */

static void check_told(struct walk *w, struct contender *c, const struct sb_step *step)
{
    if (step->acquired) {
        RULE(w, !c->owns);
        RULE(w, step->state.after.fence > c->fence_before);
        c->fence = c->fence_before = step->state.after.fence;
        w->terms++;
    }
    if (step->released)
        RULE(w, c->owns);
    if (step->acquired || step->released)
        c->owns = step->acquired;
    if (sb_machine_belief_ms(&c->machine) > 0) {
        RULE(w, c->owns);
        RULE(w, sb_machine_fence(&c->machine) == c->fence);
    }
}

static void keep_request(struct walk *w, int machine, const struct sb_step *step)
{
    for (size_t i = 0; i < REQUESTS_MAX; i++) {
        struct request *r = &w->requests[i];

        if (r->open)
            continue;
        *r = (struct request){
            .machine = machine,
            .op = step->request.op,
            .generation = step->request.generation,
            .revision = step->request.revision,
            .sent_at_ms = w->now_ms,
            .open = true,
        };
        return;
    }
    fail_msg("seed %llu: too many requests under way", (unsigned long long)w->seed);
}

static void feed(struct walk *w, int machine, struct sb_event event)
{
    struct contender *c = &w->contenders[machine];
    struct sb_step step;

    event.now_ms = w->now_ms;
    sb_machine_step(&c->machine, &event, &step);
    RULE(w, sb_machine_broken_rule(&c->machine) == NULL);
    check_told(w, c, &step);
    RULE(w, !(believes(w, 0) && believes(w, 1)));
    c->owed += step.changed ? 1 : 0;
    c->deadline_ms = step.deadline_ms;
    if (step.request.op != SIMBA_OP_NONE)
        keep_request(w, machine, &step);
}

/* ---- The store ------------------------------------------------------------------------------- */

static bool is_owned(const struct walk *w)
{
    return w->store.owner >= 0 && w->store.transition_at_ms >= w->now_ms;
}

/* The heart of the matter: a contender that loses the record must have stopped believing before. */
static void set_owner(struct walk *w, int owner)
{
    for (int i = 0; i < MACHINES; i++)
        if (i != owner)
            RULE(w, !believes(w, i));
    w->store.owner = owner;
    w->store.revision++;
    w->store.transition_at_ms = owner >= 0 ? w->now_ms + TTL + TRANSITION : 0;
}

static void carry_out(struct walk *w, struct request *r)
{
    struct store *s = &w->store;
    bool mine = s->owner == r->machine;

    if (r->op == SIMBA_OP_ACQUIRE && (!is_owned(w) || mine))
        set_owner(w, r->machine);
    else if (r->op == SIMBA_OP_GUARD && mine && s->transition_at_ms > w->now_ms)
        set_owner(w, r->machine); /* as SQL stores do it: the revision grows with renewals */
    else if (r->op == SIMBA_OP_RELEASE && mine && r->revision != 0 && s->revision == r->revision)
        set_owner(w, -1);
    r->carried_out = true;
    r->reply.answer = SB_ANSWER_NOBODY;
    if (is_owned(w)) {
        r->reply.answer = s->owner == r->machine ? SB_ANSWER_MINE : SB_ANSWER_OTHER;
        r->reply.owner = ids[s->owner];
        r->reply.transition_left_ms = s->transition_at_ms - w->now_ms;
        r->reply.ttl_left_ms = r->reply.transition_left_ms - TRANSITION;
        r->reply.revision = s->revision;
    }
}

/* An answer that comes before the store has acted: nobody knows, or it never will act. */
static void give_up(struct walk *w, struct request *r)
{
    bool known = draw(w, 2) == 0;

    r->reply.answer = known ? SB_ANSWER_FAILED : SB_ANSWER_UNKNOWN;
    r->reply.code = known ? SIMBA_EUNAVAILABLE : SIMBA_EUNKNOWN;
    r->carried_out = known || draw(w, 2) == 0; /* else it may still be carried out later */
}

static void answer(struct walk *w, struct request *r)
{
    struct sb_event event;

    if (!r->carried_out)
        give_up(w, r);
    else if (draw(w, 10) == 0)
        r->reply = (struct sb_event){.answer = SB_ANSWER_UNKNOWN, .code = SIMBA_EUNKNOWN};
    r->answered = true;
    event = r->reply;
    event.type = SB_EVENT_REPLY;
    event.generation = r->generation;
    event.op = r->op;
    event.sent_at_ms = r->sent_at_ms;
    r->open = !r->carried_out;
    feed(w, r->machine, event);
}

/* Whether an older request of the same contender is still to be carried out or answered. */
static bool has_elder(const struct walk *w, const struct request *r)
{
    for (size_t i = 0; i < REQUESTS_MAX; i++) {
        const struct request *other = &w->requests[i];

        if (other->open && other->machine == r->machine && other->sent_at_ms < r->sent_at_ms)
            return true;
    }
    return false;
}

/* Any that is under way; NULL when there is none. */
static struct request *pick_request(struct walk *w)
{
    size_t first = draw(w, REQUESTS_MAX);

    for (size_t i = 0; i < REQUESTS_MAX; i++) {
        struct request *r = &w->requests[(first + i) % REQUESTS_MAX];

        if (r->open && (w->reorders || !has_elder(w, r)))
            return r;
    }
    return NULL;
}

static void move_a_request(struct walk *w)
{
    struct request *r = pick_request(w);

    if (r == NULL)
        return;
    if (!r->carried_out && draw(w, 4) != 0) {
        carry_out(w, r);
        r->open = !r->answered;
    } else if (!r->answered) {
        answer(w, r);
    }
}

/* ---- The walk -------------------------------------------------------------------------------- */

/* The store forgets what the session held, and carries out nothing that it had asked for. */
static void lose_session(struct walk *w, int machine)
{
    for (size_t i = 0; i < REQUESTS_MAX; i++) {
        struct request *r = &w->requests[i];

        if (!r->open || r->machine != machine || r->carried_out)
            continue;
        r->carried_out = true;
        r->reply = (struct sb_event){.answer = SB_ANSWER_FAILED, .code = SIMBA_EUNAVAILABLE};
        r->open = !r->answered;
    }
    feed(w, machine, (struct sb_event){.type = SB_EVENT_SESSION_LOST});
    if (w->store.owner == machine)
        set_owner(w, -1);
}

static void return_callback(struct walk *w, int machine)
{
    struct contender *c = &w->contenders[machine];

    if (c->owed == 0)
        return;
    c->owed--;
    feed(w, machine, (struct sb_event){.type = SB_EVENT_RETURNED, .returned = 1});
}

/* To the next deadline, or a little further: a driver may be late. */
static void pass_time(struct walk *w)
{
    w->now_ms += (int64_t)draw(w, draw(w, 20) == 0 ? 2 * TTL : 8);
    for (int i = 0; i < MACHINES; i++)
        if (w->contenders[i].deadline_ms <= w->now_ms)
            feed(w, i, (struct sb_event){.type = SB_EVENT_TICK});
}

static void walk_one_step(struct walk *w)
{
    int machine = (int)draw(w, MACHINES);
    enum simba_status status = w->contenders[machine].machine.status;
    uint64_t choice = draw(w, 1000);

    if (choice < 2)
        lose_session(w, machine);
    else if (choice < 12)
        feed(w, machine, (struct sb_event){.type = choice < 7 ? SB_EVENT_WAKE : SB_EVENT_CHANGED});
    else if (choice < 22 && simba_status_is_active(status))
        feed(w, machine, (struct sb_event){.type = SB_EVENT_STOP});
    else if (choice < 60 && status == SIMBA_INITIAL)
        feed(w, machine, (struct sb_event){.type = SB_EVENT_START});
    else if (choice < 160)
        return_callback(w, machine);
    else if (choice < 300)
        pass_time(w);
    else if (draw(w, w->slowness) == 0)
        move_a_request(w);
}

static void begin(struct walk *w, uint64_t seed, bool reorders)
{
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->random = seed;
    w->now_ms = 1000000;
    w->reorders = reorders;
    w->slowness = 1 + seed % 32;
    w->store.owner = -1;
    w->timing = (struct sb_timing){
        .ttl_ms = TTL,
        .transition_ms = TRANSITION,
        .margin_ms = 5,
        .jitter_min_ms = -20,
        .jitter_max_ms = 50,
        .stop_timeout_ms = 300,
    };
    for (int i = 0; i < MACHINES; i++) {
        w->contenders[i].deadline_ms = SIMBA_INFINITE;
        sb_machine_init(&w->contenders[i].machine, &w->timing, seed + (uint64_t)i);
        sb_machine_follow(&w->contenders[i].machine);
    }
}

static void take_a_walk(bool reorders)
{
    static struct walk w;
    unsigned terms = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(&w, seed, reorders);
        for (int i = 0; i < STEPS; i++)
            walk_one_step(&w);
        terms += w.terms;
    }
    assert_true(terms > 100 * SEEDS); /* else the walk would show nothing */
}

static void the_rules_hold_when_requests_keep_their_order(void **state)
{
    take_a_walk(false);
}

static void the_rules_hold_when_requests_overtake_each_other(void **state)
{
    take_a_walk(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rules_hold_when_requests_keep_their_order),
        cmocka_unit_test(the_rules_hold_when_requests_overtake_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
