/*
 * object.h - what contenders, observers and schedulers have in common: each is an object of the
 * library's own that belongs to a service, lives as long as it, and is found by its handle.
 */
#ifndef SB_API_OBJECT_H
#define SB_API_OBJECT_H

#include "api/client.h"

/* The first member of each. */
struct sb_object {
    struct sb_client *client;
    struct sb_service *service;
};

/* As the public functions of that name. `call` is that function and `what` the object ("a
 * contender"), for messages. */
int sb_object_start(const void *handle, const char *call, const char *what,
                    struct simba_error *error);
int sb_object_stop(const void *handle, const char *call, const char *what,
                   struct simba_error *error);
void sb_object_close(const void *handle);
void sb_object_state(const void *handle, struct simba_state *ret_state);

/* Empty where the handle is closed. The strings are freed with the object. */
const char *sb_object_id(const void *handle);
const char *sb_object_mutex(const void *handle);

#endif
