/*
 * bench.c - the program simba-bench: measures a store through the library, beside what its own
 * client library needs, and prints that for people or as JSON.
 */
#include "base/url.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/events.h"
#include "cli/instrument.h"
#include "cli/store.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

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

/* ---- The machine ----------------------------------------------------------------------------- */

/* What the numbers depend on. Read before the first question, which loads the machine itself. */
struct machine {
    char cpu[128];
    char kernel[160];
    int cores;
    int cores_allowed; /* fewer when it is pinned */
    double load;
};

static void read_cpu(char *text, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(text, size, "unknown");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *value = strstr(line, ": ");
        if (strncmp(line, "model name", 10) != 0 || value == NULL)
            continue;
        value[strcspn(value, "\n")] = 0;
        cli_text_printable(value + 2, text, size);
        break;
    }
    if (file != NULL)
        fclose(file);
}

static void read_machine(struct machine *machine)
{
    struct utsname system;
    cpu_set_t allowed;

    read_cpu(machine->cpu, sizeof machine->cpu);
    machine->kernel[0] = 0;
    if (uname(&system) == 0)
        snprintf(machine->kernel, sizeof machine->kernel, "%s %s", system.sysname, system.release);
    machine->cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    machine->cores_allowed =
        sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : machine->cores;
    if (getloadavg(&machine->load, 1) != 1)
        machine->load = NAN;
}

/* ---- For people ------------------------------------------------------------------------------ */

static void print_heading(const struct bench_plan *plan, const struct machine *machine)
{
    char url[CLI_URL_MAX];
    char shown[CLI_URL_MAX];

    cli_text_printable(sb_url_redact(plan->url, url, sizeof url), shown, sizeof shown);
    printf("store    %s\n", shown);
    printf("machine  %s, %d of %d cores, %s, load %.2f\n", machine->cpu, machine->cores_allowed,
           machine->cores, machine->kernel, machine->load);
}

/* Four digits are enough to compare. */
static void format_value(double value, const char *unit, char *text, size_t size)
{
    const char *space = unit[0] != 0 ? " " : "";

    if (isnan(value))
        snprintf(text, size, "-");
    else if (fabs(value) >= 1000 || value == (double)(int64_t)value)
        snprintf(text, size, "%.0f%s%s", value, space, unit);
    else
        snprintf(text, size, "%.*f%s%s", fabs(value) >= 100 ? 1 : 2, value, space, unit);
}

static void print_measure(const struct bench_measure *measure)
{
    const struct bench_distribution *d = &measure->values;
    char p50[32];
    char p99[32];
    char max[32];
    char low[32];
    char high[32];

    format_value(d->p50, measure->label.unit, p50, sizeof p50);
    format_value(d->p99, measure->label.unit, p99, sizeof p99);
    format_value(d->max, measure->label.unit, max, sizeof max);
    format_value(d->round_low, "", low, sizeof low);
    format_value(d->round_high, measure->label.unit, high, sizeof high);
    printf("  %-40s %11s %11s %11s  %s .. %s\n", measure->label.text, p50, p99, max, low, high);
}

static const char *label_of(const struct bench_result *result, const char *key)
{
    for (size_t i = 0; i < result->measure_count; i++)
        if (strcmp(result->measures[i].label.key, key) == 0)
            return result->measures[i].label.text;
    return key;
}

static void print_answer(const struct bench_question *question, const struct bench_result *result)
{
    printf("\n%s: %s\n", question->name, question->title);
    if (result->measure_count > 0)
        printf("  %-40s %11s %11s %11s  %s\n", "", "p50", "p99", "max", "p50 of the rounds");
    for (size_t i = 0; i < result->measure_count; i++)
        print_measure(&result->measures[i]);
    for (size_t i = 0; i < result->ratio_count; i++) {
        const struct bench_ratio *ratio = &result->ratios[i];
        printf("  %.2f times as long as: %s (rounds %.2f .. %.2f)\n", ratio->value,
               label_of(result, ratio->key), ratio->low, ratio->high);
    }
    for (size_t i = 0; i < result->number_count; i++) {
        const struct bench_number *number = &result->numbers[i];
        char value[48];
        format_value(number->value, number->label.unit, value, sizeof value);
        printf("  %-40s %s\n", number->label.text, value);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void print_field(const char *name, double value, const char *delimiter)
{
    if (isfinite(value))
        printf("\"%s\":%.6g%s", name, value, delimiter);
    else
        printf("\"%s\":null%s", name, delimiter);
}

static void begin_json(const struct bench_plan *plan, const struct machine *machine)
{
    char url[CLI_URL_MAX];

    printf("{\"simba\":\"%s\"", simba_version());
    cli_json_string(stdout, ",\"store\":", sb_url_redact(plan->url, url, sizeof url));
    cli_json_string(stdout, ",\"machine\":{\"cpu\":", machine->cpu);
    cli_json_string(stdout, ",\"kernel\":", machine->kernel);
    printf(",\"cores\":%d,\"cores_allowed\":%d,", machine->cores, machine->cores_allowed);
    print_field("load", machine->load, "},\n\"questions\":{");
}

static void print_measure_json(const struct bench_measure *measure)
{
    const struct bench_distribution *d = &measure->values;

    printf("\"%s\":", measure->label.key);
    cli_json_string(stdout, "{\"what\":", measure->label.text);
    printf(",\"unit\":\"%s\",\"count\":%zu,", measure->label.unit, d->count);
    print_field("min", d->min, ",");
    print_field("p50", d->p50, ",");
    print_field("p99", d->p99, ",");
    print_field("max", d->max, ",");
    print_field("mean", d->mean, ",");
    print_field("round_low", d->round_low, ",");
    print_field("round_high", d->round_high, "}");
}

static void print_answer_json(const struct bench_question *question,
                              const struct bench_result *result, bool first)
{
    printf("%s\n\"%s\":{\"measures\":{", first ? "" : ",", question->name);
    for (size_t i = 0; i < result->measure_count; i++) {
        fputs(i > 0 ? ",\n  " : "\n  ", stdout);
        print_measure_json(&result->measures[i]);
    }
    fputs("},\n \"ratios\":{", stdout);
    for (size_t i = 0; i < result->ratio_count; i++) {
        printf("%s\"%s\":{", i > 0 ? "," : "", result->ratios[i].key);
        print_field("value", result->ratios[i].value, ",");
        print_field("low", result->ratios[i].low, ",");
        print_field("high", result->ratios[i].high, "}");
    }
    fputs("},\n \"numbers\":{", stdout);
    for (size_t i = 0; i < result->number_count; i++)
        print_field(result->numbers[i].label.key, result->numbers[i].value,
                    i + 1 < result->number_count ? "," : "");
    fputs("}}", stdout);
}

/* ---- What is asked --------------------------------------------------------------------------- */

/* `name` NULL: all of them. Returns false where there is no such question, or no room for it. */
static bool choose_questions(struct bench *bench, const char *name)
{
    bool chosen = false;

    for (const struct bench_question *q = bench_questions; q->name != NULL; q++) {
        if ((name == NULL || strcmp(q->name, name) == 0) && bench->question_count < QUESTIONS_MAX) {
            bench->questions[bench->question_count++] = q;
            chosen = true;
        }
    }
    return chosen;
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
            print_answer(bench->questions[i], &bench->answers[i]);
        cli_output_flush();
    }
    return SIMBA_OK;
}

/* Only at the end, so that whatever happens it is a whole object or nothing. */
static void print_json(const struct bench_plan *plan, const struct machine *machine,
                       const struct bench *bench, const char *error)
{
    if (bench->answer_count == 0)
        return;
    begin_json(plan, machine);
    for (size_t i = 0; i < bench->answer_count; i++)
        print_answer_json(bench->questions[i], &bench->answers[i], i == 0);
    fputs("}", stdout);
    if (error != NULL)
        cli_json_string(stdout, ",\n\"error\":", error);
    fputs("}\n", stdout);
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

static int measure(const struct bench_plan *plan, struct bench *bench)
{
    struct machine machine;
    struct simba_error error;

    read_machine(&machine);
    if (bench_check(plan, &error) != SIMBA_OK)
        return fail(&error);
    if (bench_check_rights(plan, &error) != SIMBA_OK) {
        if (bench_signal() != 0) /* it may have come before the first names were removed */
            clean_up(plan);
        return fail(&error);
    }
    if (!bench->options->json)
        print_heading(plan, &machine);
    cli_output_flush();
    int code = ask_all(plan, bench, &error);
    int status = code == SIMBA_OK ? CLI_EXIT_OK : fail(&error);
    clean_up(plan);
    if (bench->options->json)
        print_json(plan, &machine, bench, code == SIMBA_OK ? NULL : error.text);
    return status;
}

/* ---- The work -------------------------------------------------------------------------------- */

static int run_on(const struct cli *cli, const char *url, const struct cli_scratch *scratch,
                  void *user)
{
    struct bench *bench = user;
    struct bench_plan plan;
    struct simba_error error;

    (void)scratch;
    if (strncasecmp(url, "memory:", 7) == 0) {
        cli_message("the store memory: belongs to one process, and the bench has several");
        return CLI_EXIT_CONFIG;
    }
    if (bench_plan_init(&plan, url, &error) != SIMBA_OK)
        return cli_fail(&error);
    set_plan(&plan, cli, bench->options);
    return measure(&plan, bench);
}

int cli_instrument_main(struct cli *cli, int argc, char **argv)
{
    struct bench bench = {.options = cli->verb->into};

    for (int i = 0; i < argc; i++) {
        if (!choose_questions(&bench, argv[i]))
            return cli_usage_error(cli, "there is no question '%s'", argv[i]);
    }
    if (argc == 0)
        choose_questions(&bench, NULL);
    bench_catch_signals();
    return cli_instrument_run(cli, run_on, &bench);
}
