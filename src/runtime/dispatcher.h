/*
 * dispatcher.h - runs the application's callbacks away from the loop.
 *
 * Calls of one lane run one at a time, in order; lanes run in parallel, on a few threads of the dispatcher
 * or on the application's executor.
 */
#ifndef SB_RUNTIME_DISPATCHER_H
#define SB_RUNTIME_DISPATCHER_H

#include <simba/simba.h>

struct sb_dispatcher;

struct sb_call {
    void (*run)(struct sb_call *call);
    struct sb_call *next;
};

/* Lives in its owner. `idle` is called, on the thread that ran the last call, when nothing is left to run;
 * from then on the dispatcher does not touch the lane. */
struct sb_lane {
    struct sb_dispatcher *dispatcher;
    void (*idle)(struct sb_lane *lane);
    struct sb_call *first;
    struct sb_call *last;
    struct sb_lane *next;
    bool busy;
};

/* `executor` without a function: threads of its own, at most `threads` of them. */
int sb_dispatcher_create(int threads, const struct simba_executor *executor,
                         struct sb_dispatcher **ret_dispatcher, struct simba_error *error);

/* Ends the threads. No lane has calls any more. Takes NULL. */
void sb_dispatcher_destroy(struct sb_dispatcher *dispatcher);

/* From any thread. Returns true when the lane was idle before, so that `idle` will be called once more. */
bool sb_dispatcher_call(struct sb_lane *lane, struct sb_call *call);

/* Whether the calling thread is running a call of this lane, or of any lane of any dispatcher. */
bool sb_dispatcher_is_on(const struct sb_lane *lane);
bool sb_dispatcher_is_on_any(void);

/* Brackets a wait inside a callback for something that other callbacks may have to do first: another thread
 * takes the place of this one meanwhile. Harmless elsewhere. */
void sb_dispatcher_wait_begin(struct sb_dispatcher *dispatcher);
void sb_dispatcher_wait_end(struct sb_dispatcher *dispatcher);

#endif
