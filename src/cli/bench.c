/*
 * bench.c - `simba bench`: measures a store through the library, beside what its own client library needs.
 */
#include "cli/bench.h"

#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/say.h"
#include "cli/signals.h"
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
        cli_say("--window: '%s' is no time at all", value);
    return bench->window_ms > 0;
}

static bool set_json(void *into, const char *value)
{
    (void)value;
    ((struct bench *)into)->json = true;
    return true;
}

static const struct cli_option options[] = {
    {0, "count", "N", "measurements in a round (each question has its own)", set_count},
    {0, "rounds", "N", "rounds (each question has its own)", set_rounds},
    {0, "mutexes", "N", "mutexes that 'many' holds (1000)", set_mutexes},
    {0, "contenders", "N", "contenders of 'contention' (1000)", set_contenders},
    {0, "processes", "N", "processes that they are spread over (4)", set_processes},
    {0, "window", "DURATION", "how long a round of contention lasts (1s)", set_window},
    {0, "json", NULL, "print JSON", set_json},
    {0, NULL, NULL, NULL, NULL},
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
    cli_say("bench: there is no question '%s'", name);
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

static int ask_all(const struct bench_plan *plan, const struct bench *bench,
                   struct simba_error *error)
{
    int code = SIMBA_OK;

    for (size_t i = 0; i < bench->question_count && code == SIMBA_OK; i++) {
        struct bench_result result;
        code = bench_ask(plan, bench->questions[i], &result, error);
        if (code == SIMBA_OK && bench->json)
            cli_bench_print_json(bench->questions[i], &result, i == 0);
        else if (code == SIMBA_OK)
            cli_bench_print(bench->questions[i], &result);
        cli_output_flush();
    }
    return code;
}

/* Whatever happened, nothing stays on the store. */
static void clean_up(const struct bench_plan *plan)
{
    struct simba_error error;
    int code = bench_forget(plan, &error);

    if (code == SIMBA_EUNSUPPORTED)
        cli_say("free mutexes named %s... may be left on the store: %s", plan->prefix, error.text);
    else if (code != SIMBA_OK)
        cli_say("mutexes named %s... are left on the store: %s", plan->prefix, error.text);
}

static int measure(const struct bench_plan *plan, const struct bench *bench)
{
    struct simba_error error;

    bench_catch_signals();
    if (bench->json)
        cli_bench_begin_json(plan);
    else
        cli_bench_begin(plan);
    cli_output_flush();
    int code = ask_all(plan, bench, &error);
    clean_up(plan);
    if (bench_signal() != 0)
        return cli_signals_ended_by(bench_signal());
    if (code != SIMBA_OK)
        return cli_fail(&error);
    if (bench->json)
        cli_bench_end_json();
    return CLI_EXIT_OK;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct bench bench = {0};
    struct bench_plan plan;
    char url[CLI_URL_MAX];
    struct simba_error error;

    int status = cli_verb_parse(cli, &cli_verb_bench, &bench, SIZE_MAX, &argc, argv);
    if (status != CLI_CONTINUE)
        return status;
    if (!choose_questions(&bench, argc, argv))
        return cli_usage_error("bench");
    if (cli_store_url(cli, url, sizeof url, &error) != SIMBA_OK)
        return cli_fail(&error);
    if (strncasecmp(url, "memory:", 7) == 0) {
        cli_say("the store memory: belongs to one process, and the bench has several");
        return CLI_EXIT_CONFIG;
    }
    if (bench_plan_init(&plan, url, &error) != SIMBA_OK)
        return cli_fail(&error);
    set_plan(&plan, cli, &bench);
    return measure(&plan, &bench);
}

static const char details[] =
    "Measures the store through the library, beside what the store's own client library needs\n"
    "for the same in the same run. Without QUESTION it asks all of them:\n"
    "\n"
    "  cycle       acquire + release of a mutex that nobody else wants\n"
    "  handover    hand-over to a waiter in another process\n"
    "  many        mutexes held by one client through several renewals\n"
    "  contention  one mutex that many contenders in several processes want\n"
    "  failover    kill -9 of an owner with a waiter in another process\n"
    "  is-owner    to ask whether one owns\n"
    "\n"
    "Leases are 1s + 2s unless the URL, --ttl or --transition say otherwise. All mutexes are "
    "named\n"
    "bench-... with a random part, and are removed afterwards. Numbers of a machine that does\n"
    "other things as well are worth little: look at the spread.\n"
    "\n"
    "Examples:\n"
    "  simba bench\n"
    "  simba bench cycle handover --url redis://localhost\n"
    "  simba bench many --mutexes 100000 --ttl 10s --transition 6s --json\n"
    "\n"
    "Exit codes: 0, or 64, 69, 77, 78 as 'simba --help' lists them.";

const struct cli_verb cli_verb_bench = {
    .name = "bench",
    .usage = "bench [OPTION...] [QUESTION...]",
    .summary = "measure a store through the library",
    .details = details,
    .options = options,
    .run = run,
};
