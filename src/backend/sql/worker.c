/*
 * worker.c - the thread of an SQL client. Owns the queue and the user of the connection; must not
 * know statements.
 *
 *     the thread    carries out what is queued, polls for releases, repairs the connection
 *     the loop      carries out a single request that delays no other, while the thread is idle
 *
 * The loop does not wait for locks of others, and for a server only while it has nothing else to
 * do. After a slow request its requests are left to the thread for a while: then one slow commit
 * makes one call late, and not each call.
 */
#include "backend/sql/worker.h"

#include "backend/sql/batch.h"
#include "backend/sql/session.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/time.h"
#include "base/error.h"
#include "base/random.h"
#include "base/thread.h"

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define GATHER_PART 50 /* of the transition may be spent on waiting for more renewals */

/* How long writers of a database that has one at a time wait before they read again whether they
 * can still win. Most of many waiters give up then without ever having had the lock. */
#define READ_AGAIN_MS 10

/* Servers are given at least this long for an answer and for a connection: one that is given up
 * costs more than one request's punctuality. Where leases are short and the server is slow, none
 * would ever be made. */
#define ANSWER_MIN_MS 300
#define CONNECT_MIN_MS 1000

#define SLOW_MS 50     /* longer than a busy machine takes a core away for */
#define SLOW_SHARE 100 /* one part in so many of the loop's time may go by in slow requests */
#define THREAD_ONLY_MAX_MS 60000

enum work { WORK_END, WORK_REQUESTS, WORK_POLL, WORK_REPAIR };

struct sb_sql_worker {
    struct sb_sql_worker_config config;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows, `user` included */
    pthread_cond_t arrived;
    struct sb_sql_pending pending;
    bool stopping;
    bool broken;                        /* `failure` has made the connection useless */
    int64_t wakes_at_ms;                /* the thread, unless it is called */
    struct sb_sql_names names;          /* what the table took when it was last connected to */
    enum { NOBODY, THREAD, LOOP } user; /* of the connection */

    /* The user's own: */
    struct sb_sql_session session;
    struct sb_sql_failure failure;

    /* The loop's own: */
    int64_t thread_only_until_ms; /* no request is carried out there before */
    size_t listeners;             /* contenders and observers of the client */

    void (*stopped)(void *argument);
    void *argument;
    struct simba_task last_task;

    struct sb_sql_batch batch; /* the user's own, too */
};

/* ---- Queue ----------------------------------------------------------------------------------- */

static void reply_code(struct sb_sql_worker *w, struct simba_request *request, int code)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.code = code;
    w->config.host->reply(w->config.host, request, &reply);
}

/* Until when a request that came now is answered. */
static int64_t deadline_of(const struct sb_sql_worker *w, const struct simba_request *request,
                           int64_t now_ms)
{
    int64_t wait_ms = w->config.wait_ms;

    if (request->timeout_ms > 0 && request->timeout_ms < wait_ms)
        wait_ms = request->timeout_ms;
    return now_ms + wait_ms;
}

/* With the lock held. Renewals wait for others: they have the whole transition, and a commit costs
 * the same for many. Short leases have less time to give away. To an only contender no other comes,
 * and the later its lease begins on the store, the later another may follow when it has died. */
static bool enqueue(struct sb_sql_worker *w, struct simba_request *request)
{
    int64_t now_ms = simba_now_ms();
    struct sb_sql_pending_entry entry = {
        .request = request, .deadline_ms = deadline_of(w, request, now_ms), .due_ms = now_ms};

    if (request->op == SIMBA_OP_GUARD && w->listeners != 1)
        entry.due_ms += sb_earlier(w->config.gather_ms, request->transition_ms / GATHER_PART);
    return sb_sql_pending_add(&w->pending, &entry);
}

/* Whether the request only gives up a place that the contender does not have. */
static bool is_void(const struct sb_sql_worker *w, const struct simba_request *request)
{
    return sb_sql_leaves(request) &&
           (w->batch.places == NULL ||
            !sb_sql_places_has(w->batch.places, request->mutex, request->id));
}

/* Answers those that need no database; returns the others. */
static struct simba_request *answer_void(struct sb_sql_worker *w, struct simba_request *batch)
{
    struct simba_request *rest = NULL;
    struct simba_request **end = &rest;

    while (batch != NULL) {
        struct simba_request *request = batch;

        batch = request->next;
        if (is_void(w, request)) {
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
static void submit_to_thread(struct sb_sql_worker *w, struct simba_request *rest)
{
    pthread_mutex_lock(&w->lock);
    SB_CHECK(!w->stopping, "no request comes after the stop");
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

void sb_sql_worker_nudge(struct sb_sql_worker *w)
{
    pthread_mutex_lock(&w->lock); /* the thread may be about to wait */
    pthread_mutex_unlock(&w->lock);
    pthread_cond_signal(&w->arrived);
}

/* With the lock held. When a worker stops, all that is left is due. */
static int64_t queue_due_ms(const struct sb_sql_worker *w)
{
    return w->stopping && w->pending.count > 0 ? 0 : sb_sql_pending_due_ms(&w->pending);
}

static int64_t poll_due_ms(const struct sb_sql_worker *w)
{
    return w->config.waiters != NULL ? sb_sql_waiters_due_ms(w->config.waiters) : SIMBA_INFINITE;
}

/* With the lock held. */
static void wait_until(struct sb_sql_worker *w, int64_t at_ms, int64_t now_ms)
{
    struct timespec until;

    SB_CHECK(w->user != THREAD, "the thread waits without the connection");
    w->wakes_at_ms = at_ms;
    if (at_ms == SIMBA_INFINITE) {
        pthread_cond_wait(&w->arrived, &w->lock);
        return;
    }
    until = sb_clock_deadline(at_ms - now_ms);
    pthread_cond_timedwait(&w->arrived, &w->lock, &until);
}

/* With the lock held: what there is to do now. Requests come before polls. False: nothing before
 * *ret_due_ms. */
static bool find_work(struct sb_sql_worker *w, int64_t now_ms, enum work *ret_work,
                      int64_t *ret_due_ms)
{
    int64_t due_ms = queue_due_ms(w);
    int64_t poll_ms = poll_due_ms(w);

    *ret_due_ms = due_ms < poll_ms ? due_ms : poll_ms;
    if (w->broken)
        *ret_work = WORK_REPAIR;
    else if (due_ms <= now_ms)
        *ret_work = WORK_REQUESTS;
    else if (w->stopping && w->pending.count == 0)
        *ret_work = WORK_END;
    else if (poll_ms <= now_ms)
        *ret_work = WORK_POLL;
    else
        return false;
    return true;
}

/* Waits for something to do, and for the connection to do it with. */
static enum work take(struct sb_sql_worker *w)
{
    enum work work = WORK_END;
    int64_t due_ms;

    pthread_mutex_lock(&w->lock);
    if (w->user == THREAD)
        w->user = NOBODY;
    for (;;) {
        int64_t now_ms = simba_now_ms();

        if (w->user == LOOP)
            due_ms = SIMBA_INFINITE;
        else if (find_work(w, now_ms, &work, &due_ms))
            break;
        wait_until(w, due_ms, now_ms);
    }
    if (work == WORK_REQUESTS)
        sb_sql_pending_take(&w->pending, &w->batch, w->stopping);
    SB_CHECK(w->user == NOBODY, "one user has the connection");
    w->broken = false;
    w->user = THREAD;
    pthread_mutex_unlock(&w->lock);
    return work;
}

/* Puts the jobs that met a lock back into the queue; false when memory is short. */
static bool take_back(struct sb_sql_worker *w, int64_t began_ms)
{
    bool kept;

    pthread_mutex_lock(&w->lock);
    kept = sb_sql_pending_add_blocked(&w->pending, &w->batch, simba_now_ms() - began_ms);
    pthread_mutex_unlock(&w->lock);
    return kept;
}

/* Whether the driver talks to a server, and waits for its answers. */
static bool has_server(const struct sb_sql_worker *w)
{
    return w->config.driver->run_all != NULL;
}

/* ---- Work ------------------------------------------------------------------------------------ */

/* The table may have been altered since the last connection. */
static void note_names(struct sb_sql_worker *w)
{
    const struct sb_sql_names names = sb_sql_names_of(w->session.repository.connection);

    pthread_mutex_lock(&w->lock);
    w->names = names;
    pthread_mutex_unlock(&w->lock);
}

int sb_sql_worker_check_names(struct sb_sql_worker *w, const char *mutex, const char *id,
                              struct simba_error *error)
{
    struct sb_sql_names names;

    pthread_mutex_lock(&w->lock);
    names = w->names;
    pthread_mutex_unlock(&w->lock);
    return sb_sql_names_check(&names, mutex, id, error);
}

static int attempt(struct sb_sql_worker *w, int64_t now_ms, struct sb_sql_failure *failure)
{
    const struct sb_sql_driver *driver = w->config.driver;
    int64_t deadline_ms = sb_sql_batch_deadline_ms(&w->batch);
    int64_t connect_ms = sb_max(deadline_ms - now_ms, has_server(w) ? CONNECT_MIN_MS : 0);
    int code = sb_sql_session_ensure(&w->session, connect_ms, failure);

    if (code != SIMBA_OK)
        return code;
    note_names(w);
    now_ms = simba_now_ms(); /* a new connection takes its time */
    if (driver->reads_first && deadline_ms > now_ms + READ_AGAIN_MS)
        deadline_ms = now_ms + READ_AGAIN_MS;
    if (has_server(w) && deadline_ms < now_ms + ANSWER_MIN_MS)
        deadline_ms = now_ms + ANSWER_MIN_MS;
    driver->set_deadline(w->session.repository.connection, deadline_ms);
    return sb_sql_batch_run(&w->batch, &w->session.repository, failure);
}

/* Late requests are told what went wrong before, if anything did. The sentence is made only for
 * them: it takes about as long as a statement of SQLite. */
static void expire(struct sb_sql_worker *w, int64_t now_ms, const struct simba_error *before,
                   bool blocked)
{
    struct simba_error late;

    if (sb_sql_batch_deadline_ms(&w->batch) > now_ms)
        return;
    late = *before;
    if (late.code == SIMBA_OK)
        sb_error_set(&late, SIMBA_EUNAVAILABLE,
                     blocked ? "the row or the table was locked by another client all the time"
                             : "the store did not get to it in time");
    sb_sql_batch_expire(&w->batch, now_ms, &late);
}

static void serve(struct sb_sql_worker *w)
{
    const struct simba_error none = {.code = SIMBA_OK};
    struct sb_sql_failure failure = {.error = none, .remedy = SB_SQL_GIVE_UP};
    int64_t began_ms = simba_now_ms();
    unsigned repairs = 0;
    bool blocked;

    SB_CHECK(w->user == THREAD, "the thread serves with the connection");
    SB_CHECK(w->batch.count > 0, "a batch that is served has jobs");
    blocked = w->batch.jobs[0].attempts > 0; /* the batch is of such, or of others */
    for (;;) {
        int64_t now_ms = simba_now_ms();

        expire(w, now_ms, &failure.error, blocked);
        if (sb_sql_batch_waiting(&w->batch) == 0)
            return;
        if (attempt(w, now_ms, &failure) == SIMBA_OK) {
            expire(w, simba_now_ms(), &none, true);
            if (take_back(w, began_ms))
                return;
            sb_error_plain(&failure.error, SIMBA_ENOMEM);
            break;
        }
        if (!sb_sql_session_repair(&w->session, &failure, repairs))
            break;
        if (failure.remedy != SB_SQL_RETRY)
            repairs++;
    }
    sb_sql_batch_fail(&w->batch, &failure.error);
}

/* A failure is not reported: the next request meets it, too, and reports it. */
static void poll_waiters(struct sb_sql_worker *w)
{
    struct sb_sql_connection *connection = w->session.repository.connection;
    struct sb_sql_failure failure;

    if (connection == NULL) {
        sb_sql_waiters_skip(w->config.waiters);
        return;
    }
    w->config.driver->set_deadline(connection, simba_now_ms() + w->config.wait_ms);
    if (sb_sql_waiters_poll(w->config.waiters, connection, &failure) != SIMBA_OK &&
        failure.remedy == SB_SQL_RECONNECT)
        sb_sql_session_drop(&w->session);
}

static void *run_thread(void *argument)
{
    struct sb_sql_worker *w = argument;
    enum work work;

    while ((work = take(w)) != WORK_END) {
        if (work == WORK_POLL)
            poll_waiters(w);
        else if (work == WORK_REPAIR)
            sb_sql_session_repair(&w->session, &w->failure, 0);
        else
            serve(w);
    }
    SB_CHECK(w->pending.count == 0, "the thread ends when the queue is empty");
    sb_sql_session_drop(&w->session);
    w->config.host->post(w->config.host, &w->last_task);
    return NULL;
}

/* ---- On the loop ----------------------------------------------------------------------------- */

/* Whether the loop has the connection now. Requests that came before must not be overtaken, and a
 * poll that is due needs the thread. */
static bool seize_connection(struct sb_sql_worker *w, int64_t now_ms)
{
    const struct sb_sql_connection *connection;
    bool seized;

    pthread_mutex_lock(&w->lock);
    connection = w->user == NOBODY ? w->session.repository.connection : NULL;
    seized = connection != NULL && !connection->outdated && w->pending.count == 0 && !w->broken &&
             !w->stopping && poll_due_ms(w) > now_ms;
    if (seized)
        w->user = LOOP;
    pthread_mutex_unlock(&w->lock);
    return seized;
}

/* The thread is called where it has something to do before it wakes by itself. */
static void yield_connection(struct sb_sql_worker *w)
{
    bool wanted;

    pthread_mutex_lock(&w->lock);
    SB_CHECK(w->user == LOOP, "the loop gives up a connection that it has");
    w->user = NOBODY;
    wanted = w->pending.count > 0 || w->broken || w->stopping || poll_due_ms(w) < w->wakes_at_ms;
    pthread_mutex_unlock(&w->lock);
    if (wanted)
        pthread_cond_signal(&w->arrived);
}

/* The thread carries out what the loop could not. */
static void leave_to_thread(struct sb_sql_worker *w)
{
    const struct sb_sql_job *job = &w->batch.jobs[0];
    struct sb_sql_pending_entry entry = {
        .request = job->request, .deadline_ms = job->deadline_ms, .attempts = job->blocked ? 1 : 0};
    struct simba_error error;
    bool kept;

    SB_CHECK(w->batch.count == 1, "the loop carries out one request");
    if (job->state != SB_SQL_JOB_WAITING)
        return;
    pthread_mutex_lock(&w->lock);
    kept = sb_sql_pending_add(&w->pending, &entry);
    pthread_mutex_unlock(&w->lock);
    if (kept)
        return;
    sb_error_plain(&error, SIMBA_ENOMEM);
    sb_sql_batch_fail(&w->batch, &error);
}

/* Repairs are left to the thread. */
static void run_batch(struct sb_sql_worker *w)
{
    struct sb_sql_connection *connection = w->session.repository.connection;
    int code;

    connection->loop = w->config.host->loop;
    connection->loop_until_ms = SIMBA_INFINITE;
    w->config.driver->set_deadline(connection,
                                   has_server(w) ? w->batch.jobs[0].deadline_ms : SB_SQL_AT_ONCE);
    code = sb_sql_batch_run(&w->batch, &w->session.repository, &w->failure);
    connection->loop = NULL;
    if (code == SIMBA_OK)
        return;
    pthread_mutex_lock(&w->lock);
    w->broken = w->failure.remedy == SB_SQL_RECONNECT;
    pthread_mutex_unlock(&w->lock);
}

/* Mostly there is none, and to ask takes a third of the time for which a signal is held back and
 * let go. */
static bool has_file_limit(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

/* A write past the limit for files, or with TLS to a socket that the server has closed, ends the
 * process, where it is not on a thread of the library. */
static void run_on_loop(struct sb_sql_worker *w)
{
    struct sb_signal_hold hold;

    if (has_server(w) || has_file_limit()) {
        sb_signal_hold(&hold, has_server(w) ? SIGPIPE : SIGXFSZ);
        run_batch(w);
        sb_signal_let_go(&hold);
    } else {
        run_batch(w);
    }
}

static void note_duration(struct sb_sql_worker *w, int64_t began_ms)
{
    int64_t now_ms = simba_now_ms();
    int64_t took_ms = now_ms - began_ms;

    if (took_ms >= SLOW_MS)
        w->thread_only_until_ms = now_ms + sb_earlier(took_ms * SLOW_SHARE, THREAD_ONLY_MAX_MS);
}

/* A renewal is none: it waits for others. */
static bool is_single(const struct simba_request *batch)
{
    return batch->next == NULL && (batch->op == SIMBA_OP_ACQUIRE || batch->op == SIMBA_OP_RELEASE ||
                                   batch->op == SIMBA_OP_READ);
}

/* Whether a slow store would keep nobody but the caller waiting. While a contender leads, the
 * application may read a status, and a contender that has stopped may release what came to it late;
 * neither may delay the leader's callbacks. If all requests went to the thread, a cycle would take
 * 2.7 times as long on SQLite, 1.4 times on a server of the same host. */
static bool delays_nobody(const struct sb_sql_worker *w, const struct simba_request *request)
{
    return w->listeners == 0 || request->delays_no_other;
}

/* False, and nothing has been done, where the request would have to wait. */
static bool try_on_loop(struct sb_sql_worker *w, struct simba_request *batch)
{
    int64_t now_ms = simba_now_ms();

    if (!is_single(batch) || !delays_nobody(w, batch) || now_ms < w->thread_only_until_ms ||
        !seize_connection(w, now_ms))
        return false;
    w->batch.count = 0;
    sb_sql_batch_add(&w->batch, batch, deadline_of(w, batch, now_ms), 0);
    run_on_loop(w);
    note_duration(w, now_ms);
    leave_to_thread(w);
    yield_connection(w);
    return true;
}

void sb_sql_worker_submit(struct sb_sql_worker *w, struct simba_request *batch)
{
    struct simba_request *rest = answer_void(w, batch);

    if (rest != NULL && !try_on_loop(w, rest))
        submit_to_thread(w, rest);
}

void sb_sql_worker_listen(struct sb_sql_worker *w, const char *mutex, const char *id, bool on)
{
    if (id == NULL && w->batch.places != NULL && w->config.driver->keeps_observers)
        sb_sql_places_observe(w->batch.places, mutex, on);
    SB_CHECK(on || w->listeners > 0, "a listener that leaves has come before");
    w->listeners = on ? w->listeners + 1 : w->listeners - 1;
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

static void free_worker(struct sb_sql_worker *w)
{
    pthread_cond_destroy(&w->arrived);
    pthread_mutex_destroy(&w->lock);
    sb_sql_pending_clear(&w->pending);
    sb_sql_places_destroy(w->batch.places);
    sb_free(w);
}

/* On the loop thread. The worker's has nothing left to do but to return, so this does not wait. */
static void finish_stop(struct simba_task *task)
{
    struct sb_sql_worker *w = SB_CONTAINER(struct sb_sql_worker, last_task, task);
    void (*stopped)(void *argument) = w->stopped;
    void *argument = w->argument;

    pthread_join(w->thread, NULL);
    SB_CHECK(w->stopping && w->pending.count == 0, "a worker that is gone has no requests");
    free_worker(w);
    stopped(argument);
}

void sb_sql_worker_stop(struct sb_sql_worker *w, void (*stopped)(void *argument), void *argument)
{
    w->stopped = stopped;
    w->argument = argument;
    pthread_mutex_lock(&w->lock);
    SB_CHECK(!w->stopping, "a worker is stopped once");
    w->stopping = true;
    pthread_mutex_unlock(&w->lock);
    pthread_cond_signal(&w->arrived);
}

static int connect_and_start(struct sb_sql_worker *w, struct simba_error *error)
{
    struct sb_sql_failure failure;
    int code = w->config.driver->connect(w->config.settings, w->config.connect_ms,
                                         &w->session.repository.connection, &failure);

    if (code != SIMBA_OK) {
        if (error != NULL)
            *error = failure.error;
        return code;
    }
    note_names(w);
    code = sb_thread_start(&w->thread, w->config.name, run_thread, w);
    if (code == 0)
        return SIMBA_OK;
    sb_sql_session_drop(&w->session);
    return sb_error_set_backend(error, SIMBA_ENOMEM, code, "cannot start a thread: %s",
                                strerror(code));
}

int sb_sql_worker_start(const struct sb_sql_worker_config *config,
                        struct sb_sql_worker **ret_worker, struct simba_error *error)
{
    struct sb_sql_worker *w = sb_alloc_zero(sizeof *w);
    pthread_condattr_t monotonic;
    int code;

    if (w == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    if (config->client != NULL) {
        w->batch.places = sb_sql_places_create(config->client);
        if (w->batch.places == NULL) {
            sb_free(w);
            return sb_error_plain(error, SIMBA_ENOMEM);
        }
    }
    w->config = *config;
    w->batch.host = config->host;
    w->batch.waiters = config->waiters;
    w->session = (struct sb_sql_session){.driver = config->driver,
                                         .settings = config->settings,
                                         .host = config->host,
                                         .name = config->name,
                                         .connect_ms = config->connect_ms,
                                         .random = sb_random_seed()};
    w->last_task.run = finish_stop;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->arrived, &monotonic);
    pthread_condattr_destroy(&monotonic);
    code = connect_and_start(w, error);
    if (code != SIMBA_OK) {
        free_worker(w);
        return code;
    }
    *ret_worker = w;
    return SIMBA_OK;
}
