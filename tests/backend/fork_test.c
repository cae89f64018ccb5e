/*
 * fork_test.c - a child that was forked without exec opens clients of its own, whatever the threads of its
 * parent were doing at that moment.
 */
#include "test.h"

#include <simba/simba.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define CHILDREN 300
#define PATIENCE_S 10 /* a child that takes longer hangs */

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
        code = simba_locker_create(client, "m", NULL, &locker, NULL);
    if (code == SIMBA_OK)
        code = simba_locker_try_acquire(locker, NULL);
    simba_locker_close(locker);
    if (code == SIMBA_OK)
        code = simba_client_close(client, NULL);
    return -code;
}

static int run_child(const char *url)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        alarm(PATIENCE_S);
        _exit(acquire(url));
    }
    if (waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : WTERMSIG(status);
}

static void a_child_opens_a_client_whatever_its_parent_was_at(void **state)
{
    pthread_t threads[2];

    (void)state;
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

    (void)state;
    assert_int_equal(simba_client_open("memory:mine", NULL, &client, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_create(client, "m", NULL, &locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    assert_int_equal(run_child("memory:mine"), SIMBA_OK);
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_opens_a_client_whatever_its_parent_was_at),
        cmocka_unit_test(a_memory_store_of_the_parent_is_not_the_childs),
    };

    return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
