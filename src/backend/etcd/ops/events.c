/*
 * events.c - what the timer, the link and the leases mean to latches and jobs.
 */
#include "backend/etcd/ops/ops.h"

#include "base/time.h"

#include <string.h>

/* ---- Time ------------------------------------------------------------------------------------ */

#define DOUBT_PAUSE_MS 2000

/* In doubt there may be a key at any time; see latch.h. As long as there is one no other is made,
 * so the search is due again when it has gone. */
static void keep_doubting(struct sb_etcd_latch *latch, int64_t now_ms)
{
    if (latch->doubt_until_ms > now_ms)
        sb_etcd_sweep_at(latch->mutex->store,
                         sb_earlier(latch->doubt_until_ms, now_ms + DOUBT_PAUSE_MS));
    else if (latch->key != SB_ETCD_KEY_NONE)
        latch->doubt_until_ms = 0;
}

static void sweep_doubt(struct sb_etcd_latch *latch, int64_t now_ms)
{
    if (latch->lease->id == 0 || latch->doubt_until_ms <= now_ms)
        latch->doubt_until_ms = 0;
    if (latch->key == SB_ETCD_KEY_NONE && latch->active == NULL && latch->lease->id != 0)
        sb_etcd_job_withdraw(latch->mutex->store, latch);
    else
        sb_etcd_latch_drop(latch);
}

static void sweep_untold(struct sb_etcd_latch *latch, int64_t now_ms)
{
    if (latch->untold_until_ms <= now_ms)
        latch->untold_release = 0;
    else
        sb_etcd_sweep_at(latch->mutex->store, latch->untold_until_ms);
}

static void sweep_latch(void *argument, struct sb_etcd_latch *latch)
{
    simba_backend *store = latch->mutex->store;
    int64_t now_ms = *(const int64_t *)argument;
    bool up = sb_etcd_link_is_up(&store->link);
    bool due = latch->key != SB_ETCD_KEY_NONE && latch->withdraw_ms <= now_ms;

    if (latch->untold_release != 0)
        sweep_untold(latch, now_ms);
    if (latch->doubt_until_ms != 0)
        keep_doubting(latch, now_ms);
    if (due && latch->active == NULL && up)
        sb_etcd_job_withdraw(store, latch);
    else if (due)
        sb_etcd_sweep_at(store, now_ms + DOUBT_PAUSE_MS);
    else if (latch->key != SB_ETCD_KEY_NONE && latch->withdraw_ms != SIMBA_INFINITE)
        sb_etcd_sweep_at(store, latch->withdraw_ms);
    else if (latch->doubt_until_ms != 0 && up)
        sweep_doubt(latch, now_ms);
    else if (latch->doubt_until_ms != 0)
        sb_etcd_sweep_at(store, now_ms + DOUBT_PAUSE_MS);
    else
        sb_etcd_latch_drop(latch);
}

static void expire_jobs(simba_backend *store, int64_t now_ms)
{
    struct sb_etcd_job *job = store->jobs;

    while (job != NULL) {
        bool due = job->deadline_ms <= now_ms;

        if (due)
            sb_etcd_request_expire(job);
        job = due ? store->jobs : job->next; /* an answer may start jobs and end others */
    }
    for (job = store->jobs; job != NULL; job = job->next)
        sb_etcd_wake_at(store, job->deadline_ms);
}

void sb_etcd_on_timer(uv_timer_t *timer)
{
    simba_backend *store = timer->data;
    int64_t now_ms = simba_now_ms();

    store->timer_ms = SIMBA_INFINITE;
    sb_etcd_link_begin_batch(&store->link);
    expire_jobs(store, now_ms);
    if (store->sweep_ms <= now_ms) {
        store->sweep_ms = SIMBA_INFINITE;
        sb_etcd_latches_each(store, sweep_latch, &now_ms);
    }
    sb_etcd_wake_at(store, store->sweep_ms);
    sb_etcd_wake_at(store, sb_etcd_leases_tend(&store->leases));
    sb_etcd_wake_at(store, sb_etcd_watches_tend(&store->watches));
    sb_etcd_guards_send(store);
    sb_etcd_link_end_batch(&store->link);
}

/* ---- The connection -------------------------------------------------------------------------- */

/* Does what could not be done meanwhile. */
static void catch_up(void *argument, struct sb_etcd_latch *latch)
{
    int64_t now_ms = *(const int64_t *)argument;

    if (latch->key != SB_ETCD_KEY_NONE && latch->active == NULL &&
        (latch->leaving || (latch->abandoned && !latch->granted) || latch->withdraw_ms <= now_ms))
        sb_etcd_job_withdraw(latch->mutex->store, latch);
}

void sb_etcd_on_up(void *user)
{
    simba_backend *store = user;
    int64_t now_ms = simba_now_ms();

    if (store->closing)
        return; /* what is given back goes by itself */
    store->leases.restart_ms = 0;
    store->watches.restart_ms = 0;
    sb_etcd_wake_at(store, sb_etcd_leases_tend(&store->leases));
    sb_etcd_wake_at(store, sb_etcd_watches_tend(&store->watches));
    sb_etcd_latches_each(store, catch_up, &now_ms);
    store->host->notice(store->host, SIMBA_NOTICE_RELEASED, NULL, NULL);
    store->host->notice(store->host, SIMBA_NOTICE_CHANGED, NULL, NULL);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

/* A contender that has another lease for this mutex is no owner, so it loses nothing but time. */
static void lose_latch(void *argument, struct sb_etcd_latch *latch)
{
    const struct sb_etcd_lease *lease = argument;
    const struct simba_backend_host *host = latch->mutex->store->host;

    if (latch->lease != lease || latch->key == SB_ETCD_KEY_NONE)
        return;
    if (latch->granted)
        host->session_lost(host, latch->mutex->name);
    else
        host->notice(host, SIMBA_NOTICE_RELEASED, latch->mutex->name, latch->id);
    latch->doubt_until_ms = 0;
    sb_etcd_latch_forget(latch);
    sb_etcd_latch_drop(latch);
}

/* Those that wait for the lease go on. They are marked first: one that goes on may wait again, and
 * may end others. */
static void go_on(simba_backend *store, const struct sb_etcd_lease *lease,
                  const struct simba_error *error)
{
    struct sb_etcd_job *job;

    for (job = store->jobs; job != NULL; job = job->next)
        job->goes_on |= job->awaits == lease;
    for (;;) {
        for (job = store->jobs; job != NULL && (!job->goes_on || job->awaits != lease);)
            job = job->next;
        if (job == NULL)
            return;
        job->goes_on = false;
        job->awaits = NULL;
        if (error != NULL)
            sb_etcd_job_fail(job, error, false);
        else
            job->step(job);
    }
}

void sb_etcd_on_lease(void *user, struct sb_etcd_lease *lease, enum sb_etcd_lease_event event,
                      const struct simba_error *error)
{
    simba_backend *store = user;

    if (store->closing)
        return;
    sb_etcd_link_begin_batch(&store->link);
    if (event == SB_ETCD_LEASE_LOST) {
        store->host->log(store->host, SIMBA_LOG_WARN, "etcd: %s", error->text);
        sb_etcd_latches_each(store, lose_latch, lease);
    }
    go_on(store, lease, event == SB_ETCD_LEASE_ANSWERED ? NULL : error);
    sb_etcd_guards_send(store);
    sb_etcd_wake_at(store, sb_etcd_leases_tend(&store->leases));
    sb_etcd_link_end_batch(&store->link);
}
