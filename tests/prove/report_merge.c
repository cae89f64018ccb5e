/*
 * report_merge.c - whatever steps come while a callback runs, the application is told of wins and
 * losses in turn, each change is told or counted as merged, and each report goes on from the one
 * before it.
 */
#include "prove.h"

#include "core/report.h"

#define STEPS 5

/* A change as a machine reports it: a win only after a loss, and the other way round. No machine
 * wins while its last loss is not told. */
static struct sb_step any_step(bool *owns, uint64_t *fence, const struct sb_report *report)
{
    struct sb_step step = {.changed = prove_any_bool()};

    step.state.before.fence = *fence;
    if (step.changed)
        *fence = nondet_uint64();
    step.state.after.fence = *fence;

    if (step.changed && prove_any_bool()) {
        step.acquired = !*owns;
        step.released = *owns;
        PROVE_GIVEN(!step.acquired || !report->pending || !report->released);
        *owns = !*owns;
    } else if (!step.changed) {
        step.renewed = *owns && prove_any_bool();
    }
    return step;
}

int main(void)
{
    struct sb_report report = {.pending = false};
    bool owns = prove_any_bool();
    bool told = owns; /* what the application knows */
    uint64_t fence = nondet_uint64();
    uint64_t told_fence = fence;
    unsigned owed = 0;

    for (int i = 0; i < STEPS; i++) {
        struct sb_step step = any_step(&owns, &fence, &report);

        owed += step.changed || step.renewed;
        owed -= sb_report_keep(&report, &step);
        PROVE_THAT(owed == report.pending, "what is not told is told later");
        if (prove_any_bool()) {
            struct sb_report taken = sb_report_take(&report);

            if (taken.pending) {
                PROVE_THAT(!(taken.acquired && told), "a win follows a loss");
                PROVE_THAT(!(taken.released && !told), "a loss follows a win");
                PROVE_THAT(!(taken.renewed && (taken.acquired || taken.released)),
                           "a renewal neither begins nor ends a term");
                PROVE_THAT(taken.state.before.fence == told_fence,
                           "a report goes on from what was told before");
                told_fence = taken.state.after.fence;
                if (taken.acquired || taken.released)
                    told = taken.acquired;
                owed--;
            }
            PROVE_THAT(told == owns, "after a report the application knows who owns");
            PROVE_THAT(told_fence == fence, "after a report the application knows the last owner");
        }
    }
    PROVE_END();
    return 0;
}
