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
#include "runtime/requests.h"
#include "runtime/starts.h"
#include "runtime/wait.h"

#include <pthread.h>

struct sb_late_store;

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
    struct sb_starts starts; /* loop thread only */
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

/* ---- engine_wait.c --------------------------------------------------------------------------- */

/* SIMBA_OK, or SIMBA_EFORKED in a child of the process that made the engine. */
int sb_engine_check_process(const struct sb_engine *engine, struct simba_error *error);

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

/* ---- engine.c -------------------------------------------------------------------------------- */

static inline struct sb_engine *sb_engine_of_host(const struct simba_backend_host *host)
{
    return (struct sb_engine *)host;
}

int sb_engine_create(const struct sb_engine_config *config, struct sb_engine **ret_engine,
                     struct simba_error *error);

/* False: the store could not be opened so far, and requests fail with the reason. On the loop thread. */
bool sb_engine_is_store_open(const struct sb_engine *engine);

/* Waits until all services are gone and all requests are answered. False: a callback has not returned for as long as
 * the stop timeout. */
bool sb_engine_settle(struct sb_engine *engine);

/* Frees everything; no service is left, and no request. Takes NULL. */
void sb_engine_destroy(struct sb_engine *engine);

#endif
