/*
 * text.c - a string builder with a cap, UTF-8, and how alike two names are: how many letters have
 * to be added, left out, replaced or swapped with their neighbour to make one from the other.
 */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sb_text_init(struct sb_text *text, char *data, size_t size)
{
    text->data = data;
    text->size = size;
    text->length = 0;
    text->cut = size == 0;
    if (size > 0)
        data[0] = '\0';
}

void sb_text_add(struct sb_text *text, const char *format, ...)
{
    size_t room = text->size - text->length;
    va_list arguments;
    int wanted;

    if (text->cut)
        return;
    va_start(arguments, format);
    wanted = vsnprintf(text->data + text->length, room, format, arguments);
    va_end(arguments);
    if (wanted < 0) {
        text->data[text->length] = '\0';
        text->cut = true;
    } else if ((size_t)wanted >= room) {
        text->length = text->size - 1;
        text->cut = true;
    } else {
        text->length += (size_t)wanted;
    }
}

bool sb_text_copy(char *target, size_t size, const char *source)
{
    size_t length = strlen(source);
    bool fits = length < size;

    if (size == 0)
        return false;
    if (!fits)
        length = size - 1;
    memcpy(target, source, length);
    target[length] = '\0';
    return fits;
}

void sb_text_printable(char *target, size_t size, const char *bytes, size_t length)
{
    if (length >= size)
        length = size - 1;
    for (size_t i = 0; i < length; i++)
        target[i] = (unsigned char)bytes[i] < 0x20 || bytes[i] == 0x7f ? '?' : bytes[i];
    if (length == 0)
        target[length++] = '?';
    target[length] = '\0';
}

static bool goes_on(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80; /* with a character of UTF-8 */
}

void sb_text_fit(char *target, size_t size, const char *source)
{
    static const char gap[] = "...";
    size_t head = (size - sizeof gap) / 2;
    size_t tail;

    if (sb_text_copy(target, size, source))
        return;
    tail = strlen(source) - head;
    while (head > 0 && goes_on(source[head]))
        head--;
    while (goes_on(source[tail]))
        tail++;
    snprintf(target + head, size - head, "%s%s", gap, source + tail);
}

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* The bytes of a UTF-8 sequence by its first byte; 0 where none begins with it. */
static size_t sequence_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef)
        return 3;
    if (first >= 0xf0 && first <= 0xf4)
        return 4;
    return 0;
}

/* Overlong forms, surrogates and what lies behind U+10FFFF show in the second byte. */
static bool second_is_valid(const unsigned char *bytes)
{
    switch (bytes[0]) {
    case 0xe0:
        return bytes[1] >= 0xa0;
    case 0xed:
        return bytes[1] <= 0x9f;
    case 0xf0:
        return bytes[1] >= 0x90;
    case 0xf4:
        return bytes[1] <= 0x8f;
    default:
        return true;
    }
}

size_t sb_utf8_length(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t length = sequence_length(bytes[0]);

    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    }
    return length > 1 && !second_is_valid(bytes) ? 0 : length;
}

bool sb_utf8_is_valid(const char *text)
{
    size_t length = 1;

    for (; *text != '\0' && length > 0; text += length)
        length = sb_utf8_length(text);
    return length > 0;
}

void sb_text_add_label(struct sb_text *text, const char *value)
{
    for (size_t length; *value != '\0'; value += length) {
        length = sb_utf8_length(value);
        if (length == 0) {
            sb_text_add(text, "?");
            length = 1;
        } else if (*value == '\n') {
            sb_text_add(text, "\\n");
        } else {
            bool escaped = *value == '\\' || *value == '"';
            sb_text_add(text, "%s%.*s", escaped ? "\\" : "", (int)length, value);
        }
    }
}

/* ---- Names that are alike -------------------------------------------------------------------- */

/* A third of the letters may differ, but no more than so many: other names are meant otherwise. */
#define DISTANCE_MAX 3

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t limit_of(size_t length)
{
    size_t third = length / 3;

    return third < 1 ? 1 : least(third, DISTANCE_MAX);
}

/* Row i of the table has the distances of a's first i letters to each beginning of b. Only the last
 * three rows are kept. */
static size_t measure(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][SB_NEAR_MAX];

    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *last = rows[(i - 1) % 3];
        const size_t *before = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), 1 + least(last[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

void sb_near_offer_part(struct sb_near *near, const char *written, size_t length,
                        const char *candidate)
{
    size_t candidate_length = strlen(candidate);
    size_t distance;

    if (length >= SB_NEAR_MAX || candidate_length >= SB_NEAR_MAX)
        return;
    distance = measure(written, length, candidate, candidate_length);
    if (distance > limit_of(length) || (near->name[0] != '\0' && distance >= near->distance))
        return;
    memcpy(near->name, candidate, candidate_length + 1);
    near->distance = distance;
}

void sb_near_offer(struct sb_near *near, const char *written, const char *candidate)
{
    sb_near_offer_part(near, written, strlen(written), candidate);
}
