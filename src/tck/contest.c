/*
 * contest.c - the cases multi_contend and multi_process: many contenders, in one or many processes,
 * compete for one mutex; at no instant may two of them own it.
 *
 * Two checks, because neither alone is enough:
 *  - live: a contender that enters a term looks whether another is inside one that is still good;
 *  - afterwards: the log of all terms is sorted by time. Beliefs must not overlap, tokens must
 *    grow.
 *
 * A term is inside from on_acquired until its on_released has returned, as long as the lease lasts
 * that its owner has seen with its own eyes (until_ms). A term that was lost to a stalled machine
 * therefore does not count against its successor, and one that was given back counts to the very
 * end.
 *
 * Half of the contenders share a client, the other half one that a shim cuts off from the store now
 * and then, so that terms end in both ways: released and expired.
 */
#include "base/alloc.h"
#include "base/time.h"
#include "base/random.h"
#include "base/text.h"
#include "tck/kit.h"
#include "tck/probe.h"
#include "tck/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS_MAX (2 * SB_KIT_CONTENDERS_MAX)
#define TERMS_MAX 16384 /* later terms are checked live only */

/* A belief that somebody certainly had: from begin_us to seen_us, on the clock that all processes
 * of a host share. */
struct term {
    unsigned slot;
    _Atomic uint64_t fence; /* 0: not logged */
    _Atomic int64_t begin_us;
    _Atomic int64_t seen_us;
};

/* Memory that all processes of a contest share. Zeroed is ready. */
struct arena {
    _Atomic int64_t until_ms[SLOTS_MAX]; /* 0: outside */
    atomic_uint wins[SLOTS_MAX];
    atomic_uint terms;
    atomic_uint lost; /* terms that ended by expiry */
    atomic_uint failures;
    char failure[SB_KIT_TEXT_MAX]; /* of the process that failed first */
    struct term log[TERMS_MAX];
};

#define HOLD_MAX_MS 60
#define CUT_EVERY 4 /* one in that many terms behind the shim ends by expiry */

enum phase {
    PHASE_WAITING, /* started, not the owner */
    PHASE_HOLDING, /* the owner, until act_at_ms */
    PHASE_CUT_OFF, /* the owner, and cannot renew */
    PHASE_RESTING, /* stopped, until act_at_ms or until somebody else has won */
    PHASE_SLEEPING /* stopped, until act_at_ms */
};

struct contest;

struct rival {
    struct contest *contest;
    struct sb_probe *probe;
    struct sb_shim *shim; /* NULL: not behind one */
    unsigned slot;
    enum phase phase;
    int64_t act_at_ms;
    unsigned terms_seen;         /* of the whole contest, when the phase began */
    _Atomic(struct term *) term; /* under way, where it is logged */
};

struct contest {
    struct sb_kit *kit;
    struct arena *arena;
    struct rival *rivals;
    unsigned count;
    unsigned cuts; /* terms that were made to end by expiry: one at least */
    uint64_t random;
};

/* Shared with children to come; NULL when that fails. */
static struct arena *create_arena(void)
{
    void *memory =
        mmap(NULL, sizeof(struct arena), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static void free_arena(struct arena *arena)
{
    if (arena != NULL)
        munmap(arena, sizeof(*arena));
}

/* ---- Inside the callbacks -------------------------------------------------------------------- */

/* The clock is read last: then both leases were good when the other's was looked at. */
static void check_alone(struct rival *rival, int64_t mine_ms)
{
    struct arena *arena = rival->contest->arena;

    for (unsigned i = 0; i < SLOTS_MAX; i++) {
        int64_t until_ms = i == rival->slot ? 0 : atomic_load(&arena->until_ms[i]);
        int64_t now_ms = simba_now_ms();

        sb_kit_check(rival->contest->kit, now_ms >= mine_ms || now_ms >= until_ms,
                     "contender %u is in while contender %u is, for another %" PRId64 " ms",
                     rival->slot, i, until_ms - now_ms);
    }
}

/* The term is logged only when it is still believed in after the clock was read: its beginning lies
 * before, so the belief at begin_us is certain. */
static void log_term(struct rival *rival, unsigned index, int64_t begin_us)
{
    struct arena *arena = rival->contest->arena;
    uint64_t fence = simba_contender_fence(rival->probe->contender);
    struct term *term;

    if (index >= TERMS_MAX || fence == 0)
        return;
    term = &arena->log[index];
    term->slot = rival->slot;
    atomic_store(&term->begin_us, begin_us);
    atomic_store(&term->seen_us, begin_us);
    atomic_store(&term->fence, fence);
    atomic_store(&rival->term, term);
}

static void enter(struct sb_probe *probe, const struct simba_state *state)
{
    struct rival *rival = probe->user;
    struct arena *arena = rival->contest->arena;
    int64_t begin_us = sb_clock_us();
    int64_t until_ms = simba_contender_deadline_ms(probe->contender);

    (void)state;
    log_term(rival, atomic_fetch_add(&arena->terms, 1), begin_us);
    atomic_fetch_add(&arena->wins[rival->slot], 1);
    /* First in, then look: of two that enter at once, one at least sees the other. */
    atomic_store(&arena->until_ms[rival->slot], until_ms);
    check_alone(rival, until_ms);
}

static void leave(struct sb_probe *probe, const struct simba_state *state)
{
    struct rival *rival = probe->user;

    (void)state;
    atomic_store(&rival->term, NULL);
    atomic_store(&rival->contest->arena->until_ms[rival->slot], 0);
}

/* ---- What each contender does ---------------------------------------------------------------- */

static int64_t random_ms(struct contest *contest, int64_t most_ms)
{
    return sb_random_between(sb_random_next(&contest->random), 0, most_ms + 1);
}

static void move(struct rival *rival, enum phase phase, int64_t for_ms)
{
    rival->phase = phase;
    rival->act_at_ms = simba_now_ms() + for_ms;
    rival->terms_seen = atomic_load(&rival->contest->arena->terms);
}

static bool is_inside(struct rival *rival)
{
    return atomic_load(&rival->probe->entered) > atomic_load(&rival->probe->left);
}

static bool is_due(const struct rival *rival)
{
    return simba_now_ms() >= rival->act_at_ms;
}

static bool has_successor(struct rival *rival)
{
    return atomic_load(&rival->contest->arena->terms) > rival->terms_seen;
}

/* Notes how long the owner has certainly believed and will: the times are read before the
 * question. */
static void sample(struct rival *rival)
{
    const simba_contender *contender = rival->probe->contender;
    struct term *term = atomic_load(&rival->term);
    int64_t now_us = sb_clock_us();
    int64_t until_ms = simba_contender_deadline_ms(contender);

    if (term == NULL || simba_contender_fence(contender) != atomic_load(&term->fence))
        return;
    atomic_store(&term->seen_us, now_us);
    if (until_ms > 0)
        atomic_store(&rival->contest->arena->until_ms[rival->slot], until_ms);
}

/* Every other time it sleeps for a lease or two, so that those get their turn whom no wake-up
 * reaches. */
static void rest(struct rival *rival)
{
    struct contest *contest = rival->contest;
    enum phase phase = random_ms(contest, 1) == 0 ? PHASE_RESTING : PHASE_SLEEPING;
    int64_t lease_ms = sb_kit_lease_ms(contest->kit, SB_KIT_LEASE_PLAIN);

    sb_probe_stop(rival->probe);
    move(rival, phase, lease_ms + random_ms(contest, lease_ms));
}

static void cut_off(struct rival *rival)
{
    rival->contest->cuts++;
    sb_shim_hold_requests(rival->shim, SB_SHIM_ALL);
    move(rival, PHASE_CUT_OFF, 4 * sb_kit_lease_ms(rival->contest->kit, SB_KIT_LEASE_PLAIN));
}

static void step_waiting(struct rival *rival)
{
    if (is_inside(rival))
        move(rival, PHASE_HOLDING, random_ms(rival->contest, HOLD_MAX_MS));
}

static void step_holding(struct rival *rival)
{
    struct contest *contest = rival->contest;
    bool cut =
        rival->shim != NULL && (contest->cuts == 0 || random_ms(contest, CUT_EVERY - 1) == 0);

    sample(rival);
    if (!is_inside(rival))
        move(rival, PHASE_WAITING, 0); /* lost: the machine was too busy to renew */
    else if (is_due(rival) && cut)
        cut_off(rival);
    else if (is_due(rival))
        rest(rival);
}

/* Comes back when somebody else has taken over, or nobody could. */
static void step_cut_off(struct rival *rival)
{
    sample(rival);
    if (!is_due(rival) && (is_inside(rival) || !has_successor(rival)))
        return;
    sb_shim_let_go(rival->shim);
    if (!is_inside(rival))
        atomic_fetch_add(&rival->contest->arena->lost, 1);
    move(rival, PHASE_WAITING, 0);
}

static void step_resting(struct rival *rival)
{
    if (!is_due(rival) && (rival->phase == PHASE_SLEEPING || !has_successor(rival)))
        return;
    sb_probe_start(rival->probe);
    move(rival, PHASE_WAITING, 0);
}

static void step(struct rival *rival)
{
    static void (*const steps[])(struct rival *) = {
        [PHASE_WAITING] = step_waiting,  [PHASE_HOLDING] = step_holding,
        [PHASE_CUT_OFF] = step_cut_off,  [PHASE_RESTING] = step_resting,
        [PHASE_SLEEPING] = step_resting,
    };

    steps[rival->phase](rival);
}

/* The condition that the driver waits for: a failure. All else happens on the way. */
static bool step_all(void *argument)
{
    struct contest *contest = argument;

    for (unsigned i = 0; i < contest->count; i++)
        step(&contest->rivals[i]);
    return sb_kit_failed(contest->kit);
}

/* ---- The whole contest ----------------------------------------------------------------------- */

static bool enlist(struct contest *contest, simba_client *client, struct sb_shim *shim,
                   unsigned index, unsigned first)
{
    struct rival *rival = &contest->rivals[index];

    rival->contest = contest;
    rival->shim = shim;
    rival->slot = first + index;
    rival->probe = sb_probe_create(contest->kit, client, "a contender");
    if (rival->probe == NULL)
        return false;
    rival->probe->in_acquired = enter;
    rival->probe->in_released = leave;
    rival->probe->user = rival;
    return true;
}

static bool enlist_all(struct contest *contest, unsigned first)
{
    struct sb_kit *kit = contest->kit;
    struct sb_shim *shim = NULL;
    simba_client *client = sb_kit_client(kit, SB_KIT_LEASE_PLAIN);
    simba_client *shaky =
        sb_kit_client_with_shim(kit, SB_KIT_LEASE_PLAIN, sb_kit_patience_ms(kit), &shim);

    if (client == NULL || shaky == NULL)
        return false;
    for (unsigned i = 0; i < contest->count; i++) {
        bool behind_shim = i % 2 == 1;

        if (!enlist(contest, behind_shim ? shaky : client, behind_shim ? shim : NULL, i, first))
            return false;
    }
    return true;
}

static void stop_all(struct contest *contest)
{
    for (unsigned i = 0; i < contest->count; i++)
        sb_shim_let_go(contest->rivals[i].shim);
    for (unsigned i = 0; i < contest->count; i++)
        if (contest->rivals[i].phase < PHASE_RESTING)
            sb_probe_stop(contest->rivals[i].probe);
}

/* Lets the contenders of the slots from `first` on compete for options.contend_ms. All is closed
 * when it returns. */
static void run_contest(struct sb_kit *kit, struct arena *arena, unsigned first, unsigned count)
{
    struct contest contest = {
        .kit = kit, .arena = arena, .count = count, .random = sb_random_seed()};

    contest.rivals = sb_alloc_zero(count * sizeof(struct rival));
    if (!sb_kit_check(kit, contest.rivals != NULL, "out of memory"))
        return;
    if (enlist_all(&contest, first)) {
        for (unsigned i = 0; i < count; i++)
            sb_probe_start(contest.rivals[i].probe);
        sb_kit_wait(kit, step_all, &contest, kit->options.contend_ms);
        stop_all(&contest);
    }
    sb_kit_close(kit); /* the probes refer to the rivals */
    sb_free(contest.rivals);
}

/* ---- The judge ------------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b)
{
    const struct term *x = a;
    const struct term *y = b;

    return (x->begin_us > y->begin_us) - (x->begin_us < y->begin_us);
}

static void judge_pair(struct sb_kit *kit, const struct term *before, const struct term *after)
{
    sb_kit_check(kit, before->seen_us < after->begin_us,
                 "contender %u believed for %" PRId64 " us after contender %u had won",
                 before->slot, before->seen_us - after->begin_us, after->slot);
    sb_kit_check(kit, before->fence < after->fence,
                 "the token %" PRIu64 " was followed by %" PRIu64, before->fence, after->fence);
}

static void judge_log(struct sb_kit *kit, struct arena *arena, unsigned terms)
{
    unsigned count = terms < TERMS_MAX ? terms : TERMS_MAX;
    unsigned logged = 0;

    for (unsigned i = 0; i < count; i++)
        if (arena->log[i].fence != 0)
            arena->log[logged++] = arena->log[i];
    qsort(arena->log, logged, sizeof(arena->log[0]), by_begin);
    for (unsigned i = 1; i < logged && !sb_kit_failed(kit); i++)
        judge_pair(kit, &arena->log[i - 1], &arena->log[i]);
}

/* Checks the log after all have ended, and that the contest was one. */
static void judge(struct sb_kit *kit, struct arena *arena)
{
    unsigned terms = atomic_load(&arena->terms);
    unsigned winners = 0;

    for (unsigned i = 0; i < SLOTS_MAX; i++)
        winners += atomic_load(&arena->wins[i]) > 0;
    judge_log(kit, arena, terms);
    /* A contest that nobody or always the same one wins shows nothing. */
    sb_kit_check(kit, terms >= 3 && winners >= 2,
                 "only %u terms of %u contenders in %" PRId64 " ms", terms, winners,
                 kit->options.contend_ms);
    sb_kit_note(kit, "%u terms of %u contenders, %u ended by expiry", terms, winners,
                atomic_load(&arena->lost));
}

/* ---- multi_contend --------------------------------------------------------------------------- */

void sb_case_multi_contend(struct sb_kit *kit)
{
    struct arena *arena = create_arena();

    if (!sb_kit_check(kit, arena != NULL, "no memory for the contest"))
        return;
    run_contest(kit, arena, 0, (unsigned)kit->options.contenders);
    judge(kit, arena);
    free_arena(arena);
}

/* ---- Across processes ------------------------------------------------------------------------ */

/* The children are forked before this process has opened a client for the contest. All of them hold
 * the end of a pipe: its end tells that all have ended, and a child that hangs is killed in
 * time. */
struct crew {
    struct sb_kit *kit;
    struct arena *arena;
    unsigned each; /* contenders in each process */
    pid_t pids[SB_KIT_PROCESSES_MAX];
    int count;
    int alive; /* read end of the pipe: ends when the last child has */
};

/* A child: tells its failures through the arena and leaves without running anybody's exit
 * handlers. */
static _Noreturn void run_child(struct crew *crew, unsigned index)
{
    struct sb_kit *kit = crew->kit;
    struct arena *arena = crew->arena;

    close(crew->alive);
    run_contest(kit, arena, index * crew->each, crew->each);
    if (sb_kit_failed(kit) && atomic_fetch_add(&arena->failures, 1) == 0)
        sb_text_copy(arena->failure, sizeof(arena->failure), kit->failure);
    _exit(sb_kit_failed(kit) ? 1 : 0);
}

static bool fork_children(struct crew *crew)
{
    int ends[2];

    if (!sb_kit_check(crew->kit, pipe2(ends, O_CLOEXEC) == 0, "pipe: %s", strerror(errno)))
        return false;
    crew->alive = ends[0];
    while (crew->count < crew->kit->options.processes) {
        pid_t pid = fork();

        if (pid == 0)
            run_child(crew, (unsigned)crew->count);
        if (!sb_kit_check(crew->kit, pid > 0, "fork: %s", strerror(errno)))
            break;
        crew->pids[crew->count++] = pid;
    }
    close(ends[1]);
    return crew->count == crew->kit->options.processes;
}

/* Whether all children have ended by themselves in time. */
static bool await_children(struct crew *crew)
{
    struct pollfd end = {.fd = crew->alive, .events = POLLIN};
    int64_t until_ms =
        simba_now_ms() + crew->kit->options.contend_ms + 3 * sb_kit_patience_ms(crew->kit);

    for (;;) {
        int64_t left_ms = until_ms - simba_now_ms();
        int ready = poll(&end, 1, left_ms > 0 ? (int)left_ms : 0);

        if (ready > 0)
            return true;
        if (left_ms <= 0 || (ready < 0 && errno != EINTR))
            return false;
    }
}

static void reap(struct crew *crew, int index, bool ended)
{
    int status = 0;

    if (!ended)
        kill(crew->pids[index], SIGKILL);
    while (waitpid(crew->pids[index], &status, 0) < 0)
        if (errno != EINTR)
            return;
    if (WIFSIGNALED(status))
        sb_kit_fail(crew->kit, "process %d was killed by signal %d", index, WTERMSIG(status));
}

static void run_crew(struct crew *crew)
{
    bool forked = fork_children(crew);
    bool ended = forked && await_children(crew);

    sb_kit_check(crew->kit, !forked || ended, "a process of the contest did not end in time");
    for (int i = 0; i < crew->count; i++)
        reap(crew, i, ended);
    if (crew->alive >= 0)
        close(crew->alive);
    sb_kit_check(crew->kit, atomic_load(&crew->arena->failures) == 0, "%s", crew->arena->failure);
    if (!sb_kit_failed(crew->kit))
        judge(crew->kit, crew->arena);
}

void sb_case_multi_process(struct sb_kit *kit)
{
    struct crew crew = {.kit = kit, .alive = -1};
    int each = kit->options.contenders / kit->options.processes;

    crew.each = each > 2 ? (unsigned)each : 2;
    crew.arena = create_arena();
    if (!sb_kit_check(kit, crew.arena != NULL, "no memory for the contest"))
        return;
    run_crew(&crew);
    free_arena(crew.arena);
}
