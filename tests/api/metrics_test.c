/*
 * The metrics of a client as text.
 */
#include "probe.h"

#include "lib/locker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[SIMBA_METRICS_TEXT_MAX];

static const char *write_text(simba_client *client, enum simba_metrics_format format)
{
    size_t length = 0;

    assert_int_equal(simba_client_metrics_text(client, format, text, sizeof text, &length),
                     SIMBA_OK);
    assert_int_equal(length, strlen(text));
    return text;
}

/* The number behind a line's beginning; the line is there. */
static double value_of(const char *line)
{
    char begin[512];

    snprintf(begin, sizeof begin, "\n%s ", line);
    const char *found = strstr(text, begin);
    if (found == NULL)
        fail_msg("there is no line '%s' in: %s", line, text);
    return strtod(found + strlen(begin), NULL);
}

static size_t count_of(const char *part)
{
    size_t count = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static simba_locker *acquire(simba_client *client, const char *mutex)
{
    simba_locker *locker = NULL;

    assert_int_equal(test_locker_create(client, mutex, NULL, &locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    return locker;
}

static void a_term_is_told_from_its_begin_to_its_end(void **state)
{
    simba_client *client = probe_open("memory:metrics?" PROBE_LONG);
    simba_locker *locker = acquire(client, "m");

    write_text(client, SIMBA_METRICS_OPENMETRICS);
    assert_int_equal(value_of("simba_is_owner{mutex=\"m\"}"), 1);
    assert_true(value_of("simba_lease_remaining_seconds{mutex=\"m\"}") > 30);
    assert_true(value_of("simba_lease_remaining_seconds{mutex=\"m\"}") <= 40);
    assert_int_equal(value_of("simba_fence{mutex=\"m\"}"), simba_locker_fence(locker));
    assert_int_equal(value_of("simba_wait_seconds_count"), 1);
    assert_int_equal(value_of("simba_hold_seconds_count"), 0);
    assert_int_equal(value_of("simba_store_request_seconds_count{op=\"acquire\"}"), 1);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    write_text(client, SIMBA_METRICS_OPENMETRICS);
    assert_int_equal(count_of("{mutex="), 0);
    assert_int_equal(value_of("simba_hold_seconds_count"), 1);
    assert_int_equal(value_of("simba_releases_total"), 1);
    simba_locker_close(locker);
    probe_close(client);
}

static void both_formats_name_counters_as_they_should(void **state)
{
    simba_client *client = probe_open("memory:metrics?" PROBE_LONG);

    write_text(client, SIMBA_METRICS_OPENMETRICS);
    assert_int_equal(count_of("# TYPE simba_acquisitions counter\nsimba_acquisitions_total 0\n"),
                     1);
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    write_text(client, SIMBA_METRICS_PROMETHEUS);
    assert_int_equal(
        count_of("# TYPE simba_acquisitions_total counter\nsimba_acquisitions_total 0\n"), 1);
    assert_int_equal(count_of("# EOF"), 0);
    probe_close(client);
}

static void names_are_escaped(void **state)
{
    simba_client *client = probe_open("memory:metrics?" PROBE_LONG);
    simba_locker *locker = acquire(client, "a\"b\\c \xc3\xa9\xff");

    write_text(client, SIMBA_METRICS_PROMETHEUS);
    assert_int_equal(value_of("simba_is_owner{mutex=\"a\\\"b\\\\c \xc3\xa9?\"}"), 1);
    simba_locker_close(locker);
    probe_close(client);
}

static void so_many_mutexes_and_no_more_have_lines(void **state)
{
    enum { MUTEXES = SIMBA_METRICS_MUTEXES_MAX + 20 };
    simba_client *client = probe_open("memory:metrics?" PROBE_LONG);
    simba_locker *lockers[MUTEXES];
    char mutex[SIMBA_MUTEX_MAX + 1];

    for (int i = 0; i < MUTEXES; i++) {
        memset(mutex, '"', SIMBA_MUTEX_MAX); /* as long as a line can be */
        snprintf(mutex + SIMBA_MUTEX_MAX - 4, 5, "%04d", i);
        lockers[i] = acquire(client, mutex);
    }
    write_text(client, SIMBA_METRICS_PROMETHEUS);
    assert_int_equal(count_of("\nsimba_is_owner{"), SIMBA_METRICS_MUTEXES_MAX);
    assert_int_equal(value_of("simba_owned"), MUTEXES);
    for (int i = 0; i < MUTEXES; i++)
        simba_locker_close(lockers[i]);
    probe_close(client);
}

static void wrong_calls_are_refused(void **state)
{
    simba_client *client = probe_open("memory:metrics?" PROBE_LONG);
    size_t length = 7;

    assert_int_equal(simba_client_metrics_text(NULL, 0, text, sizeof text, &length), SIMBA_EMISUSE);
    assert_int_equal(simba_client_metrics_text(client, 0, NULL, 9, &length), SIMBA_EMISUSE);
    assert_int_equal(simba_client_metrics_text(client, 0, text, sizeof text, NULL), SIMBA_EMISUSE);
    assert_int_equal(simba_client_metrics_text(client, 2, text, sizeof text, &length),
                     SIMBA_EINVAL);
    assert_int_equal(simba_client_metrics_text(client, 0, text, 100, &length), SIMBA_EINVAL);
    assert_int_equal(length, 7);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_term_is_told_from_its_begin_to_its_end),
        cmocka_unit_test(both_formats_name_counters_as_they_should),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(so_many_mutexes_and_no_more_have_lines),
        cmocka_unit_test(wrong_calls_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
