/*
 * bench_print.c - prints what was measured, for people and as JSON.
 */
#include "base/url.h"
#include "cli/bench.h"
#include "cli/store.h"
#include "cli/cli.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

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

void cli_machine_read(struct cli_machine *machine)
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

void cli_bench_begin(const struct bench_plan *plan, const struct cli_machine *machine)
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

void cli_bench_print(const struct bench_question *question, const struct bench_result *result)
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

/* JSON has no word for what is no number. */
static void print_number(double value)
{
    if (isfinite(value))
        printf("%.6g", value);
    else
        fputs("null", stdout);
}

static void print_field(const char *name, double value, const char *delimiter)
{
    printf("\"%s\":", name);
    print_number(value);
    fputs(delimiter, stdout);
}

void cli_bench_begin_json(const struct bench_plan *plan, const struct cli_machine *machine)
{
    char url[CLI_URL_MAX];

    printf("{\"simba\":\"%s\",\"store\":", simba_version());
    cli_json_string(stdout, sb_url_redact(plan->url, url, sizeof url));
    fputs(",\"machine\":{\"cpu\":", stdout);
    cli_json_string(stdout, machine->cpu);
    fputs(",\"kernel\":", stdout);
    cli_json_string(stdout, machine->kernel);
    printf(",\"cores\":%d,\"cores_allowed\":%d,", machine->cores, machine->cores_allowed);
    print_field("load", machine->load, "},\n\"questions\":{");
}

static void print_measure_json(const struct bench_measure *measure)
{
    const struct bench_distribution *d = &measure->values;

    printf("\"%s\":{\"what\":", measure->label.key);
    cli_json_string(stdout, measure->label.text);
    printf(",\"unit\":\"%s\",\"count\":%zu,", measure->label.unit, d->count);
    print_field("min", d->min, ",");
    print_field("p50", d->p50, ",");
    print_field("p99", d->p99, ",");
    print_field("max", d->max, ",");
    print_field("mean", d->mean, ",");
    print_field("round_low", d->round_low, ",");
    print_field("round_high", d->round_high, "}");
}

static void print_ratio_json(const struct bench_ratio *ratio)
{
    printf("\"%s\":{", ratio->key);
    print_field("value", ratio->value, ",");
    print_field("low", ratio->low, ",");
    print_field("high", ratio->high, "}");
}

void cli_bench_print_json(const struct bench_question *question, const struct bench_result *result,
                          bool first)
{
    printf("%s\n\"%s\":{\"measures\":{", first ? "" : ",", question->name);
    for (size_t i = 0; i < result->measure_count; i++) {
        fputs(i > 0 ? ",\n  " : "\n  ", stdout);
        print_measure_json(&result->measures[i]);
    }
    fputs("},\n \"ratios\":{", stdout);
    for (size_t i = 0; i < result->ratio_count; i++) {
        fputs(i > 0 ? "," : "", stdout);
        print_ratio_json(&result->ratios[i]);
    }
    fputs("},\n \"numbers\":{", stdout);
    for (size_t i = 0; i < result->number_count; i++)
        print_field(result->numbers[i].label.key, result->numbers[i].value,
                    i + 1 < result->number_count ? "," : "");
    fputs("}}", stdout);
}

void cli_bench_end_json(const char *error)
{
    fputs("}", stdout);
    if (error != NULL) {
        fputs(",\n\"error\":", stdout);
        cli_json_string(stdout, error);
    }
    fputs("}\n", stdout);
}
