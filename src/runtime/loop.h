/*
 * loop.h - the one thread of a client that owns its contenders, timers and connections.
 *
 * Other threads reach it through an inbox of tasks, which run in the order they were posted.
 */
#ifndef SB_RUNTIME_LOOP_H
#define SB_RUNTIME_LOOP_H

#include "runtime/timers.h"

#include <simba/backend.h>

struct sb_loop;

/* Creates it and starts its thread. `turn` is called on it whenever a round of events is over. */
int sb_loop_create(void (*turn)(void *argument), void *argument, struct sb_loop **ret_loop,
                   struct simba_error *error);

/* Ends the thread when the tasks posted so far have run, and frees all. Whoever put handles of their
 * own on the loop has closed them. Not on the loop's thread. Takes NULL. */
void sb_loop_destroy(struct sb_loop *loop);

/* From any thread. The task's memory is free for reuse when its function is called. */
void sb_loop_post(struct sb_loop *loop, struct simba_task *task);

/* Runs a function on the loop and waits until it has returned. From any thread. */
void sb_loop_call(struct sb_loop *loop, void (*function)(void *argument), void *argument);

bool sb_loop_is_current(const struct sb_loop *loop);

/* On the loop's thread only. */
struct uv_loop_s *sb_loop_uv(struct sb_loop *loop);
void sb_loop_arm(struct sb_loop *loop, struct sb_timer *timer, int64_t at_ms);
void sb_loop_cancel(struct sb_loop *loop, struct sb_timer *timer);

#endif
