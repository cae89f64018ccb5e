/*
 * dash_json.h - what the dashboard's page and Prometheus are told of a model.
 */
#ifndef CLI_DASH_JSON_H
#define CLI_DASH_JSON_H

#include "cli/dash_model.h"

#include <stdio.h>

/* What the page knows besides the model. */
struct cli_dash_about {
    const char *store; /* without a password */
    const char *why;   /* it is away; empty: it is not */
    bool controls;     /* the page may hand over and release */
};

/* One server-sent event: all that is known; or what has changed since the last one, which is
 * forgotten then. */
void cli_dash_write_all(FILE *stream, const struct cli_dash_model *model,
                        const struct cli_dash_about *about);
void cli_dash_write_changes(FILE *stream, struct cli_dash_model *model,
                            const struct cli_dash_about *about);

/* Metrics of the store as a whole, at `now_ms` since 1970. */
void cli_dash_write_metrics(FILE *stream, const struct cli_dash_model *model, bool is_open,
                            int64_t now_ms);

#endif
