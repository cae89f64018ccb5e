/*
 * locker.h - a locker without callbacks, in one call.
 */
#ifndef SIMBA_TEST_LOCKER_H
#define SIMBA_TEST_LOCKER_H

#include <simba/simba.h>

/* As simba_locker_create; `id` may be NULL. */
static inline int test_locker_create(simba_client *client, const char *mutex, const char *id,
                                     simba_locker **ret_locker, struct simba_error *error)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = mutex;
    options.id = id;
    return simba_locker_create(client, &options, ret_locker, error);
}

#endif
