/*
 * main.c - the program `simba`: the global options and the table of verbs.
 */
#include "cli/cli.h"
#include "cli/printer.h"
#include "cli/say.h"
#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_verb *const verbs[] = {
    &cli_verb_lock, &cli_verb_lead, &cli_verb_schedule, &cli_verb_status, &cli_verb_watch,
    &cli_verb_tck,  NULL,
};

static bool set_url(void *into, const char *value)
{
    ((struct cli *)into)->url = value;
    return true;
}

static bool set_id(void *into, const char *value)
{
    ((struct cli *)into)->id = value;
    return true;
}

static bool set_ttl(void *into, const char *value)
{
    return cli_option_duration("--ttl", value, &((struct cli *)into)->ttl_ms);
}

static bool set_transition(void *into, const char *value)
{
    return cli_option_duration("--transition", value, &((struct cli *)into)->transition_ms);
}

static bool parse_log_level(const char *source, const char *text, enum simba_log_level *ret_level)
{
    static const char *const names[] = {
        [SIMBA_LOG_NONE] = "none", [SIMBA_LOG_ERROR] = "error", [SIMBA_LOG_WARN] = "warn",
        [SIMBA_LOG_INFO] = "info", [SIMBA_LOG_DEBUG] = "debug",
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_level = (enum simba_log_level)i;
            return true;
        }
    }
    cli_say("%s: '%s' is none of none, error, warn, info, debug", source, text);
    return false;
}

static bool set_log_level(void *into, const char *value)
{
    return parse_log_level("--log-level", value, &((struct cli *)into)->log_level);
}

static bool set_help(void *into, const char *value)
{
    (void)value;
    ((struct cli *)into)->help = true;
    return true;
}

static bool set_version(void *into, const char *value)
{
    (void)value;
    ((struct cli *)into)->version = true;
    return true;
}

const struct cli_option cli_global_options[] = {
    {'u', "url", "URL", "the store, such as sqlite:/var/lib/jobs.db (SIMBA_URL)", set_url},
    {0, "ttl", "DURATION", "the exclusive part of a lease (10s)", set_ttl},
    {0, "transition", "DURATION", "the part in which only the owner may renew (6s)",
     set_transition},
    {0, "id", "ID", "the contender id (made from host, pid and a random part)", set_id},
    {0, "log-level", "LEVEL", "none, error, warn, info or debug (SIMBA_LOG; warn)", set_log_level},
    {'h', "help", NULL, "this help", set_help},
    {'V', "version", NULL, "the version", set_version},
    {0, NULL, NULL, NULL, NULL},
};

static int usage_error(const char *verb)
{
    fprintf(stderr, "Try 'simba %s%s--help'.\n", verb, verb[0] != 0 ? " " : "");
    return CLI_EXIT_USAGE;
}

static int print_version(void)
{
    printf("simba %s\n", simba_version());
    return CLI_EXIT_OK;
}

int cli_verb_parse(struct cli *cli, const struct cli_verb *verb, void *into, size_t operands_max,
                   int *argc, char **argv)
{
    struct cli_option_set sets[] = {{verb->options, into}, {cli_global_options, cli}};

    if (!cli_options_parse(sets, 2, operands_max, argc, argv))
        return usage_error(verb->name);
    if (cli->help) {
        cli_help_print_verb(stdout, verb);
        return CLI_EXIT_OK;
    }
    return cli->version ? print_version() : CLI_CONTINUE;
}

static const struct cli_verb *find_verb(const char *name)
{
    for (size_t i = 0; verbs[i] != NULL; i++) {
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    }
    return NULL;
}

/* A descriptor of the store must never land on 0, 1 or 2, where a message would be written into it. */
static bool open_standard_streams(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        return false;
    close(fd);
    return true;
}

static bool read_environment(struct cli *cli)
{
    const char *url = getenv("SIMBA_URL");
    const char *level = getenv("SIMBA_LOG");

    if (url != NULL && url[0] != 0)
        cli->url = url;
    if (level != NULL && level[0] != 0)
        return parse_log_level("SIMBA_LOG", level, &cli->log_level);
    return true;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct cli_option_set sets[] = {{cli_global_options, cli}};

    if (!cli_options_parse(sets, 1, 0, &argc, argv))
        return usage_error("");
    if (cli->version)
        return print_version();
    if (argc == 0) {
        cli_help_print(cli->help ? stdout : stderr, verbs);
        return cli->help ? CLI_EXIT_OK : CLI_EXIT_USAGE;
    }
    const struct cli_verb *verb = find_verb(argv[0]);
    if (verb == NULL) {
        cli_say("unknown command '%s'", argv[0]);
        return usage_error("");
    }
    return verb->run(cli, argc, argv);
}

/* A full disk under standard output must not look like success; a reader that left is no error. */
static int flush_output(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno != EPIPE)
        cli_say("standard output: %s", strerror(errno));
    return status == CLI_EXIT_OK ? CLI_EXIT_OUTPUT : status;
}

int main(int argc, char **argv)
{
    struct cli cli = {
        .ttl_ms = SIMBA_UNSET,
        .transition_ms = SIMBA_UNSET,
        .log_level = SIMBA_LOG_WARN,
    };

    if (!open_standard_streams())
        return cli_fail_system("/dev/null");
    cli_signals_init();
    if (!read_environment(&cli))
        return CLI_EXIT_CONFIG;
    int status = flush_output(run(&cli, argc, argv));
    cli_printer_finish(CLI_PATIENCE_MS);
    return status;
}
