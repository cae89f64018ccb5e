/*
 * text.c - makes text safe for a terminal and for JSON.
 */
#include "cli/cli.h"

#include "base/text.h"

#include <inttypes.h>
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define REPLACEMENT 0xfffd /* stands for what is not UTF-8 */

/* The code point of a whole sequence. */
static uint32_t decode(const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t code = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);

    for (size_t i = 1; i < length; i++)
        code = code << 6 | (bytes[i] & 0x3fu);
    return code;
}

/* Control characters of seven and of eight bits; and invisible characters that change the text
 * around them: direction of writing, line breaks, marks without a width, fillers, variants,
 * tags. */
static bool is_hostile(uint32_t code)
{
    static const struct {
        uint32_t first;
        uint32_t last;
    } ranges[] = {
        {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
        {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},
        {0x8e2, 0x8e2},     {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},
        {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},   {0x2800, 0x2800},
        {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
        {0xfff0, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},
        {0x1bca0, 0x1bca3}, {0x1d159, 0x1d159}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
    };

    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    }
    return false;
}

void cli_text_printable(const char *text, char *buffer, size_t size)
{
    size_t used = 0;

    while (*text != 0) {
        size_t length = sb_utf8_length(text);
        size_t step = length > 0 ? length : 1;
        if (used + step >= size)
            break;
        if (length == 0 || is_hostile(decode(text, length))) {
            buffer[used++] = '?';
        } else {
            memcpy(buffer + used, text, length);
            used += length;
        }
        text += step;
    }
    buffer[used] = 0;
}

static locale_t unicode; /* 0: not known here */
static pthread_once_t unicode_once = PTHREAD_ONCE_INIT;

static void find_unicode(void)
{
    unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* The columns of the first character of a printable text: two for some, none for accents that go
 * over the one before, one where the locale does not know it. The locale is loaded for the first
 * character that is not ASCII: that takes as long as to acquire a mutex. */
static size_t character_width(const char *text, size_t *ret_length)
{
    size_t length = sb_utf8_length(text);

    *ret_length = length > 0 ? length : 1;
    if (*ret_length == 1)
        return 1;
    pthread_once(&unicode_once, find_unicode);
    if (unicode == (locale_t)0)
        return 1;
    locale_t before = uselocale(unicode);
    int width = wcwidth((wchar_t)decode(text, *ret_length));
    uselocale(before);
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

void cli_text_shorten(char *text, size_t width)
{
    static const char gap[] = "...";
    size_t total = cli_text_width(text);
    size_t room = width > strlen(gap) ? width - strlen(gap) : 0;
    const char *tail = text;
    size_t length;

    if (total <= width)
        return;
    if (room < 2) {
        cli_text_cut(text, width);
        return;
    }
    for (size_t left = total; left > room / 2; tail += length)
        left -= character_width(tail, &length);
    char *head_end = text;
    for (size_t used = character_width(head_end, &length); used <= room - room / 2;
         used += character_width(head_end, &length))
        head_end += length;
    memmove(head_end + strlen(gap), tail, strlen(tail) + 1);
    memcpy(head_end, gap, strlen(gap));
}

#define COLUMNS_UNKNOWN 80

size_t cli_text_columns(int fd)
{
    struct winsize size = {.ws_col = 0};

    if (isatty(fd) == 0)
        return 0;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS_UNKNOWN;
}

/* The columns of the first word of a text. */
static size_t word_width(const char *text, size_t *ret_length)
{
    size_t width = 0;
    size_t step;

    for (*ret_length = 0; strchr(" \n", text[*ret_length]) == NULL; *ret_length += step)
        width += character_width(text + *ret_length, &step);
    return width;
}

void cli_text_flow(FILE *stream, const char *text, size_t column, size_t indent, size_t width)
{
    bool begun = false;
    size_t length;

    for (; *text != 0; text += length + (text[length] != 0)) {
        size_t columns = word_width(text, &length);
        if (begun && column + 1 + columns > width) {
            fprintf(stream, "\n%*s", (int)indent, "");
            column = indent;
        } else if (begun) {
            putc(' ', stream);
            column++;
        }
        fwrite(text, 1, length, stream);
        column += columns;
        begun = true;
    }
    putc('\n', stream);
}

void cli_text_fence(uint64_t fence, char *buffer, size_t size)
{
    if (fence == 0)
        snprintf(buffer, size, "-");
    else
        snprintf(buffer, size, "%" PRIu64, fence);
}

/* The smallest unit that a reader of a table wants: 3m20s, 2h5m, 365d23h. */
static int64_t finest_ms(int64_t ms)
{
    const int64_t second = 1000;
    const int64_t minute = 60 * second;
    const int64_t hour = 60 * minute;

    return ms < second ? 1 : ms < hour ? second : ms < 24 * hour ? minute : hour;
}

void cli_text_duration(int64_t ms, char *buffer, size_t size)
{
    if (ms < 0)
        snprintf(buffer, size, "-");
    else
        simba_duration_format(ms - ms % finest_ms(ms), buffer, size);
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

void cli_json_string(FILE *stream, const char *before, const char *text)
{
    fprintf(stream, "%s\"", before);
    while (*text != 0) {
        size_t length = sb_utf8_length(text);
        uint32_t code = length > 0 ? decode(text, length) : REPLACEMENT;
        if (*text == '"' || *text == '\\')
            fprintf(stream, "\\%c", *text);
        else if (length > 0 && !is_hostile(code))
            fwrite(text, 1, length, stream);
        else if (code < 0x10000)
            fprintf(stream, "\\u%04x", (unsigned)code);
        else /* JSON counts in units of 16 bits */
            fprintf(stream, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
                    (unsigned)(0xdc00 + (code & 0x3ff)));
        text += length > 0 ? length : 1;
    }
    putc('"', stream);
}

void cli_json_number(FILE *stream, const char *before, int64_t number, int64_t unknown)
{
    if (number == unknown)
        fprintf(stream, "%snull", before);
    else
        fprintf(stream, "%s%" PRId64, before, number);
}

void cli_json_fence(FILE *stream, const char *before, uint64_t fence)
{
    if (fence == 0)
        fprintf(stream, "%snull", before);
    else
        fprintf(stream, "%s%" PRIu64, before, fence);
}
