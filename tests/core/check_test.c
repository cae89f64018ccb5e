/*
 * Broken rules end the process, also where the core was compiled without assertions: these sources
 * are built as a release is, with NDEBUG.
 */
#include "base/check.h"
#include "base/random.h"
#include "core/observer.h"
#include "core/report.h"
#include "test.h"

#include <signal.h>
#include <sys/wait.h>

#ifndef NDEBUG
#error "this test shows what a release does"
#endif

static const struct sb_timing timing = {
    .ttl_ms = 1000, .transition_ms = 600, .margin_ms = 26, .stop_timeout_ms = 1000};

/* What the child says before it aborts. */
static void assert_aborts(void (*act)(void), const char *file, const char *rule)
{
    char said[1024];
    ssize_t length;
    int ends[2];
    int status;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        act();
        _exit(0);
    }
    close(ends[1]);
    length = read(ends[0], said, sizeof said - 1);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_true(length > 0);
    said[length] = '\0';
    assert_non_null(strstr(said, file));
    assert_non_null(strstr(said, rule));
}

static void tick_broken_machine(void)
{
    const struct sb_event tick = {.type = SB_EVENT_TICK, .now_ms = 1};
    struct sb_machine machine;
    struct sb_step step;

    sb_machine_init(&machine, &timing, 7);
    machine.held = true;
    sb_machine_step(&machine, &tick, &step);
}

static void a_machine_that_breaks_a_rule_aborts(void **state)
{
    assert_aborts(tick_broken_machine, "machine.c", "a stopped machine holds nothing");
}

static void return_too_much(void)
{
    const struct sb_event returned = {.type = SB_EVENT_RETURNED, .now_ms = 1, .returned = 1};
    struct sb_machine machine;
    struct sb_step step;

    sb_machine_init(&machine, &timing, 7);
    sb_machine_step(&machine, &returned, &step);
}

static void a_callback_that_nobody_asked_for_aborts(void **state)
{
    assert_aborts(return_too_much, "machine.c", "only callbacks that were asked for return");
}

static void tick_broken_observer(void)
{
    const struct sb_event tick = {.type = SB_EVENT_TICK, .now_ms = 1};
    struct sb_observer observer;
    struct sb_step step;

    sb_observer_init(&observer, &timing, 1000, 7);
    observer.in_flight = true;
    sb_observer_step(&observer, &tick, &step);
}

static void an_observer_that_breaks_a_rule_aborts(void **state)
{
    assert_aborts(tick_broken_observer, "observer.c", "a stopped observer waits for nothing");
}

static void keep_win_and_loss(void)
{
    struct sb_report report = {.pending = true, .released = true};
    const struct sb_step step = {.changed = true, .acquired = true};

    sb_report_keep(&report, &step);
}

static void a_report_of_a_win_and_a_loss_aborts(void **state)
{
    assert_aborts(keep_win_and_loss, "report.c", "a win or of a loss");
}

/* The twin of all tests above. */
static void whatever_keeps_the_rules_goes_on(void **state)
{
    const struct sb_event tick = {.type = SB_EVENT_TICK, .now_ms = 1};
    struct sb_machine machine;
    struct sb_step step;

    SB_CHECK(timing.ttl_ms > 0, "a lease lasts");
    sb_machine_init(&machine, &timing, 7);
    assert_int_equal(sb_machine_step(&machine, &tick, &step), SIMBA_OK);
}

/* ---- What stores say ------------------------------------------------------------------------- */

#define STEPS 300000

struct talk {
    struct sb_machine machine;
    struct sb_step asked; /* the last request and its generation */
    uint64_t random;
    int64_t now_ms;
};

static uint64_t draw(struct talk *t, uint64_t below)
{
    return sb_random_next(&t->random) % below;
}

/* Any answer that comes through the driver: an owner has a revision, and nothing else is
 * certain. */
static struct sb_event draw_reply(struct talk *t)
{
    struct sb_event e = {.type = SB_EVENT_REPLY,
                         .generation = t->asked.request.generation - (uint32_t)(draw(t, 8) == 0),
                         .op = t->asked.request.op,
                         .answer = (enum sb_answer)draw(t, 5),
                         .code = SIMBA_EUNAVAILABLE,
                         .named = t->asked.request.fence,
                         .sent_at_ms = t->now_ms - (int64_t)draw(t, 2000),
                         .ttl_left_ms = (int64_t)draw(t, 2000) - 500,
                         .transition_left_ms = (int64_t)draw(t, 3000) - 500,
                         .revision = 1 + draw(t, 8),
                         .revision_counts = draw(t, 2) == 0,
                         .fence = draw(t, 9),
                         .place = (int64_t)draw(t, 3),
                         .missed = draw(t, 2) == 0};

    e.owner = e.answer == SB_ANSWER_MINE ? "me" : "other";
    return e;
}

static struct sb_event draw_event(struct talk *t)
{
    static const enum sb_event_type types[] = {
        SB_EVENT_START, SB_EVENT_STOP,    SB_EVENT_TICK,     SB_EVENT_RETURNED,
        SB_EVENT_WAKE,  SB_EVENT_CHANGED, SB_EVENT_RETURNED, SB_EVENT_SESSION_LOST};
    struct sb_event e = {.type = types[draw(t, sizeof types / sizeof types[0])]};

    t->now_ms += (int64_t)draw(t, 400);
    if (t->asked.request.op != SIMBA_OP_NONE && draw(t, 2) == 0)
        e = draw_reply(t);
    else if (e.type == SB_EVENT_SESSION_LOST && draw(t, 20) > 0)
        e.type = SB_EVENT_TICK;
    if (t->machine.callbacks > 2)
        e.type = SB_EVENT_RETURNED; /* a driver merges what waits, so few are owed */
    e.now_ms = t->now_ms;
    e.returned = t->machine.callbacks;
    return e;
}

static void no_answer_of_a_store_breaks_a_rule(void **state)
{
    struct talk t = {.random = 7, .now_ms = 100000};
    unsigned wins = 0;

    sb_machine_init(&t.machine, &timing, 7);
    sb_machine_follow(&t.machine);
    for (int i = 0; i < STEPS; i++) {
        struct sb_event e = draw_event(&t);
        struct sb_step step;

        sb_machine_step(&t.machine, &e, &step);
        wins += step.acquired;
        if (e.type == SB_EVENT_REPLY)
            t.asked.request.op = SIMBA_OP_NONE;
        if (step.request.op != SIMBA_OP_NONE)
            t.asked = step;
    }
    assert_true(wins > STEPS / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_keeps_the_rules_goes_on),
        cmocka_unit_test(a_machine_that_breaks_a_rule_aborts),
        cmocka_unit_test(a_callback_that_nobody_asked_for_aborts),
        cmocka_unit_test(an_observer_that_breaks_a_rule_aborts),
        cmocka_unit_test(a_report_of_a_win_and_a_loss_aborts),
        cmocka_unit_test(no_answer_of_a_store_breaks_a_rule),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
