/*
 * top_view.c - what `simba top` shows. Reads the model, changes only what is scrolled.
 */
#include "cli/top_view.h"

#include "base/text.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/names.h"
#include "cli/screen.h"
#include "cli/store.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS_MIN 40
#define ROWS_MIN 8
#define HEAD_ROWS 4 /* with the names of the columns */
#define UNLIMITED 4000

enum { MUTEX, OWNER, HOST, SINCE, LEASE, FENCE, WAITERS, HANDOVERS, NOTE, CELLS };

#define CELL_MAX 160

struct cells {
    char text[CELLS][CELL_MAX];
};

static void show(const struct cli_top_view *view, enum cli_style style, const char *text)
{
    if (view->live)
        cli_screen_line(style, text);
    else
        puts(text);
}

static const char *clock_time(time_t at, char buffer[16])
{
    struct tm tm;

    localtime_r(&at, &tm);
    strftime(buffer, 16, "%H:%M:%S", &tm);
    return buffer;
}

/* ---- The table ------------------------------------------------------------------------------- */

static void format_row(const struct cli_top_row *row, int64_t now_ms, struct cells *cells)
{
    const struct simba_owner *owner = &row->now.owner;
    int64_t end_ms = owner->transition_at_ms;
    bool held = owner->id[0] != 0;
    struct cli_id id;

    cli_id_split(owner->id, &id);
    cli_text_printable(row->now.mutex, cells->text[MUTEX], CELL_MAX);
    cli_text_printable(held ? id.name : "(free)", cells->text[OWNER], CELL_MAX);
    cli_text_printable(id.host[0] != 0 ? id.host : "-", cells->text[HOST], CELL_MAX);
    cli_text_printable(id.note[0] != 0 ? id.note : "-", cells->text[NOTE], CELL_MAX);
    cli_text_duration(held && row->now.since_ms > 0 ? sb_time_left(now_ms, row->now.since_ms) : -1,
                      cells->text[SINCE], CELL_MAX);
    cli_text_duration(held && end_ms != SIMBA_INFINITE ? sb_time_left(end_ms, now_ms) : -1,
                      cells->text[LEASE], CELL_MAX);
    cli_text_fence(owner->fence, cells->text[FENCE], CELL_MAX);
    snprintf(cells->text[WAITERS], CELL_MAX, row->now.waiters >= 0 ? "%" PRId64 : "-",
             row->now.waiters);
    snprintf(cells->text[HANDOVERS], CELL_MAX, "%" PRIu64, row->handovers);
}

static void widen(size_t *widths, const struct cells *cells)
{
    for (size_t i = 0; i < CELLS; i++) {
        size_t width = cli_text_width(cells->text[i]);
        widths[i] = width > widths[i] ? width : widths[i];
    }
}

/* With one column for the mark of the selected row. */
static size_t line_width(const size_t *widths, size_t gap)
{
    size_t sum = 0;

    for (size_t i = 0; i < CELLS; i++)
        sum += widths[i] > 0 ? widths[i] + gap : 0;
    return sum;
}

/* Narrows the widest of the columns that may be cut, down to `least`. Returns false where the rest
 * is still too wide. */
static bool narrow(size_t *widths, size_t columns, size_t least)
{
    static const size_t flexible[] = {MUTEX, OWNER, HOST, NOTE};

    while (line_width(widths, 1) > columns) {
        size_t widest = MUTEX;
        for (size_t i = 0; i < sizeof flexible / sizeof flexible[0]; i++)
            widest = widths[flexible[i]] > widths[widest] ? flexible[i] : widest;
        if (widths[widest] <= least)
            return false;
        widths[widest]--;
    }
    return true;
}

/* A width of 0 leaves a column out: first those that matter least. Returns the spaces between two
 * columns. */
static int fit(size_t widths[CELLS], size_t columns)
{
    static const size_t order[] = {NOTE, HANDOVERS, HOST, FENCE, WAITERS};
    size_t tried[CELLS];

    for (size_t dropped = 0; dropped <= sizeof order / sizeof order[0]; dropped++) {
        memcpy(tried, widths, sizeof tried);
        if (narrow(tried, columns, 14))
            break;
        if (dropped < sizeof order / sizeof order[0])
            widths[order[dropped]] = 0;
    }
    memcpy(widths, tried, sizeof tried);
    narrow(widths, columns, 4);
    return line_width(widths, 2) <= columns ? 2 : 1;
}

/* Numbers stand at the right of their column. Pads by hand: printf counts bytes. */
static void show_cells(const struct cli_top_view *view, enum cli_style style, char mark, int gap,
                       const size_t *widths, struct cells *cells)
{
    char line[UNLIMITED];
    struct sb_text text;

    sb_text_init(&text, line, sizeof line);
    for (size_t i = 0; i < CELLS; i++) {
        char *cell = cells->text[i];
        if (widths[i] == 0)
            continue;
        cli_text_shorten(cell, widths[i]);
        int pad = (int)(widths[i] - cli_text_width(cell));
        bool right = i >= SINCE && i <= HANDOVERS;
        sb_text_add(&text, "%-*c%*s%s", gap, i == MUTEX ? mark : ' ', right ? pad : 0, "", cell);
        if (!right && i != NOTE)
            sb_text_add(&text, "%*s", pad, "");
    }
    show(view, style, line);
}

static enum cli_style row_style(const struct cli_top_view *view, size_t place)
{
    const struct cli_top_row *row = view->model.shown[place];

    if (place == view->model.place)
        return CLI_STYLE_SELECTED;
    if (row->now.owner.id[0] == 0)
        return CLI_STYLE_DIM;
    return row->overdue ? CLI_STYLE_WARNING : CLI_STYLE_PLAIN;
}

static void show_table(struct cli_top_view *view, int64_t now_ms, size_t columns, size_t room)
{
    struct cells heading = {
        {"MUTEX", "OWNER", "HOST", "SINCE", "LEASE", "FENCE", "WAITERS", "HANDOVERS", "NOTE"}};
    const struct cli_top_model *model = &view->model;
    size_t widths[CELLS] = {0};
    struct cells cells;

    if (model->place < view->first)
        view->first = model->place;
    if (model->place >= view->first + room)
        view->first = model->place - room + 1;
    size_t end = view->first + room;
    end = end < model->shown_count ? end : model->shown_count;
    widen(widths, &heading);
    for (size_t i = view->first; i < end; i++) {
        format_row(model->shown[i], now_ms, &cells);
        widen(widths, &cells);
    }
    int gap = fit(widths, columns);
    show_cells(view, CLI_STYLE_BOLD, ' ', gap, widths, &heading);
    for (size_t i = view->first; i < end; i++) {
        bool selected = view->live && i == model->place;
        format_row(model->shown[i], now_ms, &cells);
        show_cells(view, row_style(view, i), selected ? '>' : ' ', gap, widths, &cells);
    }
    if (model->shown_count == 0 && view->answered_at != 0)
        show(view, CLI_STYLE_DIM,
             model->filter[0] != 0 ? "  no mutex matches the filter" : "  no mutex is held");
}

/* ---- The head -------------------------------------------------------------------------------- */

static void show_store(const struct cli_top_view *view, size_t columns)
{
    char answered[32] = "no answer yet";
    char store[CELL_MAX];
    char at[16];
    char line[CLI_TOP_TEXT_MAX];

    cli_text_printable(cli_store_shown() != NULL ? cli_store_shown() : "", store, sizeof store);
    if (view->answered_at != 0)
        snprintf(answered, sizeof answered, "answered %s", clock_time(view->answered_at, at));
    size_t room = columns - strlen("simba top  ") - strlen(answered) - 2;
    cli_text_shorten(store, room);
    snprintf(line, sizeof line, "simba top  %s%*s  %s", store,
             view->live ? (int)(room - cli_text_width(store)) : 0, "", answered);
    show(view, CLI_STYLE_BOLD, line);
}

static void show_totals(struct cli_top_view *view, int64_t now_ms)
{
    static const char *const sorts[] = {"name", "since", "waiters", "hand-overs"};
    struct cli_top_model *model = &view->model;
    char line[CLI_TOP_TEXT_MAX];
    struct sb_text text;

    sb_text_init(&text, line, sizeof line);
    sb_text_add(&text, "held %zu of %zu", model->held, model->count);
    if (model->waiting >= 0)
        sb_text_add(&text, "   waiting %" PRId64, model->waiting);
    else
        sb_text_add(&text, "   waiting -");
    if (view->live) /* a single look counts nothing */
        sb_text_add(&text, "   hand-overs %" PRIu64 "/min   losses %" PRIu64 "   by %s",
                    cli_top_handovers(model, now_ms), model->losses, sorts[model->sort]);
    if (model->filter[0] != 0)
        sb_text_add(&text, "   filter '%s'", model->filter);
    show(view, model->losses > 0 ? CLI_STYLE_WARNING : CLI_STYLE_PLAIN, line);
}

/* The store is away, or what was seen last. */
static void show_news(const struct cli_top_view *view, int64_t now_ms)
{
    const struct cli_top_event *event = &view->model.event;
    time_t event_at = time(NULL) - (time_t)((now_ms - event->at_ms) / 1000);
    const char *to = event->to[0] != 0 ? event->to : "nobody";
    char line[2 * CLI_TOP_TEXT_MAX] = "";
    char at[16];

    if (view->away_at != 0)
        snprintf(line, sizeof line, "THE STORE IS AWAY since %s: %s", clock_time(view->away_at, at),
                 view->reason);
    else if (event->what == CLI_TOP_HANDED_OVER)
        snprintf(line, sizeof line, "%s  %s has passed from %s to %s", clock_time(event_at, at),
                 event->mutex, event->from, to);
    else if (event->what == CLI_TOP_LOST)
        snprintf(line, sizeof line, "%s  %s: the lease of %s has run out; now with %s",
                 clock_time(event_at, at), event->mutex, event->from, to);
    show(view, view->away_at != 0 ? CLI_STYLE_ALARM : CLI_STYLE_DIM, line);
}

/* ---- Below the table ------------------------------------------------------------------------- */

static void show_queue(const struct cli_top_view *view, int64_t now_ms, size_t room)
{
    const struct cli_top_row *row = cli_top_selected(&view->model);
    bool known = row != NULL && strcmp(view->queue_of, row->now.mutex) == 0;
    char line[SIMBA_MUTEX_MAX + CLI_WAITER_MAX];

    snprintf(line, sizeof line,
             "Waiting for %s, the next one first:", row != NULL ? row->now.mutex : "-");
    show(view, CLI_STYLE_BOLD, line);
    if (!known)
        show(view, CLI_STYLE_DIM, "  ...");
    else if (!view->has_queue)
        show(view, CLI_STYLE_DIM, "  the store does not know who waits");
    else if (view->queue_count == 0)
        show(view, CLI_STYLE_DIM, "  nobody");
    for (size_t i = 0; known && view->has_queue && i < view->queue_count && i + 1 < room; i++) {
        cli_waiter_describe(&view->queue[i], i + 1, now_ms, line);
        if (i + 2 == room && i + 1 < view->queue_count)
            snprintf(line, sizeof line, "     and %zu more", view->queue_count - i);
        show(view, CLI_STYLE_PLAIN, line);
    }
}

static void show_help(const struct cli_top_view *view, size_t room)
{
    static const char *const lines[] = {
        "up, down, j, k, PgUp, PgDn, Home, End   select a mutex",
        "Enter   show who waits for it, or hide that",
        "h       ask its owner to hand it over; asks you first",
        "s       sort by name, since, waiters, hand-overs",
        "/       filter: a pattern (*, ?, [...]) of the name, or a part of name or owner",
        "a       show the mutexes that are free, too, or hide them",
        "q       quit",
        "",
        "hand-overs: mutexes that passed to another term in the last minute",
        "losses:     terms whose lease ran out since 'simba top' began",
        "yellow:     the owner is late to renew its lease",
        "(free):     became free in the last minute",
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0] && i < room; i++)
        show(view, CLI_STYLE_PLAIN, lines[i]);
}

static size_t show_too_small(const struct cli_top_view *view, size_t columns, size_t rows)
{
    char line[CELL_MAX];

    snprintf(line, sizeof line, "too small: %zux%zu", columns, rows);
    show(view, CLI_STYLE_PLAIN, line);
    if (rows > 1) {
        snprintf(line, sizeof line, "needs %dx%d", COLUMNS_MIN, ROWS_MIN);
        show(view, CLI_STYLE_PLAIN, line);
    }
    cli_screen_skip_to(rows);
    return 1;
}

static size_t show_screen(struct cli_top_view *view, int64_t now_ms, size_t columns, size_t rows)
{
    static const char keys[] = "q quit  ? help  s sort  / filter  Enter queue  h hand over  a all";
    static const char back[] = "any key: back";
    size_t queue_rows = view->shows_queue && !view->help ? rows / 3 : 0;
    size_t room = rows - HEAD_ROWS - 1 - queue_rows;

    show_store(view, columns);
    show_totals(view, now_ms);
    show_news(view, now_ms);
    if (view->help)
        show_help(view, room + 1);
    else
        show_table(view, now_ms, columns, room);
    cli_screen_skip_to(HEAD_ROWS + room);
    if (queue_rows > 0)
        show_queue(view, now_ms, queue_rows);
    cli_screen_skip_to(rows - 1);
    show(view, CLI_STYLE_BOLD, view->message[0] != 0 ? view->message : view->help ? back : keys);
    return room;
}

size_t cli_top_show(struct cli_top_view *view, int64_t now_ms)
{
    size_t columns;
    size_t rows;
    size_t room = 1;

    cli_screen_size(&columns, &rows);
    if (!view->live) {
        columns = cli_text_columns(STDOUT_FILENO);
        columns = columns > 0 ? columns : UNLIMITED;
        show_store(view, columns);
        show_totals(view, now_ms);
        show_table(view, now_ms, columns, view->model.shown_count + 1);
    } else if (columns < COLUMNS_MIN || rows < ROWS_MIN) {
        show_too_small(view, columns, rows);
    } else {
        room = show_screen(view, now_ms, columns, rows);
    }
    if (view->live)
        cli_screen_draw();
    return room;
}
