/*
 * Handles that are closed, or are being closed: each call of simba.h and sql.h answers, whoever has
 * the memory now. The calls are generated from the headers. Freed memory is poisoned, so that its
 * use ends the test.
 */
#include "lib/locker.h"
#include "lib/poison.h"
#include "probe.h"

#include "tck/shim.h"

#include <simba/sql.h>

/* ---- Every function -------------------------------------------------------------------------- */

/* Handles of all kinds. */
struct closed {
    simba_client *client;
    simba_contender *contender;
    simba_locker *locker;
    simba_observer *observer;
    simba_scheduler *scheduler;
    simba_repository *repository;
};

static struct simba_error error;
static const char *const names[] = {"m"};
static struct simba_handover request = SIMBA_HANDOVER_NONE;

static void expect(const char *call, long long answer, long long expected)
{
    if (answer != expected)
        fail_msg("%s answers %lld for a closed handle, not %lld", call, answer, expected);
    if (error.code != SIMBA_OK && error.code != SIMBA_ECLOSED)
        fail_msg("%s: %s", call, error.text);
    memset(&error, 0, sizeof error);
}

static void expect_text(const char *call, const char *answer, const char *expected)
{
    if (strcmp(answer, expected) != 0)
        fail_msg("%s answers '%s' for a closed handle, not '%s'", call, answer, expected);
}

#include "closed_calls.h"

static void call_all(const struct closed *closed)
{
    for (size_t i = 0; i < TEST_COUNT(calls); i++)
        calls[i](closed);
}

static int work(void *user, simba_scheduler *scheduler)
{
    (void)user;
    (void)scheduler;
    return 0;
}

static void create_all(struct closed *all, const char *folder)
{
    struct simba_contender_options contest = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_observer_options watch = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_scheduler_options plan = SIMBA_SCHEDULER_OPTIONS_INIT;
    char url[TEST_PATH_MAX + 16];

    contest.mutex = plan.mutex = watch.mutex = "m";
    plan.work = work;
    plan.period_ms = 10;
    all->client = probe_open("memory:closed?" PROBE_LONG);
    assert_int_equal(simba_contender_create(all->client, &contest, &all->contender, NULL), 0);
    assert_int_equal(simba_observer_create(all->client, &watch, &all->observer, NULL), 0);
    assert_int_equal(simba_scheduler_create(all->client, &plan, &all->scheduler, NULL), 0);
    assert_int_equal(test_locker_create(all->client, "m", NULL, &all->locker, NULL), 0);
    snprintf(url, sizeof url, "sqlite:%s/db", folder);
    if (simba_backend_find("sqlite") != NULL)
        assert_int_equal(simba_repository_open(url, &all->repository, NULL), SIMBA_OK);
}

static void close_all(struct closed *all)
{
    simba_repository_close(all->repository);
    simba_locker_close(all->locker);
    simba_scheduler_close(all->scheduler);
    simba_observer_close(all->observer);
    simba_contender_close(all->contender);
    probe_close(all->client);
}

static void every_call_with_a_closed_handle_answers(void **state)
{
    struct closed closed = {0};
    struct closed next = {0};
    char folder[TEST_PATH_MAX];

    test_folder_create(folder);
    snprintf(request.owner, sizeof request.owner, "owner");
    request.left_ms = 1000;
    create_all(&closed, folder);
    close_all(&closed);
    call_all(&closed);
    create_all(&next, folder); /* where the others were */
    call_all(&closed);
    assert_int_equal(simba_contender_start(next.contender, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_release(next.locker, NULL), SIMBA_ESTATE);
    close_all(&next);
    call_all(&closed);
    test_folder_remove(folder);
    test_poison_check();
}

static void a_second_close_does_nothing(void **state)
{
    struct closed all = {0};
    char folder[TEST_PATH_MAX];

    test_folder_create(folder);
    create_all(&all, folder);
    close_all(&all);
    simba_repository_close(all.repository);
    simba_locker_close(all.locker);
    simba_scheduler_close(all.scheduler);
    simba_observer_close(all.observer);
    simba_contender_close(all.contender);
    assert_int_equal(simba_client_close(all.client, &error), SIMBA_ECLOSED);
    assert_int_equal(error.code, SIMBA_ECLOSED);
    probe_assert_names(error.text, "simba_client_close");
    memset(&error, 0, sizeof error);
    test_folder_remove(folder);
    test_poison_check();
}

/* ---- A close ends what waits ----------------------------------------------------------------- */

enum form { ONE, SLOT, SET, FORMS };

static int create_locker(simba_client *client, enum form form, simba_locker **ret_locker)
{
    static const char *const set[] = {"a", "m"};
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = "m";
    if (form == SLOT)
        return simba_semaphore_create(client, 1, &options, ret_locker, NULL);
    if (form == SET)
        return simba_locker_create_set(client, set, TEST_COUNT(set), &options, ret_locker, NULL);
    return simba_locker_create(client, &options, ret_locker, NULL);
}

struct waiter {
    simba_locker *locker;
    atomic_bool waits;
    int code;
};

static void *acquire(void *argument)
{
    struct waiter *w = argument;

    atomic_store(&w->waits, true);
    w->code = simba_locker_acquire(w->locker, NULL);
    return NULL;
}

static bool is_waiting(void *argument)
{
    return atomic_load(&((struct waiter *)argument)->waits);
}

static void a_close_ends_the_acquire_of_another_thread(void **state)
{
    simba_client *client = probe_open("memory:ends?" PROBE_LONG);
    simba_client *other = probe_open("memory:ends?" PROBE_LONG);

    for (int i = 0; i < 3 * FORMS; i++) {
        enum form form = (enum form)(i % FORMS);
        struct waiter w = {.code = 1};
        simba_locker *owner;
        pthread_t thread;

        assert_int_equal(create_locker(other, form, &owner), SIMBA_OK);
        assert_int_equal(simba_locker_acquire(owner, NULL), SIMBA_OK);
        assert_int_equal(create_locker(client, form, &w.locker), SIMBA_OK);
        pthread_create(&thread, NULL, acquire, &w);
        test_wait(is_waiting, &w);
        test_pause_ms(i < FORMS ? 0 : 20); /* it has hardly begun, or it waits */
        simba_locker_close(w.locker);
        assert_int_equal(simba_locker_try_acquire(w.locker, NULL), SIMBA_ECLOSED);
        pthread_join(thread, NULL);
        assert_int_equal(w.code, SIMBA_ECLOSED);
        simba_locker_close(owner);
        probe_wait_free(client, "m");
    }
    probe_close(other);
    probe_close(client);
    test_poison_check();
}

struct asker {
    simba_client *client;
    int code;
};

static void *ask(void *argument)
{
    struct asker *a = argument;
    struct simba_mutex_status *list;
    size_t count;

    a->code = simba_client_status(a->client, "m", SIMBA_INFINITE, &list, &count, NULL);
    return NULL;
}

static bool holds_reply(void *shim)
{
    return sb_shim_held_replies(shim) > 0;
}

static void *let_go_later(void *shim)
{
    test_pause_ms(50);
    sb_shim_let_go(shim);
    return NULL;
}

/* The client itself waits for the answer of the store. */
static void a_close_ends_the_question_of_another_thread(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct asker a = {.code = 1};
    struct sb_shim *shim;
    pthread_t asking;
    pthread_t later;

    assert_int_equal(sb_shim_create("memory:asks", NULL, &shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(shim, "memory:asks", &options, &a.client, NULL), SIMBA_OK);
    sb_shim_hold_replies(shim, SB_SHIM_OP(SIMBA_OP_READ));
    pthread_create(&asking, NULL, ask, &a);
    assert_true(test_wait(holds_reply, shim));
    pthread_create(&later, NULL, let_go_later, shim);
    probe_close(a.client);
    pthread_join(asking, NULL);
    pthread_join(later, NULL);
    assert_int_equal(a.code, SIMBA_ECLOSED);
    sb_shim_free(shim);
    test_poison_check();
}

/* ---- A close and uses of other threads ------------------------------------------------------- */

enum kind { CONTENDER, OBSERVER, SCHEDULER, LOCKER, SEMAPHORE, MUTEX_SET, CLIENT, KINDS };

#define USERS 3

struct race {
    enum kind kind;
    void *handle;
    simba_client *client;
    atomic_uint used;
    atomic_uint wrong; /* answers that no call may give */
};

static void note(struct race *race, int code)
{
    bool fits = code == SIMBA_OK || code == SIMBA_ECLOSED || code == SIMBA_ESTATE ||
                code == SIMBA_EBUSY || code == SIMBA_ECONTENDED || code == SIMBA_ETIMEDOUT ||
                code == SIMBA_ELOST || code == SIMBA_ECANCELED || code == SIMBA_ENOTFOUND;

    if (!fits)
        atomic_fetch_add(&race->wrong, 1);
}

static void use_contender(struct race *race)
{
    simba_contender *contender = race->handle;
    struct simba_state seen;

    (void)simba_contender_is_owner(contender);
    (void)simba_contender_fence(contender);
    simba_contender_state(contender, &seen);
    note(race, simba_contender_start(contender, NULL));
    note(race, simba_contender_last_error(contender, NULL));
    note(race, simba_contender_stop(contender, NULL));
}

static void use_observer(struct race *race)
{
    simba_observer *observer = race->handle;
    struct simba_state seen;

    note(race, simba_observer_start(observer, NULL));
    (void)simba_observer_status(observer);
    simba_observer_state(observer, &seen);
    note(race, simba_observer_stop(observer, NULL));
}

static void use_scheduler(struct race *race)
{
    struct simba_schedule_counts counts = SIMBA_SCHEDULE_COUNTS_INIT;
    simba_scheduler *scheduler = race->handle;

    note(race, simba_scheduler_start(scheduler, NULL));
    (void)simba_scheduler_should_stop(scheduler);
    (void)simba_scheduler_fence(scheduler);
    note(race, simba_scheduler_counts(scheduler, &counts));
    note(race, simba_scheduler_stop(scheduler, NULL));
}

static void use_locker(struct race *race)
{
    simba_locker *locker = race->handle;
    struct simba_owner owner;

    note(race, simba_locker_acquire_timeout(locker, 20, NULL));
    (void)simba_locker_is_held(locker);
    (void)simba_locker_deadline_ms(locker);
    simba_locker_owner(locker, &owner);
    simba_locker_cancel(locker);
    note(race, simba_locker_release(locker, NULL));
}

static void use_client(struct race *race)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    struct simba_mutex_status *list;
    simba_locker *locker;
    size_t count;
    int code = simba_client_status(race->handle, NULL, 1000, &list, &count, NULL);

    note(race, code);
    if (code == SIMBA_OK)
        simba_free(list);
    note(race, simba_client_metrics(race->handle, &metrics));
    code = test_locker_create(race->handle, "m", NULL, &locker, NULL);
    note(race, code);
    if (code == SIMBA_OK)
        simba_locker_close(locker);
}

static void *use(void *argument)
{
    static void (*const uses[])(struct race *) = {
        use_contender, use_observer, use_scheduler, use_locker, use_locker, use_locker, use_client};
    struct race *race = argument;

    for (int after = 0; after < 3;) {
        uses[race->kind](race);
        atomic_fetch_add(&race->used, 1);
        after += simba_client_lease(race->client, &(int64_t){0}, &(int64_t){0}) != SIMBA_OK;
    }
    return NULL;
}

static void close_handle(struct race *race)
{
    switch (race->kind) {
    case CONTENDER:
        simba_contender_close(race->handle);
        break;
    case OBSERVER:
        simba_observer_close(race->handle);
        break;
    case SCHEDULER:
        simba_scheduler_close(race->handle);
        break;
    case CLIENT:
        break;
    default:
        simba_locker_close(race->handle);
        break;
    }
}

/* Also those that come second. */
static void *close_too(void *argument)
{
    close_handle(argument);
    return NULL;
}

static void create_of_kind(struct race *race)
{
    struct closed all = {0};
    struct simba_contender_options contest = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_observer_options watch = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_scheduler_options plan = SIMBA_SCHEDULER_OPTIONS_INIT;

    contest.mutex = plan.mutex = watch.mutex = "m";
    plan.work = work;
    plan.period_ms = 1;
    switch (race->kind) {
    case CONTENDER:
        assert_int_equal(simba_contender_create(race->client, &contest, &all.contender, NULL), 0);
        race->handle = all.contender;
        break;
    case OBSERVER:
        assert_int_equal(simba_observer_create(race->client, &watch, &all.observer, NULL), 0);
        race->handle = all.observer;
        break;
    case SCHEDULER:
        assert_int_equal(simba_scheduler_create(race->client, &plan, &all.scheduler, NULL), 0);
        race->handle = all.scheduler;
        break;
    case CLIENT:
        race->handle = race->client;
        break;
    default:
        assert_int_equal(create_locker(race->client, (enum form)(race->kind - LOCKER), &all.locker),
                         0);
        race->handle = all.locker;
        break;
    }
}

static bool is_closed(void *argument)
{
    return simba_client_close(argument, NULL) != SIMBA_EBUSY;
}

static bool is_used(void *argument)
{
    return atomic_load(&((struct race *)argument)->used) > 0;
}

/* The client is closed while calls with it, and with the object that is closed, are under way. */
static void run_race(enum kind kind, int round)
{
    struct race race = {.kind = kind, .client = probe_open("memory:race?" PROBE_LONG)};
    pthread_t users[USERS];
    pthread_t closer;

    create_of_kind(&race);
    for (int i = 0; i < USERS; i++)
        pthread_create(&users[i], NULL, use, &race);
    test_wait(is_used, &race);
    test_pause_ms(round % 4);
    pthread_create(&closer, NULL, close_too, &race);
    close_handle(&race);
    pthread_join(closer, NULL);
    assert_true(test_wait(is_closed, race.client));
    for (int i = 0; i < USERS; i++)
        pthread_join(users[i], NULL);
    assert_int_equal(atomic_load(&race.wrong), 0);
    test_poison_check();
}

static void a_close_may_meet_any_call_of_another_thread(void **state)
{
    for (int round = 0; round < 12; round++)
        for (int kind = 0; kind < KINDS; kind++)
            run_race((enum kind)kind, round);
}

/* ---- Inside callbacks ------------------------------------------------------------------------ */

struct insider {
    simba_contender *contender;
    atomic_uint begun;
    atomic_uint closed;
    atomic_uint wrong;
};

static void on_acquired(void *user, const struct simba_state *state)
{
    struct insider *in = user;

    (void)state;
    simba_contender_close(in->contender);
    simba_contender_close(in->contender);
    if (simba_contender_is_owner(in->contender) ||
        strcmp(simba_contender_mutex(in->contender), "m") != 0 ||
        simba_contender_start(in->contender, NULL) != SIMBA_ECLOSED ||
        simba_contender_stop(in->contender, NULL) != SIMBA_ECLOSED)
        atomic_fetch_add(&in->wrong, 1);
    atomic_fetch_add(&in->begun, 1);
}

static void on_closed(void *user)
{
    atomic_fetch_add(&((struct insider *)user)->closed, 1);
}

static bool is_gone(void *contender)
{
    return simba_contender_mutex(contender)[0] == '\0';
}

static void a_handle_that_its_callback_closes_ends_with_the_callback(void **state)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_client *client = probe_open("memory:inside?" PROBE_LONG);
    struct insider in = {0};

    options.mutex = "m";
    options.on_acquired = on_acquired;
    options.on_closed = on_closed;
    options.user = &in;
    assert_int_equal(simba_contender_create(client, &options, &in.contender, NULL), SIMBA_OK);
    assert_int_equal(simba_contender_start(in.contender, NULL), SIMBA_OK);
    probe_wait_count(&in.closed, 1);
    assert_int_equal(atomic_load(&in.begun), 1);
    assert_int_equal(atomic_load(&in.wrong), 0);
    assert_true(test_wait(is_gone, in.contender));
    simba_contender_close(in.contender);
    probe_close(client);
    assert_int_equal(atomic_load(&in.closed), 1);
    test_poison_check();
}

static int close_client(void *user, char ret_id[SIMBA_ID_MAX + 1])
{
    int code = simba_client_close(*(simba_client **)user, NULL);

    return code == SIMBA_EMISUSE ? simba_id_default(NULL, ret_id) : code;
}

static void an_id_generator_cannot_close_its_client(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *client = NULL;
    simba_locker *locker;

    options.id_generator = close_client;
    options.id_user = &client;
    client = probe_open_with("memory:ids?" PROBE_LONG, &options);
    assert_int_equal(test_locker_create(client, "m", NULL, &locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    probe_close(client);
    test_poison_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_with_a_closed_handle_answers),
        cmocka_unit_test(a_second_close_does_nothing),
        cmocka_unit_test(a_close_ends_the_acquire_of_another_thread),
        cmocka_unit_test(a_close_ends_the_question_of_another_thread),
        cmocka_unit_test(a_close_may_meet_any_call_of_another_thread),
        cmocka_unit_test(a_handle_that_its_callback_closes_ends_with_the_callback),
        cmocka_unit_test(an_id_generator_cannot_close_its_client),
    };

    test_poison_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
