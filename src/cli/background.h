/*
 * background.h - runs what may have to wait for the store on a thread of its own, while the main
 * thread listens to signals.
 *
 * Nothing says how long a store takes. A user who wants the program to end must not wait for that.
 * The thread stays for what is run next, and ends with the program.
 */
#ifndef CLI_BACKGROUND_H
#define CLI_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>
#include <stdnoreturn.h>

struct cli_background {
    void (*run)(void *user);
    void *user;
    int done_fd;              /* readable when it has returned */
    bool (*ends)(int signal); /* whether a signal ends the wait; at first cli_signal_ends */
};

/* Runs run(user). Returns false, with errno, when it cannot start a thread. For the main thread,
 * like the rest. */
bool cli_background_start(struct cli_background *background, void (*run)(void *user), void *user);

#define CLI_BACKGROUND_DONE 0
#define CLI_BACKGROUND_LATE (-1)

/* Waits until it has returned (CLI_BACKGROUND_DONE), a signal comes that ends the wait (the number
 * of that signal) or the time is over (CLI_BACKGROUND_LATE). SIMBA_INFINITE: no limit. Ctrl-Z stops
 * the program meanwhile. */
int cli_background_wait(struct cli_background *background, int signals_fd, int64_t limit_ms);

/* Ends the program, since the thread is not waited for any longer: it may be using anything, so
 * nothing of what it was given can be destroyed. */
noreturn void cli_background_leave(int status);

/* A last step of the program. */
struct cli_finish {
    void (*run)(void *user);
    void *user;
    const char *held; /* the mutex that it gives back; NULL: none, or nobody wants to hear of it */
    int64_t limit_ms;
    void (*meanwhile)(void); /* what the main thread does before it waits; NULL: nothing */
};

/* Runs a last step. When it takes longer than its limit, when a signal tells to end and is not the
 * first that does, or when there is no thread for it, says that the mutex was not given back, and
 * ends the program with `status`. */
void cli_background_finish(const struct cli_finish *finish, int signals_fd, int status);

#endif
