/*
 * calendar.h - when a job is due by the calendar: the five fields of a crontab line.
 *
 * All but cli_calendar_set_zone are pure functions of their arguments and of the time zone of the
 * process.
 */
#ifndef CLI_CALENDAR_H
#define CLI_CALENDAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bit n is set where n may be the value. */
struct cli_calendar {
    uint64_t minutes;
    uint64_t hours;
    uint64_t days;     /* of the month, from 1 */
    uint64_t months;   /* from 1 */
    uint64_t weekdays; /* from 0, Sunday */
    bool any_day;      /* the field is a star; where neither is, one of both has to fit */
    bool any_weekday;
};

/* Reads "30 2 * * 1-5": minute, hour, day, month, weekday; each a star, numbers, ranges, steps, or
 * the names of months and weekdays. False, with a sentence: it is none, or no day ever fits. */
bool cli_calendar_read_cron(const char *text, struct cli_calendar *ret_calendar, char *ret_why,
                            size_t size);

/* The same for a time of each day, "02:30". */
bool cli_calendar_read_time(const char *text, struct cli_calendar *ret_calendar, char *ret_why,
                            size_t size);

/* From now on local times are those of this zone, "Europe/Berlin" or "UTC". Leaves the environment
 * as it is. Call it while there is one thread. False: the system does not know the zone. */
bool cli_calendar_set_zone(const char *zone);

/* The first instant behind that one at which a job is due, in seconds since 1970; -1: none within
 * years. A local time that does not exist, because clocks are put forward, is due when they are.
 * One that exists twice, because they are put back, is due the first time only. */
int64_t cli_calendar_next(const struct cli_calendar *calendar, int64_t after_s);

#endif
