/*
 * party.c - a client with one contender.
 */
#include "party.h"

static void on_acquired(void *user, const struct simba_state *state)
{
    struct party *party = user;

    atomic_store(&party->fence, state->after.fence);
    atomic_fetch_add(&party->acquired, 1);
}

static void on_released(void *user, const struct simba_state *state)
{
    struct party *party = user;

    atomic_fetch_add(&party->released, 1);
}

static void join(struct party *party, const struct simba_client_options *client,
                 struct simba_contender_options *options, const char *url)
{
    struct simba_error error = {0};

    memset(party, 0, sizeof *party);
    options->on_acquired = on_acquired;
    options->on_released = on_released;
    options->user = party;
    if (simba_client_open(url, client, &party->client, &error) != SIMBA_OK ||
        simba_contender_create(party->client, options, &party->contender, &error) != SIMBA_OK ||
        simba_contender_start(party->contender, &error) != SIMBA_OK)
        fail_msg("%s: %s", url, error.text);
}

void party_join(struct party *party, const char *url, const char *mutex, const char *id)
{
    party_join_with(party, NULL, url, mutex, id);
}

void party_join_with(struct party *party, const struct simba_client_options *client,
                     const char *url, const char *mutex, const char *id)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

    options.mutex = mutex;
    options.id = id;
    join(party, client, &options, url);
}

void party_join_notified(struct party *party, simba_state_fn *on_notify, const char *url,
                         const char *mutex, const char *id)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

    options.mutex = mutex;
    options.id = id;
    options.on_notify = on_notify;
    join(party, NULL, &options, url);
}

void party_leave(struct party *party)
{
    simba_contender_close(party->contender);
    assert_int_equal(simba_client_close(party->client, NULL), SIMBA_OK);
    party->client = NULL;
}

struct expected {
    _Atomic unsigned *counter;
    unsigned count;
};

static bool has_counted(void *user)
{
    const struct expected *expected = user;

    return atomic_load(expected->counter) >= expected->count;
}

static void await_count(_Atomic unsigned *counter, unsigned count, const char *what)
{
    struct expected expected = {counter, count};

    if (!test_wait(has_counted, &expected))
        fail_msg("%u %s, not %u", atomic_load(counter), what, count);
}

void party_await_acquired(struct party *party, unsigned count)
{
    await_count(&party->acquired, count, "terms began");
}

void party_await_released(struct party *party, unsigned count)
{
    await_count(&party->released, count, "terms ended");
}

bool party_is_owner(const struct party *party)
{
    return simba_contender_is_owner(party->contender);
}

struct simba_metrics party_metrics(struct party *party)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    assert_int_equal(simba_client_metrics(party->client, &metrics), SIMBA_OK);
    return metrics;
}
