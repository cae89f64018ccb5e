/*
 * proxy.c - a thread that copies bytes between pairs of sockets.
 */
#include "proxy.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    return address;
}

static void drop_pair(struct proxy *proxy, size_t index)
{
    close(proxy->pairs[index].client);
    close(proxy->pairs[index].server);
    proxy->pairs[index] = proxy->pairs[--proxy->count];
}

/* One of the two has closed the connection. */
static void end_pair(struct proxy *proxy, size_t index)
{
    if (atomic_load(&proxy->swallow_at_end))
        atomic_store(&proxy->swallow, true);
    drop_pair(proxy, index);
}

static void accept_pair(struct proxy *proxy)
{
    struct sockaddr_in address = loopback(proxy->server_port);
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (client < 0 || server < 0 || proxy->count == PROXY_PAIRS_MAX ||
        connect(server, (struct sockaddr *)&address, sizeof address) != 0) {
        close(client);
        close(server);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    proxy->pairs[proxy->count].client = client;
    proxy->pairs[proxy->count++].server = server;
}

/* How much may be read at once. A server that is slow says little, and then nothing for a while. */
static size_t measure(struct proxy *proxy, bool from_server, size_t most)
{
    size_t piece = (size_t)atomic_load(&proxy->piece);

    if (!from_server || piece == 0)
        return most;
    test_pause_ms(atomic_load(&proxy->rest_ms));
    return piece < most ? piece : most;
}

/* Returns whether the pair lives on. */
static bool copy(struct proxy *proxy, int from, int to, bool from_server)
{
    char bytes[65536]; /* of this thread: a test may have several proxies */
    ssize_t count = recv(from, bytes, measure(proxy, from_server, sizeof bytes), 0);

    if (count <= 0)
        return false;
    if (proxy->watch != NULL)
        proxy->watch(from_server, bytes, (size_t)count);
    if (atomic_load(from_server ? &proxy->swallow : &proxy->mute)) {
        atomic_fetch_add(&proxy->swallowed, (unsigned long)count);
        return true;
    }
    if (!from_server)
        atomic_fetch_add(&proxy->writes, 1);
    return send(to, bytes, (size_t)count, MSG_NOSIGNAL) == count;
}

static void serve(struct proxy *proxy, const struct pollfd *ready, size_t pairs)
{
    for (size_t i = pairs; i-- > 0;) {
        const struct pollfd *client = &ready[1 + 2 * i];
        const struct pollfd *server = &ready[2 + 2 * i];

        if ((client->revents != 0 && !copy(proxy, client->fd, server->fd, false)) ||
            (server->revents != 0 && !copy(proxy, server->fd, client->fd, true)))
            end_pair(proxy, i);
    }
    if (ready[0].revents != 0)
        accept_pair(proxy);
}

static void *run(void *argument)
{
    struct proxy *proxy = argument;
    struct pollfd ready[1 + 2 * PROXY_PAIRS_MAX];

    while (!atomic_load(&proxy->stop)) {
        short server_events = atomic_load(&proxy->hold) ? 0 : POLLIN;
        size_t pairs = proxy->count;

        ready[0] = (struct pollfd){proxy->listener, POLLIN, 0};
        for (size_t i = 0; i < pairs; i++) {
            ready[1 + 2 * i] = (struct pollfd){proxy->pairs[i].client, POLLIN, 0};
            ready[2 + 2 * i] = (struct pollfd){proxy->pairs[i].server, server_events, 0};
        }
        if (poll(ready, (nfds_t)(1 + 2 * pairs), 5) > 0)
            serve(proxy, ready, pairs);
        if (atomic_exchange(&proxy->cut, false))
            while (proxy->count > 0)
                drop_pair(proxy, 0);
    }
    while (proxy->count > 0)
        drop_pair(proxy, 0);
    return NULL;
}

void proxy_start_watched(struct proxy *proxy, int server_port,
                         void (*watch)(bool from_server, const char *bytes, size_t count))
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;

    memset(proxy, 0, sizeof *proxy);
    proxy->server_port = server_port;
    proxy->watch = watch;
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(proxy->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(proxy->listener, 16), 0);
    assert_int_equal(getsockname(proxy->listener, (struct sockaddr *)&address, &size), 0);
    proxy->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&proxy->thread, NULL, run, proxy), 0);
}

void proxy_start(struct proxy *proxy, int server_port)
{
    proxy_start_watched(proxy, server_port, NULL);
}

void proxy_stop(struct proxy *proxy)
{
    atomic_store(&proxy->stop, true);
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
}
