/*
 * worker.c - the thread of an SQL client. Owns the queue, the connection and its healing; must not know
 * statements.
 */
#include "backend/sql/worker.h"

#include "backend/sql/batch.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "base/thread.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define BACKOFF_MIN_MS 20
#define BACKOFF_MAX_MS 2000
#define HEALINGS_MAX 2 /* reconnects or new schemas for the sake of one batch */
#define RETRY_PAUSE_MIN_US 100
#define RETRY_PAUSE_MAX_US 1000

/* How long writers of a database that has one at a time wait before they look again whether they can
 * still win. Most of a herd gives up then without ever having had the lock. */
#define LOOK_AGAIN_MS 10

struct entry {
    struct simba_request *request;
    int64_t deadline_ms;
};

struct sb_worker {
    struct sb_worker_config config;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the queue and `stopping` */
    pthread_cond_t arrived;
    struct entry *queue;
    size_t queue_count;
    size_t queue_room;
    bool stopping;

    /* The thread's own: */
    struct sb_repository repository;
    struct sb_batch batch;
    struct simba_error last_error; /* why there is no connection */
    unsigned failures;             /* to connect, in a row */
    int64_t connect_at_ms;         /* no attempt before */
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

/* With the lock held. False when memory is short. */
static bool enqueue(struct sb_worker *w, struct simba_request *request)
{
    if (w->queue_count == w->queue_room) {
        size_t room = w->queue_room * 2 + 64;
        struct entry *queue = sb_realloc(w->queue, room * sizeof *queue);

        if (queue == NULL)
            return false;
        w->queue = queue;
        w->queue_room = room;
    }
    w->queue[w->queue_count].request = request;
    w->queue[w->queue_count].deadline_ms = deadline_of(w, request);
    w->queue_count++;
    return true;
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

/* Waits for requests and moves them into the batch. False when it is time to end. */
static bool take(struct sb_worker *w)
{
    size_t count;

    pthread_mutex_lock(&w->lock);
    while (w->queue_count == 0 && !w->stopping)
        pthread_cond_wait(&w->arrived, &w->lock);
    count = w->queue_count < SB_BATCH_MAX ? w->queue_count : SB_BATCH_MAX;
    w->batch.count = 0;
    for (size_t i = 0; i < count; i++)
        sb_batch_add(&w->batch, w->queue[i].request, w->queue[i].deadline_ms);
    w->queue_count -= count;
    if (w->queue_count > 0)
        memmove(w->queue, w->queue + count, w->queue_count * sizeof *w->queue);
    pthread_mutex_unlock(&w->lock);
    return count > 0;
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
        host->log(host, SIMBA_LOG_WARN, "%s: connecting again: %s", w->config.name,
                  failure->error.text);
        drop_connection(w);
        return healings < HEALINGS_MAX;
    case SB_SQL_SCHEMA:
        host->log(host, SIMBA_LOG_WARN, "%s: creating the schema again: %s", w->config.name,
                  failure->error.text);
        return healings < HEALINGS_MAX &&
               sb_repository_init_schema(&w->repository, failure) == SIMBA_OK;
    default:
        return false;
    }
}

static void serve(struct sb_worker *w)
{
    struct sb_sql_failure failure = {.remedy = SB_SQL_GIVE_UP};
    unsigned healings = 0;

    sb_error_set(&failure.error, SIMBA_EUNAVAILABLE, "the store did not get to it in time");
    for (;;) {
        int64_t now_ms = simba_now_ms();

        sb_batch_expire(&w->batch, now_ms, &failure.error);
        if (sb_batch_is_over(&w->batch) || attempt(w, now_ms, &failure) == SIMBA_OK)
            return;
        if (!heal(w, &failure, healings))
            break;
        if (failure.remedy != SB_SQL_RETRY)
            healings++;
    }
    sb_batch_fail(&w->batch, &failure.error);
}

static void *run_thread(void *argument)
{
    struct sb_worker *w = argument;

    while (take(w))
        serve(w);
    drop_connection(w);
    w->config.host->post(w->config.host, &w->last_task);
    return NULL;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void free_worker(struct sb_worker *w)
{
    pthread_cond_destroy(&w->arrived);
    pthread_mutex_destroy(&w->lock);
    sb_free(w->queue);
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
    int code = w->config.driver->connect(w->config.settings, w->config.wait_ms,
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

int sb_worker_start(const struct sb_worker_config *config, struct sb_worker **ret_worker,
                    struct simba_error *error)
{
    struct sb_worker *w = sb_alloc_zero(sizeof *w);
    int code;

    if (w == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    w->config = *config;
    w->batch.host = config->host;
    w->random = sb_random_seed();
    w->last_task.run = finish_stop;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->arrived, NULL);
    code = connect_and_start(w, error);
    if (code != SIMBA_OK) {
        free_worker(w);
        return code;
    }
    *ret_worker = w;
    return SIMBA_OK;
}
