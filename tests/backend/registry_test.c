/*
 * registry_test.c - which backend serves which scheme.
 */
#include "test.h"

#include <simba/backend.h>

static bool serves_toy(const char *scheme)
{
    return strcmp(scheme, "toy") == 0;
}

static bool serves_memory(const char *scheme)
{
    return strcmp(scheme, "memory") == 0;
}

static int open_toy(const struct simba_backend_config *config,
                    const struct simba_backend_host *host, simba_backend **ret_backend,
                    struct simba_error *error)
{
    (void)config;
    (void)host;
    (void)ret_backend;
    (void)error;
    return SIMBA_EUNSUPPORTED;
}

static void submit_toy(simba_backend *backend, struct simba_request *batch)
{
    (void)backend;
    (void)batch;
}

static void close_toy(simba_backend *backend, void (*closed)(void *argument), void *argument)
{
    (void)backend;
    closed(argument);
}

static struct simba_backend_ops toy_ops(const char *name, bool (*serves)(const char *scheme))
{
    struct simba_backend_ops ops = {.abi = SIMBA_BACKEND_ABI, .name = name, .serves = serves};

    ops.open = open_toy;
    ops.submit = submit_toy;
    ops.close = close_toy;
    return ops;
}

static void finds_the_built_in_backends_by_scheme(void **state)
{
    assert_string_equal(simba_backend_find("memory")->name, "memory");
#ifdef SIMBA_HAVE_SQLITE
    assert_string_equal(simba_backend_find("sqlite")->name, "sqlite");
#endif
    assert_null(simba_backend_find("nosuch"));
    assert_null(simba_backend_find(NULL));
}

static void finds_a_backend_once_it_is_registered(void **state)
{
    static struct simba_backend_ops ops;

    ops = toy_ops("toy", serves_toy);
    assert_null(simba_backend_find("toy"));
    assert_int_equal(simba_backend_register(&ops, NULL), SIMBA_OK);
    assert_ptr_equal(simba_backend_find("toy"), &ops);
    assert_int_equal(simba_backend_register(&ops, NULL), SIMBA_EEXISTS);
}

static void does_not_let_a_built_in_scheme_be_taken_over(void **state)
{
    static struct simba_backend_ops same_name;
    static struct simba_backend_ops same_scheme;

    same_name = toy_ops("memory", serves_toy);
    same_scheme = toy_ops("memory-of-mine", serves_memory);
    assert_int_equal(simba_backend_register(&same_name, NULL), SIMBA_EEXISTS);
    assert_int_equal(simba_backend_register(&same_scheme, NULL), SIMBA_OK);
    assert_string_equal(simba_backend_find("memory")->name, "memory");
}

static void refuses_a_table_with_a_hole(void **state)
{
    struct simba_backend_ops ops = toy_ops("holey", serves_toy);

    ops.submit = NULL;
    assert_int_equal(simba_backend_register(&ops, NULL), SIMBA_EINVAL);
    ops = toy_ops(NULL, serves_toy);
    assert_int_equal(simba_backend_register(&ops, NULL), SIMBA_EINVAL);
    assert_int_equal(simba_backend_register(NULL, NULL), SIMBA_EINVAL);
}

static void refuses_an_option_without_its_words(void **state)
{
    static const char *const words[] = {NULL, "yes", " no", "yes no perhaps"};
    struct simba_backend_option options[] = {{"sweet", SIMBA_OPTION_SWITCH, "yes no"},
                                             {NULL, SIMBA_OPTION_TEXT, NULL}};
    struct simba_backend_ops ops = toy_ops("wordless", serves_toy);
    struct simba_error error = {0};

    ops.options = options;
    for (size_t i = 0; i < TEST_COUNT(words); i++) {
        options[0].words = words[i];
        assert_int_equal(simba_backend_register(&ops, &error), SIMBA_EINVAL);
        assert_non_null(strstr(error.text, "'sweet'"));
    }
    options[0] = (struct simba_backend_option){"kind", SIMBA_OPTION_CHOICE, NULL};
    assert_int_equal(simba_backend_register(&ops, &error), SIMBA_EINVAL);
    assert_non_null(strstr(error.text, "'kind'"));
}

/* Nothing behind `abi` may be read: it may lie elsewhere. */
static void refuses_a_backend_that_was_built_with_another_header(void **state)
{
    static const uint32_t others[] = {0, SIMBA_BACKEND_ABI + 1, 152};
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *client;

    for (size_t i = 0; i < TEST_COUNT(others); i++) {
        struct simba_backend_ops ops = {.abi = others[i], .name = (const char *)1};
        struct simba_error error = {0};

        assert_int_equal(simba_backend_register(&ops, &error), SIMBA_EINVAL);
        assert_non_null(strstr(error.text, "build the backend again"));
        options.backend = &ops;
        error.text[0] = '\0';
        assert_int_equal(simba_client_open("toy:", &options, &client, &error), SIMBA_EINVAL);
        assert_non_null(strstr(error.text, "build the backend again"));
    }
}

/* Nobody could name the section of such a store. */
static void refuses_a_name_that_no_key_can_be(void **state)
{
    static const char *const names[] = {
        "",
        "a.b",
        "a b",
        "a:b",
        "a/b",
        "1a",
        "-a",
        "_a",
        "+a",
        "a+b",
        "a\nb",
        "a\tb",
        "caf\xc3\xa9",
        "a'b",
        "a\"b",
        "a#b",
        "{a}",
        "*a",
        "a23456789012345678901234567890123",
    };

    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        struct simba_backend_ops ops = toy_ops(names[i], serves_toy);
        struct simba_error error = {0};

        if (simba_backend_register(&ops, &error) != SIMBA_EINVAL)
            fail_msg("'%s' is taken", names[i]);
        assert_int_equal(error.code, SIMBA_EINVAL);
        if (strstr(error.text, "letters, digits") == NULL)
            fail_msg("'%s' is refused with: %s", names[i], error.text);
    }
}

static void refuses_a_name_that_a_key_does_not_tell_from_another(void **state)
{
    static const char *const taken[] = {"Memory", "mem-ory", "memory_"};
    static const char *const same[] = {"coffee-shop", "coffee_shop", "CoffeeShop", "COFFEESHOP"};
    static struct simba_backend_ops coffee;
    struct simba_error error = {0};

    coffee = toy_ops("coffeeShop", serves_toy);
    assert_int_equal(simba_backend_register(&coffee, &error), SIMBA_OK);
    for (size_t i = 0; i < TEST_COUNT(same); i++) {
        struct simba_backend_ops ops = toy_ops(same[i], serves_toy);

        assert_int_equal(simba_backend_register(&ops, &error), SIMBA_EEXISTS);
        assert_non_null(strstr(error.text, same[i]));
        assert_non_null(strstr(error.text, "coffeeShop"));
    }
    for (size_t i = 0; i < TEST_COUNT(taken); i++) {
        struct simba_backend_ops ops = toy_ops(taken[i], serves_toy);

        assert_int_equal(simba_backend_register(&ops, &error), SIMBA_EEXISTS);
        assert_non_null(strstr(error.text, taken[i]));
    }
}

/* The last case: it fills the table. */
static void refuses_more_backends_than_the_table_holds(void **state)
{
    static struct simba_backend_ops many[SIMBA_BACKENDS_MAX];
    static char names[SIMBA_BACKENDS_MAX][16];
    int code = SIMBA_OK;
    size_t count = 0;

    while (count < SIMBA_BACKENDS_MAX && code == SIMBA_OK) {
        snprintf(names[count], sizeof names[count], "toy-%zu", count);
        many[count] = toy_ops(names[count], serves_toy);
        code = simba_backend_register(&many[count], NULL);
        count++;
    }
    assert_int_equal(code, SIMBA_EMISUSE);
    assert_true(count < SIMBA_BACKENDS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_built_in_backends_by_scheme),
        cmocka_unit_test(finds_a_backend_once_it_is_registered),
        cmocka_unit_test(does_not_let_a_built_in_scheme_be_taken_over),
        cmocka_unit_test(refuses_a_table_with_a_hole),
        cmocka_unit_test(refuses_an_option_without_its_words),
        cmocka_unit_test(refuses_a_backend_that_was_built_with_another_header),
        cmocka_unit_test(refuses_a_name_that_no_key_can_be),
        cmocka_unit_test(refuses_a_name_that_a_key_does_not_tell_from_another),
        cmocka_unit_test(refuses_more_backends_than_the_table_holds),
    };

    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
