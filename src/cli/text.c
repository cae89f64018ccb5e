/*
 * text.c - strings on their way to a terminal or into JSON.
 */
#include "cli/text.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

static bool is_control(const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;

    if (length == 1)
        return bytes[0] < 0x20 || bytes[0] == 0x7f;
    return length == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0;
}

void cli_text_printable(const char *text, char *buffer, size_t size)
{
    size_t used = 0;

    while (*text != 0) {
        size_t length = sb_utf8_length(text);
        size_t step = length > 0 ? length : 1;
        if (used + step >= size)
            break;
        if (length == 0 || is_control(text, length)) {
            buffer[used++] = '?';
        } else {
            memcpy(buffer + used, text, length);
            used += length;
        }
        text += step;
    }
    buffer[used] = 0;
}

/* The code point of a whole sequence of several bytes. */
static wchar_t decode(const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t code = bytes[0] & (0x7fu >> length);

    for (size_t i = 1; i < length; i++)
        code = code << 6 | (bytes[i] & 0x3fu);
    return (wchar_t)code;
}

static locale_t unicode; /* 0: not known here */
static pthread_once_t unicode_once = PTHREAD_ONCE_INIT;

static void find_unicode(void)
{
    unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* Negative where nobody knows. The locale is looked for when there is something to ask: most runs print nothing but
 * ASCII, if anything, and to load it takes as long as to take a lock. */
static int ask_width(wchar_t character)
{
    pthread_once(&unicode_once, find_unicode);
    if (unicode == (locale_t)0)
        return -1;
    locale_t before = uselocale(unicode);
    int width = wcwidth(character);
    uselocale(before);
    return width;
}

/* The columns of the character that a printable text begins with: two for some, none for accents that go over the
 * one before. One where the locale does not know it. */
static size_t character_width(const char *text, size_t *ret_length)
{
    size_t length = sb_utf8_length(text);

    *ret_length = length > 0 ? length : 1;
    if (*ret_length == 1)
        return 1;
    int width = ask_width(decode(text, *ret_length));
    return width >= 0 ? (size_t)width : 1;
}

size_t cli_text_width(const char *text)
{
    size_t width = 0;
    size_t length;

    for (; *text != 0; text += length)
        width += character_width(text, &length);
    return width;
}

void cli_text_cut(char *text, size_t width)
{
    size_t length;

    for (; *text != 0; text += length) {
        size_t more = character_width(text, &length);
        if (more > width) {
            *text = 0;
            return;
        }
        width -= more;
    }
}

void cli_text_fence(uint64_t fence, char *buffer, size_t size)
{
    if (fence == 0)
        snprintf(buffer, size, "-");
    else
        snprintf(buffer, size, "%" PRIu64, fence);
}

static bool colour_refused;

void cli_text_refuse_colour(void)
{
    colour_refused = true;
}

bool cli_text_in_colour(int fd)
{
    const char *refused = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");

    return !colour_refused && (refused == NULL || refused[0] == 0) && terminal != NULL &&
           strcmp(terminal, "dumb") != 0 && isatty(fd) == 1;
}

void cli_json_string(FILE *stream, const char *text)
{
    putc('"', stream);
    while (*text != 0) {
        size_t length = sb_utf8_length(text);
        if (length == 0)
            fputs("\\ufffd", stream);
        else if (*text == '"' || *text == '\\')
            fprintf(stream, "\\%c", *text);
        else if (length == 1 && is_control(text, length))
            fprintf(stream, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            fwrite(text, 1, length, stream);
        text += length > 0 ? length : 1;
    }
    putc('"', stream);
}

void cli_json_number(FILE *stream, int64_t number, int64_t unknown)
{
    if (number == unknown)
        fputs("null", stream);
    else
        fprintf(stream, "%" PRId64, number);
}

void cli_json_fence(FILE *stream, uint64_t fence)
{
    if (fence == 0)
        fputs("null", stream);
    else
        fprintf(stream, "%" PRIu64, fence);
}
