/*
 * main.c - simba-sim: runs seeds, in several processes, and tells which seed broke which rule.
 *
 *     simba-sim [--seeds N] [--first SEED] [--jobs N] [--beyond-drift]
 *     simba-sim --trace SEED [--beyond-drift]
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

/* What a worker shares with its parent, so that a crash can be told with its seed. */
struct job {
    pid_t pid;
    uint64_t seed; /* that it runs now, or that failed */
    uint64_t done;
    bool failed;
    char violation[256];
    struct sim_counts counts;
};

struct plan {
    uint64_t first;
    uint64_t seeds;
    int jobs;
    bool tracing;
    struct sim_options options;
};

static void add_counts(struct sim_counts *sum, const struct sim_counts *counts)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)counts;

    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

static void work(const struct plan *plan, int number, struct job *job)
{
    static struct sim_world world;

    for (uint64_t i = (uint64_t)number; i < plan->seeds; i += (uint64_t)plan->jobs) {
        const char *violation;

        job->seed = plan->first + i;
        violation = sim_world_run(&world, job->seed, &plan->options);
        add_counts(&job->counts, &world.counts);
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

static void print_counts(const struct sim_counts *c)
{
    static const char *const faults[] = {"partitions",     "pauses",         "suspends",
                                         "crashes",        "store restarts", "data losses",
                                         "force-releases", "false wake-ups"};

    printf("%" PRIu64 " events, %" PRIu64 " terms, %" PRIu64 " renewals, %" PRIu64 " losses\n",
           c->events, c->terms, c->renewals, c->losses);
    printf("%" PRIu64 " unknown outcomes, %" PRIu64 " carried out late, %" PRIu64
           " late replies dropped, %" PRIu64 " sessions lost, %" PRIu64
           " guards answered from memory\n",
           c->unknown, c->late_applied, c->late_dropped, c->sessions_lost, c->recalled);
    printf("%" PRIu64 " stops complete, %" PRIu64 " given up; %" PRIu64 " terms voided, %" PRIu64
           " overlaps; %" PRIu64 " writes accepted, %" PRIu64 " stale writes refused\n",
           c->stops_ok, c->stops_failed, c->voided, c->overlaps, c->writes, c->refused_writes);
    for (size_t i = 0; i < SIM_FAULT_COUNT; i++)
        printf("%s%" PRIu64 " %s", i > 0 ? ", " : "", c->faults[i], faults[i]);
    printf("\n");
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
    struct sim_counts sum = {0};
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
        add_counts(&sum, &jobs[i].counts);
    }
    print_counts(&sum);
    printf("%" PRIu64 " seeds in %.1f s: %s\n", done, now_s() - began_s,
           ok ? "no rule broken" : "FAILED; read a seed with --trace SEED");
    munmap(jobs, size);
    return ok ? 0 : 1;
}

static int trace(const struct plan *plan)
{
    static struct sim_world world;
    const char *violation = sim_world_run(&world, plan->first, &plan->options);

    print_counts(&world.counts);
    printf("seed %" PRIu64 ": %s\n", plan->first, violation != NULL ? violation : "no rule broken");
    return violation != NULL ? 1 : 0;
}

static int usage(void)
{
    fputs("usage: simba-sim [--seeds N] [--first SEED] [--jobs N] [--beyond-drift]\n"
          "       simba-sim --trace SEED [--beyond-drift]\n",
          stderr);
    return 64;
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

static bool parse(int argc, char **argv, struct plan *plan)
{
    static const struct option options[] = {
        {"seeds", required_argument, NULL, 's'},  {"first", required_argument, NULL, 'f'},
        {"jobs", required_argument, NULL, 'j'},   {"trace", required_argument, NULL, 't'},
        {"beyond-drift", no_argument, NULL, 'b'}, {NULL, 0, NULL, 0},
    };
    uint64_t jobs = 1;
    bool ok = true;
    int option;

    while (ok && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
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
        case 'b':
            plan->options.beyond_drift = true;
            break;
        default:
            ok = false;
        }
    }
    plan->jobs = (int)jobs;
    return ok && optind == argc;
}

int main(int argc, char **argv)
{
    struct plan plan = {.first = 1, .seeds = 1000};

    if (!parse(argc, argv, &plan))
        return usage();
    return plan.options.trace != NULL ? trace(&plan) : run(&plan);
}
