/*
 * time.c - the one clock of the library, and durations as people write them.
 *
 * The clock counts while the machine is suspended, does not follow steps of the wall clock, and is
 * shared by all processes of a host.
 *
 * A duration is a sequence of numbers with units, each unit at most once, the larger before the
 * smaller: "250ms", "1m30s", "-200ms". ISO 8601 ("PT10S") has capital letters for the units, a 'T'
 * before those of the day, and a fraction of seconds.
 */
#include "base/time.h"

#include "base/error.h"
#include "base/text.h"

#include <simba/simba.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- The clock ------------------------------------------------------------------------------- */

int64_t sb_clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t simba_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Without the file there are no such namespaces, or they cannot be read. */
int64_t sb_clock_offset_ms(void)
{
    FILE *file = fopen("/proc/self/timens_offsets", "re");
    char clock[16];
    long long seconds, nanoseconds;
    int64_t offset_ms = 0;

    if (file == NULL)
        return 0;
    while (fscanf(file, "%15s %lld %lld", clock, &seconds, &nanoseconds) == 3)
        if (strcmp(clock, "boottime") == 0)
            offset_ms = seconds * 1000 + nanoseconds / 1000000;
    fclose(file);
    return offset_ms;
}

int64_t simba_wall_ms(int64_t at_ms)
{
    struct timespec now;
    int64_t ahead_ms; /* of the wall clock */
    int64_t wall_ms;

    clock_gettime(CLOCK_REALTIME, &now);
    ahead_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - simba_now_ms();
    if (at_ms == SIMBA_INFINITE || __builtin_add_overflow(at_ms, ahead_ms, &wall_ms))
        return SIMBA_INFINITE;
    return wall_ms;
}

struct timespec sb_clock_deadline(int64_t ms)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(ms / 1000);
    at.tv_nsec += (long)(ms % 1000 * 1000000);
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

/* ---- Durations ------------------------------------------------------------------------------- */

struct unit {
    const char *name;
    uint64_t ms;
};

static const struct unit units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};

#define UNIT_COUNT (sizeof(units) / sizeof(units[0]))

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits; returns how many there were, 0 also when the number does not fit. */
static size_t read_number(const char *text, int64_t *ret_number)
{
    int64_t number = 0;
    size_t length = 0;

    for (; is_digit(text[length]); length++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, text[length] - '0', &number))
            return 0;
    *ret_number = number;
    return length;
}

/* Finds the unit whose letters are all that stands before the next number or the end. */
static size_t find_unit(const char *text, size_t *ret_length)
{
    size_t length = strcspn(text, "0123456789");

    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (strlen(units[i].name) == length && memcmp(units[i].name, text, length) == 0) {
            *ret_length = length;
            return i;
        }
    }
    return UNIT_COUNT;
}

static bool read_sum(const char *text, int64_t *ret_ms)
{
    size_t next_unit = 0;
    int64_t sum = 0;

    do {
        int64_t number;
        size_t digits = read_number(text, &number);
        size_t letters;
        size_t unit;

        if (digits == 0)
            return false;
        unit = find_unit(text + digits, &letters);
        if (unit < next_unit || unit == UNIT_COUNT)
            return false;
        if (__builtin_mul_overflow(number, (int64_t)units[unit].ms, &number) ||
            __builtin_add_overflow(sum, number, &sum))
            return false;
        next_unit = unit + 1;
        text += digits + letters;
    } while (*text != '\0');
    *ret_ms = sum;
    return true;
}

/* ---- ISO 8601 -------------------------------------------------------------------------------- */

#define ISO_MAX 64 /* bytes */

/* Takes ".5" out of "1.5S", which ends the text, as milliseconds. */
static bool take_fraction(char *text, int64_t *ret_ms)
{
    char *point = strchr(text, '.');
    int64_t ms = 0;
    size_t digits;

    *ret_ms = 0;
    if (point == NULL)
        return true;
    digits = strspn(point + 1, "0123456789");
    if (digits == 0 || digits > 9 || strcmp(point + 1 + digits, "S") != 0)
        return false;
    for (size_t i = 0; i < 3; i++)
        ms = ms * 10 + (i < digits ? point[1 + i] - '0' : 0);
    memmove(point, point + 1 + digits, 2);
    *ret_ms = ms;
    return true;
}

/* The letter of the simple form for a unit of ISO 8601; 0 where it is none on this side of the
 * 'T'. */
static char iso_unit(char unit, bool in_day)
{
    if (!in_day)
        return unit == 'D' ? 'd' : '\0';
    return unit == 'H' ? 'h' : unit == 'M' ? 'm' : unit == 'S' ? 's' : '\0';
}

/* "1DT2H" becomes "1d2h". Every unit stands behind a number, and something behind the 'T'. */
static bool translate_iso(char *text)
{
    bool in_day = false;
    char *out = text;

    for (const char *in = text; *in != '\0'; in++) {
        bool after_digit = out > text && is_digit(out[-1]);
        char unit = iso_unit(*in, in_day);

        if (is_digit(*in))
            *out++ = *in;
        else if (unit != '\0' && after_digit)
            *out++ = unit;
        else if (*in == 'T' && !in_day && !after_digit && in[1] != '\0')
            in_day = true;
        else
            return false;
    }
    *out = '\0';
    return true;
}

/* `text` is what follows the 'P'. */
static bool read_iso(const char *text, int64_t *ret_ms)
{
    char simple[ISO_MAX];
    int64_t fraction_ms;
    int64_t ms;

    if (!sb_text_copy(simple, sizeof simple, text) || !take_fraction(simple, &fraction_ms) ||
        !translate_iso(simple) || !read_sum(simple, &ms) ||
        __builtin_add_overflow(ms, fraction_ms, &ms))
        return false;
    *ret_ms = ms;
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool read_any(const char *text, int64_t *ret_ms)
{
    if (text[0] == 'P')
        return read_iso(text + 1, ret_ms);
    return strcmp(text, "0") == 0 || read_sum(text, ret_ms);
}

static int fail_parse(const char *text, struct simba_error *error)
{
    size_t digits = strspn(text, "0123456789");

    if (digits > 0 && digits < 20 && text[digits] == '\0')
        return sb_error_set(error, SIMBA_EINVAL,
                            "the duration '%s' has no unit: write %ss for seconds or %sms for "
                            "milliseconds",
                            text, text, text);
    return sb_error_set(error, SIMBA_EINVAL,
                        "'%.40s' is not a duration: write 250ms, 10s, 1m30s or 2h", text);
}

int simba_duration_parse(const char *text, int64_t *ret_ms, struct simba_error *error)
{
    bool negative;
    int64_t ms = 0;

    if (ret_ms == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_duration_parse needs ret_ms");
    if (text == NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the duration is missing");
    negative = text[0] == '-';
    if (!read_any(text + negative, &ms))
        return fail_parse(text, error);
    *ret_ms = negative ? -ms : ms;
    return SIMBA_OK;
}

const char *simba_duration_format(int64_t ms, char *buffer, size_t size)
{
    /* Unsigned, because the smallest int64_t has no positive twin. */
    uint64_t left = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
    struct sb_text text;

    sb_text_init(&text, buffer, size);
    if (ms == 0)
        sb_text_add(&text, "0");
    if (ms < 0)
        sb_text_add(&text, "-");
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (left >= units[i].ms)
            sb_text_add(&text, "%" PRIu64 "%s", left / units[i].ms, units[i].name);
        left %= units[i].ms;
    }
    return buffer;
}
