/*
 * follow.h - contenders that wait and want to know who owns, on whatever store. The leases are far
 * longer than the tests wait, so that no attempt of theirs tells it to them.
 */
#ifndef TEST_TCK_FOLLOW_H
#define TEST_TCK_FOLLOW_H

#include "test.h"

#include <simba/simba.h>

#include <pthread.h>

#define FOLLOW_MUTEX "follow"
#define FOLLOW_LEASE_MS 30000 /* and as much of a transition */
#define FOLLOW_SOON_MS 3000   /* at once, on a busy machine */
#define FOLLOW_COUNT 3
#define FOLLOW_ROUNDS 4

struct follower {
    simba_client *client;
    simba_contender *contender;
    pthread_mutex_t lock;
    struct simba_state last; /* what on_notify was told last */
    unsigned gaps;           /* changes that do not begin where the one before ended */
};

static inline void follow_note(void *user, const struct simba_state *state)
{
    struct follower *f = user;

    pthread_mutex_lock(&f->lock);
    f->gaps += strcmp(f->last.after.id, state->before.id) != 0;
    f->last = *state;
    pthread_mutex_unlock(&f->lock);
}

/* `backend` NULL: the one that serves the URL. */
static inline void follow_create(struct follower *f, const char *url,
                                 const struct simba_backend_ops *backend, const char *id, bool told)
{
    struct simba_client_options client = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error = {0};

    memset(f, 0, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    client.ttl_ms = FOLLOW_LEASE_MS;
    client.transition_ms = FOLLOW_LEASE_MS;
    client.backend = backend;
    if (simba_client_open(url, &client, &f->client, &error) != SIMBA_OK)
        fail_msg("cannot open %s: %s", url, error.text);
    options.mutex = FOLLOW_MUTEX;
    options.id = id;
    options.on_notify = told ? follow_note : NULL;
    options.user = f;
    if (simba_contender_create(f->client, &options, &f->contender, &error) != SIMBA_OK)
        fail_msg("cannot create a contender: %s", error.text);
}

static inline void follow_end(struct follower *f)
{
    simba_contender_close(f->contender);
    assert_int_equal(simba_client_close(f->client, NULL), SIMBA_OK);
    assert_int_equal(f->gaps, 0);
    pthread_mutex_destroy(&f->lock);
}

struct follow_belief {
    struct follower *who;
    const char *owner;
};

/* The state that can be read is what was told last. */
static inline bool follow_is_told(void *user)
{
    const struct follow_belief *belief = user;
    struct follower *f = belief->who;
    struct simba_state state;
    bool told;

    simba_contender_state(f->contender, &state);
    pthread_mutex_lock(&f->lock);
    told = strcmp(f->last.after.id, belief->owner) == 0;
    pthread_mutex_unlock(&f->lock);
    return told && strcmp(state.after.id, belief->owner) == 0;
}

static inline bool follow_knows(void *user)
{
    const struct follow_belief *belief = user;
    struct simba_state state;

    simba_contender_state(belief->who->contender, &state);
    return strcmp(state.after.id, belief->owner) == 0;
}

static inline bool follow_owns(void *user)
{
    const struct follower *f = user;

    return simba_contender_is_owner(f->contender);
}

/* Starts it, and waits until it knows that `owner` does; NULL: itself. */
static inline void follow_start(struct follower *f, const struct follower *owner)
{
    struct follow_belief belief = {
        f, simba_contender_id(owner != NULL ? owner->contender : f->contender)};

    assert_int_equal(simba_contender_start(f->contender, NULL), SIMBA_OK);
    if (!test_wait(follow_knows, &belief))
        fail_msg("%s does not know that %s owns", simba_contender_id(f->contender), belief.owner);
}

static inline bool follow_has_owner(void *user)
{
    struct follower *party = user;

    for (size_t i = 0; i < FOLLOW_COUNT; i++)
        if (follow_owns(&party[i]))
            return true;
    return false;
}

/* The owner stops, and one of those that wait follows it. Returns that one, when the third has been
 * told of it. */
static inline size_t follow_hand_over(struct follower *party, size_t owner, int64_t within_ms)
{
    size_t heir = owner;

    assert_int_equal(simba_contender_stop(party[owner].contender, NULL), SIMBA_OK);
    if (!test_wait(follow_has_owner, party))
        fail_msg("nobody follows %s", simba_contender_id(party[owner].contender));
    for (size_t i = 0; i < FOLLOW_COUNT; i++)
        if (follow_owns(&party[i]))
            heir = i;
    for (size_t i = 0; i < FOLLOW_COUNT; i++) {
        struct follow_belief belief = {&party[i], simba_contender_id(party[heir].contender)};

        if (i != owner && i != heir && !test_wait_within(within_ms, follow_is_told, &belief))
            fail_msg("%s is not told that %s owns", simba_contender_id(party[i].contender),
                     belief.owner);
    }
    return heir;
}

/* Three contenders, each with a client of its own, pass the mutex on. A waiter is soon told the
 * owner. */
static inline void follow_assert_told(const char *url, const struct simba_backend_ops *backend,
                                      int64_t within_ms)
{
    static const char *const ids[FOLLOW_COUNT] = {"ann", "bob", "cid"};
    struct follower party[FOLLOW_COUNT];
    size_t owner = 0;

    for (size_t i = 0; i < FOLLOW_COUNT; i++) {
        follow_create(&party[i], url, backend, ids[i], true);
        follow_start(&party[i], i == 0 ? NULL : &party[0]);
    }
    for (int round = 0; round < FOLLOW_ROUNDS; round++) {
        size_t before = owner;

        owner = follow_hand_over(party, before, within_ms);
        follow_start(&party[before], &party[owner]);
    }
    for (size_t i = 0; i < FOLLOW_COUNT; i++)
        follow_end(&party[i]);
}

#endif
