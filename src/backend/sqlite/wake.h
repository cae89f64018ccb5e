/*
 * wake.h - the side file PATH-wake by which processes on one database wake each other.
 *
 * SQLite has no way to tell another process that something was committed, and a watch on its own
 * files fires before the commit can be seen. A waiter is told by its client's socket
 * (wake_socket.h). Where that cannot be, the process that has committed a release writes into this
 * file, and waiters watch it. Nothing rests on its content: a file that is lost, old or
 * full of noise costs a late or a needless look at the database.
 *
 *     slot 0 | slot 1 | ... | slot 511      8 bytes each; a mutex has the slot of its name's hash
 *
 * A release puts a new random number into the slot (the file is modified: IN_MODIFY), so that only
 * the waiters for such a mutex read the database. What concerns observers alone only touches the
 * times (IN_ATTRIB), and waiters sleep on.
 *
 * Mostly there are no listeners, and then nothing is written. A listener has a lock on a byte
 * behind the slots, which the kernel takes away when its process ends:
 *
 *     byte 4096    to slots: all listeners
 *     byte 4097    to times: observers
 *
 * No wake-up is missed, because each side does its part before it looks at the other's:
 *
 *     a listener      locks the byte,     then reads the database
 *     a releaser      commits,            then looks which file it is, and asks for the lock
 */
#ifndef SB_SQLITE_WAKE_H
#define SB_SQLITE_WAKE_H

#include <simba/backend.h>

#include <sys/types.h>

#define SB_SQLITE_WAKE_SLOTS 512

/* The slot of a mutex, less than SB_SQLITE_WAKE_SLOTS. */
size_t sb_sqlite_wake_slot(const char *mutex);

/* Opens the file for a listener, and creates it where it is missing with the permissions of the
 * database `path`. A descriptor or -1 with errno. */
int sb_sqlite_wake_open_to_read(const char *wake_path, const char *path);

/* Says that the opener of the file listens until it is closed, to acquires or to releases only. The
 * caller looks at the database afterwards. False, with errno: others may not hear of it. */
bool sb_sqlite_wake_listen(int fd, bool to_acquires);

/* The writing end. */
struct sb_sqlite_wake_writer {
    const struct simba_backend_host *host;
    const char *wake_path;
    const char *path;
    int fd;       /* -1: none yet */
    dev_t device; /* of the file that was opened */
    ino_t inode;
    uint64_t names_note; /* with which the name was looked at last */
    bool complained;
    uint64_t random;
};

/* The strings are not copied. */
void sb_sqlite_wake_writer_init(struct sb_sqlite_wake_writer *writer,
                                const struct simba_backend_host *host, const char *wake_path,
                                const char *path);
void sb_sqlite_wake_writer_close(struct sb_sqlite_wake_writer *writer);

/* Tells the listeners that a mutex was released or changed its owner. The file's name is looked
 * at unless `names_note` is the one of the last call, and not 0: the caller knows then that no name
 * there has changed since. A file that cannot be written is logged once; the others come by their
 * own clocks then. */
void sb_sqlite_wake_write(struct sb_sqlite_wake_writer *writer, enum simba_notice notice,
                          const char *mutex, uint64_t names_note);

/* ---- The files that stand beside the database ------------------------------------------------ */

/* A user who may write in the folder could have put a link there, to have a file of ours
 * overwritten. So nothing is taken but a plain file with this one name. All that open return a
 * descriptor or -1 with errno. */

/* Opens the file, and creates it with the permissions of the database `path` where it is
 * missing. */
int sb_sqlite_side_open(const char *side_path, const char *path);

/* The same for a process that only reads it; it may be one that only others may write. */
int sb_sqlite_side_open_to_read(const char *side_path, const char *path);

/* Opens it to read where it is there; creates nothing. */
int sb_sqlite_side_find(const char *side_path);

/* Whether the file system of what was opened is known to be kept by this kernel alone: locks are in
 * its memory, and no name changes without it. Of others nothing is believed. */
bool sb_sqlite_side_is_local(int fd);

#endif
