/*
 * leader.c - leader election: start it on several machines, and one of them leads at a time.
 *
 *     leader [URL [SECONDS]]
 *
 * It ends after SECONDS (3) or when it is interrupted, and hands over to another one.
 */
#include <simba/simba.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Callbacks run on threads of the client. They begin and end the leader's duties; the duties
 * themselves belong on a thread of their own, which asks simba_contender_is_owner() before each
 * step. */
static void on_acquired(void *user, const struct simba_state *state)
{
    (void)user;
    printf("leading as %s, token %" PRIu64 "\n", state->after.id, state->after.fence);
}

/* On a stop the mutex is released when this has returned, not before. */
static void on_released(void *user, const struct simba_state *state)
{
    (void)user;
    (void)state;
    printf("not leading any more\n");
}

static void on_notify(void *user, const struct simba_state *state)
{
    (void)user;
    printf("owner: '%s' -> '%s'\n", state->before.id, state->after.id);
}

/* Waits for SIGINT or SIGTERM, which all threads have blocked, or for the time to run out. */
static void wait_for_signal(const sigset_t *signals, time_t seconds)
{
    struct timespec timeout = {seconds, 0};

    sigtimedwait(signals, NULL, &timeout);
}

static int lead(simba_client *client, const sigset_t *signals, time_t seconds)
{
    struct simba_contender_options options = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error = {0};
    simba_contender *contender;

    options.mutex = "example-leader";
    options.on_acquired = on_acquired;
    options.on_released = on_released;
    options.on_notify = on_notify;
    if (simba_contender_create(client, &options, &contender, &error) != SIMBA_OK) {
        fprintf(stderr, "leader: %s\n", error.text);
        return 1;
    }
    if (simba_contender_start(contender, &error) == SIMBA_OK) {
        wait_for_signal(signals, seconds);
        simba_contender_stop(contender, &error);
    }
    simba_contender_close(contender);
    if (error.code != SIMBA_OK)
        fprintf(stderr, "leader: %s\n", error.text);
    return error.code == SIMBA_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "sqlite:example.db";
    time_t seconds = argc > 2 ? (time_t)strtol(argv[2], NULL, 10) : 3;
    struct simba_error error;
    simba_client *client;
    sigset_t signals;
    int result;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL); /* before the client starts its threads */
    if (simba_client_open(url, NULL, &client, &error) != SIMBA_OK) {
        fprintf(stderr, "leader: %s\n", error.text);
        return 1;
    }
    result = lead(client, &signals, seconds);
    simba_client_close(client, NULL);
    return result;
}
