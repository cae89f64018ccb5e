/*
 * harness.h - runs the program as a user does: in a folder of its own, on a store of its own.
 *
 * Everything waits on a condition with a bound; a bound that is reached fails the test.
 */
#ifndef TESTS_CLI_HARNESS_H
#define TESTS_CLI_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include <sqlite3.h>

#define TEXT_MAX 65536
#define PATIENCE_MS 20000

/* Of the leases in most tests: long enough for a busy machine, short enough to wait for. */
#define TTL_MS 400
#define TRANSITION_MS 600
#define LEASE_MS (TTL_MS + TRANSITION_MS)

/* The same store with leases that outlast every test; a request that hangs does so for long,
 * too. */
#define LONG_LEASE_URL "sqlite:store.db?ttl=30s&transition=30s"

/* cmocka fixtures. Each test gets a new folder as its working directory, SIMBA_URL with a SQLite
 * file in it and short leases. teardown fails when a process of the test is left. */
int sandbox_enter(void **state);
int sandbox_leave(void **state);

struct process {
    pid_t pid;
    char out[64]; /* files in the sandbox */
    char err[64];
};

/* Starts the program with the arguments, NULL behind the last one, standard input from `input`
 * (NULL: /dev/null), in a process group of its own. */
struct process simba_start(const char *input, ...) __attribute__((sentinel));

/* The same with any command in place of the program, which it finds as $SIMBA_PROGRAM. */
struct process command_start(const char *file, ...) __attribute__((sentinel));

/* The exit code, or minus the signal that ended it. */
int process_wait(const struct process *process);

/* Starts, waits, returns the exit code. */
#define simba_run(...) simba_run_input(NULL, __VA_ARGS__)
int simba_run_input(const char *input, ...) __attribute__((sentinel));

/* What the last simba_run printed. */
const char *last_out(void);
const char *last_err(void);

bool process_is_alive(pid_t pid);

/* Whether it has a file open whose name ends like this regular expression. */
bool process_has_open(pid_t pid, const char *end);

/* Whether it has come so far that a signal is an event to it. */
bool process_takes_signals(pid_t pid);

/* The real user. */
long process_user(pid_t pid);

/* How often the main thread has gone to sleep. */
long process_wakes(pid_t pid);

/* Whether a signal has been sent to it that it has not taken yet. */
bool process_has_pending(pid_t pid, int signal);

/* Files in the sandbox. The text is valid until the next call. */
const char *file_read(const char *path);
void file_write(const char *path, const char *text);
bool file_exists(const char *path);

size_t count_lines(const char *text);

/* Waits for a condition and fails the test when it does not come true. */
#define wait_until(condition)                                                                      \
    do {                                                                                           \
        int64_t wait_end_ms = now_ms() + PATIENCE_MS;                                              \
        while (!(condition)) {                                                                     \
            if (now_ms() > wait_end_ms)                                                            \
                fail_msg("did not come true: %s", #condition);                                     \
            pause_briefly();                                                                       \
        }                                                                                          \
    } while (0)
int64_t now_ms(void);
void pause_briefly(void);

/* Waits for a file with a whole line and returns the number in it. */
long file_wait_number(const char *path);

#define assert_contains(text, part) assert_contains_at(text, part, __FILE__, __LINE__)
void assert_contains_at(const char *text, const char *part, const char *file, int line);

/* Starts a holder of the mutex "m" that runs until it is told to end, and returns when it holds.
 * Its child's pid is in the file "holder". */
struct process holder_start(void);

/* Makes the store hang for all who write, by a transaction of the test's own on the same file. */
sqlite3 *store_block(void);
void store_unblock(sqlite3 *store);

#endif
