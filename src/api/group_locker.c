/*
 * group_locker.c - a locker of several mutexes: a slot of a semaphore, or a set. Owns its parts,
 * each a locker of one mutex, and what the application is told of all of them; core/group.h decides
 * which parts to compete for.
 *
 * The thread that acquires takes the steps of the group, and waits in between. A part that is won
 * stays won, and is renewed, until it is not wanted any more; it is taken when all that is needed
 * is held.
 */
#include "api/locker.h"
#include "api/semaphore.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/options.h"
#include "base/random.h"
#include "base/time.h"

#include <stdlib.h>
#include <string.h>

/* How long the store gets to tell the number of slots. */
#define SLOTS_TIMEOUT_MS 1000

enum phase {
    IDLE,
    ACQUIRING, /* a thread is inside acquire */
    TAKING,    /* it still is, and takes one part after the other */
    KEEPING,   /* it holds all, and gives back what it does not need */
    GIVING_UP, /* it still is, and has not won */
    HELD,      /* acquired and not released, though perhaps lost */
    LEAVING,   /* a thread is giving it back */
    CLOSED     /* for good */
};

struct group_locker {
    struct sb_locker base; /* first */
    struct sb_handle *handle;
    struct sb_client *client;
    struct simba_locker_options options; /* without names */
    struct sb_locker_source *source;     /* NULL: the client calls back */
    char *name;               /* of the semaphore; of the set: its names, with blanks between */
    size_t most;              /* parts that there can be */
    atomic_size_t references; /* the handle, each part, each thread in a call that waits */
    atomic_size_t open;       /* parts that have not told of their close */
    atomic_bool competes;     /* a thread takes steps, and waits for changes */
    atomic_uint changes;      /* of parts meanwhile, counted on the loop thread */
    atomic_bool cancelled;
    atomic_size_t held_from; /* the parts that are held; read without a lock */
    atomic_size_t held_to;
    atomic_size_t blocking; /* the part that was waited for last */
    size_t party;           /* parts that listen, counted on the loop thread */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum phase phase;
    bool telling;   /* a callback of the application runs */
    bool retires;   /* its end is that of the handle */
    bool lost_told; /* once for each acquire */

    /* The thread that acquires. */
    struct sb_group plan;              /* with the parts that there are, each in `lockers` */
    unsigned seen;                     /* of `changes` */
    size_t failed;                     /* the part that will not be acquired, or is in the way */
    int failure;                       /* why it will not; SIMBA_OK: none failed */
    struct simba_error why;            /* what the store or the library said of that */
    struct sb_mutex_locker *lockers[]; /* `most` of them */
};

static struct group_locker *group_of(const struct sb_locker *base)
{
    return (struct group_locker *)base;
}

static bool is_semaphore(const struct group_locker *group)
{
    return group->plan.kind == SB_GROUP_SEMAPHORE;
}

static void hold(struct group_locker *group)
{
    atomic_fetch_add(&group->references, 1);
}

static void drop(void *user)
{
    struct group_locker *group = user;

    if (atomic_fetch_sub(&group->references, 1) > 1)
        return;
    pthread_cond_destroy(&group->changed);
    pthread_mutex_destroy(&group->lock);
    if (group->handle != NULL)
        sb_handle_free(group->handle);
    sb_free(group->plan.parts);
    sb_free(group->name);
    sb_free(group);
}

/* The handle, with all its pins, holds the parts and one reference. */
static void end_handle(struct group_locker *group, bool last)
{
    if (!last)
        return;
    for (size_t i = group->plan.count; i-- > 0;)
        sb_service_drop(sb_mutex_locker_service(group->lockers[i]));
    drop(group);
}

static void unpin(struct sb_locker *base)
{
    end_handle(group_of(base), sb_handle_unpin(group_of(base)->handle));
}

static bool begin_close(struct sb_locker *base)
{
    return sb_handle_begin_close(group_of(base)->handle);
}

/* ---- What the application is told ------------------------------------------------------------ */

/* With the lock held. */
static bool is_won(const struct group_locker *group)
{
    return group->phase == HELD || group->phase == KEEPING;
}

/* Callbacks of one object run one at a time, and those of parts come on threads of their own. A
 * caller that has begun to release learns of a loss from the release. */
static bool begin_telling(struct group_locker *group, bool lost)
{
    bool begins;

    pthread_mutex_lock(&group->lock);
    while (group->phase == TAKING || (group->telling && is_won(group)))
        pthread_cond_wait(&group->changed, &group->lock);
    begins = is_won(group) && !(lost && group->lost_told);
    group->telling |= begins;
    group->lost_told |= begins && lost;
    pthread_mutex_unlock(&group->lock);
    return begins;
}

static void end_telling(struct group_locker *group)
{
    bool retires;

    pthread_mutex_lock(&group->lock);
    group->telling = false;
    retires = group->retires;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
    if (retires)
        end_handle(group, sb_handle_retire(group->handle));
}

/* Inside a callback that the close did not wait for the handle stays valid. */
static void retire(struct group_locker *group)
{
    bool now;

    pthread_mutex_lock(&group->lock);
    now = !group->telling;
    group->retires = !now;
    pthread_mutex_unlock(&group->lock);
    if (now)
        end_handle(group, sb_handle_retire(group->handle));
}

static void on_lost(void *user)
{
    struct group_locker *group = user;

    if (group->options.on_lost == NULL || !begin_telling(group, true))
        return;
    group->options.on_lost(group->options.user);
    end_telling(group);
}

static void on_handover(void *user, const struct simba_handover *request)
{
    struct group_locker *group = user;

    if (!begin_telling(group, false))
        return;
    group->options.on_handover(group->options.user, request);
    end_telling(group);
}

static void on_closed(void *user)
{
    struct group_locker *group = user;

    if (atomic_fetch_sub(&group->open, 1) == 1 && group->options.on_closed != NULL)
        group->options.on_closed(group->options.user);
}

static void set_phase(struct group_locker *group, enum phase phase)
{
    pthread_mutex_lock(&group->lock);
    if (group->phase != CLOSED)
        group->phase = phase;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
}

/* A close may come at any time. */
static bool has_phase(struct group_locker *group, enum phase phase)
{
    bool has;

    pthread_mutex_lock(&group->lock);
    has = group->phase == phase;
    pthread_mutex_unlock(&group->lock);
    return has;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static void on_changed(void *user)
{
    struct group_locker *group = user;

    if (!atomic_load(&group->competes))
        return;
    atomic_fetch_add(&group->changes, 1);
    sb_engine_tell_progress(group->client->engine);
}

static struct sb_service *service_of(const struct group_locker *group, size_t part)
{
    return sb_mutex_locker_service(group->lockers[part]);
}

static const char *id_of(const struct group_locker *group)
{
    return sb_service_id(service_of(group, 0));
}

static int fail_closed(const struct group_locker *group, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ECLOSED, "the locker of '%s' is being closed", group->name);
}

/* With the lock held: a close finds the part, or there will be none. */
static int add_part_locked(struct group_locker *group, const char *mutex, struct simba_error *error)
{
    const struct sb_mutex_locker_group to = {on_changed, drop, group, &group->party};
    struct simba_locker_options options = group->options;
    int code;

    SB_CHECK(group->plan.count < group->most, "there is room for each part");
    options.mutex = mutex;
    options.id = group->plan.count > 0 ? id_of(group) : group->options.id;
    options.on_lost = on_lost;
    options.on_handover = group->options.on_handover != NULL ? on_handover : NULL;
    options.on_closed = group->options.on_closed != NULL ? on_closed : NULL;
    options.user = group;
    code = sb_mutex_locker_create(group->client, &options, &to, &group->lockers[group->plan.count],
                                  error);
    if (code != SIMBA_OK)
        return code;
    hold(group);
    sb_service_hold(service_of(group, group->plan.count));
    atomic_fetch_add(&group->open, 1);
    group->plan.count++;
    return SIMBA_OK;
}

static int add_part(struct group_locker *group, const char *mutex, struct simba_error *error)
{
    int code;

    pthread_mutex_lock(&group->lock);
    if (group->phase == CLOSED)
        code = fail_closed(group, error);
    else
        code = add_part_locked(group, mutex, error);
    pthread_mutex_unlock(&group->lock);
    return code;
}

/* Slots get their parts when they are first competed for. */
static int add_slots(struct group_locker *group, size_t slots, struct simba_error *error)
{
    char name[SIMBA_MUTEX_MAX + 1];
    int code = SIMBA_OK;

    while (code == SIMBA_OK && group->plan.count < 1 + slots) {
        code = sb_semaphore_slot_name(group->name, group->plan.count - 1, name, error);
        if (code == SIMBA_OK)
            code = add_part(group, name, error);
    }
    return code;
}

/* ---- The number of slots --------------------------------------------------------------------- */

static bool is_fatal(int code)
{
    enum simba_error_group group = simba_error_group(code);

    return group == SIMBA_GROUP_DENIED || group == SIMBA_GROUP_CONFIG ||
           group == SIMBA_GROUP_MISUSE || group == SIMBA_GROUP_NOMEM;
}

/* The first number that the store tells has to be that of the application; from then on the store
 * decides. */
static int take_number(struct group_locker *group, size_t slots, struct simba_error *error)
{
    const struct sb_group *plan = &group->plan;

    if (plan->told_ms == SIMBA_UNSET && slots != plan->slots)
        return sb_error_set(error, SIMBA_EINVAL,
                            "'%s' has %zu slot%s, not %zu; simba semaphore resize '%s' %zu "
                            "changes it",
                            group->name, slots, slots == 1 ? "" : "s", plan->slots, group->name,
                            plan->slots);
    return add_slots(group, slots, error);
}

/* While an attempt is under way. */
static int ask_slots(struct group_locker *group, int64_t until_ms)
{
    int64_t now_ms = simba_now_ms();
    const char *writer = group->plan.parts[0].sight == SB_PART_HELD ? id_of(group) : NULL;
    int slots = 0;
    int code = sb_semaphore_agree(group->client, group->name, writer, (int)group->plan.slots,
                                  sb_earlier(until_ms, sb_later(now_ms, SLOTS_TIMEOUT_MS)), &slots,
                                  &group->why);

    if (is_fatal(code))
        return code;
    if (code != SIMBA_OK)
        slots = 0;
    code = slots > 0 ? take_number(group, (size_t)slots, &group->why) : SIMBA_OK;
    if (code == SIMBA_OK)
        sb_group_tell(&group->plan, now_ms, (size_t)slots);
    return code;
}

/* ---- What a step does to a part -------------------------------------------------------------- */

static enum sb_part_sight look(void *user, size_t part)
{
    struct group_locker *group = user;
    int failure;
    enum sb_part_sight sight = sb_mutex_locker_look(group->lockers[part], &failure);

    if (failure != SIMBA_OK) {
        group->failed = part;
        group->failure = failure;
    }
    return sight;
}

static void begin_part(void *user, size_t part)
{
    struct group_locker *group = user;
    int code = sb_mutex_locker_begin(group->lockers[part], group->plan.once, &group->why);

    if (code != SIMBA_OK)
        group->failure = code;
}

/* When a slot is held the next in line waits for the gate: to wait for its release costs less than
 * to leave that to another thread. */
static void withdraw(void *user, size_t part)
{
    struct group_locker *group = user;
    const struct sb_group *plan = &group->plan;

    if (is_semaphore(group) && part == 0 && plan->parts[1 + plan->slot].wanted)
        sb_mutex_locker_give_back(group->lockers[part],
                                  sb_later(simba_now_ms(), SB_LOCKER_CLEAN_UP_MS));
    else
        sb_mutex_locker_withdraw(group->lockers[part]);
}

static bool take(void *user, size_t part)
{
    struct group_locker *group = user;

    set_phase(group, TAKING);
    return sb_mutex_locker_take(group->lockers[part]);
}

static const struct sb_part_ops part_ops = {
    .look = look, .begin = begin_part, .withdraw = withdraw, .take = take};

/* ---- Acquire --------------------------------------------------------------------------------- */

/* The end of a stop is no change that a part tells of. */
static bool has_changed(void *argument)
{
    struct group_locker *group = argument;
    bool changed = atomic_load(&group->changes) != group->seen || atomic_load(&group->cancelled);

    for (size_t i = 0; i < group->plan.count && !changed; i++)
        changed = group->plan.parts[i].wanted && group->plan.parts[i].sight == SB_PART_LEAVING &&
                  sb_service_status(service_of(group, i)) == SIMBA_INITIAL;
    return changed;
}

static void wait_for_change(struct group_locker *group, int64_t until_ms)
{
    struct sb_help help = sb_service_help_mutex(service_of(group, 0));

    sb_engine_wait_progress(group->client->engine, has_changed, group, until_ms, &help);
}

/* One round: SIMBA_OK when it is held; SIMBA_EBUSY: go on. */
static int take_step(struct group_locker *group, int64_t until_ms)
{
    bool cancelled = atomic_load(&group->cancelled);
    enum sb_group_verdict verdict;
    int64_t wait_ms;
    int code = SIMBA_OK;

    group->seen = atomic_load(&group->changes);
    group->failure = SIMBA_OK;
    verdict = sb_group_step(&group->plan, simba_now_ms(), cancelled ? 0 : until_ms, &wait_ms);
    if (has_phase(group, TAKING))
        set_phase(group, verdict == SB_GROUP_HELD ? KEEPING : ACQUIRING);
    if (verdict == SB_GROUP_HELD)
        return SIMBA_OK;
    if (group->failure != SIMBA_OK)
        return group->failure;
    group->failed = sb_group_blocking(&group->plan);
    atomic_store(&group->blocking, group->failed);
    if (verdict == SB_GROUP_REFUSED)
        return SIMBA_ECONTENDED;
    if (verdict == SB_GROUP_LATE)
        return cancelled ? SIMBA_ECANCELED : SIMBA_ETIMEDOUT;
    if (verdict == SB_GROUP_ASKS)
        code = ask_slots(group, until_ms);
    else
        wait_for_change(group, wait_ms);
    return code == SIMBA_OK ? SIMBA_EBUSY : code;
}

static void keep(struct group_locker *group)
{
    bool one = is_semaphore(group);
    size_t from = one ? 1 + group->plan.slot : 0;

    atomic_store(&group->cancelled, false);
    atomic_store(&group->held_from, from);
    atomic_store(&group->held_to, one ? from + 1 : group->plan.count);
    sb_group_keep_wanted(&group->plan);
}

/* Says why the wait failed: what the store said, or who is in the way. */
static int explain(struct group_locker *group, int code, int64_t timeout_ms,
                   struct simba_error *error)
{
    size_t failed = group->failed;
    struct sb_mutex_locker *locker = group->lockers[failed];
    bool waited = code == SIMBA_ECONTENDED || code == SIMBA_ETIMEDOUT;
    bool store_fails = sb_service_last_error(service_of(group, failed), NULL) != SIMBA_OK;

    if (code == SIMBA_ECLOSED)
        return fail_closed(group, error);
    if (group->why.code == code)
        return sb_error_set_backend(error, code, group->why.backend_code, "%s", group->why.text);
    if (code == SIMBA_ECANCELED)
        return sb_error_set(error, code, "the acquire of '%s' was cancelled", group->name);
    if (is_semaphore(group) && waited && !store_fails && failed > 0)
        return sb_error_set(error, code, "all %zu slots of '%s' are in use", group->plan.slots,
                            group->name);
    if (is_semaphore(group) && waited && !store_fails &&
        group->plan.parts[failed].sight == SB_PART_REFUSED)
        return sb_error_set(error, code, "others wait for a slot of '%s' already", group->name);
    return sb_mutex_locker_explain(locker, code, timeout_ms, error);
}

/* As after the acquire of one mutex: does not wait for a store that hangs. */
static void give_up(struct group_locker *group)
{
    int64_t until_ms = simba_now_ms() + SB_LOCKER_CLEAN_UP_MS;

    sb_group_give_up(&group->plan);
    for (size_t i = 0; i < group->plan.count; i++)
        sb_service_wait_initial(service_of(group, i), until_ms);
}

static int begin(struct group_locker *group, bool once, struct simba_error *error)
{
    static const char *const doing[] = {"",
                                        "another acquire is under way",
                                        "another acquire is under way",
                                        "another acquire is under way",
                                        "another acquire is under way",
                                        "it is held",
                                        "a release is under way"};
    int code = SIMBA_OK;

    pthread_mutex_lock(&group->lock);
    if (group->phase == CLOSED) {
        code = fail_closed(group, error);
    } else if (group->phase != IDLE) {
        code = sb_error_set(error, SIMBA_EBUSY, "cannot acquire '%s': %s by this locker",
                            group->name, doing[group->phase]);
    } else {
        group->phase = ACQUIRING;
        group->lost_told = false;
    }
    pthread_mutex_unlock(&group->lock);
    if (code == SIMBA_OK)
        sb_group_begin(&group->plan, once);
    return code;
}

static int acquire(struct sb_locker *base, int64_t timeout_ms, bool once, struct simba_error *error)
{
    struct group_locker *group = group_of(base);
    int64_t until_ms = sb_later(simba_now_ms(), timeout_ms);
    int code = begin(group, once, error);

    if (code != SIMBA_OK)
        return code;
    group->why.code = SIMBA_OK;
    atomic_store(&group->competes, true);
    do
        code = take_step(group, until_ms);
    while (code == SIMBA_EBUSY);
    atomic_store(&group->competes, false);
    if (code == SIMBA_OK) {
        keep(group);
        set_phase(group, HELD); /* another thread may release from here on */
        return SIMBA_OK;
    }
    set_phase(group, GIVING_UP);
    atomic_store(&group->cancelled, false);
    if (has_phase(group, CLOSED))
        code = SIMBA_ECLOSED;
    code = explain(group, code, timeout_ms, error);
    give_up(group);
    set_phase(group, IDLE);
    return code;
}

static void cancel(struct sb_locker *base)
{
    struct group_locker *group = group_of(base);

    pthread_mutex_lock(&group->lock);
    if (!is_won(group) && group->phase != GIVING_UP)
        atomic_store(&group->cancelled, true);
    pthread_mutex_unlock(&group->lock);
    sb_engine_tell_progress(base->engine);
}

/* ---- Release --------------------------------------------------------------------------------- */

/* A loss of one part is told rather than another failure. */
static int release_parts(struct group_locker *group, struct simba_error *error)
{
    size_t from = atomic_exchange(&group->held_from, 0);
    size_t to = atomic_exchange(&group->held_to, 0);
    int worst = SIMBA_OK;

    for (size_t i = to; i-- > from;) {
        struct simba_error failure;
        int code = sb_mutex_locker_release(group->lockers[i], &failure);
        if (code != SIMBA_OK && (worst == SIMBA_OK || code == SIMBA_ELOST))
            worst = sb_error_set_backend(error, code, failure.backend_code, "%s", failure.text);
    }
    return worst;
}

static int release(struct sb_locker *base, struct simba_error *error)
{
    struct group_locker *group = group_of(base);
    bool held;
    bool closed;
    int code;

    pthread_mutex_lock(&group->lock);
    held = group->phase == HELD;
    closed = group->phase == CLOSED;
    if (held)
        group->phase = LEAVING;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
    if (closed)
        return fail_closed(group, error);
    if (!held)
        return sb_error_set(error, SIMBA_ESTATE, "cannot release '%s': it was not acquired",
                            group->name);
    code = release_parts(group, error);
    set_phase(group, IDLE);
    return code;
}

static int detach(struct sb_locker *base, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ESTATE,
                        "cannot detach '%s': only a locker of one mutex can be detached",
                        group_of(base)->name);
}

/* ---- Questions ------------------------------------------------------------------------------- */

/* The parts that are held, for a thread that releases meanwhile; none: *ret_to is 0. */
static size_t held(const struct group_locker *group, size_t *ret_to)
{
    size_t to = atomic_load(&group->held_to);
    size_t from = atomic_load(&group->held_from);

    *ret_to = to;
    return from < to ? from : to;
}

static bool is_held(const struct sb_locker *base)
{
    const struct group_locker *group = group_of(base);
    size_t to;
    size_t i = held(group, &to);

    if (i == to)
        return false;
    while (i < to && sb_service_is_owner(service_of(group, i)))
        i++;
    return i == to;
}

static uint64_t fence(const struct sb_locker *base, const char *mutex)
{
    const struct group_locker *group = group_of(base);
    bool any = mutex == NULL || (is_semaphore(group) && strcmp(mutex, group->name) == 0);
    size_t to;

    if (!is_held(base))
        return 0;
    for (size_t i = held(group, &to); i < to; i++)
        if (any || strcmp(sb_service_mutex(service_of(group, i)), mutex) == 0)
            return sb_service_fence(service_of(group, i));
    return 0;
}

/* What does not own has 0, which is the least. */
static int64_t least(const struct sb_locker *base, int64_t (*of)(const struct sb_service *service))
{
    const struct group_locker *group = group_of(base);
    int64_t least = SIMBA_INFINITE;
    size_t to;

    for (size_t i = held(group, &to); i < to; i++)
        least = sb_earlier(least, of(service_of(group, i)));
    return to > 0 ? least : 0;
}

static int64_t deadline_ms(const struct sb_locker *base)
{
    return least(base, sb_service_deadline_ms);
}

static int64_t window_ms(const struct sb_locker *base)
{
    return least(base, sb_service_window_ms);
}

static int64_t place(const struct sb_locker *base)
{
    const struct group_locker *group = group_of(base);

    return sb_service_place(service_of(group, atomic_load(&group->blocking)));
}

static int slot(const struct sb_locker *base)
{
    size_t to;
    size_t from = held(group_of(base), &to);

    return is_semaphore(group_of(base)) && from < to ? (int)from - 1 : -1;
}

static bool is_asked(struct sb_locker *base, struct simba_handover *ret_request)
{
    const struct group_locker *group = group_of(base);
    size_t to;

    for (size_t i = held(group, &to); i < to; i++)
        if (sb_mutex_locker_is_asked(group->lockers[i], ret_request))
            return true;
    return false;
}

static const char *id(const struct sb_locker *base)
{
    return id_of(group_of(base));
}

static const char *mutex(const struct sb_locker *base)
{
    return group_of(base)->name;
}

static void owner(struct sb_locker *base, struct simba_owner *ret_owner)
{
    struct group_locker *group = group_of(base);

    sb_mutex_locker_owner(group->lockers[atomic_load(&group->blocking)], ret_owner);
}

/* ---- Creation -------------------------------------------------------------------------------- */

/* A thread that is in an acquire gives up, and need not be waited for: it has pinned the locker. */
static void close_group(struct sb_locker *base)
{
    struct group_locker *group = group_of(base);
    size_t count;

    pthread_mutex_lock(&group->lock);
    group->phase = CLOSED; /* no callback begins any more, and no part is added */
    count = group->plan.count;
    atomic_store(&group->cancelled, true);
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
    sb_engine_tell_progress(group->client->engine);
    for (size_t i = count; i-- > 0;)
        sb_mutex_locker_close(group->lockers[i]);
    retire(group);
}

static const struct sb_locker_ops ops = {
    .unpin = unpin,
    .begin_close = begin_close,
    .acquire = acquire,
    .cancel = cancel,
    .release = release,
    .detach = detach,
    .close = close_group,
    .owner = owner,
    .is_held = is_held,
    .fence = fence,
    .deadline_ms = deadline_ms,
    .window_ms = window_ms,
    .place = place,
    .slot = slot,
    .is_asked = is_asked,
    .id = id,
    .mutex = mutex,
};

/* NULL: SIMBA_ENOMEM. */
static struct group_locker *allocate(struct sb_client *client, size_t most, const char *name,
                                     struct simba_error *error)
{
    struct group_locker *group = sb_alloc_zero(sizeof *group + most * sizeof *group->lockers);

    if (group == NULL) {
        sb_error_plain(error, SIMBA_ENOMEM);
        return NULL;
    }
    group->plan.parts = sb_alloc_zero(most * sizeof *group->plan.parts);
    group->name = sb_strdup(name);
    group->base.ops = &ops;
    group->base.engine = client->engine;
    group->client = client;
    group->most = most;
    group->plan.ops = &part_ops;
    group->plan.user = group;
    group->plan.dice = sb_random_seed();
    atomic_init(&group->references, 1);
    pthread_mutex_init(&group->lock, NULL);
    pthread_cond_init(&group->changed, NULL);
    if (group->plan.parts != NULL && group->name != NULL)
        group->handle = sb_handle_create(group, error);
    else
        sb_error_plain(error, SIMBA_ENOMEM);
    if (group->handle != NULL)
        return group;
    drop(group);
    return NULL;
}

static int read_options(const struct simba_locker_options *given,
                        struct simba_locker_options *options, struct simba_error *error)
{
    static const struct sb_options_form form = {"SIMBA_LOCKER_OPTIONS_INIT",
                                                offsetof(struct simba_locker_options, id),
                                                sizeof(struct simba_locker_options)};
    int code = sb_options_read(&form, given, options, error);

    if (code == SIMBA_OK && options->detachable)
        code =
            sb_error_set(error, SIMBA_EUNSUPPORTED, "only a locker of one mutex can be detached");
    return code;
}

/* The strings are the caller's: the parts have copies. */
static int finish(struct group_locker *group, int code, simba_locker **ret_locker)
{
    struct sb_locker_source *source = group->source;

    group->options.id = NULL;
    group->options.mutex = NULL;
    if (code == SIMBA_OK) {
        sb_events_set_locker(group->source, &group->base);
        *ret_locker = sb_handle_value(group->handle);
        return code;
    }
    group->options.on_closed = NULL; /* there has been no object */
    close_group(&group->base);
    sb_free(source);
    return code;
}

/* After it the group has the options, and its source is freed with it. */
static int set_options(struct group_locker *group, struct simba_locker_options *options,
                       struct simba_error *error)
{
    int code =
        sb_events_take_locker(group->client->events, group->name, options, &group->source, error);

    group->options = *options;
    return code;
}

static int create_semaphore(struct sb_client *client, int slots,
                            const struct simba_locker_options *given, simba_locker **ret_locker,
                            struct simba_error *error)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct group_locker *group;
    int code = read_options(given, &options, error);

    if (code == SIMBA_OK)
        code = sb_semaphore_check(options.mutex, slots, error);
    if (code != SIMBA_OK)
        return code;
    group = allocate(client, 1 + SIMBA_SLOTS_MAX, options.mutex, error);
    if (group == NULL)
        return SIMBA_ENOMEM;
    code = set_options(group, &options, error);
    group->plan.kind = SB_GROUP_SEMAPHORE;
    group->plan.slots = (size_t)slots;
    group->plan.told_ms = SIMBA_UNSET;
    group->plan.first =
        (size_t)sb_random_between(sb_random_next(&group->plan.dice), 0, (int64_t)slots);
    if (code == SIMBA_OK)
        code = add_part(group, group->name, error);
    if (code == SIMBA_OK)
        code = add_slots(group, (size_t)slots, error);
    return finish(group, code, ret_locker);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted by their bytes, so in one order everywhere. */
static int check_names(const char **names, size_t count, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < count && code == SIMBA_OK; i++)
        code = simba_mutex_validate(names[i], error);
    if (code != SIMBA_OK)
        return code;
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return sb_error_set(error, SIMBA_EINVAL, "'%s' stands in the set twice", names[i]);
    return SIMBA_OK;
}

static void join_names(const char *const *names, size_t count, char *all)
{
    for (size_t i = 0; i < count; i++)
        all = stpcpy(i > 0 ? stpcpy(all, " ") : all, names[i]);
}

static int create_set(struct sb_client *client, const char *const *mutexes, size_t count,
                      const struct simba_locker_options *given, simba_locker **ret_locker,
                      struct simba_error *error)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    const char *names[SIMBA_SET_MAX];
    char all[SIMBA_SET_MAX * (SIMBA_MUTEX_MAX + 1)];
    struct group_locker *group;
    int code = read_options(given, &options, error);

    if (code != SIMBA_OK)
        return code;
    if (mutexes == NULL || count < 1 || count > SIMBA_SET_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "a set has 1 to %d mutexes", SIMBA_SET_MAX);
    memcpy(names, mutexes, count * sizeof *names);
    code = check_names(names, count, error);
    if (code != SIMBA_OK)
        return code;
    join_names(names, count, all);
    group = allocate(client, count, all, error);
    if (group == NULL)
        return SIMBA_ENOMEM;
    code = set_options(group, &options, error);
    group->plan.kind = SB_GROUP_SET;
    group->plan.no_hold = options.no_hold;
    for (size_t i = 0; i < count && code == SIMBA_OK; i++)
        code = add_part(group, names[i], error);
    return finish(group, code, ret_locker);
}

/* ---- The public functions -------------------------------------------------------------------- */

static int enter(simba_client *handle, const char *call, simba_locker **ret_locker,
                 struct sb_client **ret_client, struct simba_error *error)
{
    if (handle == NULL || ret_locker == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "a locker needs a client and ret_locker");
    return sb_client_enter(handle, call, ret_client, error);
}

int simba_semaphore_create(simba_client *handle, int slots,
                           const struct simba_locker_options *options, simba_locker **ret_locker,
                           struct simba_error *error)
{
    struct sb_client *client;
    int code = enter(handle, "simba_semaphore_create", ret_locker, &client, error);

    if (code != SIMBA_OK)
        return code;
    code = create_semaphore(client, slots, options, ret_locker, error);
    sb_client_leave(client);
    return code;
}

int simba_locker_create_set(simba_client *handle, const char *const *mutexes, size_t count,
                            const struct simba_locker_options *options, simba_locker **ret_locker,
                            struct simba_error *error)
{
    struct sb_client *client;
    int code = enter(handle, "simba_locker_create_set", ret_locker, &client, error);

    if (code != SIMBA_OK)
        return code;
    code = create_set(client, mutexes, count, options, ret_locker, error);
    sb_client_leave(client);
    return code;
}
