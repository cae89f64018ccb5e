/*
 * Lockers of several mutexes: semaphores and sets.
 */
#include "probe.h"

#define PATIENCE_MS 20000
#define SHORT_WAIT_MS 150

static simba_locker *make_slot(simba_client *client, int slots)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_error error = {0};
    simba_locker *locker = NULL;

    options.mutex = "s";
    if (simba_semaphore_create(client, slots, &options, &locker, &error) != SIMBA_OK)
        fail_msg("cannot create a semaphore: %s", error.text);
    return locker;
}

/* `names` is a letter for each mutex. */
static simba_locker *make_set_with(simba_client *client, const char *names,
                                   const struct simba_locker_options *options)
{
    static const char *const all[] = {"a", "b", "c", "d"};
    const char *mutexes[4];
    size_t count = 0;
    struct simba_error error = {0};
    simba_locker *locker = NULL;

    for (; names[count] != '\0'; count++)
        mutexes[count] = all[names[count] - 'a'];
    if (simba_locker_create_set(client, mutexes, count, options, &locker, &error) != SIMBA_OK)
        fail_msg("cannot create a set: %s", error.text);
    return locker;
}

static simba_locker *make_set(simba_client *client, const char *names)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    return make_set_with(client, names, &options);
}

static void expect(int code, int expected, const struct simba_error *error)
{
    if (code != expected)
        fail_msg("%d was expected, not %d: %s", expected, code, error->text);
}

static void acquire(simba_locker *locker)
{
    struct simba_error error = {0};

    expect(simba_locker_acquire_timeout(locker, PATIENCE_MS, &error), SIMBA_OK, &error);
    assert_true(simba_locker_is_held(locker));
    assert_true(simba_locker_fence(locker) > 0);
    assert_true(simba_locker_deadline_ms(locker) > simba_now_ms());
}

static void release(simba_locker *locker)
{
    struct simba_error error = {0};

    expect(simba_locker_release(locker, &error), SIMBA_OK, &error);
    assert_false(simba_locker_is_held(locker));
    assert_int_equal(simba_locker_fence(locker), 0);
    assert_int_equal(simba_locker_deadline_ms(locker), 0);
    assert_int_equal(simba_locker_slot(locker), -1);
}

/* A thread that acquires. */
struct acquirer {
    simba_locker *locker;
    pthread_t thread;
    struct simba_error error;
    int code;
    atomic_bool done;
};

static void *run_acquirer(void *user)
{
    struct acquirer *acquirer = user;

    acquirer->code = simba_locker_acquire_timeout(acquirer->locker, PATIENCE_MS, &acquirer->error);
    acquirer->done = true;
    return NULL;
}

static void begin(struct acquirer *acquirer, simba_locker *locker)
{
    memset(acquirer, 0, sizeof *acquirer);
    acquirer->locker = locker;
    assert_int_equal(pthread_create(&acquirer->thread, NULL, run_acquirer, acquirer), 0);
}

static void end(struct acquirer *acquirer, int expected)
{
    pthread_join(acquirer->thread, NULL);
    expect(acquirer->code, expected, &acquirer->error);
}

struct waited {
    simba_client *client;
    const char *mutex;
    int64_t waiters;
};

static bool has_waiters(void *user)
{
    const struct waited *waited = user;
    struct simba_mutex_status *list;
    size_t count;
    bool has;

    assert_int_equal(simba_client_status(waited->client, waited->mutex, 1000, &list, &count, NULL),
                     SIMBA_OK);
    has = list[0].waiters == waited->waiters;
    simba_free(list);
    return has;
}

static void wait_for_waiters(simba_client *client, const char *mutex, int64_t waiters)
{
    struct waited waited = {client, mutex, waiters};

    assert_true(test_wait(has_waiters, &waited));
}

static bool is_true(void *flag)
{
    return *(atomic_bool *)flag;
}

static bool is_not_held(void *locker)
{
    return !simba_locker_is_held(locker);
}

static void take_away(simba_client *client, const char *mutex)
{
    struct simba_owner owner;

    assert_int_equal(simba_client_force_release(client, mutex, 1000, &owner, NULL), SIMBA_OK);
    assert_true(owner.id[0] != '\0');
}

/* ---- Semaphores ------------------------------------------------------------------------------ */

static void as_many_hold_as_there_are_slots(void **state)
{
    simba_client *client = probe_open("memory:slots?" PROBE_LONG);
    simba_locker *lockers[3];
    struct simba_error error = {0};

    for (int i = 0; i < 3; i++)
        lockers[i] = make_slot(client, 2);
    for (int round = 0; round < 10; round++) {
        acquire(lockers[0]);
        acquire(lockers[1]);
        assert_int_equal(simba_locker_slot(lockers[0]) + simba_locker_slot(lockers[1]), 1);
        expect(simba_locker_try_acquire(lockers[2], &error), SIMBA_ECONTENDED, &error);
        probe_assert_names(error.text, "all 2 slots");
        expect(simba_locker_acquire_timeout(lockers[2], SHORT_WAIT_MS, &error), SIMBA_ETIMEDOUT,
               &error);
        probe_assert_names(error.text, "all 2 slots");
        wait_for_waiters(client, "s#0", 0); /* nothing of it is left */
        wait_for_waiters(client, "s#1", 0);
        probe_wait_free(client, "s");
        release(lockers[round % 2]);
        acquire(lockers[2]);
        release(lockers[2]);
        release(lockers[1 - round % 2]);
    }
    for (int i = 0; i < 3; i++)
        simba_locker_close(lockers[i]);
    assert_true(probe_is_free(client, "s#0"));
    assert_true(probe_is_free(client, "s#1"));
    probe_close(client);
}

static void slots_pass_on_in_the_order_of_the_waiters(void **state)
{
    simba_client *client = probe_open("memory:order?" PROBE_LONG);
    simba_locker *holders[2] = {make_slot(client, 2), make_slot(client, 2)};
    struct acquirer waiters[4];

    acquire(holders[0]);
    acquire(holders[1]);
    for (int i = 0; i < 4; i++) {
        begin(&waiters[i], make_slot(client, 2));
        if (i == 0)
            wait_for_waiters(client, "s#0", 1);
        else
            wait_for_waiters(client, "s", i);
    }
    release(holders[1]);
    for (int i = 0; i < 4; i++) {
        assert_true(test_wait(is_true, &waiters[i].done));
        for (int later = i + 1; later < 4; later++)
            assert_false(waiters[later].done);
        end(&waiters[i], SIMBA_OK);
        assert_true(simba_locker_fence(waiters[i].locker) > 0);
        release(waiters[i].locker);
    }
    for (int i = 0; i < 4; i++)
        simba_locker_close(waiters[i].locker);
    release(holders[0]);
    simba_locker_close(holders[0]);
    simba_locker_close(holders[1]);
    probe_close(client);
}

static void a_lost_slot_is_told(void *flag)
{
    *(atomic_bool *)flag = true;
}

static void the_loss_of_a_slot_is_the_loss_of_the_locker(void **state)
{
    simba_client *client = probe_open("memory:lost?" PROBE_SHORT);
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_error error = {0};
    atomic_bool lost = false;
    simba_locker *locker;
    char slot[8];

    options.mutex = "s";
    options.on_lost = a_lost_slot_is_told;
    options.user = &lost;
    assert_int_equal(simba_semaphore_create(client, 3, &options, &locker, NULL), SIMBA_OK);
    acquire(locker);
    snprintf(slot, sizeof slot, "s#%d", simba_locker_slot(locker));
    assert_int_equal(simba_locker_fence_of(locker, slot), simba_locker_fence(locker));
    assert_int_equal(simba_locker_fence_of(locker, "s"), simba_locker_fence(locker));
    assert_int_equal(simba_locker_fence_of(locker, "other"), 0);
    take_away(client, slot);
    assert_true(test_wait(is_true, &lost));
    assert_false(simba_locker_is_held(locker));
    expect(simba_locker_release(locker, &error), SIMBA_ELOST, &error);
    acquire(locker);
    simba_locker_close(locker);
    probe_close(client);
}

/* A gate that is taken away puts the first in line behind the others, and no slot is lost. */
static void the_loss_of_the_gate_loses_the_place_only(void **state)
{
    simba_client *client = probe_open("memory:gate?" PROBE_SHORT);
    simba_locker *holder = make_slot(client, 1);
    struct acquirer first;
    struct acquirer second;

    acquire(holder);
    begin(&first, make_slot(client, 1));
    wait_for_waiters(client, "s#0", 1);
    begin(&second, make_slot(client, 1));
    wait_for_waiters(client, "s", 1);
    take_away(client, "s");
    wait_for_waiters(client, "s", 1); /* the first waits again */
    release(holder);
    end(&second, SIMBA_OK);
    assert_false(first.done);
    release(second.locker);
    end(&first, SIMBA_OK);
    simba_locker_close(first.locker);
    simba_locker_close(second.locker);
    simba_locker_close(holder);
    probe_close(client);
}

static void the_store_remembers_the_number_of_slots(void **state)
{
    simba_client *client = probe_open("memory:number?" PROBE_LONG);
    simba_locker *three = make_slot(client, 3);
    simba_locker *five = make_slot(client, 5);
    struct simba_error error = {0};
    int slots = -1;

    assert_int_equal(simba_semaphore_slots(client, "s", 1000, &slots, NULL), SIMBA_OK);
    assert_int_equal(slots, 0);
    expect(simba_semaphore_resize(client, "s", 4, 1000, &error), SIMBA_ENOTFOUND, &error);
    acquire(three);
    assert_int_equal(simba_semaphore_slots(client, "s", 1000, &slots, NULL), SIMBA_OK);
    assert_int_equal(slots, 3);
    expect(simba_locker_acquire_timeout(five, PATIENCE_MS, &error), SIMBA_EINVAL, &error);
    probe_assert_names(error.text, "'s' has 3 slots, not 5");
    probe_wait_free(client, "s");
    assert_int_equal(simba_semaphore_resize(client, "s", 5, 1000, NULL), SIMBA_OK);
    acquire(five);
    release(five);
    release(three);
    acquire(three); /* it has agreed before, and follows the store */
    simba_locker_close(three);
    simba_locker_close(five);
    probe_close(client);
}

/* Also by one that waited before behind another: it goes on with the new number. */
static void more_slots_are_used_at_once(void **state)
{
    simba_client *client = probe_open("memory:grow?" PROBE_LONG);
    simba_locker *holder = make_slot(client, 1);
    simba_locker *second = make_slot(client, 1);
    struct acquirer waiters[2];

    acquire(second); /* so it has heard of the number */
    release(second);
    acquire(holder);
    begin(&waiters[0], make_slot(client, 1));
    wait_for_waiters(client, "s#0", 1);
    begin(&waiters[1], second);
    wait_for_waiters(client, "s", 1);
    assert_int_equal(simba_semaphore_resize(client, "s", 3, 1000, NULL), SIMBA_OK);
    for (int i = 0; i < 2; i++) {
        end(&waiters[i], SIMBA_OK);
        assert_true(simba_locker_slot(waiters[i].locker) > 0);
    }
    for (int i = 0; i < 2; i++) {
        release(waiters[i].locker);
        simba_locker_close(waiters[i].locker);
    }
    release(holder);
    simba_locker_close(holder);
    probe_close(client);
}

static bool is_refused(void *locker)
{
    int code = simba_locker_try_acquire(locker, NULL);

    if (code == SIMBA_OK)
        release(locker);
    return code == SIMBA_ECONTENDED;
}

static void fewer_slots_are_left_to_their_holders(void **state)
{
    simba_client *client = probe_open("memory:shrink?" PROBE_LONG);
    simba_locker *holders[2] = {make_slot(client, 2), make_slot(client, 2)};
    int upper;

    acquire(holders[0]);
    acquire(holders[1]);
    upper = simba_locker_slot(holders[1]) == 1;
    assert_int_equal(simba_semaphore_resize(client, "s", 1, 1000, NULL), SIMBA_OK);
    assert_true(simba_locker_is_held(holders[upper]));
    release(holders[upper]); /* its slot is no more, which is known a second later */
    assert_true(test_wait(is_refused, holders[upper]));
    release(holders[1 - upper]);
    acquire(holders[upper]);
    assert_int_equal(simba_locker_slot(holders[upper]), 0);
    release(holders[upper]);
    simba_locker_close(holders[0]);
    simba_locker_close(holders[1]);
    probe_close(client);
}

/* A number whose slots could have no names would stop all who use the semaphore. */
static void it_grows_no_further_than_its_names(void **state)
{
    simba_client *client = probe_open("memory:names?" PROBE_LONG);
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_error error = {0};
    char name[SIMBA_MUTEX_MAX - 1]; /* with room for "#9" */
    simba_locker *locker;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    options.mutex = name;
    assert_int_equal(simba_semaphore_create(client, 2, &options, &locker, NULL), SIMBA_OK);
    acquire(locker);
    release(locker);
    expect(simba_semaphore_resize(client, name, 11, 1000, &error), SIMBA_EINVAL, &error);
    probe_assert_names(error.text, "too long");
    assert_int_equal(simba_semaphore_resize(client, name, 10, 1000, NULL), SIMBA_OK);
    acquire(locker);
    release(locker);
    /* What another program has written fails each acquire, and breaks no rule of this one. */
    assert_int_equal(simba_client_property_set(client, name, "slots", "11", NULL, 1000, NULL),
                     SIMBA_OK);
    test_pause_ms(1100); /* the number was known for a second */
    for (int i = 0; i < 2; i++) {
        expect(simba_locker_acquire(locker, &error), SIMBA_EINVAL, &error);
        probe_wait_free(client, name);
    }
    simba_locker_close(locker);
    probe_close(client);
}

/* Others pass the gate at the same time, and slots are free. */
static void a_try_is_not_refused_for_a_gate_in_use(void **state)
{
    simba_client *client = probe_open("memory:beside?" PROBE_LONG);
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *lockers[3];
    simba_locker *gate;
    struct simba_error error = {0};

    for (int i = 0; i < 3; i++)
        lockers[i] = make_slot(client, 2);
    options.mutex = "s";
    assert_int_equal(simba_locker_create(client, &options, &gate, NULL), SIMBA_OK);
    acquire(gate);
    expect(simba_locker_try_acquire(lockers[0], &error), SIMBA_ECONTENDED, &error);
    probe_assert_names(error.text, "others wait"); /* the store knows no number yet */
    release(gate);
    acquire(lockers[0]);
    release(lockers[0]);
    acquire(gate);
    for (int round = 0; round < 3; round++) {
        expect(simba_locker_try_acquire(lockers[0], &error), SIMBA_OK, &error);
        expect(simba_locker_try_acquire(lockers[1], &error), SIMBA_OK, &error);
        assert_int_equal(simba_locker_slot(lockers[0]) + simba_locker_slot(lockers[1]), 1);
        expect(simba_locker_try_acquire(lockers[2], &error), SIMBA_ECONTENDED, &error);
        probe_assert_names(error.text, "all 2 slots");
        release(lockers[0]);
        release(lockers[1]);
    }
    release(gate);
    for (int i = 0; i < 3; i++)
        simba_locker_close(lockers[i]);
    simba_locker_close(gate);
    probe_close(client);
}

static void what_cannot_be_a_semaphore_is_refused(void **state)
{
    static const struct {
        const char *name;
        int slots;
        const char *says;
    } wrong[] = {{"s", 0, "1 to 256"}, {"s", 257, "1 to 256"}, {"s#12", 2, "slot of another"}};
    simba_client *client = probe_open("memory:wrong?" PROBE_LONG);
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_error error = {0};
    simba_locker *locker = NULL;

    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        options.mutex = wrong[i].name;
        expect(simba_semaphore_create(client, wrong[i].slots, &options, &locker, &error),
               SIMBA_EINVAL, &error);
        probe_assert_names(error.text, wrong[i].says);
    }
    options.mutex = "s#x"; /* as good a name as any */
    assert_int_equal(simba_semaphore_create(client, 1, &options, &locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    options.detachable = true;
    expect(simba_semaphore_create(client, 1, &options, &locker, &error), SIMBA_EUNSUPPORTED,
           &error);
    expect(simba_semaphore_create(NULL, 1, &options, &locker, &error), SIMBA_EMISUSE, &error);
    probe_close(client);
}

/* ---- Sets ------------------------------------------------------------------------------------ */

static void a_set_is_held_as_a_whole(void **state)
{
    simba_client *client = probe_open("memory:set?" PROBE_LONG);
    simba_locker *set = make_set(client, "cab");

    assert_string_equal(simba_locker_mutex(set), "a b c");
    for (int i = 0; i < 10; i++) {
        acquire(set);
        for (const char *name = "a\0b\0c\0"; name[0] != '\0'; name += 2) {
            assert_false(probe_is_free(client, name));
            assert_true(simba_locker_fence_of(set, name) > 0);
        }
        assert_int_equal(simba_locker_fence_of(set, "a"), simba_locker_fence(set));
        assert_int_equal(simba_locker_slot(set), -1);
        release(set);
        for (const char *name = "a\0b\0c\0"; name[0] != '\0'; name += 2)
            assert_true(probe_is_free(client, name));
    }
    simba_locker_close(set);
    probe_close(client);
}

static void a_set_that_is_not_acquired_leaves_nothing(void **state)
{
    simba_client *client = probe_open("memory:none?" PROBE_LONG);
    simba_locker *holder = make_set(client, "b");
    simba_locker *set = make_set(client, "abc");
    struct simba_error error = {0};

    acquire(holder);
    expect(simba_locker_try_acquire(set, &error), SIMBA_ECONTENDED, &error);
    probe_assert_names(error.text, "'b' is owned by");
    probe_wait_free(client, "a");
    expect(simba_locker_acquire_timeout(set, SHORT_WAIT_MS, &error), SIMBA_ETIMEDOUT, &error);
    probe_assert_names(error.text, "'b' is owned by");
    probe_wait_free(client, "a");
    assert_true(probe_is_free(client, "c"));
    wait_for_waiters(client, "b", 0);
    release(holder);
    acquire(set);
    simba_locker_close(set);
    simba_locker_close(holder);
    probe_close(client);
}

static void a_set_keeps_what_stands_in_front_while_it_waits(void **state)
{
    simba_client *client = probe_open("memory:keeps?" PROBE_LONG);
    simba_locker *holder = make_set(client, "b");
    struct acquirer waiter;

    acquire(holder);
    begin(&waiter, make_set(client, "abc"));
    wait_for_waiters(client, "b", 1);
    assert_false(probe_is_free(client, "a"));
    assert_true(probe_is_free(client, "c"));
    release(holder);
    end(&waiter, SIMBA_OK);
    simba_locker_close(waiter.locker);
    simba_locker_close(holder);
    probe_close(client);
}

static void with_no_hold_a_set_waits_without_keeping(void **state)
{
    simba_client *client = probe_open("memory:nohold?" PROBE_LONG);
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *holder = make_set(client, "b");
    struct acquirer waiter;

    acquire(holder);
    options.no_hold = true;
    begin(&waiter, make_set_with(client, "abc", &options));
    wait_for_waiters(client, "b", 1);
    probe_wait_free(client, "a");
    assert_true(probe_is_free(client, "c"));
    release(holder);
    end(&waiter, SIMBA_OK);
    release(waiter.locker);
    simba_locker_close(waiter.locker);
    simba_locker_close(holder);
    probe_close(client);
}

struct told {
    simba_locker *locker;
    atomic_uint lost;
    atomic_uint closed;
    atomic_uint running;
    atomic_uint together;
    bool closes;
};

static void note_lost(void *user)
{
    struct told *told = user;

    if (atomic_fetch_add(&told->running, 1) > 0)
        atomic_fetch_add(&told->together, 1);
    atomic_fetch_add(&told->lost, 1);
    if (told->closes)
        simba_locker_close(told->locker);
    atomic_fetch_sub(&told->running, 1);
}

static void note_closed(void *user)
{
    atomic_fetch_add(&((struct told *)user)->closed, 1);
}

static simba_locker *make_told_set(simba_client *client, struct told *told)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.on_lost = note_lost;
    options.on_closed = note_closed;
    options.user = told;
    told->locker = make_set_with(client, "abcd", &options);
    return told->locker;
}

/* All four go at once: the application hears of one loss. */
static void the_loss_of_a_part_is_told_once(void **state)
{
    simba_client *client = probe_open("memory:parts?" PROBE_SHORT);
    struct told told = {0};
    simba_locker *set = make_told_set(client, &told);
    struct simba_error error = {0};

    acquire(set);
    take_away(client, "b");
    assert_true(test_wait(is_not_held, set));
    assert_int_equal(simba_locker_fence_of(set, "a"), 0);
    probe_wait_count(&told.lost, 1);
    assert_false(probe_is_free(client, "a")); /* until the release */
    expect(simba_locker_release(set, &error), SIMBA_ELOST, &error);
    assert_true(probe_is_free(client, "a"));
    acquire(set);
    for (const char *name = "a\0b\0c\0d\0"; name[0] != '\0'; name += 2)
        take_away(client, name);
    probe_wait_count(&told.lost, 2);
    expect(simba_locker_release(set, &error), SIMBA_ELOST, &error);
    simba_locker_close(set);
    assert_int_equal(told.lost, 2);
    assert_int_equal(told.closed, 1);
    assert_int_equal(told.together, 0);
    probe_close(client);
}

static void a_set_can_be_closed_when_it_is_lost(void **state)
{
    simba_client *client = probe_open("memory:closes?" PROBE_SHORT);
    struct told told = {.closes = true};
    simba_locker *set = make_told_set(client, &told);

    acquire(set);
    take_away(client, "c");
    probe_wait_count(&told.closed, 1);
    assert_int_equal(told.lost, 1);
    for (const char *name = "a\0b\0c\0d\0"; name[0] != '\0'; name += 2)
        probe_wait_free(client, name);
    probe_close(client);
}

static bool is_owned_again(void *client)
{
    return !probe_is_free(client, "a");
}

/* What it has lost while it waits for another it acquires anew, and nobody is told of a loss. */
static void what_is_lost_before_the_set_is_held_is_acquired_again(void **state)
{
    simba_client *client = probe_open("memory:again?" PROBE_SHORT);
    struct told told = {0};
    simba_locker *holder = make_set(client, "c");
    struct acquirer waiter;

    acquire(holder);
    begin(&waiter, make_told_set(client, &told));
    wait_for_waiters(client, "c", 1);
    take_away(client, "a");
    assert_true(test_wait(is_owned_again, client));
    wait_for_waiters(client, "c", 1);
    release(holder);
    end(&waiter, SIMBA_OK);
    assert_true(simba_locker_is_held(waiter.locker));
    assert_int_equal(told.lost, 0);
    simba_locker_close(waiter.locker);
    simba_locker_close(holder);
    probe_close(client);
}

static void a_set_is_one_object_for_misuse(void **state)
{
    static const char *const twice[] = {"a", "b", "a"};
    static const char *const blank[] = {"a", ""};
    simba_client *client = probe_open("memory:misuse?" PROBE_LONG);
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_locker *set = make_set(client, "ab");
    struct simba_error error = {0};
    simba_locker *none = NULL;

    expect(simba_locker_release(set, &error), SIMBA_ESTATE, &error);
    expect(simba_locker_detach(set, &error), SIMBA_ESTATE, &error);
    simba_locker_cancel(set);
    expect(simba_locker_acquire(set, &error), SIMBA_ECANCELED, &error);
    acquire(set);
    expect(simba_locker_acquire(set, &error), SIMBA_EBUSY, &error);
    probe_assert_names(error.text, "it is held");
    release(set);
    expect(simba_locker_create_set(client, twice, 3, &options, &none, &error), SIMBA_EINVAL,
           &error);
    probe_assert_names(error.text, "twice");
    expect(simba_locker_create_set(client, blank, 2, &options, &none, &error), SIMBA_EINVAL,
           &error);
    expect(simba_locker_create_set(client, twice, 0, &options, &none, &error), SIMBA_EINVAL,
           &error);
    simba_locker_close(set);
    probe_close(client);
}

/* Releases over and over, also while another thread acquires. */
struct releaser {
    simba_locker *locker;
    atomic_uint released;
    atomic_bool ends;
};

static void *release_what_is_held(void *user)
{
    struct releaser *releaser = user;

    while (!releaser->ends)
        if (simba_locker_release(releaser->locker, NULL) != SIMBA_ESTATE)
            releaser->released++;
    return NULL;
}

static void acquire_what_another_releases(simba_client *client, simba_locker *locker,
                                          const char *mutex)
{
    struct releaser releaser = {.locker = locker};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, release_what_is_held, &releaser), 0);
    for (unsigned i = 1; i <= 500; i++) {
        struct simba_error error = {0};

        expect(simba_locker_acquire_timeout(locker, PATIENCE_MS, &error), SIMBA_OK, &error);
        probe_wait_count(&releaser.released, i);
        assert_true(probe_is_free(client, mutex));
    }
    releaser.ends = true;
    pthread_join(thread, NULL);
}

static void a_release_need_not_wait_for_the_return_of_the_acquire(void **state)
{
    simba_client *client = probe_open("memory:early?" PROBE_LONG);
    simba_locker *slot = make_slot(client, 1);
    simba_locker *set = make_set(client, "ab");

    acquire_what_another_releases(client, slot, "s#0");
    acquire_what_another_releases(client, set, "a");
    simba_locker_close(set);
    simba_locker_close(slot);
    probe_close(client);
}

/* ---- Many of them ---------------------------------------------------------------------------- */

#define CROWD 12
#define TURNS 25
#define NAMES 4

static long ledger[NAMES]; /* guarded by the mutexes only */
static atomic_uint inside;
static atomic_uint most_inside;

struct worker {
    pthread_t thread;
    simba_locker *locker;
    const char *names;
    int failures;
};

static void *work_on_ledger(void *user)
{
    struct worker *worker = user;

    for (int i = 0; i < TURNS; i++) {
        if (simba_locker_acquire_timeout(worker->locker, PATIENCE_MS, NULL) != SIMBA_OK) {
            worker->failures++;
            continue;
        }
        for (const char *name = worker->names; *name != '\0'; name++)
            ledger[*name - 'a']++;
        worker->failures += simba_locker_release(worker->locker, NULL) != SIMBA_OK;
    }
    return NULL;
}

static void *work_in_a_slot(void *user)
{
    struct worker *worker = user;

    for (int i = 0; i < TURNS; i++) {
        unsigned now;
        if (simba_locker_acquire_timeout(worker->locker, PATIENCE_MS, NULL) != SIMBA_OK) {
            worker->failures++;
            continue;
        }
        now = atomic_fetch_add(&inside, 1) + 1;
        for (unsigned most = most_inside; now > most;)
            if (atomic_compare_exchange_weak(&most_inside, &most, now))
                break;
        test_pause_ms(1);
        atomic_fetch_sub(&inside, 1);
        worker->failures += simba_locker_release(worker->locker, NULL) != SIMBA_OK;
    }
    return NULL;
}

static void run_workers(struct worker *workers, void *(*work)(void *user))
{
    for (int i = 0; i < CROWD; i++)
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    for (int i = 0; i < CROWD; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failures, 0);
        simba_locker_close(workers[i].locker);
    }
}

static void sets_that_overlap_all_finish(bool no_hold)
{
    static const char *const shapes[] = {"ab", "bc", "cd", "da", "abc", "bd", "acd", "abcd"};
    simba_client *client = probe_open("memory:overlap?" PROBE_LONG);
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct worker workers[CROWD] = {0};
    long expected[NAMES] = {0};

    options.no_hold = no_hold;
    memset(ledger, 0, sizeof ledger);
    for (int i = 0; i < CROWD; i++) {
        workers[i].names = shapes[(size_t)i % TEST_COUNT(shapes)];
        workers[i].locker = make_set_with(client, workers[i].names, &options);
        for (const char *name = workers[i].names; *name != '\0'; name++)
            expected[*name - 'a'] += TURNS;
    }
    run_workers(workers, work_on_ledger);
    assert_memory_equal(ledger, expected, sizeof ledger);
    probe_close(client);
}

static void sets_in_a_circle_all_finish(void **state)
{
    sets_that_overlap_all_finish(false);
}

static void sets_in_a_circle_all_finish_without_holding(void **state)
{
    sets_that_overlap_all_finish(true);
}

static void a_crowd_is_never_more_than_the_slots(void **state)
{
    simba_client *client = probe_open("memory:crowd?" PROBE_LONG);
    struct worker workers[CROWD] = {0};

    for (int i = 0; i < CROWD; i++)
        workers[i].locker = make_slot(client, 3);
    run_workers(workers, work_in_a_slot);
    assert_int_equal(most_inside, 3);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_hold_as_there_are_slots),
        cmocka_unit_test(slots_pass_on_in_the_order_of_the_waiters),
        cmocka_unit_test(the_loss_of_a_slot_is_the_loss_of_the_locker),
        cmocka_unit_test(the_loss_of_the_gate_loses_the_place_only),
        cmocka_unit_test(the_store_remembers_the_number_of_slots),
        cmocka_unit_test(more_slots_are_used_at_once),
        cmocka_unit_test(fewer_slots_are_left_to_their_holders),
        cmocka_unit_test(it_grows_no_further_than_its_names),
        cmocka_unit_test(a_try_is_not_refused_for_a_gate_in_use),
        cmocka_unit_test(what_cannot_be_a_semaphore_is_refused),
        cmocka_unit_test(a_set_is_held_as_a_whole),
        cmocka_unit_test(a_set_that_is_not_acquired_leaves_nothing),
        cmocka_unit_test(a_set_keeps_what_stands_in_front_while_it_waits),
        cmocka_unit_test(with_no_hold_a_set_waits_without_keeping),
        cmocka_unit_test(the_loss_of_a_part_is_told_once),
        cmocka_unit_test(a_set_can_be_closed_when_it_is_lost),
        cmocka_unit_test(what_is_lost_before_the_set_is_held_is_acquired_again),
        cmocka_unit_test(a_set_is_one_object_for_misuse),
        cmocka_unit_test(a_release_need_not_wait_for_the_return_of_the_acquire),
        cmocka_unit_test(sets_in_a_circle_all_finish),
        cmocka_unit_test(sets_in_a_circle_all_finish_without_holding),
        cmocka_unit_test(a_crowd_is_never_more_than_the_slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
