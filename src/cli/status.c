/*
 * status.c - `simba status`: the owners of mutexes.
 */
#include "base/time.h"
#include "cli/cli.h"
#include "cli/last_run.h"
#include "cli/store.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 10000

#define COLUMNS 7
#define CELL_MAX 160

struct status {
    struct cli_output output;
    bool held; /* leave out what is free */
    struct simba_mutex_status *list;
    size_t count;
    bool asks_queue; /* a single mutex was named */
    bool has_queue;  /* the store has told it */
    struct simba_waiter *queue;
    size_t queue_count;
    struct cli_last_run last; /* of the same mutex */
    int64_t next_run_ms;      /* the same, by the store's clock; 0: not known */
};

static struct status this_status;

static const struct cli_option options[] = {
    {0, "held", NULL, "leave out the mutexes that are free", CLI_FLAG(struct status, held)},
    CLI_OPTION_JSON("print an array of JSON objects"),
    CLI_OPTIONS_END,
};

/* One mutex as it is shown. */
struct row {
    const char *mutex;
    const char *owner; /* "" when it is free */
    const char *state;
    int64_t ttl_ms;        /* left; -1: the store has no leases */
    int64_t transition_ms; /* the same */
    uint64_t fence;
    int64_t waiters; /* -1: not known */
};

static int64_t left_ms(int64_t at_ms, int64_t now_ms)
{
    return at_ms == SIMBA_INFINITE ? -1 : sb_time_left(at_ms, now_ms);
}

static bool is_held(const struct simba_mutex_status *entry, int64_t now_ms)
{
    return entry->owner.id[0] != 0 && simba_owner_has_owner(&entry->owner, now_ms);
}

static struct row describe(const struct simba_mutex_status *entry, int64_t now_ms)
{
    const struct simba_owner *owner = &entry->owner;
    struct row row = {
        .mutex = entry->mutex, .owner = "", .state = "free", .waiters = entry->waiters};

    if (!is_held(entry, now_ms))
        return row;
    row.owner = owner->id;
    row.state = simba_owner_is_in_ttl(owner, now_ms) ? "held" : "transition";
    row.ttl_ms = left_ms(owner->ttl_at_ms, now_ms);
    row.transition_ms = left_ms(owner->transition_at_ms, now_ms);
    row.fence = owner->fence;
    return row;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* -1: the store does not know since when it waits. */
static int64_t waited_ms(const struct simba_waiter *waiter, int64_t now_ms)
{
    return waiter->since_ms == 0 ? -1 : sb_time_left(now_ms, waiter->since_ms);
}

/* null: the store does not know its waiters; an empty array: there are none. */
static void print_json_queue(const struct status *status, const struct row *row)
{
    int64_t now_ms = simba_now_ms();

    if (row->waiters < 0 || !status->has_queue) {
        fputs(",\"queue\":null,\"queue_waited_ms\":null", stdout);
        return;
    }
    fputs(",\"queue\":[", stdout);
    for (size_t i = 0; i < status->queue_count; i++)
        cli_json_string(stdout, i > 0 ? "," : "", status->queue[i].id);
    fputs("],\"queue_waited_ms\":[", stdout);
    for (size_t i = 0; i < status->queue_count; i++)
        cli_json_number(stdout, i > 0 ? "," : "", waited_ms(&status->queue[i], now_ms), -1);
    fputs("]", stdout);
}

static void print_json_runs(const struct status *status)
{
    static const char *const states[] = {
        [CLI_RUN_RUNNING] = "running", [CLI_RUN_ENDED] = "ended", [CLI_RUN_STOPPED] = "stopped"};
    const struct cli_last_run *last = &status->last;

    if (last->state == CLI_RUN_NONE) {
        fputs(",\"last_run\":null", stdout);
    } else {
        printf(",\"last_run\":{\"state\":\"%s\"", states[last->state]);
        cli_json_string(stdout, ",\"by\":", last->by);
        cli_json_number(stdout, ",\"started_ms\":", last->started_ms, -1);
        cli_json_number(stdout, ",\"ended_ms\":", last->ended_ms, 0);
        cli_json_number(stdout,
                        ",\"exit_code\":", last->state == CLI_RUN_RUNNING ? -1 : last->status, -1);
        fputs("}", stdout);
    }
    cli_json_number(stdout, ",\"next_run_ms\":", status->next_run_ms, 0);
}

static void print_json_row(const struct status *status, const struct row *row)
{
    cli_json_string(stdout, "{\"mutex\":", row->mutex);
    cli_json_string(stdout, ",\"owner\":", row->owner);
    printf(",\"state\":\"%s\"", row->state);
    cli_json_number(stdout, ",\"ttl_ms\":", row->ttl_ms, -1);
    cli_json_number(stdout, ",\"transition_ms\":", row->transition_ms, -1);
    cli_json_fence(stdout, ",\"fence\":", row->fence);
    cli_json_number(stdout, ",\"waiters\":", row->waiters, -1);
    if (status->asks_queue)
        print_json_queue(status, row);
    if (status->asks_queue)
        print_json_runs(status);
    fputs("}", stdout);
}

static void print_json(const struct status *status, int64_t now_ms)
{
    fputs("[", stdout);
    for (size_t i = 0; i < status->count; i++) {
        struct row row = describe(&status->list[i], now_ms);
        fputs(i > 0 ? ",\n " : "", stdout);
        print_json_row(status, &row);
    }
    fputs("]\n", stdout);
}

/* ---- The table ------------------------------------------------------------------------------- */

struct cells {
    char text[COLUMNS][CELL_MAX];
};

/* Negative: not known. */
static void format_left(int64_t ms, char *cell)
{
    if (ms < 0)
        snprintf(cell, CELL_MAX, "-");
    else
        simba_duration_format(ms, cell, CELL_MAX);
}

static void format_row(const struct row *row, struct cells *cells)
{
    bool held = row->owner[0] != 0;

    cli_text_printable(row->mutex, cells->text[0], CELL_MAX);
    cli_text_printable(held ? row->owner : "-", cells->text[1], CELL_MAX);
    snprintf(cells->text[2], CELL_MAX, "%s", row->state);
    format_left(held ? row->ttl_ms : -1, cells->text[3]);
    format_left(held ? row->transition_ms : -1, cells->text[4]);
    cli_text_fence(row->fence, cells->text[5], CELL_MAX);
    snprintf(cells->text[6], CELL_MAX, row->waiters >= 0 ? "%" PRId64 : "-", row->waiters);
}

static void widen(size_t *widths, const struct cells *cells)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        size_t width = cli_text_width(cells->text[i]);
        if (width > widths[i])
            widths[i] = width;
    }
}

/* Pads by hand: printf counts bytes. */
static void print_cells(const size_t *widths, const struct cells *cells)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        fputs(cells->text[i], stdout);
        if (i + 1 < COLUMNS)
            printf("%*s", (int)(widths[i] - cli_text_width(cells->text[i]) + 2), "");
    }
    putchar('\n');
}

static void print_rows(const struct status *status, int64_t now_ms, const size_t *widths, bool held)
{
    struct cells cells;

    for (size_t i = 0; i < status->count; i++) {
        if (is_held(&status->list[i], now_ms) != held)
            continue;
        struct row row = describe(&status->list[i], now_ms);
        format_row(&row, &cells);
        print_cells(widths, &cells);
    }
}

/* Held mutexes come first: a store that never forgets a name may have many that are free. */
static void print_table(const struct status *status, int64_t now_ms)
{
    bool dim = cli_text_in_colour(STDOUT_FILENO);
    struct cells cells = {{"MUTEX", "OWNER", "STATE", "TTL", "TRANSITION", "FENCE", "WAITERS"}};
    struct cells heading = cells;
    size_t widths[COLUMNS] = {0};

    widen(widths, &heading);
    for (size_t i = 0; i < status->count; i++) {
        struct row row = describe(&status->list[i], now_ms);
        format_row(&row, &cells);
        widen(widths, &cells);
    }
    print_cells(widths, &heading);
    print_rows(status, now_ms, widths, true);
    fputs(dim ? "\033[2m" : "", stdout);
    print_rows(status, now_ms, widths, false);
    fputs(dim ? "\033[0m" : "", stdout);
}

static void print_queue(const struct status *status)
{
    int64_t now_ms = simba_now_ms();
    char id[CELL_MAX];
    char waited[32];

    if (status->queue_count > 0)
        puts("\nWaiting, the next one first:");
    for (size_t i = 0; i < status->queue_count; i++) {
        int64_t ms = waited_ms(&status->queue[i], now_ms);

        cli_text_printable(status->queue[i].id, id, CELL_MAX);
        if (ms < 0)
            printf("%3zu  %s\n", i + 1, id);
        else
            printf("%3zu  %s, for %s\n", i + 1, id,
                   simba_duration_format(ms < 1000 ? ms : ms / 1000 * 1000, waited, sizeof waited));
    }
}

/* A time that has passed is that of a schedule which nobody keeps any more, or which is about to
 * run. */
static void print_runs(const struct status *status)
{
    char last[CLI_LAST_RUN_TEXT_MAX];
    char text[CLI_LAST_RUN_TEXT_MAX];
    char left[32];
    int64_t left_ms = status->next_run_ms - status->last.store_ms;

    if (status->last.state != CLI_RUN_NONE) {
        cli_last_run_describe(&status->last, last);
        cli_text_printable(last, text, sizeof text);
        printf("\nLast run: %s%s\n", text,
               status->last.state == CLI_RUN_RUNNING ? ", not ended" : "");
    }
    if (status->next_run_ms != 0 && left_ms > 0)
        printf("%sNext run: in %s\n", status->last.state == CLI_RUN_NONE ? "\n" : "",
               simba_duration_format(left_ms - left_ms % 1000, left, sizeof left));
}

/* ---- Both ------------------------------------------------------------------------------------ */

static void print(struct status *status)
{
    int64_t now_ms = simba_now_ms();
    size_t kept = 0;

    for (size_t i = 0; i < status->count; i++) {
        if (!status->held || is_held(&status->list[i], now_ms))
            status->list[kept++] = status->list[i];
    }
    status->count = kept;
    if (status->output.json) {
        print_json(status, now_ms);
        return;
    }
    print_table(status, now_ms);
    if (status->count > 0)
        print_queue(status);
    if (status->asks_queue)
        print_runs(status);
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int append(struct status *status, const struct simba_mutex_status *list, size_t count)
{
    struct simba_mutex_status *grown =
        realloc(status->list, (status->count + count + 1) * sizeof *grown);

    if (grown == NULL)
        return cli_fail_system("status");
    if (count > 0)
        memcpy(grown + status->count, list, count * sizeof *grown);
    status->list = grown;
    status->count += count;
    return CLI_EXIT_OK;
}

static int ask(simba_client *client, const char *mutex, struct status *status)
{
    struct simba_mutex_status *list = NULL;
    struct simba_error error;
    size_t count = 0;

    if (simba_client_status(client, mutex, TIMEOUT_MS, &list, &count, &error) != SIMBA_OK)
        return cli_fail(&error);
    int result = append(status, list, count);
    simba_free(list);
    return result;
}

static bool is_pattern(const char *name)
{
    return strpbrk(name, "*?[") != NULL;
}

/* A mutex may have the name that is given as a pattern, too. */
static bool matches(const char *pattern, const char *mutex)
{
    return strcmp(pattern, mutex) == 0 || fnmatch(pattern, mutex, 0) == 0;
}

static int ask_pattern(simba_client *client, const char *pattern, struct status *status)
{
    size_t before = status->count;
    size_t kept = before;

    int result = ask(client, NULL, status);
    for (size_t i = before; result == CLI_EXIT_OK && i < status->count; i++) {
        if (matches(pattern, status->list[i].mutex))
            status->list[kept++] = status->list[i];
    }
    if (result == CLI_EXIT_OK)
        status->count = kept;
    return result;
}

/* A failure is no failure of the status: the owner is known all the same. Some stores count their
 * waiters only by listing them. */
static void ask_queue(simba_client *client, const char *mutex, struct status *status)
{
    struct simba_error error;
    int code =
        simba_client_queue(client, mutex, TIMEOUT_MS, &status->queue, &status->queue_count, &error);

    status->has_queue = code == SIMBA_OK;
    if (code != SIMBA_OK && code != SIMBA_EUNSUPPORTED)
        cli_message("warning: the waiters are not known: %s", error.text);
    if (status->has_queue && status->count > 0 && status->list[0].waiters < 0)
        status->list[0].waiters = (int64_t)status->queue_count;
}

/* Most stores have none. A client that may not read them sees none. */
static void ask_runs(simba_client *client, const char *mutex, struct status *status)
{
    struct simba_error ignored;

    if (cli_last_run_read(client, mutex, &status->last, &ignored) == SIMBA_OK)
        cli_next_run_read(client, mutex, &status->next_run_ms, &ignored);
}

/* One request for each name or pattern, or one for all that the store has. */
static int ask_all(simba_client *client, int argc, char **argv, struct status *status)
{
    int result = CLI_EXIT_OK;

    if (argc == 0)
        return ask(client, NULL, status);
    for (int i = 0; i < argc && result == CLI_EXIT_OK; i++)
        result = is_pattern(argv[i]) ? ask_pattern(client, argv[i], status)
                                     : ask(client, argv[i], status);
    if (result == CLI_EXIT_OK && status->asks_queue)
        ask_queue(client, argv[0], status);
    if (result == CLI_EXIT_OK && status->asks_queue)
        ask_runs(client, argv[0], status);
    return result;
}

/* The answer of a store that no process has used yet. */
static int assume_free(int argc, char **argv, struct status *status)
{
    struct simba_error error;
    int result = CLI_EXIT_OK;

    for (int i = 0; i < argc && result == CLI_EXIT_OK; i++) {
        struct simba_mutex_status entry = {.waiters = -1};
        if (simba_mutex_validate(argv[i], &error) != SIMBA_OK)
            return cli_fail(&error);
        if (is_pattern(argv[i])) /* no mutex matches it */
            continue;
        snprintf(entry.mutex, sizeof entry.mutex, "%s", argv[i]);
        result = append(status, &entry, 1);
    }
    return result;
}

static int collect(const struct cli *cli, int argc, char **argv, struct status *status)
{
    simba_client *client = NULL;
    struct simba_error error;

    int code = cli_store_open_existing(cli, &client, &error);
    if (code == SIMBA_ENOTFOUND)
        return assume_free(argc, argv, status);
    if (code != SIMBA_OK)
        return cli_fail(&error);
    int result = ask_all(client, argc, argv, status);
    cli_store_close(client);
    return result;
}

static int run(struct cli *cli, int argc, char **argv)
{
    cli->show_store = !cli->quiet && isatty(STDERR_FILENO) && isatty(STDOUT_FILENO);
    this_status.asks_queue = argc == 1 && !is_pattern(argv[0]);
    int result = collect(cli, argc, argv, &this_status);
    if (result == CLI_EXIT_OK)
        print(&this_status);
    free(this_status.list);
    simba_free(this_status.queue);
    return result;
}

static const char details[] =
    "Shows who owns the mutexes NAME, those whose names match a PATTERN (with *, ? or [...], as\n"
    "the shell matches files), or all mutexes on the store: the owner, the time until it\n"
    "renews (TTL) and until its lease ends (TRANSITION), the fencing token of its term and how\n"
    "many contenders wait. A dash stands for what the store does not know. A mutex is "
    "free,\n"
    "held, or in transition: not renewed yet, but nobody else may have it. Those that are free\n"
    "come last; SQL stores and Redis remember every name that was ever used. --held leaves them "
    "out.\n"
    "Where a single NAME is given and the store knows who waits, they follow the table in the "
    "order\n"
    "of their turns; then the last and the next run, if the store remembers any.\n"
    "\n"
    "With --json it is an array of objects, in the order of the names, with mutex, owner (empty:\n"
    "nobody), state (free, held, transition), ttl_ms and transition_ms (what is left: 0 when it "
    "is\n"
    "free, null where the store has no leases), fence (null: free or not known) and waiters "
    "(null:\n"
    "not known). The object of a single NAME has queue, too: the ids of those who wait, in order, "
    "or\n"
    "null; queue_waited_ms: for how long each has waited, or null; last_run: the last run of\n"
    "'simba schedule' or 'simba lock --once-per', with state (running, ended, stopped), by,\n"
    "started_ms, ended_ms and exit_code, or null; and next_run_ms. These times are milliseconds\n"
    "since 1970 by the store's clock.\n"
    "\n"
    "Examples:\n"
    "  simba status --held\n"
    "  simba status 'nightly-*'\n"
    "  simba status --json backup | jq -r '.[0].owner'\n"
    "\n"
    "Exit codes: 0, or 64, 69, 77, 78 as 'simba --help' lists them. A mutex that the store does "
    "not\n"
    "know is free. A SQLite file that does not exist is not created: that is 69, or no mutex at "
    "all\n"
    "when it is the default store.";

const struct cli_verb cli_verb_status = {
    .name = "status",
    .usage = "status [OPTION...] [NAME | PATTERN...]",
    .summary = "show who owns what, for how long, and who waits",
    .details = details,
    .options = options,
    .into = &this_status,
    .operands = CLI_OPERANDS_ANY,
    .run = run,
};
