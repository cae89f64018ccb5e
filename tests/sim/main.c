/*
 * main.c - simba-sim: runs seeds, in several processes, and tells which seed broke which rule.
 *
 *     simba-sim [--seeds N] [--first SEED] [--jobs N] [--beyond-drift]
 *     simba-sim --trace SEED [--beyond-drift]
 *     simba-sim --events SEED [--beyond-drift]
 *
 * Exit code: 0 when no rule is broken, 1 when one is, 2 when the simulator itself fails, 64 for a
 * wrong call.
 */
#include "sim.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS_MAX 64
#define SEEDS_FOR_ALL 10000 /* in so many worlds everything must have happened */

/* What a worker shares with its parent, so that a crash can be told with its seed. */
struct job {
    pid_t pid;
    uint64_t seed; /* that it runs now, or that failed */
    uint64_t done;
    bool failed;
    char violation[256];
    uint64_t counts[SIM_COUNTS];
};

struct plan {
    uint64_t first;
    uint64_t seeds;
    int jobs;
    bool several; /* --seeds, --first or --jobs was given */
    struct sim_options options;
};

static const char *const count_names[SIM_COUNTS] = {
    [SIM_EVENTS] = "events",
    [SIM_TERMS] = "terms",
    [SIM_RENEWALS] = "renewals",
    [SIM_LOSSES] = "losses",
    [SIM_UNKNOWN] = "unknown outcomes",
    [SIM_LATE_APPLIED] = "requests carried out late",
    [SIM_LATE_DROPPED] = "late replies dropped",
    [SIM_LATE_GRANTS] = "late grants given back",
    [SIM_SESSIONS_LOST] = "sessions lost",
    [SIM_RECALLED] = "guards answered from memory",
    [SIM_STOPS_OK] = "stops complete",
    [SIM_STOPS_LOST] = "stops that found a loss",
    [SIM_STOPS_FAILED] = "stops given up",
    [SIM_VOIDED] = "terms voided",
    [SIM_OVERLAPS] = "overlaps, with voided terms or beyond the drift bound",
    [SIM_WRITES] = "writes accepted",
    [SIM_REFUSED_WRITES] = "stale writes refused",
    [SIM_REFUSED] = "resets before sending",
    [SIM_LOST] = "requests lost",
    [SIM_RESET] = "resets after sending",
    [SIM_REPLY_LOST] = "replies lost",
    [SIM_DUPLICATED] = "requests carried out twice",
    [SIM_SLOW] = "slow messages",
    [SIM_NO_MEMORY] = "requests without memory",
    [SIM_WAKE_LOST] = "wake-ups lost",
    [SIM_SLOW_CALLBACKS] = "slow callbacks",
    [SIM_STUCK_CALLBACKS] = "stuck callbacks",
    [SIM_STOPS_INSIDE] = "stops from callbacks",
    [SIM_ILLEGAL_CALLS] = "illegal calls",
    [SIM_OWNERS_KILLED] = "owners killed when the faults heal",
    [SIM_HICCUPS] = "hiccups on good days",
    [SIM_PLACES] = "places told to those who take turns",
    [SIM_RESERVATIONS] = "reservations",
    [SIM_RESERVED_FOR_OTHER] = "attempts that found a reservation for another",
    [SIM_WHIMS] = "reservations forgotten or invented",
    [SIM_LOOKS] = "looks of contenders that follow",
    [SIM_BLOCKED] = "requests that waited inside the store",
    [SIM_STOLEN] = "terms taken by a contender with the same id",
    [SIM_FOREIGN] = "guards that found another term of the same id",
    [SIM_DEPOSED] = "requests to a server that was deposed",
    [SIM_FAULTS + SIM_FAULT_PARTITION] = "partitions",
    [SIM_FAULTS + SIM_FAULT_PAUSE] = "pauses",
    [SIM_FAULTS + SIM_FAULT_SUSPEND] = "suspends",
    [SIM_FAULTS + SIM_FAULT_CRASH] = "crashes",
    [SIM_FAULTS + SIM_FAULT_DEATH] = "crashes without a restart",
    [SIM_FAULTS + SIM_FAULT_STORE_DOWN] = "store restarts",
    [SIM_FAULTS + SIM_FAULT_DATA_LOSS] = "data losses",
    [SIM_FAULTS + SIM_FAULT_FORCE_RELEASE] = "force-releases",
    [SIM_FAULTS + SIM_FAULT_FALSE_WAKE] = "false wake-ups",
    [SIM_FAULTS + SIM_FAULT_DEPOSE] = "servers deposed",
};

static void add_counts(uint64_t sum[SIM_COUNTS], const uint64_t counts[SIM_COUNTS])
{
    for (size_t i = 0; i < SIM_COUNTS; i++)
        sum[i] += counts[i];
}

static void work(const struct plan *plan, int number, struct job *job)
{
    static struct sim_world world;

    for (uint64_t i = (uint64_t)number; i < plan->seeds; i += (uint64_t)plan->jobs) {
        const char *violation;

        job->seed = plan->first + i;
        violation = sim_world_run(&world, job->seed, &plan->options);
        add_counts(job->counts, world.counts);
        job->done++;
        if (violation != NULL) {
            memcpy(job->violation, violation, strlen(violation) + 1);
            job->failed = true;
            exit(1);
        }
    }
    exit(0);
}

static void start(const struct plan *plan, int number, struct job *job)
{
    pid_t pid = fork();

    if (pid < 0) {
        perror("simba-sim: fork");
        exit(2);
    }
    if (pid == 0)
        work(plan, number, job);
    job->pid = pid; /* by the parent only: the child shares the memory */
}

static bool finish(struct job *job)
{
    int status;

    if (waitpid(job->pid, &status, 0) != job->pid) {
        perror("simba-sim: waitpid");
        exit(2);
    }
    if (job->failed)
        printf("seed %" PRIu64 " breaks a rule after %" PRIu64 " seeds of this job: %s\n",
               job->seed, job->done, job->violation);
    else if (WIFSIGNALED(status))
        printf("seed %" PRIu64 " ends with signal %d\n", job->seed, WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        printf("seed %" PRIu64 " ends with exit code %d\n", job->seed, WEXITSTATUS(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void print_counts(const uint64_t counts[SIM_COUNTS])
{
    for (size_t i = 0; i < SIM_COUNTS; i++)
        printf("%12" PRIu64 " %s\n", counts[i], count_names[i]);
}

/* What never happens shows nothing. */
static bool has_all(const uint64_t counts[SIM_COUNTS])
{
    bool all = true;

    for (size_t i = 0; i < SIM_COUNTS; i++) {
        if (counts[i] == 0)
            printf("the worlds are dull: no %s\n", count_names[i]);
        all &= counts[i] > 0;
    }
    return all;
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int run(const struct plan *plan)
{
    size_t size = sizeof(struct job) * (size_t)plan->jobs;
    struct job *jobs = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t sum[SIM_COUNTS] = {0};
    double began_s = now_s();
    uint64_t done = 0;
    bool ok = true;

    if (jobs == MAP_FAILED) {
        perror("simba-sim: mmap");
        return 2;
    }
    printf("seeds %" PRIu64 " to %" PRIu64 "%s\n", plan->first, plan->first + plan->seeds - 1,
           plan->options.beyond_drift ? ", clocks beyond the drift bound" : "");
    fflush(stdout);
    for (int i = 0; i < plan->jobs; i++)
        start(plan, i, &jobs[i]);
    for (int i = 0; i < plan->jobs; i++) {
        ok &= finish(&jobs[i]);
        done += jobs[i].done;
        add_counts(sum, jobs[i].counts);
    }
    print_counts(sum);
    if (ok && done >= SEEDS_FOR_ALL && !plan->options.beyond_drift)
        ok = has_all(sum);
    printf("%" PRIu64 " seeds in %.1f s: %s\n", done, now_s() - began_s,
           ok ? "no rule broken" : "FAILED; read a seed with --trace SEED");
    munmap(jobs, size);
    return ok ? 0 : 1;
}

static int trace(const struct plan *plan)
{
    static struct sim_world world;
    const char *violation = sim_world_run(&world, plan->first, &plan->options);

    if (plan->options.events != NULL)
        return violation != NULL ? 1 : 0;
    print_counts(world.counts);
    printf("seed %" PRIu64 ": %s\n", plan->first, violation != NULL ? violation : "no rule broken");
    return violation != NULL ? 1 : 0;
}

static void print_usage(FILE *file)
{
    fputs("usage: simba-sim [--seeds N] [--first SEED] [--jobs N] [--beyond-drift]\n"
          "       simba-sim --trace SEED [--beyond-drift]\n"
          "       simba-sim --events SEED [--beyond-drift]\n"
          "  --seeds N       run N worlds (1000)\n"
          "  --first SEED    from this seed on (1)\n"
          "  --jobs N        in N processes (1)\n"
          "  --trace SEED    run one world and tell all that happens in it\n"
          "  --events SEED   run one world and tell what spec/replay compares\n"
          "  --beyond-drift  let the clocks run apart by more than the margin covers\n",
          file);
}

static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret_number)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || number < least || number > most)
        return false;
    *ret_number = number;
    return true;
}

static bool plan_is_single(const struct plan *plan)
{
    return plan->options.trace != NULL || plan->options.events != NULL;
}

static bool parse(int argc, char **argv, struct plan *plan)
{
    static const struct option options[] = {
        {"seeds", required_argument, NULL, 's'},  {"first", required_argument, NULL, 'f'},
        {"jobs", required_argument, NULL, 'j'},   {"trace", required_argument, NULL, 't'},
        {"events", required_argument, NULL, 'e'}, {"beyond-drift", no_argument, NULL, 'b'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    uint64_t jobs = 1;
    bool ok = true;
    int option;

    while (ok && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        plan->several |= option == 's' || option == 'f' || option == 'j';
        switch (option) {
        case 's':
            ok = parse_number(optarg, 1, UINT64_MAX, &plan->seeds);
            break;
        case 'f':
            ok = parse_number(optarg, 0, UINT64_MAX, &plan->first);
            break;
        case 'j':
            ok = parse_number(optarg, 1, JOBS_MAX, &jobs);
            break;
        case 't':
            ok = parse_number(optarg, 0, UINT64_MAX, &plan->first);
            plan->options.trace = stdout;
            break;
        case 'e':
            ok = parse_number(optarg, 0, UINT64_MAX, &plan->first);
            plan->options.events = stdout;
            break;
        case 'b':
            plan->options.beyond_drift = true;
            break;
        case 'h':
            print_usage(stdout);
            exit(0);
        default:
            ok = false;
        }
    }
    plan->jobs = (int)jobs;
    return ok && optind == argc && !(plan->several && plan_is_single(plan));
}

int main(int argc, char **argv)
{
    struct plan plan = {.first = 1, .seeds = 1000};

    if (!parse(argc, argv, &plan)) {
        print_usage(stderr);
        return 64;
    }
    return plan_is_single(&plan) ? trace(&plan) : run(&plan);
}
