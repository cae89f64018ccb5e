/*
 * descriptors.h - finds out whether descriptors can be had, for callers of a library that copes
 * badly without.
 */
#ifndef SB_BASE_DESCRIPTORS_H
#define SB_BASE_DESCRIPTORS_H

#include "base/shared.h"

/* What a loop of libuv opens, those that the first one leaves to the process included. */
#define SB_DESCRIPTORS_OF_LOOP 6

/* Returns 0 when `count` more can be opened now, or a negative errno. Another thread may still take
 * them. */
int sb_descriptors_check(int count) SB_SHARED("descriptors_check");

#endif
