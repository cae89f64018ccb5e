/*
 * backlog.h - the requests of a node that wait for their turn on its connection.
 *
 * A server that is told more than it can answer in time answers nothing in time. So only so many requests are
 * under way at once. The others wait here, where they have certainly not been carried out, and where a renewal
 * passes those that can be late without harm. An attempt that should leave a moment later waits here too.
 */
#ifndef SB_REDIS_BACKLOG_H
#define SB_REDIS_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

struct sb_redis_backlog;
struct sb_redis_call;
struct uv_loop_s;

struct sb_redis_backlog_events {
    void (*closed)(void *user); /* it is gone */
    void (*due)(void *user);    /* what was held back can be taken now */
};

/* Creates it, with nobody in it. NULL when memory is short. */
struct sb_redis_backlog *sb_redis_backlog_create(struct uv_loop_s *loop,
                                                 const struct sb_redis_backlog_events *events,
                                                 void *user);

/* Whether nobody can be taken. */
bool sb_redis_backlog_is_empty(const struct sb_redis_backlog *backlog);

/* Adds a job; it is answered at its deadline, unless it has been taken by then. */
void sb_redis_backlog_add(struct sb_redis_backlog *backlog, struct sb_redis_call *job);

/* Adds a job that nobody takes before that time, which is earlier than its deadline. */
void sb_redis_backlog_hold(struct sb_redis_backlog *backlog, struct sb_redis_call *job,
                           int64_t until_ms);

/* Takes the next one: guards first, then releases, among equals the earliest deadline. NULL: nobody waits. */
struct sb_redis_call *sb_redis_backlog_take(struct sb_redis_backlog *backlog);

/* Destroys it; answers those that wait. */
void sb_redis_backlog_close(struct sb_redis_backlog *backlog);

#endif
