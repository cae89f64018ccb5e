/*
 * Owner and state, at the exact instants where an answer turns.
 */
#include "test.h"

#include <simba/simba.h>

#define NOW 1000

static struct simba_owner make_owner(const char *id, int64_t ttl_at_ms, int64_t transition_at_ms)
{
    struct simba_owner owner = SIMBA_OWNER_NONE;

    snprintf(owner.id, sizeof(owner.id), "%s", id);
    owner.ttl_at_ms = ttl_at_ms;
    owner.transition_at_ms = transition_at_ms;
    return owner;
}

static void the_ttl_is_over_at_its_instant(void **state)
{
    struct simba_owner owner = make_owner("a", NOW, 2 * NOW);

    assert_true(simba_owner_is_in_ttl(&owner, NOW - 1));
    assert_false(simba_owner_is_in_ttl(&owner, NOW));
    assert_false(simba_owner_is_in_ttl(&owner, NOW + 1));
}

static void the_transition_includes_its_instant(void **state)
{
    struct simba_owner owner = make_owner("a", 0, NOW);

    assert_true(simba_owner_is_in_transition(&owner, NOW - 1));
    assert_true(simba_owner_is_in_transition(&owner, NOW));
    assert_false(simba_owner_is_in_transition(&owner, NOW + 1));
    assert_true(simba_owner_has_owner(&owner, NOW));
    assert_false(simba_owner_has_owner(&owner, NOW + 1));
}

static void the_whole_lease_has_an_owner(void **state)
{
    struct simba_owner owner = make_owner("a", NOW, 2 * NOW);

    assert_true(simba_owner_has_owner(&owner, 0));
    assert_true(simba_owner_has_owner(&owner, NOW));
    assert_true(simba_owner_is_in_transition(&owner, 0));
}

static void nobody_owns_nothing_at_any_time(void **state)
{
    struct simba_owner none = SIMBA_OWNER_NONE;
    struct simba_owner nameless = make_owner("", 2 * NOW, 3 * NOW);

    assert_false(simba_owner_is_in_ttl(&none, 0));
    assert_false(simba_owner_has_owner(&none, 0));
    assert_false(simba_owner_has_owner(&none, NOW));
    assert_false(simba_owner_has_owner(&nameless, NOW));
    assert_false(simba_owner_is_in_transition(&none, 1));
}

static void an_owner_is_known_by_its_whole_id(void **state)
{
    struct simba_owner owner = make_owner("ab", NOW, NOW);
    struct simba_owner none = SIMBA_OWNER_NONE;

    assert_true(simba_owner_is_owner(&owner, "ab"));
    assert_false(simba_owner_is_owner(&owner, "a"));
    assert_false(simba_owner_is_owner(&owner, "abc"));
    assert_false(simba_owner_is_owner(&owner, "AB"));
    assert_false(simba_owner_is_owner(&owner, NULL));
    assert_false(simba_owner_is_owner(&none, ""));
}

static void times_of_somebody_ask_for_both(void **state)
{
    struct simba_owner owner = make_owner("a", NOW, 2 * NOW);

    assert_true(simba_owner_is_in_ttl_of(&owner, "a", NOW - 1));
    assert_false(simba_owner_is_in_ttl_of(&owner, "a", NOW));
    assert_false(simba_owner_is_in_ttl_of(&owner, "b", NOW - 1));
    assert_true(simba_owner_is_in_transition_of(&owner, "a", 2 * NOW));
    assert_false(simba_owner_is_in_transition_of(&owner, "a", 2 * NOW + 1));
    assert_false(simba_owner_is_in_transition_of(&owner, "b", NOW));
}

static void a_session_never_ends_by_time(void **state)
{
    struct simba_owner owner = make_owner("a", SIMBA_INFINITE, SIMBA_INFINITE);

    assert_true(simba_owner_is_in_ttl(&owner, INT64_MAX - 1));
    assert_true(simba_owner_has_owner(&owner, INT64_MAX));
}

static void a_change_is_one_of_the_owner(void **state)
{
    struct simba_state same = {make_owner("a", 1, 2), make_owner("a", 3, 4)};
    struct simba_state other = {make_owner("a", 1, 2), make_owner("b", 1, 2)};
    struct simba_state none = SIMBA_STATE_NONE;

    assert_false(simba_state_is_changed(&same));
    assert_true(simba_state_is_changed(&other));
    assert_false(simba_state_is_changed(&none));
}

static void a_change_between_two_is_a_gain_and_a_loss(void **state)
{
    struct simba_state moved = {make_owner("a", 1, 2), make_owner("b", 3, 4)};

    assert_true(simba_state_is_acquired(&moved, "b"));
    assert_false(simba_state_is_acquired(&moved, "a"));
    assert_true(simba_state_is_released(&moved, "a"));
    assert_false(simba_state_is_released(&moved, "b"));
    assert_false(simba_state_is_acquired(&moved, "c"));
    assert_false(simba_state_is_released(&moved, "c"));
}

static void a_renewal_is_neither_gain_nor_loss(void **state)
{
    struct simba_state renewed = {make_owner("a", 1, 2), make_owner("a", 3, 4)};

    assert_false(simba_state_is_acquired(&renewed, "a"));
    assert_false(simba_state_is_released(&renewed, "a"));
    assert_true(simba_state_is_owner(&renewed, "a"));
}

static void gain_from_nobody_and_loss_to_nobody(void **state)
{
    struct simba_state gain = {SIMBA_OWNER_NONE, make_owner("a", NOW, 2 * NOW)};
    struct simba_state loss = {make_owner("a", NOW, 2 * NOW), SIMBA_OWNER_NONE};

    assert_true(simba_state_is_acquired(&gain, "a"));
    assert_false(simba_state_is_released(&gain, "a"));
    assert_false(simba_state_is_released(&gain, ""));
    assert_true(simba_state_is_released(&loss, "a"));
    assert_false(simba_state_is_acquired(&loss, ""));
    assert_false(simba_state_is_owner(&loss, "a"));
}

static void a_state_is_in_the_ttl_of_its_new_owner(void **state)
{
    struct simba_state moved = {make_owner("a", 9 * NOW, 9 * NOW), make_owner("b", NOW, 2 * NOW)};

    assert_true(simba_state_is_in_ttl(&moved, "b", NOW - 1));
    assert_false(simba_state_is_in_ttl(&moved, "b", NOW));
    assert_false(simba_state_is_in_ttl(&moved, "a", NOW - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ttl_is_over_at_its_instant),
        cmocka_unit_test(the_transition_includes_its_instant),
        cmocka_unit_test(the_whole_lease_has_an_owner),
        cmocka_unit_test(nobody_owns_nothing_at_any_time),
        cmocka_unit_test(an_owner_is_known_by_its_whole_id),
        cmocka_unit_test(times_of_somebody_ask_for_both),
        cmocka_unit_test(a_session_never_ends_by_time),
        cmocka_unit_test(a_change_is_one_of_the_owner),
        cmocka_unit_test(a_change_between_two_is_a_gain_and_a_loss),
        cmocka_unit_test(a_renewal_is_neither_gain_nor_loss),
        cmocka_unit_test(gain_from_nobody_and_loss_to_nobody),
        cmocka_unit_test(a_state_is_in_the_ttl_of_its_new_owner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
