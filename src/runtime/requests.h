/*
 * requests.h - a request on its way through the backend.
 */
#ifndef SB_RUNTIME_REQUESTS_H
#define SB_RUNTIME_REQUESTS_H

#include <simba/backend.h>

struct sb_engine;
struct sb_look;

/* Its maker embeds it in whatever it needs when the answer comes, which happens on the loop thread,
 * exactly once. */
struct sb_request {
    struct simba_request wire; /* first: what a backend sees is the request */
    struct sb_engine *engine;
    void (*answered)(struct sb_request *request, const struct simba_reply *reply);
    int64_t sent_at_ms;
    int64_t sent_at_us;
    int64_t answered_at_us;
    unsigned round;             /* see starts.h */
    struct sb_look *look;       /* of a READ that others may share; NULL: it is none */
    struct sb_request *sharers; /* of the same READ, which are answered with this one */
    /* An answer from another thread, on its way to the loop. */
    struct simba_task task;
    struct simba_reply reply;
};

/* Sends a request at the end of this turn of the loop, together with the others. Loop thread only.
 * The second counts as sent when the caller last looked at the clock (sb_clock_us), which is not
 * after it is. */
void sb_request_send(struct sb_engine *engine, struct sb_request *request);
void sb_request_send_as_of(struct sb_engine *engine, struct sb_request *request, int64_t now_us);

/* Makes of an answer what it is when there is no memory for the owner's name. To a guard and a
 * release it then says that nobody owns: all that they need is that they do not. Other requests
 * have failed. */
void sb_request_drop_owner(enum simba_op op, struct simba_reply *reply);

/* For the engine: the end of a turn of its loop, on the loop thread; and `reply` of its host. */
void sb_requests_flush(void *engine);
void sb_requests_reply(const struct simba_backend_host *host, struct simba_request *wire,
                       const struct simba_reply *reply);

#endif
