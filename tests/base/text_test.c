/*
 * Capped strings and random numbers.
 */
#include "base/random.h"
#include "base/text.h"
#include "test.h"

static void a_text_grows_by_what_is_added(void **state)
{
    char data[32];
    struct sb_text text;

    sb_text_init(&text, data, sizeof(data));
    assert_string_equal(data, "");
    sb_text_add(&text, "%d-", 12);
    sb_text_add(&text, "%s", "ab");
    assert_string_equal(data, "12-ab");
    assert_int_equal(text.length, 5);
    assert_false(text.cut);
}

static void a_text_that_fills_its_memory_is_whole(void **state)
{
    char data[4];
    struct sb_text text;

    sb_text_init(&text, data, sizeof(data));
    sb_text_add(&text, "abc");
    assert_string_equal(data, "abc");
    assert_false(text.cut);
}

static void what_does_not_fit_is_cut_and_remembered(void **state)
{
    char data[4];
    struct sb_text text;

    sb_text_init(&text, data, sizeof(data));
    sb_text_add(&text, "ab");
    sb_text_add(&text, "cdef");
    assert_string_equal(data, "abc");
    assert_true(text.cut);
    sb_text_add(&text, "g");
    assert_string_equal(data, "abc");
    assert_int_equal(text.length, 3);
}

static void no_memory_is_left_alone(void **state)
{
    char guard = 'x';
    struct sb_text text;

    sb_text_init(&text, &guard, 0);
    sb_text_add(&text, "abc");
    assert_true(text.cut);
    assert_int_equal(guard, 'x');
    assert_false(sb_text_copy(&guard, 0, "abc"));
    assert_int_equal(guard, 'x');
}

static void a_copy_says_whether_it_is_whole(void **state)
{
    char data[4];

    assert_true(sb_text_copy(data, sizeof(data), "abc"));
    assert_string_equal(data, "abc");
    assert_false(sb_text_copy(data, sizeof(data), "abcd"));
    assert_string_equal(data, "abc");
    assert_true(sb_text_copy(data, sizeof(data), ""));
    assert_string_equal(data, "");
}

static void what_does_not_fit_loses_its_middle(void **state)
{
    char target[12];

    sb_text_fit(target, sizeof target, "hello world");
    assert_string_equal(target, "hello world");
    sb_text_fit(target, sizeof target, "hello, world");
    assert_string_equal(target, "hell...orld");
    sb_text_fit(target, sizeof target, "abc\xc3\xa9gh\xc3\xa9xyz"); /* no half of a character */
    assert_string_equal(target, "abc...xyz");
}

static void one_seed_gives_one_sequence(void **state)
{
    uint64_t a = 7;
    uint64_t b = 7;
    uint64_t zero = 0;

    for (int i = 0; i < 100; i++)
        assert_true(sb_random_next(&a) == sb_random_next(&b));
    /* The first number of splitmix64 from 0, as published. */
    assert_true(sb_random_next(&zero) == UINT64_C(0xe220a8397b1dcdaf));
}

static void seeds_differ(void **state)
{
    assert_true(sb_random_seed() != sb_random_seed());
}

static void numbers_stay_in_their_range(void **state)
{
    uint64_t random = 3;
    bool seen[5] = {false};

    for (int i = 0; i < 1000; i++) {
        int64_t number = sb_random_between(sb_random_next(&random), -2, 3);

        assert_true(number >= -2 && number < 3);
        seen[number + 2] = true;
    }
    for (size_t i = 0; i < TEST_COUNT(seen); i++)
        assert_true(seen[i]);
}

static void ranges_may_be_empty_or_all(void **state)
{
    assert_int_equal(sb_random_between(99, 5, 5), 5);
    assert_int_equal(sb_random_between(99, 5, 4), 5);
    assert_int_equal(sb_random_between(0, INT64_MIN, INT64_MAX), INT64_MIN);
    assert_int_equal(sb_random_between(UINT64_MAX - 1, INT64_MIN, INT64_MAX), INT64_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_grows_by_what_is_added),
        cmocka_unit_test(a_text_that_fills_its_memory_is_whole),
        cmocka_unit_test(what_does_not_fit_is_cut_and_remembered),
        cmocka_unit_test(no_memory_is_left_alone),
        cmocka_unit_test(a_copy_says_whether_it_is_whole),
        cmocka_unit_test(what_does_not_fit_loses_its_middle),
        cmocka_unit_test(one_seed_gives_one_sequence),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(numbers_stay_in_their_range),
        cmocka_unit_test(ranges_may_be_empty_or_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
