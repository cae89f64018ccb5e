/*
 * status.c - the lifecycle of a service: its legal moves, as a table.
 *
 *     INITIAL -> STARTING -> RUNNING -> STOPPING -> INITIAL
 *                    |__________________^
 */
#include "core/status.h"

#define STATUS_COUNT (SIMBA_STOPPING + 1)

static const bool moves[STATUS_COUNT][STATUS_COUNT] = {
    [SIMBA_INITIAL] = {[SIMBA_STARTING] = true},
    [SIMBA_STARTING] = {[SIMBA_RUNNING] = true, [SIMBA_STOPPING] = true},
    [SIMBA_RUNNING] = {[SIMBA_STOPPING] = true},
    [SIMBA_STOPPING] = {[SIMBA_INITIAL] = true},
};

static const char *const names[STATUS_COUNT] = {
    [SIMBA_INITIAL] = "INITIAL",
    [SIMBA_STARTING] = "STARTING",
    [SIMBA_RUNNING] = "RUNNING",
    [SIMBA_STOPPING] = "STOPPING",
};

/* The application may hand over any number as a status. */
static bool is_known(enum simba_status status)
{
    return (unsigned)status < STATUS_COUNT;
}

bool sb_status_may_move(enum simba_status from, enum simba_status to)
{
    return is_known(from) && is_known(to) && moves[from][to];
}

const char *simba_status_name(enum simba_status status)
{
    return is_known(status) ? names[status] : "UNKNOWN";
}

bool simba_status_is_active(enum simba_status status)
{
    return status == SIMBA_STARTING || status == SIMBA_RUNNING;
}
