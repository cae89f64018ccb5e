/*
 * notices.h - for the engine: what its host passes on to services.
 */
#ifndef SB_RUNTIME_NOTICES_H
#define SB_RUNTIME_NOTICES_H

#include "runtime/engine.h"

/* `notice` and `session_lost` of the host. From any thread. */
void sb_notices_tell(const struct simba_backend_host *host, enum simba_notice what,
                     const char *mutex, const char *id);
void sb_notices_tell_session_lost(const struct simba_backend_host *host, const char *mutex);

/* What engine->session_task runs. */
void sb_notices_run_session_lost(struct simba_task *task);

/* Has the followers of a mutex look at the store. Loop thread only, not from within a step. */
void sb_notices_tell_followers(void *engine, const char *mutex);

/* A store that was down at first is open: tells it which services of the engine listen. Loop thread
 * only. */
void sb_notices_introduce_services(void *engine);

#endif
