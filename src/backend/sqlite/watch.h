/*
 * watch.h - the reading end of the side file: tells the contenders and observers of one client when
 * another process may have released or acquired.
 *
 * All on the loop thread. The file is watched only when it has to be: from the first contender that has
 * to wait, or the first observer, until nobody listens any more. An uncontended acquire pays nothing.
 */
#ifndef SB_BACKEND_SQLITE_WATCH_H
#define SB_BACKEND_SQLITE_WATCH_H

#include <simba/backend.h>

struct sb_watch;

/* Creates. `wake_path` and `path` are not copied. Puts nothing on the loop yet. */
int sb_watch_create(const struct simba_backend_host *host, const char *wake_path, const char *path,
                    struct sb_watch **ret_watch, struct simba_error *error);

/* Destroys; closed(argument) is called when its handles are closed: at once where it never had to
 * watch, otherwise later. */
void sb_watch_close(struct sb_watch *watch, void (*closed)(void *argument), void *argument);

/* A contender or an observer of a mutex comes or goes. */
void sb_watch_listen(struct sb_watch *watch, const char *mutex, bool observer, bool on);

/* A contender has to wait. */
void sb_watch_contended(struct sb_watch *watch);

#endif
