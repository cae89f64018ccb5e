/*
 * connection.h - the SQLite driver: one connection to the file.
 *
 * Clock: leases are counted on the host's boot clock, which all processes share and which no step of
 * the wall clock moves. It stands still during one statement, and is read when the statement has the lock
 * that it needs, not before.
 */
#ifndef SB_BACKEND_SQLITE_CONNECTION_H
#define SB_BACKEND_SQLITE_CONNECTION_H

#include "backend/sql/driver.h"
#include "backend/sqlite/life.h"
#include "backend/sqlite/wake.h"

#include <sqlite3.h>
#include <sys/types.h>
#include <time.h>

#define SB_BOOT_ID_MAX 64

/* What all connections of one client have in common. What changes belongs to the thread that uses the connection
 * at the time, which calls the functions, too. */
struct sb_sqlite_settings {
    const struct simba_backend_host *host;
    char *path;        /* absolute, so that it stays the same when the process changes its folder */
    char *folder_path; /* where it lies */
    char *log_path;    /* what SQLite keeps beside it: the write-ahead log */
    char *index_path;  /* and the index of that, which connections share in memory */
    char *wake_path;   /* behind them, the side file of wake.h */
    char *life_path;   /* and that of life.h */
    bool must_exist;   /* a missing file is not created */
    bool full_sync;
    int64_t busy_timeout_ms;
    char boot_id[SB_BOOT_ID_MAX];
    uint64_t highest_version;      /* that any connection has seen */
    struct sb_life *life;          /* of the client; NULL: who acquires may be gone at once */
    void (*contended)(void *user); /* called when somebody is going to wait */
    void (*met)(void *user, int64_t life); /* and before that, when an owner with a life was seen */
    void *user;
};

/* Which file it is that was opened, whatever its name leads to now. */
struct sb_sqlite_identity {
    dev_t device;
    ino_t inode;
};

/* The folder when its names led to those files. */
struct sb_sqlite_folder {
    int fd; /* to ask it without its path; -1: none */
    struct sb_sqlite_identity identity;
    bool is_local; /* its date tells of every change */
    struct timespec changed;
    int64_t good_until_ms; /* 0: it tells nothing */
    uint64_t note;         /* counts what was noted of it */
    bool quiet;            /* since the last statement it was seen to be as it was noted */
};

struct sb_sqlite_connection {
    struct sb_sql_connection base; /* first: the connection is one */
    struct sb_sqlite_settings *settings;
    sqlite3 *db;
    sqlite3_stmt *statements[SB_SQL_STATEMENTS];
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *rollback;
    struct sb_sqlite_identity file;
    struct sb_sqlite_identity log;
    struct sb_sqlite_identity index;
    struct sb_sqlite_folder folder;
    int64_t deadline_ms;      /* for waiting on locks */
    int64_t running_since_ms; /* the statement, or since its last wait */
    int64_t clock_ms;         /* of the statement that runs; 0: nobody has asked yet */
    int64_t clock_offset_ms;  /* of this process's clock, ahead of the host's */
    int64_t noted_version;    /* of the row that was changed last */
    bool committing;          /* the statement that runs has begun to commit */
    uint64_t random;
    int commits; /* counted while the connection is young */
    struct sb_wake_writer wake;
    struct sb_life_probe probe;
};

extern const struct sb_sql_driver sb_sqlite_driver;

#endif
