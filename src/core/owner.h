/*
 * owner.h - an owner as a store reports it: in time left.
 */
#ifndef SB_CORE_OWNER_H
#define SB_CORE_OWNER_H

#include "base/time.h"

#include <simba/simba.h>

/* The owner `id` whose ttl and lease end so much later than `from_ms`. Its acquisition is derived
 * from `ttl_ms`. SIMBA_INFINITE stays infinite, and nothing overflows. */
struct simba_owner sb_owner_in_time_left(const char *id, int64_t from_ms, int64_t ttl_left_ms,
                                         int64_t transition_left_ms, int64_t ttl_ms,
                                         uint64_t fence);

#endif
