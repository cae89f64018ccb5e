/*
 * engine.h - what all services of a client share: the loop, the dispatcher, the backend, the
 * requests under way, and the list of who takes part, by mutex.
 */
#ifndef SB_RUNTIME_ENGINE_H
#define SB_RUNTIME_ENGINE_H

#include "base/error.h"
#include "core/machine.h"
#include "runtime/dispatcher.h"
#include "runtime/requests.h"
#include "runtime/wait.h"

struct sb_engine_config {
    const struct simba_backend_ops *ops;
    simba_url *url;
    /* The same, to open the store later where it cannot be used now; NULL: then there is no
     * engine. */
    const char *url_text;
    const char *folder; /* where relative paths of that begin */
    /* Asks a URL for the parameters that are not the backend's. */
    int (*ask_own)(simba_url *url, struct simba_error *error);
    struct sb_timing timing;
    struct sb_log log;
    int dispatcher_threads;
    struct simba_executor executor;
    struct sb_pull pull;
};

/* ---- wait.c ---------------------------------------------------------------------------------- */

/* SIMBA_OK, or SIMBA_EFORKED in a child of the process that made the engine. */
int sb_engine_check_process(const struct sb_engine *engine, struct simba_error *error);

/* Adds to engine->pending, or takes from it and tells the waiter. From any thread. */
void sb_engine_pending_add(struct sb_engine *engine);
void sb_engine_pending_remove(struct sb_engine *engine);

/* sb_wait on the engine's loop, from a callback too: another thread takes its place meanwhile. A
 * thread of the application's executor runs what the executor has not begun, as far as `help` says;
 * NULL: nothing. */
bool sb_engine_wait(struct sb_engine *engine, const struct sb_wait *wait,
                    const struct sb_help *help);

/* The lock of the engine guards what its threads wait for. The second tells them to ask again
 * before it lets go. */
void sb_engine_lock(struct sb_engine *engine);
void sb_engine_unlock_after_progress(struct sb_engine *engine);
void sb_engine_unlock(struct sb_engine *engine);

/* sb_engine_wait for what that lock guards: with the lock held; and without, to take it
 * meanwhile. */
bool sb_engine_wait_locked(struct sb_engine *engine, bool (*done)(void *argument), void *argument,
                           int64_t until_ms, const struct sb_help *help);
bool sb_engine_wait_progress(struct sb_engine *engine, bool (*done)(void *argument), void *argument,
                             int64_t until_ms, const struct sb_help *help);

/* Runs the first callback that waits to be pulled, on this thread. False: there is none. */
bool sb_engine_pull(struct sb_engine *engine);

/* Has all threads that wait ask again, and the thread that runs the loop. From any thread. */
void sb_engine_tell_progress(struct sb_engine *engine);

/* ---- engine.c -------------------------------------------------------------------------------- */

int sb_engine_create(const struct sb_engine_config *config, struct sb_engine **ret_engine,
                     struct simba_error *error);

/* False: the store could not be opened so far, and requests fail with the reason. On the loop
 * thread. */
bool sb_engine_is_store_open(const struct sb_engine *engine);

/* For tasks and timers of the library's own objects: see loop.h. */
struct sb_loop *sb_engine_loop(const struct sb_engine *engine);

/* The times of contenders that have none of their own. */
const struct sb_timing *sb_engine_timing(const struct sb_engine *engine);

const struct sb_log *sb_engine_log(const struct sb_engine *engine);
void sb_engine_read_metrics(struct sb_engine *engine, struct simba_metrics *metrics);

/* metrics_text.c: as simba_client_metrics_text. */
int sb_engine_write_metrics(struct sb_engine *engine, enum simba_metrics_format format,
                            char *buffer, size_t size, size_t *ret_length);

/* Whether the store knows who waits; and simba_client_life_fd. */
bool sb_engine_has_sessions(const struct sb_engine *engine);
bool sb_engine_has_queue(const struct sb_engine *engine);
bool sb_engine_has_properties(const struct sb_engine *engine);
bool sb_engine_can_forget(const struct sb_engine *engine);
bool sb_engine_can_inspect(const struct sb_engine *engine);
bool sb_engine_has_environment(const struct sb_engine *engine);
int sb_engine_life_fd(struct sb_engine *engine);

/* Waits until all services are gone and all requests are answered. False: a callback has not
 * returned for as long as the stop timeout. */
bool sb_engine_settle(struct sb_engine *engine);

/* Whether a callback runs, or waits to run. */
bool sb_engine_calls_back(const struct sb_engine *engine);

/* Frees everything; no service is left, and no request. NULL is allowed. */
void sb_engine_destroy(struct sb_engine *engine);

#endif
