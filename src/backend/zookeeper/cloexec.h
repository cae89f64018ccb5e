/*
 * cloexec.h - makes the descriptors of the client library close-on-exec. The library as Debian builds it
 * opens its pipe and its sockets without, and does not tell their numbers.
 */
#ifndef SB_BACKEND_ZOOKEEPER_CLOEXEC_H
#define SB_BACKEND_ZOOKEEPER_CLOEXEC_H

#include "backend/zookeeper/library.h"

/* The pipes of the process that are not close-on-exec, before a handle is made. */
#define SB_ZK_PIPES_MAX 256
struct sb_zk_pipes {
    int fds[SB_ZK_PIPES_MAX];
    int count;
};

void sb_zk_pipes_note(struct sb_zk_pipes *pipes);

/* Marks the non-blocking pipes that have come since. */
void sb_zk_pipes_close_on_exec(const struct sb_zk_pipes *pipes);

/* Marks the connection of a handle: every socket to that very server that is not marked. */
void sb_zk_close_on_exec(zhandle_t *handle);

#endif
