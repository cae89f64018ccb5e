/*
 * process.h - whether SQLite may be used in this process.
 *
 * SQLite keeps, for the whole process, a table of the files that it has open and of the locks on them. A
 * child that is forked meanwhile inherits the table but not the locks, and believes in locks that nobody
 * holds: it could damage the log of a database that its parent is using. It may also inherit mutexes that
 * no thread will ever unlock. So in such a child SQLite is not touched at all.
 */
#ifndef SB_BACKEND_SQLITE_PROCESS_H
#define SB_BACKEND_SQLITE_PROCESS_H

#include <simba/simba.h>

/* Before the first call for a connection. SIMBA_EFORKED when an ancestor had one when it forked. */
int sb_sqlite_enter(struct simba_error *error);

/* After the last call for a connection that was entered for. */
void sb_sqlite_leave(void);

#endif
