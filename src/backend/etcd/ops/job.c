/*
 * job.c - the life of a job: its turn on a latch, its calls, its answer, its end. Must not know
 * operations.
 */
#include "backend/etcd/ops/ops.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/time.h"

#include <stddef.h>
#include <string.h>

#define DELAY_MS 500
#define STUCK_MS 1000 /* until a deletion that has failed is tried again */
#define ROUNDS_MAX 100
#define TTL_LEAST_PART 8 /* of the belief */
#define PERMITS 512
#define DOUBT_MS 15000 /* a server gives a request up after 5 s to 7 s, and may stand still */

/* Earlier than needed does no harm: store->due looks what is. */
void sb_etcd_wake_at(simba_backend *store, int64_t at_ms)
{
    if (at_ms >= store->timer_ms || store->closing)
        return;
    store->timer_ms = at_ms;
    uv_update_time(store->host->loop);
    uv_timer_start(&store->timer, store->due, (uint64_t)sb_time_left(at_ms, simba_now_ms()), 0);
}

void sb_etcd_sweep_at(simba_backend *store, int64_t at_ms)
{
    store->sweep_ms = sb_earlier(store->sweep_ms, at_ms);
    sb_etcd_wake_at(store, at_ms);
}

/* Takes a job out of a list by `queued`, and returns where it was. */
static struct sb_etcd_job **unqueue(struct sb_etcd_job **link, struct sb_etcd_job *job)
{
    while (*link != NULL && *link != job)
        link = &(*link)->queued;
    SB_CHECK(*link == job, "a job that waits is in its queue");
    *link = job->queued;
    job->queued = NULL;
    return link;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

void sb_etcd_job_queue(struct sb_etcd_job *job)
{
    struct sb_etcd_latch *latch = job->latch;
    struct sb_etcd_job **link;

    if (latch == NULL || latch->active == NULL) {
        if (latch != NULL)
            latch->active = job;
        job->store->begin(job);
        return;
    }
    SB_CHECK(latch->active != job && job->queued == NULL, "a job waits for one turn");
    for (link = &latch->queue; *link != NULL; link = &(*link)->queued)
        continue;
    *link = job;
}

/* Deletes what the contender left when it stopped, unless that was granted: a granted lease expires
 * by itself. */
static void pass_turn(simba_backend *store, struct sb_etcd_latch *latch)
{
    struct sb_etcd_job *next = latch->queue;
    bool must_go =
        latch->key != SB_ETCD_KEY_NONE && (latch->leaving || (latch->abandoned && !latch->granted));

    latch->active = NULL;
    if (next != NULL) {
        latch->queue = next->queued;
        next->queued = NULL;
        sb_etcd_job_queue(next);
    } else if (must_go && !latch->stuck && sb_etcd_link_is_up(&store->link) && !store->closing) {
        sb_etcd_job_withdraw(store, latch);
    } else {
        if (must_go)
            latch->withdraw_ms = sb_earlier(latch->withdraw_ms, simba_now_ms() + DELAY_MS);
        if (latch->withdraw_ms != SIMBA_INFINITE)
            sb_etcd_sweep_at(store, latch->withdraw_ms);
        sb_etcd_latch_drop(latch);
    }
}

void sb_etcd_job_leave_queue(struct sb_etcd_job *job)
{
    SB_CHECK(job->latch->active != job, "a job that has begun does not wait");
    unqueue(&job->latch->queue, job);
    job->latch = NULL; /* it never had its turn */
}

/* ---- Permits --------------------------------------------------------------------------------- */

bool sb_etcd_job_take_permit(struct sb_etcd_job *job, void (*step)(struct sb_etcd_job *job))
{
    simba_backend *store = job->store;

    if (!job->has_permit && store->permits_taken >= PERMITS) {
        job->wants_permit = true;
        job->step = step;
        if (store->waiting == NULL)
            store->waiting_end = &store->waiting;
        *store->waiting_end = job;
        store->waiting_end = &job->queued;
        return false;
    }
    store->permits_taken += !job->has_permit;
    job->has_permit = true;
    return true;
}

void sb_etcd_job_forgo_permit(struct sb_etcd_job *job)
{
    struct sb_etcd_job **link = unqueue(&job->store->waiting, job);

    if (*link == NULL)
        job->store->waiting_end = link;
    job->wants_permit = false;
}

/* A job that gets a permit may end at once, and so give it to the next: in this loop, not in calls
 * that grow deep. */
static void give_permits(simba_backend *store)
{
    if (store->giving_permits)
        return;
    store->giving_permits = true;
    while (store->waiting != NULL && store->permits_taken < PERMITS) {
        struct sb_etcd_job *job = store->waiting;

        sb_etcd_job_forgo_permit(job);
        job->step(job);
    }
    store->giving_permits = false;
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

struct sb_etcd_job *sb_etcd_job_create(simba_backend *store, struct sb_etcd_mutex *mutex,
                                       struct sb_etcd_latch *latch, size_t more_size)
{
    struct sb_etcd_job *job = sb_alloc_zero(sizeof *job + more_size);

    if (job == NULL)
        return NULL;
    job->more = job + 1;
    job->store = store;
    job->mutex = mutex;
    job->latch = latch;
    job->waiters = -1;
    job->deadline_ms = SIMBA_INFINITE;
    if (mutex != NULL)
        mutex->users++;
    job->next = store->jobs;
    job->back = &store->jobs;
    if (job->next != NULL)
        job->next->back = &job->next;
    store->jobs = job;
    return job;
}

struct sb_etcd_job *sb_etcd_job_for(simba_backend *store, struct simba_request *request,
                                    struct sb_etcd_mutex *mutex, struct sb_etcd_latch *latch,
                                    size_t more_size)
{
    struct sb_etcd_job *job = sb_etcd_job_create(store, mutex, latch, more_size);
    struct simba_reply reply = SIMBA_REPLY_INIT;

    if (job == NULL) {
        reply.code = SIMBA_ENOMEM;
        store->host->reply(store->host, request, &reply);
        return NULL;
    }
    job->request = request;
    job->op = request->op;
    job->revision = request->revision;
    job->ttl_ms = request->ttl_ms;
    job->transition_ms = request->transition_ms;
    job->deadline_ms = sb_later(simba_now_ms(), request->timeout_ms);
    sb_etcd_wake_at(store, job->deadline_ms);
    return job;
}

void sb_etcd_job_end(struct sb_etcd_job *job)
{
    simba_backend *store = job->store;
    struct sb_etcd_mutex *mutex = job->mutex;
    struct sb_etcd_latch *latch = job->latch;

    SB_CHECK(!job->calling && !job->wants_permit, "no call outlives its job");
    store->permits_taken -= job->has_permit;
    SB_CHECK(latch == NULL || latch->active == job, "a job ends while it has its turn");
    *job->back = job->next;
    if (job->next != NULL)
        job->next->back = job->back;
    if (job->call != NULL)
        sb_etcd_call_clear(job->call);
    sb_free(job->call);
    if (job->free_more != NULL)
        job->free_more(job->more);
    sb_free(job);
    if (latch != NULL)
        pass_turn(store, latch);
    if (mutex != NULL) {
        SB_CHECK(mutex->users > 0, "a mutex counts its jobs");
        mutex->users--;
        sb_etcd_mutex_drop(mutex);
    }
    give_permits(store);
}

/* If memory is short, the next sweep does it. */
void sb_etcd_job_withdraw(simba_backend *store, struct sb_etcd_latch *latch)
{
    struct sb_etcd_job *job = sb_etcd_job_create(store, latch->mutex, latch, 0);

    SB_CHECK(latch->active == NULL, "a withdrawal takes a free latch");
    latch->leaving = latch->key != SB_ETCD_KEY_NONE;
    if (job == NULL) {
        latch->withdraw_ms = simba_now_ms() + DELAY_MS;
        sb_etcd_sweep_at(store, latch->withdraw_ms);
        return;
    }
    sb_etcd_job_queue(job);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void on_ended(struct sb_etcd_call *call, const struct simba_error *error, bool maybe)
{
    struct sb_etcd_job *job = call->user;

    job->calling = false;
    if (error->code != SIMBA_OK && job->latch != NULL && sb_etcd_is_lease_gone(error))
        sb_etcd_lease_ask(job->latch->lease); /* its end is told by the answer */
    if (error->code != SIMBA_OK)
        sb_etcd_job_fail(job, error, maybe);
    else
        job->step(job);
}

/* The answer to a request that is over still has to be known, so a call has a limit of its own. */
static int64_t call_deadline(const struct sb_etcd_job *job)
{
    int64_t least_ms = simba_now_ms() + 2 * job->store->options.silence_ms;

    return job->deadline_ms == SIMBA_INFINITE ? least_ms : sb_max(job->deadline_ms, least_ms);
}

void sb_etcd_job_call(struct sb_etcd_job *job, const char *path, const ProtobufCMessage *message,
                      void (*step)(struct sb_etcd_job *job))
{
    struct sb_etcd_call *call = job->call != NULL ? job->call : sb_alloc_zero(sizeof *call);
    struct simba_error error;

    SB_CHECK(!job->calling, "a job makes one call at a time");
    job->call = call;
    job->step = step;
    job->sequence = sb_etcd_leases_sequence(&job->store->leases);
    if (call == NULL) {
        sb_error_plain(&error, SIMBA_ENOMEM);
        sb_etcd_job_fail(job, &error, false);
        return;
    }
    sb_etcd_call_clear(call);
    job->calling = true;
    sb_etcd_link_call(&job->store->link, call, path, message, call_deadline(job), on_ended, job);
}

void sb_etcd_job_txn(struct sb_etcd_job *job, void (*step)(struct sb_etcd_job *job))
{
    sb_etcd_job_call(job, "/etcdserverpb.KV/Txn", sb_etcd_txn_end(job->store->txn), step);
}

/* Its header is at that offset. */
static void *answer_to(struct sb_etcd_job *job, const ProtobufCMessageDescriptor *descriptor,
                       size_t header_at)
{
    void *answer = sb_etcd_call_unpack(job->call, descriptor);
    const Etcd__Header *header = NULL;

    if (answer != NULL)
        memcpy(&header, (char *)answer + header_at, sizeof header);
    if (!sb_etcd_is_header(header)) {
        sb_etcd_free_message(answer);
        sb_etcd_job_fail_nonsense(job);
        return NULL;
    }
    sb_etcd_leases_confirm(&job->store->leases, header, job->sequence);
    return answer;
}

Etcd__TxnAnswer *sb_etcd_job_txn_answer(struct sb_etcd_job *job)
{
    return answer_to(job, &etcd__txn_answer__descriptor, offsetof(Etcd__TxnAnswer, header));
}

Etcd__RangeAnswer *sb_etcd_job_range_answer(struct sb_etcd_job *job)
{
    return answer_to(job, &etcd__range_answer__descriptor, offsetof(Etcd__RangeAnswer, header));
}

void sb_etcd_job_await(struct sb_etcd_job *job, void (*step)(struct sb_etcd_job *job))
{
    job->step = step;
    job->awaits = job->latch->lease;
    sb_etcd_lease_ask(job->awaits); /* the job may be gone */
}

bool sb_etcd_job_again(struct sb_etcd_job *job)
{
    struct simba_error error;

    if (++job->rounds <= ROUNDS_MAX)
        return true;
    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the keys of \"%s\" on etcd change all the time",
                 job->mutex->name);
    sb_etcd_job_fail(job, &error, false);
    return false;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* How a lease of etcd is told. The library takes a margin off, which follows from the lease that
 * was asked for: so the margin is added to what the owner may believe.
 *
 *     proved_ms                    ttl                belief ends      the lease can end
 *        |--------------------------|----------------------|--- margin ---|
 */
struct told {
    int64_t belief_ms;
    int64_t ttl_ms;
    int64_t all_ms;
};

/* A lease that is too short takes from the ttl first: owners plan with the time for renewals behind
 * it. */
static struct told told_lease(const struct sb_etcd_job *job)
{
    int64_t asked_ms = sb_later(job->ttl_ms, job->transition_ms);
    int64_t margin_ms = simba_drift_margin_ms(asked_ms);
    int64_t granted_ms = job->latch->lease->ttl_ms;
    int64_t belief_ms = sb_earlier(asked_ms, granted_ms) - margin_ms;
    int64_t left_ms = belief_ms - (job->transition_ms - margin_ms);
    int64_t ttl_ms = sb_earlier(job->ttl_ms, sb_max(left_ms, belief_ms / TTL_LEAST_PART));

    return (struct told){belief_ms, ttl_ms, belief_ms + margin_ms};
}

struct simba_reply sb_etcd_failed(const struct simba_error *error)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    reply.code = error->code;
    reply.error = error;
    return reply;
}

void sb_etcd_job_reply(struct sb_etcd_job *job, const struct simba_reply *reply)
{
    const struct simba_backend_host *host = job->store->host;
    struct simba_request *request = job->request;

    job->request = NULL;
    job->deadline_ms = SIMBA_INFINITE;
    if (request != NULL)
        host->reply(host, request, reply);
}

void sb_etcd_job_answer(struct sb_etcd_job *job, struct simba_reply *reply)
{
    reply->waiters = job->waiters;
    reply->missed = job->missed;
    sb_etcd_job_reply(job, reply);
    sb_etcd_job_end(job);
}

/* The entry goes when its contender is not heard of for a lease. */
void sb_etcd_job_answer_mine(struct sb_etcd_job *job)
{
    struct sb_etcd_latch *latch = job->latch;
    const struct sb_etcd_lease *lease = latch->lease;
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct told told = told_lease(job);
    bool asked = job->op == SIMBA_OP_ACQUIRE || job->op == SIMBA_OP_GUARD;
    struct simba_error error;

    SB_CHECK(latch->key == SB_ETCD_KEY_THERE, "an owner has a key");
    if (asked && job->request != NULL && simba_now_ms() >= lease->proved_ms + told.belief_ms) {
        sb_error_set(&error, SIMBA_EUNAVAILABLE, "etcd has not yet proved that the lease lives");
        sb_etcd_job_fail(job, &error, false);
        return;
    }
    if (job->request == NULL)
        latch->withdraw_ms = simba_now_ms() + lease->ttl_ms;
    else if (asked)
        latch->withdraw_ms = sb_later(lease->proved_ms, sb_max(told.all_ms, lease->ttl_ms));
    if (job->request != NULL && job->op == SIMBA_OP_ACQUIRE)
        latch->granted = true;
    reply.owner = latch->id;
    reply.ttl_left_ms = told.ttl_ms;
    reply.transition_left_ms = told.all_ms;
    reply.revision = latch->granted ? latch->fence : (uint64_t)latch->created;
    reply.fence = reply.revision;
    reply.as_of_ms = sb_max(lease->proved_ms, 1);
    sb_etcd_job_answer(job, &reply);
}

/* A contender that listens may wait without a limit; one that does not listen may never come
 * back. */
static void keep_waiting(struct sb_etcd_job *job)
{
    struct sb_etcd_latch *latch = job->latch;

    if (latch == NULL || latch->key == SB_ETCD_KEY_NONE || latch->granted)
        return;
    if (latch->listening && job->op == SIMBA_OP_ACQUIRE)
        latch->withdraw_ms = SIMBA_INFINITE;
    else if (!latch->listening &&
             (job->op == SIMBA_OP_ACQUIRE || latch->withdraw_ms == SIMBA_INFINITE))
        latch->withdraw_ms = simba_now_ms() + latch->lease->ttl_ms;
}

/* The first key has this contender's id, but belongs to another client: one that has ended, or one
 * by mistake. The reply would look like a lease of its own, so it says, after a delay, that nobody
 * owns: the contender then asks again soon. */
static void delay(struct sb_etcd_job *job)
{
    int64_t now_ms = simba_now_ms();

    job->waiters = -1;
    if (job->op != SIMBA_OP_ACQUIRE || job->request == NULL) {
        sb_etcd_job_answer_nobody(job);
        return;
    }
    job->delayed = true;
    job->deadline_ms = now_ms + sb_earlier(DELAY_MS, sb_time_left(job->deadline_ms, now_ms) / 2);
    sb_etcd_wake_at(job->store, job->deadline_ms);
}

/* A contender is told the length of a lease, so that it asks again when every wake-up is lost. An
 * observer is told no end: there is none. The token of another's term is not known. */
void sb_etcd_job_answer_other(struct sb_etcd_job *job, const char *owner, uint64_t revision)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;
    int64_t lease_ms = sb_max(job->store->options.lease_ms, 2000);

    keep_waiting(job);
    if (job->request != NULL && job->request->id != NULL && strcmp(job->request->id, owner) == 0 &&
        job->op != SIMBA_OP_RELEASE) {
        delay(job);
        return;
    }
    reply.owner = owner;
    reply.place = sb_max(job->place, 0);
    reply.revision = revision;
    reply.ttl_left_ms = job->op == SIMBA_OP_READ ? SIMBA_INFINITE : lease_ms / 2;
    reply.transition_left_ms = job->op == SIMBA_OP_READ ? SIMBA_INFINITE : lease_ms;
    sb_etcd_job_answer(job, &reply);
}

void sb_etcd_job_answer_nobody(struct sb_etcd_job *job)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;

    sb_etcd_job_answer(job, &reply);
}

/* The latch may be the first from now on, so its key is deleted if the contender is not heard
 * of. */
void sb_etcd_before_gone(struct sb_etcd_latch *latch)
{
    simba_backend *store = latch->mutex->store;

    latch->before = 0;
    sb_etcd_unwatch(&store->watches, &latch->watcher);
    if (!latch->granted && !latch->leaving && latch->key != SB_ETCD_KEY_NONE) {
        latch->withdraw_ms = simba_now_ms() + latch->lease->ttl_ms;
        sb_etcd_sweep_at(store, latch->withdraw_ms);
    }
    store->host->notice(store->host, SIMBA_NOTICE_RELEASED, latch->mutex->name, latch->id);
    if (latch->active != NULL && latch->active->delayed)
        sb_etcd_job_answer_nobody(latch->active);
}

/* The contender may ask again for as long as its lease could last, with the latch out of use. */
void sb_etcd_job_note_untold(struct sb_etcd_job *job)
{
    struct sb_etcd_latch *latch = job->latch;

    if (!latch->granted)
        return;
    latch->untold_release = latch->fence;
    latch->untold_until_ms = simba_now_ms() + latch->lease->ttl_ms;
    sb_etcd_sweep_at(job->store, latch->untold_until_ms);
}

/* After a creation that may come later the key may be there now, or from then on. */
void sb_etcd_job_fail(struct sb_etcd_job *job, const struct simba_error *error, bool maybe)
{
    struct simba_error told = *error;
    struct simba_reply reply;
    struct sb_etcd_latch *latch = job->latch;

    if (maybe && job->creates) {
        latch->key = SB_ETCD_KEY_UNSURE;
        latch->doubt_until_ms = simba_now_ms() + DOUBT_MS;
        sb_etcd_sweep_at(job->store, simba_now_ms() + DELAY_MS);
    }
    if (latch != NULL && latch->leaving) {
        if (maybe)
            sb_etcd_job_note_untold(job);
        latch->stuck = true;
        latch->withdraw_ms = simba_now_ms() + STUCK_MS;
    }
    if (job->op == SIMBA_OP_READ && job->request == NULL && latch != NULL && !job->store->closing)
        sb_etcd_before_gone(latch); /* see sb_etcd_look_before */
    keep_waiting(job);
    if (maybe && job->writes)
        told.code = SIMBA_EUNKNOWN;
    else if (sb_etcd_is_lease_gone(error))
        told.code = SIMBA_EUNAVAILABLE;
    reply = sb_etcd_failed(&told);
    sb_etcd_job_reply(job, &reply);
    sb_etcd_job_end(job);
}

void sb_etcd_job_fail_nonsense(struct sb_etcd_job *job)
{
    struct simba_error error;

    sb_error_set(&error, SIMBA_ESTORE, "the answer of etcd cannot be understood");
    sb_etcd_job_fail(job, &error, true);
}
