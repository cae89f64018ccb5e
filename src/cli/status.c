/*
 * status.c - `simba status`: the owners of mutexes.
 */
#include "base/time.h"
#include "cli/cli.h"
#include "cli/last_run.h"
#include "cli/names.h"
#include "cli/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 10000

#define COLUMNS 8
#define CELL_MAX 160

struct status {
    struct cli_output output;
    bool held;     /* leave out what is free */
    bool all;      /* show it in the table, too */
    size_t hidden; /* free ones that are not shown */
    int argc;
    char **argv;
    struct cli_names names;
    bool asks_queue; /* a single mutex was named */
    bool has_queue;  /* the store has told it */
    struct simba_waiter *queue;
    size_t queue_count;
    struct cli_last_run last; /* of the same mutex */
    int64_t next_run_ms;      /* the same, by the store's clock; 0: not known */
    struct cli_names slots;   /* of the same, where it is a semaphore */
};

static struct status this_status;

static const struct cli_option options[] = {
    {'a', "all", NULL, "show the mutexes that are free, too", CLI_FLAG(struct status, all)},
    {0, "held", NULL, "leave them out of the JSON as well", CLI_FLAG(struct status, held)},
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
    int64_t held_ms; /* the same */
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
    struct row row = {.mutex = entry->mutex,
                      .owner = "",
                      .state = "free",
                      .waiters = entry->waiters,
                      .held_ms = -1};

    if (!is_held(entry, now_ms))
        return row;
    row.owner = owner->id;
    row.state = simba_owner_is_in_ttl(owner, now_ms) ? "held" : "transition";
    row.ttl_ms = left_ms(owner->ttl_at_ms, now_ms);
    row.transition_ms = left_ms(owner->transition_at_ms, now_ms);
    row.fence = owner->fence;
    if (entry->since_ms > 0)
        row.held_ms = sb_time_left(now_ms, entry->since_ms);
    return row;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

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
        cli_json_number(stdout, i > 0 ? "," : "", cli_waiter_waited_ms(&status->queue[i], now_ms),
                        -1);
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

/* null: it is no semaphore. */
static void print_json_slots(const struct status *status, int64_t now_ms)
{
    fputs(",\"slots\":", stdout);
    for (size_t i = 0; i < status->slots.count; i++) {
        struct row row = describe(&status->slots.list[i], now_ms);
        cli_json_string(stdout, i == 0 ? "[{\"owner\":" : ",{\"owner\":", row.owner);
        cli_json_number(stdout, ",\"transition_ms\":", row.transition_ms, -1);
        cli_json_fence(stdout, ",\"fence\":", row.fence);
        cli_json_number(stdout, ",\"held_ms\":", row.held_ms, -1);
        fputs("}", stdout);
    }
    fputs(status->slots.count > 0 ? "]" : "null", stdout);
}

static void print_json_row(const struct status *status, const struct row *row)
{
    cli_json_string(stdout, "{\"mutex\":", row->mutex);
    cli_json_string(stdout, ",\"owner\":", row->owner);
    printf(",\"state\":\"%s\"", row->state);
    cli_json_number(stdout, ",\"ttl_ms\":", row->ttl_ms, -1);
    cli_json_number(stdout, ",\"transition_ms\":", row->transition_ms, -1);
    cli_json_fence(stdout, ",\"fence\":", row->fence);
    cli_json_number(stdout, ",\"held_ms\":", row->held_ms, -1);
    cli_json_number(stdout, ",\"waiters\":", row->waiters, -1);
    if (status->asks_queue)
        print_json_queue(status, row);
    if (status->asks_queue)
        print_json_runs(status);
    if (status->asks_queue)
        print_json_slots(status, simba_now_ms());
    fputs("}", stdout);
}

static void print_json(const struct status *status, int64_t now_ms)
{
    fputs("[", stdout);
    for (size_t i = 0; i < status->names.count; i++) {
        struct row row = describe(&status->names.list[i], now_ms);
        fputs(i > 0 ? ",\n " : "", stdout);
        print_json_row(status, &row);
    }
    fputs("]\n", stdout);
}

/* ---- The table ------------------------------------------------------------------------------- */

struct cells {
    char text[COLUMNS][CELL_MAX];
};

static void format_row(const struct row *row, struct cells *cells)
{
    struct cli_id id;
    bool held = row->owner[0] != 0;

    cli_id_split(row->owner, &id);
    cli_text_printable(row->mutex, cells->text[0], CELL_MAX);
    cli_text_printable(held ? id.name : "(free)", cells->text[1], CELL_MAX);
    cli_text_printable(id.host[0] != 0 ? id.host : "-", cells->text[2], CELL_MAX);
    cli_text_duration(held ? row->held_ms : -1, cells->text[3], CELL_MAX);
    cli_text_duration(held ? row->transition_ms : -1, cells->text[4], CELL_MAX);
    cli_text_fence(row->fence, cells->text[5], CELL_MAX);
    snprintf(cells->text[6], CELL_MAX, row->waiters >= 0 ? "%" PRId64 : "-", row->waiters);
    cli_text_printable(id.note[0] != 0 ? id.note : "-", cells->text[7], CELL_MAX);
}

static void widen(size_t *widths, const struct cells *cells)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        size_t width = cli_text_width(cells->text[i]);
        if (width > widths[i])
            widths[i] = width;
    }
}

/* The last column is not padded, but its note may be long. */
static size_t line_width(const size_t *widths, size_t gap)
{
    size_t sum = 0;

    for (size_t i = 0; i < COLUMNS; i++)
        sum += widths[i] > 0 ? widths[i] + gap : 0;
    return sum - gap;
}

/* Returns how many spaces stand between two columns: one where two would be too much for the
 * terminal. Where that is too much, too, the columns go of which nothing is known: their width is
 * 0 then. The rest is never cut: an administrator copies it. */
static int fit(size_t *widths, const bool *known)
{
    size_t columns = cli_text_columns(STDOUT_FILENO);

    for (size_t i = 0; columns > 0 && i < COLUMNS; i++) {
        if (!known[i] && line_width(widths, 1) > columns)
            widths[i] = 0;
    }
    return columns == 0 || line_width(widths, 2) <= columns ? 2 : 1;
}

/* Pads by hand: printf counts bytes. */
static void print_cells(const size_t *widths, int gap, const struct cells *cells)
{
    int pad = 0;

    for (size_t i = 0; i < COLUMNS; i++) {
        if (widths[i] == 0)
            continue;
        printf("%*s%s", pad, "", cells->text[i]);
        pad = (int)(widths[i] - cli_text_width(cells->text[i])) + gap;
    }
    putchar('\n');
}

static void print_rows(const struct status *status, int64_t now_ms, const size_t *widths, int gap,
                       bool held)
{
    bool dim = !held && cli_text_in_colour(STDOUT_FILENO);
    struct cells cells;

    for (size_t i = 0; i < status->names.count; i++) {
        if (is_held(&status->names.list[i], now_ms) != held)
            continue;
        struct row row = describe(&status->names.list[i], now_ms);
        format_row(&row, &cells);
        fputs(dim ? "\033[2m" : "", stdout);
        print_cells(widths, gap, &cells);
        fputs(dim ? "\033[0m" : "", stdout);
    }
}

/* Held mutexes come first: a store that never forgets a name may have many that are free. */
static void print_table(const struct status *status, int64_t now_ms)
{
    static const struct cells heading = {
        {"MUTEX", "OWNER", "HOST", "SINCE", "LEASE", "FENCE", "WAITERS", "NOTE"}};
    size_t widths[COLUMNS] = {0};
    bool known[COLUMNS] = {false};
    struct cells cells;

    widen(widths, &heading);
    for (size_t i = 0; i < status->names.count; i++) {
        struct row row = describe(&status->names.list[i], now_ms);
        format_row(&row, &cells);
        widen(widths, &cells);
        for (size_t j = 0; j < COLUMNS; j++)
            known[j] = known[j] || strcmp(cells.text[j], "-") != 0;
    }
    int gap = fit(widths, known);
    print_cells(widths, gap, &heading);
    print_rows(status, now_ms, widths, gap, true);
    print_rows(status, now_ms, widths, gap, false);
    if (status->hidden > 0 && isatty(STDOUT_FILENO))
        printf("%zu free, not shown: simba status --all\n", status->hidden);
}

static void print_queue(const struct status *status)
{
    int64_t now_ms = simba_now_ms();
    char line[CLI_WAITER_MAX];

    if (status->queue_count > 0)
        puts("\nWaiting, the next one first:");
    for (size_t i = 0; i < status->queue_count; i++) {
        cli_waiter_describe(&status->queue[i], i + 1, now_ms, line);
        puts(line);
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
        putchar('\n');
        cli_result("Last run: %s%s", text,
                   status->last.state == CLI_RUN_RUNNING ? ", not ended" : "");
    }
    if (status->next_run_ms != 0 && left_ms > 0)
        printf("%sNext run: in %s\n", status->last.state == CLI_RUN_NONE ? "\n" : "",
               simba_duration_format(left_ms - left_ms % 1000, left, sizeof left));
}

/* ---- Both ------------------------------------------------------------------------------------ */

/* A table leaves out what is free, except for names that the user gave. JSON is for programs, which
 * want to know that a mutex is there. */
static bool shows(const struct status *status, const char *mutex)
{
    if (status->output.json)
        return !status->held;
    return status->all || (!status->held && cli_name_is_given(mutex, status->argc, status->argv));
}

/* The table has the slots in place of their gate, and tells how many are in use. */
static void show_slots(struct status *status, int64_t now_ms)
{
    struct status table = {.names = status->slots};
    size_t used = 0;

    for (size_t i = 0; i < table.names.count; i++) {
        table.names.list[i].waiters = -1; /* only the first in line waits there */
        used += is_held(&table.names.list[i], now_ms);
    }
    print_table(&table, now_ms);
    printf("\n%zu of %zu slots are in use.\n", used, table.names.count);
}

static void print(struct status *status)
{
    int64_t now_ms = simba_now_ms();
    size_t kept = 0;

    for (size_t i = 0; i < status->names.count; i++) {
        if (is_held(&status->names.list[i], now_ms) || shows(status, status->names.list[i].mutex))
            status->names.list[kept++] = status->names.list[i];
    }
    status->hidden = status->names.count - kept;
    status->names.count = kept;
    if (status->output.json) {
        print_json(status, now_ms);
        return;
    }
    bool one = status->names.count > 0;
    if (status->slots.count > 0)
        show_slots(status, now_ms);
    else
        print_table(status, now_ms);
    if (one)
        print_queue(status);
    if (status->asks_queue)
        print_runs(status);
}

/* ---- The verb -------------------------------------------------------------------------------- */

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
    if (status->has_queue && status->names.count > 0 && status->names.list[0].waiters < 0)
        status->names.list[0].waiters = (int64_t)status->queue_count;
}

/* Most stores have none. A client that may not read them sees none. */
static void ask_runs(simba_client *client, const char *mutex, struct status *status)
{
    struct simba_error ignored;

    if (cli_last_run_read(client, mutex, &status->last, &ignored) == SIMBA_OK)
        cli_next_run_read(client, mutex, &status->next_run_ms, &ignored);
}

/* The owner of the gate is the first in line. */
static int add_first_in_line(struct status *status, const struct simba_mutex_status *gate)
{
    struct simba_waiter *queue = calloc(status->queue_count + 1, sizeof *queue);

    if (queue == NULL)
        return cli_fail_system("the list of waiters");
    memcpy(queue->id, gate->owner.id, sizeof queue->id);
    queue->since_ms = gate->since_ms;
    if (status->queue_count > 0)
        memcpy(queue + 1, status->queue, status->queue_count * sizeof *queue);
    simba_free(status->queue);
    status->queue = queue;
    status->queue_count++;
    return CLI_EXIT_OK;
}

static int ask_slots(simba_client *client, const char *mutex, struct status *status)
{
    char names[SIMBA_SLOTS_MAX][SIMBA_MUTEX_MAX + 16];
    char *list[SIMBA_SLOTS_MAX];
    struct simba_error ignored; /* a client that may not read properties sees none */
    int slots = 0;

    int code = simba_semaphore_slots(client, mutex, TIMEOUT_MS, &slots, &ignored);
    if (code != SIMBA_OK || slots == 0)
        return CLI_EXIT_OK;
    for (int i = 0; i < slots; i++) {
        snprintf(names[i], sizeof names[i], "%s#%d", mutex, i);
        list[i] = names[i];
    }
    int result = cli_names_ask(client, slots, list, &status->slots);
    if (result == CLI_EXIT_OK && is_held(&status->names.list[0], simba_now_ms()))
        result = add_first_in_line(status, &status->names.list[0]);
    return result;
}

static int collect(const struct cli *cli, int argc, char **argv, struct status *status)
{
    simba_client *client = NULL;
    struct simba_error error;

    int code = cli_store_open_existing(cli, &client, &error);
    if (code == SIMBA_ENOTFOUND)
        return cli_names_assume_free(argc, argv, &status->names);
    if (code != SIMBA_OK)
        return cli_fail(&error);
    int result = cli_names_ask(client, argc, argv, &status->names);
    if (result == CLI_EXIT_OK && status->asks_queue) {
        ask_queue(client, argv[0], status);
        ask_runs(client, argv[0], status);
        result = ask_slots(client, argv[0], status);
    } else if (result == CLI_EXIT_OK) {
        cli_names_count_waiters(client, status->names.list, status->names.count, TIMEOUT_MS);
    }
    cli_store_close(client);
    return result;
}

static int run(struct cli *cli, int argc, char **argv)
{
    cli->show_store = !cli->quiet && isatty(STDERR_FILENO) && isatty(STDOUT_FILENO);
    this_status.argc = argc;
    this_status.argv = argv;
    this_status.asks_queue = argc == 1 && !cli_name_is_pattern(argv[0]);
    int result = collect(cli, argc, argv, &this_status);
    if (result == CLI_EXIT_OK)
        print(&this_status);
    cli_names_free(&this_status.names);
    cli_names_free(&this_status.slots);
    simba_free(this_status.queue);
    return result;
}

static const char details[] =
    "Shows who owns the mutexes NAME, those whose names match a PATTERN (with *, ? or\n"
    "[...], as the shell matches files), or all mutexes on the store: the owner's id,\n"
    "its host and its note (--note), which are parts of that id; since when it owns;\n"
    "the time until its lease ends unless it renews; the fencing token of its term;\n"
    "and how many contenders wait. A dash stands for what the store does not know.\n"
    "Only those that are held are shown, and every NAME that is given: with --all the\n"
    "free ones follow. SQL stores and Redis remember every name that was used; 'simba\n"
    "prune' removes those that nobody uses.\n"
    "Where a single NAME is given and the store knows who waits, they follow the\n"
    "table in the order of their turns; then the last and the next run, if the store\n"
    "remembers any. If NAME is a semaphore, the table has its slots, and the first in\n"
    "line comes first of those who wait.\n"
    "\n"
    "With --json it is an array of objects, in the order of the names, also of those\n"
    "that are free unless --held leaves them out: with mutex, owner (the whole id;\n"
    "empty:\n"
    "nobody), state (free, held, transition), ttl_ms and transition_ms (what is left:\n"
    "0 when it is free, null where the store has no leases), fence (null: free or not\n"
    "known), held_ms (for how long the owner has owned; null: the same) and waiters\n"
    "(null: not known). The object of a single NAME has queue, too: the ids of those\n"
    "who wait, in order, or null; queue_waited_ms: for how long each has waited, or\n"
    "null; last_run: the last run of 'simba schedule' or 'simba lock --once-per',\n"
    "with state (running, ended, stopped), by, started_ms, ended_ms and exit_code, or\n"
    "null; and next_run_ms. These times are milliseconds since 1970 by the store's\n"
    "clock. slots: of a semaphore an array with owner, transition_ms, fence and\n"
    "held_ms of each slot, or null; the owner of NAME is its first in line.\n"
    "\n"
    "Examples:\n"
    "  simba status\n"
    "  simba status 'nightly-*'\n"
    "  simba status --json backup | jq -r '.[0].owner'\n"
    "\n"
    "Exit codes: 0, or 64, 69, 77, 78 as 'simba --help' lists them. A mutex that the\n"
    "store does not know is free. A SQLite file that does not exist is not created:\n"
    "that is 69, or no mutex at all when it is the default store.";

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
