/*
 * cli.h - what all files of the program share: the exit codes, the global options, the shape of a
 * verb.
 *
 * A verb is one file. It exports one struct cli_verb, which is declared below and listed in main.c's table; nothing
 * else in the program knows of it.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/option.h"

#include <simba/simba.h>

/* After sysexits.h where it has a word for it. What a child returned is passed on as it is. */
enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1,       /* the answer is no: a case of the kit failed */
    CLI_EXIT_USAGE = 64,       /* the command line is wrong */
    CLI_EXIT_UNAVAILABLE = 69, /* the store cannot be reached or cannot serve */
    CLI_EXIT_LOST = 70,        /* the lease was lost and the child was stopped */
    CLI_EXIT_SYSTEM = 71,      /* the system refused: no memory, no process, no descriptor */
    CLI_EXIT_OUTPUT = 74,      /* standard output cannot be written */
    CLI_EXIT_CONTENDED = 75,   /* not acquired: held by another, or the wait ran out */
    CLI_EXIT_DENIED = 77,      /* the store refused the credentials */
    CLI_EXIT_CONFIG = 78,      /* a URL, name or timing is invalid */
    CLI_EXIT_OVERDUE = 124,    /* the child was stopped at the end of its time, as by timeout(1) */
    CLI_EXIT_NOT_EXECUTABLE = 126,
    CLI_EXIT_NOT_FOUND = 127,
    CLI_EXIT_SIGNAL = 128 /* plus the number of the signal */
};

/* How long the program stays only to leave in good order: the last messages, the end of a client. */
#define CLI_PATIENCE_MS 1000

/* The global options, which stand before or after the verb. */
struct cli {
    const char *url;    /* NULL: what the configuration says */
    const char *config; /* NULL: the file that is looked for, or else the default store */
    bool url_given;     /* on the command line, not by the environment */
    bool config_given;
    const char *id;       /* gets a random part; NULL: made by the library */
    const char *exact_id; /* stays as it is; at most one of the two is given */
    int64_t ttl_ms;
    int64_t transition_ms;
    enum simba_log_level log_level;
    bool log_level_given;
    bool quiet;      /* say only what is wrong */
    bool show_store; /* say which store it is */
    bool help;
    bool version;
    size_t operands; /* of the verb, in front of "--" or its command; set by cli_verb_parse */
};

struct cli_verb {
    const char *name;
    const char *usage;   /* what follows "simba " in the first line of its help */
    const char *summary; /* one line, for the list of verbs */
    const char *details; /* what it does, examples, exit codes */
    const struct cli_option *options;
    const struct cli_option *shared; /* more of them, which other verbs have, too; may be NULL */
    /* argv[0] is the verb. Returns the exit code. */
    int (*run)(struct cli *cli, int argc, char **argv);
};

extern const struct cli_option cli_global_options[];

extern const struct cli_verb cli_verb_lock;
extern const struct cli_verb cli_verb_lead;
extern const struct cli_verb cli_verb_schedule;
extern const struct cli_verb cli_verb_status;
extern const struct cli_verb cli_verb_watch;
extern const struct cli_verb cli_verb_release;
extern const struct cli_verb cli_verb_init;
extern const struct cli_verb cli_verb_tck;
extern const struct cli_verb cli_verb_bench;

/* The verb is to go on: nothing has been decided about the exit code. */
#define CLI_CONTINUE (-1)

/* Reads the options of a verb and the global ones; see cli_options_parse for the rest. Prints the
 * help where that was asked for. Returns CLI_CONTINUE or an exit code. */
int cli_verb_parse(struct cli *cli, const struct cli_verb *verb, void *into, size_t operands_max,
                   int *argc, char **argv);

/* Points to the help of a verb ("": of the program), after what is wrong with the command line has been said.
 * Returns CLI_EXIT_USAGE. */
int cli_usage_error(const char *verb);

/* The same for an argument that has no place there. */
int cli_unexpected_argument(const char *verb, const char *argument);

/* Prints the help of the program (`verb` NULL) or of a verb. */
void cli_help_print(FILE *stream, const struct cli_verb *const *verbs);
void cli_help_print_verb(FILE *stream, const struct cli_verb *verb);

#endif
