/*
 * looks.h - how often the followers of a mutex (observers, and waiting contenders with on_notify)
 * look at the store.
 *
 * A store's hint that the owner has changed may be forged: whoever may send messages can send as
 * many as it likes. So
 *   - a hint makes all followers of a mutex look by one READ;
 *   - while one is under way, hints are kept as one, which is told when the answer has come;
 *   - SB_LOOKS_AT_ONCE hints are told at once, further ones SB_LOOKS_GAP_MS apart; the last one is
 *     never dropped.
 * Looks that are due for other reasons (the end of a lease, a poll) share a READ when they fall due
 * together.
 *
 * Must not know services or stores. Loop thread only.
 */
#ifndef SB_RUNTIME_LOOKS_H
#define SB_RUNTIME_LOOKS_H

#include "runtime/loop.h"
#include "runtime/requests.h"

#define SB_LOOKS_AT_ONCE 20
#define SB_LOOKS_GAP_MS 20

struct sb_look;
struct sb_looks;

int sb_looks_create(struct sb_loop *loop, void (*tell)(void *argument, const char *mutex),
                    void *argument, struct sb_looks **ret_looks);

/* After the loop. Takes NULL. */
void sb_looks_destroy(struct sb_looks *looks);

/* Tells a hint to the followers of a mutex, now or later. Not from within a step. */
void sb_looks_hint(struct sb_looks *looks, const char *mutex);

/* For a READ of a follower. True: a READ of this turn will answer it, too; otherwise the caller
 * sends it. */
bool sb_looks_join(struct sb_looks *looks, struct sb_request *request);

/* What was asked for so far is sent: nothing joins it any more. */
void sb_looks_end_turn(struct sb_looks *looks);

/* A READ that was sent has been answered. */
void sb_looks_end(struct sb_look *look);

#endif
