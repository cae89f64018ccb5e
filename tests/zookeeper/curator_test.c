/*
 * curator_test.c - a participant of Apache Curator's LeaderLatch and one of ours take turns on one
 * path.
 */
#include "redis/party.h"
#include "stage.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MUTEX "m"
#define ROUNDS 50 /* of two hand-overs each */

static pid_t java;
static FILE *to_java;
static FILE *from_java;

/* ---- The other side -------------------------------------------------------------------------- */

static void run_java(const int input[2], const int output[2])
{
    char address[64];

    snprintf(address, sizeof address, "127.0.0.1:%d", server.port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(input[0], 0);
    dup2(output[1], 1);
    close(input[1]);
    close(output[0]);
    execlp("java", "java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", getenv("PARTICIPANT_CLASSPATH"),
           "Participant", address, "/simba/" MUTEX, "curator", (char *)NULL);
    _exit(121);
}

static const char *hear(void)
{
    static char line[256];

    if (fgets(line, sizeof line, from_java) == NULL)
        fail_msg("the Java side has ended");
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static const char *ask(const char *command)
{
    fprintf(to_java, "%s\n", command);
    fflush(to_java);
    return hear();
}

static int start(void **state)
{
    int input[2];
    int output[2];

    stage_start_watched(state);
    assert_int_equal(pipe(input), 0);
    assert_int_equal(pipe(output), 0);
    java = fork();
    if (java == 0)
        run_java(input, output);
    close(input[0]);
    close(output[1]);
    to_java = fdopen(input[1], "w");
    from_java = fdopen(output[0], "r");
    assert_string_equal(hear(), "ready");
    return 0;
}

static int stop(void **state)
{
    fclose(to_java);
    fclose(from_java);
    waitpid(java, NULL, 0);
    return stage_stop_watched(state);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static bool has_participants(void *user)
{
    return witness_count(&witness, MUTEX) == *(int *)user;
}

static void await_participants(int count)
{
    assert_true(test_wait(has_participants, &count));
}

static void assert_store_names(simba_client *client, const char *id)
{
    struct simba_mutex_status *list = NULL;
    size_t count = 0;

    assert_int_equal(simba_client_status(client, MUTEX, 5000, &list, &count, NULL), SIMBA_OK);
    assert_string_equal(list[0].owner.id, id);
    assert_int_equal(list[0].waiters, 1);
    simba_free(list);
}

/* Ours leads and theirs waits; ours goes, theirs leads; ours waits, theirs goes, ours leads. */
static void take_turns(struct party *party, unsigned round)
{
    uint64_t fence = atomic_load(&party->fence);

    assert_string_equal(ask("start"), "started");
    await_participants(2);
    assert_string_equal(ask("leads"), "no");
    assert_string_equal(ask("id"), "ours");
    assert_string_equal(ask("participants"), "2");
    assert_true(party_is_owner(party));
    assert_int_equal(simba_contender_stop(party->contender, NULL), SIMBA_OK);
    assert_string_equal(hear(), "leader");
    assert_false(party_is_owner(party));

    assert_int_equal(simba_contender_start(party->contender, NULL), SIMBA_OK);
    await_participants(2);
    assert_store_names(party->client, "curator");
    assert_string_equal(ask("leads"), "yes");
    assert_int_equal(atomic_load(&party->acquired), round);
    assert_string_equal(ask("close"), "closed");
    party_await_acquired(party, round + 1);
    assert_true(atomic_load(&party->fence) > fence);
}

static void a_hundred_hand_overs_between_curator_and_us(void **state)
{
    struct party party;

    party_join(&party, server_url(&server, "?ttl=5s&transition=5s"), MUTEX, "ours");
    party_await_acquired(&party, 1);
    for (unsigned round = 1; round <= ROUNDS; round++)
        take_turns(&party, round);
    assert_int_equal(atomic_load(&party.released), ROUNDS);
    party_leave(&party);
    await_participants(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_hand_overs_between_curator_and_us)};

    return cmocka_run_group_tests(tests, start, stop);
}
