/*
 * listener.h - hears of releases: a connection of its own that LISTENs, on the client's loop.
 *
 * It is made when a contender has to wait or an observer comes for the first time, and then kept.
 * Where it cannot be had, or a pooler sits in between that would swallow what is told, the waiters
 * are looked at instead.
 */
#ifndef SB_POSTGRES_LISTENER_H
#define SB_POSTGRES_LISTENER_H

#include "backend/postgres/settings.h"

struct sb_postgres_listener;

struct sb_postgres_listener_config {
    const struct simba_backend_host *host;
    const struct sb_postgres_settings *settings;
    void (*hears)(void *user, bool on); /* whether releases are heard of from now on */
    void *user;
};

/* Creates. Puts nothing on the loop yet. */
int sb_postgres_listener_create(const struct sb_postgres_listener_config *config,
                                struct sb_postgres_listener **ret_listener,
                                struct simba_error *error);

/* There is a waiter or an observer; harmless when that is known. */
void sb_postgres_listener_want(struct sb_postgres_listener *listener);

/* Destroys; closed(argument) is called when its handles are closed, at once where it has none. */
void sb_postgres_listener_close(struct sb_postgres_listener *listener,
                                void (*closed)(void *argument), void *argument);

/* ---- subscribe.c: a connection on which releases are heard of -------------------------------- */

enum sb_postgres_hearing {
    SB_POSTGRES_HEARS, /* `pg` is the caller's */
    SB_POSTGRES_LATER, /* another attempt may succeed */
    SB_POSTGRES_UNFIT  /* LISTEN does not work here */
};

struct sb_postgres_subscription {
    const struct sb_postgres_settings *settings;
    size_t skipped;        /* hosts of the URL, because the attempts before came to nothing */
    atomic_bool cancelled; /* by another thread: come back soon */
    enum sb_postgres_hearing outcome;
    PGconn *pg;
    size_t received; /* bytes, from the servers that were asked */
    char why[256];   /* it does not hear */
};

/* Sets `outcome` and what belongs to it. Takes about the URL's connect-timeout at most, but for the
 * look-up of names, which libpq does not bound. */
void sb_postgres_subscribe(struct sb_postgres_subscription *subscription);

#endif
