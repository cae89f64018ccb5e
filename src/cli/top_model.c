/*
 * top_model.c - the rows of `simba top`: what has happened between two looks, and what is shown.
 * Knows neither the store nor the screen.
 */
#include "cli/top_model.h"

#include "base/time.h"
#include "cli/names.h"

#include <stdlib.h>
#include <string.h>

/* ---- Two looks ------------------------------------------------------------------------------- */

static bool is_held(const struct simba_owner *owner, int64_t now_ms)
{
    return owner->id[0] != 0 && simba_owner_has_owner(owner, now_ms);
}

/* A token of 0 is not known: then the id alone tells terms apart. */
static bool is_same_term(const struct simba_owner *one, const struct simba_owner *other)
{
    return strcmp(one->id, other->id) == 0 &&
           (one->fence == 0 || other->fence == 0 || one->fence == other->fence);
}

/* Whether a term that is gone ended with its lease. A healthy owner renews at the end of the ttl.
 * So a term that was within its ttl at the last look, and is gone now, has been released, or has
 * been renewed meanwhile: with looks that are further apart than a lease nothing else is known.
 *
 *      last look              this look
 *   -------|-----------------------|------->
 *     ttl     transition ends            */
static bool has_run_out(const struct cli_top_row *before, const struct simba_mutex_status *after,
                        int64_t now_ms)
{
    int64_t end_ms = before->last.transition_at_ms;

    if (end_ms == SIMBA_INFINITE || end_ms > now_ms || !before->overdue)
        return false;
    return after->owner.id[0] == 0 || after->since_ms == 0 || after->since_ms >= end_ms ||
           is_same_term(&before->last, &after->owner);
}

/* Forgets the seconds that are older than a minute. */
static void pass_time(struct cli_top_model *model, int64_t now_ms)
{
    int64_t now_s = now_ms / 1000;

    if (now_s - model->counted_s > CLI_TOP_MINUTE_S)
        model->counted_s = now_s - CLI_TOP_MINUTE_S;
    while (model->counted_s < now_s)
        model->per_second[++model->counted_s % CLI_TOP_MINUTE_S] = 0;
}

static void note(struct cli_top_model *model, enum cli_top_change what,
                 const struct cli_top_row *before, const struct simba_owner *to, int64_t now_ms)
{
    struct cli_top_event *event = &model->event;

    event->what = what;
    event->at_ms = now_ms;
    memcpy(event->mutex, before->now.mutex, sizeof event->mutex);
    memcpy(event->from, before->last.id, sizeof event->from);
    memcpy(event->to, to->id, sizeof event->to);
}

/* The row of a mutex after this look. `before` is its row at the last one; NULL: it had none. */
static struct cli_top_row follow(struct cli_top_model *model, const struct cli_top_row *before,
                                 const struct simba_mutex_status *entry, int64_t now_ms)
{
    struct cli_top_row row = {.now = *entry, .last = SIMBA_OWNER_NONE};
    bool held = is_held(&entry->owner, now_ms);
    bool had = before != NULL && before->last.id[0] != 0;
    bool goes_on = had && held && is_same_term(&before->last, &entry->owner);

    if (!held)
        row.now.owner = (struct simba_owner)SIMBA_OWNER_NONE;
    if (before != NULL) {
        row.last = before->last;
        row.ended_ms = before->ended_ms;
        row.handovers = before->handovers;
    }
    bool lost = had && !goes_on && before->ended_ms == 0 && has_run_out(before, entry, now_ms);
    if (had && !goes_on && before->ended_ms == 0)
        row.ended_ms = now_ms;
    if (lost) {
        model->losses++;
        note(model, CLI_TOP_LOST, before, &row.now.owner, now_ms);
    }
    if (!held)
        return row;
    if (row.now.since_ms == 0 && before != NULL) /* a store that does not date its terms */
        row.now.since_ms = goes_on ? before->now.since_ms : now_ms;
    if (had && !goes_on) {
        row.handovers++;
        model->per_second[model->counted_s % CLI_TOP_MINUTE_S]++;
        if (!lost)
            note(model, CLI_TOP_HANDED_OVER, before, &row.now.owner, now_ms);
    }
    row.last = entry->owner;
    row.ended_ms = 0;
    row.overdue = !simba_owner_is_in_ttl(&entry->owner, now_ms);
    return row;
}

static int compare_entries(const void *one, const void *other)
{
    const struct simba_mutex_status *a = one;
    const struct simba_mutex_status *b = other;

    return strcmp(a->mutex, b->mutex);
}

static void count_totals(struct cli_top_model *model)
{
    model->held = 0;
    model->waiting = 0;
    for (size_t i = 0; i < model->count; i++) {
        model->held += model->rows[i].now.owner.id[0] != 0;
        if (model->rows[i].now.waiters < 0 && model->rows[i].now.owner.id[0] != 0)
            model->waiting = -1;
        else if (model->waiting >= 0 && model->rows[i].now.waiters > 0)
            model->waiting += model->rows[i].now.waiters;
    }
}

/* A mutex that the store does not name any more is free. Its row is kept for a minute. */
static bool is_kept(const struct cli_top_row *row, int64_t now_ms)
{
    return row->last.id[0] != 0 &&
           (row->ended_ms == 0 || now_ms - row->ended_ms < CLI_TOP_MINUTE_MS);
}

static size_t merge(struct cli_top_model *model, const struct simba_mutex_status *list,
                    size_t count, int64_t now_ms, struct cli_top_row *merged)
{
    size_t used = 0;
    size_t old = 0;

    for (size_t i = 0; i < count || old < model->count;) {
        const struct cli_top_row *before = old < model->count ? &model->rows[old] : NULL;
        int order = before == NULL ? 1 : -1;
        if (before != NULL && i < count)
            order = strcmp(before->now.mutex, list[i].mutex);
        if (order < 0) {
            struct simba_mutex_status gone = {.waiters = model->waiting < 0 ? -1 : 0};
            memcpy(gone.mutex, before->now.mutex, sizeof gone.mutex);
            if (is_kept(before, now_ms))
                merged[used++] = follow(model, before, &gone, now_ms);
            old++;
            continue;
        }
        merged[used++] = follow(model, order == 0 ? before : NULL, &list[i], now_ms);
        old += order == 0;
        i++;
    }
    return used;
}

bool cli_top_look(struct cli_top_model *model, const struct simba_mutex_status *list, size_t count,
                  int64_t now_ms)
{
    size_t room = count + model->count + 1;
    struct simba_mutex_status *sorted = malloc((count + 1) * sizeof *sorted);
    struct cli_top_row *merged = malloc(room * sizeof *merged);
    const struct cli_top_row **shown = malloc(room * sizeof *shown);

    if (sorted == NULL || merged == NULL || shown == NULL) {
        free(sorted);
        free(merged);
        free(shown);
        return false;
    }
    if (count > 0)
        memcpy(sorted, list, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_entries);
    pass_time(model, now_ms);
    size_t used = merge(model, sorted, count, now_ms, merged);
    free(sorted);
    free(model->rows);
    free(model->shown);
    model->rows = merged;
    model->count = used;
    model->shown = shown;
    model->looks++;
    count_totals(model);
    cli_top_arrange(model, now_ms);
    return true;
}

uint64_t cli_top_handovers(struct cli_top_model *model, int64_t now_ms)
{
    uint64_t sum = 0;

    pass_time(model, now_ms);
    for (size_t i = 0; i < CLI_TOP_MINUTE_S; i++)
        sum += model->per_second[i];
    return sum;
}

/* ---- What is shown --------------------------------------------------------------------------- */

/* A pattern is one of the names, as for `simba status`; any other text may stand anywhere in the
 * name or in the owner. */
static bool passes(const struct cli_top_model *model, const struct cli_top_row *row)
{
    char *filter = (char *)model->filter;

    if (cli_name_is_pattern(filter))
        return cli_name_is_meant(row->now.mutex, 1, &filter);
    return strstr(row->now.mutex, filter) != NULL || strstr(row->now.owner.id, filter) != NULL;
}

static bool is_shown(const struct cli_top_model *model, const struct cli_top_row *row,
                     int64_t now_ms)
{
    bool recent = row->ended_ms != 0 && now_ms - row->ended_ms < CLI_TOP_MINUTE_MS;

    return (model->all || row->now.owner.id[0] != 0 || row->now.waiters > 0 || recent) &&
           passes(model, row);
}

static int descending(int64_t one, int64_t other)
{
    return one > other ? -1 : one < other;
}

/* A free mutex has no term, and one that the store does not date comes behind those that it
 * does. */
static int64_t term_begin(const struct cli_top_row *row)
{
    if (row->now.owner.id[0] == 0)
        return INT64_MAX;
    return row->now.since_ms > 0 ? row->now.since_ms : INT64_MAX - 1;
}

static int compare_rows(const void *one, const void *other, void *user)
{
    const struct cli_top_row *a = *(const struct cli_top_row *const *)one;
    const struct cli_top_row *b = *(const struct cli_top_row *const *)other;
    const struct cli_top_model *model = user;
    int order = 0;

    if (model->sort == CLI_TOP_BY_SINCE)
        order = descending(term_begin(b), term_begin(a));
    else if (model->sort == CLI_TOP_BY_WAITERS)
        order = descending(a->now.waiters, b->now.waiters);
    else if (model->sort == CLI_TOP_BY_HANDOVERS)
        order = descending((int64_t)a->handovers, (int64_t)b->handovers);
    return order != 0 ? order : strcmp(a->now.mutex, b->now.mutex);
}

/* Selects the row at the place. */
static void select_place(struct cli_top_model *model)
{
    if (model->place >= model->shown_count)
        model->place = model->shown_count > 0 ? model->shown_count - 1 : 0;
    if (model->shown_count > 0)
        memcpy(model->selected, model->shown[model->place]->now.mutex, sizeof model->selected);
}

void cli_top_arrange(struct cli_top_model *model, int64_t now_ms)
{
    model->shown_count = 0;
    for (size_t i = 0; i < model->count; i++) {
        if (is_shown(model, &model->rows[i], now_ms))
            model->shown[model->shown_count++] = &model->rows[i];
    }
    if (model->shown_count > 0)
        qsort_r(model->shown, model->shown_count, sizeof *model->shown, compare_rows, model);
    for (size_t i = 0; i < model->shown_count; i++) {
        if (strcmp(model->shown[i]->now.mutex, model->selected) == 0)
            model->place = i;
    }
    select_place(model);
}

void cli_top_move(struct cli_top_model *model, int64_t by)
{
    int64_t to = (int64_t)model->place + by;

    model->place = to < 0 ? 0 : (size_t)to;
    select_place(model);
}

const struct cli_top_row *cli_top_selected(const struct cli_top_model *model)
{
    return model->shown_count > 0 ? model->shown[model->place] : NULL;
}

void cli_top_free(struct cli_top_model *model)
{
    free(model->rows);
    free(model->shown);
    *model = (struct cli_top_model){.rows = NULL};
}
