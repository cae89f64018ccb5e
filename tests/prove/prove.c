/*
 * prove.c - timings and owners that can be anything, and the end of a broken path.
 */
#include "prove.h"

#include "base/check.h"

#include <string.h>

/* In the product this prints the rule and aborts, on which CBMC would end the path without a
 * word. */
void sb_check_failed(const char *file, int line, const char *rule)
{
    (void)file;
    (void)line;
    (void)rule;
    PROVE_THAT(false, "every SB_CHECK holds");
    PROVE_GIVEN(false);
    for (;;)
        ;
}

struct sb_timing prove_any_timing(void)
{
    struct sb_timing t;

    t.ttl_ms = prove_between(1, PROVE_YEAR_MS);
    t.margin_ms = prove_between(1, PROVE_YEAR_MS);
    t.transition_ms = prove_between(2 * t.margin_ms, PROVE_YEAR_MS);
    t.initial_delay_ms = prove_between(0, PROVE_YEAR_MS);
    t.stop_timeout_ms = prove_between(1, PROVE_YEAR_MS);
    t.jitter_min_ms = prove_between(-1000, PROVE_YEAR_MS);
    t.jitter_max_ms = prove_between(t.jitter_min_ms, PROVE_YEAR_MS);
#ifdef PROVE_TURN_MS
    t.turn_ms = PROVE_TURN_MS;
#else
    t.turn_ms = prove_between(0, PROVE_YEAR_MS);
#endif
    t.reserve_ms = prove_between(0, 1000);
    t.read_ms = prove_between(0, PROVE_YEAR_MS);
    t.fair = prove_any_bool();
    return t;
}

void prove_write_id(char id[SIMBA_ID_MAX + 1], char letter)
{
    memset(id, 0, SIMBA_ID_MAX + 1);
    id[0] = letter;
}

struct simba_owner prove_any_owner(void)
{
    struct simba_owner owner;
    char letter = nondet_char();

    PROVE_GIVEN(letter == '\0' || letter == 'm' || letter == 'a' || letter == 'b');
    prove_write_id(owner.id, letter);
    owner.acquired_at_ms = nondet_int64();
    owner.ttl_at_ms = nondet_int64();
    owner.transition_at_ms = nondet_int64();
    owner.fence = letter == '\0' ? 0 : nondet_uint64();
    return owner;
}
