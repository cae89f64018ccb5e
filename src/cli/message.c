/*
 * message.c - what the program prints: messages on standard error with the exit code that goes with
 * them, and the check of what was written to standard output.
 *
 * Standard error may be a pipe that nobody reads: a thread of its own writes, so that a message
 * never holds up its caller. The lock is held around copies of a line only, never around a write.
 * Standard error's FILE is not used: its lock would be held by the thread that is stuck.
 */
#include "cli/cli.h"

#include "base/check.h"
#include "base/time.h"
#include "base/thread.h"
#include "base/url.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WIPE "\r\033[K"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;  /* there is a line to write */
    pthread_cond_t emptied; /* all is written */
    bool queues;            /* since cli_message_start_queue */
    bool started;           /* the thread */
    char lines[CLI_MESSAGE_QUEUE_MAX][CLI_MESSAGE_MAX];
    size_t first;
    size_t count; /* with the line that is being written */
    uint64_t dropped;
    bool shown; /* the last text has no newline and is to be wiped out; the thread's own */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .filled = PTHREAD_COND_INITIALIZER,
           .emptied = PTHREAD_COND_INITIALIZER};

/* ---- Writing --------------------------------------------------------------------------------- */

/* A failure cannot be reported: there is no other place for it. */
static void write_line(const char *line)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
    size_t left = strlen(line);

    while (left > 0) {
        ssize_t written = write(STDERR_FILENO, line, left);
        if (written > 0) {
            line += written;
            left -= (size_t)written;
        } else if (errno == EAGAIN) { /* a process that shares it has made it non-blocking */
            if (poll(&fd, 1, -1) <= 0 && errno != EINTR)
                return;
        } else if (errno != EINTR) {
            return;
        }
    }
}

/* ---- The queue: all with the lock held ------------------------------------------------------- */

static void append(const char *line)
{
    SB_CHECK(queue.count < CLI_MESSAGE_QUEUE_MAX, "a line is queued where there is room");
    char *slot = queue.lines[(queue.first + queue.count) % CLI_MESSAGE_QUEUE_MAX];
    if (snprintf(slot, CLI_MESSAGE_MAX, "%s", line) >= CLI_MESSAGE_MAX)
        slot[CLI_MESSAGE_MAX - 2] = '\n';
    queue.count++;
    pthread_cond_signal(&queue.filled);
}

static void append_dropped(void)
{
    char text[128];
    char line[CLI_MESSAGE_MAX];

    snprintf(text, sizeof text, "%llu messages are missing here: standard error was not being read",
             (unsigned long long)queue.dropped);
    cli_line_write("warning", false, text, line);
    append(line);
    queue.dropped = 0;
}

/* After a drop the number of missing lines comes first, in their place. */
static void put(const char *line)
{
    size_t room = CLI_MESSAGE_QUEUE_MAX - queue.count;

    if (room < (queue.dropped > 0 ? 2 : 1)) {
        queue.dropped++;
        return;
    }
    if (queue.dropped > 0)
        append_dropped();
    append(line);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* The line stays in the queue while it is written: only this thread removes the first one. */
static void *print(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&queue.lock);
    for (;;) {
        while (queue.count == 0)
            pthread_cond_wait(&queue.filled, &queue.lock);
        const char *line = queue.lines[queue.first];
        pthread_mutex_unlock(&queue.lock);
        size_t length = strlen(line);
        if (queue.shown)
            write_line(WIPE);
        write_line(line);
        queue.shown = length > 0 && line[length - 1] != '\n';
        pthread_mutex_lock(&queue.lock);
        SB_CHECK(queue.count > 0, "the line that was written is still in the queue");
        queue.first = (queue.first + 1) % CLI_MESSAGE_QUEUE_MAX;
        queue.count--;
        if (queue.count == 0 && queue.dropped > 0)
            append_dropped();
        if (queue.count == 0)
            pthread_cond_broadcast(&queue.emptied);
    }
    return NULL;
}

void cli_message_start_queue(void)
{
    pthread_mutex_lock(&queue.lock);
    queue.queues = true;
    pthread_mutex_unlock(&queue.lock);
}

/* With the lock held: whether there is a thread for the queue. */
static bool has_thread(void)
{
    pthread_t thread;

    if (queue.queues && !queue.started &&
        sb_thread_start(&thread, "simba-messages", print, NULL) == 0)
        queue.started = pthread_detach(thread) == 0;
    return queue.started;
}

void cli_message_put(const char *line)
{
    pthread_mutex_lock(&queue.lock);
    bool queued = has_thread();
    if (queued)
        put(line);
    pthread_mutex_unlock(&queue.lock);
    if (!queued)
        write_line(line);
}

void cli_message_show(const char *text)
{
    pthread_mutex_lock(&queue.lock);
    if (has_thread() && (queue.count == 0 || text[0] == 0) && queue.count < CLI_MESSAGE_QUEUE_MAX)
        append(text);
    pthread_mutex_unlock(&queue.lock);
}

void cli_message_flush(int limit_ms)
{
    struct timespec until = sb_clock_deadline(limit_ms);
    int late = 0;

    pthread_mutex_lock(&queue.lock);
    while (late == 0 && queue.count > 0)
        late = pthread_cond_clockwait(&queue.emptied, &queue.lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&queue.lock);
}

/* ---- Messages -------------------------------------------------------------------------------- */

#define LINE_MAX_BYTES 1024

/* Names and ids may come from the store, so the terminal gets only printable text. A password in
 * the wrong place is redacted. */
static void print_line(const char *level, bool named, const char *line)
{
    char shown[LINE_MAX_BYTES];
    char safe[LINE_MAX_BYTES];
    char whole[CLI_MESSAGE_MAX];

    cli_text_printable(sb_url_redact_message(line, shown, sizeof shown), safe, sizeof safe);
    cli_line_write(level, named, safe, whole);
    cli_message_put(whole);
}

void cli_message(const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    print_line("info", false, line);
}

/* ---- Warnings that are held back ------------------------------------------------------------- */

#define HELD_MAX 8

static struct {
    pthread_mutex_t lock;
    bool on;
    char warnings[HELD_MAX][LINE_MAX_BYTES];
    size_t count;
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* "mutex 'm': cannot acquire: REASON" and "redis: REASON" tell the same. */
static bool tells_the_same(const char *line, const char *other)
{
    const char *reason = strstr(other, ": ");

    return strcmp(line, other) == 0 || (reason != NULL && strstr(line, reason) != NULL);
}

/* With the lock held. Keeps each reason once. Returns false when the line is to be printed: nothing
 * is held back, or there is no room. */
static bool keep(const char *line)
{
    for (size_t i = 0; i < held.count; i++) {
        const char *kept = held.warnings[i];
        if (tells_the_same(kept, line) || tells_the_same(line, kept))
            return true;
    }
    if (!held.on || held.count == HELD_MAX)
        return false;
    snprintf(held.warnings[held.count++], LINE_MAX_BYTES, "%s", line);
    return true;
}

void cli_message_hold_warnings(void)
{
    pthread_mutex_lock(&held.lock);
    held.on = true;
    pthread_mutex_unlock(&held.lock);
}

/* "cannot acquire 'm': REASON" and "mutex 'm': cannot acquire: REASON" tell the same. */
static bool is_repetition(const char *line, const char *error)
{
    const char *name_end = error != NULL ? strstr(error, "': ") : NULL;

    return error != NULL && strstr(line, name_end != NULL ? name_end + 3 : error) != NULL;
}

void cli_message_print_held(const char *error)
{
    pthread_mutex_lock(&held.lock);
    for (size_t i = 0; i < held.count; i++) {
        if (!is_repetition(held.warnings[i], error))
            print_line("warning", true, held.warnings[i]);
    }
    held.count = 0;
    held.on = false;
    pthread_mutex_unlock(&held.lock);
}

void cli_message_log(void *user, enum simba_log_level level, const char *line)
{
    static const char *const levels[] = {
        [SIMBA_LOG_NONE] = "info", [SIMBA_LOG_ERROR] = "error", [SIMBA_LOG_WARN] = "warning",
        [SIMBA_LOG_INFO] = "info", [SIMBA_LOG_DEBUG] = "debug",
    };

    (void)user;
    pthread_mutex_lock(&held.lock);
    bool kept = level == SIMBA_LOG_WARN && keep(line);
    pthread_mutex_unlock(&held.lock);
    if (!kept)
        print_line(levels[level], level != SIMBA_LOG_NONE, line);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

int cli_exit_code(int code)
{
    if (code == SIMBA_ENOTFOUND) /* the store is missing: it does not help to try later */
        return CLI_EXIT_UNAVAILABLE;
    if (code == SIMBA_EMISUSE) /* the program itself sets it, for what the user asked for */
        return CLI_EXIT_USAGE;
    switch (simba_error_group(code)) {
    case SIMBA_GROUP_NONE:
        return CLI_EXIT_OK;
    case SIMBA_GROUP_CONTENDED:
        return CLI_EXIT_CONTENDED;
    case SIMBA_GROUP_LOST:
        return CLI_EXIT_LOST;
    case SIMBA_GROUP_DENIED:
        return CLI_EXIT_DENIED;
    case SIMBA_GROUP_CONFIG:
        return CLI_EXIT_CONFIG;
    case SIMBA_GROUP_NOMEM:
        return CLI_EXIT_SYSTEM;
    case SIMBA_GROUP_MISUSE:
    case SIMBA_GROUP_UNKNOWN:
    case SIMBA_GROUP_UNAVAILABLE:
        break;
    }
    return CLI_EXIT_UNAVAILABLE;
}

int cli_fail(const struct simba_error *error)
{
    print_line("error", false, error->text);
    return cli_exit_code(error->code);
}

int cli_fail_system(const char *what)
{
    cli_message("%s: %s", what, strerror(errno));
    return CLI_EXIT_SYSTEM;
}

/* ---- Standard output ------------------------------------------------------------------------- */

static _Atomic int first_failure; /* an errno */

#define RESULT_INDENT 4

void cli_result(const char *format, ...)
{
    size_t columns = cli_text_columns(STDOUT_FILENO);
    char line[LINE_MAX_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (columns > 0)
        cli_text_flow(stdout, line, 0, RESULT_INDENT, columns);
    else
        puts(line);
}

bool cli_output_flush(void)
{
    int none = 0;

    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    atomic_compare_exchange_strong(&first_failure, &none, errno != 0 ? errno : EIO);
    return false;
}

/* Whether standard output is a pipe or a socket without a reader. */
static bool reader_left(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO, .events = 0};

    return poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

int cli_output_finish(int status)
{
    if (cli_output_flush() || first_failure == EPIPE || reader_left())
        return status;
    cli_message("standard output: %s", strerror(first_failure));
    return status == CLI_EXIT_OK ? CLI_EXIT_OUTPUT : status;
}
