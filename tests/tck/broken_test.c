/*
 * broken_test.c - the kit can fail: each way in which a backend can be wrong is caught by the cases
 * that are there for it, and the same backend without the fault passes them.
 */
#include "broken.h"
#include "kit.h"

static struct kit_result run_broken(enum broken_how how, const char *only)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    broken_choose(how);
    options.url = "memory:broken";
    options.backend = &broken_backend;
    options.only = only;
    options.contend_ms = 3000;
    return kit_run(&options);
}

static void assert_caught(enum broken_how how, const char *only)
{
    struct kit_result result = run_broken(how, only);

    if (result.code != SIMBA_ESTORE)
        fail_msg("%s did not catch fault %d: it returned %d", only, (int)how, result.code);
    assert_int_equal(result.failed, 1);
    assert_int_equal(result.passed, 0);
    assert_true(result.failure[0] != '\0');
}

static void assert_passes(const char *only)
{
    struct kit_result result = run_broken(BROKEN_NOT, only);

    kit_assert_passed(&result, 1);
}

/* The twin of all tests below. */
static void without_a_fault_the_same_backend_passes(void **state)
{
    assert_passes("start");
    assert_passes("restart");
    assert_passes("guard");
    assert_passes("contract");
    assert_passes("fence_grows");
    assert_passes("equal_ids");
    assert_passes("self_fence");
    assert_passes("late_reply");
    assert_passes("multi_contend");
    assert_passes("lock_timeout");
    assert_passes("handover_order");
    assert_passes("schedule");
    assert_passes("properties");
    assert_passes("semaphore");
    assert_passes("set");
}

static void an_acquire_that_always_grants_is_caught(void **state)
{
    assert_caught(BROKEN_EVERYBODY_OWNS, "contract");
    assert_caught(BROKEN_EVERYBODY_OWNS, "guard");
    assert_caught(BROKEN_EVERYBODY_OWNS, "multi_contend");
    assert_caught(BROKEN_EVERYBODY_OWNS, "lock_timeout");
    assert_caught(BROKEN_EVERYBODY_OWNS, "handover_order");
    assert_caught(BROKEN_EVERYBODY_OWNS, "schedule");
    assert_caught(BROKEN_EVERYBODY_OWNS, "semaphore");
    assert_caught(BROKEN_EVERYBODY_OWNS, "set");
}

static void a_guard_that_makes_an_owner_is_caught(void **state)
{
    assert_caught(BROKEN_GUARD_CREATES, "contract");
}

static void a_revision_that_does_not_grow_is_caught(void **state)
{
    assert_caught(BROKEN_REVISION_STANDS, "contract");
    assert_caught(BROKEN_REVISION_STANDS, "restart");
    assert_caught(BROKEN_REVISION_STANDS, "fence_grows");
}

/* A term without a token is no term: the library ends neither itself nor its application over
 * it. */
static void an_owner_without_a_revision_is_caught(void **state)
{
    assert_caught(BROKEN_NO_REVISION, "contract");
    assert_caught(BROKEN_NO_REVISION, "start");
}

static void terms_of_one_id_that_are_alike_are_caught(void **state)
{
    assert_caught(BROKEN_TERMS_ALIKE, "equal_ids");
}

static void a_release_that_does_nothing_is_caught(void **state)
{
    assert_caught(BROKEN_RELEASE_DOES_NOTHING, "contract");
    assert_caught(BROKEN_RELEASE_DOES_NOTHING, "start");
    assert_caught(BROKEN_RELEASE_DOES_NOTHING, "late_reply");
}

static void a_release_that_ignores_the_revision_is_caught(void **state)
{
    assert_caught(BROKEN_RELEASE_OF_ANY, "contract");
    assert_caught(BROKEN_RELEASE_NEVER_MISSES, "contract");
}

static void a_lease_that_never_ends_is_caught(void **state)
{
    assert_caught(BROKEN_LEASE_NEVER_ENDS, "contract");
    assert_caught(BROKEN_LEASE_NEVER_ENDS, "self_fence");
}

static void a_store_that_lets_others_in_too_early_is_caught(void **state)
{
    assert_caught(BROKEN_NO_TRANSITION, "contract");
    assert_caught(BROKEN_NO_TRANSITION, "self_fence");
    assert_caught(BROKEN_NO_TRANSITION, "multi_contend");
}

static void an_answer_that_promises_too_much_time_is_caught(void **state)
{
    assert_caught(BROKEN_ANSWERS_TWICE_AS_MUCH, "contract");
    assert_caught(BROKEN_ANSWERS_TWICE_AS_MUCH, "self_fence");
}

static void wrong_properties_are_caught(void **state)
{
    assert_caught(BROKEN_PROPERTY_OF_ANY, "properties");
    assert_caught(BROKEN_PROPERTY_FORGETS, "properties");
    assert_caught(BROKEN_PROPERTY_CLOCK_STANDS, "properties");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_fault_the_same_backend_passes),
        cmocka_unit_test(an_acquire_that_always_grants_is_caught),
        cmocka_unit_test(a_guard_that_makes_an_owner_is_caught),
        cmocka_unit_test(a_revision_that_does_not_grow_is_caught),
        cmocka_unit_test(an_owner_without_a_revision_is_caught),
        cmocka_unit_test(terms_of_one_id_that_are_alike_are_caught),
        cmocka_unit_test(a_release_that_does_nothing_is_caught),
        cmocka_unit_test(a_release_that_ignores_the_revision_is_caught),
        cmocka_unit_test(a_lease_that_never_ends_is_caught),
        cmocka_unit_test(a_store_that_lets_others_in_too_early_is_caught),
        cmocka_unit_test(an_answer_that_promises_too_much_time_is_caught),
        cmocka_unit_test(wrong_properties_are_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
