/*
 * opener.h - opens the store of an engine that was created while the store could not be used.
 *
 * To open a store may take long, and the loop must not wait for that. So a thread tries on an engine of its own; when
 * that has worked, the backend is opened on the loop, where it takes a moment.
 */
#ifndef SB_RUNTIME_OPENER_H
#define SB_RUNTIME_OPENER_H

#include "runtime/engine.h"

struct sb_opener;

/* Whether a failure to open may pass by itself. Wrong options of a URL do not. */
bool sb_opener_may_heal(int code);

/* Starts the thread. `why`: what the first attempt has failed with. */
int sb_opener_start(struct sb_engine *engine, const struct sb_engine_config *config,
                    const struct simba_error *why, struct sb_opener **ret_opener,
                    struct simba_error *error);

/* Ends the thread, which may take as long as the attempt that is under way. Takes NULL. */
void sb_opener_stop(struct sb_opener *opener);

/* What requests fail with until the store is open. */
void sb_opener_error(struct sb_opener *opener, struct simba_error *ret_error);

#endif
