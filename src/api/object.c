/*
 * object.c - the public functions that contenders, observers and schedulers share. Owns nothing.
 */
#include "api/object.h"

/* Pins the object for a call that answers with a code. */
static int use(const void *handle, const char *call, const char *what,
               struct sb_object **ret_object, struct simba_error *error)
{
    void *object;
    int code = sb_handle_use(handle, call, what, &object, error);

    if (code == SIMBA_OK)
        *ret_object = object;
    return code;
}

int sb_object_start(const void *handle, const char *call, const char *what,
                    struct simba_error *error)
{
    struct sb_object *object;
    int code = use(handle, call, what, &object, error);

    if (code != SIMBA_OK)
        return code;
    code = sb_service_start(object->service, error);
    sb_service_unpin(object->service);
    return code;
}

int sb_object_stop(const void *handle, const char *call, const char *what,
                   struct simba_error *error)
{
    struct sb_object *object;
    int code = use(handle, call, what, &object, error);

    if (code != SIMBA_OK)
        return code;
    code = sb_service_stop(object->service, error);
    sb_service_unpin(object->service);
    return code;
}

void sb_object_close(const void *handle)
{
    struct sb_object *object = sb_handle_ask(handle);

    if (object == NULL)
        return;
    if (sb_service_begin_close(object->service)) {
        sb_client_remove_object(object->client);
        sb_service_close(object->service);
    }
    sb_service_unpin(object->service);
}

void sb_object_state(const void *handle, struct simba_state *ret_state)
{
    const struct simba_state none = SIMBA_STATE_NONE;
    struct sb_object *object = sb_handle_ask(handle);

    *ret_state = none;
    if (object == NULL)
        return;
    sb_service_state(object->service, ret_state);
    sb_service_unpin(object->service);
}

const char *sb_object_id(const void *handle)
{
    struct sb_object *object = sb_handle_ask(handle);
    const char *id;

    if (object == NULL)
        return "";
    id = sb_service_id(object->service);
    sb_service_unpin(object->service);
    return id;
}

const char *sb_object_mutex(const void *handle)
{
    struct sb_object *object = sb_handle_ask(handle);
    const char *mutex;

    if (object == NULL)
        return "";
    mutex = sb_service_mutex(object->service);
    sb_service_unpin(object->service);
    return mutex;
}
