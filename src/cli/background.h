/*
 * background.h - calls that may wait for the store run on a thread of their own, while the main
 * thread reads signals: a user who ends the program must not wait for the store.
 *
 * The thread stays for the next call, and ends with the program.
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

/* Whether it has returned, without waiting. From then on it is over, and must not be asked
 * again. */
bool cli_background_is_done(struct cli_background *background);

/* Ends the program while the thread still runs: nothing that it may use is destroyed. */
noreturn void cli_background_leave(int status);

/* All that a verb does, where a signal is to end it in an orderly way. */
struct cli_background_work {
    void (*run)(void *user);
    void (*cancel)(void *user); /* on the main thread: `run` returns soon */
    void *user;
    int64_t end_ms; /* how long it may take to return then */
};

/* Runs it. Returns CLI_CONTINUE, or the exit code of the signal that ended it, or of what the
 * system refused. At a second signal, and when it takes longer than `end_ms`, it ends the
 * program. */
int cli_background_run(const struct cli_background_work *work);

/* A last step of the program. */
struct cli_finish {
    void (*run)(void *user);
    void *user;
    const char *held; /* the mutex that it releases, for a warning; NULL: none */
    int64_t limit_ms;
    void (*meanwhile)(void); /* what the main thread does before it waits; NULL: nothing */
};

/* Runs a last step. When it takes longer than its limit, at a second signal that tells to end, or
 * without a thread for it, warns that the mutex was not released, and ends the program with
 * `status`. */
void cli_background_finish(const struct cli_finish *finish, int signals_fd, int status);

#endif
