/*
 * turns.c - two clients that want one mutex again at once, so that each makes its key anew while
 * the other begins to watch it.
 *
 *     turns URL TURNS
 *
 * Ends with 0 when both had their turns.
 */
#include <simba/simba.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_MS 60000

struct side {
    const char *url;
    long turns;
    struct simba_error error;
};

static int take_turns(simba_locker *lock, struct side *side)
{
    int code = SIMBA_OK;

    for (long i = 0; i < side->turns && code == SIMBA_OK; i++) {
        code = simba_locker_acquire_timeout(lock, PATIENCE_MS, &side->error);
        if (code == SIMBA_OK)
            code = simba_locker_release(lock, &side->error);
    }
    return code;
}

static void *run(void *argument)
{
    struct side *side = argument;
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    simba_client *client = NULL;
    simba_locker *lock = NULL;
    int code = simba_client_open(side->url, NULL, &client, &side->error);

    options.mutex = "turns";
    if (code == SIMBA_OK)
        code = simba_locker_create(client, &options, &lock, &side->error);
    if (code == SIMBA_OK)
        code = take_turns(lock, side);
    simba_locker_close(lock);
    simba_client_close(client, NULL);
    return code == SIMBA_OK ? NULL : side;
}

int main(int argc, char **argv)
{
    struct side sides[2] = {0};
    pthread_t threads[2];
    int failed = 0;

    if (argc < 3)
        return 2;
    for (int i = 0; i < 2; i++) {
        sides[i].url = argv[1];
        sides[i].turns = strtol(argv[2], NULL, 10);
        if (pthread_create(&threads[i], NULL, run, &sides[i]) != 0)
            return 2;
    }
    for (int i = 0; i < 2; i++) {
        void *result;

        pthread_join(threads[i], &result);
        if (result != NULL)
            fprintf(stderr, "%s\n", sides[i].error.text);
        failed += result != NULL;
    }
    return failed > 0;
}
