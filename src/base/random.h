/*
 * random.h - randomness for jitter, back-off and ids; not for secrets.
 */
#ifndef SB_BASE_RANDOM_H
#define SB_BASE_RANDOM_H

#include "base/shared.h"

#include <stdint.h>

/* A number from the operating system. */
uint64_t sb_random_seed(void) SB_SHARED("random_seed");

/* The next number of the sequence that *state stands in. Pure. */
uint64_t sb_random_next(uint64_t *state) SB_SHARED("random_next");

/* Maps a random number onto [low, high); `low` when the range is empty. Pure. */
int64_t sb_random_between(uint64_t random, int64_t low, int64_t high) SB_SHARED("random_between");

/* How long to wait after `failures` failures in a row: `first_ms`, doubled with every further
 * failure, at most `most_ms`. Half of that is random, so that clients that failed together come
 * back apart. Pure. */
int64_t sb_random_backoff(uint64_t *state, int64_t first_ms, int64_t most_ms, unsigned failures)
    SB_SHARED("random_backoff");

#endif
