/*
 * The timers against a model: an array of what should be armed, sorted when the order matters.
 */
#include "base/random.h"
#include "runtime/timers.h"
#include "test.h"

#define COUNT 100000

static struct sb_timer timers[COUNT];
static struct sb_timers heap;

static void never(struct sb_timer *timer)
{
    (void)timer;
}

static int set_up(void **state)
{
    memset(timers, 0, sizeof timers);
    memset(&heap, 0, sizeof heap);
    for (size_t i = 0; i < COUNT; i++)
        timers[i].fire = never;
    return 0;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Takes all timers out of the heap; their times must be those of the armed ones, sorted. */
static void pop_all_and_compare(void)
{
    int64_t *times = test_malloc(COUNT * sizeof *times);
    size_t armed = 0;

    for (size_t i = 0; i < COUNT; i++)
        if (timers[i].armed)
            times[armed++] = timers[i].at_ms;
    qsort(times, armed, sizeof *times, by_time);
    for (size_t i = 0; i < armed; i++) {
        struct sb_timer *first = sb_timers_first(&heap);

        assert_non_null(first);
        assert_true(first->at_ms == times[i]);
        sb_timers_cancel(&heap, first);
        assert_false(first->armed);
    }
    assert_null(sb_timers_first(&heap));
    test_free(times);
}

static void an_empty_heap_has_no_first(void **state)
{
    assert_null(sb_timers_first(&heap));
    sb_timers_cancel(&heap, &timers[0]); /* harmless */
    assert_null(sb_timers_first(&heap));
}

static void the_earliest_is_first_and_moves_with_its_time(void **state)
{
    sb_timers_arm(&heap, &timers[0], 30);
    sb_timers_arm(&heap, &timers[1], 10);
    sb_timers_arm(&heap, &timers[2], 20);
    assert_ptr_equal(sb_timers_first(&heap), &timers[1]);
    sb_timers_arm(&heap, &timers[1], 40);
    assert_ptr_equal(sb_timers_first(&heap), &timers[2]);
    sb_timers_arm(&heap, &timers[0], 5);
    assert_ptr_equal(sb_timers_first(&heap), &timers[0]);
    sb_timers_cancel(&heap, &timers[0]);
    sb_timers_cancel(&heap, &timers[2]);
    assert_ptr_equal(sb_timers_first(&heap), &timers[1]);
}

static void a_hundred_thousand_come_out_in_order(void **state)
{
    uint64_t random = 1;

    for (size_t i = 0; i < COUNT; i++)
        sb_timers_arm(&heap, &timers[i], sb_random_between(sb_random_next(&random), 0, COUNT / 2));
    pop_all_and_compare();
}

static void sorted_input_comes_out_in_order_too(void **state)
{
    for (size_t i = 0; i < COUNT; i++)
        sb_timers_arm(&heap, &timers[i], (int64_t)i);
    pop_all_and_compare();
    for (size_t i = 0; i < COUNT; i++)
        sb_timers_arm(&heap, &timers[i], (int64_t)(COUNT - i));
    pop_all_and_compare();
}

static void arming_moving_cancelling_and_popping_mix(void **state)
{
    uint64_t random = 2;
    int64_t now = 0;

    for (size_t i = 0; i < 10 * COUNT; i++) {
        uint64_t number = sb_random_next(&random);
        struct sb_timer *timer = &timers[number % COUNT];

        switch (number >> 32 & 7) {
        case 0:
            sb_timers_cancel(&heap, timer);
            break;
        case 1:
            if ((timer = sb_timers_first(&heap)) != NULL) {
                now = timer->at_ms > now ? timer->at_ms : now;
                sb_timers_cancel(&heap, timer);
            }
            break;
        default:
            sb_timers_arm(&heap, timer, now + (int64_t)(number >> 40 & 0xffff));
        }
    }
    pop_all_and_compare();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_heap_has_no_first, set_up),
        cmocka_unit_test_setup(the_earliest_is_first_and_moves_with_its_time, set_up),
        cmocka_unit_test_setup(a_hundred_thousand_come_out_in_order, set_up),
        cmocka_unit_test_setup(sorted_input_comes_out_in_order_too, set_up),
        cmocka_unit_test_setup(arming_moving_cancelling_and_popping_mix, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
