/*
 * liveness.h - the side file PATH-life, by which the host's kernel tells whether an owner is dead.
 *
 * A client that acquires locks one byte of this file, at an offset that is its own: its life. The
 * lock belongs to the open file (F_OFD_SETLK) and goes when the last process that has it open has
 * ended or closed it, and no earlier: a process that is stopped, swapped out or in a debugger has
 * it. The life stands in each record that the client acquires or renews. A client that finds the
 * byte of such a record free knows that the owner is dead and need not wait for the end of the
 * lease.
 *
 *     byte:   life of A      life of B                A dies
 *     --------[locked]-------[locked]------           --------[free]---------[locked]------
 *     record: owner a, version 7, life of A           ACQUIRE by b wins, version 8, life of B
 *
 * Why a living owner is never taken for a dead one:
 *  1. The byte is locked before the life is written into any record, and stays locked until the
 *     client is closed. That happens after the last callback of its contenders has returned, and
 *     nobody believes to own through it any more.
 *  2. So a life whose byte was free once is over for good, and it does not matter that what is
 *     learned is old when it is used. A number that comes up again is one of a living client: that
 *     makes a dead owner look alive, and its lease ends by the clock.
 *  3. A lock says something only to a process that asks for the same file in the same kernel. The
 *     number of a life is made of a hash of boot id, device and inode number of its file. A living
 *     owner has the file open, so no other file can have its inode number: not one that was created
 *     after the owner's was deleted, nor a copy. Where the hash is another, nothing is known, and
 *     the lease ends by the clock. The same goes for file systems whose locks are kept elsewhere
 *     and can be lost, such as those of a network.
 *  4. The record tells for which version the life was written. Writers that know nothing of lives
 *     raise the version and leave a life that is another's: it says nothing of them.
 *
 * That an owner is dead says nothing of what else it had open: the kernel closes one descriptor
 * after the other, and a listening socket or a flock of the dead process may go an instant after
 * its life.
 *
 * What else has the file open only makes a dead owner look alive: a child that a program has forked
 * without exec, or one that inherits a descriptor on purpose, because the work goes on in it. Such
 * a descriptor is another open file, for reading only, with a lock of its own on the same byte. All
 * locks are shared ones, and the byte is free when nobody has locked it. A process with that
 * descriptor can give up its own lock, and never the client's. It can lock the bytes of others as
 * well: they look alive until it ends, and a client that begins meanwhile finds no byte and has no
 * life. Both only make waiters wait for the end of the lease.
 */
#ifndef SB_SQLITE_LIVENESS_H
#define SB_SQLITE_LIVENESS_H

#include <simba/backend.h>

#include <pthread.h>
#include <stdatomic.h>

/* Which file. The strings are not copied. */
struct sb_sqlite_liveness_file {
    const char *life_path;
    const char *path;    /* of the database, whose permissions it gets */
    const char *boot_id; /* of the host */
};

/* A client's own life. Its number belongs to the user of the connection. */
struct sb_sqlite_liveness {
    const struct simba_backend_host *host;
    struct sb_sqlite_liveness_file file;
    atomic_int fd;  /* -1: it has none */
    int64_t number; /* 0: it has none */
    bool tried;
};

void sb_sqlite_liveness_init(struct sb_sqlite_liveness *life, const struct simba_backend_host *host,
                             const struct sb_sqlite_liveness_file *file);

/* The number to be written into records; begins the life when it is asked for the first time. 0: it
 * cannot be had here, which is logged once. */
int64_t sb_sqlite_liveness_begin(struct sb_sqlite_liveness *life);

/* Creates a descriptor with a lock of its own, for a program that goes on with the client's work;
 * the caller closes it. -1: none, with errno; ENOTSUP where the client has no life. Any thread. */
int sb_sqlite_liveness_share(struct sb_sqlite_liveness *life);

void sb_sqlite_liveness_end(struct sb_sqlite_liveness *life);

/* Asks for the lives of others; one for each thread. */
struct sb_sqlite_liveness_probe {
    struct sb_sqlite_liveness_file file;
    int fd;        /* -1: none yet */
    int64_t stamp; /* what the numbers of lives in this file have in common */
};

void sb_sqlite_liveness_probe_init(struct sb_sqlite_liveness_probe *probe,
                                   const struct sb_sqlite_liveness_file *file);
void sb_sqlite_liveness_probe_close(struct sb_sqlite_liveness_probe *probe);

enum sb_sqlite_liveness_state {
    SB_SQLITE_ALIVE,
    SB_SQLITE_DEAD,            /* without any doubt */
    SB_SQLITE_LIVENESS_UNKNOWN /* none, or nothing can be said of it here */
};
enum sb_sqlite_liveness_state sb_sqlite_liveness_ask(struct sb_sqlite_liveness_probe *probe,
                                                     int64_t number);

/* The owners that the contenders and observers of a client have met: the client waits for the end
 * of their lives. They are added on any thread, and looked after on the loop thread. */

#define SB_SQLITE_OWNERS_MAX                                                                       \
    256 /* lives, the latest; other owners are succeeded when their leases end */

struct sb_sqlite_owners {
    struct sb_sqlite_liveness_probe probe; /* the loop thread's */
    pthread_mutex_t lock;                  /* guards what follows */
    size_t count;
    int64_t lives[SB_SQLITE_OWNERS_MAX];
};

void sb_sqlite_owners_init(struct sb_sqlite_owners *owners,
                           const struct sb_sqlite_liveness_file *file);
void sb_sqlite_owners_close(struct sb_sqlite_owners *owners);

/* Adds a life. Returns whether it was not there before. Any thread. */
bool sb_sqlite_owners_add(struct sb_sqlite_owners *owners, int64_t life);

/* Looks after all, and forgets those that are over or of which nothing is known. Returns whether
 * one is over. */
bool sb_sqlite_owners_check(struct sb_sqlite_owners *owners);

/* Whether there is any left. */
bool sb_sqlite_owners_any(struct sb_sqlite_owners *owners);

#endif
