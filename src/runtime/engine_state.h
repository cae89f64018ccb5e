/*
 * engine_state.h - the inside of an engine, for the files of the runtime.
 */
#ifndef SB_RUNTIME_ENGINE_STATE_H
#define SB_RUNTIME_ENGINE_STATE_H

#include "base/hash.h"
#include "runtime/engine.h"
#include "runtime/lock.h"
#include "runtime/metrics.h"
#include "runtime/registry.h"

#include <pthread.h>

struct sb_late_store;
struct sb_reads;

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
    struct sb_reads *reads;  /* the same */
    size_t listeners;        /* services that listen; the same */
    unsigned forks;
    struct simba_task session_task; /* for the news that a session is over when memory is short */
    _Atomic bool session_task_posted;
    pthread_mutex_t notices_lock;
    struct sb_hash_table notices; /* on their way to the loop; under that lock */

    /* Guards what other threads copy of a service, or take from it. One for all: no step lasts
     * long. */
    pthread_mutex_t state_lock;

    /* Threads of the application wait here for a stop or for the end of everything. */
    pthread_mutex_t lock;
    pthread_cond_t progress;
    size_t pending; /* services that have not been freed, and requests without an answer */
};

static inline struct sb_engine *sb_engine_of_host(const struct simba_backend_host *host)
{
    return (struct sb_engine *)host;
}

#endif
