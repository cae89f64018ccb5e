/*
 * hosts_test.c - which addresses are left of a server that somebody has told of.
 */
#include "backend/redis/wire/endpoint.h"

#include "test.h"

static char secret[] = "secret";
static struct sb_redis_options options;
static struct sb_redis_credentials credentials;

static int begin(void **state)
{
    memset(&options, 0, sizeof options);
    options.mode = SB_REDIS_SENTINEL;
    options.place_count = 1;
    options.places[0] = (struct sb_wire_place){"192.0.2.1", 26379};
    credentials = (struct sb_redis_credentials){.password = {.text = secret}};
    return 0;
}

static int find(const char *host)
{
    struct sb_wire_place place = {.port = 6379};
    struct sb_wire_endpoint endpoint;
    struct simba_error error;
    int code;

    snprintf(place.host, sizeof place.host, "%s", host);
    code = sb_redis_endpoint_find(&options, &credentials, &place, &endpoint, &error);
    if (code == SIMBA_OK)
        assert_true(endpoint.address_count > 0);
    else
        assert_non_null(strstr(error.text, host));
    return code;
}

static void allow(const char *list)
{
    static char text[256];
    struct simba_error error;

    snprintf(text, sizeof text, "%s", list);
    assert_int_equal(sb_redis_hosts_check(text, &error), SIMBA_OK);
    options.allow_hosts = text;
}

static void a_host_of_the_url_is_used_on_any_port(void **state)
{
    assert_int_equal(find("192.0.2.1"), SIMBA_OK);
    assert_int_equal(find("192.0.2.2"), SIMBA_ECONFIG);
    options.mode = SB_REDIS_CLUSTER;
    assert_int_equal(find("192.0.2.2"), SIMBA_ECONFIG);
    allow("198.51.100.1");
    assert_int_equal(find("192.0.2.1"), SIMBA_OK);
}

static void only_the_list_decides_about_masters(void **state)
{
    struct sb_wire_place place = {"192.0.2.1", 26379};
    struct sb_wire_endpoint endpoint;
    struct simba_error error;

    allow("198.51.100.1");
    assert_int_equal(find("198.51.100.1"), SIMBA_OK);
    assert_int_equal(find("192.0.2.1"), SIMBA_ECONFIG);
    assert_int_equal(
        sb_redis_endpoint_find(&options, &options.sentinel_credentials, &place, &endpoint, &error),
        SIMBA_OK);
}

static void an_address_that_a_name_of_the_url_leads_to_is_used(void **state)
{
    options.places[0] = (struct sb_wire_place){"localhost", 26379};
    assert_int_equal(find("127.0.0.1"), SIMBA_OK);
    assert_int_equal(find("127.0.0.2"), SIMBA_ECONFIG);
    options.places[0] = (struct sb_wire_place){"127.0.0.1", 26379};
    assert_int_equal(find("localhost"), SIMBA_OK); /* by that address, and by no other one */
}

static void without_a_password_any_host_is_used(void **state)
{
    credentials.password.text = NULL;
    assert_int_equal(find("192.0.2.2"), SIMBA_OK);
    allow("192.0.2.3");
    assert_int_equal(find("192.0.2.2"), SIMBA_ECONFIG);
}

static void addresses_are_compared_bit_by_bit(void **state)
{
    allow("192.0.2.16/28,198.51.100.7,2001:db8::/33");
    assert_int_equal(find("192.0.2.16"), SIMBA_OK);
    assert_int_equal(find("192.0.2.31"), SIMBA_OK);
    assert_int_equal(find("192.0.2.32"), SIMBA_ECONFIG);
    assert_int_equal(find("192.0.2.15"), SIMBA_ECONFIG);
    assert_int_equal(find("::ffff:192.0.2.20"), SIMBA_OK); /* the same address */
    assert_int_equal(find("198.51.100.7"), SIMBA_OK);
    assert_int_equal(find("198.51.100.70"), SIMBA_ECONFIG);
    assert_int_equal(find("2001:db8:7fff::1"), SIMBA_OK);
    assert_int_equal(find("2001:db8:8000::1"), SIMBA_ECONFIG);
    allow("0.0.0.0/0");
    assert_int_equal(find("203.0.113.9"), SIMBA_OK);
    assert_int_equal(find("2001:db8::1"), SIMBA_ECONFIG);
    allow("::/0");
    assert_int_equal(find("2001:db8::1"), SIMBA_OK);
}

static void names_are_compared_whole_or_by_their_end(void **state)
{
    allow("LocalHost");
    assert_int_equal(find("localhost"), SIMBA_OK);
    assert_int_equal(find("127.0.0.1"), SIMBA_ECONFIG); /* a name is a name */
    allow("host,xlocalhost,localhost.example.org");
    assert_int_equal(find("localhost"), SIMBA_ECONFIG);
    allow("*.localhost");
    assert_int_equal(find("localhost"), SIMBA_ECONFIG);
}

static void tls_counts_only_where_the_user_says_whom_to_trust(void **state)
{
    static char text[] = "x";

    options.tls = true;
    assert_int_equal(find("192.0.2.2"), SIMBA_ECONFIG);
    options.trust.verify = true;
    assert_int_equal(find("192.0.2.2"), SIMBA_ECONFIG); /* every authority of the system */
    options.trust.ca = text;
    assert_int_equal(find("192.0.2.2"), SIMBA_OK);
    options.trust.verify = false;
    assert_int_equal(find("192.0.2.2"), SIMBA_ECONFIG);
    options.trust.ca = NULL;
    options.trust.server_name = text;
    assert_int_equal(find("192.0.2.2"), SIMBA_ECONFIG);
    options.trust.verify = true;
    assert_int_equal(find("192.0.2.2"), SIMBA_OK);
    allow("192.0.2.3");
    assert_int_equal(find("192.0.2.2"), SIMBA_ECONFIG);
}

static void nothing_is_looked_up_on_the_loop(void **state)
{
    struct sb_wire_place address = {"192.0.2.2", 6379};
    struct sb_wire_place name = {"localhost", 6379};

    assert_false(sb_redis_endpoint_find_blocks(&options, &credentials, &address));
    assert_true(sb_redis_endpoint_find_blocks(&options, &credentials, &name));
    options.places[0] = name;
    assert_true(sb_redis_endpoint_find_blocks(&options, &credentials, &address));
    credentials.password.text = NULL;
    assert_false(sb_redis_endpoint_find_blocks(&options, &credentials, &address));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_host_of_the_url_is_used_on_any_port, begin),
        cmocka_unit_test_setup(only_the_list_decides_about_masters, begin),
        cmocka_unit_test_setup(an_address_that_a_name_of_the_url_leads_to_is_used, begin),
        cmocka_unit_test_setup(without_a_password_any_host_is_used, begin),
        cmocka_unit_test_setup(addresses_are_compared_bit_by_bit, begin),
        cmocka_unit_test_setup(names_are_compared_whole_or_by_their_end, begin),
        cmocka_unit_test_setup(tls_counts_only_where_the_user_says_whom_to_trust, begin),
        cmocka_unit_test_setup(nothing_is_looked_up_on_the_loop, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
