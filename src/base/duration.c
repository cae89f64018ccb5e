/*
 * duration.c - durations as people write them: "250ms", "1m30s", "-200ms".
 *
 * The form is a sequence of numbers with units, each unit at most once, the larger before the smaller.
 */
#include "base/error.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t ms;
};

static const struct unit units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};

#define UNIT_COUNT (sizeof(units) / sizeof(units[0]))

/* Reads digits; returns how many there were, 0 also when the number does not fit. */
static size_t read_number(const char *text, int64_t *ret_number)
{
    int64_t number = 0;
    size_t length = 0;

    for (; text[length] >= '0' && text[length] <= '9'; length++)
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

int simba_duration_parse(const char *text, int64_t *ret_ms, struct simba_error *error)
{
    bool negative;
    int64_t ms = 0;

    if (text == NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the duration is missing");
    negative = text[0] == '-';
    if (strcmp(text + negative, "0") != 0 && !read_sum(text + negative, &ms))
        return sb_error_set(error, SIMBA_EINVAL,
                            "'%.40s' is no duration: write it like 250ms, 10s, 1m30s or 2h, at "
                            "most 2^63 ms",
                            text);
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
