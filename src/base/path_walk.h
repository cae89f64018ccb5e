/*
 * path_walk.h - walks along a path from descriptor to descriptor and follows its links one by one.
 * The caller judges each folder when the walk has entered it, and each link before the walk follows
 * it: by the descriptor, so that nothing can change in between. Knows no rules of its own.
 *
 *     begin, then look, judge, go on (into the folder, or where the link leads), look, ... until
 *     the last entry
 *
 * What returns an int returns 0 or an errno.
 */
#ifndef SB_BASE_PATH_WALK_H
#define SB_BASE_PATH_WALK_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

struct sb_path_walk {
    int folder; /* where the walk is; opened by O_PATH, like the entry */
    struct stat folder_status;
    int entry; /* that was looked at; -1: none */
    struct stat entry_status;
    char name[NAME_MAX + 1]; /* of the entry in the folder */
    char path[PATH_MAX];     /* of the entry: absolute, and without links before its last name */
    char rest[PATH_MAX];     /* of the way behind the entry; empty: it is the last */
    int links;               /* that were followed */
};

/* Begins at the root, also for a relative path. The caller ends the walk, also where this fails. */
int sb_path_walk_begin(struct sb_path_walk *walk, const char *path);

/* Looks at the next entry. On failure `name`, `path` and `rest` are those of the entry, too.
 * EISDIR: there is no name left, and the path leads to the root. */
int sb_path_walk_look(struct sb_path_walk *walk);

/* Whether the entry is a link. */
bool sb_path_walk_is_link(const struct sb_path_walk *walk);

/* Enters the entry, which is a folder; ENOTDIR where it is none. `folder_status` is of what was
 * entered. */
int sb_path_walk_enter(struct sb_path_walk *walk);

/* Puts what the link says in the place of its name. Where that begins at the root, the walk is
 * there afterwards. */
int sb_path_walk_follow(struct sb_path_walk *walk);

void sb_path_walk_end(struct sb_path_walk *walk);

#endif
