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

/* The same in steps, for a batch of one request and a thread that must not wait: the first item to run, and
 * the next one when that was done. NULL: the request is answered, or it takes more than this. Then it is
 * still waiting, and blocked where somebody was in its way. */
struct sb_sql_item *sb_rows_first(struct sb_batch *batch, struct sb_repository *repository);
struct sb_sql_item *sb_rows_next(struct sb_batch *batch, struct sb_repository *repository);

#endif
