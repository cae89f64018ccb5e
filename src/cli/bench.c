/*
 * bench.c - the program simba-bench: measures a store through the library, beside what its own
 * client library needs.
 */
#include "cli/bench.h"

#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/events.h"
#include "cli/instrument.h"
#include "cli/scratch.h"
#include "cli/store.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#define QUESTIONS_MAX 16

_Static_assert(CLI_BENCH_ROUNDS_MAX == BENCH_ROUNDS_MAX,
               "the command line allows what there is room for");

struct bench {
    const struct cli_bench *options;
    const struct bench_question *questions[QUESTIONS_MAX]; /* in the order of the command line */
    size_t question_count;
    struct bench_result answers[QUESTIONS_MAX]; /* in the same order */
    size_t answer_count;
};

const struct cli_verb *const cli_verbs[] = {&cli_verb_bench, NULL};

/* ---- What is asked --------------------------------------------------------------------------- */

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

static void set_plan(struct bench_plan *plan, const struct cli *cli,
                     const struct cli_bench *options)
{
    plan->count = options->count;
    plan->rounds = options->rounds;
    if (options->mutexes != 0)
        plan->mutexes = options->mutexes;
    if (options->contenders != 0)
        plan->contenders = options->contenders;
    if (options->processes != 0)
        plan->processes = options->processes;
    if (options->window_ms != 0)
        plan->window_ms = options->window_ms;
    if (cli->ttl_ms != SIMBA_UNSET)
        plan->ttl_ms = cli->ttl_ms;
    if (cli->transition_ms != SIMBA_UNSET)
        plan->transition_ms = cli->transition_ms;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static int ask_all(const struct bench_plan *plan, struct bench *bench, struct simba_error *error)
{
    for (size_t i = 0; i < bench->question_count; i++) {
        int code = bench_ask(plan, bench->questions[i], &bench->answers[i], error);
        if (code != SIMBA_OK)
            return code;
        bench->answer_count++;
        if (!bench->options->json)
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

/* Nobody else wants the mutexes, so a time that ran out or a lease that was lost is the store's
 * doing. */
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

/* A signal may have come before they were removed. */
static int fail_with_first_names(const struct bench_plan *plan, const struct simba_error *error)
{
    if (bench_signal() != 0)
        clean_up(plan);
    return fail(error);
}

static int measure(const struct bench_plan *plan, struct bench *bench)
{
    struct cli_machine machine;
    struct simba_error error;

    cli_machine_read(&machine);
    if (bench_check(plan, &error) != SIMBA_OK)
        return fail(&error);
    if (bench_check_rights(plan, &error) != SIMBA_OK)
        return fail_with_first_names(plan, &error);
    if (!bench->options->json)
        cli_bench_begin(plan, &machine);
    cli_output_flush();
    int code = ask_all(plan, bench, &error);
    int status = code == SIMBA_OK ? CLI_EXIT_OK : fail(&error);
    clean_up(plan);
    if (bench->options->json)
        print_json(plan, &machine, bench, code == SIMBA_OK ? NULL : error.text);
    return status;
}

/* ---- The work -------------------------------------------------------------------------------- */

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
    set_plan(&plan, cli, bench->options);
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

int cli_bench_run(const struct cli *cli, const struct cli_bench *options, int question_count,
                  char **questions)
{
    struct bench bench = {.options = options};
    char url[CLI_URL_MAX];
    struct simba_error error;

    if (!choose_questions(&bench, question_count, questions))
        return cli_usage_error("bench");
    bench_catch_signals();
    int code = cli_store_named_url(cli, url, sizeof url, &error);
    if (code == SIMBA_ENOTFOUND)
        return run_in_folder(cli, &bench);
    return code == SIMBA_OK ? run_on(cli, &bench, url) : cli_fail(&error);
}
