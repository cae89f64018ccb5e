/*
 * acquire.c - joins the queue, and asks whether its key is the first.
 *
 * A contender that was told that it owns and asks again has lost its belief meanwhile, and needs a
 * new term with a new token: its key goes, and another one joins the end of the queue.
 *
 * A win counts from the last proof of the lease. So before the call that may win there is a
 * keep-alive, unless one was answered a short while ago.
 */
#include "backend/etcd/ops/ops.h"

#include "base/check.h"

#include <string.h>

static void contest(struct sb_etcd_job *job);

/* ---- Joining --------------------------------------------------------------------------------- */

/* The key before mine, of the last two in the order of creation. */
static const Etcd__KeyValue *before_mine(const struct sb_etcd_latch *latch,
                                         const Etcd__RangeAnswer *last)
{
    for (size_t i = 0; last != NULL && i < last->n_kvs; i++)
        if (last->kvs[i]->create_revision < latch->created)
            return last->kvs[i];
    return NULL;
}

/* The repetition of a lost creation finds the key that it made. */
static bool note_key(struct sb_etcd_latch *latch, const Etcd__TxnAnswer *answer)
{
    const Etcd__RangeAnswer *own = sb_etcd_txn_range(answer, 0);
    int64_t created = 0;

    if (answer->succeeded)
        created = answer->header->revision;
    else if (own != NULL && own->n_kvs > 0)
        created = own->kvs[0]->create_revision;
    if (created <= 1 || created > answer->header->revision)
        return false; /* the first key of a server has revision 2 */
    latch->created = created;
    latch->key = SB_ETCD_KEY_THERE;
    return true;
}

static void on_created(struct sb_etcd_job *job)
{
    Etcd__TxnAnswer *answer = sb_etcd_job_txn_answer(job);
    struct sb_etcd_latch *latch = job->latch;
    const Etcd__RangeAnswer *first = sb_etcd_txn_range(answer, 1);
    const Etcd__KeyValue *before;

    if (answer == NULL)
        return;
    if (first == NULL || !note_key(latch, answer)) {
        sb_etcd_job_fail_nonsense(job);
    } else {
        before = before_mine(latch, answer->succeeded ? sb_etcd_txn_range(answer, 2) : NULL);
        if (before == NULL && first->n_kvs > 0 && first->kvs[0]->create_revision != latch->created)
            sb_etcd_look(job);
        else
            sb_etcd_look_decide(job, first, before, answer->succeeded ? first->count - 1 : 0,
                                answer->header->revision);
    }
    sb_etcd_free_message(answer);
}

/* From here on the key may be there, whatever happens. */
static void create(struct sb_etcd_job *job)
{
    struct sb_etcd_latch *latch = job->latch;
    struct sb_etcd_txn *txn = job->store->txn;
    const char *prefix = job->store->options.prefix;
    const char *mutex = job->mutex->name;
    char key[SB_ETCD_KEY_SIZE];

    sb_etcd_latch_key(key, latch);
    sb_etcd_txn_begin(txn);
    sb_etcd_txn_if(txn, key, 0);
    sb_etcd_branch_put(&txn->then, key, latch->id, latch->lease->id);
    sb_etcd_range_first(sb_etcd_branch_range(&txn->then), prefix, mutex);
    sb_etcd_range_last(sb_etcd_branch_range(&txn->then), prefix, mutex, 0, 2);
    sb_etcd_range_key(sb_etcd_branch_range(&txn->other), key);
    sb_etcd_range_first(sb_etcd_branch_range(&txn->other), prefix, mutex);
    job->creates = job->writes = true;
    sb_etcd_job_txn(job, on_created);
}

/* ---- The contest ----------------------------------------------------------------------------- */

/* The lease may have ended, and with it the key, while the job waited. */
static void go_on(struct sb_etcd_job *job)
{
    struct sb_etcd_latch *latch = job->latch;

    if (latch->lease->id == 0) {
        if (sb_etcd_job_again(job))
            sb_etcd_job_await(job, go_on);
    } else if (latch->key == SB_ETCD_KEY_THERE) {
        sb_etcd_look(job);
    } else {
        create(job);
    }
}

static void contest(struct sb_etcd_job *job)
{
    job->then = contest;
    job->creates = job->writes = false;
    if (!sb_etcd_job_take_permit(job, contest))
        return;
    if (sb_etcd_lease_is_fresh(job->latch->lease))
        go_on(job);
    else
        sb_etcd_job_await(job, go_on);
}

void sb_etcd_acquire(struct sb_etcd_job *job)
{
    struct sb_etcd_latch *latch = job->latch;

    if (latch->key != SB_ETCD_KEY_NONE && (latch->granted || latch->leaving))
        sb_etcd_drop_key(job, contest);
    else
        contest(job);
}
