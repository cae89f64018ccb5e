/*
 * Who turns the loop: a thread that waits turns it itself, nobody is stranded when it goes, and
 * nobody is woken without need.
 */
#include "probe.h"
#include "runtime/wait.h"

#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <uv.h>

/* How late something may be on a machine that is busy with other things. */
#define LATE_MS 2000

static void ignore_turn(void *argument)
{
    (void)argument;
}

static int make_loop(void **state)
{
    struct sb_loop *loop = NULL;

    if (sb_loop_create(ignore_turn, NULL, &loop, NULL) != SIMBA_OK)
        return -1;
    *state = loop;
    return 0;
}

static int free_loop(void **state)
{
    sb_loop_destroy(*state);
    return 0;
}

/* ---- A flag that the loop sets, and the wait for it ------------------------------------------ */

struct flag {
    struct simba_task task; /* first */
    struct sb_timer timer;
    struct sb_loop *loop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool set;
    unsigned asked;   /* how often its waiter has looked */
    bool current;     /* the loop said so */
    pthread_t setter; /* the thread that the loop ran on */
    int64_t due_ms;
};

static void set_flag(struct flag *flag)
{
    pthread_mutex_lock(&flag->lock);
    flag->set = true;
    flag->current = sb_loop_is_current(flag->loop);
    flag->setter = pthread_self();
    pthread_cond_broadcast(&flag->changed);
    pthread_mutex_unlock(&flag->lock);
}

static void set_by_task(struct simba_task *task)
{
    set_flag((struct flag *)task);
}

static void set_by_timer(struct sb_timer *timer)
{
    set_flag((struct flag *)((char *)timer - offsetof(struct flag, timer)));
}

static void arm_by_task(struct simba_task *task)
{
    struct flag *flag = (struct flag *)task;

    sb_loop_arm(flag->loop, &flag->timer, flag->due_ms);
}

static void flag_init(struct flag *flag, struct sb_loop *loop)
{
    memset(flag, 0, sizeof *flag);
    flag->loop = loop;
    flag->task.run = set_by_task;
    flag->timer.fire = set_by_timer;
    pthread_mutex_init(&flag->lock, NULL);
    sb_wait_init_cond(&flag->changed);
}

static void flag_end(struct flag *flag)
{
    pthread_cond_destroy(&flag->changed);
    pthread_mutex_destroy(&flag->lock);
}

static bool is_set(void *argument)
{
    struct flag *flag = argument;

    flag->asked++;
    return flag->set;
}

static bool flag_is_set(void *argument)
{
    struct flag *flag = argument;
    bool set;

    pthread_mutex_lock(&flag->lock);
    set = flag->set;
    pthread_mutex_unlock(&flag->lock);
    return set;
}

static bool flag_wait(struct flag *flag, int64_t until_ms)
{
    struct sb_wait wait = {&flag->lock, &flag->changed, is_set, flag, until_ms, 0};
    bool set;

    pthread_mutex_lock(&flag->lock);
    set = sb_wait(flag->loop, &wait);
    pthread_mutex_unlock(&flag->lock);
    return set;
}

static void *wait_for_flag(void *argument)
{
    flag_wait(argument, SIMBA_INFINITE);
    return NULL;
}

/* It looks once before it knows how it will wait, and then again as the owner, or with the lock
 * that it gives up only in its sleep. */
static bool is_waited_for(void *argument)
{
    struct flag *flag = argument;
    unsigned asked;

    pthread_mutex_lock(&flag->lock);
    asked = flag->asked;
    pthread_mutex_unlock(&flag->lock);
    return asked >= 2;
}

/* Has a thread wait, and returns when it does. */
static pthread_t start_waiting(struct flag *flag)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, wait_for_flag, flag), 0);
    assert_true(test_wait(is_waited_for, flag));
    return thread;
}

/* ---- Turning --------------------------------------------------------------------------------- */

/* Has a task run and waits for it; whether this thread ran it. The loop's thread may have been at
 * work just then. */
static bool runs_here(struct sb_loop *loop, void (*run)(struct simba_task *task))
{
    struct flag flag;
    bool here;

    flag_init(&flag, loop);
    flag.task.run = run;
    sb_loop_push(loop, &flag.task);
    assert_true(flag_wait(&flag, SIMBA_INFINITE));
    assert_true(flag.current);
    here = pthread_equal(flag.setter, pthread_self()) != 0;
    flag_end(&flag);
    return here;
}

static void a_thread_that_waits_turns_the_loop_itself(void **state)
{
    int here = 0;

    for (int i = 0; i < 100; i++)
        here += runs_here(*state, set_by_task) ? 1 : 0;
    assert_true(here > 50);
    assert_false(sb_loop_is_current(*state));
}

static void what_is_posted_while_a_thread_turns_the_loop_runs_on_it(void **state)
{
    struct flag waited;
    struct flag posted;
    pthread_t thread;

    flag_init(&waited, *state);
    flag_init(&posted, *state);
    thread = start_waiting(&waited);
    sb_loop_post(*state, &posted.task);
    assert_true(test_wait(flag_is_set, &posted));
    assert_true(pthread_equal(posted.setter, thread));
    sb_loop_post(*state, &waited.task);
    pthread_join(thread, NULL);
    flag_end(&posted);
    flag_end(&waited);
}

/* The second one is left behind by the first, and what it waits for comes by the clock. */
static void whoever_still_waits_is_not_stranded_when_the_turning_thread_goes(void **state)
{
    for (int i = 0; i < 50; i++) {
        struct flag first;
        struct flag second;
        pthread_t threads[2];
        int64_t due_ms;

        flag_init(&first, *state);
        flag_init(&second, *state);
        threads[0] = start_waiting(&first);
        threads[1] = start_waiting(&second);
        due_ms = second.due_ms = simba_now_ms() + 5;
        second.task.run = arm_by_task;
        sb_loop_post(*state, &second.task);
        sb_loop_post(*state, &first.task);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        assert_true(simba_now_ms() - due_ms < LATE_MS);
        flag_end(&second);
        flag_end(&first);
    }
}

/* The loop's thread is not told that the thread has gone. */
static void deadlines_are_kept_after_the_turning_thread_has_gone(void **state)
{
    int64_t worst_ms = 0;

    for (int i = 0; i < 100; i++) {
        struct flag flag;
        int64_t late_ms;

        flag_init(&flag, *state);
        flag.task.run = arm_by_task;
        flag.due_ms = simba_now_ms() + 1 + i % 4;
        sb_loop_push(*state, &flag.task);
        assert_false(flag_wait(&flag, simba_now_ms()));
        assert_true(test_wait(flag_is_set, &flag));
        late_ms = simba_now_ms() - flag.due_ms;
        worst_ms = late_ms > worst_ms ? late_ms : worst_ms;
        flag_end(&flag);
    }
    assert_true(worst_ms < LATE_MS);
}

static void tasks_are_run_after_the_turning_thread_has_gone(void **state)
{
    for (int i = 0; i < 200; i++) {
        struct flag waited;
        struct flag posted;

        flag_init(&waited, *state);
        flag_init(&posted, *state);
        sb_loop_push(*state, &waited.task);
        assert_true(flag_wait(&waited, SIMBA_INFINITE));
        sb_loop_post(*state, &posted.task);
        assert_true(test_wait(flag_is_set, &posted));
        flag_end(&posted);
        flag_end(&waited);
    }
}

static void a_wait_ends_at_its_limit_whoever_turns_the_loop(void **state)
{
    struct flag other;
    struct flag flag;
    pthread_t thread;
    int64_t until_ms = simba_now_ms() + 30;

    flag_init(&flag, *state);
    flag_init(&other, *state);
    assert_false(flag_wait(&flag, until_ms));
    assert_in_range(simba_now_ms() - until_ms, 0, LATE_MS);
    thread = start_waiting(&other);
    until_ms = simba_now_ms() + 30;
    assert_false(flag_wait(&flag, until_ms));
    assert_in_range(simba_now_ms() - until_ms, 0, LATE_MS);
    sb_loop_post(*state, &other.task);
    pthread_join(thread, NULL);
    flag_end(&other);
    flag_end(&flag);
}

static void a_thread_that_turns_the_loop_looks_again_when_it_is_woken(void **state)
{
    struct flag flag;
    pthread_t thread;

    flag_init(&flag, *state);
    thread = start_waiting(&flag);
    set_flag(&flag); /* not on the loop */
    sb_loop_wake(*state);
    pthread_join(thread, NULL);
    flag_end(&flag);
}

static void spend_time(void *argument)
{
    sem_post(argument);
    test_pause_ms(50);
}

struct call {
    struct sb_loop *loop;
    sem_t begun;
};

static void *call_slowly(void *argument)
{
    struct call *call = argument;

    sb_loop_call(call->loop, spend_time, &call->begun);
    return NULL;
}

static void a_thread_waits_for_its_turn_to_own_the_loop(void **state)
{
    struct call call = {.loop = *state};
    struct flag flag;
    pthread_t thread;

    flag_init(&flag, *state);
    sem_init(&call.begun, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, call_slowly, &call), 0);
    sem_wait(&call.begun);
    assert_false(flag_wait(&flag, simba_now_ms() + 10));
    sb_loop_push(*state, &flag.task);
    assert_true(flag_wait(&flag, SIMBA_INFINITE));
    assert_true(flag.current);
    pthread_join(thread, NULL);
    sem_destroy(&call.begun);
    flag_end(&flag);
}

static void a_loop_can_end_right_after_somebody_turned_it(void **state)
{
    for (int i = 0; i < 100; i++) {
        struct sb_loop *loop = NULL;
        struct flag flag;

        assert_int_equal(sb_loop_create(ignore_turn, NULL, &loop, NULL), SIMBA_OK);
        flag_init(&flag, loop);
        sb_loop_push(loop, &flag.task);
        assert_true(flag_wait(&flag, SIMBA_INFINITE));
        if (i % 2 == 0)
            test_pause_ms(i % 5);
        sb_loop_destroy(loop);
        flag_end(&flag);
    }
}

/* ---- Many threads ---------------------------------------------------------------------------- */

#define CROWD 4

static void *wait_many_times(void *argument)
{
    for (int i = 0; i < 500; i++) {
        struct flag flag;

        flag_init(&flag, argument);
        sb_loop_push(argument, &flag.task);
        flag_wait(&flag, SIMBA_INFINITE);
        flag_end(&flag);
        if (i % 50 == 0)
            test_pause_ms(2);
    }
    return NULL;
}

static void threads_wait_at_the_same_time(void **state)
{
    pthread_t threads[CROWD];

    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_many_times, *state), 0);
    for (size_t i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
}

/* ---- Rest ------------------------------------------------------------------------------------ */

/* How often the threads of this process went to sleep, but for the one that asks. */
static long sleeps_of_others(void)
{
    DIR *tasks = opendir("/proc/self/task");
    long sum = 0;

    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        char path[300];
        char line[128];
        FILE *status;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == (int)getpid() ||
            (status = fopen(path, "re")) == NULL)
            continue;
        while (fgets(line, sizeof line, status) != NULL)
            if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
                sum += atol(line + 24);
        fclose(status);
    }
    closedir(tasks);
    return sum;
}

struct calm {
    long sleeps;
    int64_t since_ms;
};

/* Nobody has gone to sleep for a while, so nobody was awake. */
static bool is_calm(void *argument)
{
    struct calm *calm = argument;
    long sleeps = sleeps_of_others();

    if (sleeps != calm->sleeps) {
        calm->sleeps = sleeps;
        calm->since_ms = test_now_ms();
    }
    return test_now_ms() - calm->since_ms >= 300;
}

static void assert_calm(void)
{
    struct calm calm = {-1, 0};

    assert_true(test_wait_within(5000, is_calm, &calm));
}

static void nobody_is_woken_while_nothing_happens(void **state)
{
    struct flag flag;
    struct flag other;
    pthread_t thread;

    if (PROBE_SANITIZED)
        skip(); /* they have threads of their own */
    flag_init(&flag, *state);
    flag_init(&other, *state);
    assert_calm();
    thread = start_waiting(&flag);
    assert_calm();
    sb_loop_post(*state, &other.task); /* a round of the borrower lets the loop's thread sleep */
    assert_true(test_wait(flag_is_set, &other));
    assert_calm();
    sb_loop_post(*state, &flag.task);
    pthread_join(thread, NULL);
    assert_calm();
    flag_end(&other);
    flag_end(&flag);
}

#define BEATS 20
#define BEAT_MS 2

struct beats {
    struct flag over; /* first */
    unsigned count;
    long sleeps; /* of others, at the last beat */
};

static void on_beat(struct sb_timer *timer)
{
    struct beats *beats = (struct beats *)((char *)timer - offsetof(struct beats, over.timer));

    if (++beats->count < BEATS) {
        sb_loop_arm(beats->over.loop, timer, simba_now_ms() + BEAT_MS);
        return;
    }
    beats->sleeps = sleeps_of_others();
    set_flag(&beats->over);
}

/* On a small machine it would take the core from the thread that is needed next. */
static void the_loops_thread_sleeps_through_the_events_of_a_borrower(void **state)
{
    struct beats beats = {0};
    long before;

    if (PROBE_SANITIZED)
        skip();
    flag_init(&beats.over, *state);
    beats.over.task.run = arm_by_task;
    beats.over.timer.fire = on_beat;
    assert_calm();
    before = sleeps_of_others();
    sb_loop_push(*state, &beats.over.task);
    assert_true(flag_wait(&beats.over, SIMBA_INFINITE));
    assert_true(pthread_equal(beats.over.setter, pthread_self()));
    assert_int_equal(beats.sleeps, before);
    flag_end(&beats.over);
}

/* ---- What the loop must bear ----------------------------------------------------------------- */

static void break_a_pipe(struct simba_task *task)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) == 0) {
        close(ends[0]);
        if (write(ends[1], "x", 1) < 0)
            set_by_task(task);
        close(ends[1]);
    }
}

static void a_broken_connection_does_not_end_the_process(void **state)
{
    sigset_t pending;
    sigset_t blocked;
    int here = 0;

    signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < 100; i++)
        here += runs_here(*state, break_a_pipe) ? 1 : 0;
    assert_true(here > 50);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    assert_int_equal(sigismember(&pending, SIGPIPE), 0);
    assert_int_equal(sigismember(&blocked, SIGPIPE), 0);
}

static atomic_uint interruptions;

static void count_interruption(int number)
{
    (void)number;
    atomic_fetch_add(&interruptions, 1);
}

static bool was_interrupted(void *argument)
{
    (void)argument;
    return atomic_load(&interruptions) > 0;
}

static void signals_reach_a_thread_that_turns_the_loop(void **state)
{
    struct sigaction action = {.sa_handler = count_interruption};
    struct flag flag;
    pthread_t thread;

    flag_init(&flag, *state);
    sigaction(SIGUSR1, &action, NULL);
    atomic_store(&interruptions, 0);
    thread = start_waiting(&flag);
    pthread_kill(thread, SIGUSR1);
    assert_true(test_wait(was_interrupted, NULL));
    assert_false(flag_is_set(&flag));
    sb_loop_post(*state, &flag.task);
    pthread_join(thread, NULL);
    flag_end(&flag);
}

/* ---- Threads that are cancelled -------------------------------------------------------------- */

/* Ends a wait that must not have been cut short, and looks whether the loop still serves. */
static void end_cancelled_wait(struct flag *flag, pthread_t thread)
{
    void *result = PTHREAD_CANCELED;
    struct flag after;

    flag_init(&after, flag->loop);
    sb_loop_post(flag->loop, &flag->task);
    pthread_join(thread, &result);
    assert_null(result);
    sb_loop_push(flag->loop, &after.task);
    assert_true(flag_wait(&after, simba_now_ms() + TEST_PATIENCE_MS));
    flag_end(&after);
    flag_end(flag);
}

/* A thread cannot be cancelled while it owns the loop. */
static void a_cancelled_thread_finishes_its_wait(void **state)
{
    struct flag flag;
    pthread_t thread;

    flag_init(&flag, *state);
    thread = start_waiting(&flag);
    pthread_cancel(thread);
    end_cancelled_wait(&flag, thread);
}

/* Nor while another has it: a waiter is counted, and sleeps with a lock. */
static void a_cancelled_thread_that_does_not_turn_the_loop_finishes_its_wait(void **state)
{
    struct flag first;
    struct flag second;
    pthread_t borrower;
    pthread_t thread;

    flag_init(&first, *state);
    flag_init(&second, *state);
    borrower = start_waiting(&first);
    thread = start_waiting(&second);
    pthread_cancel(thread);
    end_cancelled_wait(&second, thread);
    end_cancelled_wait(&first, borrower);
}

static void *wait_cancelled(void *argument)
{
    pthread_cancel(pthread_self());
    flag_wait(argument, SIMBA_INFINITE);
    return NULL;
}

static void a_thread_cancelled_on_its_way_to_the_loop_finishes_its_wait(void **state)
{
    struct call call = {.loop = *state};
    struct flag flag;
    pthread_t caller;
    pthread_t thread;

    flag_init(&flag, *state);
    sem_init(&call.begun, 0, 0);
    assert_int_equal(pthread_create(&caller, NULL, call_slowly, &call), 0);
    sem_wait(&call.begun); /* the loop's thread works */
    assert_int_equal(pthread_create(&thread, NULL, wait_cancelled, &flag), 0);
    pthread_join(caller, NULL);
    end_cancelled_wait(&flag, thread);
    sem_destroy(&call.begun);
}

static void *call_cancelled(void *argument)
{
    pthread_cancel(pthread_self());
    return call_slowly(argument);
}

/* Its call has its place on the thread's stack. */
static void a_cancelled_thread_finishes_its_call(void **state)
{
    struct call call = {.loop = *state};
    void *result = PTHREAD_CANCELED;
    pthread_t thread;

    sem_init(&call.begun, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, call_cancelled, &call), 0);
    pthread_join(thread, &result);
    assert_null(result);
    sem_destroy(&call.begun);
}

static void *post_cancelled(void *argument)
{
    struct flag *flag = argument;

    pthread_cancel(pthread_self());
    sb_loop_post(flag->loop, &flag->task);
    return NULL;
}

/* The end of the loop waits for threads that post. */
static void a_cancelled_thread_finishes_its_post(void **state)
{
    void *result = PTHREAD_CANCELED;
    struct flag flag;
    pthread_t thread;

    flag_init(&flag, *state);
    assert_int_equal(pthread_create(&thread, NULL, post_cancelled, &flag), 0);
    pthread_join(thread, &result);
    assert_null(result);
    assert_true(test_wait(flag_is_set, &flag));
    flag_end(&flag);
}

/* ---- Handles of a backend -------------------------------------------------------------------- */

/* Something arrives, and the answer to it is to leave before the loop waits. */
struct preparer {
    struct sb_loop *loop;
    uv_prepare_t prepare;
    uv_poll_t poll;
    int ends[2];
    atomic_bool prepared;
};

static void on_prepare(uv_prepare_t *prepare)
{
    struct preparer *p = prepare->data;

    uv_prepare_stop(prepare);
    atomic_store(&p->prepared, true);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct preparer *p = poll->data;
    char byte;

    (void)status;
    (void)events;
    if (read(p->ends[0], &byte, 1) == 1)
        uv_prepare_start(&p->prepare, on_prepare);
}

static void add_preparer(void *argument)
{
    struct preparer *p = argument;

    uv_prepare_init(sb_loop_uv(p->loop), &p->prepare);
    uv_poll_init(sb_loop_uv(p->loop), &p->poll, p->ends[0]);
    p->prepare.data = p;
    p->poll.data = p;
    uv_poll_start(&p->poll, UV_READABLE, on_readable);
}

static void remove_preparer(void *argument)
{
    struct preparer *p = argument;

    uv_close((uv_handle_t *)&p->prepare, NULL);
    uv_close((uv_handle_t *)&p->poll, NULL);
}

static bool is_prepared(void *argument)
{
    return atomic_load(&((struct preparer *)argument)->prepared);
}

static void a_preparer_is_called_before_the_loop_waits(void **state)
{
    static struct preparer p; /* closed by the end of the loop */
    bool prepared = true;

    p.loop = *state;
    assert_int_equal(pipe2(p.ends, O_CLOEXEC | O_NONBLOCK), 0);
    sb_loop_call(*state, add_preparer, &p);
    for (int i = 0; i < 10 && prepared; i++) {
        atomic_store(&p.prepared, false);
        assert_int_equal(write(p.ends[1], "x", 1), 1);
        prepared = test_wait_within(5000, is_prepared, &p);
    }
    sb_loop_call(*state, remove_preparer, &p);
    assert_true(prepared);
    close(p.ends[1]);
    close(p.ends[0]);
}

#define WITH_LOOP(test) cmocka_unit_test_setup_teardown(test, make_loop, free_loop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOOP(a_thread_that_waits_turns_the_loop_itself),
        WITH_LOOP(what_is_posted_while_a_thread_turns_the_loop_runs_on_it),
        WITH_LOOP(whoever_still_waits_is_not_stranded_when_the_turning_thread_goes),
        WITH_LOOP(deadlines_are_kept_after_the_turning_thread_has_gone),
        WITH_LOOP(tasks_are_run_after_the_turning_thread_has_gone),
        WITH_LOOP(a_wait_ends_at_its_limit_whoever_turns_the_loop),
        WITH_LOOP(a_thread_that_turns_the_loop_looks_again_when_it_is_woken),
        WITH_LOOP(a_thread_waits_for_its_turn_to_own_the_loop),
        cmocka_unit_test(a_loop_can_end_right_after_somebody_turned_it),
        WITH_LOOP(threads_wait_at_the_same_time),
        WITH_LOOP(nobody_is_woken_while_nothing_happens),
        WITH_LOOP(the_loops_thread_sleeps_through_the_events_of_a_borrower),
        WITH_LOOP(a_broken_connection_does_not_end_the_process),
        WITH_LOOP(signals_reach_a_thread_that_turns_the_loop),
        WITH_LOOP(a_cancelled_thread_finishes_its_wait),
        WITH_LOOP(a_cancelled_thread_that_does_not_turn_the_loop_finishes_its_wait),
        WITH_LOOP(a_thread_cancelled_on_its_way_to_the_loop_finishes_its_wait),
        WITH_LOOP(a_cancelled_thread_finishes_its_call),
        WITH_LOOP(a_cancelled_thread_finishes_its_post),
        WITH_LOOP(a_preparer_is_called_before_the_loop_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
