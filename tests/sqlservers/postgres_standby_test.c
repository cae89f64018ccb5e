/*
 * postgres_standby_test.c - what a client makes of a hot standby that target-session-attrs=any lets
 * it have: it can log in there, and hear of nothing.
 */
#include "server.h"

#include "backend/postgres/listener.h"
#include "base/url.h"

static struct sb_postgres_settings settings;

/* The same server twice: which one is tried does not matter here. */
static int read_settings(void **state)
{
    char text[512];
    simba_url *url;
    int code;

    server_setup(state);
    snprintf(text, sizeof text, "%s://%s@127.0.0.1:%d,127.0.0.1:%d/%s?target-session-attrs=any",
             dialect_scheme, dialect_admin, server.port, server.port, dialect_database);
    if (sb_url_parse(text, &url, NULL) != SIMBA_OK)
        return -1;
    code = sb_postgres_settings_read(&settings, url, NULL);
    snprintf(settings.channel, sizeof settings.channel, "simba_0123456789abcdef");
    sb_url_free(url);
    return code == SIMBA_OK ? 0 : -1;
}

static int clear_settings(void **state)
{
    sb_postgres_settings_clear(&settings);
    return server_teardown(state);
}

static void become_standby(void)
{
    char path[TEST_PATH_MAX + 32];
    FILE *file;

    snprintf(path, sizeof path, "%s/data/standby.signal", server.folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    server_kill(&server);
    server_start(&server);
}

static void a_host_on_which_nothing_can_be_heard_gives_way_to_the_next(void **state)
{
    struct sb_postgres_subscription s = {.settings = &settings};

    sb_postgres_subscribe(&s);
    assert_int_equal(s.outcome, SB_POSTGRES_HEARS);
    assert_int_equal(s.skipped, 0); /* the next attempt begins with the host that was good */
    PQfinish(s.pg);
    become_standby();
    for (size_t i = 1; i <= 4; i++) {
        sb_postgres_subscribe(&s);
        if (s.outcome != SB_POSTGRES_LATER || strstr(s.why, "LISTEN") == NULL)
            fail_msg("%d: %s", (int)s.outcome, s.why);
        assert_int_equal(s.skipped, i % 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_on_which_nothing_can_be_heard_gives_way_to_the_next),
    };

    if (!server_is_installed())
        return 77;
    return cmocka_run_group_tests(tests, read_settings, clear_settings);
}
