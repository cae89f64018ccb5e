/*
 * The section of a configuration for a store that the program has registered: its name, its
 * options, and what is wrong with it. The store is `memory:` under other names, and notes which
 * options it was asked with.
 */
#include "test.h"

#include <simba/backend.h>
#include <simba/simba.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char path[] = "config_registered_test.yaml";

static char seen_beans[16];
static char seen_strong[16];
static char seen_cup[256];

static void note(simba_url *url, const char *name, char *target, size_t size)
{
    const char *value = simba_url_param(url, name);

    snprintf(target, size, "%s", value != NULL ? value : "-");
}

static int open_store(const struct simba_backend_config *config,
                      const struct simba_backend_host *host, simba_backend **ret_backend,
                      struct simba_error *error)
{
    note(config->url, "beans", seen_beans, sizeof seen_beans);
    note(config->url, "strong", seen_strong, sizeof seen_strong);
    note(config->url, "cup", seen_cup, sizeof seen_cup);
    return simba_backend_find("memory")->open(config, host, ret_backend, error);
}

static bool serves_coffee(const char *scheme)
{
    return strcmp(scheme, "coffee") == 0 || strcmp(scheme, "espresso") == 0;
}

static bool serves_tea(const char *scheme)
{
    return strcmp(scheme, "tea") == 0;
}

static bool serves_water(const char *scheme)
{
    return strcmp(scheme, "water") == 0;
}

static const struct simba_backend_option options[] = {
    {"beans", SIMBA_OPTION_NUMBER, NULL},
    {"strong", SIMBA_OPTION_SWITCH, "very hardly"},
    {"cup", SIMBA_OPTION_PATH, NULL},
    {NULL, SIMBA_OPTION_TEXT, NULL},
};

/* The first says what its options are, the second does not, and the third has a name that means
 * something else. */
static struct simba_backend_ops coffee;
static struct simba_backend_ops tea;
static struct simba_backend_ops water;

static void init_store(struct simba_backend_ops *ops, const char *name,
                       bool (*serves)(const char *scheme))
{
    *ops = *simba_backend_find("memory");
    ops->name = name;
    ops->serves = serves;
    ops->open = open_store;
    ops->options = NULL;
}

static int register_stores(void **state)
{
    (void)state;
    init_store(&coffee, "coffeeShop", serves_coffee);
    coffee.options = options;
    init_store(&tea, "tea", serves_tea);
    init_store(&water, "ttl", serves_water);
    return simba_backend_register(&coffee, NULL) != SIMBA_OK ||
           simba_backend_register(&tea, NULL) != SIMBA_OK ||
           simba_backend_register(&water, NULL) != SIMBA_OK;
}

static int parse(const char *text, char **ret_url, struct simba_error *error)
{
    return simba_config_parse(text, strlen(text), "c.yaml", ret_url, error);
}

static void check_url(const char *text, const char *expected)
{
    struct simba_error error = {0, 0, ""};
    char *url = NULL;

    if (parse(text, &url, &error) != SIMBA_OK)
        fail_msg("%s\n%s", text, error.text);
    assert_string_equal(url, expected);
    simba_free(url);
}

static void check_refusal(const char *text, const char *sentence)
{
    struct simba_error error = {0, 0, ""};
    char *url = NULL;

    assert_int_equal(parse(text, &url, &error), SIMBA_ECONFIG);
    if (strcmp(error.text, sentence) != 0)
        fail_msg("%s\nis refused with: %s\nand not with: %s", text, error.text, sentence);
}

static void a_registered_store_has_a_section_of_its_name(void **state)
{
    static const char *const names[] = {"coffeeShop", "coffee-shop", "coffee_shop"};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        char text[128];

        snprintf(text, sizeof text, "simba: {%s: {url: 'espresso:x', ttl: 5s}}", names[i]);
        check_url(text, "espresso:x?ttl=5s");
    }
    check_url("simba:\n"
              "  redis: {enabled: false}\n"
              "  tea: {enabled: false, url: 'tea:x'}\n"
              "  coffee-shop: {url: 'coffee:x?cup=big', beans: 7, strong: true}\n",
              "coffee:x?cup=big&beans=7&strong=very");
    check_url("simba: {tea: {url: 'tea:x', sugar: two lumps}}", "tea:x?sugar=two%20lumps");
    check_url("simba: {url: 'water:x', ttl: 5s}", "water:x?ttl=5s");
}

static void the_options_of_its_section_reach_the_store(void **state)
{
    struct simba_error error = {0};
    simba_client *client = NULL;
    FILE *file = fopen(path, "w");
    char folder[200];
    char cup[256];
    int64_t ttl_ms;
    int64_t transition_ms;

    (void)state;
    assert_non_null(file);
    fputs("simba: {coffeeShop: {url: 'coffee:c', beans: 12, strong: off, cup: big, ttl: 3s}}\n",
          file);
    fclose(file);
    if (simba_client_open_config(path, NULL, &client, &error) != SIMBA_OK)
        fail_msg("%s", error.text);
    unlink(path);
    assert_int_equal(simba_client_lease(client, &ttl_ms, &transition_ms), SIMBA_OK);
    assert_int_equal(ttl_ms, 3000);
    assert_string_equal(seen_beans, "12");
    assert_string_equal(seen_strong, "hardly");
    assert_non_null(getcwd(folder, sizeof folder));
    snprintf(cup, sizeof cup, "%s/big", folder);
    assert_string_equal(seen_cup, cup);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

static void what_is_wrong_with_its_section_is_told_with_its_place(void **state)
{
    (void)state;
    check_refusal("simba: {coffeeShop: {url: 'coffee:x', beens: 7}}",
                  "c.yaml:1:39: unknown key 'simba.coffee-shop.beens'; did you mean "
                  "'simba.coffee-shop.beans'?");
    check_refusal("simba: {coffeeShop: {url: 'coffee:x', beans: many}}",
                  "c.yaml:1:46: simba.coffee-shop.beans: this must be a number");
    check_refusal("simba: {coffeeShop: {beans: 7}}", "c.yaml:1:9: simba.coffee-shop has no url");
    check_refusal("simba: {coffeeShop: {url: 'tea:x'}}",
                  "c.yaml:1:27: simba.coffee-shop.url: a URL that begins with 'tea:' is not one of "
                  "this section");
    check_refusal("simba: {coffeeShap: {url: 'coffee:x'}}",
                  "c.yaml:1:9: unknown key 'simba.coffee-shap'; did you mean 'simba.coffee-shop'?");
    check_refusal(
        "simba: {coffeeShop: {url: 'coffee:x'}, tea: {url: 'tea:x'}}",
        "c.yaml:1:40: two stores are enabled, simba.coffee-shop and simba.tea: set enabled "
        "to false in one");
    check_refusal("coffeeShop: {url: 'coffee:x'}",
                  "c.yaml:1:1: unknown key 'coffee-shop'; did you mean 'simba.coffee-shop'?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_registered_store_has_a_section_of_its_name),
        cmocka_unit_test(the_options_of_its_section_reach_the_store),
        cmocka_unit_test(what_is_wrong_with_its_section_is_told_with_its_place),
    };

    return cmocka_run_group_tests(tests, register_stores, NULL);
}
