/*
 * bench.c - `simba bench`: measures a store through the library, beside what its own client library needs.
 */
#include "cli/bench.h"

#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/scratch.h"
#include "cli/events.h"
#include "cli/store.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#define QUESTIONS_MAX 16

/* What the command line says; 0: nothing. */
struct bench {
    int count;
    int rounds;
    int mutexes;
    int contenders;
    int processes;
    int64_t window_ms;
    bool json;
    const struct bench_question *questions[QUESTIONS_MAX]; /* in the order of the command line */
    size_t question_count;
    struct bench_result answers[QUESTIONS_MAX]; /* in the same order */
    size_t answer_count;
};

static bool set_count(void *into, const char *value)
{
    return cli_option_number("--count", value, 1, 100000000, &((struct bench *)into)->count);
}

static bool set_rounds(void *into, const char *value)
{
    return cli_option_number("--rounds", value, 1, BENCH_ROUNDS_MAX,
                             &((struct bench *)into)->rounds);
}

static bool set_mutexes(void *into, const char *value)
{
    return cli_option_number("--mutexes", value, 1, 1000000, &((struct bench *)into)->mutexes);
}

static bool set_contenders(void *into, const char *value)
{
    return cli_option_number("--contenders", value, 2, 100000, &((struct bench *)into)->contenders);
}

static bool set_processes(void *into, const char *value)
{
    return cli_option_number("--processes", value, 1, 64, &((struct bench *)into)->processes);
}

static bool set_window(void *into, const char *value)
{
    struct bench *bench = into;

    if (!cli_option_duration("--window", value, &bench->window_ms))
        return false;
    if (bench->window_ms == 0)
        cli_message("--window: '%s' is no time at all", value);
    return bench->window_ms > 0;
}

static bool set_json(void *into, const char *value)
{
    (void)value;
    ((struct bench *)into)->json = true;
    return true;
}

static const struct cli_option options[] = {
    {0, "count", "N", "measurements in a round (each question has its own)", CLI_CALL(set_count)},
    {0, "rounds", "N", "rounds (each question has its own)", CLI_CALL(set_rounds)},
    {0, "mutexes", "N", "mutexes that 'many' holds (1000)", CLI_CALL(set_mutexes)},
    {0, "contenders", "N", "contenders of 'contention' (1000)", CLI_CALL(set_contenders)},
    {0, "processes", "N", "processes that they are spread over (4)", CLI_CALL(set_processes)},
    {0, "window", "DURATION", "how long a round of contention lasts (1s)", CLI_CALL(set_window)},
    {0, "json", NULL, "print JSON", CLI_CALL(set_json)},
    CLI_OPTIONS_END,
};

/* ---- What is asked ------------------------------------------------------------------------ */

static bool choose_question(struct bench *bench, const char *name)
{
    for (const struct bench_question *q = bench_questions; q->name != NULL; q++) {
        if (strcmp(q->name, name) == 0 && bench->question_count < QUESTIONS_MAX) {
            bench->questions[bench->question_count++] = q;
            return true;
        }
    }
    cli_message("bench: there is no question '%s'", name);
    return false;
}

static bool choose_questions(struct bench *bench, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (!choose_question(bench, argv[i]))
            return false;
    for (const struct bench_question *q = bench_questions; argc == 0 && q->name != NULL; q++)
        bench->questions[bench->question_count++] = q;
    return true;
}

static void set_plan(struct bench_plan *plan, const struct cli *cli, const struct bench *bench)
{
    plan->count = bench->count;
    plan->rounds = bench->rounds;
    if (bench->mutexes != 0)
        plan->mutexes = bench->mutexes;
    if (bench->contenders != 0)
        plan->contenders = bench->contenders;
    if (bench->processes != 0)
        plan->processes = bench->processes;
    if (bench->window_ms != 0)
        plan->window_ms = bench->window_ms;
    if (cli->ttl_ms != SIMBA_UNSET)
        plan->ttl_ms = cli->ttl_ms;
    if (cli->transition_ms != SIMBA_UNSET)
        plan->transition_ms = cli->transition_ms;
}

/* ---- Asking ------------------------------------------------------------------------------- */

static int ask_all(const struct bench_plan *plan, struct bench *bench, struct simba_error *error)
{
    for (size_t i = 0; i < bench->question_count; i++) {
        int code = bench_ask(plan, bench->questions[i], &bench->answers[i], error);
        if (code != SIMBA_OK)
            return code;
        bench->answer_count++;
        if (!bench->json)
            cli_bench_print(bench->questions[i], &bench->answers[i]);
        cli_output_flush();
    }
    return SIMBA_OK;
}

/* Only at the end, so that whatever happens it is a whole object or nothing. */
static void print_json(const struct bench_plan *plan, const struct cli_machine *machine,
                       const struct bench *bench, const char *error)
{
    if (bench->answer_count == 0)
        return;
    cli_bench_begin_json(plan, machine);
    for (size_t i = 0; i < bench->answer_count; i++)
        cli_bench_print_json(bench->questions[i], &bench->answers[i], i == 0);
    cli_bench_end_json(error);
}

/* Nobody else wants the mutexes, so a time that ran out or a lease that was lost is the store's doing. */
static int fail(const struct simba_error *error)
{
    if (bench_signal() != 0)
        return cli_signals_ended_by(bench_signal());
    int status = cli_fail(error);
    return status == CLI_EXIT_CONTENDED || status == CLI_EXIT_LOST ? CLI_EXIT_UNAVAILABLE : status;
}

/* Whatever happened, nothing stays on the store. */
static void clean_up(const struct bench_plan *plan)
{
    struct simba_error error;

    if (bench_signal() != 0)
        cli_message("cleaning up; another signal leaves at once");
    int code = bench_forget(plan, &error);
    if (code == SIMBA_EUNSUPPORTED)
        cli_message("free mutexes named %s... may be left on the store: %s", plan->prefix,
                    error.text);
    else if (code != SIMBA_OK)
        cli_message("mutexes named %s... are left on the store: %s", plan->prefix, error.text);
}

static int measure(const struct bench_plan *plan, struct bench *bench)
{
    struct cli_machine machine;
    struct simba_error error;

    cli_machine_read(&machine);
    if (bench_check(plan, &error) != SIMBA_OK)
        return fail(&error);
    if (!bench->json)
        cli_bench_begin(plan, &machine);
    cli_output_flush();
    int code = ask_all(plan, bench, &error);
    int status = code == SIMBA_OK ? CLI_EXIT_OK : fail(&error);
    clean_up(plan);
    if (bench->json)
        print_json(plan, &machine, bench, code == SIMBA_OK ? NULL : error.text);
    return status;
}

/* ---- The verb ----------------------------------------------------------------------------- */

static int run_on(const struct cli *cli, struct bench *bench, const char *url)
{
    struct bench_plan plan;
    struct simba_error error;

    if (strncasecmp(url, "memory:", 7) == 0) {
        cli_message("the store memory: belongs to one process, and the bench has several");
        return CLI_EXIT_CONFIG;
    }
    if (bench_plan_init(&plan, url, &error) != SIMBA_OK)
        return cli_fail(&error);
    set_plan(&plan, cli, bench);
    return measure(&plan, bench);
}

/* What is measured would hold up those who use the default store. */
static int run_in_folder(const struct cli *cli, struct bench *bench)
{
    char folder[PATH_MAX];
    char url[CLI_URL_MAX];
    struct simba_error error;

    if (cli_scratch_create("bench", folder, sizeof folder, url, sizeof url, &error) != SIMBA_OK)
        return cli_fail(&error);
    if (!cli->quiet)
        cli_message("no store is named, so an SQLite file is measured that is removed afterwards");
    int status = run_on(cli, bench, url);
    cli_scratch_remove(folder);
    return status;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct bench bench = {0};
    char url[CLI_URL_MAX];
    struct simba_error error;

    int status = cli_verb_parse(cli, &cli_verb_bench, &bench, SIZE_MAX, &argc, argv);
    if (status != CLI_CONTINUE)
        return status;
    if (!choose_questions(&bench, argc, argv))
        return cli_usage_error("bench");
    bench_catch_signals();
    int code = cli_store_named_url(cli, url, sizeof url, &error);
    if (code == SIMBA_ENOTFOUND)
        return run_in_folder(cli, &bench);
    return code == SIMBA_OK ? run_on(cli, &bench, url) : cli_fail(&error);
}

static const char details[] =
    "Measures the store through the library, beside what the store's own client library needs\n"
    "for the same in the same run. Without QUESTION it asks all of them:\n"
    "\n"
    "  cycle       acquire + release of a mutex that nobody else wants\n"
    "  handover    hand-over to a waiter in another process\n"
    "  many        mutexes held by one client through several renewals\n"
    "  contention  one mutex that many contenders in several processes want\n"
    "  failover    kill -9 of an owner with waiters in other processes\n"
    "  is-owner    to ask whether one owns\n"
    "\n"
    "Leases are 1s + 2s unless the URL, --ttl or --transition say otherwise. 'failover' kills at\n"
    "most 100 owners in a round; where the store has turns they are those of the URL, or 5ms.\n"
    "Numbers of a machine that does other things as well are worth little: look at the spread.\n"
    "\n"
    "All mutexes are named bench-... with a random part, and are removed afterwards, also by\n"
    "Ctrl-C. After a kill -9 they stay: remove what begins with bench- by the store's own tools.\n"
    "Where no store is named it measures an SQLite file of its own in TMPDIR.\n"
    "\n"
    "Examples:\n"
    "  simba bench\n"
    "  simba bench cycle handover --url redis://localhost\n"
    "  simba bench many --mutexes 100000 --ttl 10s --transition 6s --json\n"
    "\n"
    "Exit codes: 0, or 64, 69, 71, 74, 77, 78, 128+n as 'simba --help' lists them.";

const struct cli_verb cli_verb_bench = {
    .name = "bench",
    .usage = "bench [OPTION...] [QUESTION...]",
    .summary = "measure a store through the library",
    .details = details,
    .options = options,
    .run = run,
};
