/*
 * The table of handles: what a value finds, for how long, and when the last user is gone.
 */
#include "base/handle.h"
#include "lib/shortage.h"
#include "test.h"

#include <simba/simba.h>

#define MANY 1000 /* more than one chunk of slots */

static int use(const void *value, void **ret_object)
{
    return sb_handle_use(value, "a test", "a thing", ret_object, NULL);
}

static void a_value_finds_its_object_until_the_handle_is_retired(void **state)
{
    int thing;
    void *object = NULL;
    struct sb_handle *handle = sb_handle_create(&thing, NULL);
    void *value = sb_handle_value(handle);

    assert_non_null(value);
    assert_int_equal(use(value, &object), SIMBA_OK);
    assert_ptr_equal(object, &thing);
    assert_int_equal(sb_handle_pins(handle), 2);
    assert_true(sb_handle_is_valid(value));
    assert_ptr_equal(sb_handle_look(value), &handle->view);
    assert_false(sb_handle_retire(handle)); /* my pin is there */
    assert_false(sb_handle_is_valid(value));
    assert_null(sb_handle_ask(value));
    assert_int_equal(use(value, &object), SIMBA_ECLOSED);
    assert_true(sb_handle_unpin(handle));
    sb_handle_free(handle);
    assert_int_equal(use(value, &object), SIMBA_ECLOSED);
}

static void a_slot_that_is_used_again_has_another_value(void **state)
{
    int things[2];
    struct sb_handle *handle = sb_handle_create(&things[0], NULL);
    void *old = sb_handle_value(handle);
    struct sb_handle *next;

    assert_true(sb_handle_retire(handle));
    sb_handle_free(handle);
    next = sb_handle_create(&things[1], NULL);
    assert_ptr_equal(next, handle);
    assert_ptr_not_equal(sb_handle_value(next), old);
    assert_null(sb_handle_ask(old));
    assert_ptr_equal(sb_handle_ask(sb_handle_value(next)), &things[1]);
    assert_false(sb_handle_unpin(next));
    assert_true(sb_handle_retire(next));
    sb_handle_free(next);
}

static void one_close_begins_and_then_only_questions_do(void **state)
{
    int thing;
    void *object;
    struct sb_handle *handle = sb_handle_create(&thing, NULL);
    void *value = sb_handle_value(handle);

    assert_int_equal(use(value, &object), SIMBA_OK);
    assert_true(sb_handle_begin_close(handle));
    assert_false(sb_handle_begin_close(handle));
    assert_int_equal(use(value, &object), SIMBA_ECLOSED);
    assert_ptr_equal(sb_handle_ask(value), &thing);
    assert_false(sb_handle_unpin(handle));
    sb_handle_reopen(handle);
    assert_int_equal(use(value, &object), SIMBA_OK);
    assert_false(sb_handle_unpin(handle));
    assert_false(sb_handle_unpin(handle));
    assert_true(sb_handle_retire(handle));
    sb_handle_free(handle);
}

static void what_was_never_a_handle_finds_nothing(void **state)
{
    static const uintptr_t values[] = {1, 0xff, 0x100001, 0xdeadbeef, UINTPTR_MAX};
    void *object;

    assert_int_equal(use(NULL, &object), SIMBA_EMISUSE);
    assert_null(sb_handle_ask(NULL));
    assert_null(sb_handle_look(NULL));
    for (size_t i = 0; i < TEST_COUNT(values); i++) {
        assert_int_equal(use((void *)(values[i] << 24 | 7), &object), SIMBA_ECLOSED);
        assert_null(sb_handle_look((void *)(values[i] | 0x80000)));
    }
    assert_int_equal(use(&object, &object), SIMBA_ECLOSED);
}

static void many_handles_are_all_different(void **state)
{
    static struct sb_handle *handles[MANY];
    static int things[MANY];
    bool refused = false;

    for (int i = 0; i < MANY; i++) {
        test_is_short = i % 2 == 0;
        handles[i] = sb_handle_create(&things[i], NULL);
        test_is_short = false;
        refused = refused || handles[i] == NULL;
        if (handles[i] == NULL)
            handles[i] = sb_handle_create(&things[i], NULL);
    }
    assert_true(refused);
    for (int i = 0; i < MANY; i++) {
        assert_ptr_equal(sb_handle_ask(sb_handle_value(handles[i])), &things[i]);
        assert_false(sb_handle_unpin(handles[i]));
    }
    for (int i = 0; i < MANY; i++) {
        assert_true(sb_handle_retire(handles[i]));
        sb_handle_free(handles[i]);
    }
}

/* The error tells a table that is full from memory that is short. */
static void a_full_table_says_what_to_do(void **state)
{
    struct sb_handle **handles = calloc(SB_HANDLES_MAX, sizeof(struct sb_handle *));
    struct simba_error error;
    size_t count = 0;
    int thing;

    assert_non_null(handles);
    test_is_short = true;
    while ((handles[count] = sb_handle_create(&thing, &error)) != NULL)
        count++;
    assert_string_equal(error.text, "out of memory");
    test_is_short = false;
    while (count < SB_HANDLES_MAX) {
        handles[count] = sb_handle_create(&thing, &error);
        assert_non_null(handles[count]);
        count++;
    }
    assert_null(sb_handle_create(&thing, &error));
    assert_int_equal(error.code, SIMBA_ENOMEM);
    assert_non_null(strstr(error.text, "1048576 handles"));
    assert_true(sb_handle_retire(handles[0]));
    sb_handle_free(handles[0]);
    handles[0] = sb_handle_create(&thing, &error);
    assert_non_null(handles[0]);
    while (count-- > 0) {
        assert_true(sb_handle_retire(handles[count]));
        sb_handle_free(handles[count]);
    }
    free(handles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_finds_its_object_until_the_handle_is_retired),
        cmocka_unit_test(a_slot_that_is_used_again_has_another_value),
        cmocka_unit_test(one_close_begins_and_then_only_questions_do),
        cmocka_unit_test(what_was_never_a_handle_finds_nothing),
        cmocka_unit_test(many_handles_are_all_different),
        cmocka_unit_test(a_full_table_says_what_to_do),
    };

    if (!test_shortage_install())
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
