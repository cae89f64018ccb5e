/*
 * dash_json.c - writes a model as events for the page, and as metrics. Members have one letter,
 * because there are thousands of rows; page.js has the same list.
 *
 *   row   m mutex  o owner  h host  d note  n name  s since  x end of the lease  f token  w waiters
 *         q since when the first waits  r last run  y next run  e terms that have ended
 *   term  owner, token, begin, end, how
 */
#include "cli/dash_json.h"

#include "cli/cli.h"
#include "cli/names.h"

#include <inttypes.h>
#include <string.h>

/* The latest comes first; from the one that is behind `known`. */
static void write_terms(FILE *stream, const struct cli_dash_model *model,
                        const struct cli_dash_row *row, uint64_t known)
{
    const struct cli_dash_term *term;
    const char *before = ",\"e\":[[";

    for (uint64_t n = row->newest; n > known; n = term->older) {
        term = cli_dash_term(model, n);
        if (term == NULL)
            break;
        cli_json_string(stream, before, term->owner);
        fprintf(stream, ",\"%" PRIu64 "\",%" PRId64 ",%" PRId64 ",%d]", term->fence, term->begin_ms,
                term->end_ms, (int)term->how);
        before = ",[";
    }
    fputs(before[1] == '[' ? "]" : "", stream);
}

static void write_owner(FILE *stream, const struct cli_dash_row *row)
{
    struct cli_id id;

    cli_id_split(row->now.owner.id, &id);
    cli_json_string(stream, ",\"o\":", row->now.owner.id);
    cli_json_string(stream, ",\"n\":", id.name);
    cli_json_string(stream, ",\"h\":", id.host);
    cli_json_string(stream, ",\"d\":", id.note);
    fprintf(stream, ",\"s\":%" PRId64 ",\"f\":\"%" PRIu64 "\"", row->begin_ms,
            row->now.owner.fence);
    if (row->end_ms != SIMBA_INFINITE)
        fprintf(stream, ",\"x\":%" PRId64, row->end_ms);
}

static void write_runs(FILE *stream, const struct cli_dash_row *row)
{
    if (row->run.state != CLI_RUN_NONE)
        fprintf(stream, ",\"r\":[%d,%d,%" PRId64 ",%" PRId64 "]", (int)row->run.state,
                row->run.status, row->run.started_ms, row->run.ended_ms);
    if (row->next_run_ms != 0)
        fprintf(stream, ",\"y\":%" PRId64, row->next_run_ms);
}

static void write_row(FILE *stream, const struct cli_dash_model *model,
                      const struct cli_dash_row *row, uint64_t known, bool first)
{
    cli_json_string(stream, first ? "{\"m\":" : ",{\"m\":", row->now.mutex);
    if (row->now.owner.id[0] != '\0')
        write_owner(stream, row);
    if (row->now.waiters != 0)
        fprintf(stream, ",\"w\":%" PRId64, row->now.waiters);
    if (row->oldest_wait_ms != 0)
        fprintf(stream, ",\"q\":%" PRId64, simba_wall_ms(row->oldest_wait_ms));
    write_runs(stream, row);
    write_terms(stream, model, row, known);
    fputs("}", stream);
}

static void write_head(FILE *stream, const struct cli_dash_model *model,
                       const struct cli_dash_about *about)
{
    fprintf(stream, "{\"now\":%" PRId64 ",\"away\":%" PRId64, simba_wall_ms(simba_now_ms()),
            cli_dash_away_ms(model));
    cli_json_string(stream, ",\"why\":", about->why);
    fprintf(stream, ",\"losses\":%" PRIu64 ",\"handovers\":%" PRIu64 ",\"cut\":%s,\"spans\":[",
            model->losses, model->handovers, model->is_cut ? "true" : "false");
    uint64_t first =
        model->aways_end > CLI_DASH_AWAYS_MAX ? model->aways_end - CLI_DASH_AWAYS_MAX : 0;
    for (uint64_t i = first; i < model->aways_end; i++) {
        const struct cli_dash_span *span = &model->aways[i % CLI_DASH_AWAYS_MAX];
        fprintf(stream, "%s[%" PRId64 ",%" PRId64 "]", i > first ? "," : "", span->from_ms,
                span->to_ms);
    }
    fputs("]", stream);
}

void cli_dash_write_all(FILE *stream, const struct cli_dash_model *model,
                        const struct cli_dash_about *about)
{
    fputs("event: all\ndata: ", stream);
    write_head(stream, model, about);
    cli_json_string(stream, ",\"store\":", about->store);
    fprintf(stream, ",\"controls\":%s,\"watched\":%" PRId64 ",\"rows\":[",
            about->controls ? "true" : "false", model->watched_ms);
    for (size_t i = 0; i < model->count; i++)
        write_row(stream, model, model->rows[i], 0, i == 0);
    fputs("]}\n\n", stream);
}

void cli_dash_write_changes(FILE *stream, struct cli_dash_model *model,
                            const struct cli_dash_about *about)
{
    bool first = true;

    fputs("event: some\ndata: ", stream);
    write_head(stream, model, about);
    fprintf(stream, ",\"count\":%zu,\"rows\":[", model->count);
    for (size_t i = 0; i < model->count; i++) {
        struct cli_dash_row *row = model->rows[i];
        if (!row->is_changed)
            continue;
        write_row(stream, model, row, row->told, first);
        row->told = row->newest;
        row->is_changed = false;
        first = false;
    }
    fputs("]}\n\n", stream);
}

/* ---- Metrics --------------------------------------------------------------------------------- */

static void add(FILE *stream, const char *name, const char *help, uint64_t value)
{
    fprintf(stream, "# HELP %s %s\n# TYPE %s gauge\n%s %" PRIu64 "\n", name, help, name, name,
            value);
}

/* In OpenMetrics the total is a line of a counter, in the older format it is the counter. */
static void add_counter(FILE *stream, const char *name, const char *help, bool is_open,
                        uint64_t value)
{
    int length = (int)(strlen(name) - (is_open ? strlen("_total") : 0));

    fprintf(stream, "# HELP %.*s %s\n# TYPE %.*s counter\n%s %" PRIu64 "\n", length, name, help,
            length, name, name, value);
}

void cli_dash_write_metrics(FILE *stream, const struct cli_dash_model *model, bool is_open,
                            int64_t now_ms)
{
    uint64_t owned = 0;
    uint64_t unowned = 0;
    uint64_t waiters = 0;
    int64_t oldest_ms = now_ms;

    for (size_t i = 0; i < model->count; i++) {
        const struct cli_dash_row *row = model->rows[i];
        bool has_owner = row->now.owner.id[0] != '\0';
        owned += has_owner;
        waiters += row->now.waiters > 0 ? (uint64_t)row->now.waiters : 0;
        unowned += !has_owner && row->now.waiters > 0;
        if (row->oldest_wait_ms != 0 && simba_wall_ms(row->oldest_wait_ms) < oldest_ms)
            oldest_ms = simba_wall_ms(row->oldest_wait_ms);
    }
    add(stream, "simba_store_up", "1 if the store has answered the last look.",
        cli_dash_away_ms(model) == 0 && model->watched_ms != 0);
    add(stream, "simba_store_mutexes", "Mutexes that the store knows.", model->count);
    add(stream, "simba_store_owned", "Mutexes that have an owner.", owned);
    add(stream, "simba_store_unowned", "Mutexes that have waiters and no owner.", unowned);
    add(stream, "simba_store_waiters", "Contenders that wait.", waiters);
    add(stream, "simba_store_oldest_waiter_seconds", "For how long the oldest waiter waits.",
        (uint64_t)(now_ms - oldest_ms) / 1000);
    add_counter(stream, "simba_store_handovers_total", "Changes of owner that were seen.", is_open,
                model->handovers);
    add_counter(stream, "simba_store_losses_total", "Terms whose lease ran out, as seen.", is_open,
                model->losses);
    if (is_open)
        fputs("# EOF\n", stream);
}
