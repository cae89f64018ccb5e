/*
 * dash_look.c - asks the store for `simba dashboard`, and does what a user of the page wants.
 */
#include "cli/dash_look.h"

#include "cli/cli.h"
#include "cli/handover.h"
#include "cli/store.h"

#include <string.h>

#define TIMEOUT_MS 5000

/* Ends only the term that the user has seen. Without its token the store ends what it has. */
static int release(struct cli_dash_look *look)
{
    const struct cli_dash_action *action = &look->action;
    struct simba_owner ended;

    if (action->owner.fence != 0)
        return simba_client_end(look->client, action->mutex, action->owner.id, action->owner.fence,
                                TIMEOUT_MS, &look->action_error);
    return simba_client_force_release(look->client, action->mutex, TIMEOUT_MS, &ended,
                                      &look->action_error);
}

static int act(struct cli_dash_look *look)
{
    struct simba_handover request = SIMBA_HANDOVER_NONE;

    if (look->action.what == CLI_DASH_RELEASE)
        return release(look);
    request.left_ms = SIMBA_UNSET;
    return cli_handover_ask(look->cli, look->client, look->action.mutex, &look->action.owner,
                            &request, &look->action_error);
}

static void ask_detail(struct cli_dash_look *look, struct cli_dash_detail *detail)
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
void cli_dash_look_run(void *user)
{
    struct cli_dash_look *look = user;

    look->begun_ms = simba_now_ms();
    look->code = SIMBA_OK;
    if (look->client == NULL)
        look->code = cli_store_open_existing(look->cli, &look->client, &look->error);
    if (look->client != NULL && look->action.what != CLI_DASH_NOTHING) {
        look->action_code = act(look);
        look->begun_ms = simba_now_ms();
    }
    if (look->client != NULL)
        look->code = simba_client_status(look->client, NULL, TIMEOUT_MS, &look->list, &look->count,
                                         &look->error);
    for (size_t i = 0; i < look->detail_count && look->code == SIMBA_OK && look->client; i++)
        ask_detail(look, &look->details[i]);
    if (look->code == SIMBA_ENOTFOUND)
        look->code = SIMBA_OK;
    look->ended_ms = simba_now_ms();
}

void cli_dash_look_clear(struct cli_dash_look *look)
{
    simba_free(look->list);
    look->list = NULL;
    look->count = 0;
    for (size_t i = 0; i < look->detail_count; i++)
        simba_free(look->details[i].queue);
    memset(look->details, 0, sizeof look->details);
    look->detail_count = 0;
    look->action.what = CLI_DASH_NOTHING;
}
