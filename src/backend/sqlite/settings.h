/*
 * settings.h - what all connections of one SQLite client have in common: reads the URL of a store.
 */
#ifndef SB_SQLITE_SETTINGS_H
#define SB_SQLITE_SETTINGS_H

#include "backend/sqlite/liveness.h"
#include "backend/sqlite/wake_socket.h"
#include "base/url_options.h"

#define SB_SQLITE_BOOT_ID_MAX 64

/* What all connections of one client have in common. What changes belongs to the thread that uses
 * the connection at the time, which calls the functions, too. */
struct sb_sqlite_settings {
    const struct simba_backend_host *host;
    char *path;        /* absolute, so that it stays the same when the process changes its folder */
    char *folder_path; /* where it lies */
    char *log_path;    /* what SQLite keeps beside it: the write-ahead log */
    char *index_path;  /* and the index of that, which connections share in memory */
    char *wake_path;   /* behind them, the side file of wake.h */
    char *life_path;   /* and that of liveness.h */
    bool may_create;   /* a missing file */
    int full_sync;     /* synchronous: 0 normal, 1 full */
    int64_t busy_timeout_ms;
    char boot_id[SB_SQLITE_BOOT_ID_MAX];
    uint64_t highest_version;        /* that any connection has seen */
    struct sb_sqlite_liveness *life; /* of the client; NULL: who acquires may be gone at once */
    struct sb_sqlite_wake_socket *wake_socket; /* of the client; NULL: it never waits */
    void (*contended)(void *user);             /* called when somebody is going to wait */
    void (*met)(void *user, int64_t life); /* and before that, when an owner with a life was seen */
    void *user;
};

/* What the URLs take behind the '?'. */
extern const struct sb_url_option sb_sqlite_options[];

/* Fills in all but who is to be told. On failure `settings` holds nothing. */
int sb_sqlite_settings_read(struct sb_sqlite_settings *settings, simba_url *url,
                            struct simba_error *error);
void sb_sqlite_settings_clear(struct sb_sqlite_settings *settings);

/* The file of the lives; its strings are those of the settings. */
struct sb_sqlite_liveness_file
sb_sqlite_settings_liveness(const struct sb_sqlite_settings *settings);

#endif
