/*
 * printer.c - writes lines to standard error without ever holding up the caller.
 *
 * The lock is held around copies of a line only, never around a write. Standard error's FILE is not
 * used: its lock would be held by the thread that is stuck.
 */
#include "cli/printer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WIPE "\r\033[K"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;  /* there is a line to write */
    pthread_cond_t emptied; /* all is written */
    bool queues;            /* since cli_printer_start */
    bool started;           /* the thread */
    char lines[CLI_PRINTER_LINES][CLI_PRINTER_LINE_MAX];
    size_t first;
    size_t count; /* with the line that is being written */
    uint64_t dropped;
    bool shown; /* the last text has no newline and is to be wiped out; the thread's own */
} printer = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .filled = PTHREAD_COND_INITIALIZER,
             .emptied = PTHREAD_COND_INITIALIZER};

/* ---- Writing ------------------------------------------------------------------------------ */

/* Standard error may be shared with somebody who made it non-blocking. */
static bool wait_writable(void)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&fd, 1, -1) > 0 || errno == EINTR;
}

/* There is nobody to tell when standard error cannot be written. */
static void write_line(const char *line)
{
    size_t left = strlen(line);

    while (left > 0) {
        ssize_t written = write(STDERR_FILENO, line, left);
        if (written > 0) {
            line += written;
            left -= (size_t)written;
        } else if (errno == EAGAIN) {
            if (!wait_writable())
                return;
        } else if (errno != EINTR) {
            return;
        }
    }
}

/* A text without a newline stays until something else is written. */
static void write_over(const char *text)
{
    size_t length = strlen(text);

    if (printer.shown)
        write_line(WIPE);
    write_line(text);
    printer.shown = length > 0 && text[length - 1] != '\n';
}

/* ---- The queue: all with the lock held ---------------------------------------------------- */

static void append(const char *line)
{
    char *slot = printer.lines[(printer.first + printer.count) % CLI_PRINTER_LINES];

    if (snprintf(slot, CLI_PRINTER_LINE_MAX, "%s", line) >= CLI_PRINTER_LINE_MAX)
        slot[CLI_PRINTER_LINE_MAX - 2] = '\n';
    printer.count++;
    pthread_cond_signal(&printer.filled);
}

static void append_dropped(void)
{
    char line[128];

    snprintf(line, sizeof line,
             "simba: %llu messages are missing here: standard error was not being read\n",
             (unsigned long long)printer.dropped);
    append(line);
    printer.dropped = 0;
}

/* After a drop the count of what is missing comes first, so that it stands where they would. */
static void put(const char *line)
{
    size_t room = CLI_PRINTER_LINES - printer.count;

    if (room < (printer.dropped > 0 ? 2 : 1)) {
        printer.dropped++;
        return;
    }
    if (printer.dropped > 0)
        append_dropped();
    append(line);
}

/* ---- The thread --------------------------------------------------------------------------- */

/* The line stays in its place while it is written: nobody else touches the first one. */
static void *print(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&printer.lock);
    for (;;) {
        while (printer.count == 0)
            pthread_cond_wait(&printer.filled, &printer.lock);
        const char *line = printer.lines[printer.first];
        pthread_mutex_unlock(&printer.lock);
        write_over(line);
        pthread_mutex_lock(&printer.lock);
        printer.first = (printer.first + 1) % CLI_PRINTER_LINES;
        printer.count--;
        if (printer.count == 0 && printer.dropped > 0)
            append_dropped();
        if (printer.count == 0)
            pthread_cond_broadcast(&printer.emptied);
    }
    return NULL;
}

/* ---- The rest of the program -------------------------------------------------------------- */

/* All signals are for the main thread. */
static int start_thread(void)
{
    pthread_t thread;
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&thread, NULL, print, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure == 0)
        pthread_detach(thread);
    return failure;
}

void cli_printer_start(void)
{
    pthread_mutex_lock(&printer.lock);
    printer.queues = true;
    pthread_mutex_unlock(&printer.lock);
}

/* With the lock held: whether there is a thread for the queue. */
static bool has_thread(void)
{
    if (printer.queues && !printer.started)
        printer.started = start_thread() == 0;
    return printer.started;
}

void cli_printer_put(const char *line)
{
    pthread_mutex_lock(&printer.lock);
    bool queued = has_thread();
    if (queued)
        put(line);
    pthread_mutex_unlock(&printer.lock);
    if (!queued)
        write_line(line);
}

void cli_printer_show(const char *text)
{
    pthread_mutex_lock(&printer.lock);
    if (has_thread() && (printer.count == 0 || text[0] == 0) && printer.count < CLI_PRINTER_LINES)
        append(text);
    pthread_mutex_unlock(&printer.lock);
}

void cli_printer_finish(int limit_ms)
{
    struct timespec until;
    int late = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += limit_ms / 1000;
    until.tv_nsec += (long)(limit_ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&printer.lock);
    while (late == 0 && printer.count > 0)
        late = pthread_cond_clockwait(&printer.emptied, &printer.lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&printer.lock);
}
