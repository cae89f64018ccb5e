/* quickstart.c - hold a mutex while you work. */
#include <simba/simba.h>
#include <stdio.h>

int main(void)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct simba_error error;
    simba_client *client = NULL;
    simba_locker *lock = NULL;

    options.mutex = "backup";
    if (simba_client_open("sqlite:quickstart.db", NULL, &client, &error) ||
        simba_locker_create(client, &options, &lock, &error) ||
        simba_locker_acquire_timeout(lock, 5000, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("mine, with token %llu\n", (unsigned long long)simba_locker_fence(lock));
    simba_locker_release(lock, NULL);
    simba_locker_close(lock);
    return simba_client_close(client, NULL) ? 1 : 0;
}
