/*
 * calendar.c - when a job is due by the calendar. Must not know jobs, nor the time.
 *
 * A wall time here is what a local clock shows, counted in seconds as if it were UTC. So days and
 * their names are plain arithmetic, and only `resolve` knows zones.
 */
#include "cli/calendar.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DAY_S 86400
#define DAYS_MAX (8 * 366 + 2) /* the 29th of February may be eight years away */
#define ZONE_FOLDER "/usr/share/zoneinfo"

/* ---- Reading --------------------------------------------------------------------------------- */

struct field {
    const char *what;
    unsigned first;
    unsigned last;
    const char *names; /* three letters each, from `first` on; NULL: none */
};

static const struct field minute_field = {"minute", 0, 59, NULL};
static const struct field hour_field = {"hour", 0, 23, NULL};
static const struct field day_field = {"day", 1, 31, NULL};
static const struct field month_field = {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"};
static const struct field weekday_field = {"weekday", 0, 7, "sunmontuewedthufrisat"};

static bool read_value(const struct field *field, const char **text, unsigned *ret_value)
{
    char *end;
    unsigned long number;

    if (!isdigit((unsigned char)**text)) {
        for (size_t i = 0; field->names != NULL && field->names[3 * i] != '\0'; i++)
            if (strncasecmp(*text, field->names + 3 * i, 3) == 0) {
                *ret_value = field->first + (unsigned)i;
                *text += 3;
                return true;
            }
        return false;
    }
    number = strtoul(*text, &end, 10);
    *text = end;
    *ret_value = (unsigned)number;
    return number >= field->first && number <= field->last;
}

/* A star, a value or a range, and perhaps a step. */
static bool read_part(const struct field *field, const char **text, uint64_t *set)
{
    unsigned from = field->first;
    unsigned to = field->last;
    unsigned long step = 1;
    bool single = false;
    char *end;

    if (**text == '*') {
        (*text)++;
    } else {
        if (!read_value(field, text, &from))
            return false;
        single = **text != '-';
        to = from;
        if (!single) {
            (*text)++;
            if (!read_value(field, text, &to) || to < from)
                return false;
        }
    }
    if (**text == '/') {
        (*text)++;
        if (!isdigit((unsigned char)**text))
            return false;
        step = strtoul(*text, &end, 10);
        *text = end;
        if (step == 0 || step > field->last)
            return false;
        to = single ? field->last : to;
    }
    for (unsigned long i = from; i <= to; i += step)
        *set |= UINT64_C(1) << i;
    return true;
}

static bool read_field(const struct field *field, const char **text, uint64_t *ret_set,
                       bool *ret_any, char *ret_why, size_t size)
{
    const char *begin = *text += strspn(*text, " \t");
    uint64_t set = 0;
    bool more = true;

    *ret_any = *begin == '*';
    while (more && read_part(field, text, &set)) {
        more = **text == ',';
        if (more)
            (*text)++;
    }
    if (more || (**text != ' ' && **text != '\t' && **text != '\0')) {
        snprintf(ret_why, size, "the %s '%.*s' is not understood", field->what,
                 (int)strcspn(begin, " \t"), begin);
        return false;
    }
    *ret_set = set;
    return true;
}

bool cli_calendar_read_cron(const char *text, struct cli_calendar *ret_calendar, char *ret_why,
                            size_t size)
{
    struct cli_calendar c = {.minutes = 0};
    bool ignored;

    if (!read_field(&minute_field, &text, &c.minutes, &ignored, ret_why, size) ||
        !read_field(&hour_field, &text, &c.hours, &ignored, ret_why, size) ||
        !read_field(&day_field, &text, &c.days, &c.any_day, ret_why, size) ||
        !read_field(&month_field, &text, &c.months, &ignored, ret_why, size) ||
        !read_field(&weekday_field, &text, &c.weekdays, &c.any_weekday, ret_why, size))
        return false;
    if (text[strspn(text, " \t")] != '\0') {
        snprintf(ret_why, size, "there are more than five fields");
        return false;
    }
    if ((c.weekdays & 1 << 7) != 0) /* Sunday has two numbers */
        c.weekdays |= 1;
    if (cli_calendar_next(&c, 0) < 0) {
        snprintf(ret_why, size, "no day ever fits");
        return false;
    }
    *ret_calendar = c;
    return true;
}

bool cli_calendar_read_time(const char *text, struct cli_calendar *ret_calendar, char *ret_why,
                            size_t size)
{
    struct cli_calendar c = {.days = ~UINT64_C(0),
                             .months = ~UINT64_C(0),
                             .weekdays = ~UINT64_C(0),
                             .any_day = true,
                             .any_weekday = true};
    size_t digits = strspn(text, "0123456789");
    const char *colon = text + digits;
    bool shaped = digits >= 1 && digits <= 2 && *colon == ':' &&
                  strspn(colon + 1, "0123456789") == 2 && colon[3] == '\0';
    unsigned long hour = shaped ? strtoul(text, NULL, 10) : 0;
    unsigned long minute = shaped ? strtoul(colon + 1, NULL, 10) : 0;

    if (!shaped || hour > 23 || minute > 59) {
        snprintf(ret_why, size, "'%s' is no time of a day, such as 02:30", text);
        return false;
    }
    c.hours = UINT64_C(1) << hour;
    c.minutes = UINT64_C(1) << minute;
    *ret_calendar = c;
    return true;
}

/* ---- Zones ----------------------------------------------------------------------------------- */

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

/* The rule itself, such as CET-1CEST,M3.5.0,M10.5.0/3: a name, an offset, and behind the comma when
 * clocks change. */
static bool is_rule(const char *zone)
{
    size_t quoted = zone[0] == '<' ? 1 + strspn(zone + 1, LETTERS DIGITS "+-") : 0;
    size_t name = quoted > 0 && zone[quoted] == '>' ? quoted + 1 : strspn(zone, LETTERS);
    const char *offset = zone + name;

    offset += *offset == '+' || *offset == '-';
    return name >= 3 && isdigit((unsigned char)*offset) && strchr(offset, ',') != NULL &&
           strspn(zone, LETTERS DIGITS "<>+-,./:") == strlen(zone);
}

/* A name below the folder of zones, no way out of it. */
static bool is_name(const char *zone)
{
    for (const char *part = zone;; part++) {
        size_t length = strspn(part, LETTERS DIGITS "_+-");

        if (length == 0)
            return false;
        part += length;
        if (*part != '/')
            return *part == '\0';
    }
}

/* Of all files in the folder those of zones begin so. */
static bool is_zone_file(const char *path)
{
    struct stat status;
    char begin[4];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool is_zone = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                   read(fd, begin, sizeof begin) == (ssize_t)sizeof begin &&
                   memcmp(begin, "TZif", sizeof begin) == 0;

    if (fd >= 0)
        close(fd);
    return is_zone;
}

/* The C library takes any name that it does not know for UTC. */
static bool is_known(const char *zone)
{
    char path[256];

    if (strcmp(zone, "UTC") == 0 || is_rule(zone))
        return true;
    /* those below right/ count leap seconds, which the system's clock does not */
    return is_name(zone) && strncmp(zone, "right/", strlen("right/")) != 0 &&
           snprintf(path, sizeof path, ZONE_FOLDER "/%s", zone) < (int)sizeof path &&
           is_zone_file(path);
}

/* localtime_r goes on with the zone that tzset has read last. */
bool cli_calendar_set_zone(const char *zone)
{
    const char *before = getenv("TZ");
    char *kept = before != NULL ? strdup(before) : NULL;

    if (!is_known(zone) || (before != NULL && kept == NULL)) {
        free(kept);
        return false;
    }
    setenv("TZ", zone, 1);
    tzset();
    if (kept != NULL)
        setenv("TZ", kept, 1);
    else
        unsetenv("TZ");
    free(kept);
    return true;
}

static int64_t offset_at(int64_t at_s)
{
    time_t at = (time_t)at_s;
    struct tm local = {.tm_gmtoff = 0};

    localtime_r(&at, &local);
    return local.tm_gmtoff;
}

/* The instant at which local clocks show a wall time; `before` and `after` are the offsets of the
 * zone a day before and a day after.
 *
 *     put forward   01:30   [02:30 does not exist]   03:30      due when the offset changes
 *     put back      02:30 with the old offset, 02:30 with the new one: the first
 */
static int64_t resolve(int64_t wall_s)
{
    int64_t before = offset_at(wall_s - DAY_S);
    int64_t after = offset_at(wall_s + DAY_S);
    int64_t late_s = wall_s - before; /* where clocks were put forward */
    int64_t early_s = wall_s - after;

    if (before == after || offset_at(late_s) == before)
        return late_s;
    if (offset_at(early_s) == after)
        return early_s;
    while (late_s - early_s > 1) {
        int64_t middle_s = early_s + (late_s - early_s) / 2;

        if (offset_at(middle_s) == after)
            late_s = middle_s;
        else
            early_s = middle_s;
    }
    return late_s;
}

/* ---- The next one ---------------------------------------------------------------------------- */

static bool fits(uint64_t set, int value)
{
    return (set >> value & 1) != 0;
}

static bool fits_day(const struct cli_calendar *c, int64_t day_s)
{
    time_t at = (time_t)day_s;
    struct tm day;
    bool by_day;
    bool by_weekday;

    gmtime_r(&at, &day);
    by_day = fits(c->days, day.tm_mday);
    by_weekday = fits(c->weekdays, day.tm_wday);
    if (!fits(c->months, day.tm_mon + 1))
        return false;
    return c->any_day || c->any_weekday ? by_day && by_weekday : by_day || by_weekday;
}

/* Of that day, behind that instant; -1: none. Later wall times of a day are never earlier. */
static int64_t next_of_day(const struct cli_calendar *c, int64_t day_s, int64_t after_s)
{
    for (int hour = 0; hour < 24; hour++)
        for (int minute = 0; fits(c->hours, hour) && minute < 60; minute++) {
            int64_t at_s;

            if (!fits(c->minutes, minute))
                continue;
            at_s = resolve(day_s + hour * 3600 + minute * 60);
            if (at_s > after_s)
                return at_s;
        }
    return -1;
}

int64_t cli_calendar_next(const struct cli_calendar *c, int64_t after_s)
{
    int64_t wall_s = after_s + offset_at(after_s);
    int64_t day_s = wall_s - wall_s % DAY_S - DAY_S;

    for (int i = 0; i < DAYS_MAX; i++, day_s += DAY_S) {
        int64_t at_s = fits_day(c, day_s) ? next_of_day(c, day_s, after_s) : -1;

        if (at_s >= 0)
            return at_s;
    }
    return -1;
}
