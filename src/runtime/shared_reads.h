/*
 * shared_reads.h - how often the followers of a mutex (observers, and waiting contenders with
 * on_notify) read its owner from the store.
 *
 * A hint of the store that the owner has changed may be forged: a sender of messages can send as
 * many as it likes. So
 *   - a hint makes all followers of a mutex share one READ;
 *   - while one is under way, hints are kept as one, which is told when the answer has come;
 *   - SB_READS_AT_ONCE hints are told at once, further ones SB_READS_GAP_MS apart; the last one is
 *     never dropped.
 * READs that are due for other reasons (the end of a lease, a poll) are shared when they fall due
 * together.
 *
 * Must not know services or stores. Loop thread only.
 */
#ifndef SB_RUNTIME_SHARED_READS_H
#define SB_RUNTIME_SHARED_READS_H

#include "runtime/loop.h"
#include "runtime/requests.h"

#define SB_READS_AT_ONCE 20
#define SB_READS_GAP_MS 20

struct sb_mutex_reads;
struct sb_reads;

int sb_reads_create(struct sb_loop *loop, void (*tell)(void *argument, const char *mutex),
                    void *argument, struct sb_reads **ret_reads);

/* After the loop. NULL is allowed. */
void sb_reads_destroy(struct sb_reads *reads);

/* Tells a hint to the followers of a mutex, now or later. Not from within a step. */
void sb_reads_hint(struct sb_reads *reads, const char *mutex);

/* For a READ of a follower. True: a READ of this turn will answer it, too; otherwise the caller
 * sends it. */
bool sb_reads_join(struct sb_reads *reads, struct sb_request *request);

/* What was asked for so far is sent: nothing joins it any more. */
void sb_reads_end_turn(struct sb_reads *reads);

/* A READ that was sent has been answered. */
void sb_reads_end(struct sb_mutex_reads *read);

#endif
