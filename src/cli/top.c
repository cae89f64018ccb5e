/*
 * top.c - `simba top`: a live screen of the mutexes of a store.
 *
 * The main thread reads keys and signals and draws. Whatever may wait for the store runs on a
 * thread of its own, one step at a time: a look, and the request to hand over before it. While a
 * step runs, its struct is that thread's.
 */
#include "base/text.h"
#include "base/time.h"
#include "cli/background.h"
#include "cli/cli.h"
#include "cli/events.h"
#include "cli/handover.h"
#include "cli/names.h"
#include "cli/screen.h"
#include "cli/store.h"
#include "cli/top_view.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define LOOK_TIMEOUT_MS 5000

/* A store that has not answered a look for so long is away. */
#define AWAY_MS 2500

/* The screen is drawn that often, for the times in it. */
#define DRAW_MS 1000

/* A look at a store with very many mutexes takes long. The next one comes that many times later, so
 * that `simba top` keeps the store busy for at most a tenth of the time. */
#define REST 9

/* What the thread does next, and what came of it. */
struct step {
    const struct cli *cli;
    simba_client *client;

    bool asks; /* for a hand-over */
    bool wants_queue;
    char mutex[SIMBA_MUTEX_MAX + 1]; /* of both */
    struct simba_owner owner;
    struct simba_handover request;
    int ask_code;
    struct simba_error ask_error;

    int64_t begun_ms;
    int64_t ended_ms;
    int code;
    struct simba_error error;
    struct simba_mutex_status *list;
    size_t count;
    int queue_code;
    struct simba_waiter *queue;
    size_t queue_count;
};

enum mode { MODE_TABLE, MODE_FILTER, MODE_CONFIRM };

static struct top {
    bool once;
    bool all;
    int64_t interval_ms;

    struct cli_top_view view;
    enum mode mode;
    char filter_before[CLI_TOP_FILTER_MAX];
    size_t room; /* rows of the table on the screen */
    struct step step;
    struct cli_background background;
    bool runs;        /* the step */
    int64_t asked_ms; /* when it began */
    int64_t next_ms;  /* when the next one is due */
    bool hurries;     /* at once: the user waits for it */

    /* A hand-over: what the user was asked about, or has asked for. */
    bool wants_handover;
    char mutex[SIMBA_MUTEX_MAX + 1];
    struct simba_owner owner;
    int64_t until_ms; /* when the request is void; 0: there is none */
} top = {.interval_ms = 1000};

static const struct cli_option options[] = {
    {0, "interval", "DURATION", "the time between two looks at the store (1s)",
     CLI_INTERVAL(struct top, interval_ms)},
    {0, "once", NULL, "print one screen, and exit", CLI_FLAG(struct top, once)},
    {'a', "all", NULL, "show the mutexes that are free, too", CLI_FLAG(struct top, all)},
    CLI_OPTIONS_END,
};

/* ---- A step, on the thread ------------------------------------------------------------------- */

/* The default store, which no process has used yet, has no mutexes. */
static void run_step(void *user)
{
    struct step *step = user;

    step->list = NULL;
    step->queue = NULL;
    step->count = step->queue_count = 0;
    step->code = step->ask_code = step->queue_code = SIMBA_OK;
    step->begun_ms = simba_now_ms();
    if (step->client == NULL)
        step->code = cli_store_open_existing(step->cli, &step->client, &step->error);
    if (step->client != NULL && step->asks) {
        step->request = (struct simba_handover)SIMBA_HANDOVER_NONE;
        step->request.left_ms = SIMBA_UNSET;
        step->ask_code = cli_handover_ask(step->cli, step->client, step->mutex, &step->owner,
                                          &step->request, &step->ask_error);
        step->begun_ms = simba_now_ms();
    }
    if (step->client != NULL)
        step->code = simba_client_status(step->client, NULL, LOOK_TIMEOUT_MS, &step->list,
                                         &step->count, &step->error);
    if (step->code == SIMBA_OK && step->client != NULL)
        cli_names_count_waiters(step->client, step->list, step->count, LOOK_TIMEOUT_MS);
    if (step->code == SIMBA_OK && step->client != NULL && step->wants_queue)
        step->queue_code = simba_client_queue(step->client, step->mutex, LOOK_TIMEOUT_MS,
                                              &step->queue, &step->queue_count, &step->error);
    if (step->code == SIMBA_ENOTFOUND)
        step->code = SIMBA_OK;
    step->ended_ms = simba_now_ms();
}

/* ---- What came of it ------------------------------------------------------------------------- */

static void take_queue(struct step *step)
{
    struct cli_top_view *view = &top.view;

    simba_free(view->queue);
    view->queue = step->queue;
    view->queue_count = step->queue_count;
    view->has_queue = step->queue_code == SIMBA_OK;
    sb_text_copy(view->queue_of, sizeof view->queue_of, step->mutex);
}

static void take_ask(const struct step *step)
{
    char *message = top.view.message;
    char left[32];

    if (step->code != SIMBA_OK && step->client == NULL) {
        snprintf(message, CLI_TOP_TEXT_MAX, "nobody was asked: %s", step->error.text);
    } else if (step->ask_code != SIMBA_OK) {
        snprintf(message, CLI_TOP_TEXT_MAX, "nobody was asked: %s", step->ask_error.text);
    } else {
        top.until_ms = sb_later(simba_now_ms(), step->request.left_ms);
        cli_text_duration(step->request.left_ms, left, sizeof left);
        snprintf(message, CLI_TOP_TEXT_MAX, "asked to hand %s over within %s: %s", step->mutex,
                 left, step->owner.id);
    }
}

/* The hand-over that was asked for: whether it has happened, or the time is over. */
static void follow_request(const struct step *step)
{
    struct cli_top_view *view = &top.view;
    const struct simba_owner *owner = NULL;

    if (top.until_ms == 0)
        return;
    for (size_t i = 0; i < step->count; i++) {
        if (strcmp(step->list[i].mutex, top.mutex) == 0)
            owner = &step->list[i].owner;
    }
    bool same =
        owner != NULL && strcmp(owner->id, top.owner.id) == 0 && owner->fence == top.owner.fence;
    if (same && simba_now_ms() < top.until_ms)
        return;
    top.until_ms = 0;
    view->message[0] = 0;
    if (same)
        snprintf(view->message, CLI_TOP_TEXT_MAX, "not handed over in time: %s, still with %s",
                 top.mutex, top.owner.id);
}

/* Returns CLI_CONTINUE, or the exit code of an error that does not heal by itself. */
static int take_step(void)
{
    struct step *step = &top.step;
    struct cli_top_view *view = &top.view;
    bool first = view->answered_at == 0;
    int64_t rest_ms = (step->ended_ms - step->begun_ms) * REST;

    top.runs = false;
    top.next_ms = step->begun_ms + top.interval_ms;
    if (top.next_ms < step->ended_ms + rest_ms)
        top.next_ms = step->ended_ms + rest_ms;
    if (step->asks)
        take_ask(step);
    if (step->code != SIMBA_OK) {
        if (first && cli_exit_code(step->code) != CLI_EXIT_UNAVAILABLE)
            return cli_exit_code(step->code);
        if (view->away_at == 0)
            view->away_at = view->answered_at != 0 ? view->answered_at : time(NULL);
        sb_text_copy(view->reason, sizeof view->reason, step->error.text);
        top.next_ms = simba_now_ms() + top.interval_ms;
        return CLI_CONTINUE;
    }
    if (!cli_top_look(&view->model, step->list, step->count, step->begun_ms))
        return CLI_EXIT_SYSTEM;
    follow_request(step);
    if (step->wants_queue)
        take_queue(step);
    simba_free(step->list);
    view->answered_at = time(NULL);
    view->away_at = 0;
    return CLI_CONTINUE;
}

/* ---- The next step --------------------------------------------------------------------------- */

static bool start_step(void)
{
    const struct cli_top_row *row = cli_top_selected(&top.view.model);
    struct step *step = &top.step;

    step->asks = top.wants_handover;
    step->wants_queue = top.view.shows_queue && row != NULL && !step->asks;
    top.wants_handover = false;
    if (step->wants_queue)
        sb_text_copy(step->mutex, sizeof step->mutex, row->now.mutex);
    if (step->asks) {
        sb_text_copy(step->mutex, sizeof step->mutex, top.mutex);
        step->owner = top.owner;
    }
    top.hurries = false;
    top.asked_ms = simba_now_ms();
    top.runs = cli_background_start(&top.background, run_step, step);
    return top.runs;
}

/* A look that hangs: the step is the thread's, but when it began is known here. */
static void notice_silence(int64_t now_ms)
{
    struct cli_top_view *view = &top.view;

    if (!top.runs || view->away_at != 0 || now_ms - top.asked_ms < AWAY_MS)
        return;
    view->away_at = view->answered_at != 0 ? view->answered_at : time(NULL);
    snprintf(view->reason, sizeof view->reason, "it does not answer");
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The owner and its successor are shown: the user is to know what the answer does. What a narrow
 * terminal must not cut off comes first. */
static void propose_handover(void)
{
    const struct cli_top_row *row = cli_top_selected(&top.view.model);
    char *message = top.view.message;

    if (row == NULL || row->now.owner.id[0] == 0) {
        snprintf(message, CLI_TOP_TEXT_MAX, "it is free: there is nobody to ask");
        return;
    }
    if (row->now.waiters == 0) {
        snprintf(message, CLI_TOP_TEXT_MAX, "nobody waits, so the owner keeps it: %s",
                 row->now.mutex);
        return;
    }
    sb_text_copy(top.mutex, sizeof top.mutex, row->now.mutex);
    top.owner = row->now.owner;
    top.mode = MODE_CONFIRM;
    snprintf(message, CLI_TOP_TEXT_MAX, "y/n  hand %s over to the first in line? It is with %s",
             top.mutex, top.owner.id);
}

static void confirm(int key)
{
    top.mode = MODE_TABLE;
    top.view.message[0] = 0;
    if (key != 'y' && key != 'Y')
        return;
    top.wants_handover = true;
    top.hurries = true;
    snprintf(top.view.message, CLI_TOP_TEXT_MAX, "asking %s", top.owner.id);
}

/* Shows what is typed, and filters by it at once. */
static void edit_filter(int key)
{
    char *filter = top.view.model.filter;
    size_t length = strlen(filter);

    if (key == CLI_KEY_ESCAPE)
        sb_text_copy(filter, CLI_TOP_FILTER_MAX, top.filter_before);
    if (key == CLI_KEY_BACKSPACE && length > 0) {
        while (length > 0 && ((unsigned char)filter[--length] & 0xc0) == 0x80)
            ; /* all bytes of a character */
        filter[length] = 0;
    } else if (key >= ' ' && key != CLI_KEY_BACKSPACE && length + 1 < CLI_TOP_FILTER_MAX) {
        filter[length] = (char)key;
        filter[length + 1] = 0;
    }
    cli_top_arrange(&top.view.model, simba_now_ms());
    snprintf(top.view.message, CLI_TOP_TEXT_MAX, "filter: %s_", filter);
    if (key == CLI_KEY_ESCAPE || key == CLI_KEY_ENTER) {
        top.mode = MODE_TABLE;
        top.view.message[0] = 0;
    }
}

static void begin_filter(void)
{
    top.mode = MODE_FILTER;
    sb_text_copy(top.filter_before, sizeof top.filter_before, top.view.model.filter);
    top.view.model.filter[0] = 0;
    edit_filter(CLI_KEY_OTHER);
}

static void move(int key)
{
    int64_t page = (int64_t)(top.room > 1 ? top.room - 1 : 1);
    int64_t all = (int64_t)top.view.model.shown_count;

    cli_top_move(&top.view.model, key == CLI_KEY_UP || key == 'k'     ? -1
                                  : key == CLI_KEY_DOWN || key == 'j' ? 1
                                  : key == CLI_KEY_PAGE_UP            ? -page
                                  : key == CLI_KEY_PAGE_DOWN          ? page
                                  : key == CLI_KEY_HOME               ? -all
                                  : key == CLI_KEY_END                ? all
                                                                      : 0);
    if (top.view.shows_queue)
        top.hurries = true;
}

/* Returns CLI_CONTINUE, or the exit code. */
static int take_key(int key)
{
    struct cli_top_view *view = &top.view;

    if (key == CLI_KEY_GONE)
        return CLI_EXIT_OK;
    if (top.mode == MODE_FILTER || top.mode == MODE_CONFIRM) {
        (top.mode == MODE_FILTER ? edit_filter : confirm)(key);
        return CLI_CONTINUE;
    }
    if (view->help && key != 'q') {
        view->help = false;
        return CLI_CONTINUE;
    }
    if (top.until_ms == 0)
        view->message[0] = 0;
    switch (key) {
    case 'q':
        return CLI_EXIT_OK;
    case '?':
        view->help = true;
        break;
    case 's':
        view->model.sort = (view->model.sort + 1) % CLI_TOP_SORTS;
        cli_top_arrange(&view->model, simba_now_ms());
        break;
    case 'a':
        view->model.all = !view->model.all;
        cli_top_arrange(&view->model, simba_now_ms());
        break;
    case '/':
        begin_filter();
        break;
    case 'h':
        propose_handover();
        break;
    case CLI_KEY_ENTER:
        view->shows_queue = !view->shows_queue;
        top.hurries = true;
        break;
    default:
        move(key);
    }
    return CLI_CONTINUE;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* Returns CLI_CONTINUE, or the exit code. */
static int take_signals(int signals_fd)
{
    for (int signal; (signal = cli_signals_next(signals_fd)) != 0;) {
        if (cli_signal_ends(signal))
            return cli_signal_exit_code(signal);
        if (cli_signal_stops(signal)) {
            cli_screen_close();
            cli_signals_stop();
        }
        /* Also after a stop that could not be caught: the shell has used the terminal. */
        if ((cli_signal_stops(signal) || signal == SIGCONT) && !cli_screen_open())
            return cli_fail_system("the terminal");
    }
    return CLI_CONTINUE;
}

static int take_events(int signals_fd)
{
    struct pollfd fds[] = {
        {.fd = signals_fd, .events = POLLIN},
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = top.runs ? top.background.done_fd : -1, .events = POLLIN},
    };
    int64_t now_ms = simba_now_ms();
    int64_t until_ms = now_ms + DRAW_MS;
    int status = CLI_CONTINUE;

    if (!top.runs)
        until_ms = sb_earlier(until_ms, top.next_ms);
    poll(fds, 3, (int)sb_time_left(until_ms, now_ms));
    if (fds[0].revents != 0)
        status = take_signals(signals_fd);
    if (status == CLI_CONTINUE && top.runs && cli_background_is_done(&top.background))
        status = take_step();
    for (int key;
         status == CLI_CONTINUE && fds[1].revents != 0 && (key = cli_screen_key()) != CLI_KEY_NONE;)
        status = take_key(key);
    return status;
}

static int run_loop(int signals_fd)
{
    int status = CLI_CONTINUE;

    while (status == CLI_CONTINUE) {
        int64_t now_ms = simba_now_ms();
        if (!top.runs && (top.hurries || now_ms >= top.next_ms) && !start_step())
            return CLI_EXIT_SYSTEM;
        notice_silence(now_ms);
        top.room = cli_top_show(&top.view, now_ms);
        status = take_events(signals_fd);
    }
    return status;
}

static void close_store(void *user)
{
    (void)user;
    cli_store_close(top.step.client);
}

/* A step that hangs is not waited for. */
static void finish(int signals_fd, int status)
{
    struct cli_finish finish = {.run = close_store, .limit_ms = CLI_PATIENCE_MS};

    if (top.runs &&
        cli_background_wait(&top.background, signals_fd, CLI_PATIENCE_MS) != CLI_BACKGROUND_DONE)
        cli_background_leave(status);
    cli_background_finish(&finish, signals_fd, status);
    simba_free(top.view.queue);
    cli_top_free(&top.view.model);
}

/* Messages would stand in the picture: what is wrong with the store is shown in it. */
static int run_live(struct cli *cli)
{
    int signals_fd = -1;

    if (isatty(STDERR_FILENO))
        cli->log_level = SIMBA_LOG_NONE;
    top.view.live = true;
    if (!cli_signals_take(&signals_fd))
        return cli_fail_system("top");
    if (!cli_screen_open())
        return cli_fail_system("the terminal");
    int status = run_loop(signals_fd);
    cli_screen_close();
    if (status != CLI_EXIT_OK && top.step.code != SIMBA_OK && top.view.answered_at == 0 &&
        status == cli_exit_code(top.step.code))
        cli_fail(&top.step.error);
    finish(signals_fd, status);
    close(signals_fd);
    return status;
}

static int run_once(void)
{
    int status = CLI_EXIT_OK;

    run_step(&top.step);
    if (top.step.code != SIMBA_OK)
        status = cli_fail(&top.step.error);
    else if (take_step() != CLI_CONTINUE)
        status = cli_fail_system("top");
    else
        cli_top_show(&top.view, simba_now_ms());
    close_store(NULL);
    cli_top_free(&top.view.model);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    top.step.cli = cli;
    top.view.model.all = top.all;
    return top.once || !cli_screen_is_there() ? run_once() : run_live(cli);
}

static const char details[] =
    "Shows the mutexes of the store on a live screen: the owner, since when it owns, how much of\n"
    "its lease is left, the fencing token, and how many wait. The head counts what is held, who\n"
    "waits, the hand-overs of the last minute, and the losses: terms whose lease ran out since\n"
    "'simba top' began. Both are counted between two looks at the store, so what is shorter than "
    "the\n"
    "interval can be missed. A banner tells since when a store does not answer; 'simba top' goes "
    "on\n"
    "when it does again. Mutexes that are free are left out, except for those that became free in\n"
    "the last minute. A look that takes long is followed by a longer pause: at most a tenth of "
    "the\n"
    "time the store works for 'simba top'.\n"
    "\n"
    "Keys: up, down, j, k, PgUp, PgDn select a mutex. Enter shows who waits for it. h asks its\n"
    "owner to hand it over, as 'simba handover' does, after a question. s sorts by name, since,\n"
    "waiters or hand-overs. / filters by a pattern of the name (*, ?, [...]), or by a part of the\n"
    "name or owner; Escape leaves the filter as it was. a shows the free ones, too. ? shows the\n"
    "keys. q quits.\n"
    "\n"
    "Where standard input or output is not a terminal, or the terminal is dumb, it prints one\n"
    "screen and exits.\n"
    "\n"
    "Examples:\n"
    "  simba top\n"
    "  simba top --interval 5s\n"
    "  simba top --once\n"
    "\n"
    "Exit codes: 0, or 64, 69, 77, 78 as 'simba --help' lists them.";

const struct cli_verb cli_verb_top = {
    .name = "top",
    .usage = "top [OPTION...]",
    .summary = "show owners, queues and hand-overs on a live screen",
    .details = details,
    .options = options,
    .into = &top,
    .operands = CLI_OPERANDS_NONE,
    .run = run,
};
