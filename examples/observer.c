/*
 * observer.c - follows a mutex without competing for it: who leads, since when, with which token.
 *
 *     observer [URL [MUTEX [SECONDS]]]
 */
#include <simba/simba.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *name_of(const struct simba_owner *owner)
{
    return owner->id[0] != '\0' ? owner->id : "nobody";
}

static void on_notify(void *user, const struct simba_state *state)
{
    (void)user;
    printf("%s -> %s, token %" PRIu64 "\n", name_of(&state->before), name_of(&state->after),
           state->after.fence);
}

static int follow(simba_client *client, const char *mutex, time_t seconds,
                  struct simba_error *error)
{
    struct simba_observer_options options = SIMBA_OBSERVER_OPTIONS_INIT;
    struct simba_state state = SIMBA_STATE_NONE;
    struct timespec for_a_while = {seconds, 0};
    simba_observer *observer;
    int code;

    options.mutex = mutex;
    options.on_notify = on_notify;
    options.poll_ms = 200; /* where the store has no wake-up, no change stays unseen for longer */
    code = simba_observer_create(client, &options, &observer, error);
    if (code != SIMBA_OK)
        return code;
    code = simba_observer_start(observer, error);
    if (code == SIMBA_OK) {
        nanosleep(&for_a_while, NULL);
        code = simba_observer_stop(observer, error);
    }
    simba_observer_state(observer, &state);
    printf("%s owns %s in the end\n", name_of(&state.after), mutex);
    simba_observer_close(observer);
    return code;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "sqlite:example.db";
    const char *mutex = argc > 2 ? argv[2] : "example-leader";
    time_t seconds = argc > 3 ? (time_t)strtol(argv[3], NULL, 10) : 3;
    struct simba_error error = {0};
    simba_client *client;
    int code = simba_client_open(url, NULL, &client, &error);

    if (code == SIMBA_OK) {
        code = follow(client, mutex, seconds, &error);
        simba_client_close(client, NULL);
    }
    if (code != SIMBA_OK)
        fprintf(stderr, "observer: %s\n", error.text);
    return code == SIMBA_OK ? 0 : 1;
}
