/*
 * port.c - free ports of the loopback for the servers of tests.
 *
 * To look for a free port and to close it again leaves a gap, in which another test may find the
 * same one. So each port is taken first by its name, a socket in the abstract namespace, which the
 * kernel frees when the last process that has it has ended. The names are those of servers.py.
 */
#include "lib/port.h"

#include "base/random.h"
#include "test.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Below the ports that the kernel gives to outgoing connections: one of those could take the place
 * of a server that is down for a moment. */
#define PORT_FIRST 15000
#define PORT_COUNT 17000
#define ATTEMPTS 1000

static bool take_name(int port)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int length;

    assert_true(fd >= 0);
    length =
        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "simba-test-port-%d", port);
    if (bind(fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0)
        return true;
    close(fd);
    return false;
}

static bool is_free(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound;

    assert_true(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bound = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return bound;
}

int test_free_port(void)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        int port = PORT_FIRST + (int)(sb_random_seed() % PORT_COUNT);

        if (take_name(port) && is_free(port))
            return port;
    }
    fail_msg("there is no free port");
    return 0;
}
