/*
 * call.h - a request on its way through a node. Shared by request.c, send.c, quorum.c and backlog.c only.
 */
#ifndef SB_REDIS_CALL_H
#define SB_REDIS_CALL_H

#include "backend/redis/request/request.h"

struct sb_redis_call {
    struct sb_redis_command command; /* first: the command is the job */
    simba_backend *store;
    struct simba_request *request;
    sb_redis_request_take *take;
    struct sb_redis_node *node;
    enum simba_op op;  /* the request's, or RELEASE while its lease is given back */
    uint16_t attempts; /* before this one */
    bool once;         /* it is not sent again */
    bool needs_text;   /* the server did not know the script */
    bool asking;       /* the slot is on its way to the node */
    int64_t made_ms;   /* when the request was */
    uint64_t revision; /* the request's, or that of a lease to give back */
    uint64_t sent_as;  /* node->sent at this one */

    struct sb_redis_quorum *quorum;     /* whose acknowledgement it needs; NULL: nobody's */
    struct sb_redis_quorum *refused_by; /* an acquire that is given back: why; NULL: it is not */
    struct sb_redis_call *next;         /* of those that wait for it, or in the backlog */
    struct sb_redis_call *child;        /* in the backlog */
    int64_t due_ms;                     /* there: its deadline, or until when it is held back */
    struct sb_redis_record *record; /* to be answered with then; NULL where it never has to wait */
};

/* Whose attempt it is, among those that listen; NULL: nobody there. */
struct sb_redis_listener *sb_redis_call_listener(const struct sb_redis_call *job);

/* Calls the job's script on its node. SIMBA_OK: it will be answered. Otherwise it will not, and *error says why. */
int sb_redis_call_send(struct sb_redis_call *job, struct simba_error *error);

/* Answer the request and free the job. */
void sb_redis_call_succeed(struct sb_redis_call *job, const struct sb_redis_record *record);
void sb_redis_call_fail(struct sb_redis_call *job, const struct simba_error *error);

/* Releases the lease of an acquire that its quorum has refused, and then fails the request with the quorum's
 * reason. */
void sb_redis_call_give_back(struct sb_redis_call *job);

/* Answer and free when nobody knows whether it was carried out. */
void sb_redis_call_lose(struct sb_redis_call *job, const struct simba_error *why);

#endif
