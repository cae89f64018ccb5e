/*
 * Error codes, the error struct, the log hook and the version.
 */
#include "base/error.h"
#include "test.h"

static void every_code_has_its_own_text_and_a_group(void **state)
{
    static const int codes[] = {
#define CODE(name, number, group, text) SIMBA_##name,
        SIMBA_ERROR_MAP(CODE)
#undef CODE
    };

    for (size_t i = 0; i < TEST_COUNT(codes); i++) {
        assert_true(codes[i] < 0);
        assert_int_not_equal(simba_error_group(codes[i]), SIMBA_GROUP_NONE);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(codes[i], codes[j]);
            assert_string_not_equal(simba_strerror(codes[i]), simba_strerror(codes[j]));
        }
    }
}

static void groups_say_what_to_do(void **state)
{
    assert_int_equal(simba_error_group(SIMBA_OK), SIMBA_GROUP_NONE);
    assert_int_equal(simba_error_group(SIMBA_ESTATE), SIMBA_GROUP_MISUSE);
    assert_int_equal(simba_error_group(SIMBA_ETIMEDOUT), SIMBA_GROUP_CONTENDED);
    assert_int_equal(simba_error_group(SIMBA_ELOST), SIMBA_GROUP_LOST);
    assert_int_equal(simba_error_group(SIMBA_EUNKNOWN), SIMBA_GROUP_UNKNOWN);
    assert_int_equal(simba_error_group(SIMBA_ESTORE), SIMBA_GROUP_UNAVAILABLE);
    assert_int_equal(simba_error_group(SIMBA_EDENIED), SIMBA_GROUP_DENIED);
    assert_int_equal(simba_error_group(SIMBA_EINVAL), SIMBA_GROUP_CONFIG);
    assert_int_equal(simba_error_group(SIMBA_ENOMEM), SIMBA_GROUP_NOMEM);
}

static void unknown_codes_have_a_text_too(void **state)
{
    assert_string_equal(simba_strerror(SIMBA_OK), "no error");
    assert_non_null(simba_strerror(-9999));
    assert_int_equal(simba_error_group(-9999), SIMBA_GROUP_MISUSE);
}

static void the_struct_receives_code_and_sentence(void **state)
{
    struct simba_error error = {0, 77, "old"};

    assert_int_equal(sb_error_set(&error, SIMBA_EINVAL, "bad %d", 5), SIMBA_EINVAL);
    assert_int_equal(error.code, SIMBA_EINVAL);
    assert_int_equal(error.backend_code, 0);
    assert_string_equal(error.text, "bad 5");
    assert_int_equal(sb_error_set_backend(&error, SIMBA_ESTORE, 13, "full"), SIMBA_ESTORE);
    assert_int_equal(error.backend_code, 13);
    assert_int_equal(sb_error_plain(&error, SIMBA_ENOMEM), SIMBA_ENOMEM);
    assert_string_equal(error.text, simba_strerror(SIMBA_ENOMEM));
}

static void nobody_needs_to_pass_a_struct(void **state)
{
    assert_int_equal(sb_error_set(NULL, SIMBA_EINVAL, "x"), SIMBA_EINVAL);
    assert_int_equal(sb_error_set_backend(NULL, SIMBA_ESTORE, 1, "x"), SIMBA_ESTORE);
    assert_int_equal(sb_error_plain(NULL, SIMBA_ENOMEM), SIMBA_ENOMEM);
}

static void an_error_can_wrap_itself(void **state)
{
    struct simba_error error;

    sb_error_set(&error, SIMBA_ESTORE, "inner");
    sb_error_set(&error, SIMBA_ESTORE, "outer: %s", error.text);
    assert_string_equal(error.text, "outer: inner");
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);

    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static void a_long_sentence_keeps_its_beginning_and_its_reason(void **state)
{
    static const size_t lengths[] = {480, 1000, 4096};
    struct simba_error error;
    char path[4097];

    for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
        memset(path, 'x', lengths[i]);
        path[lengths[i]] = '\0';
        sb_error_set(&error, SIMBA_EINVAL, "the file %s cannot be read: it is gone", path);
        assert_int_equal(strlen(error.text), sizeof(error.text) - 1);
        sb_error_set(&error, SIMBA_EINVAL, "cannot acquire 'm': %s", error.text);
        assert_int_equal(strlen(error.text), sizeof(error.text) - 1);
        assert_ptr_equal(strstr(error.text, "cannot acquire 'm': the file xxx"), error.text);
        assert_true(ends_with(error.text, "xxx cannot be read: it is gone"));
        assert_non_null(strstr(error.text, "x...x"));
    }
}

struct lines {
    int count;
    enum simba_log_level level;
    char last[600];
};

static void keep_line(void *user, enum simba_log_level level, const char *line)
{
    struct lines *lines = user;

    lines->count++;
    lines->level = level;
    snprintf(lines->last, sizeof(lines->last), "%s", line);
}

static void the_log_hook_gets_what_its_level_lets_through(void **state)
{
    struct lines lines = {0, SIMBA_LOG_NONE, ""};
    struct sb_log log = {keep_line, &lines, SIMBA_LOG_WARN};

    sb_log(&log, SIMBA_LOG_INFO, "no");
    sb_log(&log, SIMBA_LOG_NONE, "no");
    assert_int_equal(lines.count, 0);
    sb_log(&log, SIMBA_LOG_WARN, "lost %s", "m");
    assert_int_equal(lines.count, 1);
    assert_int_equal(lines.level, SIMBA_LOG_WARN);
    assert_string_equal(lines.last, "lost m");
    sb_log(&log, SIMBA_LOG_ERROR, "worse");
    assert_int_equal(lines.count, 2);
}

static void a_log_line_is_one_line(void **state)
{
    struct lines lines = {0, SIMBA_LOG_NONE, ""};
    struct sb_log log = {keep_line, &lines, SIMBA_LOG_DEBUG};

    sb_log(&log, SIMBA_LOG_INFO, "a\nforged\r\n");
    assert_string_equal(lines.last, "a forged  ");
}

static void without_a_hook_the_library_is_silent(void **state)
{
    struct sb_log log = {NULL, NULL, SIMBA_LOG_DEBUG};

    sb_log(&log, SIMBA_LOG_ERROR, "nobody hears");
    sb_log(NULL, SIMBA_LOG_ERROR, "nobody hears");
}

static void the_version_is_that_of_the_header(void **state)
{
    char text[32];

    snprintf(text, sizeof(text), "%d.%d.%d", SIMBA_VERSION_MAJOR, SIMBA_VERSION_MINOR,
             SIMBA_VERSION_PATCH);
    assert_string_equal(simba_version(), text);
    assert_string_equal(simba_version(), SIMBA_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_own_text_and_a_group),
        cmocka_unit_test(groups_say_what_to_do),
        cmocka_unit_test(unknown_codes_have_a_text_too),
        cmocka_unit_test(the_struct_receives_code_and_sentence),
        cmocka_unit_test(nobody_needs_to_pass_a_struct),
        cmocka_unit_test(an_error_can_wrap_itself),
        cmocka_unit_test(a_long_sentence_keeps_its_beginning_and_its_reason),
        cmocka_unit_test(the_log_hook_gets_what_its_level_lets_through),
        cmocka_unit_test(a_log_line_is_one_line),
        cmocka_unit_test(without_a_hook_the_library_is_silent),
        cmocka_unit_test(the_version_is_that_of_the_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
