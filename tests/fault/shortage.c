/*
 * shortage.c - see shortage.h.
 */
#include "shortage.h"

void shortage_begin(struct shortage *s, long nth, bool for_good)
{
    s->nth = nth;
    s->for_good = for_good;
    atomic_store(&s->asked, 0);
    atomic_store(&s->refused, 0);
    atomic_store(&s->on, true);
}

long shortage_end(struct shortage *s)
{
    atomic_store(&s->on, false);
    return atomic_load(&s->refused);
}

bool shortage_strikes(struct shortage *s)
{
    long number;

    if (!atomic_load(&s->on))
        return false;
    number = atomic_fetch_add(&s->asked, 1) + 1;
    if (number != s->nth && !(s->for_good && number > s->nth))
        return false;
    atomic_fetch_add(&s->refused, 1);
    return true;
}

bool shortage_has_struck(const struct shortage *s)
{
    return atomic_load(&s->refused) > 0;
}
