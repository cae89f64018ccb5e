/*
 * dash_look.h - one look of `simba dashboard` at the store. It waits for the store, so it runs on
 * the background thread; while it runs, the struct is that thread's.
 */
#ifndef CLI_DASH_LOOK_H
#define CLI_DASH_LOOK_H

#include "cli/last_run.h"

#include <simba/simba.h>

#include <stdbool.h>

/* Queues and runs are asked for each mutex alone: of so many in a look. */
#define CLI_DASH_DETAILS_MAX 24

struct cli_dash_detail {
    char mutex[SIMBA_MUTEX_MAX + 1];
    bool asks_queue;
    bool asks_runs;

    int queue_code;
    struct simba_waiter *queue; /* for simba_free */
    size_t queue_count;
    int run_code;
    struct cli_last_run run;
    int64_t next_run_ms;
};

enum cli_dash_what { CLI_DASH_NOTHING, CLI_DASH_HANDOVER, CLI_DASH_RELEASE };

/* What a user of the page wants. */
struct cli_dash_action {
    enum cli_dash_what what;
    char mutex[SIMBA_MUTEX_MAX + 1];
    struct simba_owner owner; /* the term that the page has shown */
    char client[64];
};

struct cli_dash_look {
    const struct cli *cli;
    simba_client *client; /* NULL: the store was not opened yet */
    struct cli_dash_action action;
    struct cli_dash_detail details[CLI_DASH_DETAILS_MAX];
    size_t detail_count;

    int64_t begun_ms;
    int64_t ended_ms;
    int code;
    struct simba_error error;
    struct simba_mutex_status *list; /* for simba_free */
    size_t count;
    int action_code;
    struct simba_error action_error;
};

/* `user` is the look. */
void cli_dash_look_run(void *user);

/* Frees what a look has brought, and forgets what it was asked. */
void cli_dash_look_clear(struct cli_dash_look *look);

#endif
