/*
 * top.c - `simba top`: a live screen of the mutexes of a store.
 *
 * The main thread reads keys and signals and draws. What waits for the store, a request to hand
 * over included, is a look, on a thread of its own.
 */
#include "base/text.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/events.h"
#include "cli/look.h"
#include "cli/screen.h"
#include "cli/store.h"
#include "cli/top_view.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* The screen is drawn that often, for the times in it. */
#define DRAW_MS 1000

enum mode { MODE_TABLE, MODE_FILTER, MODE_CONFIRM };

static struct top {
    bool once;
    bool all;

    struct cli_top_view view;
    enum mode mode;
    char filter_before[CLI_TOP_FILTER_MAX];
    size_t room; /* rows of the table on the screen */
    struct cli_look look;
    bool hurries; /* the next look is due at once: the user waits for it */

    struct cli_look_action handover; /* that the user was asked about, or has asked for */
    bool wants_handover;             /* with the next look */
    int64_t until_ms;                /* when the request is void; 0: there is none */
} top = {.look = {.interval_ms = 1000, .counts_waiters = true}};

static const struct cli_option options[] = {
    {0, "interval", "DURATION", "the time between two looks at the store (1s)",
     CLI_INTERVAL(struct top, look.interval_ms)},
    {0, "once", NULL, "print one screen, and exit", CLI_FLAG(struct top, once)},
    {'a', "all", NULL, "show the mutexes that are free, too", CLI_FLAG(struct top, all)},
    CLI_OPTIONS_END,
};

/* ---- What came of it ------------------------------------------------------------------------- */

static void take_queue(struct cli_look_detail *detail)
{
    struct cli_top_view *view = &top.view;

    simba_free(view->queue);
    view->queue = detail->queue;
    view->queue_count = detail->queue_count;
    view->has_queue = detail->queue_code == SIMBA_OK;
    sb_text_copy(view->queue_of, sizeof view->queue_of, detail->mutex);
    detail->queue = NULL;
}

static void take_action(void)
{
    const struct cli_look_action *action = &top.look.action;
    const char *failure = cli_look_action_failure(&top.look);
    char *message = top.view.message;
    char left[32];

    if (action->what == CLI_LOOK_NOTHING)
        return;
    if (failure[0] != 0) {
        snprintf(message, CLI_TOP_TEXT_MAX, "nobody was asked: %s", failure);
        return;
    }
    top.until_ms = sb_later(simba_now_ms(), top.look.handover_left_ms);
    cli_text_duration(top.look.handover_left_ms, left, sizeof left);
    snprintf(message, CLI_TOP_TEXT_MAX, "asked to hand %s over within %s: %s", action->mutex, left,
             action->owner.id);
}

/* The hand-over that was asked for: whether it has happened, or the time is over. */
static void follow_request(void)
{
    const struct cli_look *look = &top.look;
    const struct simba_owner *asked = &top.handover.owner;
    struct cli_top_view *view = &top.view;
    const struct simba_owner *owner = NULL;

    if (top.until_ms == 0)
        return;
    for (size_t i = 0; i < look->count; i++) {
        if (strcmp(look->list[i].mutex, top.handover.mutex) == 0)
            owner = &look->list[i].owner;
    }
    bool same = owner != NULL && strcmp(owner->id, asked->id) == 0 && owner->fence == asked->fence;
    if (same && simba_now_ms() < top.until_ms)
        return;
    top.until_ms = 0;
    view->message[0] = 0;
    if (same)
        snprintf(view->message, CLI_TOP_TEXT_MAX, "not handed over in time: %s, still with %s",
                 top.handover.mutex, asked->id);
}

/* Returns CLI_CONTINUE, or the exit code of an error that does not heal by itself. */
static int take_answer(void)
{
    struct cli_look *look = &top.look;
    struct cli_top_view *view = &top.view;

    if (look->code != SIMBA_OK) {
        if (view->answered_at == 0 && cli_exit_code(look->code) != CLI_EXIT_UNAVAILABLE)
            return cli_exit_code(look->code);
        if (view->away_at == 0)
            view->away_at = view->answered_at != 0 ? view->answered_at : time(NULL);
        sb_text_copy(view->reason, sizeof view->reason, look->error.text);
        return CLI_CONTINUE;
    }
    if (!cli_top_look(&view->model, look->list, look->count, look->begun_ms))
        return CLI_EXIT_SYSTEM;
    follow_request();
    if (look->detail_count > 0)
        take_queue(&look->details[0]);
    view->answered_at = time(NULL);
    view->away_at = 0;
    return CLI_CONTINUE;
}

static int take_look(void)
{
    take_action();
    int status = take_answer();
    cli_look_clear(&top.look);
    return status;
}

/* ---- The next look --------------------------------------------------------------------------- */

static bool start_look(void)
{
    const struct cli_top_row *row = cli_top_selected(&top.view.model);
    struct cli_look *look = &top.look;

    if (top.wants_handover) {
        look->action = top.handover;
    } else if (top.view.shows_queue && row != NULL) {
        look->detail_count = 1;
        look->details[0].asks_queue = true;
        sb_text_copy(look->details[0].mutex, sizeof look->details[0].mutex, row->now.mutex);
    }
    top.wants_handover = false;
    top.hurries = false;
    return cli_look_start(look);
}

static void notice_silence(int64_t now_ms)
{
    struct cli_top_view *view = &top.view;

    if (view->away_at != 0 || !cli_look_hangs(&top.look, now_ms))
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
    top.handover = (struct cli_look_action){.what = CLI_LOOK_HANDOVER, .owner = row->now.owner};
    sb_text_copy(top.handover.mutex, sizeof top.handover.mutex, row->now.mutex);
    top.mode = MODE_CONFIRM;
    snprintf(message, CLI_TOP_TEXT_MAX, "y/n  hand %s over to the first in line? It is with %s",
             top.handover.mutex, top.handover.owner.id);
}

static void confirm(int key)
{
    top.mode = MODE_TABLE;
    top.view.message[0] = 0;
    if (key != 'y' && key != 'Y')
        return;
    top.wants_handover = true;
    top.hurries = true;
    snprintf(top.view.message, CLI_TOP_TEXT_MAX, "asking %s", top.handover.owner.id);
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
        {.fd = top.look.runs ? top.look.background.done_fd : -1, .events = POLLIN},
    };
    int64_t now_ms = simba_now_ms();
    int64_t until_ms = now_ms + DRAW_MS;
    int status = CLI_CONTINUE;

    if (!top.look.runs)
        until_ms = sb_earlier(until_ms, top.look.next_ms);
    poll(fds, 3, (int)sb_time_left(until_ms, now_ms));
    if (fds[0].revents != 0)
        status = take_signals(signals_fd);
    if (status == CLI_CONTINUE && cli_look_has_ended(&top.look))
        status = take_look();
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
        if (!top.look.runs && (top.hurries || now_ms >= top.look.next_ms) && !start_look())
            return CLI_EXIT_SYSTEM;
        notice_silence(now_ms);
        top.room = cli_top_show(&top.view, now_ms);
        status = take_events(signals_fd);
    }
    return status;
}

/* Messages would stand in the picture: what is wrong with the store is shown in it. */
static int run_live(struct cli *cli)
{
    struct cli_look *look = &top.look;
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
    if (status != CLI_EXIT_OK && look->code != SIMBA_OK && top.view.answered_at == 0 &&
        status == cli_exit_code(look->code))
        cli_fail(&look->error);
    cli_look_finish(look, signals_fd, status);
    simba_free(top.view.queue);
    cli_top_free(&top.view.model);
    close(signals_fd);
    return status;
}

static int run_once(void)
{
    int status = CLI_EXIT_OK;

    cli_look_now(&top.look);
    if (top.look.code != SIMBA_OK)
        status = cli_fail(&top.look.error);
    else if (take_look() != CLI_CONTINUE)
        status = cli_fail_system("top");
    else
        cli_top_show(&top.view, simba_now_ms());
    cli_store_close(top.look.client);
    cli_top_free(&top.view.model);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    top.look.cli = cli;
    top.view.model.all = top.all;
    return top.once || !cli_screen_is_there() ? run_once() : run_live(cli);
}

static const char details[] =
    "Shows the mutexes of the store on a live screen: the owner, since when it owns,\n"
    "how much of its lease is left, the fencing token, and how many wait. The head\n"
    "counts what is held, who waits, the hand-overs of the last minute, and the\n"
    "losses: terms whose lease ran out since 'simba top' began. Both are counted\n"
    "between two looks at the store, so what is shorter than the interval can be\n"
    "missed. A banner tells since when a store does not answer; 'simba top' goes on\n"
    "when it does again. Mutexes that are free are left out, except for those that\n"
    "became free in the last minute. A look that takes long is followed by a longer\n"
    "pause: at most a tenth of the time the store works for 'simba top'.\n"
    "\n"
    "Keys: up, down, j, k, PgUp, PgDn select a mutex. Enter shows who waits for it. h\n"
    "asks its owner to hand it over, as 'simba handover' does, after a question. s\n"
    "sorts by name, since, waiters or hand-overs. / filters by a pattern of the name\n"
    "(*, ?, [...]), or by a part of the name or owner; Escape leaves the filter as it\n"
    "was. a shows the free ones, too. ? shows the keys. q quits.\n"
    "\n"
    "Where standard input or output is not a terminal, or the terminal is dumb, it\n"
    "prints one screen and exits.\n"
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
