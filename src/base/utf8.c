/*
 * utf8.c - whether bytes are UTF-8.
 */
#include "base/utf8.h"

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
