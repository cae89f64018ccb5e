/*
 * lock.c - a member that locks, works and unlocks, over and over.
 */
#include "journal.h"
#include "lib/locker.h"
#include "member.h"

#define WAIT_MS 2000

static void hold(struct member *m)
{
    int rounds = member_draw(m, 5, 40);

    while (rounds-- > 0 && !atomic_load(m->stopping)) {
        member_use(m);
        member_pause_ms(10);
    }
}

static void take_turn(struct member *m)
{
    int code = simba_locker_acquire_timeout(m->locker, WAIT_MS, NULL);

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
        take_turn(m);
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

const struct member_kind member_locker = {"l", "lock", run, is_owner, fence, deadline_ms};
