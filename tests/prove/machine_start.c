/*
 * machine_start.c - a contention machine that was just made keeps the rules, under every timing. So
 * machine_step.c begins where real runs begin.
 */
#include "driver.h"

int main(void)
{
    struct sb_timing timing = prove_any_timing();
    struct sb_machine machine;
    struct driver driver;

    sb_machine_init(&machine, &timing, nondet_uint64());
    if (prove_any_bool())
        sb_machine_tell_renewals(&machine);
    if (prove_any_bool())
        sb_machine_follow(&machine);
    driver_init(&driver);
    PROVE_THAT(sb_machine_broken_rule(&machine) == NULL && driver_fits(&machine, &driver),
               "a new machine keeps the rules");
    PROVE_THAT(sb_machine_belief_ms(&machine) == 0, "a new machine does not believe");
    PROVE_END();
    return 0;
}
