/*
 * output.h - standard output: results that could not be written must not look like success.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>

/* Begins the struct of each verb that prints results. */
struct cli_output {
    bool json;
};

/* --json, for the tables of their options. */
bool cli_output_set_json(void *into, const char *value);

/* Writes what is buffered. Returns false when that, or anything before it, failed. */
bool cli_output_flush(void);

/* The same at the end of the program: says what failed and returns the exit code for it, `status` where that is
 * an error already. A reader that has left is no error. */
int cli_output_finish(int status);

#endif
