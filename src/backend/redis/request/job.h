/*
 * job.h - a request on its way through a node. Shared by request.c, send.c, quorum.c and backlog.c only.
 */
#ifndef SB_REDIS_JOB_H
#define SB_REDIS_JOB_H

#include "backend/redis/request/request.h"

struct sb_job {
    struct sb_command command; /* first: the command is the job */
    simba_backend *store;
    struct simba_request *request;
    sb_request_take *take;
    struct sb_node *node;
    enum simba_op op;  /* the request's, or RELEASE while its lease is given back */
    uint16_t attempts; /* before this one */
    bool once;         /* it is not sent again */
    bool needs_text;   /* the server did not know the script */
    bool asking;       /* the slot is on its way to the node */
    int64_t made_ms;   /* when the request was */
    uint64_t revision; /* the request's, or that of a lease to give back */
    uint64_t sent_as;  /* node->sent at this one */

    struct sb_quorum *quorum;     /* whose acknowledgement it needs; NULL: nobody's */
    struct sb_quorum *refused_by; /* an acquire that is given back: why; NULL: it is not */
    struct sb_job *next;          /* of those that wait for it, or in the backlog */
    struct sb_job *child;         /* in the backlog */
    int64_t due_ms;               /* there: its deadline, or until when it is held back */
    struct sb_record *record;     /* to be answered with then; NULL where it never has to wait */
};

/* Whose attempt it is, among those that listen; NULL: nobody there. */
struct sb_listener *sb_job_listener(const struct sb_job *job);

/* Calls the job's script on its node. SIMBA_OK: it will be answered. Otherwise it will not, and *error says why. */
int sb_job_send(struct sb_job *job, struct simba_error *error);

/* Answer the request and free the job. */
void sb_job_succeed(struct sb_job *job, const struct sb_record *record);
void sb_job_fail(struct sb_job *job, const struct simba_error *error);

/* Releases the lease of an acquire that its quorum has refused, and then fails the request with the quorum's
 * reason. */
void sb_job_give_back(struct sb_job *job);

/* Answer and free when nobody knows whether it was carried out. */
void sb_job_lose(struct sb_job *job, const struct simba_error *why);

#endif
