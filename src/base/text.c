/*
 * text.c - a string builder in memory of the caller's, with a cap.
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
