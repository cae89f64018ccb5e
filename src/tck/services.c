/*
 * services.c - cases on what is built on a contender: scheduler, observer, locker.
 */
#include "tck/kit.h"
#include "tck/probe.h"

#include "base/random.h"
#include "base/thread.h"

#include <inttypes.h>
#include <string.h>

/* ---- schedule: only the leader works, and its successor goes on ------------------------------ */

#define WORK_PERIOD_MS 20
#define WORK_RUNS 3

struct worker {
    struct sb_kit *kit;
    atomic_int *working; /* runs under way, in all schedulers of the mutex */
    simba_scheduler *scheduler;
    atomic_uint runs;
    atomic_bool long_run;    /* its next run ends only when it is asked to */
    atomic_bool in_long_run; /* it is in such a run */
};

static bool should_stop(void *argument)
{
    return simba_scheduler_should_stop(argument);
}

static int work(void *user, simba_scheduler *scheduler)
{
    struct worker *worker = user;
    bool long_run = atomic_load(&worker->long_run);

    sb_kit_check(worker->kit, atomic_fetch_add(worker->working, 1) == 0,
                 "two schedulers of one mutex work at once");
    atomic_fetch_add(&worker->runs, 1);
    if (long_run) {
        atomic_store(&worker->in_long_run, true);
        sb_kit_await(worker->kit, should_stop, scheduler, "work is asked to stop");
        atomic_store(&worker->in_long_run, false);
    }
    atomic_fetch_sub(worker->working, 1);
    return 0;
}

static bool create_worker(struct sb_kit *kit, simba_client *client, atomic_int *working,
                          struct worker *worker)
{
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct simba_error error;
    int code;

    worker->kit = kit;
    worker->working = working;
    options.mutex = kit->mutex;
    options.work = work;
    options.user = worker;
    options.strategy = SIMBA_FIXED_DELAY;
    options.period_ms = WORK_PERIOD_MS;
    code = simba_scheduler_create(client, &options, &worker->scheduler, &error);
    return sb_kit_check_ok(kit, code, &error, "creating a scheduler");
}

static bool start_worker(struct worker *worker)
{
    struct simba_error error;

    return sb_kit_check_ok(worker->kit, simba_scheduler_start(worker->scheduler, &error), &error,
                           "starting a scheduler");
}

static bool stop_worker(struct worker *worker)
{
    struct simba_error error;
    int code = simba_scheduler_stop(worker->scheduler, &error);

    return sb_kit_check_ok(worker->kit, code, &error, "stopping a scheduler") &&
           sb_kit_check(worker->kit, simba_scheduler_status(worker->scheduler) == SIMBA_INITIAL,
                        "a scheduler is not INITIAL after its stop") &&
           sb_kit_check(worker->kit, !simba_scheduler_is_leader(worker->scheduler),
                        "a scheduler leads after its stop");
}

static bool has_worked(void *argument)
{
    struct worker *worker = argument;

    return atomic_load(&worker->runs) >= WORK_RUNS;
}

static bool is_in_long_run(void *argument)
{
    struct worker *worker = argument;

    return atomic_load(&worker->in_long_run);
}

static bool has_begun(void *argument)
{
    struct worker *worker = argument;

    return atomic_load(&worker->runs) > 0;
}

/* The first leads and works for long; meanwhile the second must not work, however often it
 * would. */
static bool keep_working(struct worker *first, struct worker *second)
{
    struct sb_kit *kit = first->kit;

    atomic_store(&first->long_run, true);
    return sb_kit_await(kit, is_in_long_run, first, "a long run begins") &&
           sb_kit_check(kit, !sb_kit_wait(has_begun, second, 5 * WORK_PERIOD_MS),
                        "a scheduler works while another one leads");
}

static void run_schedule(struct sb_kit *kit, struct worker *first, struct worker *second)
{
    unsigned runs;

    if (!start_worker(first) ||
        !sb_kit_await(kit, has_worked, first, "the first scheduler has worked three times") ||
        !start_worker(second) || !keep_working(first, second))
        return;
    /* The stop falls into a run: it must ask the run to end, and wait for that. */
    if (!stop_worker(first) || !sb_kit_check(kit, !atomic_load(&first->in_long_run),
                                             "a scheduler's stop returned while it was working"))
        return;
    runs = atomic_load(&first->runs);
    if (!sb_kit_await(kit, has_worked, second, "the second scheduler has worked three times"))
        return;
    sb_kit_check(kit, atomic_load(&first->runs) == runs, "a scheduler worked after its stop");
    stop_worker(second);
}

void sb_case_schedule(struct sb_kit *kit)
{
    simba_client *client = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    simba_client *other = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    struct worker first = {0};
    struct worker second = {0};
    atomic_int working = 0;

    if (client != NULL && other != NULL && create_worker(kit, client, &working, &first) &&
        create_worker(kit, other, &working, &second))
        run_schedule(kit, &first, &second);
    simba_scheduler_close(first.scheduler);
    simba_scheduler_close(second.scheduler);
}

/* ---- observe: who does not compete sees owners come and go ----------------------------------- */

#define OBSERVER_POLL_MS 50

struct sighting {
    struct sb_kit *kit;
    pthread_mutex_t lock;
    struct simba_state last; /* that was notified */
    uint64_t fence;          /* the largest seen */
};

static void on_notify(void *user, const struct simba_state *state)
{
    struct sighting *sighting = user;

    pthread_mutex_lock(&sighting->lock);
    sb_kit_check(sighting->kit, state->after.id[0] == '\0' || state->after.fence >= sighting->fence,
                 "an observer saw token %" PRIu64 " after %" PRIu64, state->after.fence,
                 sighting->fence);
    if (state->after.fence > sighting->fence)
        sighting->fence = state->after.fence;
    sighting->last = *state;
    pthread_mutex_unlock(&sighting->lock);
}

struct expected {
    struct sighting *sighting;
    const char *before; /* NULL: any owner */
    const char *after;
};

static bool has_seen(void *argument)
{
    struct expected *expected = argument;
    const struct simba_state *last = &expected->sighting->last;
    bool seen;

    pthread_mutex_lock(&expected->sighting->lock);
    seen = strcmp(last->after.id, expected->after) == 0 &&
           (expected->before == NULL || strcmp(last->before.id, expected->before) == 0);
    pthread_mutex_unlock(&expected->sighting->lock);
    return seen;
}

/* One term from its beginning to its end, as the observer sees it. */
static bool observe_term(struct sighting *sighting, struct sb_probe *probe)
{
    const char *id = simba_contender_id(probe->contender);
    struct expected acquired = {sighting, NULL, id};
    struct expected released = {sighting, id, ""};

    return sb_probe_start(probe) &&
           sb_kit_await(sighting->kit, has_seen, &acquired, "the observer sees the owner") &&
           sb_probe_await_acquired(probe, 1) && sb_probe_stop(probe) &&
           sb_kit_await(sighting->kit, has_seen, &released, "the observer sees the release");
}

static void observe(struct sb_kit *kit, struct sighting *sighting, simba_observer *observer,
                    simba_client *client)
{
    struct sb_probe *first = sb_probe_create(kit, client, "the first");
    struct sb_probe *second = sb_probe_create(kit, client, "the second");
    struct simba_state state = SIMBA_STATE_NONE;
    struct simba_error error;

    if (first == NULL || second == NULL ||
        !sb_kit_check_ok(kit, simba_observer_start(observer, &error), &error,
                         "starting an observer") ||
        !observe_term(sighting, first) || !observe_term(sighting, second))
        return;
    simba_observer_state(observer, &state);
    sb_kit_check(kit, state.after.id[0] == '\0', "an observer's state names '%s' after the release",
                 state.after.id);
    sb_kit_check_ok(kit, simba_observer_stop(observer, &error), &error, "stopping an observer");
}

void sb_case_observe(struct sb_kit *kit)
{
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    simba_client *client = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    simba_client *other = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    struct sighting sighting = {.kit = kit, .lock = PTHREAD_MUTEX_INITIALIZER};
    simba_observer *observer = NULL;
    struct simba_error error;

    if (client == NULL || other == NULL)
        return;
    options.mutex = kit->mutex;
    options.on_notify = on_notify;
    options.user = &sighting;
    options.poll_ms = OBSERVER_POLL_MS;
    if (sb_kit_check_ok(kit, simba_observer_create(other, &options, &observer, &error), &error,
                        "creating an observer"))
        observe(kit, &sighting, observer, client);
    simba_observer_close(observer);
}

/* ---- lock_timeout: a wait that ran out leaves nothing behind --------------------------------- */

#define LOCK_ROUNDS 8
#define LOCK_WAIT_MS 60

struct lockers {
    struct sb_kit *kit;
    simba_client *client;
    simba_locker *holder;
    simba_locker *waiter;
    simba_locker *third;
    int wait_code; /* what the waiter's acquire returned */
    struct simba_error wait_error;
};

static bool create_locker(struct sb_kit *kit, simba_client *client, simba_locker **ret_locker)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_error error;

    options.mutex = kit->mutex;
    return sb_kit_check_ok(kit, simba_locker_create(client, &options, ret_locker, &error), &error,
                           "creating a locker");
}

static bool release(struct sb_kit *kit, simba_locker *locker)
{
    struct simba_error error;

    return sb_kit_check_ok(kit, simba_locker_release(locker, &error), &error, "releasing a locker");
}

static bool try_acquire(struct sb_kit *kit, simba_locker *locker, const char *what)
{
    struct simba_error error;

    return sb_kit_check_ok(kit, simba_locker_try_acquire(locker, &error), &error, what);
}

static void *wait_for_lock(void *argument)
{
    struct lockers *l = argument;

    l->wait_code = simba_locker_acquire_timeout(l->waiter, LOCK_WAIT_MS, &l->wait_error);
    return NULL;
}

static bool check_gone(struct lockers *l)
{
    struct simba_mutex_status status;

    return sb_kit_check(l->kit,
                        !simba_locker_is_held(l->waiter) && simba_locker_fence(l->waiter) == 0,
                        "a locker holds after its wait ran out") &&
           sb_kit_look(l->kit, l->client, &status) &&
           sb_kit_check(l->kit, strcmp(status.owner.id, simba_locker_id(l->waiter)) != 0,
                        "a wait that ran out left its locker as the owner") &&
           sb_kit_check(l->kit, status.waiters <= 0,
                        "a wait that ran out left %" PRId64 " waiters on the store",
                        status.waiters);
}

/* While the holder keeps the mutex, the wait runs out; a try afterwards is not in its way. */
static bool check_timeout(struct lockers *l)
{
    struct simba_error error;
    int code;

    if (!try_acquire(l->kit, l->holder, "the first try for a free mutex"))
        return false;
    wait_for_lock(l);
    code = simba_locker_try_acquire(l->third, &error);
    return sb_kit_check(l->kit, l->wait_code == SIMBA_ETIMEDOUT,
                        "a wait for a mutex that is held returned %d", l->wait_code) &&
           sb_kit_check(l->kit, code == SIMBA_ECONTENDED,
                        "a try for a mutex that is held returned %d", code) &&
           check_gone(l) && release(l->kit, l->holder) &&
           try_acquire(l->kit, l->third, "a try after the holder's release") &&
           release(l->kit, l->third);
}

/* The release and the end of the wait fall together. In either order nothing stays behind. */
static bool race(struct lockers *l, int64_t hold_ms)
{
    pthread_t thread;
    bool released;

    if (!try_acquire(l->kit, l->holder, "a try for a free mutex") ||
        !sb_kit_check(l->kit, sb_thread_start(&thread, "tck-waiter", wait_for_lock, l) == 0,
                      "no thread could be started"))
        return false;
    sb_kit_linger(hold_ms);
    released = release(l->kit, l->holder);
    pthread_join(thread, NULL);
    if (!released)
        return false;
    if (l->wait_code == SIMBA_OK)
        return release(l->kit, l->waiter);
    return sb_kit_check(l->kit, l->wait_code == SIMBA_ETIMEDOUT, "a wait returned %d: %s",
                        l->wait_code, l->wait_error.text) &&
           check_gone(l) && try_acquire(l->kit, l->third, "a try after a wait that ran out") &&
           release(l->kit, l->third);
}

static void run_lockers(struct lockers *l)
{
    uint64_t random = sb_random_seed();
    bool good = check_timeout(l);

    for (int i = 0; good && i < LOCK_ROUNDS; i++)
        good = race(
            l, sb_random_between(sb_random_next(&random), LOCK_WAIT_MS / 2, LOCK_WAIT_MS * 5 / 4));
}

void sb_case_lock_timeout(struct sb_kit *kit)
{
    simba_client *client = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    simba_client *other = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    struct lockers lockers = {.kit = kit, .client = client};

    if (client == NULL || other == NULL)
        return;
    if (create_locker(kit, client, &lockers.holder) && create_locker(kit, other, &lockers.waiter) &&
        create_locker(kit, client, &lockers.third))
        run_lockers(&lockers);
    simba_locker_close(lockers.holder);
    simba_locker_close(lockers.waiter);
    simba_locker_close(lockers.third);
}
