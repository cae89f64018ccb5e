/*
 * Options that are read by their table: what fills which member, and what a refusal says.
 */
#include "base/secret.h"
#include "base/url.h"
#include "base/url_options.h"
#include "test.h"

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

enum size { SMALL, LARGE };

struct coffee {
    char *bean;
    char *cup;
    struct sb_secret door_password;
    int64_t brew_ms;
    int64_t sugar;
    int64_t pause_ms[2];
    enum size size;
    bool milk;
    char *spoon;
};

#define AT(member) offsetof(struct coffee, member)
#define WITH_SPOON 2U

static const struct sb_url_option table[] = {
    SB_URL_OPTION(TEXT, "bean", NULL, AT(bean), 0, 0, 0, 0),
    SB_URL_OPTION(PATH, "cup", NULL, AT(cup), 0, 0, 0, 0),
    SB_URL_OPTION(TEXT, "door-password", NULL, AT(door_password), 0, 0, 0, 0),
    SB_URL_OPTION(DURATION, "brew", NULL, AT(brew_ms), 3000, 1, 60000, 0),
    SB_URL_OPTION(NUMBER, "sugar", NULL, AT(sugar), 2, 1, 0, 0),
    SB_URL_OPTION(RANGE, "pause", NULL, AT(pause_ms), 0, 0, 0, 0),
    SB_URL_OPTION(CHOICE, "size", "small large", AT(size), LARGE, 0, 0, 0),
    SB_URL_OPTION(SWITCH, "milk", "with without", AT(milk), true, 0, 0, 0),
    SB_URL_OPTION(TEXT, "spoon", NULL, AT(spoon), 0, 0, 0, WITH_SPOON),
    SB_URL_OPTIONS_END,
};

static const struct simba_backend_ops shop = {SB_URL_OPTIONS_OF(table)};

static int fill(const char *text, unsigned conditions, struct coffee *coffee,
                struct simba_error *error)
{
    char folder[PATH_MAX];
    simba_url *url = NULL;
    int code = sb_url_parse(text, &url, error);

    memset(coffee, 0, sizeof *coffee);
    if (code == SIMBA_OK)
        code = sb_url_make_absolute(url, &shop, sb_url_working_folder(folder), error);
    if (code == SIMBA_OK)
        code = sb_url_resolve(url, error);
    if (code == SIMBA_OK)
        code = sb_url_options_fill(table, conditions, url, coffee, error);
    if (code == SIMBA_OK)
        code = simba_url_check_params(url, error);
    sb_url_free(url);
    return code;
}

static void what_a_url_leaves_out_has_its_default(void **state)
{
    struct coffee coffee;

    assert_int_equal(fill("shop:", 0, &coffee, NULL), SIMBA_OK);
    assert_null(coffee.bean);
    assert_null(coffee.cup);
    assert_null(coffee.door_password.text);
    assert_int_equal(coffee.brew_ms, 3000);
    assert_int_equal(coffee.sugar, 2);
    assert_int_equal(coffee.size, LARGE);
    assert_true(coffee.milk);
    sb_url_options_clear(table, &coffee);
}

static void every_type_fills_its_member(void **state)
{
    char folder[PATH_MAX];
    struct coffee coffee;
    const char *cup;

    assert_int_equal(fill("shop:?bean=java&cup=a/b&door-password=open&brew=1m&sugar=1&size=small&"
                          "pause=-1s..2s&milk=without&spoon=tin",
                          WITH_SPOON, &coffee, NULL),
                     SIMBA_OK);
    assert_string_equal(coffee.bean, "java");
    cup = sb_url_working_folder(folder);
    assert_memory_equal(coffee.cup, cup, strlen(cup));
    assert_string_equal(coffee.cup + strlen(cup), "/a/b");
    assert_string_equal(coffee.door_password.text, "open");
    assert_int_equal(coffee.brew_ms, 60000);
    assert_int_equal(coffee.sugar, 1);
    assert_int_equal(coffee.pause_ms[0], -1000);
    assert_int_equal(coffee.pause_ms[1], 2000);
    assert_int_equal(coffee.size, SMALL);
    assert_false(coffee.milk);
    assert_string_equal(coffee.spoon, "tin");
    sb_url_options_clear(table, &coffee);
    assert_null(coffee.bean);
    assert_null(coffee.door_password.text);
}

static void names_that_are_no_files_stay_as_they_are(void **state)
{
    struct coffee coffee;

    assert_int_equal(fill("shop:?cup=@cup", 0, &coffee, NULL), SIMBA_OK);
    assert_string_equal(coffee.cup, "@cup");
    sb_url_options_clear(table, &coffee);
    assert_int_equal(fill("shop:?cup=/cup", 0, &coffee, NULL), SIMBA_OK);
    assert_string_equal(coffee.cup, "/cup");
    sb_url_options_clear(table, &coffee);
}

static void a_refusal_names_the_option_the_value_and_what_is_allowed(void **state)
{
    static const struct {
        const char *url;
        const char *sentence;
    } rows[] = {
        {"shop:?brew=0s", "brew is '0'; it must be between 1ms and 1m"},
        {"shop:?brew=61s", "brew is '1m1s'; it must be between 1ms and 1m"},
        {"shop:?brew=soon", "'soon' is not a duration"},
        {"shop:?sugar=0", "sugar is '0'; it must be a number from 1"},
        {"shop:?sugar=-1", "sugar is '-1'; it must be a number from 1"},
        {"shop:?sugar=99999999999999999999", "it must be a number from 1"},
        {"shop:?pause=1s", "pause is '1s'; it must be a range of two durations"},
        {"shop:?pause=1s..x", "pause is '1s..x'; it must be a range of two durations"},
        {"shop:?size=smal", "size is 'smal'; it must be small or large"},
        {"shop:?size=", "size is ''; it must be small or large"},
        {"shop:?milk=yes", "milk is 'yes'; it must be with or without"},
        {"shop:?spoon=tin", "has no option 'spoon'"},
        {"shop:?sguar=1", "did you mean 'sugar'?"},
    };
    struct simba_error error;
    struct coffee coffee;

    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        if (fill(rows[i].url, 0, &coffee, &error) == SIMBA_OK ||
            strstr(error.text, rows[i].sentence) == NULL)
            fail_msg("%s: %s", rows[i].url, error.text);
        sb_url_options_clear(table, &coffee);
    }
}

/* An outside store has rows of the public struct only, one of this library larger ones. */
static void a_backend_declares_rows_of_either_size(void **state)
{
    static const struct simba_backend_option plain[] = {
        {"beans", SIMBA_OPTION_NUMBER, NULL},
        {"cup", SIMBA_OPTION_PATH, NULL},
        {NULL, SIMBA_OPTION_TEXT, NULL},
    };
    const struct simba_backend_ops outside = {.abi = SIMBA_BACKEND_ABI, .options = plain};
    const struct simba_backend_ops own = {.abi = SIMBA_BACKEND_ABI, SB_URL_OPTIONS_OF(table)};
    const struct simba_backend_ops none = {.abi = SIMBA_BACKEND_ABI};

    assert_string_equal(sb_url_declared_option(&outside, 1)->name, "cup");
    assert_null(sb_url_declared_option(&outside, 2));
    assert_string_equal(sb_url_declared_option(&own, 1)->name, "cup");
    assert_string_equal(sb_url_declared_option(&own, 8)->name, "spoon");
    assert_null(sb_url_declared_option(&own, 9));
    assert_null(sb_url_declared_option(&none, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_url_leaves_out_has_its_default),
        cmocka_unit_test(every_type_fills_its_member),
        cmocka_unit_test(names_that_are_no_files_stay_as_they_are),
        cmocka_unit_test(a_refusal_names_the_option_the_value_and_what_is_allowed),
        cmocka_unit_test(a_backend_declares_rows_of_either_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
