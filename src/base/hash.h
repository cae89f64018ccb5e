/*
 * hash.h - one hash for the names of mutexes.
 */
#ifndef SB_BASE_HASH_H
#define SB_BASE_HASH_H

#include "base/shared.h"

#include <stddef.h>
#include <stdint.h>

/* FNV-1a with 32 bits: short names, no adversary. It never changes, for files hold what depends on it. */
uint32_t sb_hash(const char *text) SB_SHARED("hash");

/* The same of bytes without a NUL behind them. */
uint32_t sb_hash_bytes(const char *bytes, size_t length) SB_SHARED("hash_bytes");

#endif
