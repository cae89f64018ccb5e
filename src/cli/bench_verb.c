/*
 * bench_verb.c - the command line of `simba bench`.
 */
#include "cli/instrument.h"

static bool set_count(void *into, const char *value)
{
    return cli_option_number("--count", value, 1, 100000000, &((struct cli_bench *)into)->count);
}

static bool set_rounds(void *into, const char *value)
{
    return cli_option_number("--rounds", value, 1, CLI_BENCH_ROUNDS_MAX,
                             &((struct cli_bench *)into)->rounds);
}

static bool set_mutexes(void *into, const char *value)
{
    return cli_option_number("--mutexes", value, 1, 1000000, &((struct cli_bench *)into)->mutexes);
}

static bool set_contenders(void *into, const char *value)
{
    return cli_option_number("--contenders", value, 2, 100000,
                             &((struct cli_bench *)into)->contenders);
}

static bool set_processes(void *into, const char *value)
{
    return cli_option_number("--processes", value, 1, 64, &((struct cli_bench *)into)->processes);
}

static bool set_window(void *into, const char *value)
{
    struct cli_bench *bench = into;

    if (!cli_option_duration("--window", value, &bench->window_ms))
        return false;
    if (bench->window_ms == 0)
        cli_message("--window: '%s' is no time at all", value);
    return bench->window_ms > 0;
}

static const struct cli_option options[] = {
    {0, "count", "N", "measurements in a round (each question has its own)", CLI_CALL(set_count)},
    {0, "rounds", "N", "rounds (each question has its own)", CLI_CALL(set_rounds)},
    {0, "mutexes", "N", "mutexes that 'many' holds (1000)", CLI_CALL(set_mutexes)},
    {0, "contenders", "N", "contenders of 'contention' (1000)", CLI_CALL(set_contenders)},
    {0, "processes", "N", "processes that they are spread over (4)", CLI_CALL(set_processes)},
    {0, "window", "DURATION", "how long a round of contention lasts (1s)", CLI_CALL(set_window)},
    {0, "json", NULL, "print JSON", CLI_FLAG(struct cli_bench, json)},
    CLI_OPTIONS_END,
};

static int run(struct cli *cli, int argc, char **argv)
{
    struct cli_bench bench = {0};

    int status = cli_verb_parse(cli, &cli_verb_bench, &bench, SIZE_MAX, &argc, argv);
    return status == CLI_CONTINUE ? cli_bench_run(cli, &bench, argc, argv) : status;
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
