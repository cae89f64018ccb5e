/*
 * log.c - the write-ahead log. Owns when it moves into the file; must not know statements.
 *
 * A move costs two syncs, and the committing process pays them:
 *
 *     connections that live long     when the log has LOG_FRAMES_MAX pages, without cutting it off
 *     those of a moment              at LOG_FRAMES already, and the log is empty then
 */
#include "backend/sqlite/log.h"

#define YOUNG_COMMITS 8     /* a process that lives for one lease makes two */
#define LOG_FRAMES_MAX 1000 /* pages in the log */
#define LOG_FRAMES 100 /* of young connections; to read one takes 3 us, a sync as long as many */
#define LOG_TRIES 4

/* As far as nobody is in the way; nobody is waited for. */
static void move(struct sb_sqlite_connection *c, const char *name, int mode)
{
    int64_t deadline_ms = c->deadline_ms;

    c->deadline_ms = SB_SQL_AT_ONCE;
    sqlite3_wal_checkpoint_v2(c->db, name, mode, NULL, NULL);
    c->deadline_ms = deadline_ms;
}

/* A process that opens the file alone has to read all of the log, so that processes which are here for a moment keep it
 * short for each other: now and then one of them pays the two syncs. */
static int on_commit(void *connection, sqlite3 *db, const char *name, int frames)
{
    struct sb_sqlite_connection *c = connection;

    (void)db;
    if (c->commits < YOUNG_COMMITS)
        c->commits++;
    if (frames >= LOG_FRAMES_MAX)
        move(c, name, SQLITE_CHECKPOINT_PASSIVE);
    else if (c->commits < YOUNG_COMMITS && frames >= LOG_FRAMES && frames % LOG_FRAMES < LOG_TRIES)
        move(c, name, SQLITE_CHECKPOINT_TRUNCATE);
    return SQLITE_OK;
}

void sb_sqlite_log_tend(struct sb_sqlite_connection *c)
{
    sqlite3_wal_hook(c->db, on_commit, c);
}
