/*
 * log.c - the write-ahead log. Owns when it moves into the file; must not know statements.
 *
 * Commits wait for the disk at two points, unless every one of them does: when the log moves into the file, and when
 * it begins anew after that. Neither is for somebody who may not wait:
 *
 *     frames   998   999   1000 | 1001               | 1           | 2
 *     run by   whoever comes    | who may wait: move | who may wait| whoever comes
 */
#include "backend/sqlite/log.h"

#define YOUNG_COMMITS 8     /* a process that lives for one lease makes two */
#define LOG_FRAMES_MAX 1000 /* pages in the log */
#define LOG_FRAMES 200 /* of young connections; to read them takes a fraction of a millisecond */
#define LOG_TRIES 4

/* Whoever opens the file alone has to read all of the log, so that processes which are here for a moment keep it
 * short for each other: now and then one of them pays the two syncs. */
static bool is_young(const struct sb_sqlite_connection *c)
{
    return c->commits < YOUNG_COMMITS;
}

static bool is_long(const struct sb_sqlite_connection *c, int frames)
{
    return frames >= LOG_FRAMES_MAX ||
           (is_young(c) && frames >= LOG_FRAMES && frames % LOG_FRAMES < LOG_TRIES);
}

/* As far as nobody is in the way; nobody is waited for. */
static void move(struct sb_sqlite_connection *c, const char *name, int frames)
{
    int64_t deadline_ms = c->deadline_ms;

    c->deadline_ms = SB_SQL_AT_ONCE;
    sqlite3_wal_checkpoint_v2(c->db, name,
                              frames >= LOG_FRAMES_MAX ? SQLITE_CHECKPOINT_PASSIVE
                                                       : SQLITE_CHECKPOINT_TRUNCATE,
                              NULL, NULL);
    c->deadline_ms = deadline_ms;
}

static int on_commit(void *connection, sqlite3 *db, const char *name, int frames)
{
    struct sb_sqlite_connection *c = connection;

    (void)db;
    if (is_young(c))
        c->commits++;
    c->base.needs_thread = c->settings->full_sync || is_long(c, frames);
    if (is_long(c, frames) && c->deadline_ms != SB_SQL_AT_ONCE)
        move(c, name, frames);
    return SQLITE_OK;
}

void sb_sqlite_log_tend(struct sb_sqlite_connection *c)
{
    c->base.needs_thread = c->settings->full_sync;
    sqlite3_wal_hook(c->db, on_commit, c);
}
