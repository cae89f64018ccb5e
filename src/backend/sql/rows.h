/*
 * rows.h - what a batch does on a store that locks single rows: a database server.
 *
 *     change    all conditional updates in one transaction; what hit is answered at once
 *     look      at the rows of those that did not hit, and at what is only read: mostly they are done
 *     create    the rows that are missing, and once more from the start
 *
 * Nobody waits for long: a row that somebody else has locked is left for a later run, so that it delays
 * no other mutex.
 */
#ifndef SB_BACKEND_SQL_ROWS_H
#define SB_BACKEND_SQL_ROWS_H

#include "backend/sql/batch.h"

/* See sb_batch_run. */
int sb_rows_write(struct sb_batch *batch, struct sb_repository *repository,
                  struct sb_sql_failure *failure);

#endif
