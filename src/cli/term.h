/*
 * term.h - a mutex that is held without a command: how a script is told of it, and how it names it
 * again. For the verbs `acquire`, `renew` and `release`.
 */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include "cli/cli.h"

struct cli_term {
    struct cli_output output; /* first */
    const char *mutex;
    const char *id;      /* NULL: not given */
    uint64_t fence;      /* 0: not given */
    int64_t for_ms;      /* how long the lease is; SIMBA_UNSET: not given */
    int64_t deadline_ms; /* when its owner must stop; 0: not known, since a process renews it */
    long keeper;         /* that process; 0: none */
};

/* The options that name a term, for the tables of the verbs. */
#define CLI_TERM_FENCE                                                                             \
    {                                                                                              \
        0, "fence", "NUMBER", "the fencing token that 'simba acquire' printed",                    \
            CLI_CALL(cli_term_set_fence)                                                           \
    }
#define CLI_TERM_FOR(help)                                                                         \
    {                                                                                              \
        0, "for", "DURATION", help, CLI_INTERVAL(struct cli_term, for_ms)                          \
    }
bool cli_term_set_fence(void *into, const char *value);

/* Completes what --id and --fence leave open from the environment that `acquire` printed, if that
 * is about the same mutex. Returns whether id and fence are known. */
bool cli_term_find(struct cli_term *term, const struct cli *cli, const char *mutex);

/* Checks the length of the lease. Returns CLI_CONTINUE or an exit code. */
int cli_term_check_for(const struct cli_term *term, const struct cli *cli);

/* Prints the term, as shell words or as JSON. */
void cli_term_print(const struct cli_term *term);

#endif
