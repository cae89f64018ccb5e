/*
 * client_call.c - what stands around each call with a client.
 */
#include "api/client.h"

/* In a child no lock of the engine is touched: a thread of the parent may have held it. */
int sb_client_pin(simba_client *handle, const char *call, struct sb_client **ret_client,
                  struct simba_error *error)
{
    void *object;
    int code = sb_handle_use(handle, call, "a client", &object, error);

    if (code != SIMBA_OK)
        return code;
    *ret_client = object;
    code = sb_engine_check_process((*ret_client)->engine, error);
    if (code != SIMBA_OK)
        sb_handle_unpin((*ret_client)->handle);
    return code;
}

/* What is pending keeps the client, as the objects do that were made from it. So the pin is short:
 * a close need not wait for it on a condition. */
int sb_client_enter(simba_client *handle, const char *call, struct sb_client **ret_client,
                    struct simba_error *error)
{
    struct sb_client *client;
    int code = sb_client_pin(handle, call, &client, error);

    if (code != SIMBA_OK)
        return code;
    sb_engine_pending_add(client->engine);
    sb_handle_unpin(client->handle);
    *ret_client = client;
    return SIMBA_OK;
}

void sb_client_leave(struct sb_client *client)
{
    sb_engine_pending_remove(client->engine);
}
