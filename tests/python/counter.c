/*
 * counter.c - adds to the number in a file under a mutex, as users of other languages do beside it.
 *
 *     simba-counter URL MUTEX FILE TIMES
 */
#include <simba/simba.h>

#include <stdio.h>
#include <stdlib.h>

/* Reads and writes in two steps, so that what another writes in between is lost. */
static int add_one(const char *path)
{
    long number = 0;
    FILE *file = fopen(path, "r");

    if (file == NULL || fscanf(file, "%ld", &number) != 1)
        return -1;
    fclose(file);
    file = fopen(path, "w");
    if (file == NULL)
        return -1;
    fprintf(file, "%ld\n", number + 1);
    return fclose(file);
}

static int run(const char *url, const char *mutex, const char *path, int times,
               struct simba_error *error)
{
    SIMBA_SCOPED(client) simba_client *client = NULL;
    SIMBA_SCOPED(locker) simba_locker *lock = NULL;
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    int code = simba_client_open(url, NULL, &client, error);

    options.mutex = mutex;
    if (code == SIMBA_OK)
        code = simba_locker_create(client, &options, &lock, error);
    while (code == SIMBA_OK && times-- > 0) {
        code = simba_locker_acquire(lock, error);
        if (code == SIMBA_OK && add_one(path) != 0)
            perror(path);
        if (code == SIMBA_OK)
            code = simba_locker_release(lock, error);
    }
    return code;
}

int main(int argc, char **argv)
{
    struct simba_error error = {0};

    if (argc != 5) {
        fputs("simba-counter URL MUTEX FILE TIMES\n", stderr);
        return 2;
    }
    if (run(argv[1], argv[2], argv[3], atoi(argv[4]), &error) != SIMBA_OK) {
        fprintf(stderr, "simba-counter: %s\n", error.text);
        return 1;
    }
    return 0;
}
