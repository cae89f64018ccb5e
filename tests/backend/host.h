/*
 * host.h - the smallest host that a backend can live in: a loop on the calling thread, a collector
 * of answers and notices. Nothing in it fails a test by itself, so that it can be used in forked
 * processes.
 */
#ifndef SIMBA_TEST_BACKEND_HOST_H
#define SIMBA_TEST_BACKEND_HOST_H

#include "test.h"

#include <simba/backend.h>

#include <pthread.h>
#include <uv.h>

#define HOST_NOTICES_MAX 256
#define HOST_TTL_MS 20000
#define HOST_TRANSITION_MS 10000
#define HOST_LEASE_MS (HOST_TTL_MS + HOST_TRANSITION_MS)
#define HOST_NO_ANSWER 1 /* the code of a call that was not answered in time */

struct host_notice {
    enum simba_notice notice;
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1]; /* empty: to all */
};

struct host {
    struct simba_backend_host base; /* first: the host is one */
    const struct simba_backend_ops *ops;
    simba_backend *backend;
    struct simba_error open_error;
    pthread_t thread; /* that has the loop */
    uv_loop_t loop;
    uv_async_t signal;
    uv_timer_t pulse;     /* bounds every wait */
    pthread_mutex_t lock; /* guards what follows */
    struct simba_task *tasks;
    struct host_notice notices[HOST_NOTICES_MAX];
    size_t notice_count;
    size_t log_count;
    char log[256]; /* the last line */
    bool closed;
};

/* A request and what became of it. */
struct call {
    struct simba_request request; /* first: the request is the call */
    struct host *host;
    bool answered;
    unsigned answers;
    bool on_loop; /* answered on the thread that has the loop */
    int code;
    char owner[SIMBA_ID_MAX + 1];
    int64_t ttl_left_ms;
    int64_t transition_left_ms;
    uint64_t revision;
    uint64_t fence;
    int64_t as_of_ms;
    int64_t waiters;
    int64_t held_ms;
    int64_t place;
    int64_t reserved_left_ms;
    bool missed;
    struct simba_mutex_status list[8];
    size_t list_count;
    struct simba_error error;
};

/* Opens a client of the store; returns its code, and on failure leaves nothing behind. */
int host_open(struct host *host, const char *url);

/* That a client cannot be opened, with this code and a sentence that has this in it. */
void host_expect_failure(const char *url, int code, const char *sentence);

/* Closes the client and the loop; returns whether that came to an end. */
bool host_close(struct host *host);

/* Runs the loop until the condition is true; returns whether it became so in time. */
bool host_run_until(struct host *host, bool (*condition)(void *user), void *user);

/* Prepares a call with the leases above and a timeout that is long. A GUARD names `revision` as the
 * token of its term. */
struct call host_call(enum simba_op op, const char *mutex, const char *id, uint64_t revision);

/* Submits calls as one batch. */
void host_submit(struct host *host, struct call *calls, size_t count);

/* Waits for their answers; and whether one has come. */
bool host_wait(struct host *host, struct call *calls, size_t count);
bool host_is_answered(struct host *host, const struct call *call);

/* Prepares, submits and waits. */
struct call host_do(struct host *host, enum simba_op op, const char *mutex, const char *id,
                    uint64_t revision);

/* As `host_do`, with a reservation: ACQUIRE heeds those of others, RELEASE makes one. */
struct call host_reserve(struct host *host, enum simba_op op, const char *mutex, const char *id,
                         uint64_t revision, int64_t reserve_ms);

/* An ACQUIRE of `id` that asks for its place in the queue; the place, or -1 when it failed. */
int64_t host_place(struct host *host, const char *mutex, const char *id);

/* How many notices of that kind there were for the mutex; with `id` only those to it. */
size_t host_notices(struct host *host, enum simba_notice notice, const char *mutex, const char *id);
void host_forget_notices(struct host *host);

/* Waits for a notice; returns whether it came. */
bool host_wait_notice(struct host *host, enum simba_notice notice, const char *mutex,
                      const char *id);

/* Fails the test unless a name of SIMBA_MUTEX_MAX bytes can be acquired, read, listed and
 * released. */
void host_check_longest_name(struct host *host);

#endif
