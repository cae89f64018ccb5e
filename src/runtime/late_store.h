/*
 * late_store.h - the store of a client that was opened while the store could not be used.
 *
 * To the engine it is a backend. Until the store can be opened it refuses requests; then it passes
 * them on.
 *
 *     engine's loop -- submit, listen, close --> the store's loop <-- created and opened by --
 *     simba-open
 *                    <-- reply, notice, log ---
 *
 * To open a store may take long, and the engine's loop must not wait for that. So a thread opens
 * it, on a loop that the store keeps. A store is opened once: what the thread has opened is what
 * the engine uses.
 */
#ifndef SB_RUNTIME_LATE_STORE_H
#define SB_RUNTIME_LATE_STORE_H

#include "base/error.h"
#include "runtime/loop.h"

struct sb_late_store;

struct sb_late_config {
    const struct simba_backend_ops *ops; /* of the store */
    const char *url_text;
    const char *folder; /* where its relative paths begin */
    /* Asks a URL for the parameters that are not the backend's. */
    int (*ask_own)(simba_url *url, struct simba_error *error);
    int64_t ttl_ms;
    int64_t transition_ms;
    const struct simba_backend_host *host; /* the engine's */
    struct sb_loop *loop;                  /* the same */
    struct sb_log log;                     /* the same */
    void (*opened)(void *argument);        /* on that loop, when the store can be used */
    void *argument;
    const struct simba_error *why; /* what the first attempt has failed with */
};

/* Whether a failure to open may pass by itself. Wrong options of a URL do not. */
bool sb_late_may_heal(int code);

/* Creates it and starts its thread. */
int sb_late_create(const struct sb_late_config *config, struct sb_late_store **ret_late,
                   struct simba_error *error);

/* Whether requests get through. On the engine's loop thread. */
bool sb_late_is_open(const struct sb_late_store *late);

/* The operations of the backend that it is. They take requests of the engine only, which are part
 * of a struct sb_request. Their `close` frees it, and does not wait for an attempt to open: its
 * thread ends by itself when `open` has returned, and closes what that has opened. */
const struct simba_backend_ops *sb_late_ops(const struct sb_late_store *late);
simba_backend *sb_late_backend(struct sb_late_store *late);

#endif
