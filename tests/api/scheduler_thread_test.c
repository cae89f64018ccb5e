/*
 * The thread of a scheduler's work: who has one, what it is called, and what happens when the
 * system gives none.
 *
 * It is linked with --wrap=pthread_create: a limit on processes does not bind root.
 */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#define RUNS_MAX 1000

static atomic_bool is_short; /* no thread can be had */
static atomic_uint refused;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument)
{
    if (!atomic_load(&is_short))
        return __real_pthread_create(thread, attributes, run, argument);
    atomic_fetch_add(&refused, 1);
    return EAGAIN;
}

/* The thread of each run, as the kernel numbers it, and its name. */
struct threads {
    atomic_uint runs;
    pid_t ids[RUNS_MAX];
    char names[RUNS_MAX][16];
};

static int note_thread(void *user, simba_scheduler *scheduler)
{
    struct threads *threads = user;
    unsigned run = atomic_load(&threads->runs);

    (void)scheduler;
    if (run >= RUNS_MAX)
        return 0;
    threads->ids[run] = gettid();
    pthread_getname_np(pthread_self(), threads->names[run], sizeof threads->names[run]);
    atomic_fetch_add(&threads->runs, 1);
    return 0;
}

static simba_scheduler *make(simba_client *client, const char *mutex, const char *worker,
                             simba_work_fn *work, void *user)
{
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct simba_error error = {0};
    simba_scheduler *scheduler = NULL;

    options.mutex = mutex;
    options.worker = worker;
    options.work = work;
    options.user = user;
    options.period_ms = 5;
    if (simba_scheduler_create(client, &options, &scheduler, &error) != SIMBA_OK)
        fail_msg("cannot create a scheduler: %s", error.text);
    return scheduler;
}

static simba_scheduler *make_noting(simba_client *client, struct threads *threads,
                                    const char *worker)
{
    return make(client, "m", worker, note_thread, threads);
}

static void start(simba_scheduler *scheduler)
{
    struct simba_error error = {0};

    if (simba_scheduler_start(scheduler, &error) != SIMBA_OK)
        fail_msg("cannot start: %s", error.text);
}

static void the_thread_is_named_after_the_worker(void **state)
{
    /* The second is of characters of three bytes: five of them fit. */
    static const char *const names[][2] = {
        {"nightly-clean-up-of-everything", "nightly-clean-u"},
        {"x\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5",
         "x\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5\xe6\x97\xa5"},
        {"short", "short"},
        {NULL, "m"},
    };
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);

    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        struct threads threads = {0};
        simba_scheduler *scheduler = make_noting(client, &threads, names[i][0]);

        start(scheduler);
        probe_wait_count(&threads.runs, 1);
        simba_scheduler_close(scheduler);
        assert_string_equal(threads.names[0], names[i][1]);
    }
    probe_close(client);
}

/* Whether this process has a thread of that name. */
static bool has_thread(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    bool found = false;

    assert_non_null(tasks);
    while (!found && (task = readdir(tasks)) != NULL) {
        char path[300];
        char comm[32] = "";
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue; /* a thread that has ended meanwhile, or no thread */
        if (fgets(comm, sizeof comm, file) != NULL)
            comm[strcspn(comm, "\n")] = '\0';
        fclose(file);
        found = strcmp(comm, name) == 0;
    }
    closedir(tasks);
    return found;
}

static bool lacks_thread(void *name)
{
    return !has_thread(name);
}

static bool is_running(void *scheduler)
{
    return simba_scheduler_status(scheduler) == SIMBA_RUNNING;
}

static void only_a_leader_has_a_thread_and_its_runs_share_it(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    struct threads threads = {0};
    struct threads none = {0};
    simba_scheduler *leader = make_noting(client, &threads, "leads");
    simba_scheduler *follower = make_noting(client, &none, "follows");

    for (unsigned term = 1; term <= 3; term++) {
        unsigned first = atomic_load(&threads.runs);

        assert_false(has_thread("leads"));
        start(leader);
        probe_wait_count(&threads.runs, first + 4);
        for (unsigned i = first + 1; i < first + 4; i++)
            assert_int_equal(threads.ids[i], threads.ids[first]);
        for (int look = 0; look < 20; look++) /* between its runs, too */
            assert_true(has_thread("leads"));
        start(follower);
        assert_true(test_wait(is_running, follower));
        assert_false(has_thread("follows"));
        assert_int_equal(simba_scheduler_stop(follower, NULL), SIMBA_OK);
        assert_int_equal(simba_scheduler_stop(leader, NULL), SIMBA_OK);
        assert_true(test_wait(lacks_thread, "leads"));
    }
    assert_int_equal(atomic_load(&none.runs), 0);
    simba_scheduler_close(follower);
    simba_scheduler_close(leader);
    probe_close(client);
}

#define BUSY_COUNT 6 /* more than there are threads for callbacks */

/* Work that stands at a gate. */
struct busy {
    struct gate *gate;
    atomic_uint runs;
};

static int stand_at_gate(void *user, simba_scheduler *scheduler)
{
    struct busy *busy = user;

    (void)scheduler;
    atomic_fetch_add(&busy->runs, 1);
    gate_wait(busy->gate);
    return 0;
}

static void make_busy(simba_client *client, struct gate *gate, struct busy *busy,
                      simba_scheduler **ret_schedulers)
{
    for (int i = 0; i < BUSY_COUNT; i++) {
        char mutex[16];

        snprintf(mutex, sizeof mutex, "busy-%d", i);
        busy[i].gate = gate;
        ret_schedulers[i] = make(client, mutex, NULL, stand_at_gate, &busy[i]);
        start(ret_schedulers[i]);
    }
}

static void work_delays_nobodys_callbacks(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    struct gate gate = GATE_INIT;
    struct busy busy[BUSY_COUNT] = {0};
    simba_scheduler *schedulers[BUSY_COUNT];
    struct probe probe = {0};

    make_busy(client, &gate, busy, schedulers);
    for (int i = 0; i < BUSY_COUNT; i++)
        probe_wait_count(&busy[i].runs, 1);
    probe_create(&probe, client, "other", NULL);
    probe_start(&probe);
    probe_wait_count(&probe.returned, 1);
    gate_open(&gate);
    probe_end(&probe);
    for (int i = 0; i < BUSY_COUNT; i++)
        simba_scheduler_close(schedulers[i]);
    probe_close(client);
}

/* ---- A system that gives no thread ----------------------------------------------------------- */

struct log {
    atomic_uint errors;
    atomic_uint recoveries;
};

static void take_line(void *user, enum simba_log_level level, const char *text)
{
    struct log *log = user;

    if (level == SIMBA_LOG_ERROR && strstr(text, "no thread for the work 'nightly'") != NULL)
        atomic_fetch_add(&log->errors, 1);
    if (level == SIMBA_LOG_WARN && strstr(text, "a thread for the work 'nightly' again") != NULL)
        atomic_fetch_add(&log->recoveries, 1);
}

static simba_client *open_logging(struct log *log)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;

    options.log = take_line;
    options.log_user = log;
    return probe_open_with("memory:schedule?" PROBE_LONG, &options);
}

static void begin_shortage(void)
{
    atomic_store(&refused, 0);
    atomic_store(&is_short, true);
}

static void work_waits_for_a_thread_and_begins_when_there_is_one(void **state)
{
    struct log log = {0};
    simba_client *client = open_logging(&log);
    struct threads threads = {0};
    simba_scheduler *scheduler = make_noting(client, &threads, "nightly");
    struct simba_schedule_counts counts = SIMBA_SCHEDULE_COUNTS_INIT;
    struct probe probe = {0};

    for (unsigned term = 1; term <= 2; term++) {
        unsigned first = atomic_load(&threads.runs);

        begin_shortage();
        start(scheduler);
        probe_wait_count(&log.errors, term);
        probe_wait_count(&refused, 4); /* it tries again */
        assert_int_equal(atomic_load(&threads.runs), first);
        assert_true(simba_scheduler_is_leader(scheduler));
        atomic_store(&is_short, false);
        probe_wait_count(&threads.runs, first + 3);
        for (unsigned i = first + 1; i < first + 3; i++)
            assert_int_equal(threads.ids[i], threads.ids[first]);
        probe_wait_count(&log.recoveries, term);
        assert_int_equal(simba_scheduler_stop(scheduler, NULL), SIMBA_OK);
        assert_int_equal(atomic_load(&log.errors), term);
        assert_int_equal(atomic_load(&log.recoveries), term);
    }
    simba_scheduler_counts(scheduler, &counts);
    assert_true(counts.skipped >= 2); /* beats that passed meanwhile */
    simba_scheduler_close(scheduler);
    probe_create(&probe, client, "other", NULL);
    probe_start(&probe);
    probe_wait_count(&probe.returned, 1);
    probe_end(&probe);
    probe_close(client);
}

static void a_stop_does_not_wait_for_a_thread(void **state)
{
    struct log log = {0};
    simba_client *client = open_logging(&log);
    struct threads threads = {0};
    simba_scheduler *scheduler = make_noting(client, &threads, "nightly");

    begin_shortage();
    start(scheduler);
    probe_wait_count(&log.errors, 1);
    assert_int_equal(simba_scheduler_stop(scheduler, NULL), SIMBA_OK);
    assert_true(probe_is_free(client, "m"));
    atomic_store(&is_short, false);
    assert_int_equal(atomic_load(&threads.runs), 0);
    simba_scheduler_close(scheduler);
    probe_close(client);
}

/* All have become leaders without a thread. Then each gets one, although the others' work does not
 * end. */
static void all_schedulers_recover_from_a_shortage(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    struct gate gate = GATE_INIT;
    struct busy busy[BUSY_COUNT] = {0};
    simba_scheduler *schedulers[BUSY_COUNT];
    struct probe probe = {0};

    begin_shortage();
    make_busy(client, &gate, busy, schedulers);
    probe_wait_count(&refused, BUSY_COUNT);
    probe_create(&probe, client, "other", NULL);
    probe_start(&probe);
    probe_wait_count(&probe.returned, 1); /* no work stands on the thread of the callbacks */
    atomic_store(&is_short, false);
    for (int i = 0; i < BUSY_COUNT; i++)
        probe_wait_count(&busy[i].runs, 1);
    gate_open(&gate);
    probe_end(&probe);
    for (int i = 0; i < BUSY_COUNT; i++)
        simba_scheduler_close(schedulers[i]);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_thread_is_named_after_the_worker),
        cmocka_unit_test(only_a_leader_has_a_thread_and_its_runs_share_it),
        cmocka_unit_test(work_delays_nobodys_callbacks),
        cmocka_unit_test(work_waits_for_a_thread_and_begins_when_there_is_one),
        cmocka_unit_test(a_stop_does_not_wait_for_a_thread),
        cmocka_unit_test(all_schedulers_recover_from_a_shortage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
