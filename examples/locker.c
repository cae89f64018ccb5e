/*
 * locker.c - acquire, work, release; with handles that the scope releases and closes.
 *
 *     locker [URL]
 */
#include <simba/simba.h>

#include <inttypes.h>
#include <stdio.h>

#define STEPS 3

/* Work that outlives its lease must not go on: ask before each step. What cannot be asked in time,
 * such as a write that is under way to another machine, is protected by the token: the receiver of
 * the write refuses a token smaller than one that it has seen. */
static int work(const simba_locker *lock)
{
    for (int step = 1; step <= STEPS; step++) {
        if (!simba_locker_is_held(lock)) {
            fprintf(stderr, "locker: lost the lease, stopping before step %d\n", step);
            return 1;
        }
        printf("step %d under token %" PRIu64 "\n", step, simba_locker_fence(lock));
    }
    return 0;
}

static int run(const char *url, struct simba_error *error)
{
    /* Closed in the reverse order: first the locker, which releases, then the client. */
    SIMBA_SCOPED(client) simba_client *client = NULL;
    SIMBA_SCOPED(locker) simba_locker *lock = NULL;
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    int code = simba_client_open(url, NULL, &client, error);

    options.mutex = "example-locker";
    if (code == SIMBA_OK)
        code = simba_locker_create(client, &options, &lock, error);
    if (code == SIMBA_OK)
        code = simba_locker_acquire_timeout(lock, 5000, error);
    if (code != SIMBA_OK)
        return code;
    if (work(lock) != 0)
        return SIMBA_ELOST;
    return simba_locker_release(lock, error);
}

int main(int argc, char **argv)
{
    struct simba_error error = {0};
    int code = run(argc > 1 ? argv[1] : "sqlite:example.db", &error);

    switch (simba_error_group(code)) {
    case SIMBA_GROUP_NONE:
        return 0;
    case SIMBA_GROUP_CONTENDED:
        fprintf(stderr, "locker: somebody else is at work\n");
        return 75;
    default:
        fprintf(stderr, "locker: %s\n", error.code != SIMBA_OK ? error.text : simba_strerror(code));
        return 1;
    }
}
