/*
 * shim_state.h - the inside of a shim, shared by shim.c and shim_control.c only.
 */
#ifndef SB_TCK_SHIM_STATE_H
#define SB_TCK_SHIM_STATE_H

#include "tck/shim.h"

#include <pthread.h>

/* What the backend is given in place of the library's host. The host stands first, so that the
 * backend's pointer to it leads back to the shim. */
struct shim_host {
    struct simba_backend_host host;
    struct sb_shim *shim;
};

struct held_reply {
    struct held_reply *next;
    struct simba_request *request;
    struct simba_reply reply; /* its strings stand below */
    struct simba_error error;
    char owner[SIMBA_ID_MAX + 1];
    int64_t sent_at_ms;
};

struct request_queue {
    struct simba_request *head;
    struct simba_request **tail;
};

/* A request of the shim's own. The last user, its waiter or its answer, frees it. */
struct shim_call {
    struct simba_task task; /* first: the task's pointer leads back to the call */
    struct sb_shim *shim;
    struct simba_request request; /* its strings stand below */
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];
    struct sb_shim_answer answer;
    bool answered;
    bool abandoned;
};

struct sb_shim {
    struct simba_backend_ops ops;         /* what the library sees */
    const struct simba_backend_ops *real; /* the backend behind it */
    simba_backend *backend;
    const struct simba_backend_host *host; /* the library's */
    struct shim_host wrapped;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    unsigned hold_requests;
    unsigned hold_replies;
    unsigned refuse;
    int refuse_code;
    struct request_queue requests; /* that wait */
    struct held_reply *replies;    /* that wait, the oldest first */
    unsigned reply_count;
    struct shim_call *call; /* under way */
    int64_t sent_at_ms;     /* of the latest ACQUIRE or GUARD */
    int64_t leased_at_ms;
    bool sessions;
};

void sb_shim_queue_init(struct request_queue *queue);

/* Answers a batch with `code` in the backend's place. Without the lock. */
void sb_shim_answer_refused(struct sb_shim *shim, struct simba_request *batch, int code);

/* Call it before the library sees the answer, so that the library never believes longer than is
 * noted here. With the lock held. */
void sb_shim_note_lease(struct sb_shim *shim, const struct simba_request *request,
                        const struct simba_reply *reply, int64_t sent_at_ms);

#endif
