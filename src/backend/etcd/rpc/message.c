/*
 * message.c - puts requests together. Knows no connection.
 */
#include "backend/etcd/rpc/message.h"

#include "base/check.h"
#include "base/text.h"

#include <string.h>

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

void sb_etcd_range_key(struct sb_etcd_range *range, const char *key)
{
    etcd__range__init(&range->message);
    sb_text_copy(range->key, sizeof range->key, key);
    range->message.key = bytes_of(range->key);
}

static void range_sorted(struct sb_etcd_range *range, const char *prefix, const char *mutex,
                         Etcd__Range__Order order, int64_t count)
{
    etcd__range__init(&range->message);
    sb_etcd_folder(range->key, prefix, mutex);
    sb_etcd_range_end(range->end, range->key);
    range->message.key = bytes_of(range->key);
    range->message.range_end = bytes_of(range->end);
    range->message.sort_target = ETCD__RANGE__TARGET__CREATE;
    range->message.sort_order = order;
    range->message.limit = count;
}

void sb_etcd_range_first(struct sb_etcd_range *range, const char *prefix, const char *mutex)
{
    range_sorted(range, prefix, mutex, ETCD__RANGE__ORDER__ASCEND, 1);
}

void sb_etcd_range_last(struct sb_etcd_range *range, const char *prefix, const char *mutex,
                        int64_t created_max, int64_t count)
{
    range_sorted(range, prefix, mutex, ETCD__RANGE__ORDER__DESCEND, count);
    range->message.max_create_revision = created_max;
    range->message.keys_only = true;
}

/* ---- Transactions ---------------------------------------------------------------------------- */

void sb_etcd_txn_begin(struct sb_etcd_txn *txn)
{
    etcd__txn__init(&txn->message);
    txn->then.count = 0;
    txn->other.count = 0;
}

void sb_etcd_txn_if(struct sb_etcd_txn *txn, const char *key, int64_t created)
{
    size_t index = txn->message.n_compare++;
    Etcd__Compare *condition = &txn->ifs[index];

    SB_CHECK(index < SB_ETCD_TXN_IFS, "a transaction has room for its conditions");
    etcd__compare__init(condition);
    sb_text_copy(txn->keys[index], sizeof txn->keys[index], key);
    condition->key = bytes_of(txn->keys[index]);
    condition->target = ETCD__COMPARE__TARGET__CREATE;
    condition->value_case = ETCD__COMPARE__VALUE_CREATE_REVISION;
    condition->create_revision = created;
    txn->if_list[index] = condition;
}

static Etcd__Op *next_op(struct sb_etcd_branch *branch)
{
    Etcd__Op *op = &branch->ops[branch->count];

    SB_CHECK(branch->count < SB_ETCD_TXN_OPS, "a branch has room for its operations");
    etcd__op__init(op);
    branch->list[branch->count++] = op;
    return op;
}

void sb_etcd_branch_put(struct sb_etcd_branch *branch, const char *key, const char *value,
                        int64_t lease)
{
    Etcd__Op *op = next_op(branch);

    etcd__put__init(&branch->put);
    sb_text_copy(branch->key, sizeof branch->key, key);
    branch->put.key = bytes_of(branch->key);
    branch->put.value = bytes_of(value);
    branch->put.lease = lease;
    op->op_case = ETCD__OP__OP_PUT;
    op->put = &branch->put;
}

void sb_etcd_branch_remove(struct sb_etcd_branch *branch, const char *key)
{
    Etcd__Op *op = next_op(branch);

    etcd__delete__init(&branch->removal);
    sb_text_copy(branch->key, sizeof branch->key, key);
    branch->removal.key = bytes_of(branch->key);
    op->op_case = ETCD__OP__OP_DELETE;
    op->delete_ = &branch->removal;
}

struct sb_etcd_range *sb_etcd_branch_range(struct sb_etcd_branch *branch)
{
    struct sb_etcd_range *range = &branch->ranges[branch->count];
    Etcd__Op *op = next_op(branch);

    op->op_case = ETCD__OP__OP_RANGE;
    op->range = &range->message;
    return range;
}

const ProtobufCMessage *sb_etcd_txn_end(struct sb_etcd_txn *txn)
{
    txn->message.compare = txn->if_list;
    txn->message.success = txn->then.list;
    txn->message.n_success = txn->then.count;
    txn->message.failure = txn->other.list;
    txn->message.n_failure = txn->other.count;
    return &txn->message.base;
}

bool sb_etcd_is_header(const Etcd__Header *header)
{
    return header != NULL && header->revision > 0 && header->revision < SB_ETCD_REVISION_MAX;
}

const Etcd__RangeAnswer *sb_etcd_txn_range(const Etcd__TxnAnswer *answer, size_t index)
{
    if (answer == NULL || index >= answer->n_responses ||
        answer->responses[index]->op_case != ETCD__OP_ANSWER__OP_RANGE)
        return NULL;
    return answer->responses[index]->range;
}
