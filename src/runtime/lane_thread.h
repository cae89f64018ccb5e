/*
 * lane_thread.h - threads that serve one lane each, for calls that may take long: the work of a scheduler.
 *
 * Must not know what a lane's calls do.
 */
#ifndef SB_RUNTIME_LANE_THREAD_H
#define SB_RUNTIME_LANE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define SB_LANE_THREAD_NAME_SIZE 16 /* what the kernel keeps of a thread's name, with the NUL */

struct sb_lane;
struct sb_lane_thread;

/* The threads of one dispatcher. */
struct sb_lane_threads {
    /* Runs the first call of a lane and returns whether it has more; if not, the lane may be gone. */
    bool (*run)(struct sb_lane *lane);
    pthread_mutex_t lock;
    pthread_cond_t ended;
    size_t count;   /* that have not ended */
    pthread_t last; /* the last one that has ended, which nobody has joined yet */
    bool has_last;
};

void sb_lane_threads_init(struct sb_lane_threads *threads, bool (*run)(struct sb_lane *lane));

/* Waits for all threads to end, and joins the last one. Each must have been told to end. */
void sb_lane_threads_destroy(struct sb_lane_threads *threads);

/* NULL: the system gives no memory or no thread. */
struct sb_lane_thread *sb_lane_thread_start(struct sb_lane_threads *threads, const char *name);

/* Has the thread run a lane until it has no calls left. Not while it has a lane. */
void sb_lane_thread_give(struct sb_lane_thread *thread, struct sb_lane *lane);

/* The thread ends when it has run what it was given. Does not wait for that. */
void sb_lane_thread_end(struct sb_lane_thread *thread);

#endif
