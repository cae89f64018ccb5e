/*
 * watch.h - the reading end of the side files: tells the contenders and observers of one client
 * when another process may have released or acquired, or has died.
 *
 * All on the loop thread. The files are watched only when they have to be: from the first contender
 * that has to wait, or the first observer, until nobody listens any more. An uncontended acquire
 * pays nothing.
 */
#ifndef SB_SQLITE_WATCH_H
#define SB_SQLITE_WATCH_H

#include "backend/sqlite/liveness.h"
#include "backend/sqlite/wake_socket.h"

struct sb_sqlite_watch;

/* Which files. The strings are not copied. */
struct sb_sqlite_watch_files {
    const char *wake_path;
    struct sb_sqlite_liveness_file life;
};

/* Creates. Puts nothing on the loop yet. The socket is read from the first contender that has to
 * wait on, if there is one. */
int sb_sqlite_watch_create(const struct simba_backend_host *host,
                           const struct sb_sqlite_watch_files *files,
                           struct sb_sqlite_wake_socket *wake_socket,
                           struct sb_sqlite_watch **ret_watch, struct simba_error *error);

/* Destroys; closed(argument) is called when its handles are closed: at once where it never had to
 * watch, otherwise later. */
void sb_sqlite_watch_close(struct sb_sqlite_watch *watch, void (*closed)(void *argument),
                           void *argument);

/* A contender or an observer of a mutex comes or goes. */
void sb_sqlite_watch_listen(struct sb_sqlite_watch *watch, const char *mutex, bool observer,
                            bool on);

/* An owner with that life has been met; all listeners are told when it is over. Returns whether it
 * was not known: then sb_sqlite_watch_contended is to follow. Any thread. */
bool sb_sqlite_watch_owner(struct sb_sqlite_watch *watch, int64_t life);

/* A contender has to wait, or an owner was met. */
void sb_sqlite_watch_contended(struct sb_sqlite_watch *watch);

#endif
