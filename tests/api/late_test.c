/*
 * Clients that are opened while their store is down: on SQLite, and on a store that a program brings.
 */
#include "probe.h"

#include "lib/late.h"

#include <sys/stat.h>

#define TIMES "ttl=2s&transition=2s&jitter=0ms..30ms"

/* ---- SQLite --------------------------------------------------------------------------------- */

static char folder[TEST_PATH_MAX];
static char missing[TEST_PATH_MAX + 16];
static char url[TEST_PATH_MAX + 128];

static int make_url(void **state)
{
    (void)state;
    test_folder_create(folder);
    snprintf(missing, sizeof missing, "%s/missing", folder);
    snprintf(url, sizeof url, "sqlite:%s/db?" TIMES, missing);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

static void a_folder_that_comes_later_is_used(void **state)
{
    struct late late;

    (void)state;
    if (simba_backend_find("sqlite") == NULL)
        skip();
    late_begin(&late, url, SIMBA_GROUP_UNAVAILABLE);
    assert_int_equal(simba_client_life_fd(late.client), -1);
    assert_int_equal(mkdir(missing, 0700), 0);
    late_end(&late);
}

static void all_can_be_closed_while_the_store_stays_away(void **state)
{
    struct late late;
    int64_t begin = test_now_ms();

    (void)state;
    if (simba_backend_find("sqlite") == NULL)
        skip();
    late_begin(&late, url, SIMBA_GROUP_UNAVAILABLE);
    late_give_up(&late);
    assert_true(test_now_ms() - begin < TEST_PATIENCE_MS);
}

static void what_is_wrong_with_the_url_fails_at_once(void **state)
{
    static const char *const options[] = {"busy-tiemout=1s", "busy-timeout=soon", "ttl=none",
                                          "synchronous=perhaps"};
    struct simba_client_options down = SIMBA_CLIENT_OPTIONS_INIT;

    (void)state;
    if (simba_backend_find("sqlite") == NULL)
        skip();
    down.allow_store_down = true;
    for (size_t i = 0; i < TEST_COUNT(options); i++) {
        struct simba_error error = {0};
        simba_client *client = NULL;
        char wrong[sizeof url + 64];
        int code;

        snprintf(wrong, sizeof wrong, "sqlite:%s/db?%s", missing, options[i]);
        code = simba_client_open(wrong, &down, &client, &error);
        assert_int_equal(simba_error_group(code), SIMBA_GROUP_CONFIG);
        assert_null(client);
    }
}

/* ---- A store that a program brings ---------------------------------------------------------- */

static atomic_uint openings;
static atomic_bool is_up;
static atomic_bool has_password;

/* It refuses while it is down, and asks for its password first. */
static int open_store(const struct simba_backend_config *config,
                      const struct simba_backend_host *host, simba_backend **ret_backend,
                      struct simba_error *error)
{
    const char *password = simba_url_password(config->url);

    atomic_fetch_add(&openings, 1);
    atomic_store(&has_password, password != NULL && strcmp(password, "pigeon") == 0);
    if (!atomic_load(&is_up)) {
        error->code = SIMBA_EDENIED;
        snprintf(error->text, sizeof error->text, "not yet");
        return SIMBA_EDENIED;
    }
    return simba_backend_find("memory")->open(config, host, ret_backend, error);
}

static struct simba_backend_ops brought;

static simba_client *open_brought(const char *text)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    brought = *simba_backend_find("memory");
    brought.open = open_store;
    atomic_store(&is_up, false);
    atomic_store(&openings, 0);
    options.backend = &brought;
    options.allow_store_down = true;
    return probe_open_with(text, &options);
}

static void a_password_that_can_be_read_once_is_kept(void **state)
{
    struct probe probe = {0};
    simba_client *client;
    char text[160];
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "pigeon\n", 7), 7);
    close(ends[1]);
    snprintf(text, sizeof text, "late:?password-file=/dev/fd/%d&" PROBE_LONG, ends[0]);
    client = open_brought(text);
    probe_create(&probe, client, "m", NULL);
    probe_start(&probe);
    probe_wait_count(&openings, 3);
    atomic_store(&is_up, true);
    probe_wait_owner(&probe);
    assert_true(atomic_load(&has_password));
    probe_end(&probe);
    probe_close(client);
    close(ends[0]);
}

/* The contender waits longer than the store is away; when it is there all are told at once. */
static void many_contenders_own_when_the_store_comes(void **state)
{
    simba_client *client = open_brought("late:?" PROBE_LONG);
    struct probe probes[50];
    char mutex[16];

    (void)state;
    for (int i = 0; i < 50; i++) {
        memset(&probes[i], 0, sizeof probes[i]);
        snprintf(mutex, sizeof mutex, "m%d", i);
        probe_create(&probes[i], client, mutex, NULL);
        probe_start(&probes[i]);
    }
    probe_wait_count(&openings, 2);
    probe_stop(&probes[0]);
    atomic_store(&is_up, true);
    for (int i = 1; i < 50; i++)
        probe_wait_owner(&probes[i]);
    probe_start(&probes[0]);
    probe_wait_owner(&probes[0]);
    for (int i = 0; i < 50; i++)
        probe_end(&probes[i]);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_that_comes_later_is_used, make_url, remove_folder),
        cmocka_unit_test_setup_teardown(all_can_be_closed_while_the_store_stays_away, make_url,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_is_wrong_with_the_url_fails_at_once, make_url,
                                        remove_folder),
        cmocka_unit_test(a_password_that_can_be_read_once_is_kept),
        cmocka_unit_test(many_contenders_own_when_the_store_comes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
