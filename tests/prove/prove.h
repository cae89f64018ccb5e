/*
 * prove.h - what the harnesses share: values that can be anything, and the end of a path in which a
 * rule of the library is broken.
 *
 * CBMC follows every path of a harness at once. A variable that was never written, and what these
 * functions return, stands for each value of its type. PROVE_GIVEN leaves out the values that
 * cannot come; PROVE_THAT must hold for all that are left.
 */
#ifndef SB_TESTS_PROVE_H
#define SB_TESTS_PROVE_H

#include "core/machine.h"

#include <simba/simba.h>

#include <stdbool.h>
#include <stdint.h>

int64_t nondet_int64(void);
uint64_t nondet_uint64(void);
uint32_t nondet_uint32(void);
unsigned nondet_unsigned(void);
unsigned char nondet_byte(void);
char nondet_char(void);
int nondet_int(void);

#define PROVE_GIVEN(condition) __CPROVER_assume(condition)
#define PROVE_THAT(condition, rule) __CPROVER_assert(condition, rule)

/* Stands where a harness ends. Its twin forbids that: one whose conditions let nothing through to
 * its end proves nothing. */
#ifdef PROVE_TWIN
#define PROVE_END() PROVE_THAT(false, "no path comes to the end")
#else
#define PROVE_END() ((void)0)
#endif

#define PROVE_YEAR_MS ((int64_t)366 * 24 * 3600 * 1000)
#define PROVE_NOW_MAX_MS ((int64_t)1 << 60)

static inline bool prove_any_bool(void)
{
    return nondet_int() != 0;
}

static inline int64_t prove_between(int64_t low, int64_t high)
{
    int64_t value = nondet_int64();

    PROVE_GIVEN(value >= low && value <= high);
    return value;
}

/* Each timing that a client accepts: check_timing and read_timing in src/api/client.c. */
struct sb_timing prove_any_timing(void);

/* The id of the contender in all harnesses, and those of others. The core compares and copies ids
 * and looks at nothing else of them, so short ones stand for all. */
#define PROVE_ME "m"

void prove_write_id(char id[SIMBA_ID_MAX + 1], char letter);

/* Nobody, the contender itself, or one of two others. */
struct simba_owner prove_any_owner(void);

#endif
