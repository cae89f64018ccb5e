/*
 * probe.c - whether nobody listens at the addresses of the servers. Owns the sockets that it tries;
 * must not know what ZooKeeper speaks.
 */
#include "backend/zookeeper/handle/probe.h"

#include "base/text.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MS 100
#define NAME_MAX_BYTES 256

static bool address_refuses(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd connecting = {.fd = fd, .events = POLLOUT};
    int failure = 0;
    socklen_t size = sizeof failure;

    if (fd < 0)
        return false;
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0)
        failure = errno;
    if (failure == EINPROGRESS && (poll(&connecting, 1, ANSWER_MS) <= 0 ||
                                   getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0))
        failure = 0;
    close(fd);
    return failure == ECONNREFUSED;
}

/* "host:port" or "[::1]:port". */
static bool host_refuses(char *host)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char *port = strrchr(host, ':');
    bool refuses = true;

    if (port == NULL)
        return false;
    *port++ = '\0';
    if (host[0] == '[') {
        host++;
        host[strcspn(host, "]")] = '\0';
    }
    if (getaddrinfo(host, port, &wanted, &found) != 0)
        return false;
    for (const struct addrinfo *at = found; at != NULL && refuses; at = at->ai_next)
        refuses = address_refuses(at);
    freeaddrinfo(found);
    return refuses;
}

bool sb_zk_probe_refuses(const char *hosts)
{
    bool refuses = true;

    while (refuses && *hosts != '\0') {
        size_t length = strcspn(hosts, ",");
        char host[NAME_MAX_BYTES + 1];
        struct sb_text text;

        sb_text_init(&text, host, sizeof host);
        sb_text_add(&text, "%.*s", (int)length, hosts);
        refuses = !text.cut && host_refuses(host);
        hosts += length + (hosts[length] == ',');
    }
    return refuses;
}
