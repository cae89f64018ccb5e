/*
 * look.c - which key is the first, and which contender leads. Reads only, but for the watches that
 * it leaves.
 *
 * A waiter watches the key that was created before its own. What happened before the look is in the
 * look. When the watch has begun, the waiter reads that key once more.
 */
#include "backend/etcd/ops/ops.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/time.h"

#include <string.h>

#define PLACE_MAX 101 /* as on other stores: the place of all that are further behind */

/* ---- Watches --------------------------------------------------------------------------------- */

/* Its contender may have made another key of that name meanwhile. */
static void on_before_read(struct sb_etcd_job *job)
{
    Etcd__RangeAnswer *answer = sb_etcd_job_range_answer(job);

    if (answer == NULL)
        return;
    if (answer->n_kvs == 0 || answer->kvs[0]->create_revision != job->latch->before)
        sb_etcd_before_gone(job->latch);
    sb_etcd_free_message(answer);
    sb_etcd_job_end(job);
}

void sb_etcd_look_before(struct sb_etcd_job *job)
{
    struct sb_etcd_range range;

    if (job->latch->watcher == NULL) {
        sb_etcd_job_end(job);
        return;
    }
    if (!sb_etcd_job_take_permit(job, sb_etcd_look_before))
        return;
    sb_etcd_range_key(&range, job->latch->watcher->key);
    sb_etcd_job_call(job, "/etcdserverpb.KV/Range", &range.message.base, on_before_read);
}

static void on_before_changed(void *user, const struct sb_etcd_watch_event *event)
{
    struct sb_etcd_latch *latch = user;
    struct sb_etcd_job *job = NULL;

    if (event->change == SB_ETCD_MISSED)
        job = sb_etcd_job_create(latch->mutex->store, latch->mutex, latch, 0);
    if (job == NULL) {
        sb_etcd_before_gone(latch);
        return;
    }
    job->op = SIMBA_OP_READ;
    sb_etcd_job_queue(job);
}

/* Others may name their keys as they like: one that cannot be watched is asked for when the lease
 * that the contender is told of ends. */
static void watch_before(struct sb_etcd_job *job, const Etcd__KeyValue *before)
{
    struct sb_etcd_latch *latch = job->latch;
    struct sb_etcd_watches *watches = &job->store->watches;
    char key[SB_ETCD_KEY_SIZE];

    if (latch->before == before->create_revision)
        return;
    sb_etcd_unwatch(watches, &latch->watcher);
    if (sb_etcd_key_text(key, before->key.data, before->key.len))
        latch->watcher = sb_etcd_watch(watches, key, on_before_changed, latch);
    latch->before = latch->watcher != NULL ? before->create_revision : 0;
}

/* Observers care for the first key only, and for any where there was none. */
static void on_folder_changed(void *user, const struct sb_etcd_watch_event *event)
{
    struct sb_etcd_mutex *mutex = user;
    const struct simba_backend_host *host = mutex->store->host;
    bool is_mere_waiter = (event->change == SB_ETCD_PUT && mutex->owner_lease != 0) ||
                          (event->change == SB_ETCD_DELETED && mutex->owner_lease != event->lease);

    mutex->event_revision = sb_max(mutex->event_revision, event->revision);
    if (!is_mere_waiter)
        host->notice(host, SIMBA_NOTICE_CHANGED, mutex->name, NULL);
}

static void watch_folder(struct sb_etcd_mutex *mutex)
{
    simba_backend *store = mutex->store;
    char folder[SB_ETCD_KEY_SIZE];

    if (mutex->observers == 0 || mutex->watcher != NULL)
        return;
    sb_etcd_folder(folder, store->options.prefix, mutex->name);
    mutex->watcher = sb_etcd_watch(&store->watches, folder, on_folder_changed, mutex);
}

/* ---- The first key --------------------------------------------------------------------------- */

static bool is_mine(const struct sb_etcd_job *job, const Etcd__KeyValue *kv)
{
    const struct sb_etcd_latch *latch = job->latch;

    return latch != NULL && latch->key == SB_ETCD_KEY_THERE && latch->lease->id != 0 &&
           kv->lease == latch->lease->id && kv->create_revision == latch->created;
}

/* A term begins with the revision at which its owner saw that it is the first. That is larger than
 * every revision at which an earlier owner still had its key. */
static void take_mine(struct sb_etcd_job *job, int64_t revision)
{
    struct sb_etcd_latch *latch = job->latch;

    if (!latch->granted && job->op == SIMBA_OP_ACQUIRE)
        latch->fence = (uint64_t)revision;
    sb_etcd_unwatch(&job->store->watches, &latch->watcher);
    latch->before = 0;
    sb_etcd_job_answer_mine(job);
}

/* An event may come before an answer that is older, and was judged by the owner before that. The
 * look that follows is newer than both, whatever revision a server makes up. */
static void note_owner(struct sb_etcd_mutex *mutex, int64_t lease, int64_t revision)
{
    const struct simba_backend_host *host = mutex->store->host;

    mutex->owner_lease = lease;
    if (mutex->watcher == NULL || mutex->event_revision <= revision)
        return;
    mutex->event_revision = 0;
    host->notice(host, SIMBA_NOTICE_CHANGED, mutex->name, NULL);
}

void sb_etcd_look_decide(struct sb_etcd_job *job, const Etcd__RangeAnswer *first,
                         const Etcd__KeyValue *before, int64_t place, int64_t revision)
{
    const Etcd__KeyValue *kv = first->n_kvs > 0 ? first->kvs[0] : NULL;
    char owner[SIMBA_ID_MAX + 1];

    note_owner(job->mutex, kv != NULL ? kv->lease : 0, revision);
    job->waiters = first->count > 0 ? first->count - 1 : 0;
    job->place = place;
    watch_folder(job->mutex);
    if (kv == NULL) {
        sb_etcd_job_answer_nobody(job);
        return;
    }
    if (is_mine(job, kv)) {
        take_mine(job, revision);
        return;
    }
    if (job->other != NULL && job->other(job, kv))
        return;
    if (before != NULL && job->op == SIMBA_OP_ACQUIRE)
        watch_before(job, before);
    sb_etcd_id_of(owner, kv->value.data, kv->value.len, kv->lease);
    sb_etcd_job_answer_other(job, owner, (uint64_t)kv->create_revision);
}

/* ---- The look -------------------------------------------------------------------------------- */

static void on_looked_at_all(struct sb_etcd_job *job)
{
    Etcd__RangeAnswer *answer = sb_etcd_job_range_answer(job);

    if (answer != NULL)
        sb_etcd_look_decide(job, answer, NULL, 0, answer->header->revision);
    sb_etcd_free_message(answer);
}

static void look_at_all(struct sb_etcd_job *job)
{
    struct sb_etcd_range range;

    sb_etcd_range_first(&range, job->store->options.prefix, job->mutex->name);
    job->writes = job->creates = false;
    sb_etcd_job_call(job, "/etcdserverpb.KV/Range", &range.message.base, on_looked_at_all);
}

/* A key that has gone: another client deleted it, or the lease has ended and the keep-alive will
 * tell. */
static void on_looked(struct sb_etcd_job *job)
{
    Etcd__TxnAnswer *answer = sb_etcd_job_txn_answer(job);
    const Etcd__RangeAnswer *first = sb_etcd_txn_range(answer, 0);
    const Etcd__RangeAnswer *before = sb_etcd_txn_range(answer, 1);

    if (answer == NULL)
        return;
    if (first == NULL || before == NULL) {
        sb_etcd_job_fail_nonsense(job);
    } else if (answer->succeeded) {
        sb_etcd_look_decide(job, first, before->n_kvs > 0 ? before->kvs[0] : NULL,
                            (int64_t)before->n_kvs, answer->header->revision);
    } else {
        if (job->latch->key == SB_ETCD_KEY_THERE)
            sb_etcd_latch_forget(job->latch);
        if (job->then != NULL && sb_etcd_job_again(job))
            job->then(job);
        else if (job->then == NULL)
            sb_etcd_look_decide(job, first, NULL, 0, answer->header->revision);
    }
    sb_etcd_free_message(answer);
}

/* In both branches: what is there now. The keys before mine are counted up to a bound. */
static void ask_for_place(struct sb_etcd_branch *branch, const struct sb_etcd_latch *latch,
                          bool wants_place)
{
    const char *prefix = latch->mutex->store->options.prefix;
    const char *mutex = latch->mutex->name;

    sb_etcd_range_first(sb_etcd_branch_range(branch), prefix, mutex);
    sb_etcd_range_last(sb_etcd_branch_range(branch), prefix, mutex, latch->created - 1,
                       wants_place ? PLACE_MAX : 1);
}

void sb_etcd_look(struct sb_etcd_job *job)
{
    struct sb_etcd_latch *latch = job->latch;
    struct sb_etcd_txn *txn = job->store->txn;
    bool wants_place = job->request != NULL && job->request->asks_place;
    char key[SB_ETCD_KEY_SIZE];

    if (latch != NULL && latch->key != SB_ETCD_KEY_NONE && latch->lease->id == 0)
        sb_etcd_latch_forget(latch);
    if (latch == NULL || latch->key != SB_ETCD_KEY_THERE) {
        look_at_all(job);
        return;
    }
    SB_CHECK(latch->created > 1, "a key has a revision");
    sb_etcd_latch_key(key, latch);
    sb_etcd_txn_begin(txn);
    sb_etcd_txn_if(txn, key, latch->created);
    ask_for_place(&txn->then, latch, wants_place);
    ask_for_place(&txn->other, latch, false);
    job->writes = job->creates = false;
    sb_etcd_job_txn(job, on_looked);
}
