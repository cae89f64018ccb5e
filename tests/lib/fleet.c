/*
 * fleet.c - see fleet.h.
 */
#include "fleet.h"

#include "test.h"

#include <simba/simba.h>

#include <pthread.h>
#include <stdatomic.h>

#define SIZE_MAX_OF_A_KIND 8

struct member {
    const struct fleet *fleet;
    pthread_t thread;
    struct fleet_stand_in *stand_in; /* NULL: it is one of ours */
    simba_client *client;
    simba_locker *locker;
    unsigned terms;
};

static _Atomic bool over;
static _Atomic int owners;
static _Atomic int overlaps;
static _Atomic int failures;

static void *compete(void *argument)
{
    struct member *member = argument;
    const struct fleet *fleet = member->fleet;

    while (!atomic_load(&over)) {
        if (member->stand_in != NULL)
            fleet->acquire(member->stand_in);
        else if (simba_locker_acquire(member->locker, NULL) != SIMBA_OK)
            failures++;
        overlaps += owners++ > 0;
        member->terms++;
        test_pause_ms(fleet->term_ms);
        owners--;
        if (member->stand_in != NULL)
            fleet->release(member->stand_in);
        else if (simba_locker_release(member->locker, NULL) != SIMBA_OK)
            failures++;
        test_pause_ms(fleet->pause_ms);
    }
    return NULL;
}

static void member_open(struct member *member, const struct fleet *fleet, bool ours, int number)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    char id[16];

    memset(member, 0, sizeof *member);
    member->fleet = fleet;
    snprintf(id, sizeof id, "%s-%d", ours ? "ours" : "jvm", number);
    if (!ours) {
        member->stand_in = fleet->open(id);
        return;
    }
    options.mutex = "m";
    options.id = id;
    assert_int_equal(simba_client_open(fleet->url, NULL, &member->client, NULL), SIMBA_OK);
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

void fleet_run(const struct fleet *fleet)
{
    struct member members[2 * SIZE_MAX_OF_A_KIND];
    unsigned ours = 0;
    unsigned theirs = 0;

    assert_true(fleet->size <= SIZE_MAX_OF_A_KIND);
    over = false;
    owners = overlaps = failures = 0;
    for (int i = 0; i < 2 * fleet->size; i++)
        member_open(&members[i], fleet, i % 2 == 0, i);
    for (int i = 0; i < 2 * fleet->size; i++)
        assert_int_equal(pthread_create(&members[i].thread, NULL, compete, &members[i]), 0);
    test_pause_ms(fleet->ms);
    over = true;
    for (int i = 0; i < 2 * fleet->size; i++) {
        pthread_join(members[i].thread, NULL);
        member_close(&members[i]);
        *(i % 2 == 0 ? &ours : &theirs) += members[i].terms;
    }
    print_message("# terms: ours %u, JVM %u\n", ours, theirs);
    assert_int_equal(failures, 0);
    assert_int_equal(overlaps, 0);
    assert_true(ours > 0 && theirs > 0);
    assert_true(ours <= 2 * theirs && theirs <= 2 * ours);
}
