/*
 * slow_disk_test.c - a disk that stalls one request on an SQLite file does not stall the client's
 * others: beliefs end by the clock, and callbacks come in time.
 */
#include "lib/locker.h"
#include "probe.h"

#include <sqlite3.h>

/* ---- The disk -------------------------------------------------------------------------------- */

static atomic_bool stalls;  /* requests for the mutex "wanted" */
static atomic_uint stalled; /* that many have been */
static struct gate moves_again = GATE_INIT;

static int on_statement(unsigned event, void *user, void *statement, void *text)
{
    char *sql = sqlite3_expanded_sql(statement);

    (void)event;
    (void)user;
    (void)text;
    if (sql != NULL && strstr(sql, "'wanted'") != NULL && atomic_load(&stalls)) {
        atomic_fetch_add(&stalled, 1);
        gate_wait(&moves_again);
    }
    sqlite3_free(sql);
    return 0;
}

/* SQLite calls this for every connection of the process. */
static int attach(sqlite3 *db, const char **error, const void *api)
{
    (void)error;
    (void)api;
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_statement, NULL);
}

/* ---- The services ---------------------------------------------------------------------------- */

static void *acquire(void *locker)
{
    int code = simba_locker_acquire_timeout(locker, 500, NULL);

    if (code == SIMBA_OK)
        simba_locker_release(locker, NULL);
    return NULL;
}

/* The thread that waits for the lock turns the loop, on which the leader's time runs out. */
static void tell_leader_while_locker_stalls(const char *leader_id, const char *locker_id)
{
    char folder[TEST_PATH_MAX];
    char url[TEST_PATH_MAX + 128];
    struct probe leader = {0};
    simba_locker *locker = NULL;
    simba_client *client;
    pthread_t thread;

    test_folder_create(folder);
    probe_sqlite_url(url, sizeof url, folder, PROBE_SHORT);
    assert_int_equal(sqlite3_auto_extension((void (*)(void))attach), SQLITE_OK);
    client = probe_open(url);
    probe_create(&leader, client, "led", leader_id);
    probe_start(&leader);
    probe_wait_owner(&leader);
    assert_int_equal(test_locker_create(client, "wanted", locker_id, &locker, NULL), SIMBA_OK);
    atomic_store(&stalled, 0);
    atomic_store(&stalls, true);
    assert_int_equal(pthread_create(&thread, NULL, acquire, locker), 0);
    probe_wait_count(&stalled, 1);
    probe_wait_count(&leader.released, 1);
    assert_false(simba_contender_is_owner(leader.contender));
    atomic_store(&stalls, false);
    gate_open(&moves_again);
    pthread_join(thread, NULL);
    moves_again.open = false;
    probe_wait_owner(&leader);
    simba_locker_close(locker);
    probe_end(&leader);
    probe_close(client);
    sqlite3_cancel_auto_extension((void (*)(void))attach);
    test_folder_remove(folder);
}

static void a_leader_is_told_of_its_loss_while_the_disk_stalls_a_locker(void **state)
{
    tell_leader_while_locker_stalls(NULL, NULL);
}

/* Many programs call all that they have by the name of the host. */
static void also_one_that_has_the_same_id(void **state)
{
    tell_leader_while_locker_stalls("host", "host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_is_told_of_its_loss_while_the_disk_stalls_a_locker),
        cmocka_unit_test(also_one_that_has_the_same_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
