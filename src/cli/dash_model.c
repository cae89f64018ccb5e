/*
 * dash_model.c - the rows and terms of `simba dashboard`.
 *
 * A look tells who owns now. What has happened between two looks is concluded: a term that is gone
 * has ended. Terms that began and ended between two looks are not seen.
 */
#include "cli/dash_model.h"

#include "base/check.h"
#include "base/text.h"
#include "base/time.h"

#include <stdlib.h>
#include <string.h>

/* Answers tell the time left, so the end of a lease moves a little with each. */
#define END_MOVES_MS 500

bool cli_dash_init(struct cli_dash_model *model)
{
    model->terms = calloc(CLI_DASH_TERMS_MAX, sizeof *model->terms);
    return model->terms != NULL;
}

void cli_dash_free(struct cli_dash_model *model)
{
    for (size_t i = 0; i < model->count; i++)
        free(model->rows[i]);
    free(model->rows);
    free(model->terms);
    *model = (struct cli_dash_model){.rows = NULL};
}

/* ---- Terms ----------------------------------------------------------------------------------- */

const struct cli_dash_term *cli_dash_term(const struct cli_dash_model *model, uint64_t number)
{
    if (number == 0 || number + CLI_DASH_TERMS_MAX <= model->terms_end)
        return NULL;
    SB_CHECK(number <= model->terms_end, "a term has a number that was given");
    return &model->terms[(number - 1) % CLI_DASH_TERMS_MAX];
}

static void add_term(struct cli_dash_model *model, struct cli_dash_row *row,
                     const struct cli_dash_term *term)
{
    struct cli_dash_term *place = &model->terms[model->terms_end++ % CLI_DASH_TERMS_MAX];

    *place = *term;
    place->older = row->newest;
    row->newest = model->terms_end;
}

/* A token of 0 is not known: then the id alone tells terms apart. */
static bool is_same_term(const struct simba_owner *one, const struct simba_owner *other)
{
    return strcmp(one->id, other->id) == 0 &&
           (one->fence == 0 || other->fence == 0 || one->fence == other->fence);
}

/* How the term of a row has ended that another entry of the store has taken the place of. A healthy
 * owner renews when its ttl is over: a term whose owner had not, and whose lease is over, was
 * lost. */
static struct cli_dash_term end_term(const struct cli_dash_row *row,
                                     const struct simba_mutex_status *after, int64_t now_ms)
{
    struct cli_dash_term term = {.fence = row->now.owner.fence, .begin_ms = row->begin_ms};
    int64_t lease_end_ms = row->now.owner.transition_at_ms;
    bool lost = row->overdue && lease_end_ms <= now_ms &&
                (after->owner.id[0] == '\0' || after->since_ms == 0 ||
                 after->since_ms >= lease_end_ms || is_same_term(&row->now.owner, &after->owner));

    sb_text_copy(term.owner, sizeof term.owner, row->now.owner.id);
    term.how = lost                         ? CLI_DASH_LOST
               : after->owner.id[0] != '\0' ? CLI_DASH_HANDED_OVER
                                            : CLI_DASH_RELEASED;
    term.end_ms = simba_wall_ms(lost                  ? lease_end_ms
                                : after->since_ms > 0 ? sb_earlier(after->since_ms, now_ms)
                                                      : now_ms);
    term.end_ms = sb_max(term.end_ms, term.begin_ms);
    return term;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void begin_term(struct cli_dash_row *row, int64_t now_ms)
{
    int64_t since_ms = row->now.since_ms > 0 ? sb_earlier(row->now.since_ms, now_ms) : now_ms;
    int64_t wall_ms = simba_wall_ms(since_ms);

    row->begin_ms = wall_ms;
}

static void follow(struct cli_dash_model *model, struct cli_dash_row *row,
                   const struct simba_mutex_status *entry, int64_t now_ms)
{
    bool held = entry->owner.id[0] != '\0' && simba_owner_has_owner(&entry->owner, now_ms);
    struct simba_mutex_status after = *entry;
    bool had = row->now.owner.id[0] != '\0';

    if (!held)
        after.owner = (struct simba_owner)SIMBA_OWNER_NONE;
    bool goes_on = had && held && is_same_term(&row->now.owner, &after.owner);
    if (had && !goes_on) {
        struct cli_dash_term ended = end_term(row, &after, now_ms);
        add_term(model, row, &ended);
        model->handovers += held;
        model->losses += ended.how == CLI_DASH_LOST;
    }
    if (after.waiters < 0) /* a store that counts them only by listing them, which is done later */
        after.waiters = held ? row->now.waiters : 0;
    if (after.waiters == 0)
        row->oldest_wait_ms = 0;
    int64_t end_ms = !held || after.owner.transition_at_ms == SIMBA_INFINITE
                         ? SIMBA_INFINITE
                         : simba_wall_ms(after.owner.transition_at_ms);
    int64_t moved_ms = end_ms > row->end_ms ? sb_time_between(end_ms, row->end_ms)
                                            : sb_time_between(row->end_ms, end_ms);
    row->is_changed |=
        goes_on != (had || held) || moved_ms > END_MOVES_MS || after.waiters != row->now.waiters;
    if (moved_ms > END_MOVES_MS)
        row->end_ms = end_ms;
    row->now = after;
    row->overdue = held && !simba_owner_is_in_ttl(&after.owner, now_ms);
    if (held && !goes_on)
        begin_term(row, now_ms);
}

static struct cli_dash_row *make_row(const char *mutex)
{
    struct cli_dash_row *row = calloc(1, sizeof *row);

    if (row == NULL)
        return NULL;
    sb_text_copy(row->now.mutex, sizeof row->now.mutex, mutex);
    row->end_ms = SIMBA_INFINITE;
    row->is_changed = true;
    return row;
}

/* A mutex that the store does not name any more is free. Its row stays as long as the timeline
 * shows one of its terms. */
static bool is_kept(const struct cli_dash_model *model, const struct cli_dash_row *row,
                    int64_t now_ms)
{
    const struct cli_dash_term *last = cli_dash_term(model, row->newest);

    return last != NULL && last->end_ms > simba_wall_ms(now_ms) - CLI_DASH_HOUR_MS;
}

static size_t merge(struct cli_dash_model *model, const struct simba_mutex_status *list,
                    size_t count, int64_t now_ms, struct cli_dash_row **merged)
{
    size_t used = 0;
    size_t old = 0;
    size_t i = 0;

    while (i < count || old < model->count) {
        struct cli_dash_row *row = old < model->count ? model->rows[old] : NULL;
        int order = row == NULL ? 1 : i == count ? -1 : strcmp(row->now.mutex, list[i].mutex);
        if (order < 0) {
            struct simba_mutex_status gone = {.waiters = 0};
            sb_text_copy(gone.mutex, sizeof gone.mutex, row->now.mutex);
            follow(model, row, &gone, now_ms);
            old++;
            if (is_kept(model, row, now_ms))
                merged[used++] = row;
            else
                free(row);
            continue;
        }
        if (order > 0)
            row = make_row(list[i].mutex);
        else
            old++;
        if (row != NULL)
            follow(model, row, &list[i], now_ms);
        if (row != NULL)
            merged[used++] = row;
        i++;
    }
    return used;
}

bool cli_dash_look(struct cli_dash_model *model, const struct simba_mutex_status *list,
                   size_t count, int64_t now_ms)
{
    int64_t wall_ms = simba_wall_ms(now_ms);

    model->is_cut = count > CLI_DASH_ROWS_MAX;
    model->counts_waiters = count > 0 && list[0].waiters >= 0;
    if (model->is_cut)
        count = CLI_DASH_ROWS_MAX;
    struct cli_dash_row **merged = calloc(model->count + count + 1, sizeof *merged);
    if (merged == NULL)
        return false;
    if (cli_dash_away_ms(model) != 0)
        model->aways[(model->aways_end - 1) % CLI_DASH_AWAYS_MAX].to_ms = wall_ms;
    if (model->watched_ms == 0)
        model->watched_ms = wall_ms;
    model->count = merge(model, list, count, now_ms, merged);
    free(model->rows);
    model->rows = merged;
    return true;
}

struct cli_dash_row *cli_dash_find(const struct cli_dash_model *model, const char *mutex)
{
    size_t from = 0;
    size_t to = model->count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(model->rows[middle]->now.mutex, mutex);
        if (order == 0)
            return model->rows[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

/* ---- Times without an answer ----------------------------------------------------------------- */

int64_t cli_dash_away_ms(const struct cli_dash_model *model)
{
    const struct cli_dash_span *last = &model->aways[(model->aways_end - 1) % CLI_DASH_AWAYS_MAX];

    return model->aways_end > 0 && last->to_ms == 0 ? last->from_ms : 0;
}

void cli_dash_add_away(struct cli_dash_model *model, int64_t from_ms, int64_t to_ms)
{
    model->aways[model->aways_end++ % CLI_DASH_AWAYS_MAX] = (struct cli_dash_span){from_ms, to_ms};
}

void cli_dash_miss(struct cli_dash_model *model, int64_t since_ms)
{
    if (cli_dash_away_ms(model) == 0)
        cli_dash_add_away(model, since_ms, 0);
}

/* ---- History --------------------------------------------------------------------------------- */

static struct cli_dash_row *insert_row(struct cli_dash_model *model, const char *mutex)
{
    struct cli_dash_row **rows = realloc(model->rows, (model->count + 1) * sizeof *rows);
    size_t at = model->count;

    if (rows == NULL)
        return NULL;
    model->rows = rows;
    struct cli_dash_row *row = make_row(mutex);
    if (row == NULL)
        return NULL;
    for (; at > 0 && strcmp(rows[at - 1]->now.mutex, mutex) > 0; at--)
        rows[at] = rows[at - 1];
    rows[at] = row;
    model->count++;
    return row;
}

bool cli_dash_recall(struct cli_dash_model *model, const char *mutex,
                     const struct cli_dash_term *term)
{
    struct cli_dash_row *row = cli_dash_find(model, mutex);

    if (row == NULL && model->count < CLI_DASH_ROWS_MAX)
        row = insert_row(model, mutex);
    if (row == NULL)
        return false;
    add_term(model, row, term);
    row->told = row->newest;
    return true;
}
