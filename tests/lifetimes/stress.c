/*
 * The lifetimes of handles under stress: threads pause at random at every lock and unlock of the
 * library, freed memory is poisoned, and everything is closed at bad moments.
 *
 *     lifetimes-stress --pauses LIBRARY [--seconds N] [--seed N] [--only NAME]
 *
 * Each scenario runs in a process of its own, under the preloaded pauses, and a line of TAP tells
 * its seed. A seed decides the random numbers of a run, not its order of threads: a failure may
 * need some runs to come again.
 */
#include "lib/poison.h"
#include "scenarios.h"
#include "thing.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_SECONDS 16
#define SPARE_SECONDS 60 /* for the last round of a scenario, on a busy machine */

#if defined(__SANITIZE_THREAD__)
#define FORKS false /* the thread sanitizer ends a child that starts threads */
#else
#define FORKS true
#endif

struct scenario {
    const char *name;
    void (*play)(void);
    bool forks;
};

static const struct scenario scenarios[] = {
    {"stops", play_stops, false},     {"losses", play_losses, false},
    {"starts", play_starts, false},   {"closes", play_closes, false},
    {"pools", play_pools, false},     {"single-thread", play_single_thread, false},
    {"cancels", play_cancels, false}, {"forks", play_forks, true},
};

#define SCENARIOS (sizeof scenarios / sizeof scenarios[0])

struct choice {
    const char *pauses;
    const char *only;
    const char *child; /* the scenario to play in this process */
    unsigned long long seed;
    double seconds;
};

static const char *program;

static void read_choice(int argc, char *argv[], struct choice *c)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--pauses") == 0)
            c->pauses = argv[i + 1];
        else if (strcmp(argv[i], "--only") == 0)
            c->only = argv[i + 1];
        else if (strcmp(argv[i], "--child") == 0)
            c->child = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0)
            c->seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            c->seconds = strtod(argv[i + 1], NULL);
    }
}

/* ---- One scenario ---------------------------------------------------------------------------- */

static int play(const struct choice *c)
{
    int64_t until_ms = now_ms() + (int64_t)(c->seconds * 1000);
    unsigned rounds = 0;

    test_poison_install();
    random_begin(c->seed);
    for (size_t i = 0; i < SCENARIOS; i++) {
        if (strcmp(scenarios[i].name, c->child) != 0)
            continue;
        do {
            scenarios[i].play();
            rounds++;
        } while (now_ms() < until_ms);
    }
    test_poison_check();
    printf("# %u rounds\n", rounds);
    return rounds > 0 ? 0 : 1;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* The address sanitizer wants to be the first library of a process, but need not be. */
static void allow_preload(void)
{
    const char *before = getenv("ASAN_OPTIONS");
    char options[512];

    snprintf(options, sizeof options, "%s:verify_asan_link_order=0", before != NULL ? before : "");
    setenv("ASAN_OPTIONS", options, 1);
}

static void begin_child(const struct choice *c, const char *name, double seconds)
{
    char seed[32];
    char duration[32];

    snprintf(seed, sizeof seed, "%llu", c->seed);
    snprintf(duration, sizeof duration, "%.3f", seconds);
    setenv("PAUSE_SEED", seed, 1);
    if (c->pauses != NULL) {
        allow_preload();
        setenv("LD_PRELOAD", c->pauses, 1);
    }
    execl(program, program, "--child", name, "--seed", seed, "--seconds", duration, (char *)NULL);
    _exit(127);
}

/* Returns its status; kills a scenario that does not end. */
static int wait_for_child(pid_t child, double seconds)
{
    int64_t until_ms = now_ms() + (int64_t)((seconds + SPARE_SECONDS) * 1000);
    int status = 0;
    pid_t ended;

    while ((ended = waitpid(child, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (now_ms() > until_ms) {
            fprintf(stderr, "# it hangs\n");
            kill(child, SIGKILL);
            until_ms = INT64_MAX;
        }
        pause_us(10000);
    }
    return status;
}

static bool run_scenario(const struct choice *c, const char *name, double seconds)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        begin_child(c, name, seconds);
    if (child < 0)
        return false;
    status = wait_for_child(child, seconds);
    if (WIFSIGNALED(status))
        fprintf(stderr, "# it was ended by signal %d\n", WTERMSIG(status));
    return status == 0;
}

int main(int argc, char *argv[])
{
    struct choice c = {.seconds = DEFAULT_SECONDS};
    unsigned number = 0;
    unsigned failed = 0;

    program = argv[0];
    if (getrandom(&c.seed, 4, 0) != 4)
        return 1;
    read_choice(argc, argv, &c);
    if (c.child != NULL)
        return play(&c);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < SCENARIOS; i++) {
        double seconds = c.only != NULL ? c.seconds : c.seconds / SCENARIOS;
        bool ok;

        if ((c.only != NULL && strcmp(c.only, scenarios[i].name) != 0) ||
            (scenarios[i].forks && !FORKS))
            continue;
        ok = run_scenario(&c, scenarios[i].name, seconds);
        failed += ok ? 0 : 1;
        printf("%s %u - %s (seed %llu)\n", ok ? "ok" : "not ok", ++number, scenarios[i].name,
               c.seed);
    }
    printf("1..%u\n", number);
    return failed > 0 ? 1 : 0;
}
