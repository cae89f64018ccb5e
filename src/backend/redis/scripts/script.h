/*
 * script.h - the Lua scripts, which are files of their own and are embedded at build time.
 */
#ifndef SB_REDIS_SCRIPT_H
#define SB_REDIS_SCRIPT_H

enum sb_script_name {
    SB_SCRIPT_ACQUIRE,
    SB_SCRIPT_GUARD,
    SB_SCRIPT_RELEASE,
    SB_SCRIPT_READ,
    SB_SCRIPT_COUNT
};

struct sb_script {
    const char *name;
    const char *sha1; /* 40 hex digits */
    const char *text;
};

extern const struct sb_script sb_scripts[SB_SCRIPT_COUNT];

#endif
