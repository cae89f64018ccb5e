/*
 * socket_test.c - what a connection that is closed has not delivered does not arrive later.
 */
#include "base/socket.h"
#include "test.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection whose other end reads nothing: `ends` are that of the client and of the server. */
static void connect_both(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int small = 4096;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(ends[0], (struct sockaddr *)&address, length), 0);
    ends[1] = accept(listener, NULL, NULL);
    assert_true(ends[1] >= 0);
    close(listener);
}

static void send_more_than_is_taken(int fd)
{
    static const char bytes[65536];

    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
    assert_int_equal(errno, EAGAIN);
}

/* Whether the other end reads up to the end of what was sent; otherwise the connection is reset. */
static bool arrives_whole(int fd)
{
    char bytes[65536];
    ssize_t count;

    while ((count = recv(fd, bytes, sizeof bytes, 0)) > 0)
        continue;
    if (count < 0)
        assert_int_equal(errno, ECONNRESET);
    close(fd);
    return count == 0;
}

static void what_was_not_delivered_is_dropped(void **state)
{
    int ends[2];

    connect_both(ends);
    send_more_than_is_taken(ends[0]);
    sb_socket_drop_unsent(ends[0]);
    close(ends[0]);
    assert_false(arrives_whole(ends[1]));
}

/* The twin: the kernel would deliver it. */
static void what_was_not_delivered_arrives_later_without_that(void **state)
{
    int ends[2];

    connect_both(ends);
    send_more_than_is_taken(ends[0]);
    close(ends[0]);
    assert_true(arrives_whole(ends[1]));
}

static void what_was_delivered_stays(void **state)
{
    int ends[2];
    char byte = 'x';

    connect_both(ends);
    assert_int_equal(send(ends[0], &byte, 1, 0), 1);
    assert_int_equal(recv(ends[1], &byte, 1, MSG_PEEK), 1);
    sb_socket_drop_unsent(ends[0]);
    close(ends[0]);
    assert_true(arrives_whole(ends[1]));
}

static void what_is_no_socket_is_left_alone(void **state)
{
    sb_socket_drop_unsent(-1);
    sb_socket_drop_unsent(STDERR_FILENO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_delivered_is_dropped),
        cmocka_unit_test(what_was_not_delivered_arrives_later_without_that),
        cmocka_unit_test(what_was_delivered_stays),
        cmocka_unit_test(what_is_no_socket_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
