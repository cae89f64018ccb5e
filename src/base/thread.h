/*
 * thread.h - starts the library's own threads: named, and with all signals blocked, so that the
 * application's signals stay with its own threads; and a wait that does not follow steps of the
 * wall clock.
 */
#ifndef SB_BASE_THREAD_H
#define SB_BASE_THREAD_H

#include "base/shared.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SB_THREAD_NAME_SIZE 16 /* what the kernel keeps of a thread's name, with the NUL */

/* Returns 0 or an errno. `name` fits into that size, and stays for as long as the thread may still
 * begin. */
int sb_thread_start(pthread_t *thread, const char *name, void *(*run)(void *argument),
                    void *argument) SB_SHARED("thread_start");

/* Waits for a signal of the condition, with the lock held, or until that instant on simba_now_ms();
 * SIMBA_INFINITE: without a limit. Returns false, without a wait, when the instant has passed, and
 * true otherwise: then the caller looks again at what it waits for. The condition needs no
 * attributes. */
bool sb_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ms)
    SB_SHARED("cond_wait");

#endif
