/*
 * stage.c - the server, the witness and the client of a test program.
 */
#include "stage.h"

struct server server;
struct witness witness;
struct host host;

int stage_start(void **state)
{
    server_start(&server);
    return 0;
}

int stage_stop(void **state)
{
    server_stop(&server);
    return 0;
}

int stage_start_watched(void **state)
{
    stage_start(state);
    witness_open(&witness, &server, NULL);
    return 0;
}

int stage_stop_watched(void **state)
{
    witness_close(&witness);
    return stage_stop(state);
}

void stage_open_host(const char *rest)
{
    if (host_open(&host, server_url(&server, rest)) != SIMBA_OK)
        fail_msg("%s", host.open_error.text);
}

int stage_close_host(void **state)
{
    return host_close(&host) ? 0 : -1;
}
