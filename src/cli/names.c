/*
 * names.c - the mutexes that a command line names. Owns what a pattern is.
 */
#include "cli/names.h"

#include "base/time.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 10000

bool cli_name_is_pattern(const char *name)
{
    return strpbrk(name, "*?[") != NULL;
}

/* A mutex may have the name that is given as a pattern, too. */
static bool matches(const char *pattern, const char *mutex)
{
    return strcmp(pattern, mutex) == 0 || fnmatch(pattern, mutex, 0) == 0;
}

bool cli_name_is_given(const char *mutex, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], mutex) == 0)
            return true;
    return false;
}

bool cli_name_is_meant(const char *mutex, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (matches(argv[i], mutex))
            return true;
    return argc == 0;
}

/* ---- Ids ------------------------------------------------------------------------------------- */

static void copy_part(char target[SIMBA_ID_MAX + 1], const char *from, const char *to)
{
    snprintf(target, SIMBA_ID_MAX + 1, "%.*s", (int)(to - from), from);
}

void cli_id_split(const char *id, struct cli_id *ret_id)
{
    const char *end = id + strlen(id);
    const char *note = strstr(id, " (");
    bool has_note = note != NULL && end[-1] == ')';
    const char *note_at = has_note ? note : end;
    const char *host = memchr(id, '@', (size_t)(note_at - id));
    const char *host_end = host != NULL ? memchr(host, '~', (size_t)(note_at - host)) : NULL;

    if (host_end == NULL)
        host_end = note_at;
    ret_id->host[0] = ret_id->note[0] = '\0';
    if (has_note)
        copy_part(ret_id->note, note + 2, end - 1);
    if (host == NULL) {
        copy_part(ret_id->name, id, note_at);
        return;
    }
    copy_part(ret_id->host, host + 1, host_end);
    snprintf(ret_id->name, sizeof ret_id->name, "%.*s%.*s", (int)(host - id), id,
             (int)(note_at - host_end), host_end);
}

/* ---- Waiters --------------------------------------------------------------------------------- */

int64_t cli_waiter_waited_ms(const struct simba_waiter *waiter, int64_t now_ms)
{
    return waiter->since_ms == 0 ? -1 : sb_time_left(now_ms, waiter->since_ms);
}

void cli_waiter_describe(const struct simba_waiter *waiter, size_t place, int64_t now_ms,
                         char line[CLI_WAITER_MAX])
{
    int64_t ms = cli_waiter_waited_ms(waiter, now_ms);
    char id[SIMBA_ID_MAX + 1];
    char waited[32];

    cli_text_printable(waiter->id, id, sizeof id);
    cli_text_duration(ms, waited, sizeof waited);
    snprintf(line, CLI_WAITER_MAX, "%3zu  %s%s%s", place, id, ms < 0 ? "" : ", for ",
             ms < 0 ? "" : waited);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static int append(struct cli_names *names, const struct simba_mutex_status *list, size_t count)
{
    struct simba_mutex_status *grown =
        realloc(names->list, (names->count + count + 1) * sizeof *grown);

    if (grown == NULL)
        return cli_fail_system("the list of mutexes");
    if (count > 0)
        memcpy(grown + names->count, list, count * sizeof *grown);
    names->list = grown;
    names->count += count;
    return CLI_EXIT_OK;
}

static int ask(simba_client *client, const char *mutex, struct cli_names *names)
{
    struct simba_mutex_status *list = NULL;
    struct simba_error error;
    size_t count = 0;

    if (simba_client_status(client, mutex, TIMEOUT_MS, &list, &count, &error) != SIMBA_OK)
        return cli_fail(&error);
    int result = append(names, list, count);
    simba_free(list);
    return result;
}

static int ask_pattern(simba_client *client, const char *pattern, struct cli_names *names)
{
    size_t before = names->count;
    size_t kept = before;

    int result = ask(client, NULL, names);
    for (size_t i = before; result == CLI_EXIT_OK && i < names->count; i++) {
        if (matches(pattern, names->list[i].mutex))
            names->list[kept++] = names->list[i];
    }
    if (result == CLI_EXIT_OK)
        names->count = kept;
    return result;
}

int cli_names_ask(simba_client *client, int argc, char **argv, struct cli_names *names)
{
    int result = CLI_EXIT_OK;

    if (argc == 0)
        return ask(client, NULL, names);
    for (int i = 0; i < argc && result == CLI_EXIT_OK; i++)
        result = cli_name_is_pattern(argv[i]) ? ask_pattern(client, argv[i], names)
                                              : ask(client, argv[i], names);
    return result;
}

#define COUNTED_MAX 64

void cli_names_count_waiters(simba_client *client, struct simba_mutex_status *list, size_t count,
                             int64_t timeout_ms)
{
    struct simba_error ignored; /* the number stays unknown */
    size_t counted = 0;
    int code = SIMBA_OK;

    for (size_t i = 0; i < count && counted < COUNTED_MAX && code == SIMBA_OK; i++) {
        struct simba_waiter *queue = NULL;
        size_t waiters = 0;

        if (list[i].waiters >= 0 || list[i].owner.id[0] == 0)
            continue;
        code = simba_client_queue(client, list[i].mutex, timeout_ms, &queue, &waiters, &ignored);
        if (code == SIMBA_OK)
            list[i].waiters = (int64_t)waiters;
        simba_free(queue);
        counted++;
    }
}

void cli_names_drop_invalid(struct cli_names *names)
{
    size_t kept = 0;
    struct simba_error error;

    for (size_t i = 0; i < names->count; i++) {
        if (simba_mutex_validate(names->list[i].mutex, &error) == SIMBA_OK)
            names->list[kept++] = names->list[i];
    }
    if (kept < names->count)
        cli_message("left out %zu of %zu names, which no contender can have: %s",
                    names->count - kept, names->count, error.text);
    names->count = kept;
}

int cli_names_assume_free(int argc, char **argv, struct cli_names *names)
{
    struct simba_error error;
    int result = CLI_EXIT_OK;

    for (int i = 0; i < argc && result == CLI_EXIT_OK; i++) {
        struct simba_mutex_status entry = {.waiters = -1};
        if (simba_mutex_validate(argv[i], &error) != SIMBA_OK)
            return cli_fail(&error);
        if (cli_name_is_pattern(argv[i])) /* no mutex matches it */
            continue;
        snprintf(entry.mutex, sizeof entry.mutex, "%s", argv[i]);
        result = append(names, &entry, 1);
    }
    return result;
}

void cli_names_free(struct cli_names *names)
{
    free(names->list);
    *names = (struct cli_names){.list = NULL};
}
