/*
 * say.c - what the program says on standard error, and the exit code that goes with it.
 */
#include "cli/say.h"

#include "base/url.h"
#include "cli/cli.h"
#include "cli/printer.h"
#include "cli/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024

/* Names and ids may come from the store: they must not reach the terminal unfiltered. Nor must a password that stands
 * where none belongs. */
static void print_line(const char *prefix, const char *line)
{
    char shown[LINE_MAX_BYTES];
    char safe[LINE_MAX_BYTES];
    char whole[CLI_PRINTER_LINE_MAX];

    cli_text_printable(sb_url_redact_message(line, shown, sizeof shown), safe, sizeof safe);
    snprintf(whole, sizeof whole, "simba: %s%s\n", prefix, safe);
    cli_printer_put(whole);
}

void cli_say(const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    print_line("", line);
}

/* ---- Warnings that are held back ---------------------------------------------------------- */

#define HELD_MAX 8

struct warning {
    char prefix[32];
    char line[LINE_MAX_BYTES];
};

static struct {
    pthread_mutex_t lock;
    bool on;
    struct warning warnings[HELD_MAX];
    size_t count;
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* "mutex 'm': cannot acquire: REASON" and "redis: REASON" tell the same. */
static bool tells_the_same(const char *line, const char *other)
{
    const char *reason = strstr(other, ": ");

    return strcmp(line, other) == 0 || (reason != NULL && strstr(line, reason) != NULL);
}

/* With the lock held. A reason that comes again is kept once; one for which there is no room is not kept. */
static bool hold(const char *prefix, const char *line)
{
    for (size_t i = 0; i < held.count; i++) {
        const char *kept = held.warnings[i].line;
        if (tells_the_same(kept, line) || tells_the_same(line, kept))
            return true;
    }
    if (held.count == HELD_MAX)
        return false;
    struct warning *warning = &held.warnings[held.count++];
    snprintf(warning->prefix, sizeof warning->prefix, "%s", prefix);
    snprintf(warning->line, sizeof warning->line, "%s", line);
    return true;
}

static bool keep(const char *prefix, const char *line)
{
    pthread_mutex_lock(&held.lock);
    bool kept = held.on && hold(prefix, line);
    pthread_mutex_unlock(&held.lock);
    return kept;
}

void cli_say_hold(void)
{
    pthread_mutex_lock(&held.lock);
    held.on = true;
    pthread_mutex_unlock(&held.lock);
}

/* "cannot acquire 'm': REASON" and "mutex 'm': cannot acquire: REASON" tell the same. */
static bool is_repetition(const char *line, const char *told)
{
    const char *name_end = told != NULL ? strstr(told, "': ") : NULL;

    return told != NULL && strstr(line, name_end != NULL ? name_end + 3 : told) != NULL;
}

void cli_say_resume(const char *told)
{
    pthread_mutex_lock(&held.lock);
    for (size_t i = 0; i < held.count; i++) {
        if (!is_repetition(held.warnings[i].line, told))
            print_line(held.warnings[i].prefix, held.warnings[i].line);
    }
    held.count = 0;
    held.on = false;
    pthread_mutex_unlock(&held.lock);
}

/* ---- The library ------------------------------------------------------------------------- */

void cli_say_log(void *user, enum simba_log_level level, const char *line)
{
    static const char *const prefixes[] = {
        [SIMBA_LOG_NONE] = "",       [SIMBA_LOG_ERROR] = "error: ", [SIMBA_LOG_WARN] = "warning: ",
        [SIMBA_LOG_INFO] = "info: ", [SIMBA_LOG_DEBUG] = "debug: ",
    };
    static const char *const coloured[] = {
        [SIMBA_LOG_NONE] = "",
        [SIMBA_LOG_ERROR] = "\033[31merror:\033[0m ",
        [SIMBA_LOG_WARN] = "\033[33mwarning:\033[0m ",
        [SIMBA_LOG_INFO] = "info: ",
        [SIMBA_LOG_DEBUG] = "debug: ",
    };

    const char *prefix = (cli_text_in_colour(STDERR_FILENO) ? coloured : prefixes)[level];

    (void)user;
    if (level != SIMBA_LOG_WARN || !keep(prefix, line))
        print_line(prefix, line);
}

/* ---- Errors ------------------------------------------------------------------------------- */

int cli_exit_code(int code)
{
    if (code == SIMBA_ENOTFOUND) /* a store that is missing: to try later would not help */
        return CLI_EXIT_UNAVAILABLE;
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
    cli_say("%s", error->text);
    return cli_exit_code(error->code);
}

int cli_fail_system(const char *what)
{
    cli_say("%s: %s", what, strerror(errno));
    return CLI_EXIT_SYSTEM;
}
