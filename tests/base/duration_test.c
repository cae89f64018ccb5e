/*
 * Durations: what is read, what is refused, what is written.
 */
#include "base/random.h"
#include "test.h"

#include <simba/simba.h>

static void durations_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"0", 0},
        {"-0", 0},
        {"0s", 0},
        {"250ms", 250},
        {"10s", 10000},
        {"1m30s", 90000},
        {"2h", 7200000},
        {"1d", 86400000},
        {"1d2h3m4s5ms", 93784005},
        {"1h5ms", 3600005},
        {"90m", 5400000},
        {"007s", 7000},
        {"-200ms", -200},
        {"-1m30s", -90000},
        {"9223372036854775807ms", INT64_MAX},
        {"-9223372036854775807ms", -INT64_MAX},
        {"106751991167d7h12m55s807ms", INT64_MAX},
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        int64_t ms = -1;

        assert_int_equal(simba_duration_parse(cases[i].text, &ms, NULL), SIMBA_OK);
        assert_int_equal(ms, cases[i].ms);
    }
}

static void durations_of_iso_8601_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"PT0S", 0},
        {"PT10S", 10000},
        {"PT1M30S", 90000},
        {"P1D", 86400000},
        {"P1DT2H3M4.005S", 93784005},
        {"PT0.25S", 250},
        {"PT1.123456789S", 1123},
        {"-PT0.2S", -200},
        {"PT9223372036854775.807S", INT64_MAX},
    };
    static const char *const refused[] = {
        "P",
        "PT",
        "P10S",
        "PT10",
        "PT10s",
        "pt10s",
        "P1M",
        "P1Y",
        "PT1S1M",
        "P1T5S",
        "PT1MS",
        "PT1M.5S",
        "PT1.5M",
        "PT1.S",
        "PT.5S",
        "P1DT",
        "PTT1S",
        "PT1D",
        "PT 1S",
        "PT1S ",
        "PT-1S",
        "P1W",
        "PT1,5S",
        "PT1.5S.5S",
        "PT9223372036854775.808S",
        "PT00000000000000000000000000000000000000000000000000000000000000000000000000000001S",
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        int64_t ms = -1;

        assert_int_equal(simba_duration_parse(cases[i].text, &ms, NULL), SIMBA_OK);
        assert_int_equal(ms, cases[i].ms);
    }
    for (size_t i = 0; i < TEST_COUNT(refused); i++) {
        int64_t ms = 4711;

        if (simba_duration_parse(refused[i], &ms, NULL) != SIMBA_EINVAL)
            fail_msg("%s was read as %lld ms", refused[i], (long long)ms);
        assert_int_equal(ms, 4711);
    }
}

static void a_number_alone_gets_a_hint(void **state)
{
    struct simba_error error;
    int64_t ms;

    assert_int_equal(simba_duration_parse("10", &ms, &error), SIMBA_EINVAL);
    assert_non_null(strstr(error.text, "has no unit"));
    assert_non_null(strstr(error.text, "10s"));
    assert_non_null(strstr(error.text, "10ms"));
}

static void anything_else_is_refused(void **state)
{
    static const char *const cases[] = {
        "",    "-",    "--1s",  "+1s", "1",    "10",   "s",    "ms",    "1s ",   " 1s",
        "1 s", "1.5s", "1S",    "1us", "1sec", "1mss", "1s1s", "30s1m", "1ms1s", "1h-5m",
        "1s-", "0x1s", "1e3ms", "1w",  "00",   "1m\n", "1s\t", "١s",
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct simba_error error;
        int64_t ms = 4711;

        assert_int_equal(simba_duration_parse(cases[i], &ms, &error), SIMBA_EINVAL);
        assert_int_equal(ms, 4711);
        assert_int_equal(error.code, SIMBA_EINVAL);
        assert_non_null(strstr(error.text, cases[i]));
    }
}

static void what_would_overflow_is_refused(void **state)
{
    static const char *const cases[] = {
        "9223372036854775808ms",      "-9223372036854775808ms",
        "9223372036854776s",          "106751991168d",
        "106751991167d7h12m55s808ms", "99999999999999999999999999999999ms",
        "18446744073709551617ms",     "9223372036854775807d",
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        int64_t ms = 4711;

        assert_int_equal(simba_duration_parse(cases[i], &ms, NULL), SIMBA_EINVAL);
        assert_int_equal(ms, 4711);
    }
}

static void a_missing_text_is_refused(void **state)
{
    int64_t ms;

    assert_int_equal(simba_duration_parse(NULL, &ms, NULL), SIMBA_EINVAL);
}

static void durations_are_written(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0"},
        {250, "250ms"},
        {1000, "1s"},
        {1500, "1s500ms"},
        {90000, "1m30s"},
        {7200000, "2h"},
        {86400000, "1d"},
        {-200, "-200ms"},
        {INT64_MAX, "106751991167d7h12m55s807ms"},
        {INT64_MIN, "-106751991167d7h12m55s808ms"},
    };

    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char buffer[32];

        assert_ptr_equal(simba_duration_format(cases[i].ms, buffer, sizeof(buffer)), buffer);
        assert_string_equal(buffer, cases[i].text);
    }
}

static void a_small_buffer_gets_what_fits(void **state)
{
    char buffer[4];

    simba_duration_format(90000, buffer, sizeof(buffer));
    assert_string_equal(buffer, "1m3");
}

static void what_is_written_reads_the_same(void **state)
{
    uint64_t random = 1;

    for (int i = 0; i < 100000; i++) {
        /* Numbers of all sizes, not only huge ones. */
        uint64_t number = sb_random_next(&random) >> (sb_random_next(&random) % 64);
        int64_t ms = (int64_t)number;
        int64_t again = 0;
        char buffer[32];

        if (ms == INT64_MIN)
            continue;
        simba_duration_format(ms, buffer, sizeof(buffer));
        assert_int_equal(simba_duration_parse(buffer, &again, NULL), SIMBA_OK);
        assert_int_equal(again, ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(durations_of_iso_8601_are_read),
        cmocka_unit_test(a_number_alone_gets_a_hint),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(what_would_overflow_is_refused),
        cmocka_unit_test(a_missing_text_is_refused),
        cmocka_unit_test(durations_are_written),
        cmocka_unit_test(a_small_buffer_gets_what_fits),
        cmocka_unit_test(what_is_written_reads_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
