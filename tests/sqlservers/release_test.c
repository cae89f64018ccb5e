/*
 * release_test.c - releases that go to the store together, some of mutexes that others wait for:
 * each is told for itself whether it has ended its lease.
 */
#include "queue.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS 40

static char taken[16];  /* owned by `a`, and by a rival at once when it is free */
static char queued[16]; /* owned by `a`, and waited for */

/* ---- A rival that does not wait in line ------------------------------------------------------ */

struct rival {
    struct session *session;
    atomic_bool stops;
    pthread_t thread;
};

/* It looks first, so that it does not lock the row all the time. */
static void *take_when_free(void *argument)
{
    struct rival *rival = argument;
    char look[128];
    char take[256];
    char text[64];

    snprintf(look, sizeof look, "SELECT owner_id FROM simba_mutex WHERE mutex = '%s'", taken);
    snprintf(take, sizeof take,
             "UPDATE simba_mutex SET owner_id = 'rival', ttl_at = 99999999999999,"
             " transition_at = 99999999999999, version = version + 1 WHERE mutex = '%s'"
             " AND transition_at = 0",
             taken);
    while (!atomic_load(&rival->stops) && dialect_run(rival->session, look, text, sizeof text))
        if (text[0] == '\0')
            dialect_run(rival->session, take, text, sizeof text);
    return NULL;
}

static void start_rival(struct rival *rival)
{
    rival->session = session_open(&server);
    atomic_init(&rival->stops, false);
    assert_int_equal(pthread_create(&rival->thread, NULL, take_when_free, rival), 0);
}

static void stop_rival(struct rival *rival)
{
    atomic_store(&rival->stops, true);
    pthread_join(rival->thread, NULL);
    session_close(rival->session);
}

/* ---- Together -------------------------------------------------------------------------------- */

static struct call release_of(const struct call *held)
{
    struct call call =
        host_call(SIMBA_OP_RELEASE, held->request.mutex, held->request.id, held->revision);

    call.request.reserve_ms = RESERVE_MS;
    return call;
}

/* Names that nobody has used: a client that knows of waiters releases by itself. */
static void own_two(int round, struct call ret_held[2])
{
    snprintf(taken, sizeof taken, "taken-%d", round);
    snprintf(queued, sizeof queued, "queued-%d", round);
    ret_held[0] = wins(&one, taken, "a");
    ret_held[1] = wins(&one, queued, "a");
    waits(&two, queued, "w", "a");
}

static void release_both(const struct call held[2], struct call ret_calls[2])
{
    ret_calls[0] = release_of(&held[0]);
    ret_calls[1] = release_of(&held[1]);
    host_submit(&one, ret_calls, 2);
    assert_true(host_wait(&one, ret_calls, 2));
    for (int i = 0; i < 2; i++)
        assert_int_equal(ret_calls[i].code, SIMBA_OK);
}

/* Its owner gave it back in time, whoever owns it when the client looks. */
static void a_release_is_not_missed_because_another_acquires_at_once(void **state)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct rival rival;
        struct call held[2];
        struct call calls[2];

        own_two(round, held);
        start_rival(&rival);
        release_both(held, calls);
        stop_rival(&rival);
        assert_false(calls[0].missed);
        assert_false(calls[1].missed);
        held[1] = wins(&two, queued, "w");
        gives_back(&two, &held[1]);
    }
}

/* The twin: it was lost before. */
static void a_release_of_what_another_has_acquired_is_missed(void **state)
{
    struct call held[2];
    struct call calls[2];

    own_two(ROUNDS, held);
    server_sql(&server,
               "UPDATE simba_mutex SET owner_id = 'rival', ttl_at = 99999999999999,"
               " transition_at = 99999999999999, version = version + 1 WHERE mutex = '%s'",
               taken);
    release_both(held, calls);
    assert_true(calls[0].missed);
    assert_false(calls[1].missed);
    held[1] = wins(&two, queued, "w");
    gives_back(&two, &held[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_CLIENTS(a_release_is_not_missed_because_another_acquires_at_once),
        ON_CLIENTS(a_release_of_what_another_has_acquired_is_missed),
    };

    return server_run_tests("release", tests);
}
