/*
 * backlog.h - the requests of a node that wait for their turn on its connection.
 *
 * A server that gets more than it can answer in time answers nothing in time. So only so many
 * requests are under way at once. The others wait here: they have certainly not been carried out,
 * and a renewal passes those that can be late without harm. A request that should be sent a little
 * later waits here, too.
 */
#ifndef SB_REDIS_BACKLOG_H
#define SB_REDIS_BACKLOG_H

#include <simba/backend.h>

struct sb_redis_backlog;
struct uv_loop_s;

/* A request that waits. Embedded by the request, so that waiting needs no memory and cannot fail.
 * All zeros but `expired` while it does not wait. */
struct sb_redis_backlog_entry {
    struct sb_redis_backlog_entry *next;
    struct sb_redis_backlog_entry *child;
    int64_t due_ms;      /* the deadline, or until when it is held back */
    int64_t deadline_ms; /* on simba_now_ms() */
    /* Its time is over, or the backlog is closed: it waits no more and has not been taken. */
    void (*expired)(struct sb_redis_backlog_entry *entry, const struct simba_error *error);
};

struct sb_redis_backlog_events {
    void (*closed)(void *user); /* it is gone */
    void (*due)(void *user);    /* what was held back can be taken now */
};

/* Creates it, empty. NULL when memory is short. */
struct sb_redis_backlog *sb_redis_backlog_create(struct uv_loop_s *loop,
                                                 const struct sb_redis_backlog_events *events,
                                                 void *user);

/* Whether nothing can be taken. */
bool sb_redis_backlog_is_empty(const struct sb_redis_backlog *backlog);

/* Adds a request for `op`, which expires at its deadline unless it has been taken by then. */
void sb_redis_backlog_add(struct sb_redis_backlog *backlog, struct sb_redis_backlog_entry *entry,
                          enum simba_op op, int64_t deadline_ms);

/* Adds an ACQUIRE that is not taken before `until_ms`, which is earlier than its deadline. */
void sb_redis_backlog_hold(struct sb_redis_backlog *backlog, struct sb_redis_backlog_entry *entry,
                           int64_t until_ms, int64_t deadline_ms);

/* Takes the next one: guards first, then releases, among equals the earliest deadline. NULL: there
 * is none. */
struct sb_redis_backlog_entry *sb_redis_backlog_take(struct sb_redis_backlog *backlog);

/* Destroys it; what waits expires at once. */
void sb_redis_backlog_close(struct sb_redis_backlog *backlog);

#endif
