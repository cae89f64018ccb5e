/*
 * scratch.h - a store for one run: an SQLite file in a folder of its own, for verbs that would
 * leave names behind in the default store.
 */
#ifndef CLI_SCRATCH_H
#define CLI_SCRATCH_H

#include <simba/simba.h>

#define CLI_SCRATCH_FILE "store.db" /* SQLite adds files whose names begin like it */

/* Creates the folder in TMPDIR, named after the verb, and tells the URL of the file in it. */
int cli_scratch_create(const char *verb, char *folder, size_t folder_size, char *url,
                       size_t url_size, struct simba_error *error);

/* Says so where it cannot be removed. */
void cli_scratch_remove(const char *folder);

#endif
