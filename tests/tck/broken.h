/*
 * broken.h - the memory backend with a fault of one's choice, to see the kit catch it.
 */
#ifndef BROKEN_H
#define BROKEN_H

#include <simba/backend.h>

enum broken_how {
    BROKEN_NOT,             /* passes everything through */
    BROKEN_EVERYBODY_OWNS,  /* ACQUIRE always answers "you own" */
    BROKEN_GUARD_CREATES,   /* GUARD makes an owner where there is none */
    BROKEN_REVISION_STANDS, /* the revision does not grow */
    BROKEN_RELEASE_DOES_NOTHING,
    BROKEN_RELEASE_OF_ANY,        /* RELEASE takes any revision for the right one */
    BROKEN_RELEASE_NEVER_MISSES,  /* RELEASE does not say that there was nothing to give back */
    BROKEN_LEASE_NEVER_ENDS,      /* the store keeps a lease for longer than was asked for */
    BROKEN_NO_TRANSITION,         /* the store lets others in when the ttl is over */
    BROKEN_ANSWERS_TWICE_AS_MUCH, /* the time left is told too long */
    BROKEN_NO_REVISION,           /* an owner is told no revision */
    BROKEN_PROPERTY_OF_ANY,       /* a property is written for any id, owner or not */
    BROKEN_PROPERTY_FORGETS,      /* a property cannot be overwritten */
    BROKEN_PROPERTY_CLOCK_STANDS, /* the store's clock does */
    BROKEN_TERMS_ALIKE,           /* the terms of one id cannot be told apart */
    BROKEN_SILENT                 /* never answers an ACQUIRE */
};

/* Applies to clients that are opened from now on. */
void broken_choose(enum broken_how how);

extern const struct simba_backend_ops broken_backend;

#endif
