/*
 * look.c - looks at a store at intervals, and does what a user of the screen or the page wants.
 */
#include "cli/look.h"

#include "base/time.h"
#include "cli/cli.h"
#include "cli/handover.h"
#include "cli/names.h"
#include "cli/store.h"

#include <string.h>

#define TIMEOUT_MS 5000

/* A look at a store with very many mutexes takes long. The next one comes that many times later, so
 * that looks keep the store busy for at most a tenth of the time. */
#define REST 9

/* ---- On the thread --------------------------------------------------------------------------- */

/* Ends only the term that the user has seen. Without its token the store ends what it has. */
static int release(struct cli_look *look)
{
    const struct cli_look_action *action = &look->action;
    struct simba_owner ended;

    if (action->owner.fence != 0)
        return simba_client_end(look->client, action->mutex, action->owner.id, action->owner.fence,
                                TIMEOUT_MS, &look->action_error);
    return simba_client_force_release(look->client, action->mutex, TIMEOUT_MS, &ended,
                                      &look->action_error);
}

static int act(struct cli_look *look)
{
    struct simba_handover request = SIMBA_HANDOVER_NONE;

    if (look->action.what == CLI_LOOK_RELEASE)
        return release(look);
    request.left_ms = SIMBA_UNSET;
    int code = cli_handover_ask(look->cli, look->client, look->action.mutex, &look->action.owner,
                                &request, &look->action_error);
    look->handover_left_ms = request.left_ms;
    return code;
}

static void ask_detail(struct cli_look *look, struct cli_look_detail *detail)
{
    struct simba_error ignored; /* what is not known is not shown */

    if (detail->asks_queue)
        detail->queue_code = simba_client_queue(look->client, detail->mutex, TIMEOUT_MS,
                                                &detail->queue, &detail->queue_count, &ignored);
    if (!detail->asks_runs)
        return;
    detail->run_code = cli_last_run_read(look->client, detail->mutex, &detail->run, &ignored);
    if (detail->run_code == SIMBA_OK && detail->run.state != CLI_RUN_NONE &&
        cli_next_run_read(look->client, detail->mutex, &detail->next_run_ms, &ignored) != SIMBA_OK)
        detail->next_run_ms = 0;
}

/* The default store, which no process has used yet, has no mutexes. */
void cli_look_now(struct cli_look *look)
{
    look->begun_ms = simba_now_ms();
    look->code = SIMBA_OK;
    if (look->client == NULL)
        look->code = cli_store_open_existing(look->cli, &look->client, &look->error);
    if (look->client != NULL && look->action.what != CLI_LOOK_NOTHING) {
        look->action_code = act(look);
        look->begun_ms = simba_now_ms();
    }
    if (look->client != NULL)
        look->code = simba_client_status(look->client, NULL, TIMEOUT_MS, &look->list, &look->count,
                                         &look->error);
    if (look->code == SIMBA_OK && look->counts_waiters)
        cli_names_count_waiters(look->client, look->list, look->count, TIMEOUT_MS);
    for (size_t i = 0; i < look->detail_count && look->code == SIMBA_OK && look->client; i++)
        ask_detail(look, &look->details[i]);
    if (look->code == SIMBA_ENOTFOUND)
        look->code = SIMBA_OK;
    look->ended_ms = simba_now_ms();
}

static void run(void *user)
{
    cli_look_now(user);
}

/* ---- The main thread ------------------------------------------------------------------------- */

bool cli_look_start(struct cli_look *look)
{
    look->asked_ms = simba_now_ms();
    look->runs = cli_background_start(&look->background, run, look);
    return look->runs;
}

bool cli_look_has_ended(struct cli_look *look)
{
    if (!look->runs || !cli_background_is_done(&look->background))
        return false;
    int64_t rest_ms = (look->ended_ms - look->begun_ms) * REST;

    look->runs = false;
    look->next_ms =
        sb_max(sb_later(look->begun_ms, look->interval_ms), sb_later(look->ended_ms, rest_ms));
    if (look->code != SIMBA_OK)
        look->next_ms = sb_later(look->ended_ms, look->interval_ms);
    return true;
}

bool cli_look_hangs(const struct cli_look *look, int64_t now_ms)
{
    return look->runs && now_ms - look->asked_ms >= CLI_LOOK_AWAY_MS;
}

const char *cli_look_action_failure(const struct cli_look *look)
{
    if (look->client == NULL)
        return look->error.text;
    return look->action_code == SIMBA_OK ? "" : look->action_error.text;
}

void cli_look_clear(struct cli_look *look)
{
    simba_free(look->list);
    look->list = NULL;
    look->count = 0;
    for (size_t i = 0; i < look->detail_count; i++)
        simba_free(look->details[i].queue);
    memset(look->details, 0, sizeof look->details);
    look->detail_count = 0;
    look->action.what = CLI_LOOK_NOTHING;
}

static void close_store(void *user)
{
    cli_store_close(((struct cli_look *)user)->client);
}

void cli_look_finish(struct cli_look *look, int signals_fd, int status)
{
    struct cli_finish last = {.run = close_store, .user = look, .limit_ms = CLI_PATIENCE_MS};

    if (look->runs &&
        cli_background_wait(&look->background, signals_fd, CLI_PATIENCE_MS) != CLI_BACKGROUND_DONE)
        cli_background_leave(status);
    cli_background_finish(&last, signals_fd, status);
    cli_look_clear(look);
}
