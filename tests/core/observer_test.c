/*
 * The machine of somebody who only looks: when it looks, and what it calls a change.
 */
#include "core/observer.h"
#include "test.h"

#define NOW INT64_C(1000000)
#define POLL 1000
#define STOP_TIMEOUT 5000

struct watch {
    struct sb_timing timing;
    struct sb_observer observer;
    struct sb_step step;
    int64_t now_ms;
    uint32_t generation;
};

static void init(struct watch *w)
{
    *w = (struct watch){
        .timing = {.ttl_ms = 1000, .transition_ms = 600, .stop_timeout_ms = STOP_TIMEOUT},
        .now_ms = NOW,
    };
    sb_observer_init(&w->observer, &w->timing, POLL, 7);
}

static int feed(struct watch *w, struct sb_event event)
{
    int code;

    event.now_ms = w->now_ms;
    code = sb_observer_step(&w->observer, &event, &w->step);
    assert_true(w->step.request.op == SIMBA_OP_NONE || w->step.request.op == SIMBA_OP_READ);
    if (w->step.request.op == SIMBA_OP_READ)
        w->generation = w->step.request.generation;
    return code;
}

static int event_of(struct watch *w, enum sb_event_type type)
{
    return feed(w, (struct sb_event){.type = type});
}

static void tick_at(struct watch *w, int64_t at_ms)
{
    w->now_ms = at_ms;
    event_of(w, SB_EVENT_TICK);
}

/* "" stands for nobody. */
static void answer_term(struct watch *w, const char *owner, int64_t transition_left_ms,
                        uint64_t fence)
{
    feed(w, (struct sb_event){
                .type = SB_EVENT_REPLY,
                .generation = w->generation,
                .op = SIMBA_OP_READ,
                .answer = owner[0] != '\0' ? SB_ANSWER_OTHER : SB_ANSWER_NOBODY,
                .owner = owner,
                .ttl_left_ms = transition_left_ms - 600,
                .transition_left_ms = transition_left_ms,
                .revision = fence,
                .fence = fence,
            });
}

static void answer(struct watch *w, const char *owner, int64_t transition_left_ms)
{
    answer_term(w, owner, transition_left_ms, 9);
}

static void fail_answer(struct watch *w)
{
    feed(w, (struct sb_event){.type = SB_EVENT_REPLY,
                              .generation = w->generation,
                              .op = SIMBA_OP_READ,
                              .answer = SB_ANSWER_FAILED,
                              .code = SIMBA_EUNAVAILABLE});
}

static void returned(struct watch *w)
{
    feed(w, (struct sb_event){.type = SB_EVENT_RETURNED, .returned = 1});
}

static void start(struct watch *w)
{
    init(w);
    assert_int_equal(event_of(w, SB_EVENT_START), SIMBA_OK);
    assert_int_equal(w->step.request.op, SIMBA_OP_READ);
}

static void it_looks_at_once_and_then_runs(void **state)
{
    struct watch w;

    start(&w);
    assert_int_equal(w.observer.status, SIMBA_STARTING);
    answer(&w, "", 0);
    assert_int_equal(w.observer.status, SIMBA_RUNNING);
    assert_false(w.step.changed);
    assert_int_equal(w.step.deadline_ms, NOW + POLL);
}

static void it_looks_some_times_soon_after_a_release(void **state)
{
    static const int64_t rests[] = {20, 80, 320, POLL, POLL};
    struct watch w;

    start(&w);
    answer(&w, "a", 1600);
    returned(&w);
    event_of(&w, SB_EVENT_CHANGED);
    for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        answer(&w, "", 0);
        assert_int_equal(w.step.changed, i == 0);
        assert_int_equal(w.step.deadline_ms - w.now_ms, rests[i]);
        tick_at(&w, w.step.deadline_ms);
        assert_int_equal(w.step.request.op, SIMBA_OP_READ);
    }
}

static void it_tells_every_change_of_owner_once(void **state)
{
    struct watch w;

    start(&w);
    answer(&w, "a", 10000);
    assert_true(w.step.changed);
    assert_string_equal(w.step.state.before.id, "");
    assert_string_equal(w.step.state.after.id, "a");
    assert_int_equal(w.step.state.after.fence, 9);
    assert_false(w.step.acquired || w.step.released);
    tick_at(&w, w.step.deadline_ms);
    answer(&w, "a", 10000);
    assert_false(w.step.changed);
    tick_at(&w, w.step.deadline_ms);
    answer(&w, "b", 10000);
    assert_true(w.step.changed);
    assert_string_equal(w.step.state.before.id, "a");
    tick_at(&w, w.step.deadline_ms);
    answer(&w, "", 0);
    assert_true(w.step.changed);
    assert_string_equal(w.step.state.after.id, "");
}

static void a_new_term_of_the_same_owner_is_a_change(void **state)
{
    struct watch w;

    start(&w);
    answer_term(&w, "a", 10000, 9);
    tick_at(&w, w.step.deadline_ms);
    answer_term(&w, "a", 10000, 10);
    assert_true(w.step.changed);
    assert_int_equal(w.step.state.before.fence, 9);
    assert_int_equal(w.step.state.after.fence, 10);
}

static void a_lease_that_is_over_belongs_to_nobody(void **state)
{
    struct watch w;

    start(&w);
    answer(&w, "a", -1);
    assert_false(w.step.changed);
    assert_string_equal(w.observer.owner.id, "");
}

static void it_looks_when_the_lease_it_knows_ends(void **state)
{
    struct watch w;

    start(&w);
    answer(&w, "a", 300);
    assert_int_equal(w.step.deadline_ms, NOW + 301);
}

static void a_session_is_looked_at_once_per_poll(void **state)
{
    struct watch w;

    start(&w);
    feed(&w, (struct sb_event){.type = SB_EVENT_REPLY,
                               .generation = w.generation,
                               .op = SIMBA_OP_READ,
                               .answer = SB_ANSWER_OTHER,
                               .owner = "a",
                               .ttl_left_ms = SIMBA_INFINITE,
                               .transition_left_ms = SIMBA_INFINITE});
    assert_int_equal(w.observer.owner.ttl_at_ms, SIMBA_INFINITE);
    assert_int_equal(w.step.deadline_ms, NOW + POLL);
}

static void news_make_it_look_at_once_also_during_a_look(void **state)
{
    struct watch w;

    start(&w);
    event_of(&w, SB_EVENT_WAKE); /* the answer may be older than the news */
    assert_int_equal(w.step.request.op, SIMBA_OP_NONE);
    answer(&w, "a", 10000);
    assert_int_equal(w.step.request.op, SIMBA_OP_READ);
    answer(&w, "a", 10000);
    assert_int_equal(w.step.request.op, SIMBA_OP_NONE);
    event_of(&w, SB_EVENT_SESSION_LOST);
    assert_int_equal(w.step.request.op, SIMBA_OP_READ);
}

static void a_failed_look_is_repeated_soon(void **state)
{
    struct watch w;

    start(&w);
    for (int i = 0; i < 20; i++) {
        fail_answer(&w);
        assert_int_equal(w.observer.status, SIMBA_STARTING);
        assert_in_range(w.step.deadline_ms - w.now_ms, POLL / 2, POLL);
        assert_int_equal(w.observer.last_code, SIMBA_EUNAVAILABLE);
        tick_at(&w, w.step.deadline_ms);
        assert_int_equal(w.step.request.op, SIMBA_OP_READ);
    }
}

static void a_stop_waits_for_the_callback(void **state)
{
    struct watch w;

    start(&w);
    answer(&w, "a", 10000);
    event_of(&w, SB_EVENT_STOP);
    assert_false(w.step.stopped);
    assert_int_equal(w.step.deadline_ms, NOW + STOP_TIMEOUT);
    returned(&w);
    assert_true(w.step.stopped);
    assert_int_equal(w.step.stop_code, SIMBA_OK);
}

static void a_stop_is_given_up_when_the_callback_does_not_return(void **state)
{
    struct watch w;

    start(&w);
    answer(&w, "a", 10000);
    event_of(&w, SB_EVENT_STOP);
    tick_at(&w, NOW + STOP_TIMEOUT - 1);
    assert_false(w.step.stopped);
    tick_at(&w, NOW + STOP_TIMEOUT);
    assert_true(w.step.stopped);
    assert_int_equal(w.step.stop_code, SIMBA_ETIMEDOUT);
}

static void an_answer_of_an_older_generation_is_dropped(void **state)
{
    struct watch w;
    uint32_t old;

    start(&w);
    old = w.generation;
    event_of(&w, SB_EVENT_STOP);
    assert_true(w.step.stopped);
    answer(&w, "a", 10000);
    assert_false(w.step.changed);
    event_of(&w, SB_EVENT_START);
    w.generation = old;
    answer(&w, "a", 10000);
    assert_false(w.step.changed);
    assert_int_equal(w.observer.status, SIMBA_STARTING);
}

static void start_and_stop_in_the_wrong_order_change_nothing(void **state)
{
    struct watch w;

    init(&w);
    assert_int_equal(event_of(&w, SB_EVENT_STOP), SIMBA_ESTATE);
    assert_int_equal(w.step.deadline_ms, SIMBA_INFINITE);
    start(&w);
    assert_int_equal(event_of(&w, SB_EVENT_START), SIMBA_ESTATE);
    assert_int_equal(w.observer.status, SIMBA_STARTING);
}

static void news_for_a_stopped_observer_mean_nothing(void **state)
{
    struct watch w;

    init(&w);
    event_of(&w, SB_EVENT_WAKE);
    assert_int_equal(w.step.request.op, SIMBA_OP_NONE);
    assert_int_equal(w.step.deadline_ms, SIMBA_INFINITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_looks_at_once_and_then_runs),
        cmocka_unit_test(it_looks_some_times_soon_after_a_release),
        cmocka_unit_test(it_tells_every_change_of_owner_once),
        cmocka_unit_test(a_new_term_of_the_same_owner_is_a_change),
        cmocka_unit_test(a_lease_that_is_over_belongs_to_nobody),
        cmocka_unit_test(it_looks_when_the_lease_it_knows_ends),
        cmocka_unit_test(a_session_is_looked_at_once_per_poll),
        cmocka_unit_test(news_make_it_look_at_once_also_during_a_look),
        cmocka_unit_test(a_failed_look_is_repeated_soon),
        cmocka_unit_test(a_stop_waits_for_the_callback),
        cmocka_unit_test(a_stop_is_given_up_when_the_callback_does_not_return),
        cmocka_unit_test(an_answer_of_an_older_generation_is_dropped),
        cmocka_unit_test(start_and_stop_in_the_wrong_order_change_nothing),
        cmocka_unit_test(news_for_a_stopped_observer_mean_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
