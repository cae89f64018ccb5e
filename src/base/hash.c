/*
 * hash.c - FNV-1a.
 */
#include "base/hash.h"

#include <string.h>

uint32_t sb_hash_bytes(const char *bytes, size_t length)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    return hash;
}

uint32_t sb_hash(const char *text)
{
    return sb_hash_bytes(text, strlen(text));
}
