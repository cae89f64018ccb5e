/*
 * calendar_test.c - when a job is due by the calendar, on ordinary days and on those on which
 * clocks change. The expected instants are written in UTC.
 */
#include "test.h"

#include "cli/calendar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The rules of Europe/Berlin and New York, without a file of the system; and a zone with half an
 * hour. */
#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"
#define NEW_YORK "EST5EDT,M3.2.0,M11.1.0"
#define LORD_HOWE "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"

static int64_t utc(const char *text)
{
    struct tm tm = {.tm_sec = 0};

    assert_non_null(strptime(text, "%Y-%m-%d %H:%M:%S", &tm));
    return timegm(&tm);
}

static struct cli_calendar cron(const char *text)
{
    struct cli_calendar calendar;
    char why[128] = "";

    if (!cli_calendar_read_cron(text, &calendar, why, sizeof why))
        fail_msg("%s: %s", text, why);
    return calendar;
}

/* The runs that follow an instant, one after the other. */
static void expect(const char *zone, const char *line, const char *after, const char *const *runs)
{
    struct cli_calendar calendar = cron(line);
    int64_t at_s = utc(after);

    assert_true(cli_calendar_set_zone(zone));
    for (size_t i = 0; runs[i] != NULL; i++) {
        char text[32];
        time_t at;

        at_s = cli_calendar_next(&calendar, at_s);
        at = (time_t)at_s;
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", gmtime(&at));
        assert_true(cli_calendar_set_zone(zone)); /* gmtime has read TZ again */
        assert_string_equal(text, runs[i]);
    }
}

#define EXPECT(zone, line, after, ...)                                                             \
    expect(zone, line, after, (const char *const[]){__VA_ARGS__, NULL})

static void each_field_counts(void **state)
{
    (void)state;
    EXPECT("UTC", "30 2 * * *", "2026-11-18 02:29:59", "2026-11-18 02:30:00",
           "2026-11-19 02:30:00");
    EXPECT("UTC", "30 2 * * *", "2026-11-18 02:30:00", "2026-11-19 02:30:00");
    EXPECT("UTC", "*/20 9-10 * * *", "2026-11-18 09:41:00", "2026-11-18 10:00:00",
           "2026-11-18 10:20:00", "2026-11-18 10:40:00", "2026-11-19 09:00:00");
    EXPECT("UTC", "30 2 * * 1-5", "2026-11-20 03:00:00", "2026-11-23 02:30:00"); /* a Friday */
    EXPECT("UTC", "0 0 * * sun", "2026-11-20 03:00:00", "2026-11-22 00:00:00");
    EXPECT("UTC", "0 0 * * 7", "2026-11-20 03:00:00", "2026-11-22 00:00:00");
    EXPECT("UTC", "5/30 * * * *", "2026-11-20 03:00:00", "2026-11-20 03:05:00",
           "2026-11-20 03:35:00", "2026-11-20 04:05:00");
    EXPECT("UTC", "0 12 1,15 jan *", "2026-11-20 03:00:00", "2027-01-01 12:00:00",
           "2027-01-15 12:00:00", "2028-01-01 12:00:00");
    EXPECT("UTC", "0 0 29 2 *", "2096-03-01 00:00:00", "2104-02-29 00:00:00");
    EXPECT("UTC", "0 0 31 * *", "2026-03-31 00:00:00", "2026-05-31 00:00:00");
}

/* As cron does: where both are given, one of them is enough. */
static void a_day_of_the_month_or_of_the_week_is_enough(void **state)
{
    (void)state;
    EXPECT("UTC", "0 0 13 * 5", "2026-11-10 00:00:00", "2026-11-13 00:00:00", "2026-11-20 00:00:00",
           "2026-11-27 00:00:00", "2026-12-04 00:00:00", "2026-12-11 00:00:00",
           "2026-12-13 00:00:00");
}

/* In Berlin 02:00 becomes 03:00 on the 29th of March 2026, at 01:00 UTC. */
static void a_time_that_does_not_exist_is_due_when_clocks_are_put_forward(void **state)
{
    (void)state;
    EXPECT(BERLIN, "30 2 * * *", "2026-03-28 00:00:00", "2026-03-28 01:30:00",
           "2026-03-29 01:00:00", "2026-03-30 00:30:00");
    EXPECT(BERLIN, "59 1 * * *", "2026-03-29 00:00:00", "2026-03-29 00:59:00",
           "2026-03-29 23:59:00");
    EXPECT(BERLIN, "0 3 * * *", "2026-03-28 12:00:00", "2026-03-29 01:00:00",
           "2026-03-30 01:00:00");
    EXPECT(BERLIN, "*/30 * * * *", "2026-03-29 00:00:00", "2026-03-29 00:30:00",
           "2026-03-29 01:00:00", "2026-03-29 01:30:00");
    EXPECT(NEW_YORK, "30 2 * * *", "2026-03-08 00:00:00", "2026-03-08 07:00:00",
           "2026-03-09 06:30:00");
    EXPECT(LORD_HOWE, "15 2 * * *", "2026-10-03 00:00:00", "2026-10-03 15:30:00",
           "2026-10-04 15:15:00");
}

/* In Berlin 03:00 becomes 02:00 on the 25th of October 2026, at 01:00 UTC. */
static void a_time_that_exists_twice_is_due_once(void **state)
{
    (void)state;
    EXPECT(BERLIN, "30 2 * * *", "2026-10-24 12:00:00", "2026-10-25 00:30:00",
           "2026-10-26 01:30:00");
    EXPECT(BERLIN, "30 2 * * *", "2026-10-25 00:30:00", "2026-10-26 01:30:00");
    EXPECT(BERLIN, "30 2 * * *", "2026-10-25 01:00:00", "2026-10-26 01:30:00");
    EXPECT(BERLIN, "0 3 * * *", "2026-10-25 00:00:00", "2026-10-25 02:00:00");
    EXPECT(NEW_YORK, "30 1 * * *", "2026-11-01 00:00:00", "2026-11-01 05:30:00",
           "2026-11-02 06:30:00");
}

static void a_zone_of_the_system_has_its_rules(void **state)
{
    (void)state;
    if (!cli_calendar_set_zone("Europe/Berlin"))
        skip();
    EXPECT("Europe/Berlin", "30 2 * * *", "2026-03-28 12:00:00", "2026-03-29 01:00:00",
           "2026-03-30 00:30:00");
}

static void what_is_no_crontab_line_is_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "*/70 * * * *",
        "*/4294967297 * * * *",
        "*/18446744073709551617 * * * *",
        "0-30/4294967301 * * * *",
        "1,,2 * * * *",
        "a * * * *",
        "0 0 30 2 *",
        "0 0 31 4,6 *",
        "1- * * * *",
        "1, * * * *",
        "-1 * * * *",
        "* * * * mo",
        "1x * * * *",
        "*/ * * * *",
        "99999999999999999999 * * * *",
        "** * * * *",
    };
    struct cli_calendar calendar;
    char why[128];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        why[0] = '\0';
        if (cli_calendar_read_cron(wrong[i], &calendar, why, sizeof why))
            fail_msg("'%s' was taken", wrong[i]);
        assert_true(why[0] != '\0');
    }
}

static void a_time_of_the_day_is_read(void **state)
{
    static const char *const wrong[] = {"",       "2",       "2:3",   "24:00", "02:60",
                                        "02:30x", "-2:30",   "2.30",  "02: 3", " 2:30",
                                        "02:+3",  "02:  13", "002:30"};
    struct cli_calendar calendar;
    char why[128];

    (void)state;
    assert_true(cli_calendar_set_zone("UTC"));
    assert_true(cli_calendar_read_time("02:30", &calendar, why, sizeof why));
    assert_int_equal(cli_calendar_next(&calendar, utc("2026-11-18 03:00:00")),
                     utc("2026-11-19 02:30:00"));
    assert_true(cli_calendar_read_time("2:30", &calendar, why, sizeof why));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (cli_calendar_read_time(wrong[i], &calendar, why, sizeof why))
            fail_msg("'%s' was taken", wrong[i]);
}

static void a_zone_that_nobody_knows_is_refused(void **state)
{
    (void)state;
    setenv("TZ", "UTC", 1);
    assert_false(cli_calendar_set_zone("Europe/Nowhere"));
    assert_false(cli_calendar_set_zone(""));
    assert_false(cli_calendar_set_zone("../../../etc/passwd"));
    assert_false(cli_calendar_set_zone("/etc/localtime"));
    assert_true(cli_calendar_set_zone(NEW_YORK));
    assert_true(cli_calendar_set_zone("<+0545>-5:45,M3.5.0,M10.5.0"));
    assert_string_equal(getenv("TZ"), "UTC");
}

static void only_a_file_of_a_zone_below_the_folder_of_zones_is_one(void **state)
{
    static const char *const wrong[] = {
        "Europe",        "Europe/",   "Europe//Berlin", "./Europe/Berlin", "Europe/./Berlin",
        "zone.tab",      "tzdata.zi", ":Europe/Berlin", ":/etc/localtime", "foo,bar",
        "a,/etc/passwd", "abc,/x",    "CET-1CEST,\033", "../zoneinfo/UTC", "<CET-1,M3.5.0,M10.5.0",
    };
    char longest[600];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (cli_calendar_set_zone(wrong[i]))
            fail_msg("'%s' was taken", wrong[i]);
    memset(longest, '/', sizeof longest);
    memcpy(longest, "Europe", 6);
    memcpy(longest + 512 - sizeof "/usr/share/zoneinfo/" - 5, "Berlin", 6);
    longest[sizeof longest - 1] = '\0';
    assert_false(cli_calendar_set_zone(longest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_counts),
        cmocka_unit_test(a_day_of_the_month_or_of_the_week_is_enough),
        cmocka_unit_test(a_time_that_does_not_exist_is_due_when_clocks_are_put_forward),
        cmocka_unit_test(a_time_that_exists_twice_is_due_once),
        cmocka_unit_test(a_zone_of_the_system_has_its_rules),
        cmocka_unit_test(what_is_no_crontab_line_is_refused),
        cmocka_unit_test(a_time_of_the_day_is_read),
        cmocka_unit_test(a_zone_that_nobody_knows_is_refused),
        cmocka_unit_test(only_a_file_of_a_zone_below_the_folder_of_zones_is_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
