/*
 * thread.h - starts the library's own threads: named, and with all signals blocked, so that the
 * application's signals stay with its own threads.
 */
#ifndef SB_BASE_THREAD_H
#define SB_BASE_THREAD_H

#include "base/shared.h"

#include <pthread.h>

#define SB_THREAD_NAME_SIZE 16 /* what the kernel keeps of a thread's name, with the NUL */

/* Returns 0 or an errno. `name` fits into that size, and stays for as long as the thread may still begin. */
int sb_thread_start(pthread_t *thread, const char *name, void *(*run)(void *argument),
                    void *argument) SB_SHARED("thread_start");

#endif
