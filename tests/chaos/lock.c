/*
 * lock.c - members that lock, work and unlock, over and over: a mutex, a slot of a semaphore, or a
 * set of mutexes. What they take is known to lease.py.
 */
#include "journal.h"
#include "lib/locker.h"
#include "member.h"

#include <stdio.h>
#include <string.h>

#define WAIT_MS 2000
#define WITHOUT_LIMIT SIMBA_INFINITE /* until the worker is told to end */
#define SLOTS 2
#define NAMES 4 /* of which sets are made */
#define SETS 3  /* of one member */

static const char *const all_names[NAMES] = {"a", "b", "c", "d"};

static void hold(struct member *m)
{
    int rounds = member_draw(m, 5, 40);

    while (rounds-- > 0 && !atomic_load(m->stopping)) {
        member_use(m);
        member_pause_ms(10);
    }
}

static void take_turn(struct member *m, int64_t wait_ms)
{
    int code = simba_locker_acquire_timeout(m->locker, wait_ms, NULL);

    if (code != SIMBA_OK) {
        journal_write("%s %s %s %d", code == SIMBA_EUNAVAILABLE ? "unreachable" : "missed",
                      m->kind->mutex, m->who, code);
        return;
    }
    member_contend(m);
    hold(m);
    member_yield(m);
    code = simba_locker_release(m->locker, NULL);
    journal_write("unlocked %s %s %d", m->kind->mutex, m->who, code);
}

static void *run(void *user)
{
    struct simba_error error;
    struct member *m = user;

    if (test_locker_create(m->client, m->kind->mutex, m->id, &m->locker, &error) != SIMBA_OK) {
        journal_write("broken %s", error.text);
        return NULL;
    }
    while (!atomic_load(m->stopping)) {
        take_turn(m, WAIT_MS);
        member_pause_ms(member_draw(m, 0, 50));
    }
    simba_locker_close(m->locker);
    return NULL;
}

static bool is_owner(const struct member *m)
{
    return simba_locker_is_held(m->locker);
}

static uint64_t fence(const struct member *m)
{
    return simba_locker_fence(m->locker);
}

static int64_t deadline_ms(const struct member *m)
{
    return simba_locker_deadline_ms(m->locker);
}

const struct member_kind member_locker = {"l", "lock", run, is_owner, fence, deadline_ms, NULL};

/* The locker of the next turn, or NULL before it is closed. Whoever ends the worker cancels its
 * acquire; false: no turn is to come. */
static bool choose(struct member *m, simba_locker *locker)
{
    bool goes_on;

    pthread_mutex_lock(&m->lock);
    goes_on = !atomic_load(m->stopping);
    m->locker = locker;
    pthread_mutex_unlock(&m->lock);
    return goes_on;
}

/* ---- A slot ---------------------------------------------------------------------------------- */

static void *run_slot(void *user)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_error error;
    struct member *m = user;
    simba_locker *locker;

    options.mutex = m->kind->mutex;
    options.id = m->id;
    if (simba_semaphore_create(m->client, SLOTS, &options, &locker, &error) != SIMBA_OK) {
        journal_write("broken %s", error.text);
        return NULL;
    }
    while (choose(m, locker)) {
        take_turn(m, member_draw(m, 0, 2) == 0 ? WAIT_MS : WITHOUT_LIMIT);
        member_pause_ms(member_draw(m, 0, 50));
    }
    choose(m, NULL);
    simba_locker_close(locker);
    return NULL;
}

/* A slot is a mutex of its own. */
static int owned_slot(const struct member *m, struct owned owned[OWNED_MAX])
{
    int slot = simba_locker_slot(m->locker);

    snprintf(owned[0].mutex, sizeof owned[0].mutex, "%s#%d", m->kind->mutex, slot);
    owned[0].fence = slot >= 0 ? simba_locker_fence(m->locker) : 0;
    return 1;
}

const struct member_kind member_slot = {"n",   "seats",     run_slot,  is_owner,
                                        fence, deadline_ms, owned_slot};

/* ---- A set ----------------------------------------------------------------------------------- */

static simba_locker *create_set(struct member *m)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_error error;
    const char *names[NAMES];
    simba_locker *locker = NULL;
    size_t count = (size_t)member_draw(m, 2, OWNED_MAX + 1);

    options.id = m->id;
    options.no_hold = member_draw(m, 0, 2) == 1;
    memcpy(names, all_names, sizeof names);
    for (int i = NAMES - 1; i > 0; i--) {
        int j = member_draw(m, 0, i + 1);
        const char *name = names[i];

        names[i] = names[j];
        names[j] = name;
    }
    if (simba_locker_create_set(m->client, names, count, &options, &locker, &error) != SIMBA_OK)
        journal_write("broken %s", error.text);
    return locker;
}

static void *run_set(void *user)
{
    struct member *m = user;
    simba_locker *sets[SETS];
    int count = 0;

    while (count < SETS && (sets[count] = create_set(m)) != NULL)
        count++;
    while (count == SETS && choose(m, sets[member_draw(m, 0, SETS)])) {
        take_turn(m, WITHOUT_LIMIT); /* a time-out would end a circle of sets */
        member_pause_ms(member_draw(m, 0, 50));
    }
    choose(m, NULL);
    while (count > 0)
        simba_locker_close(sets[--count]);
    return NULL;
}

/* The names of the set, as the locker tells them: sorted, with blanks between them. */
static int owned_set(const struct member *m, struct owned owned[OWNED_MAX])
{
    const char *name = simba_locker_mutex(m->locker);
    int count = 0;

    for (; *name != '\0' && count < OWNED_MAX; count++) {
        size_t length = strcspn(name, " ");

        snprintf(owned[count].mutex, sizeof owned[count].mutex, "%.*s", (int)length, name);
        owned[count].fence = simba_locker_fence_of(m->locker, owned[count].mutex);
        name += length + strspn(name + length, " ");
    }
    return count;
}

const struct member_kind member_set = {"m",   "set",       run_set,  is_owner,
                                       fence, deadline_ms, owned_set};
