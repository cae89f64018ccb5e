/*
 * Many contenders that start at once take turns, on a store that answers when the test lets it.
 */
#include "probe.h"

#include <string.h>

#define CONTENDERS 6000
#define AT_ONCE 4096     /* requests that may be under way before starts wait */
#define MOVES_ON_MS 1000 /* how long they wait at most before some of them go on */

static simba_contender *contenders[CONTENDERS];

/* ---- The store ------------------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    const struct simba_backend_host *host;
    struct simba_request *held; /* without an answer */
    bool answers;
    atomic_uint asked; /* requests so far */
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

static void slow_submit(simba_backend *backend, struct simba_request *batch)
{
    bool answers;

    (void)backend;
    for (struct simba_request *r = batch; r != NULL; r = r->next)
        atomic_fetch_add(&store.asked, 1);
    pthread_mutex_lock(&store.lock);
    answers = store.answers;
    while (!answers && batch != NULL) {
        struct simba_request *next = batch->next;

        batch->next = store.held;
        store.held = batch;
        batch = next;
    }
    pthread_mutex_unlock(&store.lock);
    answer_all(batch);
}

static void let_answer(void)
{
    struct simba_request *held;

    pthread_mutex_lock(&store.lock);
    held = store.held;
    store.held = NULL;
    store.answers = true;
    pthread_mutex_unlock(&store.lock);
    answer_all(held);
}

/* Answers one that is held; returns how many that were. */
static unsigned answer_one(void)
{
    struct simba_request *request;

    pthread_mutex_lock(&store.lock);
    request = store.held;
    if (request != NULL)
        store.held = request->next;
    pthread_mutex_unlock(&store.lock);
    if (request == NULL)
        return 0;
    answer(request);
    return 1;
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
    store.answers = false;
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
    .size = sizeof slow,
    .name = "slow",
    .serves = slow_serves,
    .open = slow_open,
    .submit = slow_submit,
    .close = slow_close,
};

/* ---- Tests ---------------------------------------------------------------------------------- */

static bool have_all_come(void *argument)
{
    struct simba_metrics metrics = {.size = sizeof metrics};

    simba_client_metrics(argument, &metrics);
    return metrics.contenders == CONTENDERS;
}

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

static simba_client *open_and_start_all(void)
{
    simba_client *client = open_and_create_all();

    for (int i = 0; i < CONTENDERS; i++)
        assert_int_equal(simba_contender_start(contenders[i], NULL), SIMBA_OK);
    assert_true(test_wait(have_all_come, client));
    return client;
}

static void close_from(int first)
{
    for (int i = first; i < CONTENDERS; i++) {
        simba_contender_close(contenders[i]);
        contenders[i] = NULL;
    }
}

static void close_all(simba_client *client)
{
    let_answer();
    close_from(0);
    probe_close(client);
}

static void starts_wait_while_many_requests_are_under_way(void **state)
{
    int64_t begun_ms = simba_now_ms();
    simba_client *client = open_and_start_all();

    (void)state;
    probe_wait_count(&store.asked, AT_ONCE);
    if (simba_now_ms() - begun_ms < MOVES_ON_MS) {
        assert_int_equal(atomic_load(&store.asked), AT_ONCE);
        assert_int_equal(simba_contender_status(contenders[CONTENDERS - 1]), SIMBA_STARTING);
    }
    let_answer();
    for (int i = 0; i < CONTENDERS; i++)
        probe_wait_status(contenders[i], SIMBA_RUNNING);
    assert_int_equal(atomic_load(&store.asked), CONTENDERS);
    close_all(client);
}

/* A part of the store that is dead does not hold up those who ask the rest. */
static void starts_do_not_wait_for_ever_where_nothing_is_answered(void **state)
{
    simba_client *client = open_and_start_all();

    (void)state;
    probe_wait_count(&store.asked, CONTENDERS);
    close_all(client);
}

static unsigned greater_of(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* However long it takes, each answer lets one start go, and no more. */
static void starts_keep_to_the_limit_on_a_store_that_is_slow(void **state)
{
    simba_client *client = open_and_create_all();
    int64_t begun_ms = simba_now_ms();
    int64_t last_ms = begun_ms;
    unsigned longest_ms = 0;
    unsigned answered = 0;
    unsigned most = 0;

    (void)state;
    for (int i = 0; simba_now_ms() < begun_ms + 3 * MOVES_ON_MS; i++) {
        if (i < CONTENDERS)
            assert_int_equal(simba_contender_start(contenders[i], NULL), SIMBA_OK);
        most = greater_of(most, atomic_load(&store.asked) - answered);
        if (i >= CONTENDERS || i % 100 == 0) {
            answered += answer_one();
            longest_ms = greater_of(longest_ms, (unsigned)(simba_now_ms() - last_ms));
            last_ms = simba_now_ms();
        }
        if (i >= CONTENDERS)
            test_pause_ms(20);
    }
    assert_true(answered > 0);
    if (longest_ms < MOVES_ON_MS / 2)
        assert_in_range(most, 1, AT_ONCE);
    close_all(client);
}

static void *lock(void *argument)
{
    simba_locker *locker = argument;

    return simba_locker_acquire(locker, NULL) == SIMBA_OK ? locker : NULL;
}

static void a_thread_that_waits_for_a_mutex_does_not_stand_in_line(void **state)
{
    simba_client *client = open_and_start_all();
    simba_locker *locker = NULL;
    void *result = NULL;
    pthread_t thread;

    (void)state;
    assert_int_equal(simba_locker_create(client, "urgent", NULL, &locker, NULL), SIMBA_OK);
    pthread_create(&thread, NULL, lock, locker);
    assert_true(test_wait(is_asked, (void *)"urgent"));
    assert_true(probe_is_slowed() || atomic_load(&store.asked) < CONTENDERS);
    let_answer();
    pthread_join(thread, &result);
    assert_ptr_equal(result, locker);
    simba_locker_close(locker);
    close_all(client);
}

/* None of them has asked for anything, so there is nothing to give back. */
static void who_is_stopped_in_line_asks_nothing(void **state)
{
    int64_t begun_ms = simba_now_ms();
    simba_client *client = open_and_start_all();
    bool in_time;

    (void)state;
    assert_int_equal(simba_contender_stop(contenders[CONTENDERS - 1], NULL), SIMBA_OK);
    assert_int_equal(simba_contender_status(contenders[CONTENDERS - 1]), SIMBA_INITIAL);
    close_from(AT_ONCE);
    in_time = simba_now_ms() - begun_ms < MOVES_ON_MS;
    close_all(client);
    if (in_time)
        assert_int_equal(atomic_load(&store.asked), 2 * AT_ONCE);
}

static void who_is_stopped_in_line_can_start_again(void **state)
{
    simba_client *client = open_and_start_all();
    simba_contender *last = contenders[CONTENDERS - 1];

    (void)state;
    assert_int_equal(simba_contender_stop(last, NULL), SIMBA_OK);
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
        cmocka_unit_test(starts_keep_to_the_limit_on_a_store_that_is_slow),
        cmocka_unit_test(a_thread_that_waits_for_a_mutex_does_not_stand_in_line),
        cmocka_unit_test(who_is_stopped_in_line_asks_nothing),
        cmocka_unit_test(who_is_stopped_in_line_can_start_again),
    };

    if (simba_backend_register(&slow) != SIMBA_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
