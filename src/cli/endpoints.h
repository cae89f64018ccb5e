/*
 * endpoints.h - what `lead` and `schedule` serve with --listen: /metrics, /leader, /healthz,
 * /readyz.
 */
#ifndef CLI_ENDPOINTS_H
#define CLI_ENDPOINTS_H

#include "cli/listen.h"
#include "cli/seat.h"

#include <simba/simba.h>

#include <stdatomic.h>

struct cli_endpoints {
    struct cli_listen listen;
    bool is_schedule; /* what is counted of the command; before the start */
    simba_client *client;
    _Atomic(struct cli_seat *) seat; /* NULL: the store has not been opened yet */
    _Atomic uint64_t restarts;       /* of the command of `lead`, within terms */
    _Atomic int64_t last_success_s;  /* of `schedule`, since 1970; 0: none */
};

/* Returns CLI_CONTINUE or, after a message, an exit code. */
int cli_endpoints_start(struct cli_endpoints *endpoints, const char *address, bool quiet);

/* The store is open. Any thread, once. */
void cli_endpoints_publish(struct cli_endpoints *endpoints, simba_client *client,
                           struct cli_seat *seat);

/* Before seat and client are closed. */
void cli_endpoints_stop(struct cli_endpoints *endpoints);

#endif
