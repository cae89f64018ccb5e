/*
 * Clients that are opened while their store is down: on SQLite, and on a store that a program
 * brings.
 */
#include "probe.h"

#include "lib/late.h"
#include "lib/locker.h"

#include <sys/stat.h>

#define TIMES "ttl=2s&transition=2s&jitter=0ms..30ms"

/* ---- SQLite ---------------------------------------------------------------------------------- */

static char folder[TEST_PATH_MAX];
static char missing[TEST_PATH_MAX + 16];
static char url[TEST_PATH_MAX + 128];

static int make_url(void **state)
{
    test_folder_create(folder);
    snprintf(missing, sizeof missing, "%s/missing", folder);
    snprintf(url, sizeof url, "sqlite:%s/db?" TIMES, missing);
    return 0;
}

static int remove_folder(void **state)
{
    test_folder_remove(folder);
    return 0;
}

static void a_folder_that_comes_later_is_used(void **state)
{
    struct late late;

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

/* A program that moves to another folder, as daemons do, and another that stays mean the same
 * file. */
static void a_relative_path_counts_from_the_folder_of_the_opening(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    simba_client *mover;
    simba_client *stayer;
    simba_locker *first;
    simba_locker *second;

    if (simba_backend_find("sqlite") == NULL)
        skip();
    options.allow_store_down = true;
    assert_int_equal(chdir(folder), 0);
    mover = probe_open_with("sqlite:missing/db?" TIMES, &options);
    assert_int_equal(mkdir("other", 0700), 0);
    assert_int_equal(mkdir("other/missing", 0700), 0);
    assert_int_equal(chdir("other"), 0);
    assert_int_equal(mkdir(missing, 0700), 0);
    assert_int_equal(test_locker_create(mover, "m", NULL, &first, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire_timeout(first, TEST_PATIENCE_MS, NULL), SIMBA_OK);
    stayer = probe_open(url);
    assert_int_equal(test_locker_create(stayer, "m", NULL, &second, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_try_acquire(second, NULL), SIMBA_ECONTENDED);
    assert_int_not_equal(access("missing/db", F_OK), 0);
    assert_int_equal(chdir("/"), 0);
    simba_locker_close(second);
    simba_locker_close(first);
    probe_close(stayer);
    probe_close(mover);
}

/* ---- A store that a program brings ----------------------------------------------------------- */

#define HANG_MS 3000

static atomic_uint openings;
static atomic_uint under_way; /* openings that have not returned */
static atomic_uint successes;
static atomic_uint closings;
static atomic_bool is_up;
static atomic_bool hangs; /* openings do not return until this is false or HANG_MS are over */
static atomic_bool says_nothing; /* it leaves the error of a refusal empty */
static atomic_bool hangs_next;   /* the same, after the next one that succeeds */
static atomic_bool is_hanging;
static atomic_bool has_password;
static atomic_int refusal;

static void hang(void)
{
    int64_t end_ms = test_now_ms() + HANG_MS;

    atomic_store(&is_hanging, true);
    while (atomic_load(&hangs) && test_now_ms() < end_ms)
        test_pause_ms(5);
    atomic_store(&is_hanging, false);
}

static bool is_store_hanging(void *user)
{
    (void)user;
    return atomic_load(&is_hanging);
}

/* It refuses while it is down, and asks for its password first. */
static int open_when_up(const struct simba_backend_config *config,
                        const struct simba_backend_host *host, simba_backend **ret_backend,
                        struct simba_error *error)
{
    const char *password = simba_url_password(config->url);

    atomic_store(&has_password, password != NULL && strcmp(password, "pigeon") == 0);
    if (atomic_load(&hangs))
        hang();
    if (!atomic_load(&is_up)) {
        if (atomic_load(&says_nothing))
            return atomic_load(&refusal);
        error->code = atomic_load(&refusal);
        snprintf(error->text, sizeof error->text, "not yet");
        return error->code;
    }
    atomic_fetch_add(&successes, 1);
    if (atomic_load(&hangs_next))
        atomic_store(&hangs, true);
    return simba_backend_find("memory")->open(config, host, ret_backend, error);
}

static int open_store(const struct simba_backend_config *config,
                      const struct simba_backend_host *host, simba_backend **ret_backend,
                      struct simba_error *error)
{
    int code;

    atomic_fetch_add(&under_way, 1);
    atomic_fetch_add(&openings, 1);
    code = open_when_up(config, host, ret_backend, error);
    atomic_fetch_sub(&under_way, 1);
    return code;
}

static void close_store(simba_backend *backend, void (*closed)(void *argument), void *argument)
{
    atomic_fetch_add(&closings, 1);
    simba_backend_find("memory")->close(backend, closed, argument);
}

/* It stays as it is: an opening may outlive its client. */
static struct simba_backend_ops brought;

static int make_brought(void **state)
{
    brought = *simba_backend_find("memory");
    brought.open = open_store;
    brought.close = close_store;
    return 0;
}

static bool is_over(void *user)
{
    (void)user;
    return atomic_load(&under_way) == 0 && atomic_load(&closings) == atomic_load(&successes);
}

static simba_client *open_brought(const char *text)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    atomic_store(&hangs, false);
    assert_true(test_wait(is_over, NULL)); /* with what a client before has begun */
    atomic_store(&is_up, false);
    atomic_store(&hangs_next, false);
    atomic_store(&openings, 0);
    atomic_store(&successes, 0);
    atomic_store(&closings, 0);
    atomic_store(&refusal, SIMBA_EDENIED);
    options.backend = &brought;
    options.allow_store_down = true;
    return probe_open_with(text, &options);
}

static bool was_refused(void *contender)
{
    return simba_contender_last_error(contender, NULL) == SIMBA_EDENIED;
}

static void a_store_that_fails_without_a_word_grants_nothing(void **state)
{
    simba_client *client;
    struct probe probe = {0};

    atomic_store(&says_nothing, true);
    client = open_brought("memory:silent?" PROBE_LONG);
    probe_create(&probe, client, "m", NULL);
    probe_start(&probe);
    assert_true(test_wait(was_refused, probe.contender));
    assert_int_equal(simba_contender_status(probe.contender), SIMBA_STARTING);
    assert_false(simba_contender_is_owner(probe.contender));
    probe_end(&probe);
    probe_close(client);
    atomic_store(&says_nothing, false);
}

static void a_password_that_can_be_read_once_is_kept(void **state)
{
    struct probe probe = {0};
    simba_client *client;
    char text[160];
    int ends[2];

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

static void a_password_file_is_found_from_another_folder(void **state)
{
    char home[TEST_PATH_MAX];
    struct probe probe = {0};
    simba_client *client;
    FILE *file;

    test_folder_create(home);
    assert_int_equal(chdir(home), 0);
    file = fopen("secret", "w");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    fputs("pigeon\n", file);
    assert_int_equal(fclose(file), 0);
    client = open_brought("late:?password-file=secret&" PROBE_LONG);
    assert_int_equal(chdir("/"), 0);
    atomic_store(&has_password, false);
    probe_create(&probe, client, "m", NULL);
    probe_start(&probe);
    atomic_store(&is_up, true);
    probe_wait_owner(&probe);
    assert_true(atomic_load(&has_password));
    probe_end(&probe);
    probe_close(client);
    test_folder_remove(home);
}

/* The contender waits longer than the store is away; when it is there all are told at once. */
static void many_contenders_own_when_the_store_comes(void **state)
{
    simba_client *client = open_brought("late:?" PROBE_LONG);
    struct probe probes[50];
    char mutex[16];

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

/* ---- A store that hangs while it is opened --------------------------------------------------- */

static bool is_open_or_hanging(void *user)
{
    struct probe *probe = user;

    return simba_contender_is_owner(probe->contender) || atomic_load(&is_hanging);
}

/* The store could be opened once and hangs from then on. */
static void a_store_that_hangs_after_an_opening_delays_nobody(void **state)
{
    simba_client *client = open_brought("late:?" PROBE_LONG);
    struct probe probe = {0};
    simba_locker *locker;
    int64_t begin;

    probe_create(&probe, client, "m", NULL);
    probe_start(&probe);
    assert_int_equal(test_locker_create(client, "n", NULL, &locker, NULL), SIMBA_OK);
    atomic_store(&hangs_next, true);
    atomic_store(&is_up, true);
    assert_true(test_wait(is_open_or_hanging, &probe));
    begin = test_now_ms();
    probe_stop(&probe);
    assert_true(test_now_ms() - begin < HANG_MS / 3);
    begin = test_now_ms();
    simba_locker_acquire_timeout(locker, 50, NULL);
    assert_true(test_now_ms() - begin < HANG_MS / 3);
    assert_int_equal(atomic_load(&successes), 1);
    simba_locker_close(locker);
    probe_end(&probe);
    probe_close(client);
    assert_int_equal(atomic_load(&closings), 1);
}

/* While an attempt hangs timers go off, callers get their answers, and the close does not wait. */
static void a_close_does_not_wait_for_an_opening(void **state)
{
    simba_client *client = open_brought("late:?" PROBE_LONG);
    struct probe probe = {0};
    simba_locker *locker;
    int64_t begin;

    probe_create(&probe, client, "m", NULL);
    probe_start(&probe);
    assert_int_equal(test_locker_create(client, "n", NULL, &locker, NULL), SIMBA_OK);
    atomic_store(&hangs, true);
    assert_true(test_wait(is_store_hanging, NULL));
    begin = test_now_ms();
    assert_int_equal(simba_locker_try_acquire(locker, NULL), SIMBA_EDENIED);
    probe_stop(&probe);
    simba_locker_close(locker);
    probe_end(&probe);
    probe_close(client);
    assert_true(test_now_ms() - begin < HANG_MS / 3);
    assert_true(atomic_load(&is_hanging));
}

/* What such an opening has made in the end is closed again. */
static void an_opening_that_ends_after_the_close_leaves_nothing(void **state)
{
    simba_client *client = open_brought("late:?" PROBE_LONG);

    atomic_store(&hangs, true);
    assert_true(test_wait(is_store_hanging, NULL));
    probe_close(client);
    atomic_store(&is_up, true);
    atomic_store(&hangs, false);
    assert_true(test_wait(is_over, NULL));
    assert_int_equal(atomic_load(&successes), 1);
}

/* Clients come and go at every moment of an opening. */
static void a_close_may_meet_an_opening_at_any_time(void **state)
{
    for (int i = 0; i < 40; i++) {
        simba_client *client = open_brought("late:?" PROBE_LONG);
        struct probe probe = {0};

        probe_create(&probe, client, "m", NULL);
        probe_start(&probe);
        atomic_store(&is_up, true);
        test_pause_ms(20 + i % 30); /* the first attempts begin within this time */
        probe_end(&probe);
        probe_close(client);
    }
}

/* ---- Lockers --------------------------------------------------------------------------------- */

struct acquiring {
    simba_locker *locker;
    int code;
    atomic_bool is_over;
};

static void *acquire(void *argument)
{
    struct acquiring *acquiring = argument;

    acquiring->code = simba_locker_acquire(acquiring->locker, NULL);
    atomic_store(&acquiring->is_over, true);
    return NULL;
}

/* Rights, databases and tables that are not there yet may come, as the server itself. */
static void a_locker_waits_for_what_may_heal(void **state)
{
    static const int refusals[] = {SIMBA_EUNAVAILABLE, SIMBA_EDENIED, SIMBA_ECONFIG};

    for (size_t i = 0; i < TEST_COUNT(refusals); i++) {
        simba_client *client = open_brought("late:?" PROBE_LONG);
        struct acquiring acquiring = {0};
        int64_t begin = test_now_ms();
        pthread_t thread;
        unsigned tries;

        atomic_store(&refusal, refusals[i]);
        tries = atomic_load(&openings) + 1; /* of which one may have begun before */
        probe_wait_count(&openings, tries + 1);
        assert_int_equal(test_locker_create(client, "m", NULL, &acquiring.locker, NULL), SIMBA_OK);
        assert_int_equal(simba_locker_try_acquire(acquiring.locker, NULL), refusals[i]);
        begin = test_now_ms();
        assert_int_equal(simba_locker_acquire_timeout(acquiring.locker, 150, NULL), refusals[i]);
        assert_true(test_now_ms() - begin >= 150);
        assert_int_equal(pthread_create(&thread, NULL, acquire, &acquiring), 0);
        tries = atomic_load(&openings);
        probe_wait_count(&openings, tries + 2);
        assert_false(atomic_load(&acquiring.is_over));
        atomic_store(&is_up, true);
        pthread_join(thread, NULL);
        assert_int_equal(acquiring.code, SIMBA_OK);
        assert_int_equal(simba_locker_release(acquiring.locker, NULL), SIMBA_OK);
        simba_locker_close(acquiring.locker);
        probe_close(client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_that_comes_later_is_used, make_url, remove_folder),
        cmocka_unit_test_setup_teardown(all_can_be_closed_while_the_store_stays_away, make_url,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_is_wrong_with_the_url_fails_at_once, make_url,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_relative_path_counts_from_the_folder_of_the_opening,
                                        make_url, remove_folder),
        cmocka_unit_test(a_store_that_fails_without_a_word_grants_nothing),
        cmocka_unit_test(a_password_that_can_be_read_once_is_kept),
        cmocka_unit_test(a_password_file_is_found_from_another_folder),
        cmocka_unit_test(many_contenders_own_when_the_store_comes),
        cmocka_unit_test(a_store_that_hangs_after_an_opening_delays_nobody),
        cmocka_unit_test(a_close_does_not_wait_for_an_opening),
        cmocka_unit_test(an_opening_that_ends_after_the_close_leaves_nothing),
        cmocka_unit_test(a_close_may_meet_an_opening_at_any_time),
        cmocka_unit_test(a_locker_waits_for_what_may_heal),
    };

    return cmocka_run_group_tests(tests, make_brought, NULL);
}
