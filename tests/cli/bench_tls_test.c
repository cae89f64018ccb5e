/*
 * The plain clients of `simba bench` have no TLS: they take no URL that asks for it, in whatever
 * way.
 */
#include "base/url.h"
#include "bench/raw_sql.h"
#include "test.h"

static int check(const char *text)
{
    simba_url *url = NULL;
    int code;

    assert_int_equal(sb_url_parse(text, &url, NULL), SIMBA_OK);
    code = bench_sql_check_plain(url, NULL);
    sb_url_free(url);
    return code;
}

static void a_url_that_asks_for_tls_is_not_taken(void **state)
{
    static const char *const options[] = {"tls=on", "tls-ca=/ca.pem", "tls-verify=yes",
                                          "tls-verify=no", "tls-cert=/c.pem&tls-key=/k.pem"};

    for (size_t i = 0; i < TEST_COUNT(options); i++) {
        char text[128];

        snprintf(text, sizeof text, "mysql://u:pw@h/db?%s", options[i]);
        if (check(text) != SIMBA_EUNSUPPORTED)
            fail_msg("the password goes out in clear: %s", options[i]);
    }
}

static void a_url_that_does_not_is_taken(void **state)
{
    assert_int_equal(check("mysql://u:pw@h/db"), SIMBA_OK);
    assert_int_equal(check("mysql://u:pw@h/db?tls=off&tls-ca=/ca.pem"), SIMBA_OK);
    assert_int_equal(check("mysql://u:pw@h,i/db"), SIMBA_EUNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_that_asks_for_tls_is_not_taken),
        cmocka_unit_test(a_url_that_does_not_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
