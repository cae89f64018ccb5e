/*
 * waiting.h - contenders that wait for a mutex, as this client sees them: since when they wait,
 * what wakes them, and when they let others go first.
 *
 * A contender that releases and competes again at once is faster than the waiter that its release
 * has woken, each time anew. So its next attempt yields: it is sent a moment later.
 *
 *     RELEASE answered: a waiter was woken           the yield is over
 *     |------------------ 20 ms -----------------------|
 *           | ACQUIRE of the same contender: held back | sent
 */
#ifndef SB_REDIS_WAITING_H
#define SB_REDIS_WAITING_H

#include <simba/backend.h>

#define SB_REDIS_YIELDS_MAX 128

struct sb_redis_listener;

/* A release that has woken a waiter. */
struct sb_redis_yield {
    uint32_t from; /* a number made of the mutex and of the contender that released it */
    int64_t at_ms;
};

/* The last such releases, one for each remainder of the number. A release that is forgotten or
 * mistaken for another costs a turn or a moment, and nothing else. */
struct sb_redis_yields {
    struct sb_redis_yield table[SB_REDIS_YIELDS_MAX];
    int64_t last_ms; /* of the newest */
};

/* A contender, or an observer (`id` NULL), begins or ends to listen. */
void sb_redis_waiting_listen(simba_backend *store, const char *mutex, const char *id, bool on);

/* Since when the contender of a request waits, by the server's clock; 0: it does not. */
int64_t sb_redis_waiting_since_us(const simba_backend *store, const struct simba_request *request);

/* An attempt has been won: its contender waits no more. */
void sb_redis_waiting_won(simba_backend *store, const struct simba_request *request);

/* An attempt has been lost: its contender waits, and listens, since `since_us`. Returns NULL, or
 * the listener of a contender that has gone meanwhile: it must leave the queue on the server, where
 * the subscription that lingers makes it look alive. */
struct sb_redis_listener *
sb_redis_waiting_lost(simba_backend *store, const struct simba_request *request, int64_t since_us);

/* A release has woken a waiter. */
void sb_redis_waiting_woke(simba_backend *store, const struct simba_request *request);

/* Until when an ACQUIRE that was made at `now_ms` is held back; not later than `now_ms`: not at
 * all. Well before the request's deadline. */
int64_t sb_redis_waiting_yields_until(const simba_backend *store,
                                      const struct simba_request *request, int64_t now_ms);

#endif
