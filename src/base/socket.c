/*
 * socket.c - see socket.h. Linux only.
 */
#include "base/socket.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

void sb_socket_drop_unsent(int fd)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    int unsent = 0;

    if (fd >= 0 && ioctl(fd, SIOCOUTQ, &unsent) == 0 && unsent > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}
