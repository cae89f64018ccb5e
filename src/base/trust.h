/*
 * trust.h - the users who may have written what this process uses: root and the effective user, and
 * for code that a program loads those who could replace the program.
 */
#ifndef SB_BASE_TRUST_H
#define SB_BASE_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SB_TRUST_MAX 32 /* users, and groups; further ones are not trusted */

struct sb_trust {
    bool of_program; /* false: root and the effective user only */
    uid_t users[SB_TRUST_MAX];
    size_t user_count;
    gid_t groups[SB_TRUST_MAX];
    size_t group_count;
    bool everybody; /* may replace the program */
};

/* `program` is the real path of a program or a library, or NULL. Its owner can replace it; so can
 * those who own or may write a folder on the way to it, unless that has the sticky bit, by which
 * others rename only what is theirs. */
void sb_trust_init(struct sb_trust *trust, const char *program);

bool sb_trust_has_user(const struct sb_trust *trust, uid_t user);
bool sb_trust_has_group(const struct sb_trust *trust, gid_t group);

#endif
