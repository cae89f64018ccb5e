/*
 * fake.c - a thread that serves one connection after the other.
 */
#include "fake.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>

static int listen_on(int backlog, int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void serve(struct fake *fake, int fd)
{
    char bytes[4096];

    if (recv(fd, bytes, sizeof bytes, 0) > 0 && fake->text != NULL)
        send(fd, fake->text, strlen(fake->text), MSG_NOSIGNAL);
    while (fake->dribbles && send(fd, "x", 1, MSG_NOSIGNAL) == 1)
        test_pause_ms(1);
    while (fake->text != NULL && recv(fd, bytes, sizeof bytes, 0) > 0)
        continue;
    close(fd);
}

static void *run(void *argument)
{
    struct fake *fake = argument;
    int fd;

    while ((fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        atomic_fetch_add(&fake->connections, 1);
        serve(fake, fd);
    }
    return NULL;
}

static void start(struct fake *fake, const char *text, bool dribbles)
{
    memset(fake, 0, sizeof *fake);
    fake->text = text;
    fake->dribbles = dribbles;
    fake->listener = listen_on(16, &fake->port);
    assert_int_equal(pthread_create(&fake->thread, NULL, run, fake), 0);
}

void fake_start(struct fake *fake, const char *text)
{
    start(fake, text, false);
}

void fake_start_dribbling(struct fake *fake, const char *text)
{
    start(fake, text, true);
}

void fake_stop(struct fake *fake)
{
    shutdown(fake->listener, SHUT_RDWR); /* ends the accept */
    pthread_join(fake->thread, NULL);
    close(fake->listener);
}

/* The queue of a listener that accepts nobody is full at once, and the kernel drops what comes
 * then. */
void tarpit_open(struct tarpit *tarpit)
{
    struct sockaddr_in address = {.sin_family = AF_INET};

    tarpit->sockets[0] = listen_on(0, &tarpit->port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)tarpit->port);
    for (size_t i = 1; i < TEST_COUNT(tarpit->sockets); i++) {
        tarpit->sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(tarpit->sockets[i], (struct sockaddr *)&address, sizeof address);
    }
}

void tarpit_close(struct tarpit *tarpit)
{
    for (size_t i = 0; i < TEST_COUNT(tarpit->sockets); i++)
        close(tarpit->sockets[i]);
}
