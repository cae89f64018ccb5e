/*
 * Many contenders that start at once take turns, on a store that answers when the test lets it.
 */
#include "lib/locker.h"
#include "probe.h"

#include <string.h>

#define CONTENDERS 6000
#define AT_ONCE 4096     /* requests that may be under way before starts wait */
#define MOVES_ON_MS 1000 /* how long they wait at most before some of them go on */

static simba_contender *contenders[CONTENDERS];

/* ---- The store ------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const struct simba_backend_host *host;
    struct simba_request *held; /* without an answer */
    unsigned held_now;
    unsigned held_at_most;
    bool answers;
    bool still;        /* no submit returns, so the loop stands still, its clock included ... */
    unsigned passes;   /* ... but for as many as this */
    atomic_uint asked; /* requests so far; those of a submit are counted together */
} store = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static unsigned greater_of(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

static void answer(struct simba_request *request)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    if (request->op != SIMBA_OP_RELEASE) {
        reply.owner = request->id;
        reply.ttl_left_ms = request->ttl_ms;
        reply.transition_left_ms = request->ttl_ms + request->transition_ms;
        reply.revision = 1;
    }
    store.host->reply(store.host, request, &reply);
}

static void answer_all(struct simba_request *first)
{
    while (first != NULL) {
        struct simba_request *next = first->next;

        answer(first);
        first = next;
    }
}

/* With the lock held, like the next. */
static void hold_all(struct simba_request *first)
{
    while (first != NULL) {
        struct simba_request *next = first->next;

        first->next = store.held;
        store.held = first;
        store.held_now++;
        first = next;
    }
    store.held_at_most = greater_of(store.held_at_most, store.held_now);
}

static void stand_still(void)
{
    while (store.still && store.passes == 0)
        pthread_cond_wait(&store.changed, &store.lock);
    if (store.passes > 0)
        store.passes--;
}

static unsigned count(const struct simba_request *first)
{
    unsigned count = 0;

    for (; first != NULL; first = first->next)
        count++;
    return count;
}

static void slow_submit(simba_backend *backend, struct simba_request *batch)
{
    unsigned asked = count(batch);
    bool answers;

    (void)backend;
    pthread_mutex_lock(&store.lock);
    answers = store.answers;
    if (!answers)
        hold_all(batch);
    atomic_fetch_add(&store.asked, asked);
    stand_still();
    pthread_mutex_unlock(&store.lock);
    if (answers)
        answer_all(batch);
}

static void set_still(bool still)
{
    pthread_mutex_lock(&store.lock);
    store.still = still;
    pthread_cond_broadcast(&store.changed);
    pthread_mutex_unlock(&store.lock);
}

/* Lets the loop go on until its next request. */
static void let_pass(void)
{
    pthread_mutex_lock(&store.lock);
    store.passes++;
    pthread_cond_broadcast(&store.changed);
    pthread_mutex_unlock(&store.lock);
}

static void let_answer(void)
{
    struct simba_request *held;

    pthread_mutex_lock(&store.lock);
    held = store.held;
    store.held = NULL;
    store.held_now = 0;
    store.answers = true;
    pthread_mutex_unlock(&store.lock);
    answer_all(held);
    set_still(false);
}

/* Answers one that is held. */
static void answer_one(void)
{
    struct simba_request *request;

    pthread_mutex_lock(&store.lock);
    request = store.held;
    assert_non_null(request);
    store.held = request->next;
    store.held_now--;
    pthread_mutex_unlock(&store.lock);
    answer(request);
}

/* The link to the request of a mutex that is held, or NULL. With the lock held. */
static struct simba_request **find_held(const char *mutex)
{
    struct simba_request **link = &store.held;

    while (*link != NULL && strcmp((*link)->mutex, mutex) != 0)
        link = &(*link)->next;
    return *link != NULL ? link : NULL;
}

static bool is_asked(void *mutex)
{
    bool asked;

    pthread_mutex_lock(&store.lock);
    asked = find_held(mutex) != NULL;
    pthread_mutex_unlock(&store.lock);
    return asked;
}

static bool slow_serves(const char *scheme)
{
    return strcmp(scheme, "slow") == 0;
}

static int slow_open(const struct simba_backend_config *config,
                     const struct simba_backend_host *host, simba_backend **ret_backend,
                     struct simba_error *error)
{
    (void)config;
    (void)error;
    store.host = host;
    store.held = NULL;
    store.held_now = 0;
    store.held_at_most = 0;
    store.answers = false;
    store.still = false;
    store.passes = 0;
    atomic_store(&store.asked, 0);
    *ret_backend = (simba_backend *)&store;
    return SIMBA_OK;
}

static void slow_close(simba_backend *backend, void (*closed)(void *argument), void *argument)
{
    (void)backend;
    closed(argument);
}

static const struct simba_backend_ops slow = {
    .abi = SIMBA_BACKEND_ABI,
    .name = "slow",
    .serves = slow_serves,
    .open = slow_open,
    .submit = slow_submit,
    .close = slow_close,
};

/* ---- Tests ----------------------------------------------------------------------------------- */

static simba_client *open_and_create_all(void)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    simba_client *client = probe_open("slow:?ttl=10m&transition=10m&stop-timeout=60s");
    char mutex[32];

    options.mutex = mutex;
    for (int i = 0; i < CONTENDERS; i++) {
        snprintf(mutex, sizeof mutex, "m-%d", i);
        assert_int_equal(simba_contender_create(client, &options, &contenders[i], NULL), SIMBA_OK);
    }
    return client;
}

static void start_from(int first)
{
    for (int i = first; i < CONTENDERS; i++)
        assert_int_equal(simba_contender_start(contenders[i], NULL), SIMBA_OK);
}

/* The loop stands still in its first request while the others start, and then in the requests of
 * those whose turn it is: however slow the machine, no second goes by for those in line. */
static simba_client *open_and_fill_line(void)
{
    simba_client *client = open_and_create_all();

    set_still(true);
    assert_int_equal(simba_contender_start(contenders[0], NULL), SIMBA_OK);
    probe_wait_count(&store.asked, 1);
    start_from(1);
    let_pass();
    probe_wait_count(&store.asked, 2);
    return client;
}

static void close_all(simba_client *client)
{
    let_answer();
    for (int i = 0; i < CONTENDERS; i++) {
        simba_contender_close(contenders[i]);
        contenders[i] = NULL;
    }
    probe_close(client);
}

static void starts_wait_while_many_requests_are_under_way(void **state)
{
    simba_client *client = open_and_fill_line();

    assert_int_equal(atomic_load(&store.asked), AT_ONCE);
    assert_int_equal(simba_contender_status(contenders[CONTENDERS - 1]), SIMBA_STARTING);
    let_answer();
    for (int i = 0; i < CONTENDERS; i++)
        probe_wait_status(contenders[i], SIMBA_RUNNING);
    assert_int_equal(atomic_load(&store.asked), CONTENDERS);
    close_all(client);
}

/* A part of the store that is dead does not hold up those who ask the rest. */
static void starts_do_not_wait_for_ever_where_nothing_is_answered(void **state)
{
    simba_client *client = open_and_create_all();

    start_from(0);
    probe_wait_count(&store.asked, CONTENDERS);
    close_all(client);
}

static void each_answer_lets_one_start_go_and_no_more(void **state)
{
    simba_client *client = open_and_fill_line();

    for (unsigned i = 1; i <= 50; i++) {
        answer_one();
        let_pass();
        probe_wait_count(&store.asked, AT_ONCE + i);
        assert_int_equal(atomic_load(&store.asked), AT_ONCE + i);
    }
    close_all(client);
}

/* Returns whether no pause between two answers was so long that some may have gone on. */
static bool answer_for(int64_t duration_ms)
{
    int64_t end_ms = simba_now_ms() + duration_ms;
    int64_t last_ms = simba_now_ms();
    int64_t longest_ms = 0;

    while (last_ms < end_ms) {
        int64_t now_ms;

        test_pause_ms(20);
        answer_one();
        now_ms = simba_now_ms();
        longest_ms = now_ms - last_ms > longest_ms ? now_ms - last_ms : longest_ms;
        last_ms = now_ms;
    }
    return longest_ms < MOVES_ON_MS / 2;
}

/* However long it takes. Where the test itself was held up there is nothing to judge, and it is
 * done again. */
static void starts_keep_to_the_limit_on_a_store_that_is_slow(void **state)
{
    bool steady = false;

    for (int i = 0; i < 5 && !steady; i++) {
        simba_client *client = open_and_fill_line();

        answer_one(); /* before the loop looks at its clock */
        set_still(false);
        steady = answer_for(3 * MOVES_ON_MS);
        if (steady)
            assert_int_equal(store.held_at_most, AT_ONCE);
        close_all(client);
    }
    if (!steady)
        skip();
}

static void *lock(void *argument)
{
    simba_locker *locker = argument;

    return simba_locker_acquire(locker, NULL) == SIMBA_OK ? locker : NULL;
}

/* Returns whether it asks while all others are still in line. */
static bool asks_before_the_line(void)
{
    simba_client *client = open_and_fill_line();
    simba_locker *locker = NULL;
    void *result = NULL;
    pthread_t thread;
    bool is_first;

    assert_int_equal(test_locker_create(client, "urgent", NULL, &locker, NULL), SIMBA_OK);
    assert_int_equal(pthread_create(&thread, NULL, lock, locker), 0);
    let_pass();
    probe_wait_count(&store.asked, AT_ONCE + 1);
    is_first = atomic_load(&store.asked) == AT_ONCE + 1 && is_asked((void *)"urgent");
    let_answer();
    pthread_join(thread, &result);
    assert_ptr_equal(result, locker);
    simba_locker_close(locker);
    close_all(client);
    return is_first;
}

/* A thread that is held up for a second before it asks finds that the line has gone on, hence once
 * more. */
static void a_thread_that_waits_for_a_mutex_does_not_stand_in_line(void **state)
{
    bool is_first = false;

    for (int i = 0; i < 5 && !is_first; i++)
        is_first = asks_before_the_line();
    assert_true(is_first);
}

struct stopper {
    simba_contender *contender;
    pthread_t thread;
    int code;
};

static void *stop(void *argument)
{
    struct stopper *s = argument;

    s->code = simba_contender_stop(s->contender, NULL);
    return NULL;
}

static bool is_stopping(void *contender)
{
    return simba_contender_status(contender) == SIMBA_STOPPING;
}

/* The loop has been asked for it when this returns: a second stop is refused after that. */
static void begin_stop(struct stopper *s, simba_contender *contender)
{
    s->contender = contender;
    assert_int_equal(pthread_create(&s->thread, NULL, stop, s), 0);
    assert_true(test_wait(is_stopping, contender));
    assert_int_equal(simba_contender_stop(contender, NULL), SIMBA_ESTATE);
}

static void end_stop(struct stopper *s)
{
    pthread_join(s->thread, NULL);
    assert_int_equal(s->code, SIMBA_OK);
    assert_int_equal(simba_contender_status(s->contender), SIMBA_INITIAL);
}

/* The first in line, one amid it and the last. Since they asked for nothing there is nothing to
 * give back. */
static void who_is_stopped_in_line_asks_nothing(void **state)
{
    static const int stopped[] = {AT_ONCE, (AT_ONCE + CONTENDERS) / 2, CONTENDERS - 1};
    const unsigned left = CONTENDERS - TEST_COUNT(stopped);
    simba_client *client = open_and_fill_line();
    struct stopper stoppers[TEST_COUNT(stopped)];

    for (size_t i = 0; i < TEST_COUNT(stopped); i++)
        begin_stop(&stoppers[i], contenders[stopped[i]]);
    set_still(false);
    for (size_t i = 0; i < TEST_COUNT(stopped); i++)
        end_stop(&stoppers[i]);
    let_answer();
    probe_wait_count(&store.asked, left);
    close_all(client);
    assert_int_equal(atomic_load(&store.asked), 2 * left);
}

static void who_is_stopped_in_line_can_start_again(void **state)
{
    simba_client *client = open_and_fill_line();
    simba_contender *last = contenders[CONTENDERS - 1];
    struct stopper stopper;

    begin_stop(&stopper, last);
    set_still(false);
    end_stop(&stopper);
    assert_int_equal(simba_contender_start(last, NULL), SIMBA_OK);
    let_answer();
    probe_wait_status(last, SIMBA_RUNNING);
    assert_true(simba_contender_is_owner(last));
    assert_int_equal(simba_contender_stop(last, NULL), SIMBA_OK);
    close_all(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_wait_while_many_requests_are_under_way),
        cmocka_unit_test(starts_do_not_wait_for_ever_where_nothing_is_answered),
        cmocka_unit_test(each_answer_lets_one_start_go_and_no_more),
        cmocka_unit_test(starts_keep_to_the_limit_on_a_store_that_is_slow),
        cmocka_unit_test(a_thread_that_waits_for_a_mutex_does_not_stand_in_line),
        cmocka_unit_test(who_is_stopped_in_line_asks_nothing),
        cmocka_unit_test(who_is_stopped_in_line_can_start_again),
    };

    if (simba_backend_register(&slow, NULL) != SIMBA_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
