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
