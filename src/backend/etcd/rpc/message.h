/*
 * message.h - requests about keys, put together without memory of their own, and their answers.
 */
#ifndef SB_ETCD_MESSAGE_H
#define SB_ETCD_MESSAGE_H

#include "backend/etcd/names.h"
#include "backend/etcd/rpc/call.h"

#define SB_ETCD_TXN_IFS 32 /* servers take 128 by default */
#define SB_ETCD_TXN_OPS 3  /* in each branch */

struct sb_etcd_range {
    Etcd__Range message;
    char key[SB_ETCD_KEY_SIZE];
    char end[SB_ETCD_KEY_SIZE];
};

void sb_etcd_range_key(struct sb_etcd_range *range, const char *key);

/* The first contender of a mutex in the order of creation. */
void sb_etcd_range_first(struct sb_etcd_range *range, const char *prefix, const char *mutex);

/* The last `count` of those that were created up to a revision, without their values; 0: of
 * all. */
void sb_etcd_range_last(struct sb_etcd_range *range, const char *prefix, const char *mutex,
                        int64_t created_max, int64_t count);

/* A transaction: if all conditions hold `then`, otherwise `other`. */
struct sb_etcd_branch {
    Etcd__Op ops[SB_ETCD_TXN_OPS];
    Etcd__Op *list[SB_ETCD_TXN_OPS];
    struct sb_etcd_range ranges[SB_ETCD_TXN_OPS];
    Etcd__Put put;
    Etcd__Delete removal;
    char key[SB_ETCD_KEY_SIZE]; /* of the put or the removal */
    size_t count;
};

struct sb_etcd_txn {
    Etcd__Txn message;
    Etcd__Compare ifs[SB_ETCD_TXN_IFS];
    Etcd__Compare *if_list[SB_ETCD_TXN_IFS];
    char keys[SB_ETCD_TXN_IFS][SB_ETCD_KEY_SIZE];
    struct sb_etcd_branch then;
    struct sb_etcd_branch other;
};

void sb_etcd_txn_begin(struct sb_etcd_txn *txn);

/* That the key was created at this revision; 0: that there is none. */
void sb_etcd_txn_if(struct sb_etcd_txn *txn, const char *key, int64_t created);

/* At most one put or removal in a branch. The value stays until the message is packed. */
void sb_etcd_branch_put(struct sb_etcd_branch *branch, const char *key, const char *value,
                        int64_t lease);
void sb_etcd_branch_remove(struct sb_etcd_branch *branch, const char *key);

/* The next range of a branch, to be filled. */
struct sb_etcd_range *sb_etcd_branch_range(struct sb_etcd_branch *branch);

/* The whole message, ready to be packed. */
const ProtobufCMessage *sb_etcd_txn_end(struct sb_etcd_txn *txn);

/* Whether it may be a server's: revisions begin at 1, and leave room for more. */
bool sb_etcd_is_header(const Etcd__Header *header);

/* The answer to an operation of the branch that was taken; NULL: it is none. */
const Etcd__RangeAnswer *sb_etcd_txn_range(const Etcd__TxnAnswer *answer, size_t index);

#endif
