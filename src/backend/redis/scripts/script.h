/*
 * script.h - the Lua scripts, which are files of their own and are embedded at build time.
 */
#ifndef SB_REDIS_SCRIPT_H
#define SB_REDIS_SCRIPT_H

#include <stdint.h>

enum sb_redis_script_name {
    SB_REDIS_SCRIPT_ACQUIRE,
    SB_REDIS_SCRIPT_GUARD,
    SB_REDIS_SCRIPT_RELEASE,
    SB_REDIS_SCRIPT_READ,
    SB_REDIS_SCRIPT_PROPERTY,
    SB_REDIS_SCRIPT_TEND,
    SB_REDIS_SCRIPT_COUNT
};

struct sb_redis_script {
    const char *name;
    const char *sha1; /* 40 hex digits */
    const char *text;
};

extern const struct sb_redis_script sb_redis_scripts[SB_REDIS_SCRIPT_COUNT];

/* Which texts one server has been sent, and when, counted in calls. */
struct sb_redis_loaded_scripts {
    uint64_t calls; /* so far */
    uint64_t sent_at[SB_REDIS_SCRIPT_COUNT];
};

#endif
