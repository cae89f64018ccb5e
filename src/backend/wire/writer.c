/*
 * writer.c - send with MSG_NOSIGNAL, and a poll where a socket is full. Owns what waits; must not
 * know what is written.
 *
 * libuv watches the socket for itself, so the poll has a descriptor of its own for it. It is made
 * when the socket is full for the first time, which few ever are.
 */
#include "backend/wire/stream.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How many bytes the socket has taken, perhaps none, or libuv's number of an error. */
static ssize_t send_some(int fd, const char *bytes, size_t length)
{
    ssize_t count;

    do {
        count = send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (count < 0 && errno == EINTR);
    if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        return uv_translate_sys_error(errno);
    return count < 0 ? 0 : count;
}

static void forget_rest(struct sb_wire_writer *o)
{
    sb_wire_buffer_free(&o->rest);
    o->done = 0;
}

static void on_room(uv_poll_t *poll, int status, int events)
{
    struct sb_wire_writer *o = poll->data;
    ssize_t count = send_some(o->fd, o->rest.data + o->done, o->rest.length - o->done);

    (void)events;
    if (count > 0)
        o->done += (size_t)count;
    if (count >= 0 && o->done < o->rest.length && status < 0)
        count = status; /* the poll has ended; a write will tell the reason better */
    if (count >= 0 && o->done < o->rest.length)
        return;
    uv_poll_stop(poll);
    forget_rest(o);
    if (count < 0)
        o->failed(o->user, (int)count);
}

static int open_poll(struct sb_wire_writer *o, int socket_fd)
{
    int code;

    o->fd = fcntl(socket_fd, F_DUPFD_CLOEXEC, 0);
    if (o->fd < 0)
        return uv_translate_sys_error(errno);
    code = uv_poll_init(o->loop, &o->poll, o->fd);
    if (code < 0) {
        close(o->fd);
        return code;
    }
    o->poll.data = o;
    o->is_open = true;
    return 0;
}

/* Takes the buffer over. */
static int write_later(struct sb_wire_writer *o, int socket_fd, struct sb_wire_buffer *bytes,
                       size_t done)
{
    int code = o->is_open ? 0 : open_poll(o, socket_fd);

    SB_CHECK(o->rest.length == 0, "what waits to be written is not overwritten");
    if (code < 0)
        return code;
    o->rest = *bytes;
    o->done = done;
    memset(bytes, 0, sizeof *bytes);
    return uv_poll_start(&o->poll, UV_WRITABLE, on_room);
}

/* On a busy socket the buffer may never become empty, so written bytes are dropped earlier: when
 * they are the larger part, so that fewer bytes are moved than were written. */
static int write_behind(struct sb_wire_writer *o, const struct sb_wire_buffer *bytes)
{
    SB_CHECK(o->is_open && o->done <= o->rest.length, "what waits is polled for");
    if (o->done > o->rest.length / 2) {
        o->rest.length -= o->done;
        memmove(o->rest.data, o->rest.data + o->done, o->rest.length);
        o->done = 0;
    }
    return sb_wire_buffer_add(&o->rest, bytes->data, bytes->length) ? 0 : UV_ENOMEM;
}

int sb_wire_writer_write(struct sb_wire_writer *o, const uv_handle_t *socket,
                         struct sb_wire_buffer *bytes)
{
    uv_os_fd_t fd;
    ssize_t count;
    int code;

    if (o->rest.length > 0)
        return write_behind(o, bytes);
    code = uv_fileno(socket, &fd);
    if (code < 0)
        return code;
    count = send_some(fd, bytes->data, bytes->length);
    if (count < 0)
        return (int)count;
    return (size_t)count < bytes->length ? write_later(o, fd, bytes, (size_t)count) : 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct sb_wire_writer *o = handle->data;

    o->closed(o->user);
}

bool sb_wire_writer_close(struct sb_wire_writer *o, void (*closed)(void *user))
{
    bool was_open = o->is_open;

    forget_rest(o);
    if (was_open) {
        o->closed = closed;
        o->is_open = false;
        uv_close((uv_handle_t *)&o->poll, on_closed);
        close(o->fd);
    }
    return was_open;
}
