/*
 * libc.c - functions of the C library that CBMC does not bring along, as the standard defines them.
 * Those that it does not know at all return anything.
 */
#include <string.h>

size_t strspn(const char *text, const char *accepted)
{
    size_t length = 0;

    while (text[length] != '\0' && strchr(accepted, text[length]) != NULL)
        length++;
    return length;
}

char *strstr(const char *text, const char *wanted)
{
    size_t length = strlen(wanted);

    for (;; text++) {
        if (strncmp(text, wanted, length) == 0)
            return (char *)text;
        if (*text == '\0')
            return NULL;
    }
}
