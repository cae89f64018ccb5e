/*
 * last_run.c - reads and writes the properties `last-run` and `next-run` of a mutex:
 *
 *     running 0 0 ID                 written when the command starts
 *     ended STATUS DURATION_MS ID    written when it has ended, over the other
 *     stopped STATUS DURATION_MS ID
 *
 * The store tells when it was written. So a run whose owner died is known by what was never
 * written. Anybody can write to the store: what makes no sense is no run.
 */
#include "cli/last_run.h"

#include "base/check.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST "last-run"
#define NEXT "next-run"

const char *const cli_run_properties[] = {LAST, NEXT, NULL};

static const char *const words[] = {[CLI_RUN_NONE] = "",
                                    [CLI_RUN_RUNNING] = "running",
                                    [CLI_RUN_ENDED] = "ended",
                                    [CLI_RUN_STOPPED] = "stopped"};

#define WORDS (sizeof words / sizeof words[0])

static enum cli_run_state read_state(const char **text)
{
    size_t length = strcspn(*text, " ");

    for (size_t i = CLI_RUN_RUNNING; i < WORDS; i++)
        if (strlen(words[i]) == length && strncmp(*text, words[i], length) == 0) {
            *text += length;
            return (enum cli_run_state)i;
        }
    return CLI_RUN_NONE;
}

/* A number from 0 to `most`, with a space before and behind it. */
static bool read_number(const char **text, int64_t most, int64_t *ret_number)
{
    char *end;

    if ((*text)[0] != ' ' || (*text)[1] < '0' || (*text)[1] > '9')
        return false;
    errno = 0;
    *ret_number = strtoll(*text + 1, &end, 10);
    *text = end;
    return errno == 0 && *ret_number <= most && *end == ' ';
}

/* Before the year 10000, so that sums and calendars have room. */
static bool is_time(int64_t ms)
{
    return ms > 0 && ms < INT64_C(253402300800000);
}

static void read_run(const struct simba_property *property, struct cli_last_run *run)
{
    const char *text = property->value;
    enum cli_run_state state = read_state(&text);
    int64_t duration_ms = 0;
    int64_t status = 0;

    *run = (struct cli_last_run){.store_ms = property->store_ms};
    if (!is_time(run->store_ms))
        run->store_ms = simba_wall_ms(simba_now_ms());
    if (state == CLI_RUN_NONE || !is_time(property->written_ms) ||
        !read_number(&text, 255, &status) ||
        !read_number(&text, property->written_ms, &duration_ms))
        return;
    run->state = state;
    run->status = (int)status;
    run->started_ms = property->written_ms - duration_ms;
    run->ended_ms = state == CLI_RUN_RUNNING ? 0 : property->written_ms;
    sb_text_copy(run->by, sizeof run->by, text + 1);
}

int cli_last_run_read(simba_client *client, const char *mutex, struct cli_last_run *ret_run,
                      struct simba_error *error)
{
    struct simba_property property;
    int code =
        simba_client_property_get(client, mutex, LAST, CLI_LAST_RUN_TIMEOUT_MS, &property, error);

    if (code == SIMBA_OK)
        read_run(&property, ret_run);
    return code;
}

static int write_run(simba_client *client, const char *mutex, const char *owner_id,
                     const struct cli_last_run *run, int64_t duration_ms, struct simba_error *error)
{
    char value[SIMBA_PROPERTY_VALUE_MAX + 1];
    struct sb_text text;

    SB_CHECK(run->state != CLI_RUN_NONE, "a run has a state");
    sb_text_init(&text, value, sizeof value);
    sb_text_add(&text, "%s %d %" PRId64 " %s", words[run->state], run->status, duration_ms,
                run->by);
    return simba_client_property_set(client, mutex, LAST, value, owner_id, CLI_LAST_RUN_TIMEOUT_MS,
                                     error);
}

int cli_last_run_write(simba_client *client, const char *mutex, const char *id,
                       enum cli_run_state state, int status, int64_t duration_ms,
                       struct simba_error *error)
{
    struct cli_last_run run = {.state = state, .status = status};

    sb_text_copy(run.by, sizeof run.by, id);
    return write_run(client, mutex, id, &run, duration_ms, error);
}

enum cli_run_state cli_last_run_state(const struct cli_outcome *outcome)
{
    bool ended = outcome->how == CLI_ENDED || outcome->how == CLI_ENDED_OVERDUE;

    return ended && outcome->signal == 0 ? CLI_RUN_ENDED : CLI_RUN_STOPPED;
}

int cli_next_run_read(simba_client *client, const char *mutex, int64_t *ret_at_ms,
                      struct simba_error *error)
{
    struct simba_property property;
    int code =
        simba_client_property_get(client, mutex, NEXT, CLI_LAST_RUN_TIMEOUT_MS, &property, error);

    if (code != SIMBA_OK)
        return code;
    *ret_at_ms = strtoll(property.value, NULL, 10);
    if (!is_time(*ret_at_ms))
        *ret_at_ms = 0;
    return SIMBA_OK;
}

int cli_next_run_write(simba_client *client, const char *mutex, const char *id, int64_t at_ms,
                       struct simba_error *error)
{
    char value[32];

    snprintf(value, sizeof value, "%" PRId64, at_ms);
    return simba_client_property_set(client, mutex, NEXT, value, id, CLI_LAST_RUN_TIMEOUT_MS,
                                     error);
}

static int64_t age_ms(const struct cli_last_run *run)
{
    return run->store_ms > run->started_ms ? run->store_ms - run->started_ms : 0;
}

int cli_runs_copy(simba_client *from, simba_client *to, const char *mutex, const char *to_id,
                  struct simba_error *error)
{
    struct cli_last_run run = {.state = CLI_RUN_NONE};
    struct cli_last_run there = run;
    int64_t next_ms = 0;
    int code = cli_last_run_read(from, mutex, &run, error);

    if (code == SIMBA_OK)
        code = cli_last_run_read(to, mutex, &there, error);
    if (code == SIMBA_OK)
        code = cli_next_run_read(from, mutex, &next_ms, error);
    if (code != SIMBA_OK || (there.state != CLI_RUN_NONE &&
                             (run.state == CLI_RUN_NONE || age_ms(&run) >= age_ms(&there))))
        return code;
    if (run.state != CLI_RUN_NONE)
        code = write_run(to, mutex, to_id, &run, age_ms(&run), error);
    if (code == SIMBA_OK && next_ms != 0)
        code = cli_next_run_write(to, mutex, to_id, next_ms - run.store_ms + there.store_ms, error);
    return code;
}

bool cli_last_run_counts(const struct cli_last_run *run, int64_t limit_ms, bool only_success)
{
    int64_t since_ms = run->store_ms - run->started_ms;

    if (run->state != CLI_RUN_ENDED || (only_success && run->status != 0))
        return false;
    return since_ms > -limit_ms && since_ms < limit_ms;
}

static void format(int64_t ms, char text[32])
{
    int64_t rounded_ms = ms < 0 ? 0 : ms >= 1000 ? ms - ms % 1000 : ms;

    simba_duration_format(rounded_ms, text, 32);
}

void cli_last_run_describe(const struct cli_last_run *run, char text[CLI_LAST_RUN_TEXT_MAX])
{
    struct sb_text buffer;
    char ago[32];
    char took[32];

    format(run->store_ms - run->started_ms, ago);
    format(run->ended_ms - run->started_ms, took);
    sb_text_init(&buffer, text, CLI_LAST_RUN_TEXT_MAX);
    sb_text_add(&buffer, "by %s %s ago", run->by, ago);
    if (run->state == CLI_RUN_ENDED)
        sb_text_add(&buffer, " in %s, with exit code %d", took, run->status);
    else if (run->state == CLI_RUN_STOPPED)
        sb_text_add(&buffer, ", stopped after %s", took);
}
