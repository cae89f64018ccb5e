/*
 * stall_test.c - the leader stands still, or what it says to one server is held back; then what
 * that server says is lost before it could report its sessions.
 *
 * An owner and a third contender use the server in the middle. The second waits on the first
 * server, of which the leader last heard at c:
 *
 *     c          c + 900      owner stops        lost from here       c + T, at the next tick
 *     |------------|===============|==================|------------------------|
 *   report         |<-- no ping reaches the server -->|                 the third owns
 *                                                     |-- the second owns? -->|
 *
 * The leader ends sessions at full ticks. The reports are moved to where c + T is just before one.
 */
#include "redis/party.h"
#include "redis/proxy.h"
#include "server.h"

#define TICK_MS 2000
#define PING_MS (TICK_MS / 2)
#define PHASE_MS 930 /* of a report, in a second */
#define MUTEX "m"

static struct server servers[ENSEMBLE_SIZE];
static struct server *const follower = &servers[0];
static struct server *const other = &servers[1];
static struct server *const leader = &servers[2];
static struct proxy quorum_link;
static _Atomic int64_t ping_ms;   /* of the leader, the last */
static _Atomic int64_t report_ms; /* the same */

static void watch_link(bool from_server, const char *bytes, size_t count)
{
    static const char ping[] = {0, 0, 0, 5}; /* the type of the packet, for both directions */

    if (count >= sizeof ping && memcmp(bytes, ping, sizeof ping) == 0)
        atomic_store(from_server ? &ping_ms : &report_ms, test_now_ms());
}

static int start_link(int port)
{
    proxy_start_watched(&quorum_link, port, watch_link);
    return quorum_link.port;
}

static int enter(void **state)
{
    ensemble_start_linked(servers, TICK_MS, start_link);
    return 0;
}

static int leave(void **state)
{
    ensemble_stop(servers);
    proxy_stop(&quorum_link);
    return 0;
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void pause_until(int64_t at_ms)
{
    int64_t now_ms = test_now_ms();

    if (at_ms > now_ms)
        test_pause_ms(at_ms - now_ms);
}

struct packet {
    _Atomic int64_t *at_ms;
    int64_t before_ms;
};

static bool is_newer(void *user)
{
    struct packet *packet = user;

    return atomic_load(packet->at_ms) != packet->before_ms;
}

static int64_t await_next(_Atomic int64_t *at_ms)
{
    struct packet packet = {at_ms, atomic_load(at_ms)};

    assert_true(test_wait(is_newer, &packet));
    return atomic_load(at_ms);
}

/* Stands the leader still where its next ping would come, until the phase that is wanted. */
static void move_pings(void)
{
    int64_t next_ms = await_next(&ping_ms) + PING_MS;
    int64_t late_ms = (PHASE_MS + PING_MS - next_ms % PING_MS) % PING_MS;

    if (late_ms < 5)
        return;
    pause_until(next_ms - 30);
    server_pause(leader);
    pause_until(next_ms + late_ms);
    server_go_on(leader);
    pause_until(next_ms + late_ms + PING_MS / 2);
}

static int64_t await_report_before_a_tick(void)
{
    int64_t at_ms;

    do
        at_ms = await_next(&report_ms);
    while (at_ms % TICK_MS < TICK_MS - PING_MS);
    return at_ms;
}

/* ---- The contest ----------------------------------------------------------------------------- */

struct stall {
    const char *rest; /* of the URL */
    int64_t stop_ms;  /* after the report: the owner stops */
    int64_t end_ms;   /* the stall ends */
    int64_t timeout_ms;
    bool of_leader; /* not of the link */
};

static struct party owner;
static struct party second;
static struct party third;
static atomic_bool waits;

static void note_owner(void *user, const struct simba_state *state)
{
    (void)user;
    if (strcmp(state->after.id, "owner") == 0)
        atomic_store(&waits, true);
}

static bool is_waiting(void *unused)
{
    (void)unused;
    return atomic_load(&waits);
}

static void join_waiter(struct party *party, const struct server *server, const char *rest,
                        const char *id)
{
    atomic_store(&waits, false);
    party_join_notified(party, note_owner, server_url(server, rest), MUTEX, id);
    assert_true(test_wait(is_waiting, NULL));
}

static void *stop_owner(void *unused)
{
    (void)unused;
    party_leave(&owner);
    return NULL;
}

static void run_stall(const struct stall *stall, int64_t from_ms)
{
    pthread_t stopper;

    pause_until(from_ms + 900);
    if (stall->of_leader)
        server_pause(leader);
    else
        atomic_store(&quorum_link.hold, true);
    pause_until(from_ms + stall->stop_ms);
    assert_int_equal(pthread_create(&stopper, NULL, stop_owner, NULL), 0);
    pause_until(from_ms + stall->end_ms);
    atomic_store(&quorum_link.mute, true);
    if (stall->of_leader)
        server_go_on(leader);
    else
        atomic_store(&quorum_link.hold, false);
    pthread_join(stopper, NULL);
}

/* Returns for how many milliseconds both believed. */
static int64_t watch_owners(int64_t until_ms)
{
    int64_t both_ms = 0;
    int64_t last_ms = test_now_ms();

    while (last_ms < until_ms) {
        bool both = party_is_owner(&third) && party_is_owner(&second);
        int64_t now_ms;

        test_pause_ms(1);
        now_ms = test_now_ms();
        if (both)
            both_ms += now_ms - last_ms;
        last_ms = now_ms;
    }
    return both_ms;
}

static bool is_follower(void *unused)
{
    (void)unused;
    return strstr(server_command(follower, "srvr"), "Mode: follower") != NULL;
}

static void heal(void)
{
    atomic_store(&quorum_link.mute, false);
    atomic_store(&quorum_link.cut, true);
    party_leave(&third);
    party_leave(&second);
    assert_true(test_wait(is_follower, NULL));
}

static void check_owners(const struct stall *stall)
{
    int64_t from_ms;
    int64_t both_ms;

    party_join(&owner, server_url(other, stall->rest), MUTEX, "owner");
    party_await_acquired(&owner, 1);
    join_waiter(&second, follower, stall->rest, "second");
    join_waiter(&third, other, stall->rest, "third");
    move_pings();
    from_ms = await_report_before_a_tick();
    run_stall(stall, from_ms);
    both_ms = watch_owners(from_ms + stall->timeout_ms + TICK_MS);
    print_message("# report at %lld ms of a tick; wins of the second: %u, of the third: %u; both "
                  "owned for %lld ms\n",
                  (long long)(from_ms % TICK_MS), atomic_load(&second.acquired),
                  atomic_load(&third.acquired), (long long)both_ms);
    party_await_acquired(&third, 1);
    heal();
    assert_int_equal(both_ms, 0);
}

#define SHORT_SESSION "?ttl=1s&transition=1s&session-timeout=4s&jitter=0ms..50ms"

static void two_never_own_when_the_leader_stood_still(void **state)
{
    const struct stall stall = {SHORT_SESSION, 2600, 3100, 4000, true};

    check_owners(&stall);
}

static void two_never_own_when_the_link_from_the_leader_stood_still(void **state)
{
    const struct stall stall = {SHORT_SESSION, 2600, 3100, 4000, false};

    check_owners(&stall);
}

static void two_never_own_when_the_leader_stood_still_for_long(void **state)
{
    const struct stall stall = {"?ttl=2s&transition=2s&session-timeout=10s&jitter=0ms..50ms", 6300,
                                7000, 10000, true};

    check_owners(&stall);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_never_own_when_the_leader_stood_still),
        cmocka_unit_test(two_never_own_when_the_link_from_the_leader_stood_still),
        cmocka_unit_test(two_never_own_when_the_leader_stood_still_for_long)};

    return cmocka_run_group_tests(tests, enter, leave);
}
