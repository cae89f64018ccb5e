/*
 * report.c - merges the changes that wait to be told. It must not know callbacks, strands or locks.
 */
#include "core/report.h"

#include "base/check.h"

unsigned sb_report_keep(struct sb_report *r, const struct sb_step *step)
{
    unsigned merged = r->pending ? 1 : 0;

    SB_CHECK(!(step->changed && step->renewed), "a step tells of a change or of a renewal");
    SB_CHECK(!(r->pending && r->renewed && (r->acquired || r->released)),
             "a renewal neither begins nor ends a term");
    if (!step->changed && !step->renewed)
        return 0;
    if (!r->pending || r->renewed) {
        r->state = step->state;
        r->acquired = step->acquired;
        r->released = step->released;
        r->renewed = step->renewed;
        r->pending = true;
        return merged;
    }
    r->state.after = step->state.after;
    if (r->acquired && step->released) {
        r->acquired = false;
    } else {
        r->acquired |= step->acquired;
        r->released |= step->released;
    }
    SB_CHECK(!(r->acquired && r->released), "a report tells of a win or of a loss, not both");
    return 1;
}

unsigned sb_report_drop(struct sb_report *r)
{
    bool pending = r->pending;

    r->pending = false;
    return pending ? 1 : 0;
}

struct sb_report sb_report_take(struct sb_report *r)
{
    struct sb_report taken = *r;

    r->pending = false;
    return taken;
}
