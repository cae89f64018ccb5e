/*
 * The callbacks of contenders: their order, stops and closes from inside them, slow and stuck ones.
 */
#include "probe.h"

#include "lib/locker.h"
#include "tck/shim.h"

/* ---- Stop and close from inside -------------------------------------------------------------- */

static void stop_myself(struct probe *p)
{
    if (simba_contender_stop(p->contender, NULL) != SIMBA_OK)
        atomic_fetch_add(&p->disorder, 1);
    if (simba_contender_is_owner(p->contender))
        atomic_fetch_add(&p->owned_late, 1);
}

static void a_stop_inside_on_acquired_returns_at_once_and_completes(void **state)
{
    simba_client *client = probe_open("memory:inside?" PROBE_LONG);
    struct probe p = {.in_acquired = stop_myself};

    probe_create(&p, client, "m", NULL);
    for (unsigned i = 1; i <= 20; i++) {
        probe_start(&p);
        probe_wait_count(&p.released, i);
        probe_wait_status(p.contender, SIMBA_INITIAL);
    }
    assert_int_equal(atomic_load(&p.owned_late), 0);
    assert_true(probe_is_free(client, "m"));
    probe_end(&p);
    probe_close(client);
}

static void a_stop_inside_on_released_after_a_loss_completes(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    const char *url = "memory:inside?" PROBE_SHORT;
    struct probe p = {.in_released = stop_myself};
    struct sb_shim *shim;
    simba_client *client;

    assert_int_equal(sb_shim_create(url, NULL, &shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(shim, url, &options, &client, NULL), SIMBA_OK);
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    sb_shim_refuse(shim, SB_SHIM_OP(SIMBA_OP_GUARD), SIMBA_EUNAVAILABLE);
    probe_wait_count(&p.returned, 2);
    probe_wait_status(p.contender, SIMBA_INITIAL);
    assert_int_equal(atomic_load(&p.released), 1);
    sb_shim_let_go(shim);
    probe_end(&p);
    probe_close(client);
    sb_shim_free(shim);
}

static void close_myself(struct probe *p)
{
    simba_contender_close(p->contender);
}

static void a_close_inside_on_acquired_releases_and_frees(void **state)
{
    simba_client *client = probe_open("memory:inside?" PROBE_LONG);
    struct probe probes[20] = {0};

    for (size_t i = 0; i < TEST_COUNT(probes); i++) {
        probes[i].in_acquired = close_myself;
        probe_create(&probes[i], client, "m", NULL);
        probe_start(&probes[i]);
        probe_wait_count(&probes[i].returned, 1);
    }
    probe_wait_free(client, "m");
    probe_close(client);
    for (size_t i = 0; i < TEST_COUNT(probes); i++) {
        assert_int_equal(atomic_load(&probes[i].released), 0);
        assert_int_equal(atomic_load(&probes[i].disorder), 0);
    }
}

static void a_close_inside_on_released_while_another_thread_stops_is_safe(void **state)
{
    simba_client *client = probe_open("memory:inside?" PROBE_LONG);

    for (int i = 0; i < 50; i++) {
        struct probe p = {.in_released = close_myself};

        probe_create(&p, client, "m", NULL);
        probe_start(&p);
        probe_wait_count(&p.acquired, 1);
        probe_stop(&p); /* its handle is closed by the time it returns */
        assert_int_equal(atomic_load(&p.released), 1);
    }
    assert_true(probe_is_free(client, "m"));
    probe_close(client);
}

/* ---- Order ----------------------------------------------------------------------------------- */

struct contest {
    atomic_int inside; /* contenders between on_acquired and the end of on_released */
    atomic_uint overlaps;
    atomic_uint old_tokens;
    atomic_ullong last_fence;
};

static void enter_contest(struct probe *p)
{
    struct contest *contest = p->user;

    if (atomic_fetch_add(&contest->inside, 1) != 0)
        atomic_fetch_add(&contest->overlaps, 1);
    if (atomic_exchange(&contest->last_fence, atomic_load(&p->fence)) >= atomic_load(&p->fence))
        atomic_fetch_add(&contest->old_tokens, 1);
}

static void leave_contest(struct probe *p)
{
    struct contest *contest = p->user;

    if (simba_contender_is_owner(p->contender))
        atomic_fetch_add(&p->owned_late, 1);
    atomic_fetch_sub(&contest->inside, 1);
}

#define CONTENDERS 6

/* The one of them that owns; NULL when none does. */
static struct probe *find_owner(struct probe *probes)
{
    for (int i = 0; i < CONTENDERS; i++)
        if (simba_contender_is_owner(probes[i].contender))
            return &probes[i];
    return NULL;
}

static bool has_owner(void *probes)
{
    return find_owner(probes) != NULL;
}

static void hand_overs_between_clients_never_overlap(void **state)
{
    struct probe probes[CONTENDERS] = {0};
    simba_client *clients[2];
    struct contest contest = {0};

    for (int i = 0; i < 2; i++)
        clients[i] = probe_open("memory:order?" PROBE_LONG);
    for (int i = 0; i < CONTENDERS; i++) {
        probes[i].in_acquired = enter_contest;
        probes[i].in_released = leave_contest;
        probes[i].user = &contest;
        probe_create(&probes[i], clients[i % 2], "m", NULL);
        probe_start(&probes[i]);
    }
    for (int turn = 0; turn < 200; turn++) {
        struct probe *owner;

        if (!test_wait(has_owner, probes))
            fail_msg("nobody owns in turn %d", turn);
        owner = find_owner(probes);
        probe_stop(owner);
        probe_start(owner);
    }
    for (int i = 0; i < CONTENDERS; i++) {
        probe_end(&probes[i]);
        assert_int_equal(atomic_load(&probes[i].owned_late), 0);
    }
    assert_int_equal(atomic_load(&contest.overlaps), 0);
    assert_int_equal(atomic_load(&contest.old_tokens), 0);
    probe_close(clients[0]);
    probe_close(clients[1]);
}

/* ---- Slow ------------------------------------------------------------------------------------ */

static void wait_at_gate(struct probe *p)
{
    gate_wait(p->user);
}

static uint64_t renewals(simba_client *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    return metrics.renewals;
}

struct renewal_wait {
    simba_client *client;
    uint64_t least;
};

static bool has_renewed(void *user)
{
    const struct renewal_wait *wait = user;

    return renewals(wait->client) >= wait->least;
}

static void wait_for_renewals(simba_client *client, uint64_t more)
{
    struct renewal_wait wait = {client, renewals(client) + more};

    if (!test_wait(has_renewed, &wait))
        fail_msg("the lease is not renewed");
}

static void a_slow_on_acquired_delays_no_renewal(void **state)
{
    simba_client *client = probe_open("memory:slow?" PROBE_SHORT);
    struct gate gate = GATE_INIT;
    struct probe p = {.in_acquired = wait_at_gate, .user = &gate};

    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    wait_for_renewals(client, 4); /* more than a whole lease */
    assert_true(simba_contender_is_owner(p.contender));
    gate_open(&gate);
    probe_end(&p);
    probe_close(client);
}

static void *stop_it(void *probe)
{
    struct probe *p = probe;

    return (void *)(intptr_t)simba_contender_stop(p->contender, NULL);
}

struct handover {
    struct probe *before;
    atomic_uint early;
};

static void check_that_the_other_has_ended(struct probe *p)
{
    struct handover *handover = p->user;

    if (atomic_load(&handover->before->running) != 0)
        atomic_fetch_add(&handover->early, 1);
}

static void a_slow_on_released_stays_exclusive_until_it_has_returned(void **state)
{
    simba_client *client = probe_open("memory:slow?" PROBE_SHORT);
    simba_client *other = probe_open("memory:slow?" PROBE_SHORT);
    struct gate gate = GATE_INIT;
    struct probe slow = {.in_released = wait_at_gate, .user = &gate};
    struct handover handover = {.before = &slow};
    struct probe next = {.in_acquired = check_that_the_other_has_ended, .user = &handover};
    pthread_t stopper;
    void *code;

    probe_create(&slow, client, "m", NULL);
    probe_create(&next, other, "m", NULL);
    probe_start(&slow);
    probe_wait_count(&slow.acquired, 1);
    probe_start(&next);
    pthread_create(&stopper, NULL, stop_it, &slow);
    probe_wait_count(&slow.released, 1);
    wait_for_renewals(client, 4); /* more than a whole lease */
    assert_false(simba_contender_is_owner(slow.contender));
    assert_int_equal(atomic_load(&next.acquired), 0);
    gate_open(&gate);
    probe_wait_count(&next.acquired, 1);
    pthread_join(stopper, &code);
    assert_int_equal((intptr_t)code, SIMBA_OK);
    assert_int_equal(atomic_load(&handover.early), 0);
    probe_end(&slow);
    probe_end(&next);
    probe_close(client);
    probe_close(other);
}

static void wait_inside(void *user, const struct simba_state *state)
{
    struct probe *p = user;

    atomic_fetch_add(&p->acquired, 1);
    gate_wait(p->user);
}

/* Its stop calls nobody, and yet it must not overtake the callback that runs. */
static void a_stop_without_on_released_keeps_the_mutex_until_on_acquired_has_returned(void **state)
{
    simba_client *client = probe_open("memory:slow?" PROBE_SHORT);
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct gate gate = GATE_INIT;
    struct probe p = {.user = &gate};
    pthread_t stopper;
    void *code;

    options.mutex = "m";
    options.on_acquired = wait_inside;
    options.user = &p;
    assert_int_equal(simba_contender_create(client, &options, &p.contender, NULL), SIMBA_OK);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    pthread_create(&stopper, NULL, stop_it, &p);
    probe_wait_status(p.contender, SIMBA_STOPPING);
    wait_for_renewals(client, 4); /* more than a whole lease */
    assert_false(probe_is_free(client, "m"));
    gate_open(&gate);
    pthread_join(stopper, &code);
    assert_int_equal((intptr_t)code, SIMBA_OK);
    assert_true(probe_is_free(client, "m"));
    simba_contender_close(p.contender);
    probe_close(client);
}

/* ---- Stuck ----------------------------------------------------------------------------------- */

#define IMPATIENT "memory:stuck?ttl=20s&transition=20s&stop-timeout=200ms"

static void a_stuck_callback_holds_a_stop_up_no_longer_than_its_timeout(void **state)
{
    simba_client *client = probe_open(IMPATIENT);
    struct gate gate = GATE_INIT;
    struct probe p = {.in_acquired = wait_at_gate, .user = &gate};
    struct simba_error error = {0};
    int64_t begin;

    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    begin = test_now_ms();
    assert_int_equal(simba_contender_stop(p.contender, &error), SIMBA_ETIMEDOUT);
    assert_true(test_now_ms() - begin >= 199);
    probe_assert_names(error.text, "callback");
    assert_int_equal(simba_contender_status(p.contender), SIMBA_INITIAL);
    gate_open(&gate);
    probe_wait_count(&p.returned, 1);
    probe_end(&p);
    assert_int_equal(atomic_load(&p.released), 0); /* nothing begins after the stop has returned */
    probe_close(client);
    assert_int_equal(atomic_load(&p.released), 0);
}

static void a_service_that_was_stuck_can_be_started_again(void **state)
{
    simba_client *client = probe_open(IMPATIENT);
    struct gate gate = GATE_INIT;
    struct probe p = {.in_acquired = wait_at_gate, .user = &gate};

    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    assert_int_equal(simba_contender_stop(p.contender, NULL), SIMBA_ETIMEDOUT);
    probe_start(&p);
    assert_int_equal(simba_contender_status(p.contender), SIMBA_STARTING);
    assert_int_equal(atomic_load(&p.acquired), 1); /* two callbacks at once there are never */
    gate_open(&gate);
    probe_wait_count(&p.acquired, 2);
    assert_int_equal(atomic_load(&p.running), 0);
    simba_contender_close(p.contender);
    probe_close(client);
}

/* ---- What has changed while on_notify ran ---------------------------------------------------- */

static void on_acquired_does_not_begin_when_the_stop_has_returned(void **state)
{
    simba_client *client = probe_open(IMPATIENT);
    struct gate gate = GATE_INIT;
    struct probe p = {.in_notify = wait_at_gate, .user = &gate};

    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.notified, 1);
    assert_int_equal(simba_contender_stop(p.contender, NULL), SIMBA_ETIMEDOUT);
    gate_open(&gate);
    probe_end(&p); /* waits for on_notify, and so for what would follow it */
    probe_close(client);
    assert_int_equal(atomic_load(&p.acquired), 0);
    assert_int_equal(atomic_load(&p.released), 0);
}

static void a_slow_on_notify_about_others_holds_up_no_attempt(void **state)
{
    simba_client *client = probe_open("memory:inside?" PROBE_LONG);
    struct gate gate = GATE_INIT;
    struct probe owner = {0};
    struct probe waiter = {.in_notify = wait_at_gate, .user = &gate};

    probe_create(&owner, client, "m", NULL);
    probe_create(&waiter, client, "m", NULL);
    probe_start(&owner);
    probe_wait_owner(&owner);
    probe_start(&waiter);
    probe_wait_count(&waiter.notified, 1);
    probe_stop(&owner);
    probe_wait_owner(&waiter); /* while on_notify waits at the gate */
    assert_int_equal(atomic_load(&waiter.acquired), 0);
    gate_open(&gate);
    probe_wait_count(&waiter.acquired, 1);
    probe_end(&owner);
    probe_end(&waiter);
    probe_close(client);
}

static void on_acquired_comes_once_for_the_term_after_a_restart(void **state)
{
    simba_client *client = probe_open(IMPATIENT);
    struct gate gate = GATE_INIT;
    struct probe p = {.in_notify = wait_at_gate, .user = &gate};

    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.notified, 1);
    assert_int_equal(simba_contender_stop(p.contender, NULL), SIMBA_ETIMEDOUT);
    probe_start(&p);
    gate_open(&gate);
    probe_wait_owner(&p);
    probe_wait_count(&p.acquired, 1);
    probe_stop(&p);
    assert_int_equal(atomic_load(&p.acquired), 1);
    assert_int_equal(atomic_load(&p.released), 1);
    probe_end(&p);
    probe_close(client);
}

static bool has_lost(void *client)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    return simba_client_metrics(client, &metrics) == SIMBA_OK && metrics.losses > 0;
}

static void a_term_that_was_lost_while_on_notify_ran_is_not_told(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    const char *url = "memory:inside?" PROBE_SHORT;
    struct gate gate = GATE_INIT;
    struct probe p = {.in_notify = wait_at_gate, .user = &gate};
    struct sb_shim *shim;
    simba_client *client;

    assert_int_equal(sb_shim_create(url, NULL, &shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(shim, url, &options, &client, NULL), SIMBA_OK);
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.notified, 1);
    sb_shim_refuse(shim, SB_SHIM_ALL, SIMBA_EUNAVAILABLE);
    assert_true(test_wait(has_lost, client));
    gate_open(&gate);
    probe_wait_count(&p.notified, 2); /* of the loss, behind all callbacks of the win */
    assert_int_equal(atomic_load(&p.acquired), 0);
    sb_shim_let_go(shim);
    probe_end(&p);
    assert_int_equal(atomic_load(&p.acquired), atomic_load(&p.released));
    probe_close(client);
    sb_shim_free(shim);
}

/* The end of the term is a change of owner, too. */
static void stop_at_first_notify(struct probe *p)
{
    int code = simba_contender_stop(p->contender, NULL);

    if (code != SIMBA_OK && code != SIMBA_ESTATE)
        atomic_fetch_add(&p->disorder, 1);
}

static void a_stop_inside_on_notify_leaves_the_term_untold(void **state)
{
    simba_client *client = probe_open("memory:inside?" PROBE_LONG);
    struct probe p = {.in_notify = stop_at_first_notify};

    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.notified, 1);
    probe_wait_status(p.contender, SIMBA_INITIAL);
    assert_int_equal(atomic_load(&p.acquired), 0);
    assert_int_equal(atomic_load(&p.released), 0);
    probe_wait_free(client, "m");
    probe_end(&p);
    probe_close(client);
}

static void only_on_released_is_told_of_a_term_that_had_nobody_to_tell(void **state)
{
    simba_client *client = probe_open("memory:inside?" PROBE_LONG);
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct gate gate = GATE_INIT;
    struct probe p = {.user = &gate};

    gate_open(&gate);
    options.mutex = "m";
    options.on_released = wait_inside; /* counts */
    options.user = &p;
    assert_int_equal(simba_contender_create(client, &options, &p.contender, NULL), SIMBA_OK);
    for (unsigned i = 1; i <= 3; i++) {
        probe_start(&p);
        probe_wait_owner(&p);
        probe_stop(&p);
        assert_int_equal(atomic_load(&p.acquired), i);
    }
    simba_contender_close(p.contender);
    probe_close(client);
}

/* ---- Threads --------------------------------------------------------------------------------- */

#define PAIRS 8

static void stop_partner(struct probe *p)
{
    struct probe *partner = p->user;

    if (simba_contender_stop(partner->contender, NULL) != SIMBA_OK)
        atomic_fetch_add(&p->disorder, 1);
}

static void callbacks_that_stop_others_do_not_use_up_the_threads(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct probe stoppers[PAIRS] = {0};
    struct probe partners[PAIRS] = {0};
    simba_client *client;
    char name[32];

    options.dispatcher_threads = 2;
    client = probe_open_with("memory:threads?" PROBE_LONG, &options);
    for (int i = 0; i < PAIRS; i++) {
        snprintf(name, sizeof name, "partner-%d", i);
        probe_create(&partners[i], client, name, NULL);
        probe_start(&partners[i]);
        probe_wait_count(&partners[i].returned, 1);
        snprintf(name, sizeof name, "stopper-%d", i);
        stoppers[i].in_acquired = stop_partner;
        stoppers[i].user = &partners[i];
        probe_create(&stoppers[i], client, name, NULL);
    }
    for (int i = 0; i < PAIRS; i++)
        probe_start(&stoppers[i]);
    for (int i = 0; i < PAIRS; i++) {
        probe_wait_count(&stoppers[i].returned, 1);
        assert_int_equal(atomic_load(&partners[i].released), 1);
    }
    for (int i = 0; i < PAIRS; i++) {
        probe_end(&stoppers[i]);
        probe_end(&partners[i]);
    }
    probe_close(client);
}

struct other_client {
    simba_locker *holder; /* holds what the waiter wants */
    simba_locker *waiter;
    atomic_int code;
};

static void wait_in_other_client(struct probe *p)
{
    struct other_client *other = p->user;

    atomic_store(&other->code,
                 simba_locker_acquire_timeout(other->waiter, TEST_PATIENCE_MS / 2, NULL));
}

static void release_in_other_client(struct probe *p)
{
    struct other_client *other = p->user;

    simba_locker_release(other->holder, NULL);
}

static void a_callback_that_waits_in_another_client_is_replaced(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *other = probe_open("memory:others?" PROBE_LONG);
    struct other_client lockers = {.code = 1};
    struct probe waiting = {.in_acquired = wait_in_other_client, .user = &lockers};
    struct probe releasing = {.in_acquired = release_in_other_client, .user = &lockers};
    simba_client *client;

    options.dispatcher_threads = 1;
    client = probe_open_with("memory:threads?" PROBE_LONG, &options);
    assert_int_equal(test_locker_create(other, "l", NULL, &lockers.holder, NULL), SIMBA_OK);
    assert_int_equal(test_locker_create(other, "l", NULL, &lockers.waiter, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(lockers.holder, NULL), SIMBA_OK);
    probe_create(&waiting, client, "w", NULL);
    probe_create(&releasing, client, "r", NULL);
    probe_start(&waiting);
    probe_wait_count(&waiting.acquired, 1);
    probe_start(&releasing);
    probe_wait_count(&waiting.returned, 1);
    assert_int_equal(atomic_load(&lockers.code), SIMBA_OK);
    probe_end(&waiting);
    probe_end(&releasing);
    simba_locker_close(lockers.waiter);
    simba_locker_close(lockers.holder);
    probe_close(client);
    probe_close(other);
}

/* ---- Others ---------------------------------------------------------------------------------- */

static void on_notify_tells_the_changes_between_others(void **state)
{
    simba_client *client = probe_open("memory:notify?" PROBE_LONG);
    struct probe first = {0};
    struct probe second = {0};

    probe_create(&first, client, "m", "first");
    probe_create(&second, client, "m", "second");
    probe_start(&first);
    probe_wait_count(&first.acquired, 1);
    probe_start(&second);
    probe_wait_count(&second.notified, 1);
    assert_int_equal(atomic_load(&second.acquired), 0);
    probe_stop(&first);
    probe_wait_count(&second.acquired, 1);
    assert_true(atomic_load(&second.notified) >= 2);
    assert_int_equal(atomic_load(&first.notified), 2);
    probe_end(&first);
    probe_end(&second);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_inside_on_acquired_returns_at_once_and_completes),
        cmocka_unit_test(a_stop_inside_on_released_after_a_loss_completes),
        cmocka_unit_test(a_close_inside_on_acquired_releases_and_frees),
        cmocka_unit_test(a_close_inside_on_released_while_another_thread_stops_is_safe),
        cmocka_unit_test(hand_overs_between_clients_never_overlap),
        cmocka_unit_test(a_slow_on_acquired_delays_no_renewal),
        cmocka_unit_test(a_slow_on_released_stays_exclusive_until_it_has_returned),
        cmocka_unit_test(a_stop_without_on_released_keeps_the_mutex_until_on_acquired_has_returned),
        cmocka_unit_test(a_stuck_callback_holds_a_stop_up_no_longer_than_its_timeout),
        cmocka_unit_test(a_service_that_was_stuck_can_be_started_again),
        cmocka_unit_test(on_acquired_does_not_begin_when_the_stop_has_returned),
        cmocka_unit_test(a_slow_on_notify_about_others_holds_up_no_attempt),
        cmocka_unit_test(on_acquired_comes_once_for_the_term_after_a_restart),
        cmocka_unit_test(a_term_that_was_lost_while_on_notify_ran_is_not_told),
        cmocka_unit_test(a_stop_inside_on_notify_leaves_the_term_untold),
        cmocka_unit_test(only_on_released_is_told_of_a_term_that_had_nobody_to_tell),
        cmocka_unit_test(callbacks_that_stop_others_do_not_use_up_the_threads),
        cmocka_unit_test(a_callback_that_waits_in_another_client_is_replaced),
        cmocka_unit_test(on_notify_tells_the_changes_between_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
