/*
 * contend.c - a member that competes: it works while it leads, and stops and starts again now and
 * then.
 */
#include "journal.h"
#include "member.h"

#include <inttypes.h>

static void on_acquired(void *user, const struct simba_state *state)
{
    struct member *m = user;

    journal_write("begin-acquired %s %s %" PRIu64, m->kind->mutex, m->who, state->after.fence);
    member_pause_ms(member_draw(m, 0, 20));
    journal_write("end-acquired %s %s", m->kind->mutex, m->who);
}

static void on_released(void *user, const struct simba_state *state)
{
    struct member *m = user;

    (void)state;
    journal_write("begin-released %s %s", m->kind->mutex, m->who);
    member_pause_ms(member_draw(m, 0, 60));
    journal_write("end-released %s %s", m->kind->mutex, m->who);
}

static void work(struct member *m)
{
    int rounds = member_draw(m, 50, 400);

    while (rounds-- > 0 && !atomic_load(m->stopping)) {
        member_use(m);
        member_pause_ms(10);
    }
}

static void take_part(struct member *m)
{
    int code;

    /* Callbacks may begin before the start has returned. */
    journal_write("starting %s %s", m->kind->mutex, m->who);
    code = simba_contender_start(m->contender, NULL);
    journal_write("started %s %s %d", m->kind->mutex, m->who, code);
    member_contend(m);
    work(m);
    member_yield(m);
    code = simba_contender_stop(m->contender, NULL);
    journal_write("stopped %s %s %d", m->kind->mutex, m->who, code);
}

static void *run(void *user)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error;
    struct member *m = user;

    options.mutex = m->kind->mutex;
    options.id = m->id;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.user = m;
    if (simba_contender_create(m->client, &options, &m->contender, &error) != SIMBA_OK) {
        journal_write("broken %s", error.text);
        return NULL;
    }
    while (!atomic_load(m->stopping)) {
        take_part(m);
        member_pause_ms(member_draw(m, 0, 200));
    }
    simba_contender_close(m->contender);
    return NULL;
}

static bool is_owner(const struct member *m)
{
    return simba_contender_is_owner(m->contender);
}

static uint64_t fence(const struct member *m)
{
    return simba_contender_fence(m->contender);
}

static int64_t deadline_ms(const struct member *m)
{
    return simba_contender_deadline_ms(m->contender);
}

const struct member_kind member_contender = {"c", "lead", run, is_owner, fence, deadline_ms, NULL};
