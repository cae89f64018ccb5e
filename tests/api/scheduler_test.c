/*
 * The scheduler: its rhythm, one run at a time, only on the leader, and how work is told to end.
 */
#include "probe.h"

#include "tck/shim.h"

#define RUNS_MAX 64

/* What the work saw. Times are those of the runs' beginnings and ends. */
struct journal {
    atomic_uint runs;
    atomic_uint ended;
    atomic_uint running;
    atomic_uint overlaps;
    int64_t began_ms[RUNS_MAX];
    int64_t ended_ms[RUNS_MAX];
    int64_t work_ms;
    int code;
    struct gate *gate; /* a run waits for it */
    bool until_stop;   /* a run lasts until it should stop */
    bool stops_itself;
    atomic_uint *others; /* runs of another scheduler that must not go on at the same time */
    atomic_int stop_code;
};

static void do_work(struct journal *j, simba_scheduler *scheduler)
{
    if (j->work_ms > 0)
        test_pause_ms(j->work_ms);
    if (j->gate != NULL)
        gate_wait(j->gate);
    while (j->until_stop && !simba_scheduler_should_stop(scheduler))
        test_pause_ms(1);
    if (j->stops_itself)
        atomic_store(&j->stop_code, simba_scheduler_stop(scheduler, NULL));
}

static int work(void *user, simba_scheduler *scheduler)
{
    struct journal *j = user;
    unsigned run = atomic_fetch_add(&j->runs, 1);

    if (atomic_fetch_add(&j->running, 1) != 0)
        atomic_fetch_add(&j->overlaps, 1);
    if (j->others != NULL && atomic_load(j->others) != 0)
        atomic_fetch_add(&j->overlaps, 1);
    if (run < RUNS_MAX)
        j->began_ms[run] = test_now_ms();
    do_work(j, scheduler);
    if (run < RUNS_MAX)
        j->ended_ms[run] = test_now_ms();
    atomic_fetch_sub(&j->running, 1);
    atomic_fetch_add(&j->ended, 1);
    return j->code;
}

static simba_scheduler *make_on(simba_client *client, const char *mutex, struct journal *journal,
                                enum simba_schedule_strategy strategy, int64_t initial_delay_ms,
                                int64_t period_ms)
{
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct simba_error error = {0};
    simba_scheduler *scheduler = NULL;

    options.mutex = mutex;
    options.work = work;
    options.user = journal;
    options.strategy = strategy;
    options.initial_delay_ms = initial_delay_ms;
    options.period_ms = period_ms;
    if (simba_scheduler_create(client, &options, &scheduler, &error) != SIMBA_OK)
        fail_msg("cannot create a scheduler: %s", error.text);
    return scheduler;
}

static simba_scheduler *make(simba_client *client, struct journal *journal,
                             enum simba_schedule_strategy strategy, int64_t initial_delay_ms,
                             int64_t period_ms)
{
    return make_on(client, "m", journal, strategy, initial_delay_ms, period_ms);
}

static void start(simba_scheduler *scheduler)
{
    struct simba_error error = {0};

    if (simba_scheduler_start(scheduler, &error) != SIMBA_OK)
        fail_msg("cannot start: %s", error.text);
}

/* ---- Creation -------------------------------------------------------------------------------- */

static void expect_refusal(simba_client *client, const struct simba_scheduler_options *options,
                           int code, const char *word)
{
    struct simba_error error = {0};
    simba_scheduler *scheduler = NULL;

    assert_int_equal(simba_scheduler_create(client, options, &scheduler, &error), code);
    assert_null(scheduler);
    probe_assert_names(error.text, word);
}

static void bad_options_are_refused_with_a_sentence(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;

    expect_refusal(client, &options, SIMBA_EMISUSE, "work");
    options.work = work;
    expect_refusal(client, &options, SIMBA_EINVAL, "period_ms");
    options.period_ms = INT64_MAX;
    expect_refusal(client, &options, SIMBA_EINVAL, "from 1 to 2147483647000");
    options.period_ms = 10;
    expect_refusal(client, &options, SIMBA_EINVAL, "mutex");
    options.mutex = "m";
    options.initial_delay_ms = -4;
    expect_refusal(client, &options, SIMBA_EINVAL, "-4");
    options.initial_delay_ms = INT64_MAX;
    expect_refusal(client, &options, SIMBA_EINVAL, "from 0 to 2147483647000");
    options.initial_delay_ms = 0;
    options.strategy = (enum simba_schedule_strategy)9;
    expect_refusal(client, &options, SIMBA_EINVAL, "9");
    options.size = 0;
    expect_refusal(client, &options, SIMBA_EMISUSE, "SIMBA_SCHEDULER_OPTIONS_INIT");
    probe_close(client);
}

static void start_and_stop_obey_the_lifecycle(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    struct journal journal = {0};
    simba_scheduler *scheduler = make(client, &journal, SIMBA_FIXED_RATE, 0, 10);

    assert_int_equal(simba_scheduler_status(scheduler), SIMBA_INITIAL);
    assert_int_equal(simba_scheduler_stop(scheduler, NULL), SIMBA_ESTATE);
    for (unsigned i = 1; i <= 5; i++) {
        unsigned runs = atomic_load(&journal.runs);

        start(scheduler);
        assert_int_equal(simba_scheduler_start(scheduler, NULL), SIMBA_ESTATE);
        probe_wait_count(&journal.runs, runs + 3);
        assert_true(simba_scheduler_is_leader(scheduler));
        assert_true(simba_scheduler_fence(scheduler) > 0);
        assert_int_equal(simba_scheduler_stop(scheduler, NULL), SIMBA_OK);
        assert_false(simba_scheduler_is_leader(scheduler));
        assert_int_equal(atomic_load(&journal.running), 0);
    }
    simba_scheduler_close(scheduler);
    assert_true(probe_is_free(client, "m"));
    probe_close(client);
}

/* ---- Rhythm ---------------------------------------------------------------------------------- */

#define BEAT 100
#define BEATS 9

/* How far a run may be behind its beat on a machine that others use too. */
#define LATENESS 25

/* The most runs that are whole periods apart from one of them. A schedule that adds the work of 33
 * ms to the period comes back to the same beat with every third run only. */
static int count_on_beat(const struct journal *j)
{
    int most = 0;

    for (int first = 0; first < BEATS; first++) {
        int on_beat = 0;

        for (int i = 0; i < BEATS; i++) {
            int64_t off = (j->began_ms[i] - j->began_ms[first] + BEATS * 10 * BEAT) % BEAT;

            on_beat += off <= LATENESS || off >= BEAT - 2 ? 1 : 0;
        }
        most = on_beat > most ? on_beat : most;
    }
    return most;
}

static void a_fixed_rate_keeps_its_rhythm_however_long_the_work_takes(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    int on_beat = 0;

    for (int attempt = 0; attempt < 4 && on_beat < 2 * BEATS / 3; attempt++) {
        struct journal journal = {.work_ms = 33};
        simba_scheduler *scheduler = make(client, &journal, SIMBA_FIXED_RATE, 0, BEAT);

        start(scheduler);
        probe_wait_count(&journal.ended, BEATS);
        simba_scheduler_close(scheduler);
        assert_int_equal(atomic_load(&journal.overlaps), 0);
        on_beat = count_on_beat(&journal);
    }
    assert_true(on_beat >= 2 * BEATS / 3);
    probe_close(client);
}

#define PERIOD 40

static void runs_that_fall_due_during_a_run_are_skipped_and_counted(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    struct journal journal = {.work_ms = 3 * PERIOD + PERIOD / 2};
    simba_scheduler *scheduler = make(client, &journal, SIMBA_FIXED_RATE, 0, PERIOD);
    struct simba_schedule_counts counts = SIMBA_SCHEDULE_COUNTS_INIT;
    int64_t elapsed_ms = -test_now_ms();

    start(scheduler);
    probe_wait_count(&journal.ended, 4);
    simba_scheduler_counts(scheduler, &counts);
    elapsed_ms += test_now_ms();
    simba_scheduler_close(scheduler);
    assert_int_equal(atomic_load(&journal.overlaps), 0);
    assert_true(counts.runs >= 3);
    assert_true(counts.skipped >= 3 * 3);
    assert_true((int64_t)(counts.runs + counts.skipped) <= elapsed_ms / PERIOD + 2);
    for (int i = 1; i < 4; i++) /* they do not pile up: each waits for the next beat */
        assert_true(journal.began_ms[i] - journal.began_ms[i - 1] >= 3 * PERIOD + PERIOD / 2);
    probe_close(client);
}

static void a_fixed_delay_counts_from_the_end_of_the_run_before(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    struct journal journal = {.work_ms = PERIOD};
    simba_scheduler *scheduler = make(client, &journal, SIMBA_FIXED_DELAY, 0, PERIOD);
    struct simba_schedule_counts counts = SIMBA_SCHEDULE_COUNTS_INIT;

    start(scheduler);
    probe_wait_count(&journal.ended, 6);
    simba_scheduler_counts(scheduler, &counts);
    simba_scheduler_close(scheduler);
    for (int i = 1; i < 6; i++)
        assert_true(journal.began_ms[i] - journal.ended_ms[i - 1] >= PERIOD - 2);
    assert_int_equal(counts.skipped, 0);
    assert_int_equal(atomic_load(&journal.overlaps), 0);
    probe_close(client);
}

static void the_first_run_waits_for_the_initial_delay(void **state)
{
    static const enum simba_schedule_strategy strategies[] = {SIMBA_FIXED_RATE, SIMBA_FIXED_DELAY};
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);

    for (size_t i = 0; i < TEST_COUNT(strategies); i++) {
        struct journal journal = {0};
        simba_scheduler *scheduler = make(client, &journal, strategies[i], 150, 10000);
        int64_t begin = test_now_ms();

        start(scheduler);
        probe_wait_count(&journal.ended, 1);
        assert_true(journal.began_ms[0] - begin >= 149);
        simba_scheduler_close(scheduler);
    }
    probe_close(client);
}

static void failing_work_is_counted_and_goes_on(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    struct journal journal = {.code = -1};
    simba_scheduler *scheduler = make(client, &journal, SIMBA_FIXED_DELAY, 0, 5);
    struct simba_schedule_counts counts = SIMBA_SCHEDULE_COUNTS_INIT;

    start(scheduler);
    probe_wait_count(&journal.ended, 5);
    assert_int_equal(simba_scheduler_stop(scheduler, NULL), SIMBA_OK);
    simba_scheduler_counts(scheduler, &counts);
    assert_int_equal(counts.failures, counts.runs);
    assert_int_equal(counts.runs, atomic_load(&journal.runs));
    simba_scheduler_close(scheduler);
    probe_close(client);
}

/* ---- Only the leader ------------------------------------------------------------------------- */

static void *stop_it(void *scheduler)
{
    return (void *)(intptr_t)simba_scheduler_stop(scheduler, NULL);
}

static bool should_stop(void *scheduler)
{
    return simba_scheduler_should_stop(scheduler);
}

static void the_next_leader_works_only_after_the_work_of_the_first_has_returned(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_SHORT);
    simba_client *other = probe_open("memory:schedule?" PROBE_SHORT);
    struct gate gate = GATE_INIT;
    struct journal first = {.gate = &gate};
    struct journal second = {.others = &first.running};
    simba_scheduler *leader = make(client, &first, SIMBA_FIXED_RATE, 0, 10);
    simba_scheduler *follower = make(other, &second, SIMBA_FIXED_RATE, 0, 10);
    struct simba_metrics metrics = SIMBA_METRICS_INIT;
    pthread_t stopper;
    void *code;

    start(leader);
    probe_wait_count(&first.runs, 1);
    start(follower);
    pthread_create(&stopper, NULL, stop_it, leader);
    assert_true(test_wait(should_stop, leader));
    while (metrics.renewals < 3) { /* longer than a lease: the work still keeps the mutex */
        assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
        test_pause_ms(5);
    }
    assert_int_equal(atomic_load(&second.runs), 0);
    gate_open(&gate);
    probe_wait_count(&second.ended, 2);
    pthread_join(stopper, &code);
    assert_int_equal((intptr_t)code, SIMBA_OK);
    assert_int_equal(atomic_load(&second.overlaps), 0);
    assert_int_equal(atomic_load(&first.runs), 1);
    simba_scheduler_close(leader);
    simba_scheduler_close(follower);
    probe_close(client);
    probe_close(other);
}

static void work_that_asks_is_told_to_end_by_a_stop(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    struct journal journal = {.until_stop = true};
    simba_scheduler *scheduler = make(client, &journal, SIMBA_FIXED_RATE, 0, 10);

    start(scheduler);
    probe_wait_count(&journal.runs, 1);
    assert_false(simba_scheduler_should_stop(scheduler));
    assert_int_equal(simba_scheduler_stop(scheduler, NULL), SIMBA_OK);
    assert_int_equal(atomic_load(&journal.ended), 1);
    assert_true(probe_is_free(client, "m"));
    simba_scheduler_close(scheduler);
    probe_close(client);
}

static void work_that_asks_is_told_to_end_by_a_loss_and_runs_again_after_it(void **state)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    const char *url = "memory:schedule?" PROBE_SHORT;
    struct journal journal = {.until_stop = true};
    simba_scheduler *scheduler;
    struct sb_shim *shim;
    simba_client *client;
    uint64_t fence;

    assert_int_equal(sb_shim_create(url, NULL, &shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(shim, url, &options, &client, NULL), SIMBA_OK);
    scheduler = make(client, &journal, SIMBA_FIXED_DELAY, 0, 10);
    start(scheduler);
    probe_wait_count(&journal.runs, 1);
    fence = simba_scheduler_fence(scheduler);
    sb_shim_refuse(shim, SB_SHIM_ALL, SIMBA_EUNAVAILABLE);
    probe_wait_count(&journal.ended, 1);
    assert_true(simba_scheduler_should_stop(scheduler));
    sb_shim_let_go(shim);
    probe_wait_count(&journal.runs, 2);
    assert_true(simba_scheduler_fence(scheduler) > fence);
    simba_scheduler_close(scheduler);
    assert_int_equal(atomic_load(&journal.overlaps), 0);
    probe_close(client);
    sb_shim_free(shim);
}

/* ---- Stop from inside, stuck work ------------------------------------------------------------ */

static bool is_initial(void *scheduler)
{
    return simba_scheduler_status(scheduler) == SIMBA_INITIAL;
}

static void work_may_stop_its_own_scheduler(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    struct journal journal = {.stops_itself = true};
    simba_scheduler *scheduler = make(client, &journal, SIMBA_FIXED_RATE, 0, 5);

    for (unsigned i = 1; i <= 10; i++) {
        start(scheduler);
        probe_wait_count(&journal.ended, i);
        assert_true(test_wait(is_initial, scheduler));
        assert_int_equal(atomic_load(&journal.stop_code), SIMBA_OK);
        assert_int_equal(atomic_load(&journal.runs), i);
        assert_true(probe_is_free(client, "m"));
    }
    simba_scheduler_close(scheduler);
    probe_close(client);
}

static int close_scheduler(void *user, simba_scheduler *scheduler)
{
    simba_scheduler_close(scheduler);
    atomic_fetch_add((atomic_uint *)user, 1);
    return 0;
}

static void work_may_close_its_own_scheduler(void **state)
{
    simba_client *client = probe_open("memory:schedule?" PROBE_LONG);
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    simba_scheduler *scheduler;
    atomic_uint runs = 0;

    options.mutex = "m";
    options.work = close_scheduler;
    options.user = &runs;
    options.period_ms = 1;
    assert_int_equal(simba_scheduler_create(client, &options, &scheduler, NULL), SIMBA_OK);
    start(scheduler);
    probe_wait_count(&runs, 1);
    probe_wait_free(client, "m");
    probe_close(client);
    assert_int_equal(atomic_load(&runs), 1);
}

static void stuck_work_holds_a_stop_up_no_longer_than_its_timeout(void **state)
{
    simba_client *client = probe_open("memory:schedule?ttl=20s&transition=20s&stop-timeout=200ms");
    struct gate gate = GATE_INIT;
    struct journal journal = {.gate = &gate};
    simba_scheduler *scheduler = make(client, &journal, SIMBA_FIXED_RATE, 0, 5);

    start(scheduler);
    probe_wait_count(&journal.runs, 1);
    assert_int_equal(simba_scheduler_stop(scheduler, NULL), SIMBA_ETIMEDOUT);
    start(scheduler); /* and it can be started again, but two runs at once there are never */
    gate_open(&gate);
    probe_wait_count(&journal.runs, 4);
    simba_scheduler_close(scheduler);
    assert_int_equal(atomic_load(&journal.overlaps), 0);
    probe_close(client);
}

/* What the first run, which outlasts a stop, is told when the next term has begun; and the token of
 * the second. */
struct outlasting {
    struct gate gate;
    atomic_uint runs;
    atomic_uint answered;
    uint64_t own_fence;
    bool should_stop;
    bool is_leader;
    uint64_t fence;
    bool next_should_stop;
    uint64_t next_fence;
};

static int outlast(void *user, simba_scheduler *scheduler)
{
    struct outlasting *o = user;

    if (atomic_fetch_add(&o->runs, 1) == 0) {
        o->own_fence = simba_scheduler_fence(scheduler);
        gate_wait(&o->gate);
        o->should_stop = simba_scheduler_should_stop(scheduler);
        o->is_leader = simba_scheduler_is_leader(scheduler);
        o->fence = simba_scheduler_fence(scheduler);
    } else if (atomic_load(&o->answered) == 1) {
        o->next_should_stop = simba_scheduler_should_stop(scheduler);
        o->next_fence = simba_scheduler_fence(scheduler);
    }
    atomic_fetch_add(&o->answered, 1);
    return 0;
}

static void wait_acquisitions(simba_client *client, uint64_t least)
{
    struct simba_metrics metrics = SIMBA_METRICS_INIT;

    while (metrics.acquisitions < least) {
        assert_int_equal(simba_client_metrics(client, &metrics), SIMBA_OK);
        test_pause_ms(1);
    }
}

static void work_that_outlasts_a_stop_is_not_taken_for_work_of_the_next_term(void **state)
{
    simba_client *client = probe_open("memory:schedule?ttl=20s&transition=20s&stop-timeout=100ms");
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct outlasting outlasting = {.gate = GATE_INIT};
    simba_scheduler *scheduler;

    options.mutex = "m";
    options.work = outlast;
    options.user = &outlasting;
    options.period_ms = 5;
    assert_int_equal(simba_scheduler_create(client, &options, &scheduler, NULL), SIMBA_OK);
    start(scheduler);
    probe_wait_count(&outlasting.runs, 1);
    assert_false(simba_scheduler_should_stop(scheduler));
    assert_int_equal(simba_scheduler_stop(scheduler, NULL), SIMBA_ETIMEDOUT);
    start(scheduler);
    wait_acquisitions(client, 2);
    assert_true(
        simba_scheduler_should_stop(scheduler)); /* also a thread that the work has started */
    assert_int_equal(simba_scheduler_fence(scheduler), 0);
    gate_open(&outlasting.gate);
    probe_wait_count(&outlasting.answered, 2);
    assert_true(outlasting.own_fence != 0);
    assert_true(outlasting.should_stop);
    assert_false(outlasting.is_leader);
    assert_int_equal(outlasting.fence, 0);
    assert_false(outlasting.next_should_stop);
    assert_true(outlasting.next_fence >= outlasting.own_fence);
    assert_int_equal(outlasting.next_fence, simba_scheduler_fence(scheduler));
    simba_scheduler_close(scheduler);
    probe_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_options_are_refused_with_a_sentence),
        cmocka_unit_test(start_and_stop_obey_the_lifecycle),
        cmocka_unit_test(a_fixed_rate_keeps_its_rhythm_however_long_the_work_takes),
        cmocka_unit_test(runs_that_fall_due_during_a_run_are_skipped_and_counted),
        cmocka_unit_test(a_fixed_delay_counts_from_the_end_of_the_run_before),
        cmocka_unit_test(the_first_run_waits_for_the_initial_delay),
        cmocka_unit_test(failing_work_is_counted_and_goes_on),
        cmocka_unit_test(the_next_leader_works_only_after_the_work_of_the_first_has_returned),
        cmocka_unit_test(work_that_asks_is_told_to_end_by_a_stop),
        cmocka_unit_test(work_that_asks_is_told_to_end_by_a_loss_and_runs_again_after_it),
        cmocka_unit_test(work_may_stop_its_own_scheduler),
        cmocka_unit_test(work_may_close_its_own_scheduler),
        cmocka_unit_test(stuck_work_holds_a_stop_up_no_longer_than_its_timeout),
        cmocka_unit_test(work_that_outlasts_a_stop_is_not_taken_for_work_of_the_next_term),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
