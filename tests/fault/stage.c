/*
 * stage.c - see stage.h.
 */
#include "lib/locker.h"
#include "stage.h"

static void blame(const struct stage *s, const char *call, const char *what, int code,
                  const struct simba_error *error)
{
    fail_msg("%s %s %s %ld: %d, %s", call, what, s->shortage->piece, s->shortage->nth, code,
             error->text);
}

bool stage_ok(struct stage *s, enum stage_right right, const char *call, int code,
              const struct simba_error *error)
{
    const struct shortage *shortage = s->shortage;
    bool given_up = code == SIMBA_ETIMEDOUT && shortage->for_good && right == STAGE_HEALS;

    if (code == SIMBA_OK)
        return true;
    s->hurried |= s->peace && given_up;
    if (s->peace && !given_up)
        blame(s, call, "fails after", code, error);
    if (!s->peace && !given_up && !shortage_has_struck(shortage))
        blame(s, call, "fails before", code, error);
    if (right == STAGE_HEALS && !shortage->for_good)
        blame(s, call, "does not get over", code, error);
    if (code != shortage->code && !given_up)
        blame(s, call, "has the wrong code for", code, error);
    if (error->code != code || error->text[0] == '\0')
        blame(s, call, "has no sentence for", code, error);
    return false;
}

/* Whether there is nothing to be had any more. */
static bool is_starved(const struct stage *s)
{
    return !s->peace && s->shortage->for_good && shortage_has_struck(s->shortage);
}

bool stage_wait(struct stage *s, const char *what, bool (*condition)(void *user), void *user)
{
    int64_t end_ms = test_now_ms() + TEST_PATIENCE_MS;

    while (!is_starved(s) && test_now_ms() < end_ms)
        if (test_wait_within(STAGE_HURRY_MS, condition, user))
            return true;
    if (is_starved(s))
        return test_wait_within(STAGE_HURRY_MS, condition, user);
    fail_msg("%s does not come, with %s %ld refused", what, s->shortage->piece, s->shortage->nth);
    return false;
}

/* ---- Objects --------------------------------------------------------------------------------- */

bool stage_client(struct stage *s)
{
    struct simba_error error = {0};

    if (s->client != NULL)
        return true;
    return stage_ok(s, STAGE_MAY_FAIL, "simba_client_open",
                    simba_client_open(s->url, NULL, &s->client, &error), &error);
}

static void on_acquired(void *user, const struct simba_state *state)
{
    struct stage_contender *contender = user;

    atomic_fetch_add(&contender->acquired, 1);
}

static void on_released(void *user, const struct simba_state *state)
{
    struct stage_contender *contender = user;

    atomic_fetch_add(&contender->released, 1);
}

bool stage_contender(struct stage *s, size_t index, const char *mutex, const char *id)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct stage_contender *contender = &s->contenders[index];
    struct simba_error error = {0};

    if (!stage_client(s))
        return false;
    if (contender->handle != NULL)
        return true;
    options.mutex = mutex;
    options.id = id;
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.user = contender;
    return stage_ok(s, STAGE_MAY_FAIL, "simba_contender_create",
                    simba_contender_create(s->client, &options, &contender->handle, &error),
                    &error);
}

bool stage_locker(struct stage *s)
{
    struct simba_error error = {0};

    if (!stage_client(s))
        return false;
    if (s->locker != NULL)
        return true;
    return stage_ok(s, STAGE_MAY_FAIL, "simba_locker_create",
                    test_locker_create(s->client, "locked", "me", &s->locker, &error), &error);
}

bool stage_rival(struct stage *s)
{
    struct simba_error error = {0};

    if (!stage_client(s))
        return false;
    if (s->rival != NULL)
        return true;
    return stage_ok(s, STAGE_MAY_FAIL, "simba_locker_create",
                    test_locker_create(s->client, "locked", "rival", &s->rival, &error), &error);
}

static int do_work(void *user, simba_scheduler *scheduler)
{
    struct stage *s = user;

    (void)scheduler;
    atomic_fetch_add(&s->works, 1);
    return 0;
}

bool stage_scheduler(struct stage *s)
{
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct simba_error error = {0};

    if (!stage_client(s))
        return false;
    if (s->scheduler != NULL)
        return true;
    options.mutex = "scheduled";
    options.id = "me";
    options.work = do_work;
    options.user = s;
    options.strategy = SIMBA_FIXED_DELAY;
    options.period_ms = 1;
    return stage_ok(s, STAGE_MAY_FAIL, "simba_scheduler_create",
                    simba_scheduler_create(s->client, &options, &s->scheduler, &error), &error);
}

static void on_notify(void *user, const struct simba_state *state)
{
    struct stage *s = user;

    atomic_fetch_add(&s->notices, 1);
}

bool stage_observer(struct stage *s)
{
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_error error = {0};

    if (!stage_client(s))
        return false;
    if (s->observer != NULL)
        return true;
    options.mutex = "locked";
    options.on_notify = on_notify;
    options.user = s;
    options.poll_ms = 10;
    return stage_ok(s, STAGE_MAY_FAIL, "simba_observer_create",
                    simba_observer_create(s->client, &options, &s->observer, &error), &error);
}

/* ---- The end --------------------------------------------------------------------------------- */

#define CLOSES_MAX 100

void stage_close(struct stage *s)
{
    struct simba_error error = {0};
    int code = SIMBA_EBUSY;

    for (size_t i = 0; i < STAGE_CONTENDERS; i++) {
        simba_contender_close(s->contenders[i].handle);
        s->contenders[i].handle = NULL;
    }
    simba_locker_close(s->locker);
    simba_locker_close(s->rival);
    simba_scheduler_close(s->scheduler);
    simba_observer_close(s->observer);
    s->locker = NULL;
    s->rival = NULL;
    s->scheduler = NULL;
    s->observer = NULL;
    /* Each call waits for a stop timeout, which may be shorter than a callback on a busy
     * machine. */
    for (int i = 0; code == SIMBA_EBUSY && i < CLOSES_MAX; i++)
        code = simba_client_close(s->client, &error);
    if (code != SIMBA_OK)
        fail_msg("simba_client_close fails with %s %ld refused: %s", s->shortage->piece,
                 s->shortage->nth, error.text);
    s->client = NULL;
}
