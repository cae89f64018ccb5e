/*
 * trusted_file.h - opens files that decide where this process connects and as which user:
 * configurations, option files, password files. Checks folders in which it creates files of its
 * own.
 *
 * A file is trusted when no other user could have chosen what it says:
 *   - it is a regular file, owned by root or by the effective user, and neither its group nor
 *     everybody may write it;
 *   - so is every folder on the way to it, links followed, except that in a folder with the sticky
 *     bit it is enough that the entry belongs to root or to the effective user.
 * A file in /proc or /sys is not, nor is what a link in /proc leads to, except /proc/self and
 * /proc/thread-self: the kernel does not follow the others by their text, and may reach a folder of
 * another mount namespace. A pipe, or memory that is sealed against writing, that this process was
 * given as a descriptor (/dev/stdin, /dev/fd/N) is trusted if its owner is; a file behind a
 * descriptor by the path that /proc names.
 */
#ifndef SB_BASE_TRUSTED_FILE_H
#define SB_BASE_TRUSTED_FILE_H

#include "base/shared.h"

#include <simba/simba.h>

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

/* Opens it for reading, close-on-exec. All is checked on what was opened, and nothing blocks: a
 * FIFO is refused. `kind` is what the error calls it, such as "password file". The error's
 * backend_code is ENOENT where there is none. In a process whose real and effective user or group
 * differ the error does not tell why: its caller must not learn which files exist. `ret_status` may
 * be NULL. */
int sb_trusted_open(const char *kind, const char *path, int *ret_fd, struct stat *ret_status,
                    struct simba_error *error) SB_SHARED("trusted_open");

/* For a file that a library opens by itself, now or later: SIMBA_OK where it is trusted, and where
 * it is missing and no other user could create it. No way through /proc is trusted, as it may lead
 * the library elsewhere. The same holds for the next two. */
int sb_trusted_check(const char *kind, const char *path, struct simba_error *error)
    SB_SHARED("trusted_check");

/* Checks a folder in which this process is going to create one of its own: that no other user could
 * put another in its place, now or later. By the same rules, so one with the sticky bit is trusted
 * where others may write it. *ret_fd is a descriptor of what was checked, opened by O_PATH. */
int sb_trusted_folder(const char *kind, const char *path, int *ret_fd, struct simba_error *error)
    SB_SHARED("trusted_folder");

/* Checks a file of code before it is loaded by its absolute path. It may also belong to those who
 * could replace `program`, the real path of the program or the library that loads it, and be
 * written by them, as may the folders on the way. Nobody else may write its folder and the one
 * above it, where the loader looks for libraries, the sticky bit or not. Where all is so, nobody
 * else can put another file in its place before it is loaded. */
int sb_trusted_code(const char *kind, const char *path, const char *program,
                    struct simba_error *error);

/* ---- A walk along a path --------------------------------------------------------------------- */

/* Walks along a path from descriptor to descriptor and follows its links one by one.
 * The caller judges each folder when the walk has entered it, and each link before the walk follows
 * it: by the descriptor, so that nothing can change in between. Knows no rules of its own.
 *
 *     begin, then look, judge, go on (into the folder, or where the link leads), look, ... until
 *     the last entry
 *
 * What returns an int returns 0 or an errno.
 */

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

/* Begins at the root, also for a relative path; EXDEV where the working folder lies in another
 * mount namespace, so that no path from the root leads there. The caller ends the walk, also where
 * this fails. */
int sb_path_walk_begin(struct sb_path_walk *walk, const char *path);

/* Looks at the next entry. On failure `name`, `path` and `rest` are those of the entry, too.
 * EISDIR: there is no name left, and the path leads to the root. */
int sb_path_walk_look(struct sb_path_walk *walk);

/* Whether the entry is a link. */
bool sb_path_walk_is_link(const struct sb_path_walk *walk);

/* Whether the folder is one of /proc, or cannot be told from one. */
bool sb_is_proc_folder(int folder) SB_SHARED("is_proc_folder");

/* Whether the entry is a link of /proc that the kernel does not follow by its text, as it does
 * /proc/self and /proc/thread-self. The process that it is about decides where it leads. */
bool sb_path_walk_is_magic(const struct sb_path_walk *walk);

/* Enters the entry, which is a folder; ENOTDIR where it is none. `folder_status` is of what was
 * entered. */
int sb_path_walk_enter(struct sb_path_walk *walk);

/* Puts what the link says in the place of its name. Where that begins at the root, the walk is
 * there afterwards. */
int sb_path_walk_follow(struct sb_path_walk *walk);

void sb_path_walk_end(struct sb_path_walk *walk);

#endif
