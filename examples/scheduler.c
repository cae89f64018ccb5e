/*
 * scheduler.c - periodic work that only the leader does.
 *
 *     scheduler [URL [SECONDS]]
 */
#include <simba/simba.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ITEMS 5

/* Long work asks from time to time whether it should end, and does so early. */
static int clean_up(void *user, simba_scheduler *scheduler)
{
    int *runs = user;

    (*runs)++;
    for (int item = 1; item <= ITEMS; item++) {
        if (simba_scheduler_should_stop(scheduler)) {
            printf("run %d: told to stop before item %d\n", *runs, item);
            return 0;
        }
    }
    printf("run %d under token %" PRIu64 "\n", *runs, simba_scheduler_fence(scheduler));
    return 0;
}

static int run(simba_client *client, time_t seconds, struct simba_error *error)
{
    struct simba_scheduler_options options = SIMBA_SCHEDULER_OPTIONS_INIT;
    struct simba_schedule_counts counts = SIMBA_SCHEDULE_COUNTS_INIT;
    struct timespec for_a_while = {seconds, 0};
    simba_scheduler *scheduler;
    int runs = 0; /* only one run at a time, so it needs no lock */
    int code;

    options.mutex = "example-scheduler";
    options.worker = "clean-up";
    options.work = clean_up;
    options.user = &runs;
    options.strategy = SIMBA_FIXED_RATE;
    options.period_ms = 500;
    code = simba_scheduler_create(client, &options, &scheduler, error);
    if (code != SIMBA_OK)
        return code;
    code = simba_scheduler_start(scheduler, error);
    if (code == SIMBA_OK) {
        nanosleep(&for_a_while, NULL);
        code = simba_scheduler_stop(scheduler, error); /* a run under way is waited for */
    }
    simba_scheduler_counts(scheduler, &counts);
    printf("%" PRIu64 " runs, %" PRIu64 " skipped\n", counts.runs, counts.skipped);
    simba_scheduler_close(scheduler);
    return code;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "sqlite:example.db";
    time_t seconds = argc > 2 ? (time_t)strtol(argv[2], NULL, 10) : 3;
    struct simba_error error = {0};
    simba_client *client;
    int code = simba_client_open(url, NULL, &client, &error);

    if (code == SIMBA_OK) {
        code = run(client, seconds, &error);
        simba_client_close(client, NULL);
    }
    if (code != SIMBA_OK)
        fprintf(stderr, "scheduler: %s\n", error.text);
    return code == SIMBA_OK ? 0 : 1;
}
