/*
 * dispatcher.h - runs the application's callbacks away from the loop.
 *
 * Calls of one strand run one at a time, in order; strands run in parallel, on a few threads of the
 * dispatcher or on the application's executor. A strand whose calls may take long has a thread of
 * its own. Or the application pulls the calls: they wait until one of its threads asks for them.
 */
#ifndef SB_RUNTIME_DISPATCHER_H
#define SB_RUNTIME_DISPATCHER_H

#include <simba/simba.h>

struct sb_dispatcher;

struct sb_call {
    void (*run)(struct sb_call *call);
    struct sb_call *next;
};

/* Lives in its owner. */
struct sb_strand {
    struct sb_dispatcher *dispatcher;
    struct sb_call *first;  /* its calls; each has its own reason, so there are few */
    struct sb_strand *next; /* in the queue */
    struct sb_strand *previous;
    union {
        struct sb_ticket *ticket; /* where there is an executor: for it */
        struct sb_worker *worker; /* elsewhere: a thread of its own; NULL: it has none */
    };
    bool busy;
};

/* Which strands a thread that waits may run for the executor. `matches` NULL: all. It must not
 * block. */
struct sb_help {
    bool (*matches)(const struct sb_strand *strand, const void *argument);
    const void *argument;
};

/* Tells the application that there is something to pull. On any thread; it must not block. */
struct sb_pull {
    void (*wake)(void *user); /* NULL: nothing is pulled */
    void *user;
};

/* `executor` without a function: threads of its own, at most `threads` of them. With `pull` there
 * is neither: the calls run in sb_dispatcher_help.
 *
 * `idle` is called, on the thread that ran the last call, when nothing of a strand is left to run;
 * from then on the dispatcher does not touch the strand. */
int sb_dispatcher_create(int threads, const struct simba_executor *executor,
                         const struct sb_pull *pull, void (*idle)(struct sb_strand *strand),
                         struct sb_dispatcher **ret_dispatcher, struct simba_error *error);

/* Ends the threads. No strand has calls any more. NULL is allowed. */
void sb_dispatcher_destroy(struct sb_dispatcher *dispatcher);

/* A zeroed strand of a dispatcher. SIMBA_ENOMEM when memory is short. The second is for an idle
 * strand. */
int sb_strand_init(struct sb_strand *strand, struct sb_dispatcher *dispatcher);
void sb_strand_end(struct sb_strand *strand);

/* Gives a strand a thread of its own, with the first 15 bytes of the name, unless it has one.
 * False: the system gives no thread, so the strand shares those of the dispatcher. With an executor
 * its calls stay there. The second takes the thread away, which ends when the call that it runs has
 * returned; a strand is without one when it ends. */
bool sb_strand_begin_thread(struct sb_strand *strand, const char *name);
void sb_strand_end_thread(struct sb_strand *strand);

/* Whether calls of the strand wait or run; and whether those of any strand of the dispatcher do. */
bool sb_strand_is_busy(struct sb_strand *strand);
bool sb_dispatcher_is_busy(struct sb_dispatcher *dispatcher);

/* From any thread. Returns true when the strand was idle before, so that `idle` will be called once
 * more. */
bool sb_dispatcher_call(struct sb_strand *strand, struct sb_call *call);

/* Whether the calling thread is running a call of this strand, or of any strand of any dispatcher.
 * Not in a child that was forked inside the call: there nobody waits for its return. */
bool sb_dispatcher_is_on(const struct sb_strand *strand);
bool sb_dispatcher_is_on_any(void);

/* Brackets a wait inside a callback for something that other callbacks may have to do first:
 * another thread takes the place of this one meanwhile, in the dispatcher that the callback belongs
 * to. Harmless elsewhere. The second takes what the first returned. */
struct sb_dispatcher *sb_dispatcher_wait_begin(void);
void sb_dispatcher_wait_end(struct sb_dispatcher *dispatcher);

/* Whether the calling thread may run callbacks itself while it waits: one of the executor's
 * threads, or any thread where they are pulled. And whether there is an executor, and no thread has
 * shown itself as one of its threads yet. */
bool sb_dispatcher_may_help(const struct sb_dispatcher *dispatcher);
bool sb_dispatcher_is_executor_unseen(const struct sb_dispatcher *dispatcher);

/* Whether there is a strand that matches and that nobody has begun; and runs the first call of such
 * a strand, on this thread. False: there is none. */
bool sb_dispatcher_can_help(struct sb_dispatcher *dispatcher, const struct sb_help *help);
bool sb_dispatcher_help(struct sb_dispatcher *dispatcher, const struct sb_help *help);

#endif
