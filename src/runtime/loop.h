/*
 * loop.h - the event loop of a client, which owns its contenders, timers and connections.
 *
 * It is turned by its own thread, or by a thread of the application that waits for it; never by two
 * at once (see loop_owner.h). Whatever happens on it happens on the thread that turns it, "the loop
 * thread" of all other comments. Threads reach it through an inbox of tasks, which run in the order
 * they were posted.
 */
#ifndef SB_RUNTIME_LOOP_H
#define SB_RUNTIME_LOOP_H

#include "runtime/timers.h"

#include <simba/backend.h>

struct sb_loop;

/* Creates it and starts its thread. `turn` is called on it whenever a round of events is over. */
int sb_loop_create(void (*turn)(void *argument), void *argument, struct sb_loop **ret_loop,
                   struct simba_error *error);

/* Ends the thread when the tasks posted so far have run, and frees all. Callers that put handles of
 * their own on the loop have closed them. Not on the loop's thread. NULL is allowed. */
void sb_loop_destroy(struct sb_loop *loop);

/* From any thread. The task's memory is free for reuse when its function is called. */
void sb_loop_post(struct sb_loop *loop, struct simba_task *task);

/* The same in two parts: after a push the thread calls sb_loop_wake_for_tasks, or sb_wait, which
 * does so only where the thread does not turn the loop itself. */
void sb_loop_push(struct sb_loop *loop, struct simba_task *task);
void sb_loop_wake_for_tasks(struct sb_loop *loop);

/* Has the threads that turn the loop ask again whether they are done. From any thread. */
void sb_loop_wake(struct sb_loop *loop);

/* Runs a function on the loop and waits until it has returned. From any thread. */
void sb_loop_call(struct sb_loop *loop, void (*function)(void *argument), void *argument);

/* Whether the calling thread turns the loop. */
bool sb_loop_is_current(const struct sb_loop *loop);

/* Opens a store on the loop, and waits for that. The loop becomes the host's. A failure always has
 * its code in `error`, also where the store left that empty. From any thread. */
int sb_loop_open_backend(struct sb_loop *loop, const struct simba_backend_ops *ops,
                         const struct simba_backend_config *config, struct simba_backend_host *host,
                         simba_backend **ret_backend, struct simba_error *error);

/* Whether the store that was opened on the loop never raises SIGPIPE there. */
bool sb_loop_has_no_sigpipe(const struct sb_loop *loop);

/* Brackets a wait of a thread for what the loop brings about. True: it has to turn the loop itself
 * meanwhile. `done` is asked after every round and before the loop waits. */
bool sb_loop_join(struct sb_loop *loop);
void sb_loop_turn(struct sb_loop *loop, bool (*done)(void *argument), void *argument);
void sb_loop_leave(struct sb_loop *loop, bool is_borrower);

/* For how long a timer has been due that the loop has not come to. From any thread. */
int64_t sb_loop_late_ms(const struct sb_loop *loop);

/* On the loop thread only. */
struct uv_loop_s *sb_loop_uv(struct sb_loop *loop);
void sb_loop_arm(struct sb_loop *loop, struct sb_timer *timer, int64_t at_ms);
void sb_loop_cancel(struct sb_loop *loop, struct sb_timer *timer);

/* From now on the descriptor of the loop is ready when the first timer is due. The loop does so by
 * itself before it waits. On the loop thread. */
void sb_loop_set_clock(struct sb_loop *loop);

#endif
