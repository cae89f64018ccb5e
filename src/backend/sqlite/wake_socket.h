/*
 * wake_socket.h - the datagram socket by which one client is told that a contender of its own comes
 * next. Nobody else is woken.
 *
 * The socket is in the kernel's abstract namespace: it has no file, and it goes with its process.
 * The client writes its address into its rows of simba_waiter:
 *
 *     name (16 hex digits) - secret (16 hex digits) - life (16 hex digits, liveness.h)
 *
 * Every process of the host can see the name, but only users who may read the database know the
 * secret. The kernel drops what does not begin with it, without waking the client. A message is a
 * hint, like what stands in PATH-wake.
 *
 * Where a message cannot be sent, the sender writes into PATH-wake instead, which wakes all waiters
 * of the mutex: the receiver has another network namespace, its queue is full, or it may not have
 * sockets.
 */
#ifndef SB_SQLITE_WAKE_SOCKET_H
#define SB_SQLITE_WAKE_SOCKET_H

#include "backend/sql/driver.h"

#include <stdatomic.h>

/* The address of a client. */
struct sb_sqlite_address {
    uint64_t name; /* 0: it has no socket */
    uint64_t secret;
    int64_t life; /* 0: it has none */
};

void sb_sqlite_address_write(const struct sb_sqlite_address *address,
                             char ret_client[SB_SQL_CLIENT_MAX + 1]);

/* What is no address becomes one with zeros. */
struct sb_sqlite_address sb_sqlite_address_read(const char *client);

/* The receiving end. It belongs to the user of the connection, except for what is atomic. */
struct sb_sqlite_wake_socket {
    const struct simba_backend_host *host;
    atomic_int fd; /* -1: none */
    struct sb_sqlite_address address;
    bool tried;
    atomic_bool called; /* a contender of this client was told that it comes next */
};

void sb_sqlite_wake_socket_init(struct sb_sqlite_wake_socket *socket,
                                const struct simba_backend_host *host);

/* Creates it when it is asked for the first time. Where that fails, which is logged, the address
 * has no name. */
const struct sb_sqlite_address *sb_sqlite_wake_socket_open(struct sb_sqlite_wake_socket *socket);

/* Gives notice of all messages that have come. On the loop thread. */
void sb_sqlite_wake_socket_receive(struct sb_sqlite_wake_socket *socket);

void sb_sqlite_wake_socket_close(struct sb_sqlite_wake_socket *socket);

/* Sends a message from the socket `fd`, of sb_sqlite_wake_sender. False: it did not arrive. */
bool sb_sqlite_wake_socket_send(int fd, const struct sb_sqlite_address *to,
                                enum simba_notice notice, const char *mutex, const char *id);

/* A socket to send from, -1 with errno. */
int sb_sqlite_wake_socket_create_sender(void);

#endif
