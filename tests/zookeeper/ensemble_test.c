/*
 * ensemble_test.c - three servers, of which the leader is killed, or one that follows is cut off.
 */
#include "redis/party.h"
#include "server.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MUTEX "m"

static struct server servers[ENSEMBLE_SIZE];

static int enter(void **state)
{
    ensemble_start(servers);
    return 0;
}

static int leave(void **state)
{
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

/* The owner's server is stopped behind a renewal, before it can tell the leader of it. What the
 * leader knows is the renewal before that one, nearly a third of the session earlier, so that there
 * was no ping in between. */
static void two_never_own_when_the_server_of_the_owner_is_cut_off_behind_a_renewal(void **state)
{
    static const char rest[] = "?ttl=1900ms&transition=2700ms&session-timeout=6s&jitter=0ms..50ms";
    struct server *follower = a_follower();
    struct party rival;

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

/* ---- A process that stands still ------------------------------------------------------------- */

/* What a contender in a process of its own tells the test. */
struct told {
    atomic_bool waits;
    atomic_bool acquired;
    _Atomic int64_t believed_ms; /* when it last did */
};

static struct told *map_told(int fd)
{
    void *memory = mmap(NULL, sizeof(struct told), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_true(memory != MAP_FAILED);
    return memory;
}

static struct told *told_to;

static void note_owner(void *user, const struct simba_state *state)
{
    (void)user;
    if (strcmp(state->after.id, "owner") == 0)
        atomic_store(&told_to->waits, true);
}

/* The other process: until it is killed. */
_Noreturn static void contend(const char *contender_url, int fd)
{
    static struct party party;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    told_to = map_told(fd);
    party_join_notified(&party, note_owner, contender_url, MUTEX, "frozen");
    for (;;) {
        int64_t now_ms = test_now_ms();

        if (party_is_owner(&party))
            atomic_store(&told_to->believed_ms, now_ms);
        if (atomic_load(&party.acquired) > 0)
            atomic_store(&told_to->acquired, true);
        test_pause_ms(1);
    }
}

static pid_t start_contender(const char *contender_url, int fd)
{
    char number[16];
    pid_t pid;

    snprintf(number, sizeof number, "%d", fd);
    pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "ensemble", contender_url, number, (char *)NULL);
        _exit(121);
    }
    assert_true(pid > 0);
    return pid;
}

static bool waits(void *user)
{
    return atomic_load(&((struct told *)user)->waits);
}

static bool has_acquired(void *user)
{
    return atomic_load(&((struct told *)user)->acquired);
}

/* The process wins when it goes on, because its server answers at once. That server is stopped
 * before it can tell the leader, which counts the session from before the process stood still. */
static void stand_still_and_win(struct server *follower, const char *rest)
{
    int fd = memfd_create("told", 0);
    struct told *told;
    struct party rival;
    int64_t stopped_ms;
    int64_t rival_ms;
    pid_t pid;

    assert_int_equal(ftruncate(fd, sizeof *told), 0);
    told = map_told(fd);
    party_join(&owner, server_url(ensemble_leader(servers), rest), MUTEX, "owner");
    party_await_acquired(&owner, 1);
    pid = start_contender(server_url(follower, rest), fd);
    assert_true(test_wait(waits, told));
    party_join(&rival, server_url(ensemble_leader(servers), rest), MUTEX, "rival");
    stopped_ms = test_now_ms();
    kill(pid, SIGSTOP);
    test_pause_ms(4000);
    party_leave(&owner);
    test_pause_ms(stopped_ms + 4700 - test_now_ms());
    kill(pid, SIGCONT);
    test_wait_within(1000, has_acquired, told);
    server_pause(follower);
    party_await_acquired(&rival, 1);
    rival_ms = test_now_ms();
    test_pause_ms(20);
    print_message("# won: %d; its belief ended %lld ms before the other one's began\n",
                  atomic_load(&told->acquired), (long long)(rival_ms - told->believed_ms));
    assert_true(atomic_load(&told->believed_ms) < rival_ms);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    server_go_on(follower);
    party_leave(&rival);
    munmap(told, sizeof *told);
    close(fd);
}

static void two_never_own_when_a_process_wins_after_it_stood_still(void **state)
{
    for (int i = 0; i < 2; i++)
        stand_still_and_win(a_follower(),
                            "?ttl=1900ms&transition=2700ms&session-timeout=6s&jitter=0ms..50ms");
}

/* ---------------------------------------------------------------------------------------------- */

static void contenders_begin_anew_on_an_ensemble_that_came_back_without_data(void **state)
{
    static const char rest[] = "?ttl=2s&transition=2s&jitter=0ms..50ms";
    struct party waiter;

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

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            two_never_own_when_the_server_of_the_owner_is_cut_off_behind_a_renewal, enter, leave),
        cmocka_unit_test_setup_teardown(two_never_own_when_a_process_wins_after_it_stood_still,
                                        enter, leave),
        cmocka_unit_test_setup_teardown(contenders_survive_the_end_of_the_leading_server, enter,
                                        leave),
        cmocka_unit_test_setup_teardown(
            contenders_begin_anew_on_an_ensemble_that_came_back_without_data, enter, leave)};

    if (count > 2)
        contend(arguments[1], atoi(arguments[2]));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
