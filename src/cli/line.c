/*
 * line.c - the form of a line on standard error: text, text with the time, or JSON.
 *
 * What a JSON line is about (mutex, id, fence, store) is set by those who know it, once; the texts
 * stay theirs and valid.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Bytes of what a line is about, so that it always fits into a line with its escapes. */
#define ABOUT_MAX 384

static const char name[] = "simba: ";

static struct {
    atomic_bool json;
    atomic_bool stamped;
    _Atomic(const char *) mutex;
    _Atomic(const char *) id;
    _Atomic(const char *) store;
    _Atomic uint64_t fence;
} form;

void cli_line_use_json(void)
{
    atomic_store(&form.json, true);
}

bool cli_line_is_json(void)
{
    return atomic_load(&form.json);
}

/* A terminal shows when something happens, and the journal writes it down itself. */
void cli_line_stamp(void)
{
    if (isatty(STDERR_FILENO) == 0 && getenv("JOURNAL_STREAM") == NULL)
        atomic_store(&form.stamped, true);
}

void cli_line_about(const char *mutex, const char *id)
{
    atomic_store(&form.mutex, mutex);
    atomic_store(&form.id, id);
}

void cli_line_about_store(const char *store)
{
    atomic_store(&form.store, store);
}

void cli_line_about_fence(uint64_t fence)
{
    atomic_store(&form.fence, fence);
}

static void print_about(FILE *stream, const char *key, const char *value)
{
    char cut[ABOUT_MAX];

    if (value == NULL)
        return;
    cli_text_printable(value, cut, sizeof cut);
    cli_json_string(stream, key, cut);
}

/* Returns false without memory. */
static bool write_json(const char *level, const char *text, char *line, size_t size)
{
    static const char warning[] = "warning: ";
    bool warns = strncmp(text, warning, strlen(warning)) == 0;
    FILE *stream = fmemopen(line, size, "w");
    uint64_t fence = atomic_load(&form.fence);

    if (stream == NULL)
        return false;
    fprintf(stream, "{\"at\":%" PRId64 ",\"level\":\"%s\"", simba_wall_ms(simba_now_ms()),
            warns ? "warning" : level);
    cli_json_string(stream, ",\"message\":", warns ? text + strlen(warning) : text);
    print_about(stream, ",\"mutex\":", atomic_load(&form.mutex));
    print_about(stream, ",\"id\":", atomic_load(&form.id));
    if (fence != 0)
        cli_json_fence(stream, ",\"fence\":", fence);
    print_about(stream, ",\"store\":", atomic_load(&form.store));
    fputs("}\n", stream);
    return fclose(stream) == 0;
}

static void write_time(char *buffer, size_t size)
{
    int64_t now_ms = simba_wall_ms(simba_now_ms());
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm parts;
    char text[32] = "";

    if (gmtime_r(&seconds, &parts) != NULL)
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(buffer, size, "%s.%03dZ ", text, (int)(now_ms % 1000));
}

static const char *colour_of(const char *level)
{
    if (!cli_text_in_colour(STDERR_FILENO))
        return "";
    return strcmp(level, "error") == 0     ? "\033[31m"
           : strcmp(level, "warning") == 0 ? "\033[33m"
                                           : "";
}

/* A terminal would break the line within a word. Returns false without memory. */
static bool write_flowing(const char *prefix, const char *text, size_t begin, size_t columns,
                          char line[CLI_MESSAGE_MAX])
{
    FILE *stream = fmemopen(line, CLI_MESSAGE_MAX, "w");

    if (stream == NULL)
        return false;
    fprintf(stream, "%s%s", name, prefix);
    cli_text_flow(stream, text, begin, strlen(name), columns);
    return fclose(stream) == 0;
}

void cli_line_write(const char *level, bool named, const char *text, char line[CLI_MESSAGE_MAX])
{
    const char *colour = named ? colour_of(level) : "";
    char time[48] = "";
    char prefix[48] = "";

    if (cli_line_is_json() && write_json(level, text, line, CLI_MESSAGE_MAX))
        return;
    if (atomic_load(&form.stamped))
        write_time(time, sizeof time);
    if (named)
        snprintf(prefix, sizeof prefix, "%s%s:%s ", colour, level, colour[0] != 0 ? "\033[0m" : "");
    size_t columns = cli_text_columns(STDERR_FILENO);
    size_t begin = strlen(name) + (named ? strlen(level) + strlen(": ") : 0);
    if (begin + cli_text_width(text) > columns && columns > 0 &&
        write_flowing(prefix, text, begin, columns, line))
        return;
    snprintf(line, CLI_MESSAGE_MAX, "%s%s%s%s\n", time, name, prefix, text);
}
