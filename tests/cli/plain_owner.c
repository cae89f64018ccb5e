/*
 * An owner that knows nothing of requests to hand over, as the JVM library: holds the mutex until
 * its standard input ends.
 *
 *     plain_owner URL MUTEX ID
 */
#include <simba/simba.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_error error;
    simba_client *client = NULL;
    simba_locker *lock = NULL;

    if (argc != 4)
        return 2;
    options.mutex = argv[2];
    options.id = argv[3];
    if (simba_client_open(argv[1], NULL, &client, &error) != SIMBA_OK ||
        simba_locker_create(client, &options, &lock, &error) != SIMBA_OK ||
        simba_locker_acquire(lock, &error) != SIMBA_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    puts("owns");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    int code = simba_locker_release(lock, &error);
    simba_locker_close(lock);
    simba_client_close(client, NULL);
    return code == SIMBA_OK ? 0 : 1;
}
