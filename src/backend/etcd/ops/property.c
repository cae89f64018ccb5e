/*
 * property.c - GET_PROPERTY and SET_PROPERTY. A property is a key of its own, without a lease,
 * whose value is when it was written, a space, and what.
 *
 * etcd tells nobody the time: it is that of the client that writes, and of the one that reads.
 */
#include "backend/etcd/ops/ops.h"

#include "base/error.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct property {
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1]; /* that must own for the write; empty: none must */
    char value[SIMBA_PROPERTY_VALUE_MAX + 24];
    char key[SB_ETCD_KEY_SIZE];
};

/* ---- Reading --------------------------------------------------------------------------------- */

/* Anybody may have written it. */
static void take_value(struct simba_property *property, const ProtobufCBinaryData *value)
{
    char text[SIMBA_PROPERTY_VALUE_MAX + 24];
    size_t length = value->len < sizeof text - 1 ? value->len : sizeof text - 1;
    char *rest;

    memcpy(text, value->data, length);
    text[length] = '\0';
    property->written_ms = strtoll(text, &rest, 10);
    sb_text_copy(property->value, sizeof property->value, rest + (*rest == ' '));
}

static void on_read(struct sb_etcd_job *job)
{
    Etcd__RangeAnswer *answer = sb_etcd_job_range_answer(job);
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct simba_property found = {.written_ms = 0};

    if (answer == NULL)
        return;
    found.store_ms = simba_wall_ms(simba_now_ms());
    if (answer->n_kvs > 0)
        take_value(&found, &answer->kvs[0]->value);
    sb_etcd_free_message(answer);
    reply.property = &found;
    sb_etcd_job_answer(job, &reply);
}

static void read_value(struct sb_etcd_job *job)
{
    const struct property *p = job->more;
    struct sb_etcd_range range;

    sb_etcd_range_key(&range, p->key);
    sb_etcd_job_call(job, "/etcdserverpb.KV/Range", &range.message.base, on_read);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void refuse(struct sb_etcd_job *job)
{
    const struct property *p = job->more;
    struct simba_error error;

    sb_error_set(&error, SIMBA_ELOST, "%s does not own the mutex \"%s\"", p->id, p->mutex);
    sb_etcd_job_fail(job, &error, false);
}

static void on_written(struct sb_etcd_job *job)
{
    Etcd__TxnAnswer *answer = sb_etcd_job_txn_answer(job);
    bool succeeded = answer != NULL && answer->succeeded;

    if (answer == NULL)
        return;
    sb_etcd_free_message(answer);
    if (succeeded)
        sb_etcd_job_answer_nobody(job);
    else
        refuse(job);
}

/* With an owner: as long as its key is there. */
static void write_value(struct sb_etcd_job *job, const Etcd__KeyValue *owner)
{
    struct property *p = job->more;
    struct sb_etcd_txn *txn = job->store->txn;
    char key[SB_ETCD_KEY_SIZE];

    sb_etcd_txn_begin(txn);
    if (owner != NULL) {
        sb_etcd_key(key, job->store->options.prefix, p->mutex, owner->lease);
        sb_etcd_txn_if(txn, key, owner->create_revision);
    }
    sb_etcd_branch_put(&txn->then, p->key, p->value, 0);
    job->writes = true;
    sb_etcd_job_txn(job, on_written);
}

static void on_owner(struct sb_etcd_job *job)
{
    Etcd__RangeAnswer *answer = sb_etcd_job_range_answer(job);
    const struct property *p = job->more;
    char owner[SIMBA_ID_MAX + 1] = "";

    if (answer == NULL)
        return;
    if (answer->n_kvs > 0)
        sb_etcd_id_of(owner, answer->kvs[0]->value.data, answer->kvs[0]->value.len,
                      answer->kvs[0]->lease);
    if (strcmp(owner, p->id) == 0)
        write_value(job, answer->kvs[0]);
    else
        refuse(job);
    sb_etcd_free_message(answer);
}

static void read_owner(struct sb_etcd_job *job)
{
    const struct property *p = job->more;
    struct sb_etcd_range range;

    sb_etcd_range_first(&range, job->store->options.prefix, p->mutex);
    sb_etcd_job_call(job, "/etcdserverpb.KV/Range", &range.message.base, on_owner);
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static void fill(struct property *p, const simba_backend *store,
                 const struct simba_request *request)
{
    sb_text_copy(p->mutex, sizeof p->mutex, request->mutex);
    sb_text_copy(p->id, sizeof p->id, request->id != NULL ? request->id : "");
    sb_etcd_property_key(p->key, store->options.prefix, p->mutex, request->property);
    if (request->op == SIMBA_OP_SET_PROPERTY)
        snprintf(p->value, sizeof p->value, "%" PRId64 " %s", simba_wall_ms(simba_now_ms()),
                 request->value);
}

void sb_etcd_property_start(simba_backend *store, struct simba_request *request)
{
    struct sb_etcd_job *job = sb_etcd_job_for(store, request, NULL, NULL, sizeof(struct property));
    struct property *p;

    if (job == NULL)
        return;
    p = job->more;
    fill(p, store, request);
    if (job->op == SIMBA_OP_GET_PROPERTY)
        read_value(job);
    else if (p->id[0] != '\0')
        read_owner(job);
    else
        write_value(job, NULL);
}
