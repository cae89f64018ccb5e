/*
 * machine_step.c - one step of the contention machine, from every state that keeps the rules, with
 * every event that may come, under every timing.
 */
#include "driver.h"

int main(void)
{
    struct sb_timing timing = prove_any_timing();
    struct sb_machine machine;
    struct driver driver;
    struct sb_event event;

    driver_any_state(&machine, &timing, &driver);
    event = driver_any_event(&machine, &driver);
    driver_step(&driver, &machine, &event);
    PROVE_END();
    return 0;
}
