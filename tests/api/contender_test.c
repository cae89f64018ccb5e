/*
 * The contender: its lifecycle, its names and times, and what it tells about itself.
 */
#include "probe.h"

#include "tck/shim.h"

#include <sched.h>

/* ---- Creation -------------------------------------------------------------------------------- */

static void expect_refusal(simba_client *client, const struct simba_contender_options *options,
                           int code, const char *word)
{
    struct simba_error error = {0};
    simba_contender *contender = NULL;

    assert_int_equal(simba_contender_create(client, options, &contender, &error), code);
    assert_null(contender);
    probe_assert_names(error.text, word);
}

static void bad_options_are_refused_with_a_sentence(void **state)
{
    simba_client *client = probe_open("memory:options?" PROBE_LONG);
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

    expect_refusal(client, NULL, SIMBA_EMISUSE, "SIMBA_CONTENDER_OPTIONS_INIT");
    expect_refusal(client, &options, SIMBA_EINVAL, "mutex");
    options.mutex = " ";
    expect_refusal(client, &options, SIMBA_EINVAL, "mutex");
    options.mutex = "m";
    options.id = "a@@b";
    expect_refusal(client, &options, SIMBA_EINVAL, "a@@b");
    options.id = NULL;
    options.transition_ms = 5;
    expect_refusal(client, &options, SIMBA_EINVAL, "5ms");
    options.transition_ms = SIMBA_UNSET;
    options.ttl_ms = 0;
    expect_refusal(client, &options, SIMBA_EINVAL, "ttl");
    options.size += 8;
    expect_refusal(client, &options, SIMBA_EMISUSE, "SIMBA_CONTENDER_OPTIONS_INIT");
    probe_close(client); /* nothing of it was left open */
}

static void one_id_takes_part_once_per_mutex(void **state)
{
    simba_client *client = probe_open("memory:ids?" PROBE_LONG);
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct probe first = {0};
    struct probe elsewhere = {0};

    probe_create(&first, client, "m", "me");
    options.mutex = "m";
    options.id = "me";
    expect_refusal(client, &options, SIMBA_EEXISTS, "me");
    probe_create(&elsewhere, client, "n", "me");
    probe_end(&first);
    probe_end(&elsewhere);
    probe_close(client);
}

static void an_id_is_free_again_when_its_contender_is_closed(void **state)
{
    simba_client *client = probe_open("memory:ids?" PROBE_LONG);

    for (int i = 0; i < 200; i++) {
        struct probe p = {0};

        probe_create(&p, client, "m", "me");
        if (i % 2 == 0)
            probe_start(&p);
        probe_end(&p);
    }
    probe_close(client);
}

static void a_contender_may_have_a_lease_of_its_own(void **state)
{
    simba_client *client = probe_open("memory:lease?" PROBE_LONG);
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct probe p = {0};
    int64_t left;

    options.mutex = "m";
    options.ttl_ms = 2000;
    options.transition_ms = 3000;
    assert_int_equal(simba_contender_create(client, &options, &p.contender, NULL), SIMBA_OK);
    probe_start(&p);
    probe_wait_owner(&p);
    left = simba_contender_deadline_ms(p.contender) - simba_now_ms();
    assert_in_range(left, 1, 5000);
    probe_end(&p);
    probe_close(client);
}

/* ---- Lifecycle ------------------------------------------------------------------------------- */

static void the_wrong_order_is_an_error_that_names_both_states(void **state)
{
    simba_client *client = probe_open("memory:order?" PROBE_LONG);
    struct simba_error error = {0};
    struct probe p = {0};

    probe_create(&p, client, "m", NULL);
    assert_int_equal(simba_contender_stop(p.contender, &error), SIMBA_ESTATE);
    probe_assert_names(error.text, "INITIAL");
    probe_assert_names(error.text, "RUNNING");
    probe_start(&p);
    probe_wait_owner(&p);
    assert_int_equal(simba_contender_start(p.contender, &error), SIMBA_ESTATE);
    probe_assert_names(error.text, "RUNNING");
    probe_assert_names(error.text, "INITIAL");
    assert_true(simba_contender_is_owner(p.contender)); /* nothing has changed */
    probe_stop(&p);
    assert_int_equal(simba_contender_status(p.contender), SIMBA_INITIAL);
    assert_int_equal(simba_contender_stop(p.contender, &error), SIMBA_ESTATE);
    probe_end(&p);
    probe_close(client);
}

static void it_can_be_started_again_and_every_term_has_a_larger_token(void **state)
{
    simba_client *client = probe_open("memory:restart?" PROBE_LONG);
    struct probe p = {0};
    uint64_t fence = 0;

    probe_create(&p, client, "m", NULL);
    for (unsigned i = 1; i <= 50; i++) {
        probe_start(&p);
        probe_wait_owner(&p);
        assert_true(simba_contender_fence(p.contender) > fence);
        fence = simba_contender_fence(p.contender);
        probe_wait_count(&p.acquired, i);
        probe_stop(&p);
        assert_int_equal(atomic_load(&p.released), i);
        assert_int_equal(atomic_load(&p.running), 0);
        assert_false(simba_contender_is_owner(p.contender));
        assert_int_equal(simba_contender_fence(p.contender), 0);
    }
    assert_true(probe_is_free(client, "m"));
    probe_end(&p);
    probe_close(client);
}

static void a_store_that_does_not_answer_keeps_it_starting(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    const char *url = "memory:starting?" PROBE_LONG;
    struct simba_error error = {0};
    struct sb_shim *shim;
    simba_client *client;
    struct probe p = {0};

    assert_int_equal(sb_shim_create(url, NULL, &shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(shim, url, &options, &client, NULL), SIMBA_OK);
    sb_shim_refuse(shim, SB_SHIM_ALL, SIMBA_EUNAVAILABLE);
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    while (simba_contender_last_error(p.contender, &error) == SIMBA_OK)
        test_pause_ms(1);
    assert_int_equal(error.code, SIMBA_EUNAVAILABLE);
    probe_assert_names(error.text, "refused");
    assert_int_equal(simba_contender_status(p.contender), SIMBA_STARTING);
    sb_shim_let_go(shim);
    probe_wait_owner(&p);
    assert_int_equal(simba_contender_status(p.contender), SIMBA_RUNNING);
    assert_int_equal(simba_contender_last_error(p.contender, &error), SIMBA_OK);
    probe_end(&p);
    probe_close(client);
    sb_shim_free(shim);
}

static void *stop_it(void *probe)
{
    struct probe *p = probe;

    return (void *)(intptr_t)simba_contender_stop(p->contender, NULL);
}

static bool has_held_reply(void *shim)
{
    return sb_shim_held_replies(shim) > 0;
}

static void a_grant_that_comes_in_during_the_stop_is_given_back(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    const char *url = "memory:late?" PROBE_LONG;
    struct sb_shim *shim;
    simba_client *client;
    struct probe p = {0};
    pthread_t stopper;
    void *code;

    assert_int_equal(sb_shim_create(url, NULL, &shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(shim, url, &options, &client, NULL), SIMBA_OK);
    sb_shim_hold_replies(shim, SB_SHIM_OP(SIMBA_OP_ACQUIRE));
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    assert_true(test_wait(has_held_reply, shim)); /* the store has granted it */
    assert_false(probe_is_free(client, "m"));
    pthread_create(&stopper, NULL, stop_it, &p);
    probe_wait_status(p.contender, SIMBA_STOPPING);
    sb_shim_let_go(shim);
    pthread_join(stopper, &code);
    assert_int_equal((intptr_t)code, SIMBA_OK);
    assert_int_equal(atomic_load(&p.acquired), 0);
    assert_true(probe_is_free(client, "m"));
    probe_end(&p);
    probe_close(client);
    sb_shim_free(shim);
}

struct tug {
    simba_contender *contender;
    atomic_uint stops;
    atomic_bool over;
};

static void *start_and_start(void *user)
{
    struct tug *tug = user;

    while (!atomic_load(&tug->over))
        if (simba_contender_start(tug->contender, NULL) != SIMBA_OK)
            sched_yield();
    return NULL;
}

static void *stop_and_stop(void *user)
{
    struct tug *tug = user;

    while (!atomic_load(&tug->over))
        if (simba_contender_stop(tug->contender, NULL) == SIMBA_OK)
            atomic_fetch_add(&tug->stops, 1);
        else
            sched_yield();
    return NULL;
}

static void threads_that_start_and_stop_at_once_do_no_harm(void **state)
{
    simba_client *client = probe_open("memory:tug?" PROBE_LONG);
    struct probe p = {0};
    struct tug tug = {0};
    pthread_t threads[4];

    probe_create(&p, client, "m", NULL);
    tug.contender = p.contender;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i < 2 ? start_and_start : stop_and_stop, &tug);
    probe_wait_count(&tug.stops, 500);
    atomic_store(&tug.over, true);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    probe_end(&p);
    assert_true(probe_is_free(client, "m"));
    probe_close(client);
}

/* ---- What it tells --------------------------------------------------------------------------- */

static void it_tells_who_owns_and_until_when(void **state)
{
    simba_client *client = probe_open("memory:tells?" PROBE_LONG);
    struct simba_state known = SIMBA_STATE_NONE;
    struct probe owner = {0};
    struct probe waiter = {0};

    probe_create(&owner, client, "m", "the-owner");
    probe_create(&waiter, client, "m", "the-waiter");
    assert_int_equal(simba_contender_deadline_ms(owner.contender), 0);
    probe_start(&owner);
    probe_wait_owner(&owner);
    assert_true(simba_contender_is_in_ttl(owner.contender));
    assert_in_range(simba_contender_deadline_ms(owner.contender) - simba_now_ms(), 1, 40000);
    probe_start(&waiter);
    probe_wait_count(&waiter.notified, 1);
    assert_false(simba_contender_is_owner(waiter.contender));
    assert_false(simba_contender_is_in_ttl(waiter.contender));
    assert_int_equal(simba_contender_fence(waiter.contender), 0);
    simba_contender_state(waiter.contender, &known);
    assert_string_equal(known.after.id, "the-owner");
    assert_string_equal(known.before.id, "");
    assert_int_equal(known.after.fence, simba_contender_fence(owner.contender));
    assert_string_equal(simba_contender_mutex(waiter.contender), "m");
    assert_string_equal(simba_contender_id(waiter.contender), "the-waiter");
    probe_end(&waiter);
    probe_end(&owner);
    probe_close(client);
}

static void a_stopped_owner_does_not_name_itself_any_more(void **state)
{
    simba_client *client = probe_open("memory:tells?" PROBE_LONG);
    struct simba_state known = SIMBA_STATE_NONE;
    struct probe p = {0};

    probe_create(&p, client, "m", "me");
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    probe_stop(&p);
    simba_contender_state(p.contender, &known);
    assert_string_equal(known.before.id, "me");
    assert_string_equal(known.after.id, "");
    probe_end(&p);
    probe_close(client);
}

static void assert_state(simba_contender *contender, const char *before, const char *after)
{
    struct simba_state known = SIMBA_STATE_NONE;

    simba_contender_state(contender, &known);
    assert_string_equal(known.before.id, before);
    assert_string_equal(known.after.id, after);
}

/* What the last on_notify was told. */
struct told {
    simba_contender *contender;
    struct simba_state state;
    atomic_uint notices;
    atomic_uint renewals;
    atomic_uint disagrees; /* on_renewed that did not find what it was told */
};

static void note_notice(void *user, const struct simba_state *state)
{
    struct told *told = user;

    told->state = *state;
    atomic_fetch_add(&told->notices, 1);
}

static void note_renewal(void *user, const struct simba_state *state)
{
    struct told *told = user;
    const char *id = simba_contender_id(told->contender);

    if (simba_state_is_changed(state) || !simba_state_is_owner(state, id) ||
        !simba_owner_is_in_ttl(&state->after, simba_now_ms()))
        atomic_fetch_add(&told->disagrees, 1);
    atomic_fetch_add(&told->renewals, 1);
}

static void make_told(struct told *told, simba_client *client, const char *id)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

    options.mutex = "m";
    options.id = id;
    options.on_notify = note_notice;
    options.user = told;
    assert_int_equal(simba_contender_create(client, &options, &told->contender, NULL), SIMBA_OK);
}

static void a_waiter_that_stops_forgets_the_owner_and_tells_so(void **state)
{
    simba_client *client = probe_open("memory:forget?" PROBE_LONG);
    struct told waiter = {0};
    struct probe owner = {0};

    probe_create(&owner, client, "m", "the-owner");
    probe_start(&owner);
    probe_wait_owner(&owner);
    make_told(&waiter, client, "the-waiter");
    assert_int_equal(simba_contender_start(waiter.contender, NULL), SIMBA_OK);
    probe_wait_count(&waiter.notices, 1);
    assert_state(waiter.contender, "", "the-owner");
    assert_int_equal(simba_contender_stop(waiter.contender, NULL), SIMBA_OK);
    assert_int_equal(atomic_load(&waiter.notices), 2);
    assert_string_equal(waiter.state.before.id, "the-owner");
    assert_string_equal(waiter.state.after.id, "");
    assert_state(waiter.contender, "the-owner", "");
    simba_contender_close(waiter.contender);
    probe_end(&owner);
    probe_close(client);
}

/* The client's initial delay keeps the second life from asking the store. */
static void a_start_begins_with_nobody(void **state)
{
    simba_client *client = probe_open("memory:begin?initial-delay=100ms&" PROBE_LONG);
    struct probe p = {0};

    probe_create(&p, client, "m", "me");
    probe_start(&p);
    probe_wait_count(&p.acquired, 1); /* a term that was not told leaves no change */
    assert_state(p.contender, "", "me");
    probe_stop(&p);
    assert_state(p.contender, "me", "");
    probe_start(&p);
    assert_state(p.contender, "", "");
    probe_stop(&p);
    assert_state(p.contender, "", "");
    probe_end(&p);
    probe_close(client);
}

static void a_renewal_leaves_a_state_without_a_change(void **state)
{
    simba_client *client = probe_open("memory:renewal?" PROBE_SHORT);
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    struct simba_state known = SIMBA_STATE_NONE;
    struct probe p = {0};

    probe_create(&p, client, "m", "me");
    probe_start(&p);
    probe_wait_owner(&p);
    do {
        test_pause_ms(5);
        assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
    } while (metrics.renewals == 0);
    simba_contender_state(p.contender, &known);
    assert_false(simba_state_is_acquired(&known, "me"));
    assert_true(simba_state_is_owner(&known, "me"));
    assert_int_equal(known.before.fence, known.after.fence);
    probe_end(&p);
    probe_close(client);
}

static void on_renewed_is_the_heartbeat_of_a_term(void **state)
{
    simba_client *client = probe_open("memory:heartbeat?" PROBE_SHORT);
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct told told = {0};
    unsigned renewals;

    options.mutex = "m";
    options.on_renewed = note_renewal;
    options.user = &told;
    assert_int_equal(simba_contender_create(client, &options, &told.contender, NULL), SIMBA_OK);
    assert_int_equal(simba_contender_start(told.contender, NULL), SIMBA_OK);
    probe_wait_count(&told.renewals, 3);
    assert_int_equal(simba_contender_stop(told.contender, NULL), SIMBA_OK);
    renewals = atomic_load(&told.renewals);
    assert_true(probe_is_free(client, "m"));
    assert_int_equal(atomic_load(&told.disagrees), 0);
    assert_int_equal(atomic_load(&told.renewals), renewals);
    simba_contender_close(told.contender);
    probe_close(client);
}

static void an_owner_that_cannot_renew_lets_go_by_itself_in_time(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    const char *url = "memory:fence?" PROBE_SHORT;
    struct sb_shim *shim;
    simba_client *client;
    simba_client *other = probe_open("memory:fence?" PROBE_SHORT);
    struct probe p = {0};
    struct probe next = {0};
    int64_t deadline;

    assert_int_equal(sb_shim_create(url, NULL, &shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(shim, url, &options, &client, NULL), SIMBA_OK);
    probe_create(&p, client, "m", NULL);
    probe_create(&next, other, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    sb_shim_hold_requests(shim, SB_SHIM_ALL);
    deadline = simba_contender_deadline_ms(p.contender);
    probe_start(&next);
    probe_wait_owner(&next);
    assert_false(simba_contender_is_owner(p.contender));
    assert_true(simba_now_ms() >= deadline);
    probe_wait_count(&p.released, 1);
    probe_wait_count(&next.acquired, 1);
    assert_true(atomic_load(&next.fence) > atomic_load(&p.fence));
    sb_shim_let_go(shim);
    probe_end(&p);
    probe_end(&next);
    probe_close(client);
    probe_close(other);
    sb_shim_free(shim);
}

static void a_contender_without_callbacks_competes_too(void **state)
{
    simba_client *client = probe_open("memory:bare?" PROBE_LONG);
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct probe p = {0};

    options.mutex = "m";
    assert_int_equal(simba_contender_create(client, &options, &p.contender, NULL), SIMBA_OK);
    probe_start(&p);
    probe_wait_owner(&p);
    probe_stop(&p);
    assert_true(probe_is_free(client, "m"));
    probe_end(&p);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_options_are_refused_with_a_sentence),
        cmocka_unit_test(one_id_takes_part_once_per_mutex),
        cmocka_unit_test(an_id_is_free_again_when_its_contender_is_closed),
        cmocka_unit_test(a_contender_may_have_a_lease_of_its_own),
        cmocka_unit_test(the_wrong_order_is_an_error_that_names_both_states),
        cmocka_unit_test(it_can_be_started_again_and_every_term_has_a_larger_token),
        cmocka_unit_test(a_store_that_does_not_answer_keeps_it_starting),
        cmocka_unit_test(a_grant_that_comes_in_during_the_stop_is_given_back),
        cmocka_unit_test(threads_that_start_and_stop_at_once_do_no_harm),
        cmocka_unit_test(it_tells_who_owns_and_until_when),
        cmocka_unit_test(a_stopped_owner_does_not_name_itself_any_more),
        cmocka_unit_test(a_waiter_that_stops_forgets_the_owner_and_tells_so),
        cmocka_unit_test(a_start_begins_with_nobody),
        cmocka_unit_test(a_renewal_leaves_a_state_without_a_change),
        cmocka_unit_test(on_renewed_is_the_heartbeat_of_a_term),
        cmocka_unit_test(an_owner_that_cannot_renew_lets_go_by_itself_in_time),
        cmocka_unit_test(a_contender_without_callbacks_competes_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
