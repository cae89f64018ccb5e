/*
 * cost.c - what a cycle of a slot and of sets takes, in turns with that of one mutex: medians.
 *
 *     groups-cost URL COUNT
 */
#include <simba/simba.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define KINDS 4
#define WARM_UP 50

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static int create(simba_client *client, simba_locker *lockers[KINDS], struct simba_error *error)
{
    static const char *const names[] = {"cost-a", "cost-b", "cost-c", "cost-d"};
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    int code;

    options.mutex = "cost";
    code = simba_locker_create(client, &options, &lockers[0], error);
    options.mutex = "cost-slots";
    if (code == SIMBA_OK)
        code = simba_semaphore_create(client, 3, &options, &lockers[1], error);
    options.mutex = NULL;
    for (size_t i = 2; i < KINDS && code == SIMBA_OK; i++)
        code = simba_locker_create_set(client, names, 2 * (i - 1), &options, &lockers[i], error);
    return code;
}

static int measure(simba_locker *lockers[KINDS], double *taken[KINDS], int count,
                   struct simba_error *error)
{
    int code = SIMBA_OK;

    for (int round = -WARM_UP; round < count && code == SIMBA_OK; round++)
        for (int i = 0; i < KINDS && code == SIMBA_OK; i++) {
            double begun_us = now_us();
            code = simba_locker_acquire(lockers[i], error);
            if (code == SIMBA_OK)
                code = simba_locker_release(lockers[i], error);
            if (round >= 0)
                taken[i][round] = now_us() - begun_us;
        }
    return code;
}

static void print(double *taken[KINDS], int count)
{
    static const char *const kinds[KINDS] = {"mutex", "slot", "set of 2", "set of 4"};
    static const int parts[KINDS] = {1, 1, 2, 4};

    for (int i = 0; i < KINDS; i++) {
        qsort(taken[i], (size_t)count, sizeof **taken, compare);
        printf("%s%s %.0f us = %.2f x %d", i > 0 ? "; " : "", kinds[i], taken[i][count / 2],
               taken[i][count / 2] / taken[0][count / 2] / parts[i], parts[i]);
    }
    puts("");
}

int main(int argc, char **argv)
{
    simba_locker *lockers[KINDS] = {NULL};
    double *taken[KINDS];
    struct simba_error error;
    simba_client *client = NULL;
    int count = argc == 3 ? atoi(argv[2]) : 0;
    int code;

    if (count < 1)
        return 64;
    for (int i = 0; i < KINDS; i++)
        taken[i] = calloc((size_t)count, sizeof **taken);
    code = simba_client_open(argv[1], NULL, &client, &error);
    if (code == SIMBA_OK)
        code = create(client, lockers, &error);
    if (code == SIMBA_OK)
        code = measure(lockers, taken, count, &error);
    if (code == SIMBA_OK)
        print(taken, count);
    else
        fprintf(stderr, "%s\n", error.text);
    for (int i = 0; i < KINDS; i++) {
        simba_locker_close(lockers[i]);
        free(taken[i]);
    }
    if (client != NULL)
        simba_client_close(client, NULL);
    return code == SIMBA_OK ? 0 : 1;
}
