/*
 * hash.c - FNV-1a.
 */
#include "base/hash.h"

uint32_t sb_hash(const char *text)
{
    uint32_t hash = 2166136261u;

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}
