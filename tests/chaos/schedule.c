/*
 * schedule.c - a member that works periodically while it leads. A scheduler tells no deadline: of
 * its belief only the instants at which it was asked are certain, and what lies between two of one
 * term.
 */
#include "journal.h"
#include "member.h"

#define PERIOD_MS 40

static int tick(void *user, simba_scheduler *scheduler)
{
    struct member *m = user;

    (void)scheduler;
    member_use(m);
    return 0;
}

static void take_part(struct member *m)
{
    int rounds = member_draw(m, 50, 400);
    int code;

    journal_write("starting %s %s", m->kind->mutex, m->who);
    code = simba_scheduler_start(m->scheduler, NULL);
    journal_write("started %s %s %d", m->kind->mutex, m->who, code);
    member_contend(m);
    while (rounds-- > 0 && !atomic_load(m->stopping))
        member_pause_ms(10);
    member_yield(m);
    code = simba_scheduler_stop(m->scheduler, NULL);
    journal_write("stopped %s %s %d", m->kind->mutex, m->who, code);
}

static void *run(void *user)
{
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct simba_error error;
    struct member *m = user;

    options.mutex = m->kind->mutex;
    options.id = m->id;
    options.work = tick;
    options.user = m;
    options.period_ms = PERIOD_MS;
    if (simba_scheduler_create(m->client, &options, &m->scheduler, &error) != SIMBA_OK) {
        journal_write("broken %s", error.text);
        return NULL;
    }
    while (!atomic_load(m->stopping)) {
        take_part(m);
        member_pause_ms(member_draw(m, 0, 200));
    }
    simba_scheduler_close(m->scheduler);
    return NULL;
}

static bool is_owner(const struct member *m)
{
    return simba_scheduler_is_leader(m->scheduler);
}

static uint64_t fence(const struct member *m)
{
    return simba_scheduler_fence(m->scheduler);
}

const struct member_kind member_scheduler = {"s", "tick", run, is_owner, fence, NULL, NULL};
