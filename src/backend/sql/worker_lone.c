/*
 * worker_lone.c - a request that comes alone, on the loop. Owns what becomes of it there; must not know
 * statements.
 *
 *     a server       a flight: the loop sends it, and takes in the answer when it comes
 *     a local file   carried out before the loop goes on, where the caller says that the loop may wait for the disk
 *
 * Nobody else's lock is waited for. After a disk was slow its requests are left to the thread for a while: then a
 * time limit is missed by one slow commit, and not by each.
 */
#include "backend/sql/rows.h"
#include "backend/sql/worker_parts.h"
#include "base/error.h"
#include "base/signals.h"

#include <sys/resource.h>

#define SLOW_MS 50     /* longer than a busy machine takes a core away for */
#define SLOW_SHARE 100 /* one part in so many of the loop's time may go by in slow requests */
#define THREAD_ONLY_MAX_MS 60000

/* ---- The connection ------------------------------------------------------------------------- */

/* Whether the loop has the connection now. Requests that came before must not be overtaken, and a look that is
 * due needs a turn of the thread. */
static bool seize_connection(struct sb_worker *w, int64_t now_ms)
{
    bool seized;

    pthread_mutex_lock(&w->lock);
    seized = w->user == NOBODY && w->queue.count == 0 && !w->broken && !w->stopping &&
             w->link.repository.connection != NULL &&
             !w->link.repository.connection->needs_thread &&
             !w->link.repository.connection->outdated && sb_worker_look_due_ms(w) > now_ms;
    if (seized)
        w->user = LOOP;
    pthread_mutex_unlock(&w->lock);
    return seized;
}

/* With the lock held. Whether the thread has something to do before it wakes by itself. */
static bool is_thread_wanted(const struct sb_worker *w)
{
    return w->queue.count > 0 || w->broken || w->stopping ||
           sb_worker_look_due_ms(w) < w->wakes_at_ms;
}

static void yield_connection(struct sb_worker *w)
{
    bool wanted;

    pthread_mutex_lock(&w->lock);
    w->user = NOBODY;
    wanted = is_thread_wanted(w);
    pthread_mutex_unlock(&w->lock);
    if (wanted)
        pthread_cond_signal(&w->arrived);
}

/* ---- The way -------------------------------------------------------------------------------- */

/* The thread goes on with it; false when memory is short. */
static bool leave_to_thread(struct sb_worker *w)
{
    const struct sb_job *job = &w->batch.jobs[0];
    struct sb_queue_entry entry = {.request = job->request, .deadline_ms = job->deadline_ms};
    bool kept;

    if (job->blocked)
        return sb_worker_take_back(w, w->lone_began_ms);
    pthread_mutex_lock(&w->lock);
    kept = sb_queue_add(&w->queue, &entry);
    pthread_mutex_unlock(&w->lock);
    return kept;
}

/* The loop can do no more for it. */
static void finish(struct sb_worker *w)
{
    struct simba_error error;

    if (w->batch.jobs[0].state == SB_JOB_WAITING && !leave_to_thread(w)) {
        sb_error_plain(&error, SIMBA_ENOMEM);
        sb_batch_fail(&w->batch, &error);
    }
    yield_connection(w);
}

/* Whatever can be healed is left to the thread. */
static void note_failure(struct sb_worker *w, const struct sb_sql_failure *failure)
{
    w->failure = *failure;
    pthread_mutex_lock(&w->lock);
    w->broken = failure->remedy == SB_SQL_RECONNECT;
    pthread_mutex_unlock(&w->lock);
}

/* ---- On a server ---------------------------------------------------------------------------- */

static void run_item(struct sb_worker *w, struct sb_sql_item *item)
{
    int64_t deadline_ms = w->batch.jobs[0].deadline_ms;

    if (item == NULL) {
        finish(w);
        return;
    }
    if (deadline_ms < simba_now_ms() + SB_WORKER_ANSWER_MIN_MS)
        deadline_ms = simba_now_ms() + SB_WORKER_ANSWER_MIN_MS;
    sb_flight_start(w->flight, w->link.repository.connection, item, deadline_ms);
}

/* A request that has met a lock learns next whether it matters. */
static bool has_met_lock(const struct sb_job *job, const struct sb_sql_failure *failure)
{
    return failure->remedy == SB_SQL_RETRY && failure->error.code != SIMBA_EUNKNOWN &&
           job->item.statement != SB_SQL_SELECT;
}

static void on_landed(void *user, int code, struct sb_sql_failure *failure)
{
    struct sb_worker *w = user;
    struct sb_job *job = &w->batch.jobs[0];

    if (code == SIMBA_OK || has_met_lock(job, failure)) {
        run_item(w, sb_rows_next(&w->batch, &w->link.repository));
        return;
    }
    if (code == SIMBA_EUNKNOWN || failure->remedy == SB_SQL_GIVE_UP)
        sb_batch_refuse(&w->batch, job, &failure->error);
    note_failure(w, failure);
    finish(w);
}

/* The server has closed a connection that nobody uses: its next user finds out. */
static void on_stirred(void *user)
{
    struct sb_worker *w = user;

    pthread_mutex_lock(&w->lock);
    if (w->user == NOBODY)
        sb_flight_disarm(w->flight);
    pthread_mutex_unlock(&w->lock);
}

static void make_flight(struct sb_worker *w)
{
    const struct sb_flight_config config = {w->config.host, on_landed, on_stirred, w};
    struct sb_flight *flight = sb_flight_create(&config);

    pthread_mutex_lock(&w->lock);
    w->flight = flight;
    pthread_mutex_unlock(&w->lock);
}

/* ---- On a file ------------------------------------------------------------------------------ */

static void note_duration(struct sb_worker *w)
{
    int64_t now_ms = simba_now_ms();
    int64_t took_ms = now_ms - w->lone_began_ms;
    int64_t pause_ms = took_ms * SLOW_SHARE;

    if (took_ms >= SLOW_MS)
        w->thread_only_until_ms =
            now_ms + (pause_ms < THREAD_ONLY_MAX_MS ? pause_ms : THREAD_ONLY_MAX_MS);
}

static void run_batch(struct sb_worker *w)
{
    struct sb_sql_failure failure;

    w->config.driver->set_deadline(w->link.repository.connection, SB_SQL_AT_ONCE);
    if (sb_batch_run(&w->batch, &w->link.repository, &failure) != SIMBA_OK)
        note_failure(w, &failure);
}

/* Mostly there is none, and to ask takes a third of the time for which a signal is held back and let go. */
static bool has_file_limit(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

/* Past the limit for files a write ends the process, where it is not on a thread of the library. */
static void run_now(struct sb_worker *w)
{
    struct sb_signal_hold hold;

    if (has_file_limit()) {
        sb_signal_hold(&hold, SIGXFSZ);
        run_batch(w);
        sb_signal_let_go(&hold);
    } else {
        run_batch(w);
    }
    note_duration(w);
    finish(w);
}

/* ---- The whole ------------------------------------------------------------------------------ */

/* Those that nobody else would go along with: renewals wait for company. */
static bool is_lone(const struct simba_request *batch)
{
    return batch->next == NULL && (batch->op == SIMBA_OP_ACQUIRE || batch->op == SIMBA_OP_RELEASE ||
                                   batch->op == SIMBA_OP_READ);
}

static bool has_flight(struct sb_worker *w)
{
    if (w->config.driver->start != NULL && w->flight == NULL)
        make_flight(w);
    return w->flight != NULL;
}

static void begin(struct sb_worker *w, struct simba_request *request, int64_t now_ms)
{
    w->lone_began_ms = now_ms;
    w->batch.count = 0;
    sb_batch_add(&w->batch, request, sb_worker_deadline_ms(w, request, now_ms));
}

bool sb_worker_fly(struct sb_worker *w, struct simba_request *batch)
{
    int64_t now_ms = simba_now_ms();

    if (!is_lone(batch) || !has_flight(w) || !seize_connection(w, now_ms))
        return false;
    begin(w, batch, now_ms);
    run_item(w, sb_rows_first(&w->batch, &w->link.repository));
    return true;
}

bool sb_worker_try_now(struct sb_worker *w, struct simba_request *batch)
{
    int64_t now_ms = simba_now_ms();

    if (!is_lone(batch) || now_ms < w->thread_only_until_ms || !seize_connection(w, now_ms))
        return false;
    begin(w, batch, now_ms);
    run_now(w);
    return true;
}
