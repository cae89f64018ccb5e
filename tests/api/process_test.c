/*
 * Contenders and processes: handles after fork(), a holder that is paused past its lease, and
 * hand-over between processes. Other holders are this program run again, spoken to through pipes.
 */
#include "lib/locker.h"
#include "lib/stop.h"
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- fork() ---------------------------------------------------------------------------------- */

static int wait_for_exit(pid_t child)
{
    int status = 0;

    while (waitpid(child, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs in the child: the number of the first check that fails, or 0. */
static int check_dead_contender(simba_client *client, simba_contender *contender)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    struct simba_state state = SIMBA_STATE_NONE;
    struct simba_mutex_status *list;
    struct simba_error error = {0};
    simba_contender *another;
    size_t count;

    options.mutex = "m";
    if (simba_contender_is_owner(contender) || simba_contender_is_in_ttl(contender))
        return 1;
    if (simba_contender_fence(contender) != 0 || simba_contender_deadline_ms(contender) != 0)
        return 2;
    if (simba_contender_stop(contender, &error) != SIMBA_EFORKED || error.code != SIMBA_EFORKED)
        return 3;
    if (simba_contender_start(contender, NULL) != SIMBA_EFORKED)
        return 4;
    if (simba_contender_create(client, &options, &another, NULL) != SIMBA_EFORKED)
        return 5;
    if (simba_client_status(client, NULL, 1000, &list, &count, NULL) != SIMBA_EFORKED)
        return 6;
    if (simba_client_metrics(client, &metrics) != SIMBA_EFORKED)
        return 7;
    if (simba_contender_status(contender) != SIMBA_INITIAL)
        return 11;
    simba_contender_state(contender, &state);
    if (state.after.id[0] != '\0')
        return 8;
    if (simba_contender_last_error(contender, &error) != SIMBA_EFORKED)
        return 9;
    simba_contender_close(contender);
    if (simba_client_close(client, NULL) != SIMBA_EFORKED)
        return 10;
    return 0;
}

static int check_dead_locker(simba_locker *locker)
{
    struct simba_owner owner = SIMBA_OWNER_NONE;

    if (simba_locker_is_held(locker) || simba_locker_fence(locker) != 0)
        return 21;
    if (simba_locker_release(locker, NULL) != SIMBA_EFORKED)
        return 22;
    if (simba_locker_try_acquire(locker, NULL) != SIMBA_EFORKED)
        return 23;
    if (simba_locker_acquire_timeout(locker, 10, NULL) != SIMBA_EFORKED)
        return 24;
    simba_locker_owner(locker, &owner);
    if (owner.id[0] != '\0')
        return 25;
    simba_locker_cancel(locker);
    simba_locker_close(locker);
    return 0;
}

struct busy {
    simba_contender *contender;
    simba_locker *locker;
    atomic_bool over;
};

/* Keeps the locks of the handles busy, so that a fork finds them taken. */
static void *keep_locks_busy(void *user)
{
    struct busy *busy = user;
    struct simba_state state;

    while (!atomic_load(&busy->over)) {
        simba_contender_state(busy->contender, &state);
        simba_locker_cancel(busy->locker);
    }
    return NULL;
}

static void handles_are_dead_in_a_child_and_live_on_in_the_parent(void **state)
{
    simba_client *client = probe_open("memory:fork?" PROBE_LONG);
    struct probe p = {0};
    struct busy busy = {0};
    simba_locker *locker;
    pthread_t thread;
    uint64_t fence;

    probe_create(&p, client, "m", NULL);
    assert_int_equal(test_locker_create(client, "l", NULL, &locker, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(locker, NULL), SIMBA_OK);
    probe_start(&p);
    probe_wait_owner(&p);
    fence = simba_contender_fence(p.contender);
    busy.contender = p.contender;
    busy.locker = locker;
    pthread_create(&thread, NULL, keep_locks_busy, &busy);
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            int code;

            alarm(10); /* a lock that nobody holds any more would never be free */
            code = check_dead_locker(locker);
            _exit(code != 0 ? code : check_dead_contender(client, p.contender));
        }
        assert_int_equal(wait_for_exit(child), 0);
    }
    atomic_store(&busy.over, true);
    pthread_join(thread, NULL);
    assert_true(simba_contender_is_owner(p.contender));
    assert_int_equal(simba_contender_fence(p.contender), fence);
    assert_true(simba_locker_is_held(locker));
    assert_int_equal(simba_locker_release(locker, NULL), SIMBA_OK);
    simba_locker_close(locker);
    probe_end(&p);
    probe_close(client);
}

/* A copy of the process that calls no handlers of fork(). */
static pid_t copy_process(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static void handles_are_dead_in_a_copy_that_calls_no_handlers(void **state)
{
    pid_t (*const copies[])(void) = {_Fork, copy_process};
    simba_client *client = probe_open("memory:fork?" PROBE_LONG);
    struct probe p = {0};

    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_owner(&p);
    for (size_t i = 0; i < TEST_COUNT(copies); i++) {
        pid_t child = copies[i]();

        assert_true(child >= 0);
        if (child == 0) { /* only what takes no lock is allowed there */
            bool dead = !simba_contender_is_owner(p.contender) &&
                        simba_contender_fence(p.contender) == 0 &&
                        simba_contender_stop(p.contender, NULL) == SIMBA_EFORKED;
            _exit(dead ? 0 : 1);
        }
        assert_int_equal(wait_for_exit(child), 0);
    }
    assert_true(simba_contender_is_owner(p.contender));
    probe_end(&p);
    probe_close(client);
}

static bool is_active(void *contender)
{
    return simba_contender_is_owner(contender);
}

/* Runs in the child: as above. */
static int use_own_client(void)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_contender *contender = NULL;
    simba_client *client = NULL;

    options.mutex = "m";
    if (simba_client_open("memory:child?" PROBE_LONG, NULL, &client, NULL) != SIMBA_OK)
        return 31;
    if (simba_contender_create(client, &options, &contender, NULL) != SIMBA_OK ||
        simba_contender_start(contender, NULL) != SIMBA_OK)
        return 32;
    if (!test_wait(is_active, contender))
        return 33;
    if (simba_contender_stop(contender, NULL) != SIMBA_OK)
        return 34;
    simba_contender_close(contender);
    return simba_client_close(client, NULL) == SIMBA_OK ? 0 : 35;
}

static void fork_inside(struct probe *p)
{
    pid_t child = fork();

    if (child == 0) {
        alarm(10);
        _exit(use_own_client());
    }
    atomic_store((atomic_int *)p->user, wait_for_exit(child));
}

static void a_child_that_was_forked_inside_a_callback_can_close_its_clients(void **state)
{
    simba_client *client = probe_open("memory:fork?" PROBE_LONG);
    atomic_int code = -1;
    struct probe p = {.in_acquired = fork_inside, .user = &code};

#if defined(__SANITIZE_THREAD__)
    probe_close(client);
    skip(); /* it ends a child that starts threads */
#endif
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.returned, 1);
    assert_int_equal(atomic_load(&code), 0);
    probe_end(&p);
    probe_close(client);
}

/* ---- Another process ------------------------------------------------------------------------- */

struct holder {
    pid_t pid;
    FILE *to;
    FILE *from;
};

static void holder_start(struct holder *holder, const char *url)
{
    char program[TEST_PATH_MAX] = "";
    int down[2];
    int up[2];

    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    assert_int_equal(pipe2(down, O_CLOEXEC), 0);
    assert_int_equal(pipe2(up, O_CLOEXEC), 0);
    holder->pid = fork();
    assert_true(holder->pid >= 0);
    if (holder->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(down[0], STDIN_FILENO);
        dup2(up[1], STDOUT_FILENO);
        execl(program, program, "holder", url, (char *)NULL);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    holder->to = fdopen(down[1], "w");
    holder->from = fdopen(up[0], "r");
}

static void holder_say(struct holder *holder, const char *word)
{
    fprintf(holder->to, "%s\n", word);
    fflush(holder->to);
}

/* Reads a line, which must open with `word`, and returns the number behind it. */
static unsigned long long holder_expect(struct holder *holder, const char *word)
{
    unsigned long long number = 0;
    char line[64];
    char got[32] = "";

    if (fgets(line, sizeof line, holder->from) == NULL)
        fail_msg("the holder ended before it said '%s'", word);
    assert_true(sscanf(line, "%31s %llu", got, &number) >= 1);
    assert_string_equal(got, word);
    return number;
}

static int holder_end(struct holder *holder)
{
    fclose(holder->to);
    fclose(holder->from);
    return wait_for_exit(holder->pid);
}

static pthread_mutex_t say_lock = PTHREAD_MUTEX_INITIALIZER;

static void say(const char *word, unsigned long long number)
{
    pthread_mutex_lock(&say_lock);
    printf("%s %llu\n", word, number);
    fflush(stdout);
    pthread_mutex_unlock(&say_lock);
}

static void say_acquired(struct probe *p)
{
    say("acquired", atomic_load(&p->fence));
}

static void *wait_for_other(void *locker)
{
    simba_locker_acquire(locker, NULL);
    return NULL;
}

/* Has a thread wait inside the library for good, as programs do; it turns the loop of the
 * client. */
static void start_waiting(simba_client *client)
{
    simba_locker *locker = NULL;
    pthread_t thread;

    if (test_locker_create(client, "other", NULL, &locker, NULL) != SIMBA_OK ||
        pthread_create(&thread, NULL, wait_for_other, locker) != 0)
        _exit(3);
    pthread_detach(thread);
    say("waiting", 1);
}

/* The other process: owns, and answers questions on its standard input until that ends. Nothing but
 * the answers to "owner" and "counts" comes from the thread that reads. */
static int run_holder(const char *url)
{
    struct probe p = {.in_acquired = say_acquired};
    simba_client *client = NULL;
    char line[32];

    if (simba_client_open(url, NULL, &client, NULL) != SIMBA_OK)
        return 1;
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "owner", 5) == 0)
            say("owner", simba_contender_is_owner(p.contender) ? 1 : 0);
        else if (strncmp(line, "lost", 4) == 0) {
            probe_wait_count(&p.released, 1);
            say("lost", atomic_load(&p.released));
        } else if (strncmp(line, "stop", 4) == 0) {
            simba_contender_stop(p.contender, NULL);
            say("stopped", atomic_load(&p.released));
        } else if (strncmp(line, "wait", 4) == 0) {
            start_waiting(client);
        } else if (strncmp(line, "exit", 4) == 0) {
            _exit(0);
        }
    }
    simba_contender_close(p.contender);
    return simba_client_close(client, NULL) == SIMBA_OK ? 0 : 2;
}

static int make_folder(void **state)
{
    char *folder = malloc(TEST_PATH_MAX);

    test_folder_create(folder);
    *state = folder;
    return 0;
}

static int remove_folder(void **state)
{
    test_folder_remove(*state);
    free(*state);
    return 0;
}

static void a_holder_paused_past_its_lease_does_not_believe_any_more(void **state)
{
    char url[TEST_PATH_MAX + 128];
    struct holder holder;
    struct probe p = {0};
    simba_client *client;
    unsigned long long fence;

    probe_sqlite_url(url, sizeof url, *state, PROBE_SHORT);
    holder_start(&holder, url);
    fence = holder_expect(&holder, "acquired");
    holder_say(&holder, "owner");
    assert_int_equal(holder_expect(&holder, "owner"), 1);
    client = probe_open(url);
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    assert_true(test_stop_child(holder.pid));
    probe_wait_count(&p.acquired, 1);
    assert_true(atomic_load(&p.fence) > fence);
    holder_say(&holder, "owner"); /* waits in the pipe: the first thing that the holder sees */
    kill(holder.pid, SIGCONT);
    assert_int_equal(holder_expect(&holder, "owner"), 0);
    holder_say(&holder, "lost");
    assert_int_equal(holder_expect(&holder, "lost"), 1);
    assert_true(simba_contender_is_owner(p.contender));
    holder_say(&holder, "stop");
    assert_int_equal(holder_expect(&holder, "stopped"), 1); /* once, and not again by the stop */
    assert_int_equal(holder_end(&holder), 0);
    probe_end(&p);
    probe_close(client);
}

/* The thread that turns the loop stands still with all the others, and goes on with what it
 * finds. */
static void a_holder_paused_while_a_thread_waits_loses_and_learns_it(void **state)
{
    char url[TEST_PATH_MAX + 128];
    struct holder holder;
    struct probe other = {0};
    struct probe p = {0};
    simba_client *client;

    probe_sqlite_url(url, sizeof url, *state, PROBE_SHORT);
    client = probe_open(url);
    probe_create(&other, client, "other", NULL);
    probe_start(&other);
    probe_wait_count(&other.acquired, 1);
    holder_start(&holder, url);
    holder_expect(&holder, "acquired");
    holder_say(&holder, "wait");
    holder_expect(&holder, "waiting");
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    assert_true(test_stop_child(holder.pid));
    probe_wait_count(&p.acquired, 1);
    holder_say(&holder, "owner");
    kill(holder.pid, SIGCONT);
    assert_int_equal(holder_expect(&holder, "owner"), 0);
    holder_say(&holder, "lost");
    assert_int_equal(holder_expect(&holder, "lost"), 1);
    holder_say(&holder, "exit");
    assert_int_equal(holder_end(&holder), 0);
    probe_end(&p);
    probe_end(&other);
    probe_close(client);
}

static void a_mutex_passes_from_process_to_process(void **state)
{
    char url[TEST_PATH_MAX + 128];
    struct holder holder;
    struct probe p = {0};
    simba_client *client;
    unsigned long long fence;

    probe_sqlite_url(url, sizeof url, *state, PROBE_LONG);
    client = probe_open(url);
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    holder_start(&holder, url);
    probe_stop(&p);
    fence = holder_expect(&holder, "acquired");
    assert_true(fence > atomic_load(&p.fence));
    probe_start(&p);
    holder_say(&holder, "stop");
    assert_int_equal(holder_expect(&holder, "stopped"), 1);
    probe_wait_count(&p.acquired,
                     2); /* within the patience of a test, which is less than a lease */
    assert_true(atomic_load(&p.fence) > fence);
    assert_int_equal(holder_end(&holder), 0);
    probe_end(&p);
    probe_close(client);
}

static void a_killed_holder_is_followed_when_its_lease_has_ended(void **state)
{
    char url[TEST_PATH_MAX + 128];
    struct holder holder;
    struct probe p = {0};
    simba_client *client;

    probe_sqlite_url(url, sizeof url, *state, PROBE_SHORT);
    holder_start(&holder, url);
    holder_expect(&holder, "acquired");
    kill(holder.pid, SIGKILL);
    assert_int_equal(holder_end(&holder), 128 + SIGKILL);
    client = probe_open(url);
    probe_create(&p, client, "m", NULL);
    probe_start(&p);
    probe_wait_count(&p.acquired, 1);
    probe_end(&p);
    probe_close(client);
}

int main(int argc, char *argv[])
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handles_are_dead_in_a_child_and_live_on_in_the_parent),
        cmocka_unit_test(handles_are_dead_in_a_copy_that_calls_no_handlers),
        cmocka_unit_test(a_child_that_was_forked_inside_a_callback_can_close_its_clients),
        cmocka_unit_test_setup_teardown(a_holder_paused_past_its_lease_does_not_believe_any_more,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_holder_paused_while_a_thread_waits_loses_and_learns_it,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_mutex_passes_from_process_to_process, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_killed_holder_is_followed_when_its_lease_has_ended,
                                        make_folder, remove_folder),
    };

    if (argc == 3 && strcmp(argv[1], "holder") == 0)
        return run_holder(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
