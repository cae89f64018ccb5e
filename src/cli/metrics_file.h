/*
 * metrics_file.h - `lock --metrics-file`: a text file for the textfile collector of node_exporter.
 */
#ifndef CLI_METRICS_FILE_H
#define CLI_METRICS_FILE_H

#include <simba/simba.h>

/* What is told of a run. All lines have the mutex as a label: the collector refuses two files with
 * the same line. */
struct cli_metrics_run {
    const char *mutex;
    uint64_t fence;
    int64_t waited_ms;  /* for the mutex */
    int64_t started_ms; /* since 1970 */
    int64_t ended_ms;   /* 0: it runs */
    int exit_code;
};

/* Replaces the file as a whole, or leaves it and prints a warning. Waits for the disk. */
void cli_metrics_file_write(const char *path, const struct cli_metrics_run *run);

#endif
