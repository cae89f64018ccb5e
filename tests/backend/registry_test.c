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
    struct simba_backend_ops ops = {.size = sizeof ops, .name = name, .serves = serves};

    ops.open = open_toy;
    ops.submit = submit_toy;
    ops.close = close_toy;
    return ops;
}

static void finds_the_built_in_backends_by_scheme(void **state)
{
    (void)state;
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

    (void)state;
    ops = toy_ops("toy", serves_toy);
    assert_null(simba_backend_find("toy"));
    assert_int_equal(simba_backend_register(&ops), SIMBA_OK);
    assert_ptr_equal(simba_backend_find("toy"), &ops);
    assert_int_equal(simba_backend_register(&ops), SIMBA_EEXISTS);
}

static void does_not_let_a_built_in_scheme_be_taken_over(void **state)
{
    static struct simba_backend_ops same_name;
    static struct simba_backend_ops same_scheme;

    (void)state;
    same_name = toy_ops("memory", serves_toy);
    same_scheme = toy_ops("memory-of-mine", serves_memory);
    assert_int_equal(simba_backend_register(&same_name), SIMBA_EEXISTS);
    assert_int_equal(simba_backend_register(&same_scheme), SIMBA_OK);
    assert_string_equal(simba_backend_find("memory")->name, "memory");
}

static void refuses_a_table_with_a_hole(void **state)
{
    struct simba_backend_ops ops = toy_ops("holey", serves_toy);

    (void)state;
    ops.submit = NULL;
    assert_int_equal(simba_backend_register(&ops), SIMBA_EINVAL);
    ops = toy_ops("old", serves_toy);
    ops.size = 1;
    assert_int_equal(simba_backend_register(&ops), SIMBA_EINVAL);
    assert_int_equal(simba_backend_register(NULL), SIMBA_EINVAL);
}

/* The last case: it fills the table. */
static void refuses_more_backends_than_the_table_holds(void **state)
{
    static struct simba_backend_ops many[SIMBA_BACKENDS_MAX];
    static char names[SIMBA_BACKENDS_MAX][16];
    int code = SIMBA_OK;
    size_t count = 0;

    (void)state;
    while (count < SIMBA_BACKENDS_MAX && code == SIMBA_OK) {
        snprintf(names[count], sizeof names[count], "toy-%zu", count);
        many[count] = toy_ops(names[count], serves_toy);
        code = simba_backend_register(&many[count]);
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
        cmocka_unit_test(refuses_more_backends_than_the_table_holds),
    };

    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
