/*
 * The end of handles: what begins after a close, what is freed under a running callback, and
 * on_closed. Freed memory is poisoned, so that its use ends the test.
 */
#include "lib/poison.h"
#include "probe.h"

#include "lib/locker.h"
#include "tck/shim.h"

/* Threads that are told so stop for a moment when they have unlocked a mutex. */
static _Thread_local struct gate *pause_at;

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct gate *gate = pause_at;
    int code = __real_pthread_mutex_unlock(mutex);

    if (gate != NULL) {
        pause_at = NULL;
        gate_wait(gate);
    }
    return code;
}

/* ---- Handles of all kinds -------------------------------------------------------------------- */

enum kind { CONTENDER, OBSERVER, SCHEDULER, LOCKER, KINDS };

/* The application's side of a handle: what its callbacks have seen. */
struct subject {
    enum kind kind;
    simba_contender *contender;
    simba_observer *observer;
    simba_scheduler *scheduler;
    simba_locker *locker;
    atomic_uint begun;
    atomic_uint returned;
    atomic_uint closed; /* on_closed that have returned */
    atomic_uint late;   /* callbacks after on_closed */
    atomic_bool closes; /* the next callback closes the handle */
    struct gate *gate;  /* where callbacks wait; NULL: nowhere */
};

static void close_subject(struct subject *s)
{
    switch (s->kind) {
    case CONTENDER:
        simba_contender_close(s->contender);
        break;
    case OBSERVER:
        simba_observer_close(s->observer);
        break;
    case SCHEDULER:
        simba_scheduler_close(s->scheduler);
        break;
    default:
        simba_locker_close(s->locker);
        break;
    }
}

/* Uses the handle as callbacks do. */
static void ask_subject(struct subject *s)
{
    struct simba_state state;

    switch (s->kind) {
    case CONTENDER:
        simba_contender_state(s->contender, &state);
        if (strcmp(simba_contender_mutex(s->contender), "m") != 0)
            atomic_fetch_add(&s->late, 1);
        break;
    case OBSERVER:
        simba_observer_state(s->observer, &state);
        break;
    case SCHEDULER:
        (void)simba_scheduler_should_stop(s->scheduler);
        break;
    default:
        (void)simba_locker_is_held(s->locker);
        break;
    }
}

static void call(struct subject *s)
{
    atomic_fetch_add(&s->begun, 1);
    if (atomic_load(&s->closed) > 0)
        atomic_fetch_add(&s->late, 1);
    if (atomic_exchange(&s->closes, false))
        close_subject(s);
    if (s->gate != NULL)
        gate_wait(s->gate);
    ask_subject(s);
    atomic_fetch_add(&s->returned, 1);
}

static void on_state(void *user, const struct simba_state *state)
{
    call(user);
}

static int on_work(void *user, simba_scheduler *scheduler)
{
    (void)scheduler;
    call(user);
    return 0;
}

static void on_lost(void *user)
{
    call(user);
}

static void on_closed(void *user)
{
    struct subject *s = user;

    if (atomic_load(&s->begun) != atomic_load(&s->returned))
        atomic_fetch_add(&s->late, 1);
    atomic_fetch_add(&s->closed, 1);
}

static int create_contender(struct subject *s, simba_client *client)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;

    options.mutex = "m";
    options.on_acquired = on_state;
    options.on_released = on_state;
    options.on_notify = on_state;
    options.on_closed = on_closed;
    options.user = s;
    return simba_contender_create(client, &options, &s->contender, NULL);
}

static int create_observer(struct subject *s, simba_client *client)
{
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;

    options.mutex = "seen";
    options.poll_ms = 5;
    options.on_notify = on_state;
    options.on_closed = on_closed;
    options.user = s;
    return simba_observer_create(client, &options, &s->observer, NULL);
}

static int create_scheduler(struct subject *s, simba_client *client)
{
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;

    options.mutex = "m";
    options.period_ms = 1;
    options.work = on_work;
    options.on_closed = on_closed;
    options.user = s;
    return simba_scheduler_create(client, &options, &s->scheduler, NULL);
}

static int create_locker(struct subject *s, simba_client *client)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = "m";
    options.on_lost = on_lost;
    options.on_closed = on_closed;
    options.user = s;
    return simba_locker_create(client, &options, &s->locker, NULL);
}

static void create_subject(struct subject *s, enum kind kind, simba_client *client)
{
    static int (*const create[])(struct subject *, simba_client *) = {
        create_contender, create_observer, create_scheduler, create_locker};

    memset(s, 0, sizeof *s);
    s->kind = kind;
    assert_int_equal(create[kind](s, client), SIMBA_OK);
}

static void start_subject(struct subject *s)
{
    int code;

    switch (s->kind) {
    case CONTENDER:
        code = simba_contender_start(s->contender, NULL);
        break;
    case OBSERVER:
        code = simba_observer_start(s->observer, NULL);
        break;
    case SCHEDULER:
        code = simba_scheduler_start(s->scheduler, NULL);
        break;
    default:
        code = simba_locker_acquire(s->locker, NULL);
        break;
    }
    assert_int_equal(code, SIMBA_OK);
}

/* A client whose lockers lose what they hold, and whose observers find an owner of "seen". */
struct world {
    struct sb_shim *shim;
    simba_client *client;
    simba_client *other;
    simba_locker *seen;
};

static void open_world(struct world *w, const char *parameters)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    char url[256];

    snprintf(url, sizeof url, "memory:close?%s", parameters);
    assert_int_equal(sb_shim_create(url, NULL, &w->shim, NULL), SIMBA_OK);
    assert_int_equal(sb_shim_open(w->shim, url, &options, &w->client, NULL), SIMBA_OK);
    w->other = probe_open("memory:close?" PROBE_LONG);
    assert_int_equal(test_locker_create(w->other, "seen", NULL, &w->seen, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire(w->seen, NULL), SIMBA_OK);
}

static void close_world(struct world *w)
{
    simba_locker_close(w->seen);
    probe_close(w->other);
    probe_close(w->client);
    sb_shim_free(w->shim);
}

/* Starts it and waits for its first callback. */
static void begin_callback(struct subject *s, struct world *w)
{
    start_subject(s);
    if (s->kind == LOCKER)
        sb_shim_refuse(w->shim, SB_SHIM_OP(SIMBA_OP_GUARD), SIMBA_EUNAVAILABLE);
    probe_wait_count(&s->begun, 1);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

#define SOON "ttl=60ms&transition=100ms&jitter=0ms..10ms&stop-timeout="

static void on_closed_is_the_last_callback_and_comes_before_close_returns(void **state)
{
    struct world w;

    open_world(&w, SOON "10s");
    for (int kind = 0; kind < KINDS; kind++) {
        for (int started = 0; started < 2; started++) {
            struct subject s;

            create_subject(&s, kind, w.client);
            if (started)
                begin_callback(&s, &w);
            close_subject(&s);
            assert_int_equal(atomic_load(&s.closed), 1);
            assert_int_equal(atomic_load(&s.begun), atomic_load(&s.returned));
            assert_int_equal(atomic_load(&s.late), 0);
            sb_shim_let_go(w.shim);
        }
    }
    close_world(&w);
    test_poison_check();
}

static void nothing_but_on_closed_begins_after_a_close_inside_a_callback(void **state)
{
    struct world w;

    open_world(&w, SOON "10s");
    for (int kind = 0; kind < KINDS; kind++) {
        struct subject s;

        create_subject(&s, kind, w.client);
        atomic_store(&s.closes, true);
        begin_callback(&s, &w);
        probe_wait_count(&s.closed, 1);
        assert_int_equal(atomic_load(&s.begun), 1);
        assert_int_equal(atomic_load(&s.late), 0);
        sb_shim_let_go(w.shim);
    }
    probe_wait_free(w.other, "m");
    close_world(&w);
    test_poison_check();
}

static void a_handle_stays_valid_in_a_callback_that_outlasts_its_close(void **state)
{
    struct world w;

    open_world(&w, SOON "100ms");
    for (int kind = 0; kind < KINDS; kind++) {
        struct gate gate = GATE_INIT;
        struct subject s;

        create_subject(&s, kind, w.client);
        s.gate = &gate;
        begin_callback(&s, &w);
        close_subject(&s);
        assert_int_equal(atomic_load(&s.returned), 0);
        assert_int_equal(atomic_load(&s.closed), 0);
        gate_open(&gate);
        probe_wait_count(&s.closed, 1);
        assert_int_equal(atomic_load(&s.begun), 1);
        assert_int_equal(atomic_load(&s.late), 0);
        sb_shim_let_go(w.shim);
    }
    close_world(&w);
    test_poison_check();
}

/* Has the loop take in what another thread has posted and not told it of. */
struct nudge {
    simba_client *client;
    struct subject *subject;
    struct gate *gate;
};

static bool has_returned(void *subject)
{
    return atomic_load(&((struct subject *)subject)->returned) > 0;
}

static void *nudge(void *argument)
{
    struct nudge *n = argument;
    struct simba_mutex_status *list = NULL;
    size_t count;

    test_pause_ms(20); /* the other thread waits at the gate by then, or has no use for this */
    simba_client_status(n->client, "m", TEST_PATIENCE_MS, &list, &count, NULL);
    simba_free(list);
    test_wait(has_returned, n->subject);
    test_pause_ms(50); /* whatever can be freed is freed by then */
    gate_open(n->gate);
    return NULL;
}

static void a_start_is_safe_from_the_callback_that_closes_its_handle(void **state)
{
    struct world w;

    open_world(&w, SOON "10s");
    for (int kind = 0; kind < LOCKER; kind++) {
        struct gate gate = GATE_INIT;
        struct subject s;
        struct nudge n = {w.client, &s, &gate};
        pthread_t thread;

        create_subject(&s, kind, w.client);
        atomic_store(&s.closes, true);
        pthread_create(&thread, NULL, nudge, &n);
        pause_at = &gate;
        start_subject(&s);
        pthread_join(thread, NULL);
        probe_wait_count(&s.closed, 1);
    }
    close_world(&w);
    test_poison_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_is_safe_from_the_callback_that_closes_its_handle),
        cmocka_unit_test(a_handle_stays_valid_in_a_callback_that_outlasts_its_close),
        cmocka_unit_test(on_closed_is_the_last_callback_and_comes_before_close_returns),
        cmocka_unit_test(nothing_but_on_closed_begins_after_a_close_inside_a_callback),
    };

    test_poison_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
