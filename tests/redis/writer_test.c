/*
 * writer_test.c - what a writer keeps while its socket has no room: no more than what waits, in
 * order, and not beyond an error.
 *
 * On one end of a pair of sockets; the test reads the other end.
 */
#include "backend/wire/stream.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE 16384
#define WAITING 64  /* pieces that wait all the time */
#define ROUNDS 5000 /* a piece each */

static uv_loop_t loop;
static uv_pipe_t near_end;
static int far_end;
static struct sb_wire_writer writer;
static int failure;      /* what the writer was told of */
static int refusal;      /* why the system refuses to send; 0: it does not */
static uint32_t written; /* words */
static uint32_t heard;

ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags)
{
    if (refusal == 0)
        return __real_send(fd, bytes, length, flags);
    errno = refusal;
    return -1;
}

static void on_failed(void *user, int number)
{
    (void)user;
    failure = number;
}

static int begin(void **state)
{
    int ends[2];

    failure = refusal = 0;
    written = heard = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    far_end = ends[1];
    assert_int_equal(fcntl(far_end, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(uv_pipe_init(&loop, &near_end, 0), 0);
    assert_int_equal(uv_pipe_open(&near_end, ends[0]), 0);
    writer = (struct sb_wire_writer){.loop = &loop, .failed = on_failed};
    return 0;
}

static void on_closed(void *user)
{
    (void)user;
}

static int end(void **state)
{
    sb_wire_writer_close(&writer, on_closed);
    uv_close((uv_handle_t *)&near_end, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    close(far_end);
    return uv_loop_close(&loop);
}

/* Words that count on. */
static int write_piece(void)
{
    struct sb_wire_buffer piece = {0};
    int code;

    for (size_t i = 0; i < PIECE / sizeof written; i++, written++)
        assert_true(sb_wire_buffer_add(&piece, &written, sizeof written));
    code = sb_wire_writer_write(&writer, (uv_handle_t *)&near_end, &piece);
    sb_wire_buffer_free(&piece);
    return code;
}

/* Reads one piece, and lets the writer see the room. */
static void hear_piece(void)
{
    uint32_t words[PIECE / sizeof written];
    size_t length = 0;

    while (length < sizeof words) {
        ssize_t count = read(far_end, (char *)words + length, sizeof words - length);

        assert_true(count > 0 || (count < 0 && errno == EAGAIN));
        length += count > 0 ? (size_t)count : 0;
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++, heard++)
        assert_int_equal(words[i], heard);
}

/* Empties the socket, so that there is room. */
static void hear_all(void)
{
    char bytes[PIECE];

    while (read(far_end, bytes, sizeof bytes) > 0)
        continue;
    assert_int_equal(errno, EAGAIN);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void a_socket_that_is_never_quite_empty_keeps_only_what_waits(void **state)
{
    for (int i = 0; i < WAITING; i++)
        assert_int_equal(write_piece(), 0);
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(write_piece(), 0);
        hear_piece();
        assert_true(writer.rest.length > 0);
        assert_true(writer.rest.capacity <= (size_t)8 * WAITING * PIECE);
    }
    while (heard < written)
        hear_piece();
    assert_int_equal(writer.rest.length, 0);
    assert_int_equal(failure, 0);
}

static void a_system_without_memory_for_it_is_told_at_once(void **state)
{
    refusal = ENOBUFS;
    assert_int_equal(write_piece(), UV_ENOBUFS);
    assert_int_equal(writer.rest.length, 0);
}

static void a_system_that_has_no_memory_for_the_rest_is_told(void **state)
{
    for (int i = 0; i < WAITING; i++)
        assert_int_equal(write_piece(), 0);
    refusal = ENOBUFS;
    hear_all();
    assert_int_equal(failure, UV_ENOBUFS);
    assert_int_equal(writer.rest.length, 0);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(a_socket_that_is_never_quite_empty_keeps_only_what_waits),
        CASE(a_system_without_memory_for_it_is_told_at_once),
        CASE(a_system_that_has_no_memory_for_the_rest_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
