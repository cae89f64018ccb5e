/*
 * progress.h - tells somebody who looks on why nothing happens: who owns the mutex, and for how long.
 *
 * On a terminal one line that is kept up to date in its place, no wider than that; elsewhere one line, once.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <simba/simba.h>

struct cli_progress {
    const char *mutex;
    bool quiet;
    int64_t begun_ms;
    bool told;  /* the one line */
    bool shown; /* a line in its place */
};

/* Room for what cli_progress_describe writes. */
#define CLI_PROGRESS_OWNER_MAX (SIMBA_ID_MAX + 96)

/* "owned by ID for another 12s": unless the owner renews, which most do. */
void cli_progress_describe(const struct simba_owner *owner, char *buffer, size_t size);

void cli_progress_begin(struct cli_progress *progress, const char *mutex, bool quiet);

/* When cli_progress_show wants to be called next; SIMBA_INFINITE: never again. */
int64_t cli_progress_next_ms(const struct cli_progress *progress);

/* `owner` as far as it is known: an empty id is nobody, or not known. */
void cli_progress_show(struct cli_progress *progress, const struct simba_owner *owner);

/* The wait is over: what stands in its place is wiped out. */
void cli_progress_end(struct cli_progress *progress);

#endif
