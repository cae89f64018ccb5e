/*
 * log.c - hands lines to the application's log hook.
 */
#include "base/log.h"

#include "base/url.h"

#include <stdio.h>

#define LINE_MAX_BYTES 1024 /* the text of an error, and where it comes from */

/* A line is one line: what a store says may hold a newline, and it must not forge an entry. */
static void flatten(char *line)
{
    for (; *line != '\0'; line++)
        if (*line == '\n' || *line == '\r')
            *line = ' ';
}

void sb_log_va(const struct sb_log *log, enum simba_log_level level, const char *format,
               va_list arguments)
{
    char line[LINE_MAX_BYTES];
    char shown[LINE_MAX_BYTES];

    if (log == NULL || log->fn == NULL || level == SIMBA_LOG_NONE || level > log->level)
        return;
    if (vsnprintf(line, sizeof(line), format, arguments) < 0)
        return;
    flatten(line);
    log->fn(log->user, level, sb_url_redact_message(line, shown, sizeof shown));
}

void sb_log(const struct sb_log *log, enum simba_log_level level, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    sb_log_va(log, level, format, arguments);
    va_end(arguments);
}
