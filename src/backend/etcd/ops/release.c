/*
 * release.c - takes a key away, for a RELEASE, for a new term, or because nobody is heard of.
 *
 * Until the server has confirmed the deletion the key is "leaving". If the connection breaks, it is
 * deleted when there is a connection again, or with the lease.
 */
#include "backend/etcd/ops/ops.h"

#include "base/check.h"

#include <string.h>

/* ---- Its own key ----------------------------------------------------------------------------- */

/* The term that was meant is given back, or none was meant. The answer need not name the next
 * owner. */
static bool is_released(const struct sb_etcd_job *job)
{
    const struct sb_etcd_latch *latch = job->latch;

    if (job->revision == 0)
        return true;
    return latch != NULL && latch->key != SB_ETCD_KEY_NONE &&
           job->revision == (latch->granted ? latch->fence : (uint64_t)latch->created);
}

static int64_t deleted_by(const Etcd__TxnAnswer *answer)
{
    if (answer->n_responses == 0 || answer->responses[0]->op_case != ETCD__OP_ANSWER__OP_DELETE)
        return 0;
    return answer->responses[0]->delete_->deleted;
}

static void delete_key(struct sb_etcd_job *job);

/* There is a key, but not the one that was named: it is of a creation without an answer. Returns
 * whether that is so; then the job goes on with it, or has failed. */
static bool delete_other(struct sb_etcd_job *job, const Etcd__TxnAnswer *answer)
{
    const Etcd__RangeAnswer *own = answer->succeeded ? NULL : sb_etcd_txn_range(answer, 0);
    struct sb_etcd_latch *latch = job->latch;
    int64_t created;

    if (own == NULL || own->n_kvs == 0)
        return false;
    created = own->kvs[0]->create_revision;
    if (created <= 1 || created > answer->header->revision) {
        sb_etcd_job_fail_nonsense(job);
    } else if (sb_etcd_job_again(job)) {
        sb_etcd_latch_forget(latch);
        latch->key = SB_ETCD_KEY_THERE;
        latch->created = created;
        latch->leaving = true;
        delete_key(job);
    }
    return true;
}

static void on_deleted(struct sb_etcd_job *job)
{
    Etcd__TxnAnswer *answer = sb_etcd_job_txn_answer(job);
    struct sb_etcd_latch *latch = job->latch;
    bool other;

    if (answer == NULL)
        return;
    if (deleted_by(answer) > 0 && is_released(job))
        job->missed = false;
    if (deleted_by(answer) > 0 && job->request == NULL)
        sb_etcd_job_note_untold(job);
    other = delete_other(job, answer);
    sb_etcd_free_message(answer);
    if (other)
        return;
    sb_etcd_latch_forget(latch);
    if (job->missed)
        sb_etcd_look(job); /* another may own by now */
    else
        job->then(job);
}

/* The key is named by its creation, or else only looked for: a server that stood still may carry
 * this out late, when the latch has a new key, which has the same name. */
static void delete_key(struct sb_etcd_job *job)
{
    struct sb_etcd_latch *latch = job->latch;
    struct sb_etcd_txn *txn = job->store->txn;
    char key[SB_ETCD_KEY_SIZE];

    sb_etcd_latch_key(key, latch);
    sb_etcd_txn_begin(txn);
    sb_etcd_txn_if(txn, key, latch->key == SB_ETCD_KEY_THERE ? latch->created : 0);
    sb_etcd_branch_remove(&txn->then, key);
    sb_etcd_range_key(sb_etcd_branch_range(&txn->other), key);
    job->creates = false;
    job->writes = job->op != SIMBA_OP_NONE;
    sb_etcd_job_txn(job, on_deleted);
}

void sb_etcd_drop_key(struct sb_etcd_job *job, void (*then)(struct sb_etcd_job *job))
{
    struct sb_etcd_latch *latch = job->latch;

    job->then = then;
    latch->leaving = latch->key != SB_ETCD_KEY_NONE;
    if (latch->lease->id != 0) {
        delete_key(job);
        return;
    }
    sb_etcd_latch_forget(latch); /* it has gone with its lease */
    then(job);
}

/* ---- By force -------------------------------------------------------------------------------- */

static void on_taken(struct sb_etcd_job *job)
{
    Etcd__TxnAnswer *answer = sb_etcd_job_txn_answer(job);

    if (answer == NULL)
        return;
    job->missed = deleted_by(answer) == 0;
    sb_etcd_free_message(answer);
    sb_etcd_job_answer_nobody(job);
}

/* It is about the owner's very key, which is not this client's: one revision creates one key. */
static bool take_away(struct sb_etcd_job *job, const Etcd__KeyValue *first)
{
    struct sb_etcd_txn *txn = job->store->txn;
    char owner[SIMBA_ID_MAX + 1];
    char key[SB_ETCD_KEY_SIZE];

    sb_etcd_id_of(owner, first->value.data, first->value.len, first->lease);
    if (job->revision == 0 || job->revision != (uint64_t)first->create_revision ||
        job->request == NULL || strcmp(job->request->id, owner) != 0)
        return false;
    sb_etcd_key(key, job->store->options.prefix, job->mutex->name, first->lease);
    sb_etcd_txn_begin(txn);
    sb_etcd_txn_if(txn, key, first->create_revision);
    sb_etcd_branch_remove(&txn->then, key);
    job->writes = true;
    sb_etcd_job_txn(job, on_taken);
    return true;
}

/* ---- By its owner ---------------------------------------------------------------------------- */

/* A place in the queue is left in any case, a term only when it is the one that is meant. */
void sb_etcd_release(struct sb_etcd_job *job)
{
    struct sb_etcd_latch *latch = job->latch;

    job->other = take_away;
    job->missed = job->revision != 0;
    if (latch != NULL && latch->untold_release == job->revision)
        job->missed = false; /* an earlier deletion has done it, or may have */
    if (latch != NULL && latch->key != SB_ETCD_KEY_NONE &&
        (!latch->granted || latch->leaving || latch->fence == job->revision))
        sb_etcd_drop_key(job, is_released(job) ? sb_etcd_job_answer_nobody : sb_etcd_look);
    else if (job->revision == 0)
        sb_etcd_job_answer_nobody(job);
    else
        sb_etcd_look(job);
}
