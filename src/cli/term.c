/*
 * term.c - a mutex that is held without a command: printed for a shell, read from its environment.
 */
#include "cli/term.h"

#include "base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Naming a term --------------------------------------------------------------------------- */

static bool parse_fence(const char *text, uint64_t *ret_fence)
{
    char *end = NULL;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    uint64_t fence = strtoull(text, &end, 10);
    if (errno != 0 || *end != 0 || fence == 0)
        return false;
    *ret_fence = fence;
    return true;
}

bool cli_term_set_fence(void *into, const char *value)
{
    if (parse_fence(value, &((struct cli_term *)into)->fence))
        return true;
    cli_message("--fence: '%s' is not a fencing token", value);
    return false;
}

/* The variables of `simba lock` have the same names, but its term is no concern of a script: only
 * `acquire` tells a deadline or a keeper. */
static bool is_in_environment(const char *mutex)
{
    const char *about = getenv("SIMBA_MUTEX");

    return about != NULL && strcmp(about, mutex) == 0 &&
           (getenv("SIMBA_DEADLINE") != NULL || getenv("SIMBA_KEEPER") != NULL);
}

bool cli_term_find(struct cli_term *term, const struct cli *cli, const char *mutex)
{
    const char *length = getenv("SIMBA_FOR");
    const char *keeper = getenv("SIMBA_KEEPER");

    term->mutex = mutex;
    term->id = cli->exact_id != NULL ? cli->exact_id : cli->id;
    if (is_in_environment(mutex) && (term->id == NULL || term->fence == 0)) {
        const char *id = getenv("SIMBA_CONTENDER_ID");
        bool same = term->id == NULL || (id != NULL && strcmp(id, term->id) == 0);

        term->id = same ? id : term->id;
        if (same && term->fence == 0)
            parse_fence(getenv("SIMBA_FENCE"), &term->fence);
        if (same && keeper != NULL)
            term->keeper = strtol(keeper, NULL, 10);
        if (same && term->for_ms == SIMBA_UNSET && length != NULL &&
            simba_duration_parse(length, &term->for_ms, NULL) != SIMBA_OK)
            term->for_ms = SIMBA_UNSET;
    }
    return term->id != NULL && term->fence != 0;
}

int cli_term_check_for(const struct cli_term *term, const struct cli *cli)
{
    char low[32];
    char high[32];

    if (term->for_ms >= SIMBA_LEASE_MIN_MS && term->for_ms <= SIMBA_LEASE_MAX_MS)
        return CLI_CONTINUE;
    return cli_usage_error(cli, "--for can be from %s to %s",
                           simba_duration_format(SIMBA_LEASE_MIN_MS, low, sizeof low),
                           simba_duration_format(SIMBA_LEASE_MAX_MS, high, sizeof high));
}

/* ---- Printing -------------------------------------------------------------------------------- */

/* export NAME='value' */
static void print_word(const char *name, const char *value)
{
    printf("export %s='", name);
    for (; *value != 0; value++)
        fputs(*value == '\'' ? "'\\''" : (char[]){*value, 0}, stdout);
    fputs("'\n", stdout);
}

static void print_number(const char *name, int64_t number)
{
    printf("export %s=%" PRId64 "\n", name, number);
}

static void print_shell(const struct cli_term *term)
{
    char length[32];

    print_word("SIMBA_MUTEX", term->mutex);
    print_word("SIMBA_CONTENDER_ID", term->id);
    printf("export SIMBA_FENCE=%" PRIu64 "\n", term->fence);
    if (term->keeper != 0) {
        print_number("SIMBA_KEEPER", term->keeper);
        puts("unset SIMBA_DEADLINE SIMBA_FOR");
        return;
    }
    print_number("SIMBA_DEADLINE", simba_wall_ms(term->deadline_ms) / 1000);
    print_word("SIMBA_FOR", simba_duration_format(term->for_ms, length, sizeof length));
    puts("unset SIMBA_KEEPER");
}

static void print_json(const struct cli_term *term)
{
    bool kept = term->keeper != 0;
    int64_t left_ms = sb_time_left(term->deadline_ms, simba_now_ms());

    cli_json_string(stdout, "{\"mutex\":", term->mutex);
    cli_json_string(stdout, ",\"id\":", term->id);
    cli_json_fence(stdout, ",\"fence\":", term->fence);
    cli_json_number(stdout, ",\"deadline_ms\":", kept ? -1 : simba_wall_ms(term->deadline_ms), -1);
    cli_json_number(stdout, ",\"left_ms\":", kept ? -1 : left_ms, -1);
    cli_json_number(stdout, ",\"keeper\":", term->keeper, 0);
    fputs("}\n", stdout);
}

void cli_term_print(const struct cli_term *term)
{
    if (term->output.json)
        print_json(term);
    else
        print_shell(term);
}
