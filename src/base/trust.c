/*
 * trust.c - who is trusted. Knows owners and rights; must not know which files are asked for.
 */
#include "base/trust.h"

#include "base/text.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool sb_trust_has_user(const struct sb_trust *trust, uid_t user)
{
    for (size_t i = 0; i < trust->user_count; i++)
        if (trust->users[i] == user)
            return true;
    return user == 0 || user == geteuid();
}

bool sb_trust_has_group(const struct sb_trust *trust, gid_t group)
{
    for (size_t i = 0; i < trust->group_count; i++)
        if (trust->groups[i] == group)
            return true;
    return false;
}

/* Adds those who could replace the program by what is at the path: the program or a folder on the
 * way to it. */
static void add_writers(struct sb_trust *trust, const char *path)
{
    struct stat found;
    bool shared;

    if (stat(path, &found) != 0)
        return;
    shared = !S_ISDIR(found.st_mode) || (found.st_mode & S_ISVTX) == 0;
    if (!sb_trust_has_user(trust, found.st_uid) && trust->user_count < SB_TRUST_MAX)
        trust->users[trust->user_count++] = found.st_uid;
    if (shared && (found.st_mode & S_IWGRP) != 0 && !sb_trust_has_group(trust, found.st_gid) &&
        trust->group_count < SB_TRUST_MAX)
        trust->groups[trust->group_count++] = found.st_gid;
    if (shared && (found.st_mode & S_IWOTH) != 0)
        trust->everybody = true;
}

void sb_trust_init(struct sb_trust *trust, const char *program)
{
    char path[PATH_MAX];

    memset(trust, 0, sizeof *trust);
    if (program == NULL || !sb_text_copy(path, sizeof path, program))
        return;
    trust->of_program = true;
    for (char *end = path + strlen(path); end != NULL; end = strrchr(path, '/')) {
        *end = '\0';
        add_writers(trust, path[0] != '\0' ? path : "/");
    }
}
