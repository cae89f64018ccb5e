/*
 * party.h - a client of the library with one contender, and what its callbacks have told.
 */
#ifndef SIMBA_TEST_REDIS_PARTY_H
#define SIMBA_TEST_REDIS_PARTY_H

#include "test.h"

#include <simba/simba.h>

#include <stdatomic.h>

struct party {
    simba_client *client;
    simba_contender *contender;
    _Atomic unsigned acquired;
    _Atomic unsigned released;
    _Atomic uint64_t fence; /* of the last term */
};

/* Opens the client and starts its contender; fails the test when that fails. */
void party_join(struct party *party, const char *url, const char *mutex, const char *id);

/* The same with options for the client. */
void party_join_with(struct party *party, const struct simba_client_options *client,
                     const char *url, const char *mutex, const char *id);

/* The same with a callback for all changes of owner; its `user` is the party. */
void party_join_notified(struct party *party, simba_state_fn *on_notify, const char *url,
                         const char *mutex, const char *id);

/* Stops the contender and closes everything; a stop that the store does not answer is no
 * failure. */
void party_leave(struct party *party);

/* Wait until so many terms have begun or ended, and fail the test when they do not. */
void party_await_acquired(struct party *party, unsigned count);
void party_await_released(struct party *party, unsigned count);

bool party_is_owner(const struct party *party);

/* What the client has counted. */
struct simba_metrics party_metrics(struct party *party);

#endif
