/*
 * stop_test.c - a child that locks a file most of the time is stopped where it does not.
 */
#include "stop.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define ROUNDS 50

static FILE *file;

static struct flock whole(short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

    return lock;
}

/* As a process does that writes to SQLite now and then, but far more often. */
static void lock_again_and_again(void)
{
    struct flock on = whole(F_WRLCK);
    struct flock off = whole(F_UNLCK);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        fcntl(fileno(file), F_SETLK, &on);
        test_pause_ms(3);
        fcntl(fileno(file), F_SETLK, &off);
        test_pause_ms(1);
    }
}

static bool is_locked(void *user)
{
    struct flock lock = whole(F_WRLCK);

    (void)user;
    assert_int_equal(fcntl(fileno(file), F_GETLK, &lock), 0);
    return lock.l_type != F_UNLCK;
}

static void a_child_is_stopped_where_it_holds_no_lock(void **state)
{
    pid_t child = fork();

    if (child == 0)
        lock_again_and_again();
    for (int i = 0; i < ROUNDS; i++) {
        assert_true(test_wait(is_locked, NULL));
        assert_true(test_stop_child(child));
        assert_false(is_locked(NULL));
        test_pause_ms(5); /* more than it locks or rests: it does not go on by itself */
        assert_false(is_locked(NULL));
        kill(child, SIGCONT);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void who_holds_a_lock_for_good_is_not_waited_for_without_end(void **state)
{
    pid_t child = fork();

    if (child == 0) {
        struct flock on = whole(F_WRLCK);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fcntl(fileno(file), F_SETLK, &on);
        for (;;)
            pause();
    }
    assert_true(test_wait(is_locked, NULL));
    assert_false(test_stop_child(child));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_false(test_stop_child(child));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_is_stopped_where_it_holds_no_lock),
        cmocka_unit_test(who_holds_a_lock_for_good_is_not_waited_for_without_end),
    };
    int failed;

    file = tmpfile();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    fclose(file);
    return failed;
}
