/*
 * ensemble_test.c - three servers, of which the leader is killed, or one that follows is cut off.
 */
#include "redis/party.h"
#include "server.h"

#define MUTEX "m"

static struct server servers[ENSEMBLE_SIZE];

static int enter(void **state)
{
    (void)state;
    ensemble_start(servers);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    ensemble_stop(servers);
    return 0;
}

static bool has_leader(void *user)
{
    (void)user;
    return ensemble_leader(servers) != NULL;
}

/* A lease long enough for the others to choose a new leader. */
static const char *url(void)
{
    return ensemble_url(servers, "?ttl=1s&transition=30s&jitter=0ms..50ms");
}

static struct party owner;
static uint64_t renewals;

static bool has_renewed(void *user)
{
    (void)user;
    return party_metrics(&owner).renewals >= renewals + 2;
}

static void contenders_survive_the_end_of_the_leading_server(void **state)
{
    struct party waiter;
    struct server *leader;
    uint64_t fence;
    int64_t killed_ms;

    (void)state;
    party_join(&owner, url(), MUTEX, "owner");
    party_await_acquired(&owner, 1);
    fence = atomic_load(&owner.fence);
    party_join(&waiter, url(), MUTEX, "waiter");
    leader = ensemble_leader(servers);
    assert_non_null(leader);
    killed_ms = test_now_ms();
    server_kill(leader);
    renewals = party_metrics(&owner).renewals;
    assert_true(test_wait(has_leader, NULL));
    assert_true(test_wait(has_renewed, NULL));
    print_message("# renewed again %lld ms after the kill\n",
                  (long long)(test_now_ms() - killed_ms));
    assert_true(party_is_owner(&owner));
    assert_int_equal(atomic_load(&owner.released), 0);
    assert_true(simba_contender_fence(owner.contender) == fence);
    assert_int_equal(atomic_load(&waiter.acquired), 0);
    party_leave(&owner);
    party_await_acquired(&waiter, 1);
    assert_true(atomic_load(&waiter.fence) > fence);
    /* The dead one comes back, and another follows it. */
    server_start_again(leader);
    server_kill(ensemble_leader(servers));
    assert_true(test_wait(has_leader, NULL));
    party_leave(&waiter);
    party_join(&waiter, url(), MUTEX, "waiter");
    party_await_acquired(&waiter, 1);
    party_leave(&waiter);
}

static struct server *a_follower(void)
{
    for (int i = 0; i < ENSEMBLE_SIZE; i++)
        if (strstr(server_command(&servers[i], "srvr"), "Mode: follower") != NULL)
            return &servers[i];
    fail_msg("nobody follows");
    return NULL;
}

/* The owner's server is stopped behind a renewal, before it can tell the leader of it. What the leader knows is
 * the renewal before that one, nearly a third of the session earlier, so that there was no ping in between. */
static void two_never_own_when_the_server_of_the_owner_is_cut_off_behind_a_renewal(void **state)
{
    static const char rest[] = "?ttl=1900ms&transition=2700ms&session-timeout=6s&jitter=0ms..50ms";
    struct server *follower = a_follower();
    struct party rival;

    (void)state;
    for (int i = 0; i < 2; i++) {
        party_join(&owner, server_url(follower, rest), MUTEX, "owner");
        party_await_acquired(&owner, 1);
        party_join(&rival, server_url(ensemble_leader(servers), rest), MUTEX, "rival");
        renewals = party_metrics(&owner).renewals;
        assert_true(test_wait(has_renewed, NULL));
        server_pause(follower);
        party_await_acquired(&rival, 1);
        assert_false(party_is_owner(&owner));
        server_go_on(follower);
        party_leave(&rival);
        party_leave(&owner);
    }
}

static void contenders_begin_anew_on_an_ensemble_that_came_back_without_data(void **state)
{
    static const char rest[] = "?ttl=2s&transition=2s&jitter=0ms..50ms";
    struct party waiter;

    (void)state;
    party_join(&owner, ensemble_url(servers, rest), MUTEX, "owner");
    party_await_acquired(&owner, 1);
    ensemble_start_empty(servers);
    party_await_acquired(&owner, 2);
    assert_int_equal(atomic_load(&owner.released), 1);
    party_join(&waiter, ensemble_url(servers, rest), MUTEX, "waiter");
    party_leave(&owner);
    party_await_acquired(&waiter, 1);
    party_leave(&waiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            two_never_own_when_the_server_of_the_owner_is_cut_off_behind_a_renewal, enter, leave),
        cmocka_unit_test_setup_teardown(contenders_survive_the_end_of_the_leading_server, enter,
                                        leave),
        cmocka_unit_test_setup_teardown(
            contenders_begin_anew_on_an_ensemble_that_came_back_without_data, enter, leave)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
