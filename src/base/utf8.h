/*
 * utf8.h - whether bytes are UTF-8: names and ids may be any.
 */
#ifndef SB_BASE_UTF8_H
#define SB_BASE_UTF8_H

#include "base/shared.h"

#include <stdbool.h>
#include <stddef.h>

/* The bytes of the character that `text` begins with; 0 when it begins with none. */
size_t sb_utf8_length(const char *text) SB_SHARED("utf8_length");

/* Whether all of `text` is characters. */
bool sb_utf8_is_valid(const char *text);

#endif
