/*
 * engine.h - what all services of a client share: the loop, the dispatcher, the backend, the requests under
 * way, and the list of who takes part, by mutex.
 */
#ifndef SB_RUNTIME_ENGINE_H
#define SB_RUNTIME_ENGINE_H

#include "base/log.h"
#include "core/machine.h"
#include "runtime/dispatcher.h"
#include "runtime/loop.h"
#include "runtime/metrics.h"
#include "runtime/registry.h"
#include "runtime/wait.h"

#include <pthread.h>

struct sb_late_store;
struct sb_service;

/* A request on its way through the backend. Its maker embeds it in whatever it needs when the answer comes,
 * which happens on the loop thread, exactly once. */
struct sb_request {
    struct simba_request wire;
    struct sb_engine *engine;
    void (*answered)(struct sb_request *request, const struct simba_reply *reply);
    int64_t sent_at_ms;
    int64_t sent_at_us;
    int64_t answered_at_us;
    unsigned round; /* see struct sb_line */
    /* An answer from another thread, on its way to the loop. */
    struct simba_task task;
    struct simba_reply reply;
};

/* Starts that wait for answers to the requests of others. A store that is slow but answers moves the line on. Where it
 * has not moved for long a new round begins: what is without an answer then counts no more, for it may have been sent
 * to a part of the store that is dead. */
struct sb_line {
    struct sb_service *first;
    struct sb_service *last;
    struct sb_timer timer; /* looks whether it moves, while anybody waits */
    bool moved;            /* since the timer last went off */
    unsigned round;
    size_t under_way; /* requests of this round without an answer */
};

struct sb_engine {
    struct simba_backend_host host; /* first: the host that a backend sees is the engine */
    struct sb_loop *loop;
    struct sb_dispatcher *dispatcher;
    const struct simba_backend_ops *ops;
    simba_backend *backend;
    struct sb_late_store *late; /* what the backend is where the store was down at first, or NULL */
    struct sb_log log;
    struct sb_timing timing;
    struct sb_metrics metrics;
    struct sb_registry registry;
    struct simba_request *batch; /* becomes due at the end of this turn */
    struct simba_request **batch_end;
    struct sb_line line; /* loop thread only */
    unsigned forks;
    struct simba_task session_task; /* for the news that a session is over when memory is short */
    _Atomic bool session_task_posted;

    /* Guards what other threads copy of a service, or take from it. One for all: no step lasts long. */
    pthread_mutex_t rest_lock;

    /* Threads of the application wait here for a stop or for the end of everything. */
    pthread_mutex_t lock;
    pthread_cond_t progress;
    size_t pending; /* services that have not been freed, and requests without an answer */
};

struct sb_engine_config {
    const struct simba_backend_ops *ops;
    simba_url *url;
    /* The same, to open the store later where it cannot be used now; NULL: then there is no engine. */
    const char *url_text;
    /* Asks a URL for the parameters that are not the backend's. */
    int (*ask_own)(simba_url *url, struct simba_error *error);
    struct sb_timing timing;
    struct sb_log log;
    int dispatcher_threads;
    struct simba_executor executor;
};

int sb_engine_create(const struct sb_engine_config *config, struct sb_engine **ret_engine,
                     struct simba_error *error);

/* False: the store could not be opened so far, and requests fail with the reason. On the loop thread. */
bool sb_engine_is_store_open(const struct sb_engine *engine);

/* Waits until all services are gone and all requests are answered. False: a callback has not returned for as long as
 * the stop timeout. */
bool sb_engine_settle(struct sb_engine *engine);

/* Frees everything; no service is left, and no request. Takes NULL. */
void sb_engine_destroy(struct sb_engine *engine);

/* SIMBA_OK, or SIMBA_EFORKED in a child of the process that made the engine. */
int sb_engine_check_process(const struct sb_engine *engine, struct simba_error *error);

/* Whether a start has to wait for its turn, and its place in the line then, which holds it. All at once would be a
 * hundred thousand requests under way, and later as many renewals that are due together. Loop thread only. */
bool sb_engine_is_busy(const struct sb_engine *engine);
void sb_engine_line_up(struct sb_engine *engine, struct sb_service *service);

/* Lets those begin whose turn it is, and those go who wait no more. Loop thread only. */
void sb_engine_move_line(struct sb_engine *engine);

/* Sends a request at the end of this turn of the loop, together with the others. Loop thread only. The second counts
 * as sent when the caller last looked at the clock (sb_clock_us), which is not after it is. */
void sb_engine_send(struct sb_engine *engine, struct sb_request *request);
void sb_engine_send_as_of(struct sb_engine *engine, struct sb_request *request, int64_t now_us);

/* Makes of an answer what it is when there is no memory for the owner's name. To a guard and a release it then
 * says that nobody owns: all that they need is that they do not. Other requests have failed. */
void sb_engine_drop_owner(enum simba_op op, struct simba_reply *reply);

/* Adds to engine->pending, or takes from it and tells the waiter. From any thread. */
void sb_engine_pending_add(struct sb_engine *engine);
void sb_engine_pending_remove(struct sb_engine *engine);

/* sb_wait on the engine's loop, from a callback too: another thread takes its place meanwhile. A thread of the
 * application's executor runs what the executor has not begun, as far as `help` says; NULL: nothing. */
bool sb_engine_wait(struct sb_engine *engine, const struct sb_wait *wait,
                    const struct sb_help *help);

/* The same for what is guarded by engine->lock, which it takes, and followed by a signal of progress. */
bool sb_engine_wait_progress(struct sb_engine *engine, bool (*done)(void *argument), void *argument,
                             int64_t until_ms, const struct sb_help *help);

#endif
