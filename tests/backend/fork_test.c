/*
 * fork_test.c - a child that was forked without exec opens clients of its own, whatever the threads
 * of its parent were doing at that moment.
 */
#ifdef SIMBA_HAVE_SQLITE
#include "file.h"
#endif
#include "lib/locker.h"
#include "test.h"

#include <simba/simba.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define CHILDREN 300

static atomic_bool over;

/* Keeps the locks of the process busy, so that a fork finds them taken. */
static void *open_all_the_time(void *url)
{
    while (!atomic_load(&over)) {
        simba_client *client = NULL;

        if (simba_client_open(url, NULL, &client, NULL) == SIMBA_OK)
            simba_client_close(client, NULL);
    }
    return NULL;
}

/* Acquires in the child; the exit code tells how that went. */
static int acquire(const char *url)
{
    simba_client *client = NULL;
    simba_locker *locker = NULL;
    int code = simba_client_open(url, NULL, &client, NULL);

    if (code == SIMBA_OK)
        code = test_locker_create(client, "m", NULL, &locker, NULL);
    if (code == SIMBA_OK)
        code = simba_locker_try_acquire(locker, NULL);
    simba_locker_close(locker);
    if (code == SIMBA_OK)
        code = simba_client_close(client, NULL);
    return -code;
}

struct child {
    pid_t pid;
    int status;
};

static bool has_ended(void *user)
{
    struct child *child = user;

    return waitpid(child->pid, &child->status, WNOHANG) == child->pid;
}

/* Returns what the child came to, or the number of the signal that ended it. */
static int run_child(const char *url)
{
    struct child child = {.pid = fork()};

    if (child.pid == 0)
        _exit(acquire(url));
    if (!test_wait(has_ended, &child)) {
        kill(child.pid, SIGKILL);
        waitpid(child.pid, &child.status, 0);
    }
    return WIFEXITED(child.status) ? -WEXITSTATUS(child.status) : WTERMSIG(child.status);
}

static void a_child_opens_a_client_whatever_its_parent_was_at(void **state)
{
    pthread_t threads[2];

    atomic_store(&over, false);
    for (size_t i = 0; i < TEST_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_all_the_time, "memory:busy"), 0);
    for (int i = 0; i < CHILDREN; i++)
        assert_int_equal(run_child("memory:busy"), SIMBA_OK);
    atomic_store(&over, true);
    for (size_t i = 0; i < TEST_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
}

static void a_memory_store_of_the_parent_is_not_the_childs(void **state)
{
    simba_client *client = NULL;
    simba_locker *locker = NULL;

    assert_int_equal(simba_client_open("memory:mine", NULL, &client, NULL), SIMBA_OK);
    assert_int_equal(test_locker_create(client, "m", NULL, &locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    assert_int_equal(run_child("memory:mine"), SIMBA_OK);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

/* ---- SQLite ---------------------------------------------------------------------------------- */

#ifdef SIMBA_HAVE_SQLITE

static void sqlite_is_refused_in_a_child_of_its_user(void **state)
{
    struct file *file = *state;
    char other[sizeof file->url + 8];
    simba_client *client = NULL;

    snprintf(other, sizeof other, "%s.other", file->url);
    assert_int_equal(simba_client_open(file->url, NULL, &client, NULL), SIMBA_OK);
    assert_int_equal(run_child(file->url), SIMBA_EFORKED);
    assert_int_equal(run_child(other), SIMBA_EFORKED);
    assert_int_equal(run_child("memory:"), SIMBA_OK);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);

    /* What was closed in time does no harm. */
    assert_int_equal(run_child(file->url), SIMBA_OK);
}

static void sqlite_is_refused_in_a_grandchild_as_well(void **state)
{
    struct file *file = *state;
    simba_client *client = NULL;
    pid_t pid;

    assert_int_equal(simba_client_open(file->url, NULL, &client, NULL), SIMBA_OK);
    pid = fork();
    if (pid == 0)
        _exit(-run_child(file->url));
    assert_int_equal(file_wait(pid), -SIMBA_EFORKED);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

static void a_child_is_refused_or_served_whatever_its_parent_did_with_sqlite(void **state)
{
    struct file *file = *state;
    pthread_t thread;

    atomic_store(&over, false);
    assert_int_equal(pthread_create(&thread, NULL, open_all_the_time, file->url), 0);
    for (int i = 0; i < CHILDREN; i++) {
        int code = run_child(file->url);

        if (code != SIMBA_EFORKED)
            assert_true(code == SIMBA_OK || code == SIMBA_ECONTENDED);
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_opens_a_client_whatever_its_parent_was_at),
        cmocka_unit_test(a_memory_store_of_the_parent_is_not_the_childs),
#ifdef SIMBA_HAVE_SQLITE
        cmocka_unit_test_setup_teardown(sqlite_is_refused_in_a_child_of_its_user, file_setup,
                                        file_teardown),
        cmocka_unit_test_setup_teardown(sqlite_is_refused_in_a_grandchild_as_well, file_setup,
                                        file_teardown),
        cmocka_unit_test_setup_teardown(
            a_child_is_refused_or_served_whatever_its_parent_did_with_sqlite, file_setup,
            file_teardown),
#endif
    };

    return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
