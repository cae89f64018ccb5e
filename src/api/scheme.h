/*
 * scheme.h - the sentence for a URL whose scheme no store serves.
 */
#ifndef SB_API_SCHEME_H
#define SB_API_SCHEME_H

#include <simba/simba.h>

/* Says what stores this build has, and which one may have been meant. Returns SIMBA_ECONFIG. */
int sb_scheme_fail(const char *scheme, struct simba_error *error);

#endif
