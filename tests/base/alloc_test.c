/*
 * The allocator hook. The order of the cases matters: a process can set the hook only before the
 * first allocation.
 */
#include "base/alloc.h"
#include "test.h"

#include <simba/simba.h>

struct counts {
    int allocated;
    int resized;
    int released;
    bool refuse;
};

static struct counts counts;

static void *counting_allocate(void *user, size_t size)
{
    struct counts *own = user;

    own->allocated++;
    return own->refuse ? NULL : malloc(size);
}

static void *counting_resize(void *user, void *memory, size_t size)
{
    struct counts *own = user;

    own->resized++;
    return own->refuse ? NULL : realloc(memory, size);
}

static void counting_release(void *user, void *memory)
{
    struct counts *own = user;

    own->released++;
    free(memory);
}

static const struct simba_allocator counting = {counting_allocate, counting_resize,
                                                counting_release, &counts};

static void a_hook_with_a_missing_function_is_refused(void **state)
{
    struct simba_allocator partial = counting;

    partial.resize = NULL;
    assert_int_equal(simba_set_allocator(&partial), SIMBA_EINVAL);
    assert_int_equal(simba_set_allocator(NULL), SIMBA_EINVAL);
}

static void the_hook_can_be_set_before_the_first_allocation(void **state)
{
    assert_int_equal(simba_set_allocator(&counting), SIMBA_OK);
}

static void all_memory_goes_through_the_hook(void **state)
{
    char *text;

    text = sb_strdup("abc");
    assert_string_equal(text, "abc");
    text = sb_realloc(text, 100);
    assert_string_equal(text, "abc");
    simba_free(text);
    assert_int_equal(counts.allocated, 1);
    assert_int_equal(counts.resized, 1);
    assert_int_equal(counts.released, 1);
}

static void the_hook_stays_after_the_first_allocation(void **state)
{
    assert_int_equal(simba_set_allocator(&counting), SIMBA_EMISUSE);
}

static void zeroed_memory_is_zero_and_zero_bytes_are_memory(void **state)
{
    unsigned char *zeros = sb_alloc_zero(64);
    void *none = sb_alloc(0);

    for (size_t i = 0; i < 64; i++)
        assert_int_equal(zeros[i], 0);
    assert_non_null(none);
    sb_free(zeros);
    sb_free(none);
}

static void short_memory_is_null_everywhere(void **state)
{
    char *kept = sb_strdup("kept");
    char *grown;

    counts.refuse = true;
    assert_null(sb_alloc(1));
    assert_null(sb_alloc_zero(1));
    assert_null(sb_strdup("x"));
    grown = sb_realloc(kept, 1000);
    counts.refuse = false;
    assert_null(grown);
    assert_string_equal(kept, "kept");
    sb_free(kept);
}

static void nothing_can_be_freed(void **state)
{
    int before = counts.released;

    sb_free(NULL);
    simba_free(NULL);
    assert_int_equal(counts.released, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hook_with_a_missing_function_is_refused),
        cmocka_unit_test(the_hook_can_be_set_before_the_first_allocation),
        cmocka_unit_test(all_memory_goes_through_the_hook),
        cmocka_unit_test(the_hook_stays_after_the_first_allocation),
        cmocka_unit_test(zeroed_memory_is_zero_and_zero_bytes_are_memory),
        cmocka_unit_test(short_memory_is_null_everywhere),
        cmocka_unit_test(nothing_can_be_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
