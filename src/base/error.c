/*
 * error.c - error codes, their texts and groups, the struct that callers pass, and the log.
 *
 * Owns the map from code to text. Must not know callers.
 */
#include "base/error.h"

#include "base/text.h"
#include "base/url.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

const char *simba_strerror(int code)
{
    switch (code) {
    case SIMBA_OK:
        return "no error";
#define TEXT_CASE(name, number, group, text)                                                       \
    case SIMBA_##name:                                                                             \
        return text;
        SIMBA_ERROR_MAP(TEXT_CASE)
#undef TEXT_CASE
    default:
        return "an error that this version does not know";
    }
}

enum simba_error_group simba_error_group(int code)
{
    switch (code) {
    case SIMBA_OK:
        return SIMBA_GROUP_NONE;
#define GROUP_CASE(name, number, group, text)                                                      \
    case SIMBA_##name:                                                                             \
        return SIMBA_GROUP_##group;
        SIMBA_ERROR_MAP(GROUP_CASE)
#undef GROUP_CASE
    default:
        return SIMBA_GROUP_MISUSE;
    }
}

#define WHOLE_MAX (PATH_MAX + 1024)

/* Formats aside first: the arguments may point into error->text, when one error wraps another. */
static void fill(struct simba_error *error, int code, int backend_code, const char *format,
                 va_list arguments)
{
    char text[WHOLE_MAX];
    char shown[WHOLE_MAX];

    if (vsnprintf(text, sizeof(text), format, arguments) < 0)
        text[0] = '\0';
    error->code = code;
    error->backend_code = backend_code;
    sb_text_fit(error->text, sizeof error->text, sb_url_redact_message(text, shown, sizeof shown));
}

int sb_error_set(struct simba_error *error, int code, const char *format, ...)
{
    va_list arguments;

    if (error == NULL)
        return code;
    va_start(arguments, format);
    fill(error, code, 0, format, arguments);
    va_end(arguments);
    return code;
}

int sb_error_set_backend(struct simba_error *error, int code, int backend_code, const char *format,
                         ...)
{
    va_list arguments;

    if (error == NULL)
        return code;
    va_start(arguments, format);
    fill(error, code, backend_code, format, arguments);
    va_end(arguments);
    return code;
}

int sb_error_plain(struct simba_error *error, int code)
{
    return sb_error_set(error, code, "%s", simba_strerror(code));
}

/* ---- The log --------------------------------------------------------------------------------- */

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
