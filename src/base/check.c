/*
 * check.c - the end of a process in which a rule of the library is broken.
 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_MAX_BYTES 512

/* No stream of the application's: it may be locked, and its buffer would be lost. */
void sb_check_failed(const char *file, int line, const char *rule)
{
    char text[LINE_MAX_BYTES];
    int length =
        snprintf(text, sizeof text, "libsimba: %s:%d: broken rule: %s\n", file, line, rule);
    size_t size = length < (int)sizeof text ? (size_t)length : sizeof text - 1;

    if (length < 0 || write(STDERR_FILENO, text, size) != (ssize_t)size)
        abort(); /* nobody can be told */
    abort();
}
