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
struct shared {
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

struct entrant {
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
    struct shared *shared;
    struct entrant *entrants;
    unsigned count;
    unsigned cuts; /* terms that were made to end by expiry: one at least */
    uint64_t random;
};

/* Shared with children to come; NULL when that fails. */
static struct shared *create_shared(void)
{
    void *memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static void free_shared(struct shared *shared)
{
    if (shared != NULL)
        munmap(shared, sizeof(*shared));
}

/* ---- Inside the callbacks -------------------------------------------------------------------- */

/* The clock is read last: then both leases were good when the other's was looked at. */
static void check_alone(struct entrant *entrant, int64_t mine_ms)
{
    struct shared *shared = entrant->contest->shared;

    for (unsigned i = 0; i < SLOTS_MAX; i++) {
        int64_t until_ms = i == entrant->slot ? 0 : atomic_load(&shared->until_ms[i]);
        int64_t now_ms = simba_now_ms();

        sb_kit_check(entrant->contest->kit, now_ms >= mine_ms || now_ms >= until_ms,
                     "contender %u is in while contender %u is, for another %" PRId64 " ms",
                     entrant->slot, i, until_ms - now_ms);
    }
}

/* The term is logged only when it is still believed in after the clock was read: its beginning lies
 * before, so the belief at begin_us is certain. */
static void log_term(struct entrant *entrant, unsigned index, int64_t begin_us)
{
    struct shared *shared = entrant->contest->shared;
    uint64_t fence = simba_contender_fence(entrant->probe->contender);
    struct term *term;

    if (index >= TERMS_MAX || fence == 0)
        return;
    term = &shared->log[index];
    term->slot = entrant->slot;
    atomic_store(&term->begin_us, begin_us);
    atomic_store(&term->seen_us, begin_us);
    atomic_store(&term->fence, fence);
    atomic_store(&entrant->term, term);
}

static void enter(struct sb_probe *probe, const struct simba_state *state)
{
    struct entrant *entrant = probe->user;
    struct shared *shared = entrant->contest->shared;
    int64_t begin_us = sb_clock_us();
    int64_t until_ms = simba_contender_deadline_ms(probe->contender);

    (void)state;
    log_term(entrant, atomic_fetch_add(&shared->terms, 1), begin_us);
    atomic_fetch_add(&shared->wins[entrant->slot], 1);
    /* First in, then look: of two that enter at once, one at least sees the other. */
    atomic_store(&shared->until_ms[entrant->slot], until_ms);
    check_alone(entrant, until_ms);
}

static void leave(struct sb_probe *probe, const struct simba_state *state)
{
    struct entrant *entrant = probe->user;

    (void)state;
    atomic_store(&entrant->term, NULL);
    atomic_store(&entrant->contest->shared->until_ms[entrant->slot], 0);
}

/* ---- What each contender does ---------------------------------------------------------------- */

static int64_t random_ms(struct contest *contest, int64_t most_ms)
{
    return sb_random_between(sb_random_next(&contest->random), 0, most_ms + 1);
}

static void move(struct entrant *entrant, enum phase phase, int64_t for_ms)
{
    entrant->phase = phase;
    entrant->act_at_ms = simba_now_ms() + for_ms;
    entrant->terms_seen = atomic_load(&entrant->contest->shared->terms);
}

static bool is_inside(struct entrant *entrant)
{
    return atomic_load(&entrant->probe->entered) > atomic_load(&entrant->probe->left);
}

static bool is_due(const struct entrant *entrant)
{
    return simba_now_ms() >= entrant->act_at_ms;
}

static bool has_successor(struct entrant *entrant)
{
    return atomic_load(&entrant->contest->shared->terms) > entrant->terms_seen;
}

/* Notes how long the owner has certainly believed and will: the times are read before the
 * question. */
static void sample(struct entrant *entrant)
{
    const simba_contender *contender = entrant->probe->contender;
    struct term *term = atomic_load(&entrant->term);
    int64_t now_us = sb_clock_us();
    int64_t until_ms = simba_contender_deadline_ms(contender);

    if (term == NULL || simba_contender_fence(contender) != atomic_load(&term->fence))
        return;
    atomic_store(&term->seen_us, now_us);
    if (until_ms > 0)
        atomic_store(&entrant->contest->shared->until_ms[entrant->slot], until_ms);
}

/* Every other time it sleeps for a lease or two, so that those get their turn whom no wake-up
 * reaches. */
static void rest(struct entrant *entrant)
{
    struct contest *contest = entrant->contest;
    enum phase phase = random_ms(contest, 1) == 0 ? PHASE_RESTING : PHASE_SLEEPING;
    int64_t lease_ms = sb_kit_lease_ms(contest->kit, SB_KIT_LEASE_PLAIN);

    sb_probe_stop(entrant->probe);
    move(entrant, phase, lease_ms + random_ms(contest, lease_ms));
}

static void cut_off(struct entrant *entrant)
{
    entrant->contest->cuts++;
    sb_shim_hold_requests(entrant->shim, SB_SHIM_ALL);
    move(entrant, PHASE_CUT_OFF, 4 * sb_kit_lease_ms(entrant->contest->kit, SB_KIT_LEASE_PLAIN));
}

static void step_waiting(struct entrant *entrant)
{
    if (is_inside(entrant))
        move(entrant, PHASE_HOLDING, random_ms(entrant->contest, HOLD_MAX_MS));
}

static void step_holding(struct entrant *entrant)
{
    struct contest *contest = entrant->contest;
    bool cut =
        entrant->shim != NULL && (contest->cuts == 0 || random_ms(contest, CUT_EVERY - 1) == 0);

    sample(entrant);
    if (!is_inside(entrant))
        move(entrant, PHASE_WAITING, 0); /* lost: the machine was too busy to renew */
    else if (is_due(entrant) && cut)
        cut_off(entrant);
    else if (is_due(entrant))
        rest(entrant);
}

/* Comes back when somebody else has taken over, or nobody could. */
static void step_cut_off(struct entrant *entrant)
{
    sample(entrant);
    if (!is_due(entrant) && (is_inside(entrant) || !has_successor(entrant)))
        return;
    sb_shim_let_go(entrant->shim);
    if (!is_inside(entrant))
        atomic_fetch_add(&entrant->contest->shared->lost, 1);
    move(entrant, PHASE_WAITING, 0);
}

static void step_resting(struct entrant *entrant)
{
    if (!is_due(entrant) && (entrant->phase == PHASE_SLEEPING || !has_successor(entrant)))
        return;
    sb_probe_start(entrant->probe);
    move(entrant, PHASE_WAITING, 0);
}

static void step(struct entrant *entrant)
{
    static void (*const steps[])(struct entrant *) = {
        [PHASE_WAITING] = step_waiting,  [PHASE_HOLDING] = step_holding,
        [PHASE_CUT_OFF] = step_cut_off,  [PHASE_RESTING] = step_resting,
        [PHASE_SLEEPING] = step_resting,
    };

    steps[entrant->phase](entrant);
}

/* The condition that the driver waits for: a failure. All else happens on the way. */
static bool step_all(void *argument)
{
    struct contest *contest = argument;

    for (unsigned i = 0; i < contest->count; i++)
        step(&contest->entrants[i]);
    return sb_kit_failed(contest->kit);
}

/* ---- The whole contest ----------------------------------------------------------------------- */

static bool create_entrant(struct contest *contest, simba_client *client, struct sb_shim *shim,
                           unsigned index, unsigned first)
{
    struct entrant *entrant = &contest->entrants[index];

    entrant->contest = contest;
    entrant->shim = shim;
    entrant->slot = first + index;
    entrant->probe = sb_probe_create(contest->kit, client, "a contender");
    if (entrant->probe == NULL)
        return false;
    entrant->probe->in_acquired = enter;
    entrant->probe->in_released = leave;
    entrant->probe->user = entrant;
    return true;
}

static bool create_entrants(struct contest *contest, unsigned first)
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

        if (!create_entrant(contest, behind_shim ? shaky : client, behind_shim ? shim : NULL, i,
                            first))
            return false;
    }
    return true;
}

static void stop_all(struct contest *contest)
{
    for (unsigned i = 0; i < contest->count; i++)
        sb_shim_let_go(contest->entrants[i].shim);
    for (unsigned i = 0; i < contest->count; i++)
        if (contest->entrants[i].phase < PHASE_RESTING)
            sb_probe_stop(contest->entrants[i].probe);
}

/* A contest that nobody or always the same one wins shows nothing. */
static bool has_shown(struct shared *shared)
{
    unsigned winners = 0;

    for (unsigned i = 0; i < SLOTS_MAX; i++)
        winners += atomic_load(&shared->wins[i]) > 0;
    return atomic_load(&shared->terms) >= 3 && winners >= 2;
}

static bool step_until_shown(void *argument)
{
    return step_all(argument) || has_shown(((struct contest *)argument)->shared);
}

/* Lets the contenders of the slots from `first` on compete for options.contend_ms, and for longer
 * where two terms that end by expiry take all of that. All is closed when it returns. */
static void run_contest(struct sb_kit *kit, struct shared *shared, unsigned first, unsigned count)
{
    struct contest contest = {
        .kit = kit, .shared = shared, .count = count, .random = sb_random_seed()};

    contest.entrants = sb_alloc_zero(count * sizeof(struct entrant));
    if (!sb_kit_check(kit, contest.entrants != NULL, "out of memory"))
        return;
    if (create_entrants(&contest, first)) {
        for (unsigned i = 0; i < count; i++)
            sb_probe_start(contest.entrants[i].probe);
        sb_kit_wait(step_all, &contest, kit->options.contend_ms);
        sb_kit_wait(step_until_shown, &contest, sb_kit_patience_ms(kit));
        stop_all(&contest);
    }
    sb_kit_close(kit); /* the probes refer to the entrants */
    sb_free(contest.entrants);
}

/* ---- The log --------------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b)
{
    const struct term *x = a;
    const struct term *y = b;

    return (x->begin_us > y->begin_us) - (x->begin_us < y->begin_us);
}

static void check_pair(struct sb_kit *kit, const struct term *before, const struct term *after)
{
    sb_kit_check(kit, before->seen_us < after->begin_us,
                 "contender %u believed for %" PRId64 " us after contender %u had won",
                 before->slot, before->seen_us - after->begin_us, after->slot);
    sb_kit_check(kit, before->fence < after->fence,
                 "the token %" PRIu64 " was followed by %" PRIu64, before->fence, after->fence);
}

static void check_log(struct sb_kit *kit, struct shared *shared, unsigned terms)
{
    unsigned count = terms < TERMS_MAX ? terms : TERMS_MAX;
    unsigned logged = 0;

    for (unsigned i = 0; i < count; i++)
        if (shared->log[i].fence != 0)
            shared->log[logged++] = shared->log[i];
    qsort(shared->log, logged, sizeof(shared->log[0]), by_begin);
    for (unsigned i = 1; i < logged && !sb_kit_failed(kit); i++)
        check_pair(kit, &shared->log[i - 1], &shared->log[i]);
}

/* Checks the log after all have ended, and that the contest was one. */
static void check_terms(struct sb_kit *kit, struct shared *shared)
{
    unsigned terms = atomic_load(&shared->terms);
    unsigned winners = 0;

    for (unsigned i = 0; i < SLOTS_MAX; i++)
        winners += atomic_load(&shared->wins[i]) > 0;
    check_log(kit, shared, terms);
    sb_kit_check(kit, has_shown(shared), "only %u terms of %u contenders", terms, winners);
    sb_kit_note(kit, "%u terms of %u contenders, %u ended by expiry", terms, winners,
                atomic_load(&shared->lost));
}

/* ---- multi_contend --------------------------------------------------------------------------- */

void sb_case_multi_contend(struct sb_kit *kit)
{
    struct shared *shared = create_shared();

    if (!sb_kit_check(kit, shared != NULL, "no memory for the contest"))
        return;
    run_contest(kit, shared, 0, (unsigned)kit->options.contenders);
    check_terms(kit, shared);
    free_shared(shared);
}

/* ---- Across processes ------------------------------------------------------------------------ */

/* The children are forked before this process has opened a client for the contest. All of them hold
 * the end of a pipe: its end tells that all have ended, and a child that hangs is killed in
 * time. */
struct children {
    struct sb_kit *kit;
    struct shared *shared;
    unsigned each; /* contenders in each process */
    pid_t pids[SB_KIT_PROCESSES_MAX];
    int count;
    int alive; /* read end of the pipe: ends when the last child has */
};

/* A child: tells its failures through the shared and leaves without running anybody's exit
 * handlers. */
static _Noreturn void run_child(struct children *children, unsigned index)
{
    struct sb_kit *kit = children->kit;
    struct shared *shared = children->shared;

    close(children->alive);
    run_contest(kit, shared, index * children->each, children->each);
    if (sb_kit_failed(kit) && atomic_fetch_add(&shared->failures, 1) == 0)
        sb_text_copy(shared->failure, sizeof(shared->failure), kit->failure);
    _exit(sb_kit_failed(kit) ? 1 : 0);
}

static bool fork_children(struct children *children)
{
    int ends[2];

    if (!sb_kit_check(children->kit, pipe2(ends, O_CLOEXEC) == 0, "pipe: %s", strerror(errno)))
        return false;
    children->alive = ends[0];
    while (children->count < children->kit->options.processes) {
        pid_t pid = fork();

        if (pid == 0)
            run_child(children, (unsigned)children->count);
        if (!sb_kit_check(children->kit, pid > 0, "fork: %s", strerror(errno)))
            break;
        children->pids[children->count++] = pid;
    }
    close(ends[1]);
    return children->count == children->kit->options.processes;
}

/* Whether all children have ended by themselves in time. */
static bool await_children(struct children *children)
{
    struct pollfd end = {.fd = children->alive, .events = POLLIN};
    int64_t until_ms =
        simba_now_ms() + children->kit->options.contend_ms + 3 * sb_kit_patience_ms(children->kit);

    for (;;) {
        int64_t left_ms = until_ms - simba_now_ms();
        int ready = poll(&end, 1, left_ms > 0 ? (int)left_ms : 0);

        if (ready > 0)
            return true;
        if (left_ms <= 0 || (ready < 0 && errno != EINTR))
            return false;
    }
}

static void reap(struct children *children, int index, bool ended)
{
    int status = 0;

    if (!ended)
        kill(children->pids[index], SIGKILL);
    while (waitpid(children->pids[index], &status, 0) < 0)
        if (errno != EINTR)
            return;
    if (WIFSIGNALED(status))
        sb_kit_fail(children->kit, "process %d was killed by signal %d", index, WTERMSIG(status));
}

static void run_processes(struct children *children)
{
    bool forked = fork_children(children);
    bool ended = forked && await_children(children);

    sb_kit_check(children->kit, !forked || ended, "a process of the contest did not end in time");
    for (int i = 0; i < children->count; i++)
        reap(children, i, ended);
    if (children->alive >= 0)
        close(children->alive);
    sb_kit_check(children->kit, atomic_load(&children->shared->failures) == 0, "%s",
                 children->shared->failure);
    if (!sb_kit_failed(children->kit))
        check_terms(children->kit, children->shared);
}

void sb_case_multi_process(struct sb_kit *kit)
{
    struct children children = {.kit = kit, .alive = -1};
    int each = kit->options.contenders / kit->options.processes;

    children.each = each > 2 ? (unsigned)each : 2;
    children.shared = create_shared();
    if (!sb_kit_check(kit, children.shared != NULL, "no memory for the contest"))
        return;
    run_processes(&children);
    free_shared(children.shared);
}
