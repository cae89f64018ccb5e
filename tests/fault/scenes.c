/*
 * scenes.c - the life of each public object, as a user would lead it.
 */
#include "scenes.h"

/* A lease that does not end during a scene, with a transition that makes retries come soon. Ids are
 * fixed, so that what could not be given back belongs to the next one with that id. */
#define LONG "ttl=60s&transition=2s"

/* Wake-ups are courtesies: without memory for one, the next owner comes when the lease ends. */
#define SHORT "ttl=100ms&transition=100ms"

/* ---- A client alone -------------------------------------------------------------------------- */

static void check_free(const struct stage *s, const struct simba_mutex_status *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].owner.id[0] != '\0')
            fail_msg("'%s' is still owned by %s after %s %ld", list[i].mutex, list[i].owner.id,
                     s->shortage->piece, s->shortage->nth);
}

static void play_client(struct stage *s)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    if (stage_client(s))
        assert_int_equal(simba_client_metrics(s->client, &metrics), SIMBA_OK);
}

/* `list` and `count` must stay as they were when the call fails. */
static void ask(struct stage *s, const char *mutex)
{
    struct simba_mutex_status untouched;
    struct simba_mutex_status *list = &untouched;
    struct simba_error error = {0};
    size_t count = 77;
    int code = simba_client_status(s->client, mutex, TEST_PATIENCE_MS, &list, &count, &error);

    if (!stage_ok(s, STAGE_MAY_FAIL, "simba_client_status", code, &error)) {
        assert_ptr_equal(list, &untouched);
        assert_int_equal(count, 77);
        return;
    }
    if (s->peace && !s->hurried)
        check_free(s, list, count);
    simba_free(list);
}

/* ---- Contenders ------------------------------------------------------------------------------ */

static bool is_owner(void *user)
{
    return simba_contender_is_owner(user);
}

static bool start(struct stage *s, size_t index)
{
    struct simba_error error = {0};

    return stage_ok(s, STAGE_HEALS, "simba_contender_start",
                    simba_contender_start(s->contenders[index].handle, &error), &error);
}

/* Whether or not the store could be told, the contender is at rest and no callback is owed: a stop
 * that was given up has dropped the last on_released if it had not begun. */
static void stop(struct stage *s, size_t index)
{
    struct stage_contender *contender = &s->contenders[index];
    struct simba_error error = {0};
    int code = simba_contender_stop(contender->handle, &error);
    unsigned untold;

    stage_ok(s, STAGE_HEALS, "simba_contender_stop", code, &error);
    assert_int_equal(simba_contender_status(contender->handle), SIMBA_INITIAL);
    assert_false(simba_contender_is_owner(contender->handle));
    untold = atomic_load(&contender->acquired) - atomic_load(&contender->released);
    if (code == SIMBA_ETIMEDOUT && untold == contender->dropped + 1)
        contender->dropped++;
    assert_int_equal(untold, contender->dropped);
}

static void play_contender(struct stage *s)
{
    simba_contender *contender;

    if (!stage_contender(s, 0, "led", "me") || !start(s, 0))
        return;
    contender = s->contenders[0].handle;
    if (stage_wait(s, "the acquisition", is_owner, contender))
        assert_int_not_equal(simba_contender_fence(contender), 0);
    else
        assert_int_equal(simba_contender_last_error(contender, NULL), s->shortage->code);
    stop(s, 0);
}

static bool has_owner(void *user)
{
    const struct stage *s = user;

    for (size_t i = 0; i < STAGE_CONTENDERS; i++)
        if (simba_contender_is_owner(s->contenders[i].handle))
            return true;
    return false;
}

/* Each owner stops and hands over to one of the others, which waits for it. */
static void play_contest(struct stage *s)
{
    static const char *const ids[STAGE_CONTENDERS] = {"a", "b", "c"};

    for (size_t i = 0; i < STAGE_CONTENDERS; i++)
        if (!stage_contender(s, i, "contested", ids[i]))
            return;
    for (size_t i = 0; i < STAGE_CONTENDERS; i++)
        start(s, i);
    for (size_t turn = 0; turn < STAGE_CONTENDERS; turn++) {
        size_t i = 0;

        stage_wait(s, "the hand-over", has_owner, s);
        while (i < STAGE_CONTENDERS - 1 && !simba_contender_is_owner(s->contenders[i].handle))
            i++;
        if (simba_status_is_active(simba_contender_status(s->contenders[i].handle)))
            stop(s, i);
    }
    for (size_t i = 0; i < STAGE_CONTENDERS; i++)
        if (simba_status_is_active(simba_contender_status(s->contenders[i].handle)))
            stop(s, i);
}

/* ---- Lockers --------------------------------------------------------------------------------- */

static void release(struct stage *s, simba_locker *locker)
{
    struct simba_error error = {0};

    stage_ok(s, STAGE_HEALS, "simba_locker_release", simba_locker_release(locker, &error), &error);
    assert_false(simba_locker_is_held(locker));
}

static bool acquire(struct stage *s, simba_locker *locker)
{
    struct simba_error error = {0};
    int64_t timeout_ms = s->shortage->for_good && !s->peace ? STAGE_HURRY_MS : TEST_PATIENCE_MS;

    return stage_ok(s, STAGE_HEALS, "simba_locker_acquire_timeout",
                    simba_locker_acquire_timeout(locker, timeout_ms, &error), &error);
}

static bool try_acquire(struct stage *s, simba_locker *locker)
{
    struct simba_error error = {0};

    return stage_ok(s, STAGE_MAY_FAIL, "simba_locker_try_acquire",
                    simba_locker_try_acquire(locker, &error), &error);
}

/* Waits without a limit, so it is for a shortage that heals only. */
static void acquire_unlimited(struct stage *s)
{
    struct simba_error error = {0};

    if (s->shortage->for_good && !s->peace)
        return;
    if (stage_ok(s, STAGE_HEALS, "simba_locker_acquire", simba_locker_acquire(s->locker, &error),
                 &error))
        release(s, s->locker);
}

static void play_locker(struct stage *s)
{
    if (!stage_locker(s))
        return;
    if (acquire(s, s->locker))
        release(s, s->locker);
    if (try_acquire(s, s->locker))
        release(s, s->locker);
    acquire_unlimited(s);
}

/* While somebody else holds it, one attempt and a limited wait end as they should, or for the
 * shortage. */
static void lose_to_rival(struct stage *s)
{
    struct simba_error error = {0};
    int code = simba_locker_try_acquire(s->locker, &error);

    if (code != SIMBA_ECONTENDED)
        assert_false(stage_ok(s, STAGE_MAY_FAIL, "a hopeless attempt", code, &error));
    code = simba_locker_acquire_timeout(s->locker, 5, &error);
    if (code != SIMBA_ETIMEDOUT)
        assert_false(stage_ok(s, STAGE_MAY_FAIL, "a hopeless wait", code, &error));
}

/* What the locker could not give back for good, it takes again and gives back now. */
static bool let_rival_hold(struct stage *s)
{
    struct simba_error error = {0};
    int code = simba_locker_try_acquire(s->rival, &error);

    if (code == SIMBA_ECONTENDED && s->shortage->for_good && s->peace) {
        if (acquire(s, s->locker))
            release(s, s->locker);
        code = simba_locker_try_acquire(s->rival, &error);
    }
    if (s->hurried)
        return code == SIMBA_OK;
    return stage_ok(s, STAGE_MAY_FAIL, "simba_locker_try_acquire", code, &error);
}

static void play_rivals(struct stage *s)
{
    if (!stage_locker(s) || !stage_rival(s) || !let_rival_hold(s))
        return;
    lose_to_rival(s);
    release(s, s->rival);
    if (acquire(s, s->locker))
        release(s, s->locker);
}

/* ---- The others ------------------------------------------------------------------------------ */

static void play_status(struct stage *s)
{
    if (!stage_locker(s))
        return;
    if (try_acquire(s, s->locker))
        release(s, s->locker);
    ask(s, NULL);
    ask(s, "locked");
    ask(s, "unknown");
}

static bool has_worked(void *user)
{
    return atomic_load((atomic_uint *)user) >= 2;
}

static void play_scheduler(struct stage *s)
{
    struct simba_error error = {0};

    if (!stage_scheduler(s))
        return;
    atomic_store(&s->works, 0);
    if (!stage_ok(s, STAGE_HEALS, "simba_scheduler_start",
                  simba_scheduler_start(s->scheduler, &error), &error))
        return;
    stage_wait(s, "the work", has_worked, &s->works);
    stage_ok(s, STAGE_HEALS, "simba_scheduler_stop", simba_scheduler_stop(s->scheduler, &error),
             &error);
    assert_int_equal(simba_scheduler_status(s->scheduler), SIMBA_INITIAL);
}

static bool has_notice(void *user)
{
    return atomic_load((atomic_uint *)user) > 0;
}

static void observe_locker(struct stage *s)
{
    if (!try_acquire(s, s->locker))
        return;
    stage_wait(s, "the notice", has_notice, &s->notices);
    release(s, s->locker);
}

static void play_observer(struct stage *s)
{
    struct simba_error error = {0};

    if (!stage_observer(s) || !stage_locker(s))
        return;
    atomic_store(&s->notices, 0);
    if (!stage_ok(s, STAGE_HEALS, "simba_observer_start", simba_observer_start(s->observer, &error),
                  &error))
        return;
    observe_locker(s);
    stage_ok(s, STAGE_HEALS, "simba_observer_stop", simba_observer_stop(s->observer, &error),
             &error);
    assert_int_equal(simba_observer_status(s->observer), SIMBA_INITIAL);
}

/* Ids that the library makes. Nobody starts. */
static void play_ids(struct stage *s)
{
    char id[SIMBA_ID_MAX + 1];

    assert_int_equal(simba_id_host(NULL, id), SIMBA_OK);
    assert_int_equal(simba_id_uuid(NULL, id), SIMBA_OK);
    assert_int_equal(simba_id_default(NULL, id), SIMBA_OK);
    for (size_t i = 0; i < STAGE_CONTENDERS; i++)
        if (stage_contender(s, i, "unused", NULL))
            assert_int_equal(simba_id_validate(simba_contender_id(s->contenders[i].handle), NULL),
                             SIMBA_OK);
}

const struct scene scenes[] = {
    {"a client", LONG, false, play_client},      {"ids", LONG, false, play_ids},
    {"a contender", LONG, true, play_contender}, {"a contest", SHORT, true, play_contest},
    {"a locker", LONG, true, play_locker},       {"rivals", LONG, true, play_rivals},
    {"the status", LONG, true, play_status},     {"a scheduler", LONG, true, play_scheduler},
    {"an observer", LONG, true, play_observer},  {NULL, NULL, false, NULL},
};
