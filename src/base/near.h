/*
 * near.h - which of the names that exist somebody meant who wrote another, for "did you mean".
 */
#ifndef SB_BASE_NEAR_H
#define SB_BASE_NEAR_H

#include "base/shared.h"

#include <stddef.h>

#define SB_NEAR_MAX 40 /* bytes of a name, with the NUL; what is longer is like nothing */

/* Zeroed memory has met no candidate yet. */
struct sb_near {
    char name[SB_NEAR_MAX]; /* the candidate that is most like what was written; "": none is */
    size_t distance;
};

/* Remembers the candidate where it is like `written`, and more so than those before. */
void sb_near_offer(struct sb_near *near, const char *written, const char *candidate)
    SB_SHARED("near_offer");

/* The same for the first `length` bytes of `written`. */
void sb_near_offer_part(struct sb_near *near, const char *written, size_t length,
                        const char *candidate) SB_SHARED("near_offer_part");

#endif
