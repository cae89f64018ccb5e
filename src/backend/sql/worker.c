/*
 * worker.c - the thread of an SQL client. Owns the queue, the connection and its healing; must not know
 * statements.
 */
#include "backend/sql/worker.h"

#include "backend/sql/batch.h"
#include "backend/sql/queue.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/thread.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define BACKOFF_MIN_MS 20
#define BACKOFF_MAX_MS 2000
#define HEALINGS_MAX 2  /* reconnects or new schemas for the sake of one batch */
#define REFUSED_MS 1000 /* between two new connections to a server that refuses */
#define REFUSED_QUIET_MS 60000
#define GATHER_PART 50 /* of the transition may be spent on waiting for more renewals */
#define RETRY_PAUSE_MIN_US 100
#define RETRY_PAUSE_MAX_US 1000

/* How long writers of a database that has one at a time wait before they look again whether they can
 * still win. Most of a herd gives up then without ever having had the lock. */
#define LOOK_AGAIN_MS 10

/* Servers are given at least this long for an answer: a connection that is given up costs more than one
 * request's punctuality. */
#define ANSWER_MIN_MS 300

enum work { WORK_END, WORK_REQUESTS, WORK_LOOK };

struct sb_worker {
    struct sb_worker_config config;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows up to `stopping` */
    pthread_cond_t arrived;
    struct sb_queue queue;
    bool stopping;

    /* The thread's own: */
    struct sb_repository repository;
    struct sb_batch batch;
    struct simba_error last_error; /* why there is no connection */
    unsigned failures;             /* to connect, in a row */
    int64_t connect_at_ms;         /* no attempt before */
    int64_t refused_until_ms;      /* no other connection before, for the sake of refusals */
    uint64_t random;

    void (*stopped)(void *argument);
    void *argument;
    struct simba_task last_task;
};

/* ---- Queue ---------------------------------------------------------------------------------- */

static void reply_code(struct sb_worker *w, struct simba_request *request, int code)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.code = code;
    w->config.host->reply(w->config.host, request, &reply);
}

static int64_t deadline_of(const struct sb_worker *w, const struct simba_request *request)
{
    int64_t wait_ms = w->config.wait_ms;

    if (request->timeout_ms > 0 && request->timeout_ms < wait_ms)
        wait_ms = request->timeout_ms;
    return simba_now_ms() + wait_ms;
}

/* Short leases have less time to give away. */
static int64_t gather_ms(const struct sb_worker *w, const struct simba_request *request)
{
    int64_t most = request->transition_ms / GATHER_PART;

    return w->config.gather_ms < most ? w->config.gather_ms : most;
}

/* With the lock held. Renewals wait for company: they have the whole transition, and a commit costs the same for many. */
static bool enqueue(struct sb_worker *w, struct simba_request *request)
{
    struct sb_queue_entry entry = {.request = request, .deadline_ms = deadline_of(w, request)};

    entry.due_ms = simba_now_ms();
    if (request->op == SIMBA_OP_GUARD)
        entry.due_ms += gather_ms(w, request);
    return sb_queue_add(&w->queue, &entry);
}

/* A release of nothing only leaves a wait queue, and SQL stores have none. */
static bool is_void(const struct simba_request *request)
{
    return request->op == SIMBA_OP_RELEASE && request->revision == 0;
}

/* Answers those that need no database; returns the others. */
static struct simba_request *answer_void(struct sb_worker *w, struct simba_request *batch)
{
    struct simba_request *rest = NULL;
    struct simba_request **end = &rest;

    while (batch != NULL) {
        struct simba_request *request = batch;

        batch = request->next;
        if (is_void(request)) {
            reply_code(w, request, SIMBA_OK);
        } else {
            request->next = NULL;
            *end = request;
            end = &request->next;
        }
    }
    return rest;
}

/* Under one lock, so that what became due together is carried out together. */
void sb_worker_submit(struct sb_worker *w, struct simba_request *batch)
{
    struct simba_request *rest = answer_void(w, batch);

    if (rest == NULL)
        return;
    pthread_mutex_lock(&w->lock);
    while (rest != NULL && enqueue(w, rest))
        rest = rest->next;
    pthread_mutex_unlock(&w->lock);
    pthread_cond_signal(&w->arrived);
    while (rest != NULL) {
        struct simba_request *request = rest;

        rest = request->next;
        reply_code(w, request, SIMBA_ENOMEM);
    }
}

void sb_worker_nudge(struct sb_worker *w)
{
    pthread_mutex_lock(&w->lock); /* it may be about to wait */
    pthread_mutex_unlock(&w->lock);
    pthread_cond_signal(&w->arrived);
}

/* With the lock held. When a worker stops, all that is left is due. */
static int64_t queue_due_ms(const struct sb_worker *w)
{
    return w->stopping && w->queue.count > 0 ? 0 : sb_queue_due_ms(&w->queue);
}

/* With the lock held. */
static void wait_until(struct sb_worker *w, int64_t at_ms, int64_t now_ms)
{
    struct timespec until;

    if (at_ms == SIMBA_INFINITE) {
        pthread_cond_wait(&w->arrived, &w->lock);
        return;
    }
    until = sb_clock_deadline(at_ms - now_ms);
    pthread_cond_timedwait(&w->arrived, &w->lock, &until);
}

/* Waits for something to do. Requests come first: a look is a courtesy. */
static enum work take(struct sb_worker *w)
{
    enum work work = WORK_END;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        int64_t now_ms = simba_now_ms();
        int64_t due_ms = queue_due_ms(w);
        int64_t look_ms =
            w->config.waiters != NULL ? sb_waiters_due_ms(w->config.waiters) : SIMBA_INFINITE;

        if (due_ms <= now_ms) {
            sb_queue_take(&w->queue, &w->batch, w->stopping);
            work = WORK_REQUESTS;
            break;
        }
        if (w->stopping && w->queue.count == 0)
            break;
        if (look_ms <= now_ms) {
            work = WORK_LOOK;
            break;
        }
        wait_until(w, due_ms < look_ms ? due_ms : look_ms, now_ms);
    }
    pthread_mutex_unlock(&w->lock);
    return work;
}

/* Puts the jobs that somebody was in the way of back into the queue; false when memory is short. */
static bool take_back(struct sb_worker *w, int64_t began_ms)
{
    bool kept;

    pthread_mutex_lock(&w->lock);
    kept = sb_queue_add_blocked(&w->queue, &w->batch, simba_now_ms() - began_ms);
    pthread_mutex_unlock(&w->lock);
    return kept;
}

/* ---- Connection ----------------------------------------------------------------------------- */

static void drop_connection(struct sb_worker *w)
{
    w->config.driver->disconnect(w->repository.connection);
    w->repository.connection = NULL;
    w->repository.in_transaction = false;
}

/* Doubles with every failure in a row, half of it random. */
static int64_t backoff(struct sb_worker *w)
{
    int64_t delay_ms = BACKOFF_MIN_MS;

    for (unsigned i = 1; i < w->failures && delay_ms < BACKOFF_MAX_MS; i++)
        delay_ms *= 2;
    return delay_ms / 2 + sb_random_between(sb_random_next(&w->random), 0, delay_ms / 2 + 1);
}

static int note_no_connection(struct sb_worker *w, const struct sb_sql_failure *failure)
{
    const struct simba_backend_host *host = w->config.host;

    if (w->failures++ == 0)
        host->log(host, SIMBA_LOG_WARN, "%s: cannot connect: %s", w->config.name,
                  failure->error.text);
    w->last_error = failure->error;
    w->connect_at_ms = simba_now_ms() + backoff(w);
    return failure->error.code;
}

/* Between two attempts requests are answered with what the last one failed with. */
static int ensure_connection(struct sb_worker *w, int64_t now_ms, struct sb_sql_failure *failure)
{
    const struct simba_backend_host *host = w->config.host;
    int64_t timeout_ms = sb_batch_deadline_ms(&w->batch) - now_ms;

    if (timeout_ms > w->config.connect_ms)
        timeout_ms = w->config.connect_ms;
    if (w->repository.connection != NULL)
        return SIMBA_OK;
    failure->remedy = SB_SQL_GIVE_UP;
    failure->error = w->last_error;
    if (now_ms < w->connect_at_ms)
        return failure->error.code;
    if (w->config.driver->connect(w->config.settings, timeout_ms, &w->repository.connection,
                                  failure) != SIMBA_OK) {
        failure->remedy = SB_SQL_GIVE_UP;
        return note_no_connection(w, failure);
    }
    if (w->failures > 0)
        host->log(host, SIMBA_LOG_INFO, "%s: connected again", w->config.name);
    w->failures = 0;
    return SIMBA_OK;
}

/* ---- Work ----------------------------------------------------------------------------------- */

static int attempt(struct sb_worker *w, int64_t now_ms, struct sb_sql_failure *failure)
{
    const struct sb_sql_driver *driver = w->config.driver;
    int64_t deadline_ms = sb_batch_deadline_ms(&w->batch);
    int code = ensure_connection(w, now_ms, failure);

    if (code != SIMBA_OK)
        return code;
    if (driver->looks_first && deadline_ms > now_ms + LOOK_AGAIN_MS)
        deadline_ms = now_ms + LOOK_AGAIN_MS;
    if (driver->run_all != NULL && deadline_ms < now_ms + ANSWER_MIN_MS)
        deadline_ms = now_ms + ANSWER_MIN_MS;
    driver->set_deadline(w->repository.connection, deadline_ms);
    return sb_batch_run(&w->batch, &w->repository, failure);
}

/* Not every driver has waited when it says that somebody is in the way. */
static void pause_before_retry(struct sb_worker *w)
{
    int64_t us =
        sb_random_between(sb_random_next(&w->random), RETRY_PAUSE_MIN_US, RETRY_PAUSE_MAX_US);
    const struct timespec pause = {0, (long)us * 1000};

    nanosleep(&pause, NULL);
}

/* A server that answers and refuses, because it is read-only, is asked over a new connection only now and
 * then: there may be another one behind the name by now. Those who only read need the old one meanwhile. */
static bool heal_connection(struct sb_worker *w, const struct sb_sql_failure *failure,
                            unsigned healings)
{
    const struct simba_backend_host *host = w->config.host;
    bool refused = failure->error.code == SIMBA_ESTORE;
    int64_t now_ms = simba_now_ms();

    if (refused && now_ms < w->refused_until_ms)
        return false;
    if (!refused || w->refused_until_ms == 0 || now_ms >= w->refused_until_ms + REFUSED_QUIET_MS)
        host->log(host, SIMBA_LOG_WARN, "%s: connecting again: %s", w->config.name,
                  failure->error.text);
    if (refused)
        w->refused_until_ms = now_ms + REFUSED_MS;
    drop_connection(w);
    return healings < HEALINGS_MAX;
}

/* Does what may help; returns whether another attempt makes sense. */
static bool heal(struct sb_worker *w, struct sb_sql_failure *failure, unsigned healings)
{
    const struct sb_sql_driver *driver = w->config.driver;
    const struct simba_backend_host *host = w->config.host;
    struct sb_sql_failure moved;

    if (failure->remedy == SB_SQL_RETRY && driver->check != NULL &&
        driver->check(w->repository.connection, &moved) != SIMBA_OK)
        *failure = moved;
    switch (failure->remedy) {
    case SB_SQL_RETRY:
        pause_before_retry(w);
        return true;
    case SB_SQL_RECONNECT:
        return heal_connection(w, failure, healings);
    case SB_SQL_SCHEMA:
        host->log(host, SIMBA_LOG_WARN, "%s: creating the schema again: %s", w->config.name,
                  failure->error.text);
        return healings < HEALINGS_MAX &&
               sb_repository_init_schema(&w->repository, failure) == SIMBA_OK;
    default:
        return false;
    }
}

/* What those are told who have run out of time. A batch is of requests that were blocked, or of others. */
static void set_late(struct simba_error *error, bool blocked)
{
    sb_error_set(error, SIMBA_EUNAVAILABLE,
                 blocked ? "the row was locked by somebody else all the time"
                         : "the store did not get to it in time");
}

static void serve(struct sb_worker *w)
{
    struct sb_sql_failure failure = {.remedy = SB_SQL_GIVE_UP};
    int64_t began_ms = simba_now_ms();
    unsigned healings = 0;

    set_late(&failure.error, w->batch.jobs[0].attempts > 0);
    for (;;) {
        int64_t now_ms = simba_now_ms();

        sb_batch_expire(&w->batch, now_ms, &failure.error);
        if (sb_batch_is_over(&w->batch))
            return;
        if (attempt(w, now_ms, &failure) == SIMBA_OK) {
            set_late(&failure.error, true);
            sb_batch_expire(&w->batch, simba_now_ms(), &failure.error);
            if (take_back(w, began_ms))
                return;
            sb_error_plain(&failure.error, SIMBA_ENOMEM);
            break;
        }
        if (!heal(w, &failure, healings))
            break;
        if (failure.remedy != SB_SQL_RETRY)
            healings++;
    }
    sb_batch_fail(&w->batch, &failure.error);
}

/* A courtesy: what fails here fails again for somebody who waits for the answer, and is told there. */
static void look(struct sb_worker *w)
{
    struct sb_sql_failure failure;
    int64_t now_ms = simba_now_ms();

    if (w->repository.connection == NULL) {
        sb_waiters_skip(w->config.waiters);
        return;
    }
    w->config.driver->set_deadline(w->repository.connection, now_ms + w->config.wait_ms);
    if (sb_waiters_look(w->config.waiters, w->repository.connection, &failure) != SIMBA_OK &&
        failure.remedy == SB_SQL_RECONNECT)
        drop_connection(w);
}

static void *run_thread(void *argument)
{
    struct sb_worker *w = argument;
    enum work work;

    while ((work = take(w)) != WORK_END) {
        if (work == WORK_LOOK)
            look(w);
        else
            serve(w);
    }
    drop_connection(w);
    w->config.host->post(w->config.host, &w->last_task);
    return NULL;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void free_worker(struct sb_worker *w)
{
    pthread_cond_destroy(&w->arrived);
    pthread_mutex_destroy(&w->lock);
    sb_queue_clear(&w->queue);
    sb_free(w);
}

/* On the loop thread. The worker's has nothing left to do but to return, so this does not wait. */
static void finish_stop(struct simba_task *task)
{
    struct sb_worker *w =
        (struct sb_worker *)((char *)task - offsetof(struct sb_worker, last_task));
    void (*stopped)(void *argument) = w->stopped;
    void *stop_argument = w->argument;

    pthread_join(w->thread, NULL);
    free_worker(w);
    stopped(stop_argument);
}

void sb_worker_stop(struct sb_worker *w, void (*stopped)(void *argument), void *argument)
{
    w->stopped = stopped;
    w->argument = argument;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_mutex_unlock(&w->lock);
    pthread_cond_signal(&w->arrived);
}

static int connect_and_start(struct sb_worker *w, struct simba_error *error)
{
    struct sb_sql_failure failure;
    int code = w->config.driver->connect(w->config.settings, w->config.connect_ms,
                                         &w->repository.connection, &failure);

    if (code != SIMBA_OK) {
        if (error != NULL)
            *error = failure.error;
        return code;
    }
    code = sb_thread_start(&w->thread, w->config.name, run_thread, w);
    if (code == 0)
        return SIMBA_OK;
    drop_connection(w);
    return sb_error_set_backend(error, SIMBA_EUNAVAILABLE, code, "cannot start a thread: %s",
                                strerror(code));
}

static void init_waiting(struct sb_worker *w)
{
    pthread_condattr_t monotonic;

    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->arrived, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int sb_worker_start(const struct sb_worker_config *config, struct sb_worker **ret_worker,
                    struct simba_error *error)
{
    struct sb_worker *w = sb_alloc_zero(sizeof *w);
    int code;

    if (w == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    w->config = *config;
    w->batch.host = config->host;
    w->batch.waiters = config->waiters;
    w->random = sb_random_seed();
    w->last_task.run = finish_stop;
    init_waiting(w);
    code = connect_and_start(w, error);
    if (code != SIMBA_OK) {
        free_worker(w);
        return code;
    }
    *ret_worker = w;
    return SIMBA_OK;
}
