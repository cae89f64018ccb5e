/*
 * owner_times.c - the arithmetic on owners and delays: for every owner, instant and timing nothing
 * overflows, and no delay is negative. The id has its full length here.
 */
#include "prove.h"

#include "core/owner.h"

#include <string.h>

int main(void)
{
    char id[SIMBA_ID_MAX + 4];
    int64_t from_ms = nondet_int64();
    int64_t ttl_ms = prove_between(1, PROVE_YEAR_MS);
    int64_t now_ms = nondet_int64();
    int64_t low_ms = prove_between(-1000, PROVE_YEAR_MS);
    int64_t high_ms = prove_between(low_ms, PROVE_YEAR_MS);
    int64_t transition_ms = prove_between(0, PROVE_YEAR_MS);
    int64_t ttl_left_ms = nondet_int64();
    int64_t left_ms = nondet_int64();
    int64_t delay_ms;
    struct simba_owner owner;

    id[sizeof id - 1] = '\0';
    PROVE_GIVEN(id[0] != '\0');
    owner = sb_owner_in_time_left(id, from_ms, ttl_left_ms, left_ms, ttl_ms, nondet_uint64());
    PROVE_THAT(owner.id[SIMBA_ID_MAX] == '\0' && owner.id[0] == id[0], "an id is cut to its cap");
    PROVE_THAT((__int128)owner.transition_at_ms <= (__int128)from_ms + left_ms ||
                   owner.transition_at_ms == INT64_MIN,
               "no lease is longer than was told");
    PROVE_THAT(simba_period_owner_delay_ms(&owner, now_ms) >= 0, "no delay is negative");
    delay_ms = simba_period_contender_delay_ms(&owner, now_ms, transition_ms, low_ms, high_ms,
                                               nondet_uint64());
    PROVE_THAT(delay_ms >= 0, "no delay is negative");
    PROVE_THAT(simba_drift_margin_ms(left_ms) >= 10, "a margin covers the grain of timers");
    PROVE_THAT(simba_drift_margin_ms(left_ms) - 10 >= left_ms / 100,
               "a margin covers clocks that drift by 1 %");
    PROVE_END();
    return 0;
}
