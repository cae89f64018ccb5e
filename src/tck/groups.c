/*
 * groups.c - the cases on lockers of several mutexes: slots of a semaphore, and sets that overlap.
 *
 * No backend knows of them, so these cases find what a store does wrong with many mutexes at a
 * time: a queue that is shared by accident, a notice for another name, an owner's property.
 */
#include "tck/kit.h"

#include "base/thread.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#define CLIENTS 3
#define WORKERS 6
#define TURNS 5
#define SLOTS 2
#define NAMES 4
#define IN_A_SET 2

/* What one mutex guards. */
struct cell {
    char name[SIMBA_MUTEX_MAX + 16];
    atomic_bool busy;
    atomic_ullong fence; /* of the last who was in it */
    atomic_int entered;
};

struct stage {
    struct sb_kit *kit;
    simba_client *clients[CLIENTS];
    struct cell cells[NAMES];
};

struct worker {
    struct stage *stage;
    simba_locker *locker;
    struct cell *cells[IN_A_SET];
    pthread_t thread;
    bool runs;
};

/* A lease that was lost meanwhile is no proof of anything. */
static void enter(const struct worker *worker, struct cell *cell)
{
    uint64_t fence = simba_locker_fence_of(worker->locker, cell->name);
    bool busy = atomic_exchange(&cell->busy, true);
    uint64_t before = atomic_exchange(&cell->fence, fence);

    atomic_fetch_add(&cell->entered, 1);
    sb_kit_check(worker->stage->kit, !busy || !simba_locker_is_held(worker->locker),
                 "two hold '%s'", cell->name);
    sb_kit_check(worker->stage->kit, fence > before || !simba_locker_is_held(worker->locker),
                 "the token %" PRIu64 " of '%s' came after %" PRIu64, fence, cell->name, before);
}

static bool work_once(struct worker *worker)
{
    struct sb_kit *kit = worker->stage->kit;
    struct cell *slot[1];
    struct cell **cells = worker->cells;
    size_t count = IN_A_SET;
    struct simba_error error;
    int code = simba_locker_acquire_timeout(worker->locker, sb_kit_patience_ms(kit), &error);

    if (!sb_kit_check_ok(kit, code, &error, "acquiring"))
        return false;
    if (cells[0] == NULL) {
        int number = simba_locker_slot(worker->locker);
        slot[0] = &worker->stage->cells[number >= 0 && number < SLOTS ? number : NAMES - 1];
        sb_kit_check(kit, number >= 0 && number < SLOTS, "the slot %d of %d", number, SLOTS);
        cells = slot;
        count = 1;
    }
    for (size_t i = 0; i < count; i++)
        enter(worker, cells[i]);
    sb_kit_linger(SB_KIT_POLL_MS);
    for (size_t i = 0; i < count; i++)
        atomic_store(&cells[i]->busy, false);
    code = simba_locker_release(worker->locker, &error);
    return sb_kit_check_ok(kit, code, &error, "releasing");
}

static void *work(void *argument)
{
    struct worker *worker = argument;

    for (int i = 0; i < TURNS && work_once(worker); i++)
        continue;
    return NULL;
}

static void run_workers(struct stage *s, struct worker *workers)
{
    for (int i = 0; i < WORKERS; i++)
        workers[i].runs = sb_kit_check(
            s->kit, sb_thread_start(&workers[i].thread, "tck-group", work, &workers[i]) == 0,
            "no thread could be started");
    for (int i = 0; i < WORKERS; i++)
        if (workers[i].runs)
            pthread_join(workers[i].thread, NULL);
}

static bool open_clients(struct stage *s)
{
    for (int i = 0; i < CLIENTS; i++) {
        s->clients[i] = sb_kit_client(s->kit, SB_KIT_LEASE_CALM);
        if (s->clients[i] == NULL)
            return false;
    }
    return true;
}

static void name_cells(struct stage *s, const char *format)
{
    for (int i = 0; i < NAMES; i++)
        snprintf(s->cells[i].name, sizeof s->cells[i].name, format, s->kit->mutex, i);
}

static void close_all(struct worker *workers)
{
    for (int i = 0; i < WORKERS; i++)
        simba_locker_close(workers[i].locker);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

void sb_case_semaphore(struct sb_kit *kit)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct stage s = {.kit = kit};
    struct worker workers[WORKERS] = {0};
    struct simba_error error;
    int code = SIMBA_OK;
    int slots = 0;

    if (!open_clients(&s))
        return;
    name_cells(&s, "%s#%d");
    options.mutex = kit->mutex;
    for (int i = 0; i < WORKERS && code == SIMBA_OK; i++) {
        workers[i].stage = &s;
        code = simba_semaphore_create(s.clients[i % CLIENTS], SLOTS, &options, &workers[i].locker,
                                      &error);
    }
    if (sb_kit_check_ok(kit, code, &error, "creating a semaphore")) {
        code =
            simba_semaphore_slots(s.clients[0], kit->mutex, sb_kit_patience_ms(kit), &slots, NULL);
        if (code == SIMBA_EUNSUPPORTED)
            sb_kit_note(kit, "the store keeps no properties");
        else
            run_workers(&s, workers);
    }
    close_all(workers);
}

/* ---- Sets ------------------------------------------------------------------------------------ */

/* Each set is two of the names, in any order, and the first ones keep nothing while they wait. */
static int create_set(struct stage *s, int number, struct worker *worker, struct simba_error *error)
{
    static const int members[WORKERS][IN_A_SET] = {{0, 1}, {1, 2}, {2, 3}, {3, 0}, {2, 0}, {1, 3}};
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    const char *names[IN_A_SET];

    worker->stage = s;
    options.no_hold = number < 2;
    for (int i = 0; i < IN_A_SET; i++) {
        worker->cells[i] = &s->cells[members[number][i]];
        names[i] = worker->cells[i]->name;
    }
    return simba_locker_create_set(s->clients[number % CLIENTS], names, IN_A_SET, &options,
                                   &worker->locker, error);
}

void sb_case_set(struct sb_kit *kit)
{
    struct stage s = {.kit = kit};
    struct worker workers[WORKERS] = {0};
    struct simba_error error;
    int code = SIMBA_OK;
    int entered = 0;

    if (!open_clients(&s))
        return;
    name_cells(&s, "%s-%d");
    for (int i = 0; i < WORKERS && code == SIMBA_OK; i++)
        code = create_set(&s, i, &workers[i], &error);
    if (sb_kit_check_ok(kit, code, &error, "creating a set"))
        run_workers(&s, workers);
    close_all(workers);
    for (int i = 0; i < NAMES; i++)
        entered += s.cells[i].entered;
    sb_kit_check(kit, sb_kit_failed(kit) || entered == WORKERS * TURNS * IN_A_SET,
                 "%d times in a mutex, not %d", entered, WORKERS * TURNS * IN_A_SET);
}
