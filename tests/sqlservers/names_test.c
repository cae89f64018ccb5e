/*
 * Names that the table does not take: a start says so at once where that is known, and the log
 * where it is found out later.
 */
#include "lib/locker.h"
#include "server.h"

#include <simba/simba.h>

#include <stdatomic.h>

#define TEN "0123456789"
#define LONG_NAME TEN TEN TEN TEN TEN TEN "1234567" /* a character more than the column takes */
#define TIMES "ttl=2s&transition=2s&jitter=0ms..30ms&stop-timeout=5s"

static atomic_uint errors; /* lines at ERROR that name the limit */

static void on_log(void *user, enum simba_log_level level, const char *line)
{
    (void)user;
    if (level == SIMBA_LOG_ERROR && strstr(line, "takes 66") != NULL)
        atomic_fetch_add(&errors, 1);
}

static simba_client *open_client(bool allow_store_down)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_error error = {0};
    simba_client *client = NULL;

    options.allow_store_down = allow_store_down;
    options.log = on_log;
    atomic_store(&errors, 0);
    if (simba_client_open(server_url(&server, dialect_admin, TIMES), &options, &client, &error) !=
        SIMBA_OK)
        fail_msg("%s", error.text);
    return client;
}

static void close_client(simba_client *client)
{
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

static simba_contender *make_contender(simba_client *client)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_contender *contender = NULL;

    options.mutex = LONG_NAME;
    assert_int_equal(simba_contender_create(client, &options, &contender, NULL), SIMBA_OK);
    return contender;
}

static int work(void *user, simba_scheduler *scheduler)
{
    (void)user;
    (void)scheduler;
    return 0;
}

static void check(int code, const struct simba_error *error)
{
    assert_int_equal(code, SIMBA_EINVAL);
    assert_non_null(strstr(error->text, "67 characters"));
    assert_non_null(strstr(error->text, "takes 66"));
}

static void a_start_with_a_name_that_is_too_long_fails_at_once(void **state)
{
    struct simba_observer_options watching = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_scheduler_options working = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_client *client = open_client(false);
    simba_contender *contender = make_contender(client);
    struct simba_error error = {0};
    simba_observer *observer;
    simba_scheduler *scheduler;
    simba_locker *locker;

    check(simba_contender_start(contender, &error), &error);
    assert_int_equal(simba_contender_status(contender), SIMBA_INITIAL);
    watching.mutex = LONG_NAME;
    assert_int_equal(simba_observer_create(client, &watching, &observer, NULL), SIMBA_OK);
    check(simba_observer_start(observer, &error), &error);
    working.mutex = LONG_NAME;
    working.work = work;
    working.period_ms = 100;
    assert_int_equal(simba_scheduler_create(client, &working, &scheduler, NULL), SIMBA_OK);
    check(simba_scheduler_start(scheduler, &error), &error);
    assert_int_equal(test_locker_create(client, LONG_NAME, NULL, &locker, NULL), SIMBA_OK);
    check(simba_locker_acquire(locker, &error), &error);
    simba_contender_close(contender);
    simba_observer_close(observer);
    simba_scheduler_close(scheduler);
    simba_locker_close(locker);
    close_client(client);
}

static bool is_owner(void *contender)
{
    return simba_contender_is_owner(contender);
}

/* Any request makes the new connection, on which the table is looked at. */
static bool starts(void *contender)
{
    return simba_contender_start(contender, NULL) == SIMBA_OK;
}

static bool answers(void *client)
{
    struct simba_mutex_status *list = NULL;
    size_t count;
    int code = simba_client_status(client, NULL, 5000, &list, &count, NULL);

    simba_free(list);
    return code == SIMBA_OK;
}

static void a_column_that_was_widened_takes_it_after_the_next_connection(void **state)
{
    simba_client *client = open_client(false);
    simba_contender *contender = make_contender(client);

    assert_int_equal(simba_contender_start(contender, NULL), SIMBA_EINVAL);
    server_sql(&server, "%s", dialect_widen_mutex);
    dialect_kill_clients(&server);
    assert_true(test_wait(answers, client));
    assert_true(test_wait(starts, contender));
    assert_true(test_wait(is_owner, contender));
    simba_contender_close(contender);
    close_client(client);
    server_sql(&server, "DROP TABLE simba_mutex");
}

static bool was_told(void *user)
{
    (void)user;
    return atomic_load(&errors) > 0;
}

static void a_name_that_is_refused_later_is_logged_as_an_error(void **state)
{
    simba_contender *contender;
    simba_client *client;

    server_kill(&server);
    client = open_client(true);
    contender = make_contender(client);
    assert_int_equal(simba_contender_start(contender, NULL), SIMBA_OK);
    server_start(&server);
    assert_true(test_wait(was_told, NULL));
    assert_int_equal(simba_contender_last_error(contender, NULL), SIMBA_EINVAL);
    simba_contender_close(contender);
    close_client(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_with_a_name_that_is_too_long_fails_at_once),
        cmocka_unit_test(a_column_that_was_widened_takes_it_after_the_next_connection),
        cmocka_unit_test(a_name_that_is_refused_later_is_logged_as_an_error),
    };

    return server_run_tests("names", tests);
}
