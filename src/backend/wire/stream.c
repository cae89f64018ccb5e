/*
 * stream.c - a libuv stream and, where wanted, a TLS session on it. Must not know the protocol on
 * it.
 *
 *     next address --connect--> [handshake] --> up --data...--> settled --data...--> down
 *          ^           | failed  | hung up       | hung up, or its share of the time is over
 *          +-----------+---------+---------------+
 *
 * Failures inside a call are kept and reported from the loop, so that no caller is called back from
 * within its own call.
 */
#include "backend/wire/stream.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/socket.h"
#include "base/time.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#define READ_SIZE (64 * 1024)

enum state { CONNECTING, HANDSHAKE, UP, BROKEN, CLOSING };

struct sb_wire_stream {
    struct sb_wire_stream_config config;
    struct sb_wire_endpoint endpoint;
    size_t next_address;
    int64_t connect_by_ms;
    enum state state;
    bool is_settled; /* the other addresses are not needed any more */
    bool is_behind;  /* the attempt's time is up, but what has come is to be taken in first */
    bool has_socket; /* `socket` is a handle of the loop */
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } socket;
    int moving_fd;                /* between two loops: of the connection */
    struct sb_wire_writer writer; /* of the socket */
    uv_connect_t connect;
    uv_timer_t later; /* ends an attempt; tells of a failure inside a call */
    unsigned handles;
    struct sb_wire_tls_session *tls;
    struct sb_wire_buffer encrypted;
    struct simba_error error; /* why it is BROKEN */
    char *input;
};

static void connect_next(struct sb_wire_stream *s);
static bool give_way(struct sb_wire_stream *s, int number);

bool sb_wire_stream_is_connected(const struct sb_wire_stream *s)
{
    return s->state == HANDSHAKE || s->state == UP;
}

bool sb_wire_stream_has_unread(const struct sb_wire_stream *s)
{
    int count = 0;
    uv_os_fd_t fd;

    return sb_wire_stream_is_connected(s) && uv_fileno(&s->socket.handle, &fd) == 0 &&
           ioctl(fd, FIONREAD, &count) == 0 && count > 0;
}

static void end_session(struct sb_wire_stream *s)
{
    if (s->tls != NULL)
        s->tls->ops->end(s->tls);
    s->tls = NULL;
}

/* ---- Going down ------------------------------------------------------------------------------ */

static void tell_down(uv_timer_t *timer)
{
    struct sb_wire_stream *s = timer->data;

    if (s->state == BROKEN)
        s->config.events->down(s->config.user, &s->error);
}

/* Keeps the reason and tells it soon. */
static void break_down(struct sb_wire_stream *s, const struct simba_error *error)
{
    if (s->state >= BROKEN)
        return;
    s->state = BROKEN;
    s->error = *error;
    if (s->has_socket)
        uv_read_stop(&s->socket.stream);
    uv_timer_start(&s->later, tell_down, 0, 0);
}

/* `what` follows the name of the server, `number` is libuv's. A shortage is the host's fault, not
 * the server's. */
static void break_by(struct sb_wire_stream *s, const char *what, int number)
{
    bool short_of = number == UV_EMFILE || number == UV_ENFILE || number == UV_ENOMEM;
    char place[SB_WIRE_PLACE_TEXT_MAX];
    struct simba_error error;

    sb_error_set_backend(&error, short_of ? SIMBA_ENOMEM : SIMBA_EUNAVAILABLE, number,
                         "the server at %s %s: %s", sb_wire_place_text(&s->endpoint.place, place),
                         what, uv_strerror(number));
    break_down(s, &error);
}

static void break_because(struct sb_wire_stream *s, const struct simba_error *why)
{
    char place[SB_WIRE_PLACE_TEXT_MAX];
    struct simba_error error;

    sb_error_set_backend(&error, why->code, why->backend_code, "the server at %s %.180s",
                         sb_wire_place_text(&s->endpoint.place, place), why->text);
    break_down(s, &error);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* If the server has ended the connection, its last bytes are still read: they say more about the
 * reason. */
static void on_write_failed(void *user, int number)
{
    if (number != UV_EPIPE && number != UV_ECONNRESET)
        break_by(user, "cannot be written to", number);
}

static void write_plain(struct sb_wire_stream *s, struct sb_wire_buffer *bytes)
{
    int code;

    if (bytes->length == 0 || s->state >= BROKEN)
        return;
    code = sb_wire_writer_write(&s->writer, &s->socket.handle, bytes);
    if (code < 0)
        on_write_failed(s, code);
    bytes->length = 0;
}

static void write_encrypted(struct sb_wire_stream *s)
{
    if (!s->tls->ops->take(s->tls, &s->encrypted))
        break_by(s, "cannot be written to", UV_ENOMEM);
    write_plain(s, &s->encrypted);
}

void sb_wire_stream_write(struct sb_wire_stream *s, struct sb_wire_buffer *bytes)
{
    SB_CHECK(s->state == UP || s->state == BROKEN, "a stream is written to while it is up");
    if (s->tls == NULL || s->state >= BROKEN) {
        write_plain(s, bytes);
    } else if (s->tls->ops->write(s->tls, bytes->data, bytes->length)) {
        write_encrypted(s);
    } else {
        break_by(s, "cannot be written to", UV_EPROTO);
    }
    bytes->length = 0;
}

size_t sb_wire_stream_unsent(const struct sb_wire_stream *s)
{
    return s->writer.rest.length - s->writer.done;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void come_up(struct sb_wire_stream *s)
{
    SB_CHECK(s->state == CONNECTING || s->state == HANDSHAKE, "an address comes up once");
    s->state = UP;
    s->config.events->up(s->config.user);
}

static void read_decrypted(struct sb_wire_stream *s)
{
    char plain[16 * 1024]; /* the most that one record holds */
    struct simba_error error;
    int count = 0;

    while (s->state == UP && (count = s->tls->ops->read(s->tls, plain, sizeof plain, &error)) > 0)
        s->config.events->data(s->config.user, plain, (size_t)count);
    if (s->state == UP && count < 0)
        break_because(s, &error);
    if (s->state == UP)
        write_encrypted(s); /* an answer of the protocol's own */
}

static void go_on_with_handshake(struct sb_wire_stream *s)
{
    struct simba_error error;
    bool done = false;
    int code = s->tls->ops->handshake(s->tls, &done, &error);

    write_encrypted(s); /* also the alert that says why it failed */
    if (code != SIMBA_OK)
        break_because(s, &error);
    else if (done && s->state == HANDSHAKE)
        come_up(s);
}

static void take_encrypted(struct sb_wire_stream *s, const char *bytes, size_t length)
{
    if (!s->tls->ops->feed(s->tls, bytes, length)) {
        break_by(s, "cannot be read from", UV_ENOMEM);
        return;
    }
    if (s->state == HANDSHAKE)
        go_on_with_handshake(s);
    if (s->state == UP)
        read_decrypted(s);
}

static void give_input(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct sb_wire_stream *s = handle->data;

    (void)suggested;
    *buffer = uv_buf_init(s->input, READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct sb_wire_stream *s = stream->data;

    if (count < 0 && give_way(s, (int)count))
        return;
    if (count < 0 && s->state == HANDSHAKE)
        break_by(s, "ended the TLS handshake", (int)count);
    else if (count < 0)
        break_by(s, "ended the connection", (int)count);
    else if (count > 0 && s->tls != NULL)
        take_encrypted(s, buffer->base, (size_t)count);
    else if (count > 0)
        s->config.events->data(s->config.user, buffer->base, (size_t)count);
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static void release(void *part_of)
{
    struct sb_wire_stream *s = part_of;
    void (*closed)(void *user) = s->config.events->closed;
    void *user = s->config.user;

    SB_CHECK(s->handles > 0, "a handle of a stream is closed once");
    if (--s->handles > 0)
        return;
    end_session(s);
    sb_wire_buffer_free(&s->encrypted);
    sb_free(s->input);
    sb_free(s);
    closed(user);
}

static void on_closed(uv_handle_t *handle)
{
    release(handle->data);
}

/* The stream may have been closed while its socket was. */
static void on_socket_closed(uv_handle_t *handle)
{
    struct sb_wire_stream *s = handle->data;

    if (s->state == CLOSING) {
        on_closed(handle);
        return;
    }
    s->has_socket = false;
    s->handles--;
    connect_next(s);
}

static void begin(struct sb_wire_stream *s)
{
    int code = uv_read_start(&s->socket.stream, give_input, on_read);

    if (code < 0) {
        break_by(s, "cannot be read from", code);
        return;
    }
    if (s->config.tls == NULL) {
        come_up(s);
        return;
    }
    s->tls = s->config.tls->ops->begin(s->config.tls, s->endpoint.place.host);
    if (s->tls == NULL) {
        break_by(s, "cannot be spoken to", UV_ENOMEM);
        return;
    }
    s->state = HANDSHAKE;
    go_on_with_handshake(s);
}

static bool is_last_address(const struct sb_wire_stream *s)
{
    return s->next_address >= s->endpoint.address_count;
}

static void close_socket(struct sb_wire_stream *s, uv_close_cb closed)
{
    uv_os_fd_t fd;

    if (uv_fileno(&s->socket.handle, &fd) == 0)
        sb_socket_drop_unsent(fd);
    if (sb_wire_writer_close(&s->writer, release))
        s->handles++; /* never the last of a stream that is not closed */
    uv_close(&s->socket.handle, closed);
}

/* An address that does not answer gives way to the next one, on a socket of its own. */
static void give_up_address(struct sb_wire_stream *s, int number)
{
    uv_timer_stop(&s->later);
    if (is_last_address(s))
        break_by(s, "cannot be reached", number);
    else if (s->has_socket)
        close_socket(s, on_socket_closed);
    else
        connect_next(s);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct sb_wire_stream *s = connect->data;

    if (s->state != CONNECTING || status == UV_ECANCELED)
        return;
    if (status == 0)
        begin(s);
    else
        give_up_address(s, status);
}

/* If the server says nothing or hangs up, the next address is tried, as long as there is one and no
 * server has given a valid answer. Returns whether it is. */
static bool give_way(struct sb_wire_stream *s, int number)
{
    if (s->state >= BROKEN || s->is_settled || is_last_address(s))
        return false;
    if (s->state == UP)
        s->config.events->again(s->config.user);
    s->state = CONNECTING;
    end_session(s);
    s->encrypted.length = 0;
    give_up_address(s, number);
    return true;
}

/* The loop may be late: bytes that have come are taken in before the address is given up. */
static void on_attempt_over(uv_timer_t *timer)
{
    struct sb_wire_stream *s = timer->data;

    s->is_behind = !s->is_behind;
    if (s->is_behind)
        uv_timer_start(timer, on_attempt_over, 1, 0);
    else
        give_way(s, UV_ETIMEDOUT);
}

void sb_wire_stream_settle(struct sb_wire_stream *s)
{
    s->is_settled = true;
    if (s->state == UP)
        uv_timer_stop(&s->later);
}

static int connect_to(struct sb_wire_stream *s, const struct sockaddr_storage *address)
{
    bool is_path = address->ss_family == AF_UNIX;
    int code = is_path ? uv_pipe_init(s->config.loop, &s->socket.pipe, 0)
                       : uv_tcp_init(s->config.loop, &s->socket.tcp);

    if (code < 0)
        return code;
    s->has_socket = true;
    s->handles++;
    s->socket.handle.data = s;
    s->connect.data = s;
    if (is_path) {
        uv_pipe_connect(&s->connect, &s->socket.pipe, s->endpoint.place.host, on_connected);
        return 0;
    }
    code =
        uv_tcp_connect(&s->connect, &s->socket.tcp, (const struct sockaddr *)address, on_connected);
    if (code < 0)
        return code;
    uv_tcp_nodelay(&s->socket.tcp, 1);
    if (s->config.keep_alive_ms > 0)
        uv_tcp_keepalive(&s->socket.tcp, 1, (unsigned)((s->config.keep_alive_ms + 999) / 1000));
    return 0;
}

/* Addresses share the time out. The last one has all that is left, and its limit is the owner's. */
static void connect_next(struct sb_wire_stream *s)
{
    size_t left = s->endpoint.address_count - s->next_address;
    int64_t left_ms = sb_time_left(s->connect_by_ms, simba_now_ms());
    int code;

    if (s->state != CONNECTING)
        return;
    SB_CHECK(left > 0 && !s->has_socket, "the next address has a socket of its own");
    code = connect_to(s, &s->endpoint.addresses[s->next_address++]);
    if (code != 0) {
        give_up_address(s, code);
        return;
    }
    s->is_behind = false;
    if (left > 1)
        uv_timer_start(&s->later, on_attempt_over, (uint64_t)(left_ms / (int64_t)left), 0);
}

/* ---- From one loop to another ---------------------------------------------------------------- */

static void on_left(uv_handle_t *handle)
{
    (void)handle; /* it becomes a handle of the other loop */
}

/* The descriptor is kept under another number: that of the handle ends with it. */
bool sb_wire_stream_leave(struct sb_wire_stream *s)
{
    uv_os_fd_t fd;

    if (s->state != UP || !s->is_settled || s->writer.is_open || s->socket.handle.type != UV_TCP ||
        uv_fileno(&s->socket.handle, &fd) != 0)
        return false;
    s->moving_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (s->moving_fd < 0)
        return false;
    uv_close(&s->socket.handle, on_left);
    uv_close((uv_handle_t *)&s->later, on_left);
    return true;
}

void sb_wire_stream_join(struct sb_wire_stream *s, struct uv_loop_s *loop)
{
    int code;

    s->config.loop = loop;
    s->writer.loop = loop;
    uv_timer_init(loop, &s->later);
    uv_tcp_init(loop, &s->socket.tcp);
    code = uv_tcp_open(&s->socket.tcp, s->moving_fd);
    if (code < 0)
        close(s->moving_fd);
    else
        code = uv_read_start(&s->socket.stream, give_input, on_read);
    if (code < 0)
        break_by(s, "cannot be read from", code);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

struct sb_wire_stream *sb_wire_stream_open(const struct sb_wire_stream_config *config)
{
    struct sb_wire_stream *s = sb_alloc_zero(sizeof *s);

    if (s == NULL)
        return NULL;
    s->input = sb_alloc(READ_SIZE);
    if (s->input == NULL) {
        sb_free(s);
        return NULL;
    }
    s->config = *config;
    s->endpoint = *config->endpoint;
    s->config.endpoint = &s->endpoint;
    s->writer.loop = config->loop;
    s->writer.failed = on_write_failed;
    s->writer.user = s;
    uv_timer_init(config->loop, &s->later);
    s->later.data = s;
    s->handles = 1;
    s->connect_by_ms = simba_now_ms() + config->connect_timeout_ms;
    connect_next(s);
    return s;
}

void sb_wire_stream_close(struct sb_wire_stream *s)
{
    SB_CHECK(s->state != CLOSING, "a stream is closed once");
    s->state = CLOSING;
    uv_close((uv_handle_t *)&s->later, on_closed);
    if (s->has_socket && !uv_is_closing(&s->socket.handle))
        close_socket(s, on_closed);
}
