/*
 * fuzz.c - see fuzz.h.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_demand(bool kept, const char *rule)
{
    if (kept)
        return;
    fprintf(stderr, "broken: %s\n", rule);
    abort();
}

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    fuzz_demand(text != NULL, "there is memory");
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

const uint8_t *fuzz_take(struct fuzz_bytes *bytes, size_t length, size_t *ret_length)
{
    const uint8_t *taken = bytes->data;

    *ret_length = length < bytes->size ? length : bytes->size;
    if (*ret_length > 0)
        bytes->data += *ret_length;
    bytes->size -= *ret_length;
    return taken;
}

uint8_t fuzz_byte(struct fuzz_bytes *bytes)
{
    size_t length;
    const uint8_t *taken = fuzz_take(bytes, 1, &length);

    return length > 0 ? *taken : 0;
}

int64_t fuzz_number(struct fuzz_bytes *bytes)
{
    int64_t number = 0;
    size_t length;
    const uint8_t *taken = fuzz_take(bytes, sizeof number, &length);

    if (length > 0)
        memcpy(&number, taken, length);
    return number;
}
