/*
 * names.h - the mutexes of a store that a command line names, by names and patterns.
 */
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

#include "cli/cli.h"

struct cli_names {
    struct simba_mutex_status *list;
    size_t count;
};

/* With *, ? or [...]. */
bool cli_name_is_pattern(const char *name);

/* Whether one of the operands is the name of the mutex itself; and whether one is that, or a
 * pattern that it matches, or there are none. */
bool cli_name_is_given(const char *mutex, int argc, char **argv);
bool cli_name_is_meant(const char *mutex, int argc, char **argv);

/* The parts of an id: "0:2277@10.0.0.7~zkn2vl (nightly)" is the contender 0:2277~zkn2vl of the host
 * 10.0.0.7 with the note nightly. Host and note may be empty. */
struct cli_id {
    char name[SIMBA_ID_MAX + 1];
    char host[SIMBA_ID_MAX + 1];
    char note[SIMBA_ID_MAX + 1];
};

void cli_id_split(const char *id, struct cli_id *ret_id);

/* For how long it waits; -1: the store does not know. */
int64_t cli_waiter_waited_ms(const struct simba_waiter *waiter, int64_t now_ms);

/* A waiter as it is shown: its place, from 1, its id, and for how long it waits. */
#define CLI_WAITER_MAX (SIMBA_ID_MAX + 64)
void cli_waiter_describe(const struct simba_waiter *waiter, size_t place, int64_t now_ms,
                         char line[CLI_WAITER_MAX]);

/* Asks for each name or pattern, or for all that the store has. A name that the store does not know
 * is free. Prints what failed, and returns the exit code. */
int cli_names_ask(simba_client *client, int argc, char **argv, struct cli_names *names);

/* Some stores count waiters only by listing them: does that for the first mutexes that are held, a
 * few dozen. A number that cannot be had stays -1. */
void cli_names_count_waiters(simba_client *client, struct simba_mutex_status *list, size_t count,
                             int64_t timeout_ms);

/* Of what was asked for: leaves out the names that no contender can have, and says so. Any client
 * may write such a name to a store, and it must not keep a verb from the other names. */
void cli_names_drop_invalid(struct cli_names *names);

/* The same without asking: of a store that no process has used yet. */
int cli_names_assume_free(int argc, char **argv, struct cli_names *names);

void cli_names_free(struct cli_names *names);

#endif
