/*
 * handover.h - asking an owner to hand over, as `simba handover` and `simba top` do.
 */
#ifndef CLI_HANDOVER_H
#define CLI_HANDOVER_H

#include "cli/cli.h"

#define CLI_HANDOVER_TIMEOUT_MS 10000

/* Asks the owner to end its term, in the name of the user. Of the request, `to` and `left_ms` are
 * the caller's; SIMBA_UNSET is replaced with a lease and 10s. Any thread. */
int cli_handover_ask(const struct cli *cli, simba_client *client, const char *mutex,
                     const struct simba_owner *owner, struct simba_handover *request,
                     struct simba_error *error);

#endif
