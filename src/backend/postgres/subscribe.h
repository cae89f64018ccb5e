/*
 * subscribe.h - makes a connection on which releases are heard of. Blocks: for a thread that may.
 */
#ifndef SB_BACKEND_POSTGRES_SUBSCRIBE_H
#define SB_BACKEND_POSTGRES_SUBSCRIBE_H

#include "backend/postgres/settings.h"

enum sb_postgres_hearing {
    SB_POSTGRES_HEARS, /* `pg` is the caller's */
    SB_POSTGRES_LATER, /* another attempt may succeed */
    SB_POSTGRES_UNFIT  /* LISTEN does not work here */
};

struct sb_postgres_subscription {
    const struct sb_postgres_settings *settings;
    atomic_bool cancelled; /* by another thread: come back soon */
    enum sb_postgres_hearing outcome;
    PGconn *pg;
    size_t received; /* bytes, from the servers that were asked */
    char why[256];   /* it does not hear */
};

/* Sets `outcome` and what belongs to it. Takes about the URL's connect-timeout at most, but for the look-up
 * of names, which libpq does not bound. */
void sb_postgres_subscribe(struct sb_postgres_subscription *subscription);

#endif
