/*
 * main.c - what `simba` and the programs that it starts begin with: the global options, the verbs
 * and the help.
 */
#include "cli/cli.h"

#include "base/check.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/events.h"
#include "cli/guardian.h"
#include "cli/store.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool set_url(void *into, const char *value)
{
    static char url[CLI_URL_MAX];
    struct cli *cli = into;
    char *argument = (char *)value;
    size_t length = strlen(value);

    if (cli->url_given) {
        cli_message("--url is given twice, and there is one store");
        return false;
    }
    if (length >= sizeof url) {
        cli_message("--url: the URL is longer than %zu bytes", sizeof url - 1);
        return false;
    }
    memcpy(url, value, length + 1);
    if (cli_store_hide_password(argument))
        cli->hidden_url = argument;
    cli->url = url;
    cli->url_given = true;
    if (!cli->config_given)
        cli->config = NULL;
    return true;
}

static bool set_config(void *into, const char *value)
{
    struct cli *cli = into;

    if (value[0] == 0) {
        cli_message("--config: the name of the file is empty");
        return false;
    }
    if (cli->config_given) {
        cli_message("--config is given twice, and there is one store");
        return false;
    }
    cli->config_given = true;
    if (!cli->url_given)
        cli->url = NULL;
    cli->config = value;
    return true;
}

static const char *const log_levels[] = {
    [SIMBA_LOG_NONE] = "none", [SIMBA_LOG_ERROR] = "error", [SIMBA_LOG_WARN] = "warn",
    [SIMBA_LOG_INFO] = "info", [SIMBA_LOG_DEBUG] = "debug", NULL,
};

static const char *const log_formats[] = {"text", "json", NULL};

static bool set_no_color(void *into, const char *value)
{
    (void)into;
    (void)value;
    cli_text_refuse_colour();
    return true;
}

static const struct cli_option global_options[] = {
    {'u', "url", "URL", "the store, such as sqlite:/var/lib/jobs.db (SIMBA_URL)",
     CLI_CALL(set_url)},
    {'c', "config", "FILE", "the file that names the store (SIMBA_CONFIG)", CLI_CALL(set_config)},
    {0, "ttl", "DURATION", "the first part of a lease, before the owner renews\n(SIMBA_TTL; 10s)",
     CLI_DURATION(struct cli, ttl_ms)},
    {0, "transition", "DURATION",
     "the time to renew after the ttl, before others can acquire\n(SIMBA_TRANSITION; 6s)",
     CLI_DURATION(struct cli, transition_ms)},
    {0, "id", "NAME", "id of this contender: NAME~random\n(default: counter:pid@address~random)",
     CLI_TEXT(struct cli, id)},
    {0, "exact-id", "ID", "no random part; contenders with the same ID may both own",
     CLI_TEXT(struct cli, exact_id)},
    {0, "log-level", "LEVEL", "none, error, warn, info or debug (SIMBA_LOG; warn)",
     CLI_WORD(struct cli, log_level, log_levels)},
    {0, "log-format", "FORMAT", "of standard error: text or json (SIMBA_LOG_FORMAT; text)",
     CLI_WORD(struct cli, log_format, log_formats)},
    {'q', "quiet", NULL, "print only warnings and errors", CLI_FLAG(struct cli, quiet)},
    {0, "no-color", NULL, "no colours on a terminal (NO_COLOR)", CLI_CALL(set_no_color)},
    {'h', "help", NULL, "this help", CLI_FLAG(struct cli, help)},
    {'V', "version", NULL, "the version", CLI_FLAG(struct cli, version)},
    CLI_OPTIONS_END,
};

/* ---- Help ------------------------------------------------------------------------------------ */

static const char introduction[] =
    "Usage: simba [OPTION...] VERB ...\n"
    "\n"
    "Runs commands under distributed locks, called mutexes: on one machine at a time.\n"
    "The owner of a mutex holds a lease on a store. It renews the lease until it\n"
    "releases the mutex.\n"
    "\n"
    "Verbs:\n";

static const char conclusion[] =
    "\n"
    "DURATION is written as 250ms, 10s, 1m30s or 2h.\n"
    "\n"
    "The store is what the first of these names: --url or --config, SIMBA_URL,\n"
    "SIMBA_CONFIG, simba.yaml in $XDG_CONFIG_HOME or ~/.config, /etc/simba.yaml.\n"
    "Otherwise it is the SQLite file simba/simba.db in $XDG_STATE_HOME or\n"
    "~/.local/state: good for all processes of a user. URLs: sqlite:PATH,\n"
    "mysql://USER@HOST/DATABASE, postgres://USER@HOST/DATABASE, redis://HOST:PORT/DB,\n"
    "rediss:// (TLS), zookeeper://HOST:PORT, etcd://HOST:PORT/PREFIX. A password is\n"
    "best kept in a file: ...?password-file=PATH. One in SIMBA_URL is in the\n"
    "environment of COMMAND as well.\n"
    "\n"
    "Examples:\n"
    "  simba lock backup -- ./backup.sh      one backup at a time; wait for the turn\n"
    "  simba lock -n backup -- ./backup.sh   or give up at once (exit code 75)\n"
    "  simba lead api -- ./api-server        keep it running on one machine at a time\n"
    "  simba schedule tidy --every 1h -- ./tidy.sh\n"
    "  simba status                          who owns what, and for how long\n"
    "  simba -u sqlite:/srv/jobs.db watch backup\n"
    "\n"
    "Exit codes:\n"
    "  64  the command line is wrong           74  standard output cannot be written\n"
    "  69  the store is unreachable            75  not acquired (lock -E changes it)\n"
    "  70  the lease was lost                  77  the store refused the credentials\n"
    "  71  out of memory, processes or         78  a URL, name or timing is invalid\n"
    "      descriptors\n"
    "  124 --hold-at-most stopped the command\n"
    "  any other: the exit code of the command\n"
    "\n"
    "'simba VERB --help' or 'simba help VERB' tells more.\n";

static void print_help(FILE *stream)
{
    int width = 0;

    fputs(introduction, stream);
    for (size_t i = 0; cli_verbs[i] != NULL; i++) {
        int length = (int)strlen(cli_verbs[i]->name);
        width = length > width ? length : width;
    }
    for (size_t i = 0; cli_verbs[i] != NULL; i++)
        fprintf(stream, "  %-*s %s\n", width, cli_verbs[i]->name, cli_verbs[i]->summary);
    fputs("\nOptions, before or after the verb:\n", stream);
    cli_options_print(stream, global_options);
    fputs(conclusion, stream);
}

static void print_verb_help(FILE *stream, const struct cli_verb *verb)
{
    fprintf(stream, "Usage: simba %s\n\n%s\n", verb->usage, verb->details);
    if (verb->options->name != NULL) {
        fputs("\nOptions:\n", stream);
        cli_options_print(stream, verb->options);
    }
    if (verb->shared != NULL)
        cli_options_print(stream, verb->shared);
    fputs("\nOptions of all verbs:\n", stream);
    cli_options_print(stream, global_options);
}

/* ---- Errors of the command line -------------------------------------------------------------- */

static int point_to_help(const struct cli *cli)
{
    if (cli->verb != NULL)
        fprintf(stderr, "Try 'simba %s --help'.\n", cli->verb->name);
    else
        fputs("Try 'simba --help'.\n", stderr);
    return CLI_EXIT_USAGE;
}

int cli_usage_error(const struct cli *cli, const char *format, ...)
{
    char text[CLI_MESSAGE_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cli_message("%s: %s", cli->verb->name, text);
    return point_to_help(cli);
}

static bool options_agree(const struct cli *cli)
{
    bool two_stores = cli->url_given && cli->config_given;
    bool two_ids = cli->id != NULL && cli->exact_id != NULL;

    if (two_stores)
        cli_message("--url and --config both name a store: give one of them");
    if (two_ids)
        cli_message("--id and --exact-id both name this contender: give one of them");
    return !two_stores && !two_ids;
}

static int print_version(void)
{
    printf("simba %s\n", simba_version());
    return CLI_EXIT_OK;
}

/* The environment that the program was started with can be read in /proc. What is wiped out there
 * is passed on to the command all the same. */
static const char *take_url(void)
{
    static char *copy; /* stays for as long as the program runs */
    char *given = getenv("SIMBA_URL");
    char shown[CLI_URL_MAX];

    if (given == NULL || given[0] == 0)
        return NULL;
    sb_url_redact(given, shown, sizeof shown);
    copy = strcmp(shown, given) != 0 ? strdup(given) : NULL;
    if (copy == NULL || setenv("SIMBA_URL", copy, 1) != 0)
        return given;
    cli_store_hide_password(given);
    return copy;
}

/* Not set and empty are the same. */
static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != 0 ? value : NULL;
}

static bool read_duration(const char *name, int64_t *ms)
{
    const char *text = environment(name);

    return *ms != SIMBA_UNSET || text == NULL || cli_option_duration(name, text, 0, ms);
}

/* What the command line does not say. */
static bool read_environment(struct cli *cli)
{
    const char *level = environment("SIMBA_LOG");

    if (cli->log_level < 0) {
        cli->log_level = SIMBA_LOG_WARN;
        if (level != NULL &&
            !cli_option_word("SIMBA_LOG", "level", level, log_levels, &cli->log_level))
            return false;
    }
    const char *format = environment("SIMBA_LOG_FORMAT");
    if (cli->log_format < 0 && format != NULL &&
        !cli_option_word("SIMBA_LOG_FORMAT", "format", format, log_formats, &cli->log_format))
        return false;
    if (cli->log_format == 1)
        cli_line_use_json();
    return read_duration("SIMBA_TTL", &cli->ttl_ms) &&
           read_duration("SIMBA_TRANSITION", &cli->transition_ms);
}

/* A descriptor of the store must never land on 0, 1 or 2, where a message would be written into it.
 * Standard output that was closed stays one that cannot be written. */
static bool open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) != fd)
            return false;
    }
    return true;
}

static void report_unknown_verb(const char *name)
{
    char shown[CLI_URL_MAX];
    struct sb_near near = {.distance = 0};

    for (size_t i = 0; cli_verbs[i] != NULL; i++)
        sb_near_offer(&near, name, cli_verbs[i]->name);
    sb_near_offer(&near, name, "help");
    if (strcmp(name, "list") == 0)
        sb_near_offer(&near, "status", "status");
    sb_url_redact(name, shown, sizeof shown);
    if (near.name[0] != 0)
        cli_message("unknown verb '%s'; did you mean '%s'?", shown, near.name);
    else
        cli_message("unknown verb '%s'", shown);
}

static const struct cli_verb *find_verb(const char *name)
{
    for (size_t i = 0; cli_verbs[i] != NULL; i++) {
        if (strcmp(cli_verbs[i]->name, name) == 0)
            return cli_verbs[i];
    }
    report_unknown_verb(name);
    return NULL;
}

/* `simba help` and `simba help VERB` */
static int run_help(struct cli *cli, int argc, char **argv)
{
    char shown[CLI_URL_MAX];
    bool about_verb = argc > 0 && strcmp(argv[0], "help") != 0;
    const struct cli_verb *verb = about_verb ? find_verb(argv[0]) : NULL;

    if (about_verb && verb == NULL)
        return point_to_help(cli);
    if (argc > 1) {
        cli_message("help: unexpected argument '%s'", sb_url_redact(argv[1], shown, sizeof shown));
        return point_to_help(cli);
    }
    if (verb != NULL)
        print_verb_help(stdout, verb);
    else
        print_help(stdout);
    return CLI_EXIT_OK;
}

/* ---- A verb ---------------------------------------------------------------------------------- */

/* A NAME that begins with a dash stands behind a "--" of its own, and a second "--" follows it.
 * Without the second one the NAME is missing. On return argv[0] is the NAME, argv[1] the
 * command. */
static int check_command(const struct cli *cli, bool dashed, int *argc, char ***argv)
{
    if (*argc > 0 && dashed && (*argc < 2 || strcmp((*argv)[1], "--") != 0))
        return cli_usage_error(cli, "the NAME of a mutex is missing before '--'");
    if (dashed && *argc > 0) {
        (*argv)[1] = (*argv)[0];
        (*argv)++;
        (*argc)--;
    }
    return *argc == 1 ? cli_usage_error(cli, "the COMMAND is missing") : CLI_CONTINUE;
}

/* `dashed`: all operands stand behind a "--". */
static int check_operands(const struct cli *cli, bool dashed, int *argc, char ***argv)
{
    enum cli_operands kind = cli->verb->operands;
    int limit = kind == CLI_OPERANDS_NONE ? 0 : kind == CLI_OPERANDS_NAME ? 1 : INT_MAX;
    struct simba_error error;
    char shown[CLI_URL_MAX]; /* a URL in the wrong place may hold a password */
    int status = CLI_CONTINUE;

    if (kind == CLI_OPERANDS_COMMAND)
        status = check_command(cli, dashed, argc, argv);
    if (status != CLI_CONTINUE)
        return status;
    if (*argc > limit)
        return cli_usage_error(cli, "unexpected argument '%s'",
                               sb_url_redact((*argv)[limit], shown, sizeof shown));
    if (kind == CLI_OPERANDS_ANY || kind == CLI_OPERANDS_NONE)
        return CLI_CONTINUE;
    if (*argc == 0)
        return cli_usage_error(cli, "the NAME of a mutex is missing");
    if (simba_mutex_validate((*argv)[0], &error) != SIMBA_OK)
        return cli_fail(&error);
    return CLI_CONTINUE;
}

static int run_verb(struct cli *cli, int argc, char **argv)
{
    const struct cli_verb *verb = cli->verb;
    struct cli_option_set sets[] = {
        {.options = verb->options, .into = verb->into, .all_operands = verb->all_operands},
        {.options = verb->shared, .into = verb->into},
        {.options = global_options, .into = cli}};
    size_t operands_max = verb->operands == CLI_OPERANDS_COMMAND ? 1 : SIZE_MAX;
    size_t operands = 0;

    if (!cli_options_parse(sets, 3, operands_max, &argc, argv, &operands) || !options_agree(cli))
        return point_to_help(cli);
    if (cli->help) {
        print_verb_help(stdout, verb);
        return CLI_EXIT_OK;
    }
    if (cli->version)
        return print_version();
    if (!read_environment(cli))
        return CLI_EXIT_CONFIG;
    bool all = verb->all_operands != NULL && *verb->all_operands;
    if (all && (operands == 0 || operands == (size_t)argc))
        return cli_usage_error(cli, "--all takes NAME... -- COMMAND");
    cli->names = all ? operands : 0;
    int status = check_operands(cli, operands == 0, &argc, &argv);
    return status == CLI_CONTINUE ? verb->run(cli, argc, argv) : status;
}

#define COUNT_ONE(name) +1
enum { VERB_COUNT = CLI_VERB_MAP(COUNT_ONE) };

/* The options in front of the verb. The tables of the verbs are there for the hint that their
 * options stand behind the verb. */
static bool parse_global(struct cli *cli, int *argc, char **argv)
{
    struct cli_option_set sets[1 + 2 * VERB_COUNT] = {{.options = global_options, .into = cli}};
    size_t count = 1;
    size_t operands;

    for (size_t i = 0; cli_verbs[i] != NULL; i++) {
        const struct cli_verb *verb = cli_verbs[i];
        SB_CHECK(i < VERB_COUNT, "every verb of a program stands in CLI_VERB_MAP");
        sets[count++] = (struct cli_option_set){.options = verb->options, .verb = verb->name};
        sets[count++] = (struct cli_option_set){.options = verb->shared, .verb = verb->name};
    }
    return cli_options_parse(sets, count, 0, argc, argv, &operands);
}

static int run(struct cli *cli, int argc, char **argv)
{
    if (!parse_global(cli, &argc, argv) || !options_agree(cli))
        return point_to_help(cli);
    if (cli->version)
        return print_version();
    if (argc == 0) {
        print_help(cli->help ? stdout : stderr);
        return cli->help ? CLI_EXIT_OK : CLI_EXIT_USAGE;
    }
    if (strcmp(argv[0], "version") == 0 && argc == 1)
        return print_version();
    if (strcmp(argv[0], "help") == 0)
        return run_help(cli, argc - 1, argv + 1);
    cli->verb = find_verb(argv[0]);
    return cli->verb != NULL ? run_verb(cli, argc, argv) : point_to_help(cli);
}

int main(int argc, char **argv)
{
    struct cli cli = {
        .ttl_ms = SIMBA_UNSET,
        .transition_ms = SIMBA_UNSET,
        .log_level = -1,
        .log_format = -1,
        .config = environment("SIMBA_CONFIG"),
    };

    cli_guardian_keep_arguments(argc, argv);
    cli.arguments = calloc((size_t)argc + 1, sizeof *cli.arguments);
    if (cli.arguments == NULL)
        return cli_fail_system("the arguments");
    memcpy(cli.arguments, argv, (size_t)argc * sizeof *argv);
    cli.url = take_url();
    if (!open_standard_streams())
        return cli_fail_system("/dev/null");
    cli_signals_init();
    int status = cli_output_finish(run(&cli, argc, argv));
    cli_message_flush(CLI_PATIENCE_MS);
    free(cli.arguments);
    return cli_signals_leave(status);
}
