/*
 * rules_test.c - the rules that the machine asserts after every step can be broken: each is shown
 * with a machine that nobody could have stepped there.
 */
#include "test.h"

#include "core/machine.h"

static const struct sb_timing timing = {.ttl_ms = 1000, .transition_ms = 500, .margin_ms = 25};

static struct sb_machine fresh(void)
{
    struct sb_machine m;

    sb_machine_init(&m, &timing, 1);
    return m;
}

/* One that owns with token 7, by the book. */
static struct sb_machine owner(void)
{
    struct sb_machine m = fresh();

    m.status = SIMBA_RUNNING;
    m.held = true;
    m.touched = true;
    m.claim = SB_CLAIM_MINE;
    m.fence = 7;
    m.revision = 7;
    m.owner.id[0] = 'a';
    return m;
}

static void assert_broken(const struct sb_machine *m, const char *word)
{
    const char *rule = sb_machine_broken_rule(m);

    assert_non_null(rule);
    assert_non_null(strstr(rule, word));
}

static void a_fresh_machine_and_an_owner_break_no_rule(void **state)
{
    struct sb_machine m = fresh();

    assert_null(sb_machine_broken_rule(&m));
    m = owner();
    assert_null(sb_machine_broken_rule(&m));
    m.claim = SB_CLAIM_UNKNOWN;
    m.revision = 6;
    assert_null(sb_machine_broken_rule(&m));
}

static void a_stopped_machine_holds_nothing(void **state)
{
    struct sb_machine m = owner();

    m.status = SIMBA_INITIAL;
    assert_broken(&m, "holds nothing");
    m.held = false;
    m.in_flight = SIMBA_OP_GUARD;
    assert_broken(&m, "waits for nothing");
}

static void nobody_owns_before_the_store_has_answered(void **state)
{
    struct sb_machine m = owner();

    m.status = SIMBA_STARTING;
    assert_broken(&m, "answered");
}

static void who_holds_has_a_record_and_a_token(void **state)
{
    struct sb_machine m = owner();

    m.claim = SB_CLAIM_NONE;
    assert_broken(&m, "record");
    m = owner();
    m.fence = 0;
    assert_broken(&m, "token");
    m = owner();
    m.revision = 6;
    assert_broken(&m, "revision");
    m = owner();
    m.held = false;
    m.revision = 0;
    assert_broken(&m, "has a revision");
    m = owner();
    m.touched = false;
    assert_broken(&m, "asked for");
}

static void only_a_waiting_contender_acquires(void **state)
{
    struct sb_machine m = owner();

    m.in_flight = SIMBA_OP_ACQUIRE;
    assert_broken(&m, "acquires");
    m.held = false;
    assert_null(sb_machine_broken_rule(&m));
    m.callbacks = 1;
    assert_null(sb_machine_broken_rule(&m)); /* it tells of others */
    m.tells_term = true;
    assert_broken(&m, "have returned");
    m.in_flight = SIMBA_OP_NONE;
    m.callbacks = 0;
    assert_broken(&m, "are owed");
    m.tells_term = false;
    m.in_flight = SIMBA_OP_ACQUIRE;
    m.rival = true;
    assert_broken(&m, "rival");
}

static void only_a_follower_that_waits_reads(void **state)
{
    struct sb_machine m = owner();

    m.reading = true;
    m.in_flight = SIMBA_OP_READ;
    assert_broken(&m, "follower");
    m.held = false;
    m.follows = true;
    assert_null(sb_machine_broken_rule(&m));
    m.held = true;
    m.in_flight = SIMBA_OP_NONE;
    m.rival = true;
    assert_broken(&m, "rival holds nothing");
}

static void who_holds_is_known_as_the_owner(void **state)
{
    struct sb_machine m = owner();

    m.owner.id[0] = '\0';
    assert_broken(&m, "known as the owner");
    m.status = SIMBA_STOPPING;
    assert_null(sb_machine_broken_rule(&m));
}

static void only_four_callbacks_are_owed(void **state)
{
    struct sb_machine m = owner();

    m.callbacks = 4;
    assert_null(sb_machine_broken_rule(&m));
    m.callbacks = 5;
    assert_broken(&m, "owed");
}

static void only_what_is_not_believed_in_is_given_back(void **state)
{
    struct sb_machine m = owner();

    m.give_back = true;
    assert_broken(&m, "given back");
    m.held = false;
    assert_null(sb_machine_broken_rule(&m));
    m.claim = SB_CLAIM_UNKNOWN;
    assert_broken(&m, "given back");
}

static void what_is_given_back_is_released_next(void **state)
{
    struct sb_machine m = owner();

    m.held = false;
    m.give_back = true;
    m.in_flight = SIMBA_OP_RELEASE;
    assert_null(sb_machine_broken_rule(&m));
    m.in_flight = SIMBA_OP_READ;
    assert_broken(&m, "before anything else");
    m.in_flight = SIMBA_OP_RELEASE;
    m.give_back = false;
    assert_broken(&m, "only what it gives back");
}

static void a_stop_releases_and_reads_when_it_may(void **state)
{
    struct sb_machine m = owner();

    m.status = SIMBA_STOPPING;
    m.in_flight = SIMBA_OP_READ;
    assert_broken(&m, "does not know its record");
    m.claim = SB_CLAIM_UNKNOWN;
    assert_null(sb_machine_broken_rule(&m));
    m.held = false;
    m.claim = SB_CLAIM_NONE;
    m.in_flight = SIMBA_OP_RELEASE;
    assert_null(sb_machine_broken_rule(&m));
    m.callbacks = 1;
    assert_broken(&m, "wait queue");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_machine_and_an_owner_break_no_rule),
        cmocka_unit_test(a_stopped_machine_holds_nothing),
        cmocka_unit_test(nobody_owns_before_the_store_has_answered),
        cmocka_unit_test(who_holds_has_a_record_and_a_token),
        cmocka_unit_test(only_a_waiting_contender_acquires),
        cmocka_unit_test(only_a_follower_that_waits_reads),
        cmocka_unit_test(who_holds_is_known_as_the_owner),
        cmocka_unit_test(only_four_callbacks_are_owed),
        cmocka_unit_test(only_what_is_not_believed_in_is_given_back),
        cmocka_unit_test(what_is_given_back_is_released_next),
        cmocka_unit_test(a_stop_releases_and_reads_when_it_may),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
