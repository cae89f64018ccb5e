/*
 * The properties of a mutex as the application sees them: what names and values may be, a store
 * that keeps none, and what another program has written.
 */
#include "probe.h"

#include <simba/backend.h>

#include <string.h>

#define TIMEOUT_MS 5000

static int set(simba_client *client, const char *name, const char *value)
{
    return simba_client_property_set(client, "m", name, value, NULL, TIMEOUT_MS, NULL);
}

static void names_and_values_have_rules(void **state)
{
    simba_client *client = probe_open("memory:rules");
    static const char *const wrong[] = {
        "", "A", "a b", "a/b", "\xc3\xa9", NULL, "a23456789012345678901234567890123"};
    char longest[SIMBA_PROPERTY_VALUE_MAX + 2];
    struct simba_property property;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(set(client, wrong[i], "v"), SIMBA_EINVAL);
        assert_int_equal(
            simba_client_property_get(client, "m", wrong[i], TIMEOUT_MS, &property, NULL),
            SIMBA_EINVAL);
    }
    memset(longest, 'v', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(set(client, "a", longest), SIMBA_EINVAL);
    assert_int_equal(set(client, "a", longest + 1), SIMBA_OK);
    assert_int_equal(set(client, "a", NULL), SIMBA_EINVAL);
    assert_int_equal(set(client, "a", "two\nlines"), SIMBA_EINVAL);
    assert_int_equal(set(client, "a", "\x7f"), SIMBA_EINVAL);
    assert_int_equal(simba_client_property_set(client, "m", "a", "v", "a@@b", TIMEOUT_MS, NULL),
                     SIMBA_EINVAL);
    assert_int_equal(simba_client_property_set(client, " ", "a", "v", NULL, TIMEOUT_MS, NULL),
                     SIMBA_EINVAL);
    assert_int_equal(simba_client_property_set(client, "m", "a", "v", NULL, -1, NULL),
                     SIMBA_EINVAL);
    assert_int_equal(simba_client_property_get(client, "m", "a", TIMEOUT_MS, &property, NULL),
                     SIMBA_OK);
    assert_string_equal(property.value, longest + 1);
    probe_close(client);
}

/* One of the application, for example. Its mutexes work. */
static void a_store_without_properties_says_so(void **state)
{
    struct simba_backend_ops ops = *simba_backend_find("memory");
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_property property = {.store_ms = 7};
    struct simba_error error;
    simba_client *client = NULL;

    ops.has_properties = false;
    options.backend = &ops;
    assert_int_equal(simba_client_open("memory:none", &options, &client, &error), SIMBA_OK);
    assert_int_equal(set(client, "a", "v"), SIMBA_EUNSUPPORTED);
    assert_int_equal(simba_client_property_get(client, "m", "a", TIMEOUT_MS, &property, &error),
                     SIMBA_EUNSUPPORTED);
    assert_string_equal(error.text, "the store keeps no properties of mutexes");
    assert_int_equal(property.store_ms, 7);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_values_have_rules),
        cmocka_unit_test(a_store_without_properties_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
