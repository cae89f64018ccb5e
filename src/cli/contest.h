/*
 * contest.h - waits for a mutex, on a thread of its own, while the main thread reads signals and
 * tells the user who owns: for the verbs `lock` and `acquire`.
 */
#ifndef CLI_CONTEST_H
#define CLI_CONTEST_H

#include "cli/job.h"
#include "cli/progress.h"

#include <stdatomic.h>

/* Threads of the library may use it until the program has ended. */
struct cli_contest {
    struct cli_job *job;
    bool try_once;
    bool detachable;      /* the locker is to be detached */
    bool no_hold;         /* a set waits without holding a part of it */
    bool hands_over;      /* ends when it is asked to hand over */
    bool tells_contended; /* also where the exit code for that is 0 */
    int contended_code;
    int64_t started_ms;
    int wake_fd; /* readable when the lease was lost, or a hand-over is asked for */
    struct cli_progress progress;

    /* Called by the waiting thread when it owns; NULL: nothing is to be done. An error ends the
     * wait: it has released the mutex then. */
    int (*on_won)(struct cli_contest *contest, simba_locker *locker);

    /* Set by the waiting thread before it asks for the mutex, or by the main thread that ends the
     * program before that: the one that comes second does not do it. */
    atomic_flag decided;

    /* Written by the waiting thread. The main thread reads `code` only after it has ended. */
    _Atomic(simba_locker *) locker;
    int code; /* SIMBA_OK: the mutex was acquired */
};

/* Waits as job->wait_ms and try_once say. Returns CLI_CONTINUE, or an exit code after a message. A
 * signal and the mutex may come together: then the code is that of the signal, and `code` is
 * SIMBA_OK, so the caller releases. */
int cli_contest_run(struct cli_contest *contest);

#endif
