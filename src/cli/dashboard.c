/*
 * dashboard.c - `simba dashboard`: looks at a store at intervals, and tells the pages.
 *
 * The main thread waits for signals and for the end of a look, which runs on the background thread.
 * The web server's thread answers: see dash_site.h.
 */
#include "base/text.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/dash_history.h"
#include "cli/dash_site.h"
#include "cli/events.h"
#include "cli/store.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEFAULT_ADDRESS "9465"

/* Mutexes whose queue, and whose runs, are asked for with each look, in turn. */
#define QUEUES 8
#define RUNS 8

static struct dashboard {
    const char *listen;
    const char *token_path;
    struct cli_dash_history history;

    struct cli_dash_site site;
    struct cli_look look;
    bool answered;       /* the store has, once */
    bool has_no_runs;    /* the store keeps none, or does not show them */
    int64_t answered_ms; /* the last one that was answered; 0: none */
    size_t queue_at;     /* where the turns of the mutexes are */
    size_t held_at;
    size_t scheduled_at;
    size_t run_at;
} dashboard = {.listen = DEFAULT_ADDRESS, .look = {.interval_ms = 500}};

static const struct cli_option options[] = {
    CLI_OPTION_LISTEN(struct dashboard, listen,
                      "serve the page at PORT, ADDRESS:PORT or unix:PATH (9465)"),
    {0, "interval", "DURATION", "the time between two looks at the store (500ms)",
     CLI_INTERVAL(struct dashboard, look.interval_ms)},
    {0, "history", "FILE", "keep the last hour in a file, too",
     CLI_TEXT(struct dashboard, history.path)},
    {0, "allow-handover", "FILE", "let those hand over and release who have the token in it",
     CLI_TEXT(struct dashboard, token_path)},
    CLI_OPTIONS_END,
};

/* ---- What a look asks ------------------------------------------------------------------------ */

static struct cli_look_detail *add_detail(struct cli_look *look, const char *mutex)
{
    for (size_t i = 0; i < look->detail_count; i++) {
        if (strcmp(look->details[i].mutex, mutex) == 0)
            return &look->details[i];
    }
    if (look->detail_count == CLI_LOOK_DETAILS_MAX)
        return NULL;
    struct cli_look_detail *detail = &look->details[look->detail_count++];
    sb_text_copy(detail->mutex, sizeof detail->mutex, mutex);
    return detail;
}

static bool has_queue(const struct cli_dash_row *row)
{
    return row->now.waiters > 0;
}

static bool is_scheduled(const struct cli_dash_row *row)
{
    return row->is_scheduled;
}

static bool is_held(const struct cli_dash_row *row)
{
    return row->now.owner.id[0] != '\0';
}

static bool is_any(const struct cli_dash_row *row)
{
    return row->now.mutex[0] != '\0';
}

/* Chooses the next ones of those that are meant, in their order, and goes round. */
static void choose(struct dashboard *d, size_t *at, size_t count,
                   bool (*is_meant)(const struct cli_dash_row *row), bool runs)
{
    const struct cli_dash_model *model = &d->site.model;

    for (size_t seen = 0; seen < model->count && count > 0; seen++) {
        *at = *at + 1 < model->count ? *at + 1 : 0;
        if (!is_meant(model->rows[*at]))
            continue;
        struct cli_look_detail *detail = add_detail(&d->look, model->rows[*at]->now.mutex);
        if (detail == NULL)
            return;
        detail->asks_queue |= !runs;
        detail->asks_runs |= runs;
        count--;
    }
}

static void choose_details(struct dashboard *d)
{
    int64_t now_ms = simba_now_ms();

    for (size_t i = 0; i < CLI_DASH_WATCHED_MAX; i++) {
        const struct cli_dash_watched *w = &d->site.watched[i];
        struct cli_look_detail *detail =
            w->until_ms > now_ms ? add_detail(&d->look, w->mutex) : NULL;
        if (detail != NULL)
            detail->asks_queue = true;
    }
    choose(d, &d->queue_at, QUEUES / 2, has_queue, false);
    if (!d->site.model.counts_waiters)
        choose(d, &d->held_at, QUEUES / 2, is_held, false);
    if (d->has_no_runs)
        return;
    choose(d, &d->scheduled_at, RUNS / 2, is_scheduled, true);
    choose(d, &d->run_at, RUNS / 2, is_any, true);
}

static bool start_look(struct dashboard *d)
{
    eventfd_t count;

    pthread_mutex_lock(&d->site.lock);
    choose_details(d);
    d->look.action = d->site.action;
    d->site.action.what = CLI_LOOK_NOTHING;
    pthread_mutex_unlock(&d->site.lock);
    eventfd_read(d->site.wake_fd, &count);
    return cli_look_start(&d->look);
}

/* ---- What came of it ------------------------------------------------------------------------- */

static void take_queue(struct dashboard *d, struct cli_look_detail *detail,
                       struct cli_dash_row *row)
{
    bool known = detail->queue_code == SIMBA_OK;
    int64_t oldest_ms = known && detail->queue_count > 0 ? detail->queue[0].since_ms : 0;

    for (size_t i = 0; row != NULL && i < CLI_DASH_WATCHED_MAX; i++) {
        struct cli_dash_watched *w = &d->site.watched[i];
        if (w->until_ms == 0 || strcmp(w->mutex, detail->mutex) != 0)
            continue;
        simba_free(w->queue);
        w->queue = detail->queue;
        w->count = detail->queue_count;
        w->code = detail->queue_code;
        w->is_known = true;
        detail->queue = NULL;
        break;
    }
    if (row == NULL || !known)
        return;
    row->is_changed |= row->now.waiters != (int64_t)detail->queue_count ||
                       (row->oldest_wait_ms == 0) != (oldest_ms == 0);
    row->now.waiters = (int64_t)detail->queue_count;
    row->oldest_wait_ms = oldest_ms;
}

static void take_runs(struct dashboard *d, const struct cli_look_detail *detail,
                      struct cli_dash_row *row)
{
    if (detail->run_code == SIMBA_EUNSUPPORTED || detail->run_code == SIMBA_EDENIED)
        d->has_no_runs = true;
    if (row == NULL || detail->run_code != SIMBA_OK)
        return;
    row->is_changed |= row->run.state != detail->run.state ||
                       row->run.started_ms != detail->run.started_ms ||
                       row->next_run_ms != detail->next_run_ms;
    row->run = detail->run;
    row->next_run_ms = detail->next_run_ms;
    row->is_scheduled = detail->run.state != CLI_RUN_NONE;
}

static void take_details(struct dashboard *d)
{
    for (size_t i = 0; i < d->look.detail_count; i++) {
        struct cli_look_detail *detail = &d->look.details[i];
        struct cli_dash_row *row = cli_dash_find(&d->site.model, detail->mutex);
        if (detail->asks_queue)
            take_queue(d, detail, row);
        if (detail->asks_runs)
            take_runs(d, detail, row);
    }
}

/* Who has asked for what, and what became of it, also where it failed. */
static void take_action(struct dashboard *d)
{
    const struct cli_look_action *action = &d->look.action;
    const char *failure = cli_look_action_failure(&d->look);
    char mutex[SIMBA_MUTEX_MAX + 1];
    char owner[SIMBA_ID_MAX + 1];

    if (action->what == CLI_LOOK_NOTHING)
        return;
    cli_text_printable(action->mutex, mutex, sizeof mutex);
    cli_text_printable(action->owner.id, owner, sizeof owner);
    cli_message("%s of '%s' from %s, fence %" PRIu64 ", asked for by %s%s%s",
                action->what == CLI_LOOK_RELEASE ? "release" : "hand-over", mutex, owner,
                action->owner.fence,
                action->client[0] != '\0' ? action->client : "a client of the unix socket",
                failure[0] == '\0' ? "" : ", failed: ", failure);
    cli_dash_tell_action(&d->site, action, failure);
}

static void miss(struct dashboard *d, const char *why)
{
    int64_t since_ms = d->answered_ms != 0 ? d->answered_ms : d->look.asked_ms;

    sb_text_copy(d->site.why, sizeof d->site.why, why);
    cli_dash_miss(&d->site.model, simba_wall_ms(since_ms));
    cli_dash_tell_changes(&d->site);
}

/* Returns CLI_CONTINUE, or the exit code of an error that does not heal by itself. */
static int take_answer(struct dashboard *d)
{
    struct cli_look *look = &d->look;

    if (look->code != SIMBA_OK) {
        if (!d->answered && cli_exit_code(look->code) != CLI_EXIT_UNAVAILABLE)
            return cli_fail(&look->error);
        miss(d, look->error.text);
        return CLI_CONTINUE;
    }
    if (!cli_dash_look(&d->site.model, look->list, look->count, look->begun_ms))
        return CLI_EXIT_SYSTEM;
    take_details(d);
    d->answered = true;
    d->answered_ms = look->ended_ms;
    d->site.why[0] = '\0';
    cli_dash_history_write(&d->history, &d->site.model);
    cli_dash_tell_changes(&d->site);
    return CLI_CONTINUE;
}

static int take_look(struct dashboard *d)
{
    pthread_mutex_lock(&d->site.lock);
    take_action(d);
    int status = take_answer(d);
    pthread_mutex_unlock(&d->site.lock);
    cli_listen_wake(&d->site.listen);
    cli_look_clear(&d->look);
    return status;
}

/* A look that hangs: what it asks is the other thread's, but when it began is known here. */
static void notice_silence(struct dashboard *d, int64_t now_ms)
{
    if (!cli_look_hangs(&d->look, now_ms))
        return;
    pthread_mutex_lock(&d->site.lock);
    bool told = cli_dash_away_ms(&d->site.model) != 0;
    if (!told)
        miss(d, "it does not answer");
    pthread_mutex_unlock(&d->site.lock);
    if (!told)
        cli_listen_wake(&d->site.listen);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static int run_loop(struct dashboard *d, int signals_fd)
{
    struct cli_look *look = &d->look;
    int status = CLI_CONTINUE;
    int signal;

    while (status == CLI_CONTINUE) {
        int64_t now_ms = simba_now_ms();
        if (!look->runs && now_ms >= look->next_ms && !start_look(d))
            return cli_fail_system("cannot start a thread");
        struct pollfd fds[] = {
            {.fd = signals_fd, .events = POLLIN},
            {.fd = look->runs ? look->background.done_fd : d->site.wake_fd, .events = POLLIN},
        };
        int64_t until_ms = look->runs ? look->asked_ms + CLI_LOOK_AWAY_MS : look->next_ms;
        int64_t left_ms = sb_earlier(sb_time_left(until_ms, now_ms), CLI_LOOK_AWAY_MS);
        poll(fds, 2, cli_look_hangs(look, now_ms) ? CLI_LOOK_AWAY_MS : (int)left_ms);
        if ((signal = cli_signals_take_end(signals_fd, cli_signal_ends)) != 0)
            return cli_signal_exit_code(signal);
        if (!look->runs && fds[1].revents != 0)
            look->next_ms = 0;
        if (cli_look_has_ended(look))
            status = take_look(d);
        notice_silence(d, simba_now_ms());
    }
    return status;
}

/* ---- The verb -------------------------------------------------------------------------------- */

static int prepare(struct dashboard *d)
{
    struct simba_error error;

    d->site.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&d->site.lock, NULL);
    if (d->site.wake_fd < 0 || !cli_dash_init(&d->site.model))
        return cli_fail_system("dashboard");
    if (d->token_path != NULL && cli_dash_read_token(&d->site, d->token_path, &error) != SIMBA_OK)
        return cli_fail(&error);
    return cli_dash_history_open(&d->history, &d->site.model);
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct dashboard *d = &dashboard;
    int signals_fd = -1;

    (void)argc;
    (void)argv;
    d->look.cli = cli;
    cli_line_stamp();
    if (!cli_signals_take(&signals_fd))
        return cli_fail_system("signals");
    int status = prepare(d);
    if (status == CLI_CONTINUE)
        status = cli_dash_site_start(&d->site, d->listen, false);
    if (status != CLI_CONTINUE)
        return status;
    status = run_loop(d, signals_fd);
    cli_dash_site_stop(&d->site);
    cli_dash_history_close(&d->history);
    cli_look_finish(&d->look, signals_fd, status);
    close(signals_fd);
    close(d->site.wake_fd);
    return status;
}

static const char details[] =
    "Serves a page that shows the mutexes of the store: owners, leases, fencing\n"
    "tokens, waiters, notes, runs, and the terms of the last hour on a timeline. It\n"
    "is read only: nothing on the store changes. Without an address it is the\n"
    "loopback's; whoever can reach the address can see the page. /metrics tells\n"
    "Prometheus of the store as a whole.\n"
    "\n"
    "The page is live. The timeline begins when the dashboard does, and terms that\n"
    "are shorter than the interval can be missed. --history keeps it over a restart.\n"
    "A look that takes long is followed by a longer pause: the store works for the\n"
    "dashboard for at most a tenth of the time.\n"
    "\n"
    "With --allow-handover the page has two buttons. They ask an owner to hand over,\n"
    "as 'simba handover' does, or take the mutex from it, as 'simba release --force'\n"
    "does. The user of the page has to enter the token: the first line of FILE, 16 to\n"
    "256 bytes, which only its owner may read. Each request is a line on standard\n"
    "error.\n"
    "\n"
    "Examples:\n"
    "  simba dashboard\n"
    "  simba dashboard --listen 9465 --history /var/lib/simba/hour\n"
    "  simba dashboard --listen unix:/run/simba/dashboard\n"
    "\n"
    "Exit codes: 0, or 64, 69, 77, 78 as 'simba --help' lists them.";

const struct cli_verb cli_verb_dashboard = {
    .name = "dashboard",
    .usage = "dashboard [OPTION...]",
    .summary = "serve a live page of owners, queues and the last hour",
    .details = details,
    .options = options,
    .into = &dashboard,
    .operands = CLI_OPERANDS_NONE,
    .run = run,
};
