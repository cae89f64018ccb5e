/*
 * hang_test.c - what must not happen to the kit itself: to hang, to take a store that does not
 * exclude for one that does, to run what nobody asked for.
 */
#include "broken.h"
#include "kit.h"

static void a_store_per_process_does_not_pass_as_shared(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    struct kit_result result;

    options.url = "memory:tck";
    options.processes = 3;
    options.contend_ms = 2000;
    options.only = "multi_process";
    result = kit_run(&options);
    assert_int_equal(result.code, SIMBA_ESTORE);
    assert_int_equal(result.failed, 1);
}

static void an_unknown_case_is_refused(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    struct kit_result result;

    options.url = "memory:tck";
    options.only = "no_such_case";
    result = kit_run(&options);
    assert_int_equal(result.code, SIMBA_EINVAL);
    options.only = "multi_process"; /* with one process there is no such thing */
    result = kit_run(&options);
    assert_int_equal(result.code, SIMBA_EINVAL);
}

static void options_that_were_not_initialised_are_misuse(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;

    assert_int_equal(simba_tck_run(NULL, NULL, NULL, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_tck_run(&options, NULL, NULL, NULL), SIMBA_EMISUSE); /* no URL */
    options.url = "memory:tck";
    options.only = "start";
    options.size = sizeof(size_t);
    assert_int_equal(simba_tck_run(&options, NULL, NULL, NULL), SIMBA_EMISUSE);
    options.size = sizeof options + 1;
    assert_int_equal(simba_tck_run(&options, NULL, NULL, NULL), SIMBA_EMISUSE);
    options.size = sizeof options;
    assert_int_equal(simba_tck_run(&options, NULL, NULL, NULL), SIMBA_OK);
}

static void a_store_that_cannot_be_used_is_no_failed_case(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    struct kit_result result;

    options.url = "nothing-like-that:";
    result = kit_run(&options);
    assert_int_not_equal(result.code, SIMBA_OK);
    assert_int_not_equal(result.code, SIMBA_ESTORE);
    assert_int_equal(result.failed, 0);
}

/* Last: what hangs stays behind. */
static void a_backend_that_never_answers_fails_the_case_in_time(void **state)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    struct kit_result result;

    broken_choose(BROKEN_SILENT);
    options.url = "memory:tck";
    options.backend = &broken_backend;
    options.only = "start";
    result = kit_run(&options);
    assert_int_equal(result.code, SIMBA_ESTORE);
    assert_int_equal(result.failed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_per_process_does_not_pass_as_shared),
        cmocka_unit_test(an_unknown_case_is_refused),
        cmocka_unit_test(options_that_were_not_initialised_are_misuse),
        cmocka_unit_test(a_store_that_cannot_be_used_is_no_failed_case),
        cmocka_unit_test(a_backend_that_never_answers_fails_the_case_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
