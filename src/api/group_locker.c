/*
 * group_locker.c - a locker of several mutexes: a slot of a semaphore, or a set. Owns its parts,
 * each a locker of one mutex, and what the application is told of all of them; core/group.h decides
 * which parts to compete for.
 *
 *     acquire   look at the parts ---> plan ---> begin, withdraw ---> wait for a change --+
 *                 ^ ----------------------------------------------------------------------+
 *
 * The thread that acquires does all of that. A part that is won stays won, and is renewed, until
 * the plan does not want it any more; it is taken when all that is needed is held.
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
    GIVING_UP, /* it still is, and has not won */
    HELD,      /* acquired and not released, though perhaps lost */
    LEAVING    /* a thread is giving it back */
};

struct group_locker {
    simba_locker base; /* first */
    simba_client *client;
    struct simba_locker_options options; /* without names */
    struct sb_locker_source *source;     /* NULL: the client calls back */
    char *name;               /* of the semaphore; of the set: its names, with blanks between */
    size_t most;              /* parts that there can be */
    size_t part_count;        /* parts that there are, in `lockers` */
    atomic_size_t references; /* the handle, each part, each thread in a call that waits */
    atomic_size_t open;       /* parts that have not told of their close */
    atomic_uint changes;      /* of parts, counted on the loop thread */
    atomic_bool cancelled;
    atomic_size_t held_from; /* the parts that are held; read without a lock */
    atomic_size_t held_to;
    atomic_size_t blocking; /* the part that was waited for last */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum phase phase;
    bool telling;   /* a callback of the application runs */
    bool lost_told; /* once for each acquire */

    /* The thread that acquires. */
    struct sb_group plan;
    struct sb_part *parts;
    unsigned seen;                     /* of `changes` */
    struct sb_mutex_locker *lockers[]; /* `most` of them */
};

static struct group_locker *group_of(const simba_locker *base)
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
    sb_free(group->parts);
    sb_free(group->name);
    sb_free(group);
}

/* ---- What the application is told ------------------------------------------------------------ */

/* Callbacks of one object run one at a time, and those of parts come on threads of their own. A
 * caller that has begun to release learns of a loss from the release. */
static bool begin_telling(struct group_locker *group, bool lost)
{
    bool begins;

    pthread_mutex_lock(&group->lock);
    while (group->phase == TAKING || (group->telling && group->phase == HELD))
        pthread_cond_wait(&group->changed, &group->lock);
    begins = group->phase == HELD && !(lost && group->lost_told);
    group->telling |= begins;
    group->lost_told |= begins && lost;
    pthread_mutex_unlock(&group->lock);
    return begins;
}

static void end_telling(struct group_locker *group)
{
    pthread_mutex_lock(&group->lock);
    group->telling = false;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
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
    group->phase = phase;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static void on_changed(void *user)
{
    struct group_locker *group = user;

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

static int add_part(struct group_locker *group, const char *mutex, struct simba_error *error)
{
    const struct sb_mutex_locker_group to = {on_changed, drop, group};
    struct simba_locker_options options = group->options;
    int code;

    SB_CHECK(group->part_count < group->most, "there is room for each part");
    options.mutex = mutex;
    options.id = group->part_count > 0 ? id_of(group) : group->options.id;
    options.on_lost = on_lost;
    options.on_handover = group->options.on_handover != NULL ? on_handover : NULL;
    options.on_closed = group->options.on_closed != NULL ? on_closed : NULL;
    options.user = group;
    code = sb_mutex_locker_create(group->client, &options, &to, &group->lockers[group->part_count],
                                  error);
    if (code != SIMBA_OK)
        return code;
    hold(group);
    atomic_fetch_add(&group->open, 1);
    group->part_count++;
    return SIMBA_OK;
}

/* Slots get their parts when they are first competed for. */
static int add_slots(struct group_locker *group, size_t slots, struct simba_error *error)
{
    char name[SIMBA_MUTEX_MAX + 1];
    int code = SIMBA_OK;

    while (code == SIMBA_OK && group->part_count < 1 + slots) {
        code = sb_semaphore_slot_name(group->name, group->part_count - 1, name, error);
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

/* While an attempt is under way. The first number that the store tells has to be that of the
 * application; from then on the store decides. */
static int ask_slots(struct group_locker *group, int64_t until_ms, struct simba_error *error)
{
    struct sb_group *plan = &group->plan;
    int64_t now_ms = simba_now_ms();
    const char *writer = group->parts[0].sight == SB_PART_HELD ? id_of(group) : NULL;
    int slots = 0;
    int code =
        sb_semaphore_agree(group->client, group->name, writer, (int)plan->slots,
                           sb_earlier(until_ms, sb_later(now_ms, SLOTS_TIMEOUT_MS)), &slots, error);

    plan->asked_ms = now_ms;
    if (code != SIMBA_OK || slots == 0)
        return is_fatal(code) ? code : SIMBA_OK;
    if (plan->told_ms == SIMBA_UNSET && (size_t)slots != plan->slots)
        return sb_error_set(error, SIMBA_EINVAL,
                            "'%s' has %d slots, not %zu; simba semaphore resize '%s' %zu changes "
                            "it",
                            group->name, slots, plan->slots, group->name, plan->slots);
    code = add_slots(group, (size_t)slots, error);
    if (code == SIMBA_OK) {
        plan->slots = (size_t)slots;
        plan->told_ms = now_ms;
    }
    return code;
}

/* ---- Acquire --------------------------------------------------------------------------------- */

/* The gate is looked at last: it was owned when a slot had been won. */
static int look(struct group_locker *group, size_t *ret_failed)
{
    int code = SIMBA_OK;

    for (size_t i = group->part_count; i-- > 0;) {
        int failure;
        group->parts[i].sight = sb_mutex_locker_look(group->lockers[i], &failure);
        if (failure != SIMBA_OK) {
            *ret_failed = i;
            code = failure;
        }
    }
    return code;
}

/* First what is not wanted: a set must not keep what it may not wait with. */
static int follow_plan(struct group_locker *group, struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = group->part_count; i-- > 0;)
        if (!group->parts[i].wanted && group->parts[i].sight >= SB_PART_ASKED)
            sb_mutex_locker_withdraw(group->lockers[i]);
    for (size_t i = 0; i < group->part_count && code == SIMBA_OK; i++)
        if (group->parts[i].wanted && group->parts[i].sight == SB_PART_IDLE)
            code = sb_mutex_locker_begin(group->lockers[i], group->plan.once, error);
    return code;
}

static void withdraw_all(struct group_locker *group)
{
    for (size_t i = 0; i < group->part_count; i++)
        group->parts[i].wanted = false;
    follow_plan(group, NULL);
}

/* False: one of them is not believed any more, and none is kept. */
static bool take_wanted(struct group_locker *group)
{
    bool taken = true;

    set_phase(group, TAKING);
    for (size_t i = 0; i < group->part_count && taken; i++)
        taken = !group->parts[i].wanted || sb_mutex_locker_take(group->lockers[i]);
    if (!taken)
        withdraw_all(group);
    set_phase(group, taken ? HELD : ACQUIRING);
    return taken;
}

static bool is_surplus(const struct group_locker *group, size_t part)
{
    return !group->parts[part].wanted && group->parts[part].sight >= SB_PART_ASKED;
}

/* The next in line waits for the gate. To wait for its release costs less than to leave that to
 * another thread. */
static void keep(struct group_locker *group)
{
    bool one = is_semaphore(group);
    size_t from = one ? 1 + group->plan.slot : 0;

    for (size_t i = 1; i < group->part_count; i++)
        if (is_surplus(group, i))
            sb_mutex_locker_withdraw(group->lockers[i]);
    atomic_store(&group->held_from, from);
    atomic_store(&group->held_to, one ? from + 1 : group->part_count);
    if (is_surplus(group, 0))
        sb_mutex_locker_give_back(group->lockers[0],
                                  sb_later(simba_now_ms(), SB_LOCKER_CLEAN_UP_MS));
}

/* The end of a stop is no change that a part tells of. */
static bool has_changed(void *argument)
{
    struct group_locker *group = argument;
    bool changed = atomic_load(&group->changes) != group->seen || atomic_load(&group->cancelled);

    for (size_t i = 0; i < group->part_count && !changed; i++)
        changed = group->parts[i].wanted && group->parts[i].sight == SB_PART_LEAVING &&
                  sb_service_status(service_of(group, i)) == SIMBA_INITIAL;
    return changed;
}

static void wait_for_change(struct group_locker *group, int64_t until_ms)
{
    struct sb_help help = sb_service_help_mutex(service_of(group, 0));

    until_ms = sb_earlier(until_ms, sb_group_ask_at_ms(&group->plan, group->parts));
    until_ms = sb_earlier(until_ms, group->plan.again_ms);
    sb_engine_wait_progress(group->client->engine, has_changed, group, until_ms, &help);
}

/* One round: SIMBA_OK when it is held; SIMBA_EBUSY: go on. */
static int try_plan(struct group_locker *group, int64_t until_ms, size_t *ret_failed,
                    struct simba_error *error)
{
    enum sb_group_verdict verdict;
    int code;

    group->seen = atomic_load(&group->changes);
    code = look(group, ret_failed);
    if (code != SIMBA_OK)
        return code;
    verdict = sb_group_plan(&group->plan, group->parts, group->part_count, simba_now_ms());
    *ret_failed = sb_group_blocking(&group->plan, group->parts, group->part_count);
    atomic_store(&group->blocking, *ret_failed);
    if (verdict == SB_GROUP_HELD && take_wanted(group))
        return SIMBA_OK;
    if (verdict == SB_GROUP_REFUSED)
        return SIMBA_ECONTENDED;
    if (atomic_load(&group->cancelled))
        return SIMBA_ECANCELED;
    if (simba_now_ms() >= until_ms)
        return SIMBA_ETIMEDOUT;
    code = verdict == SB_GROUP_HELD ? SIMBA_OK : follow_plan(group, error);
    if (code == SIMBA_OK && sb_group_ask_at_ms(&group->plan, group->parts) <= simba_now_ms())
        code = ask_slots(group, until_ms, error);
    else if (code == SIMBA_OK && verdict != SB_GROUP_HELD)
        wait_for_change(group, until_ms);
    return code == SIMBA_OK ? SIMBA_EBUSY : code;
}

/* Says why the wait failed: what the store said, or who is in the way. */
static int explain(struct group_locker *group, int code, size_t failed, int64_t timeout_ms,
                   struct simba_error *error)
{
    struct sb_mutex_locker *locker = group->lockers[failed];
    bool waited = code == SIMBA_ECONTENDED || code == SIMBA_ETIMEDOUT;
    bool store_fails = sb_service_last_error(service_of(group, failed), NULL) != SIMBA_OK;

    if (code == SIMBA_ECANCELED)
        return sb_error_set(error, code, "the acquire of '%s' was cancelled", group->name);
    if (is_semaphore(group) && waited && !store_fails && failed > 0)
        return sb_error_set(error, code, "all %zu slots of '%s' are in use", group->plan.slots,
                            group->name);
    if (is_semaphore(group) && waited && !store_fails &&
        group->parts[failed].sight == SB_PART_REFUSED)
        return sb_error_set(error, code, "others wait for a slot of '%s' already", group->name);
    return sb_mutex_locker_explain(locker, code, timeout_ms, error);
}

/* As after the acquire of one mutex: does not wait for a store that hangs. */
static void give_up(struct group_locker *group)
{
    int64_t until_ms = simba_now_ms() + SB_LOCKER_CLEAN_UP_MS;
    size_t failed;

    look(group, &failed);
    withdraw_all(group);
    for (size_t i = 0; i < group->part_count; i++)
        sb_service_wait_initial(service_of(group, i), until_ms);
}

static int begin(struct group_locker *group, bool once, struct simba_error *error)
{
    static const char *const doing[] = {"",
                                        "another acquire is under way",
                                        "another acquire is under way",
                                        "another acquire is under way",
                                        "it is held",
                                        "a release is under way"};
    int code = SIMBA_OK;

    pthread_mutex_lock(&group->lock);
    if (group->phase != IDLE) {
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

static int acquire(simba_locker *base, int64_t timeout_ms, bool once, struct simba_error *error)
{
    struct group_locker *group = group_of(base);
    int64_t until_ms = sb_later(simba_now_ms(), timeout_ms);
    struct simba_error why = {.code = SIMBA_OK};
    size_t failed = 0;
    int code = begin(group, once, error);

    if (code != SIMBA_OK)
        return code;
    do
        code = try_plan(group, until_ms, &failed, &why);
    while (code == SIMBA_EBUSY);
    if (code == SIMBA_OK) {
        atomic_store(&group->cancelled, false);
        keep(group);
        return SIMBA_OK;
    }
    set_phase(group, GIVING_UP);
    atomic_store(&group->cancelled, false);
    if (why.code == code)
        code = sb_error_set_backend(error, code, why.backend_code, "%s", why.text);
    else
        code = explain(group, code, failed, timeout_ms, error);
    give_up(group);
    set_phase(group, IDLE);
    return code;
}

static void cancel(simba_locker *base)
{
    struct group_locker *group = group_of(base);

    pthread_mutex_lock(&group->lock);
    if (group->phase != HELD && group->phase != GIVING_UP)
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

static int release(simba_locker *base, struct simba_error *error)
{
    struct group_locker *group = group_of(base);
    bool held;
    int code;

    pthread_mutex_lock(&group->lock);
    held = group->phase == HELD;
    if (held)
        group->phase = LEAVING;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
    if (!held)
        return sb_error_set(error, SIMBA_ESTATE, "cannot release '%s': it was not acquired",
                            group->name);
    hold(group); /* on_lost may close the locker meanwhile */
    code = release_parts(group, error);
    set_phase(group, IDLE);
    drop(group);
    return code;
}

static int detach(simba_locker *base, struct simba_error *error)
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

static bool is_held(const simba_locker *base)
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

static uint64_t fence(const simba_locker *base, const char *mutex)
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
static int64_t least(const simba_locker *base, int64_t (*of)(const struct sb_service *service))
{
    const struct group_locker *group = group_of(base);
    int64_t least = SIMBA_INFINITE;
    size_t to;

    for (size_t i = held(group, &to); i < to; i++)
        least = sb_earlier(least, of(service_of(group, i)));
    return to > 0 ? least : 0;
}

static int64_t deadline_ms(const simba_locker *base)
{
    return least(base, sb_service_deadline_ms);
}

static int64_t window_ms(const simba_locker *base)
{
    return least(base, sb_service_window_ms);
}

static int64_t place(const simba_locker *base)
{
    const struct group_locker *group = group_of(base);

    return sb_service_place(service_of(group, atomic_load(&group->blocking)));
}

static int slot(const simba_locker *base)
{
    size_t to;
    size_t from = held(group_of(base), &to);

    return is_semaphore(group_of(base)) && from < to ? (int)from - 1 : -1;
}

static bool is_asked(simba_locker *base, struct simba_handover *ret_request)
{
    const struct group_locker *group = group_of(base);
    size_t to;

    for (size_t i = held(group, &to); i < to; i++)
        if (sb_mutex_locker_is_asked(group->lockers[i], ret_request))
            return true;
    return false;
}

static const char *id(const simba_locker *base)
{
    return id_of(group_of(base));
}

static const char *mutex(const simba_locker *base)
{
    return group_of(base)->name;
}

static void owner(simba_locker *base, struct simba_owner *ret_owner)
{
    struct group_locker *group = group_of(base);

    sb_mutex_locker_owner(group->lockers[atomic_load(&group->blocking)], ret_owner);
}

/* ---- Creation -------------------------------------------------------------------------------- */

static void close_group(simba_locker *base)
{
    struct group_locker *group = group_of(base);

    set_phase(group, LEAVING); /* no callback begins any more */
    for (size_t i = group->part_count; i-- > 0;)
        sb_mutex_locker_close(group->lockers[i]);
    drop(group);
}

static const struct sb_locker_ops ops = {
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

static struct group_locker *allocate(simba_client *client, size_t most, const char *name)
{
    struct group_locker *group = sb_alloc_zero(sizeof *group + most * sizeof *group->lockers);

    if (group == NULL)
        return NULL;
    group->parts = sb_alloc_zero(most * sizeof *group->parts);
    group->name = sb_strdup(name);
    group->base.ops = &ops;
    group->base.engine = client->engine;
    group->client = client;
    group->most = most;
    group->plan.dice = sb_random_seed();
    atomic_init(&group->references, 1);
    pthread_mutex_init(&group->lock, NULL);
    pthread_cond_init(&group->changed, NULL);
    if (group->parts != NULL && group->name != NULL)
        return group;
    drop(group);
    return NULL;
}

static int read_options(simba_client *client, const struct simba_locker_options *given,
                        simba_locker **ret_locker, struct simba_locker_options *options,
                        struct simba_error *error)
{
    static const struct sb_options_form form = {"SIMBA_LOCKER_OPTIONS_INIT",
                                                offsetof(struct simba_locker_options, id),
                                                sizeof(struct simba_locker_options)};
    int code;

    if (client == NULL || ret_locker == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "a locker needs a client and ret_locker");
    code = sb_options_read(&form, given, options, error);
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
        *ret_locker = &group->base;
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

int simba_semaphore_create(simba_client *client, int slots,
                           const struct simba_locker_options *given, simba_locker **ret_locker,
                           struct simba_error *error)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct group_locker *group;
    int code = read_options(client, given, ret_locker, &options, error);

    if (code == SIMBA_OK)
        code = sb_semaphore_check(options.mutex, slots, error);
    if (code != SIMBA_OK)
        return code;
    group = allocate(client, 1 + SIMBA_SLOTS_MAX, options.mutex);
    if (group == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
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

int simba_locker_create_set(simba_client *client, const char *const *mutexes, size_t count,
                            const struct simba_locker_options *given, simba_locker **ret_locker,
                            struct simba_error *error)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    const char *names[SIMBA_SET_MAX];
    char all[SIMBA_SET_MAX * (SIMBA_MUTEX_MAX + 1)];
    struct group_locker *group;
    int code = read_options(client, given, ret_locker, &options, error);

    if (code != SIMBA_OK)
        return code;
    if (mutexes == NULL || count < 1 || count > SIMBA_SET_MAX)
        return sb_error_set(error, SIMBA_EINVAL, "a set has 1 to %d mutexes", SIMBA_SET_MAX);
    memcpy(names, mutexes, count * sizeof *names);
    code = check_names(names, count, error);
    if (code != SIMBA_OK)
        return code;
    join_names(names, count, all);
    group = allocate(client, count, all);
    if (group == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    code = set_options(group, &options, error);
    group->plan.kind = SB_GROUP_SET;
    group->plan.no_hold = options.no_hold;
    for (size_t i = 0; i < count && code == SIMBA_OK; i++)
        code = add_part(group, names[i], error);
    return finish(group, code, ret_locker);
}
