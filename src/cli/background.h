/*
 * background.h - runs what may have to wait for the store on a thread of its own, while the main thread
 * listens to signals.
 *
 * Nothing says how long a store takes. A user who wants the program to end must not wait for that.
 */
#ifndef CLI_BACKGROUND_H
#define CLI_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdnoreturn.h>

struct cli_background {
    void (*run)(void *user);
    void *user;
    int done_fd;              /* readable when it has returned */
    bool (*ends)(int signal); /* whether a signal ends the wait; at first cli_signal_ends */
    pthread_t thread;
};

/* Runs run(user). Returns false, with errno, when it cannot start a thread. */
bool cli_background_start(struct cli_background *background, void (*run)(void *user), void *user);

#define CLI_BACKGROUND_DONE 0
#define CLI_BACKGROUND_LATE (-1)

/* Waits until it has returned (CLI_BACKGROUND_DONE: the thread is gone), a signal comes that ends the wait
 * (the number of that signal) or the time is over (CLI_BACKGROUND_LATE). SIMBA_INFINITE: no limit. Ctrl-Z
 * stops the program meanwhile. */
int cli_background_wait(struct cli_background *background, int signals_fd, int64_t limit_ms);

/* Ends the program, since the thread is not waited for any longer: it may be using anything, so nothing
 * of what it was given can be destroyed. */
noreturn void cli_background_leave(const struct cli_background *background, int status);

/* Runs a last step of the program. When it takes longer than that, when a signal says that it does, or
 * when there is no thread for it, the program ends with `status` and does not return. */
void cli_background_finish(void (*run)(void *user), void *user, int signals_fd, int64_t limit_ms,
                           int status);

#endif
