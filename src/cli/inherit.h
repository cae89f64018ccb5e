/*
 * inherit.h - which store a command finds that runs `simba` itself: the one that it runs under.
 */
#ifndef CLI_INHERIT_H
#define CLI_INHERIT_H

#include "cli/store.h"

/* Bytes of a variable of the environment, with its name. */
#define CLI_INHERIT_MAX (CLI_URL_MAX + 16)

/* Writes the variable that names the store where the command line did: "SIMBA_URL=URL"; or, so that
 * no password stands in the environment, "SIMBA_CONFIG=/dev/fd/N" with a descriptor that the
 * command inherits. Otherwise it is empty, and the environment names the store anyway. */
int cli_inherit_store(const struct cli *cli, const char *url, char variable[CLI_INHERIT_MAX],
                      struct simba_error *error);

#endif
