/*
 * dash_history.h - the file in which `simba dashboard` keeps the terms of the last hour.
 *
 * Lines with tabs: "term", begin, end, how, token, owner, mutex; or "seen", a time at which the
 * store was watched.
 */
#ifndef CLI_DASH_HISTORY_H
#define CLI_DASH_HISTORY_H

#include "cli/dash_model.h"

#include <stdio.h>

#define CLI_DASH_HISTORY_MAX (16 << 20) /* bytes of the file; then it is written anew */

struct cli_dash_history {
    const char *path; /* NULL: there is no file */
    const char *name; /* its last part; NULL: the folder is not open */
    int folder_fd;
    FILE *stream;
    long length;
    int64_t seen_ms; /* the last such line */
};

/* Reads the file into a model without a look, and opens it for more; creates it where it is
 * missing. Refuses one that another user could have placed there. Returns CLI_CONTINUE or, after a
 * message, an exit code. */
int cli_dash_history_open(struct cli_dash_history *history, struct cli_dash_model *model);

/* Writes the terms that have ended and were not told yet: before the pages are told. */
void cli_dash_history_write(struct cli_dash_history *history, const struct cli_dash_model *model);

void cli_dash_history_close(struct cli_dash_history *history);

#endif
