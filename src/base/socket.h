/*
 * socket.h - what the end of a connection does with requests that were given up.
 */
#ifndef SB_BASE_SOCKET_H
#define SB_BASE_SOCKET_H

#include "base/shared.h"

/* Before the socket is closed: lets the kernel drop what it has not delivered yet. Otherwise it
 * goes on sending for minutes, and when the network is back the server carries out requests that
 * were given up long ago: an acquire whose contender has stopped, or competes elsewhere. A socket
 * that has delivered everything is closed as ever; what is no TCP socket, and -1, is left alone. */
void sb_socket_drop_unsent(int fd) SB_SHARED("socket_drop_unsent");

#endif
