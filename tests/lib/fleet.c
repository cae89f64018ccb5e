/*
 * fleet.c - see fleet.h.
 */
#include "fleet.h"

#include "test.h"

#include <simba/simba.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE_MAX_OF_A_KIND 8

/* Of both processes. */
struct state {
    _Atomic bool begun; /* ours have made what is missing on the store */
    _Atomic bool over;
    _Atomic int owners;
    _Atomic int overlaps;
    _Atomic int failures;
    _Atomic unsigned ours; /* terms */
    _Atomic unsigned theirs;
};

struct member {
    const struct fleet *fleet;
    struct state *state;
    pthread_t thread;
    struct fleet_stand_in *stand_in; /* NULL: it is one of ours */
    simba_client *client;
    simba_locker *locker;
};

static void *compete(void *argument)
{
    struct member *member = argument;
    const struct fleet *fleet = member->fleet;
    struct state *state = member->state;

    while (!atomic_load(&state->over)) {
        if (member->stand_in != NULL)
            fleet->acquire(member->stand_in);
        else if (simba_locker_acquire(member->locker, NULL) != SIMBA_OK)
            state->failures++;
        state->overlaps += state->owners++ > 0;
        atomic_fetch_add(member->stand_in != NULL ? &state->theirs : &state->ours, 1);
        test_pause_ms(fleet->term_ms);
        state->owners--;
        if (member->stand_in != NULL)
            fleet->release(member->stand_in);
        else if (simba_locker_release(member->locker, NULL) != SIMBA_OK)
            state->failures++;
        test_pause_ms(fleet->pause_ms);
    }
    return NULL;
}

static void member_open(struct member *member, bool ours, int number)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    char id[16];

    snprintf(id, sizeof id, "%s-%d", ours ? "ours" : "jvm", number);
    if (!ours) {
        member->stand_in = member->fleet->open(id);
        return;
    }
    options.mutex = "m";
    options.id = id;
    assert_int_equal(simba_client_open(member->fleet->url, NULL, &member->client, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_create(member->client, &options, &member->locker, NULL),
                     SIMBA_OK);
}

static void member_close(struct member *member)
{
    if (member->stand_in != NULL) {
        member->fleet->close(member->stand_in);
        return;
    }
    simba_locker_close(member->locker);
    simba_client_close(member->client, NULL);
}

static void run_kind(const struct fleet *fleet, struct state *state, bool ours)
{
    struct member members[SIZE_MAX_OF_A_KIND];

    while (!ours && !state->begun)
        test_pause_ms(1);
    for (int i = 0; i < fleet->size; i++) {
        members[i] = (struct member){.fleet = fleet, .state = state};
        member_open(&members[i], ours, i);
    }
    state->begun = true;
    for (int i = 0; i < fleet->size; i++)
        assert_int_equal(pthread_create(&members[i].thread, NULL, compete, &members[i]), 0);
    if (ours) {
        test_pause_ms(fleet->ms);
        state->over = true;
    }
    for (int i = 0; i < fleet->size; i++) {
        pthread_join(members[i].thread, NULL);
        member_close(&members[i]);
    }
}

void fleet_run(const struct fleet *fleet)
{
    struct state *state =
        mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = -1;
    pid_t jvm;

    assert_true(fleet->size <= SIZE_MAX_OF_A_KIND && state != MAP_FAILED);
    jvm = fork();
    assert_true(jvm >= 0);
    if (jvm == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_kind(fleet, state, jvm > 0);
    if (jvm == 0)
        _exit(0);
    assert_int_equal(waitpid(jvm, &status, 0), jvm);
    assert_int_equal(status, 0);
    print_message("# terms: ours %u, JVM %u\n", state->ours, state->theirs);
    assert_int_equal(state->failures, 0);
    assert_int_equal(state->overlaps, 0);
    assert_true(state->ours > 0 && state->theirs > 0);
    assert_true(state->ours <= 2 * state->theirs && state->theirs <= 2 * state->ours);
    munmap(state, sizeof *state);
}
