/*
 * late.c - see late.h.
 */
#include "lib/late.h"

#include "lib/locker.h"
#include "test.h"

static void on_acquired(void *user, const struct simba_state *state)
{
    struct late *late = user;

    atomic_fetch_add(&late->acquired, 1);
}

static int work(void *user, simba_scheduler *scheduler)
{
    struct late *late = user;

    (void)scheduler;
    atomic_fetch_add(&late->runs, 1);
    return 0;
}

/* ---- While the store is down ----------------------------------------------------------------- */

static void check_refusal(const char *url, enum simba_error_group group)
{
    struct simba_error error = {0};
    simba_client *client = NULL;
    int code = simba_client_open(url, NULL, &client, &error);

    if (code == SIMBA_OK || simba_error_group(code) != group)
        fail_msg("%s was opened with %d: %s", url, code, error.text);
    assert_null(client);
}

static void open_client(struct late *late, const char *url)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_error error = {0};

    options.allow_store_down = true;
    options.stop_timeout_ms = 20000;
    if (simba_client_open(url, &options, &late->client, &error) != SIMBA_OK)
        fail_msg("%s is not opened: %s", url, error.text);
}

static void start_contender(struct late *late)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

    options.mutex = "late";
    options.id = "late-id";
    options.on_acquired = on_acquired;
    options.user = late;
    assert_int_equal(simba_contender_create(late->client, &options, &late->contender, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_contender_start(late->contender, NULL), SIMBA_OK);
}

static void start_observer(struct late *late)
{
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;

    options.mutex = "late";
    options.poll_ms = 200;
    assert_int_equal(simba_observer_create(late->client, &options, &late->observer, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_observer_start(late->observer, NULL), SIMBA_OK);
}

static void start_scheduler(struct late *late)
{
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;

    options.mutex = "late-work";
    options.work = work;
    options.user = late;
    options.period_ms = 50;
    assert_int_equal(simba_scheduler_create(late->client, &options, &late->scheduler, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_scheduler_start(late->scheduler, NULL), SIMBA_OK);
}

static bool has_failed(void *user)
{
    struct late *late = user;

    return simba_contender_last_error(late->contender, NULL) != SIMBA_OK;
}

static void check_failures(struct late *late, enum simba_error_group group)
{
    struct simba_mutex_status *list = NULL;
    int64_t begin;
    size_t count;
    int code;

    assert_true(test_wait(has_failed, late));
    code = simba_contender_last_error(late->contender, NULL);
    assert_int_equal(simba_error_group(code), group);
    assert_int_equal(simba_contender_status(late->contender), SIMBA_STARTING);
    assert_false(simba_contender_is_owner(late->contender));
    assert_int_equal(simba_error_group(simba_locker_try_acquire(late->locker, NULL)), group);
    begin = test_now_ms();
    code = simba_locker_acquire_timeout(late->locker, 200, NULL);
    assert_int_equal(simba_error_group(code), group);
    assert_true(test_now_ms() - begin >= 200);
    code = simba_client_status(late->client, NULL, 5000, &list, &count, NULL);
    assert_int_equal(simba_error_group(code), group);
    assert_int_equal(atomic_load(&late->runs), 0);
}

void late_begin(struct late *late, const char *url, enum simba_error_group group)
{
    memset(late, 0, sizeof *late);
    late->group = group;
    check_refusal(url, group);
    open_client(late, url);
    start_contender(late);
    start_observer(late);
    start_scheduler(late);
    assert_int_equal(test_locker_create(late->client, "late-lock", NULL, &late->locker, NULL),
                     SIMBA_OK);
    check_failures(late, group);
}

/* ---- The end --------------------------------------------------------------------------------- */

static bool is_whole(void *user)
{
    struct late *late = user;
    struct simba_state state;

    simba_observer_state(late->observer, &state);
    return atomic_load(&late->acquired) > 0 && simba_contender_is_owner(late->contender) &&
           atomic_load(&late->runs) > 1 && strcmp(state.after.id, "late-id") == 0;
}

static void close_all(struct late *late)
{
    struct simba_error error = {0};

    simba_contender_close(late->contender);
    simba_observer_close(late->observer);
    simba_scheduler_close(late->scheduler);
    simba_locker_close(late->locker);
    if (simba_client_close(late->client, &error) != SIMBA_OK)
        fail_msg("cannot close: %s", error.text);
}

void late_end(struct late *late)
{
    struct simba_error error = {0};

    if (simba_locker_acquire_timeout(late->locker, TEST_PATIENCE_MS, &error) != SIMBA_OK)
        fail_msg("the locker does not acquire: %s", error.text);
    assert_true(test_wait(is_whole, late));
    assert_int_equal(simba_locker_release(late->locker, &error), SIMBA_OK);
    assert_int_equal(atomic_load(&late->acquired), 1);
    close_all(late);
}

void late_give_up(struct late *late)
{
    close_all(late);
}
