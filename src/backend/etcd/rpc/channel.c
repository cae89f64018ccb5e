/*
 * channel.c - nghttp2 on a stream of bytes, and the frames of gRPC in it. Owns the calls that were
 * sent; must not know what is in their messages.
 *
 * Everything that a server sends is bounded: headers by nghttp2's own limit and ours, the status
 * text by its array, a message by SB_ETCD_MESSAGE_MAX. So are the answers of HTTP/2 itself to a
 * server that asks and does not read.
 */
#include "backend/etcd/rpc/channel.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW (1024 * 1024)
#define HEADERS_MAX (16 * 1024)

int64_t sb_etcd_channel_owes_since_ms(const struct sb_etcd_channel *c)
{
    int64_t since_ms = SIMBA_INFINITE;

    for (const struct sb_etcd_call *call = c->calls; call != NULL; call = call->next)
        if ((!call->streams || call->owed) && call->sent_ms < since_ms)
            since_ms = call->sent_ms;
    return since_ms;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void end_call(struct sb_etcd_channel *c, struct sb_etcd_call *call,
                     const struct simba_error *error, bool maybe)
{
    sb_etcd_call_unlink(call);
    if (call->stream != 0 && c->session != NULL)
        nghttp2_session_set_stream_user_data(c->session, call->stream, NULL);
    call->stream = 0;
    c->config.events->ended(c->config.user, call, error, maybe);
}

static void end_calls(struct sb_etcd_channel *c, const struct simba_error *error)
{
    while (c->calls != NULL)
        end_call(c, c->calls, error, true);
}

static void on_stream_down(void *user, const struct simba_error *error)
{
    struct sb_etcd_channel *c = user;

    if (c->state >= SB_ETCD_CHANNEL_BROKEN)
        return;
    c->state = SB_ETCD_CHANNEL_BROKEN;
    end_calls(c, error);
    if (c->state == SB_ETCD_CHANNEL_BROKEN)
        c->config.events->down(c->config.user, error);
}

void sb_etcd_channel_drop(struct sb_etcd_channel *c, const struct simba_error *error)
{
    on_stream_down(c, error);
}

/* ---- What nghttp2 tells ---------------------------------------------------------------------- */

static struct sb_etcd_call *call_of(nghttp2_session *session, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(session, stream);
}

/* The sentence with a status is percent-encoded. Without memory there is none. */
static void take_sentence(struct sb_etcd_call *call, const char *text, size_t length)
{
    char plain[SB_ETCD_STATUS_TEXT_MAX + 1];
    size_t count = 0;

    for (size_t i = 0; i < length && count < sizeof plain; i++) {
        char digits[3] = {0};

        if (text[i] == '%' && i + 2 < length) {
            memcpy(digits, text + i + 1, 2);
            plain[count++] = (char)strtol(digits, NULL, 16);
            i += 2;
        } else {
            plain[count++] = text[i];
        }
    }
    if (call->text == NULL)
        call->text = sb_alloc(sizeof plain);
    if (call->text != NULL)
        sb_text_printable(call->text, sizeof plain, plain, count);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *user)
{
    struct sb_etcd_call *call = call_of(session, frame->hd.stream_id);
    const char *key = (const char *)name;
    char number[8];

    (void)name_length;
    (void)flags;
    (void)user;
    if (call == NULL)
        return 0;
    snprintf(number, sizeof number, "%.*s", (int)(value_length < 7 ? value_length : 7),
             (const char *)value);
    if (strcmp(key, ":status") == 0)
        call->http_status = atoi(number);
    else if (strcmp(key, "grpc-status") == 0)
        call->status = atoi(number);
    else if (strcmp(key, "grpc-message") == 0)
        take_sentence(call, (const char *)value, value_length);
    return 0;
}

/* The length that the next frame announces, with the frame's own; 0: more bytes are needed. */
static size_t frame_length(const struct sb_etcd_call *call)
{
    const uint8_t *head = (const uint8_t *)call->in.data;

    if (call->in.length < SB_ETCD_FRAME_SIZE)
        return 0;
    return SB_ETCD_FRAME_SIZE +
           ((size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | (size_t)head[4]);
}

static void give_messages(struct sb_etcd_call *call)
{
    size_t length;
    char *message;

    while ((length = frame_length(call)) > 0 && length <= call->in.length && !call->nonsense) {
        message = call->in.data;
        call->message(call, message + SB_ETCD_FRAME_SIZE, length - SB_ETCD_FRAME_SIZE);
        call->in.length -= length;
        memmove(message, message + length, call->in.length);
    }
}

/* An answer is one message, which is looked at when the status has come. */
static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
                   size_t length, void *user)
{
    struct sb_etcd_call *call = call_of(session, stream);
    size_t announced;

    (void)flags;
    (void)user;
    if (call == NULL || call->nonsense)
        return 0;
    if (!sb_wire_buffer_fit(&call->in, length) || !sb_wire_buffer_add(&call->in, bytes, length))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    announced = frame_length(call);
    call->nonsense = announced > SB_ETCD_MESSAGE_MAX || (call->in.length > 0 && call->in.data[0]) ||
                     (!call->streams && announced > 0 && call->in.length > announced);
    if (call->nonsense)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    else if (call->streams)
        give_messages(call);
    return 0;
}

/* REFUSED_STREAM promises that nothing was done. */
static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    struct sb_etcd_channel *c = user;
    struct sb_etcd_call *call = call_of(session, stream);
    struct simba_error error;

    if (call == NULL)
        return 0;
    if (code != NGHTTP2_NO_ERROR && call->status < 0 && !call->nonsense) {
        sb_error_set(&error, SIMBA_EUNAVAILABLE, "the server at %s ended a call: %s", c->authority,
                     nghttp2_http2_strerror(code));
        end_call(c, call, &error, code != NGHTTP2_REFUSED_STREAM);
    } else {
        end_call(c, call, NULL, true);
    }
    return 0;
}

/* The first settings of the server show that it speaks HTTP/2. */
static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct sb_etcd_channel *c = user;

    (void)session;
    if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0 &&
        c->state == SB_ETCD_CHANNEL_CONNECTING) {
        c->state = SB_ETCD_CHANNEL_UP;
        sb_wire_stream_settle(c->stream);
        c->config.events->up(c->config.user);
    }
    return 0;
}

static ssize_t give_bytes(nghttp2_session *session, int32_t stream, uint8_t *target, size_t size,
                          uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct sb_etcd_call *call = source->ptr;
    size_t left = call->out.length - call->done;
    size_t count = left < size ? left : size;

    (void)user;
    if (call_of(session, stream) != call)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (count == 0 && call->streams)
        return NGHTTP2_ERR_DEFERRED;
    memcpy(target, call->out.data + call->done, count);
    call->done += count;
    if (!call->streams && call->done == call->out.length)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (call->streams && call->done == call->out.length)
        call->out.length = call->done = 0;
    return (ssize_t)count;
}

static void *allocate(size_t size, void *user)
{
    (void)user;
    return sb_alloc(size);
}

static void release(void *memory, void *user)
{
    (void)user;
    sb_free(memory);
}

static void *allocate_zero(size_t count, size_t size, void *user)
{
    (void)user;
    return size > 0 && count > SIZE_MAX / size ? NULL : sb_alloc_zero(count * size);
}

static void *reallocate(void *memory, size_t size, void *user)
{
    (void)user;
    return sb_realloc(memory, size);
}

static bool create_session(struct sb_etcd_channel *c)
{
    nghttp2_mem memory = {NULL, allocate, release, allocate_zero, reallocate};
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX},
    };
    nghttp2_session_callbacks *callbacks;
    int code;

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return false;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    code = nghttp2_session_client_new3(&c->session, callbacks, c, NULL, &memory);
    nghttp2_session_callbacks_del(callbacks);
    if (code != 0)
        return false;
    return nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof settings[0]) == 0 &&
           nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, WINDOW) == 0;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void fail(struct sb_etcd_channel *c, const char *what)
{
    struct simba_error error;

    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the server at %s %s", c->authority, what);
    on_stream_down(c, &error);
}

void sb_etcd_channel_flush(struct sb_etcd_channel *c)
{
    const uint8_t *bytes;
    ssize_t count = 0;

    if (c->receiving || c->session == NULL || c->state >= SB_ETCD_CHANNEL_BROKEN)
        return;
    while ((count = nghttp2_session_mem_send(c->session, &bytes)) > 0)
        if (!sb_wire_buffer_add(&c->out, bytes, (size_t)count))
            break;
    if (count != 0)
        fail(c, "cannot be written to");
    else if (c->out.length + sb_wire_stream_unsent(c->stream) > SB_ETCD_UNSENT_MAX)
        fail(c, "does not read what it is sent");
    else if (c->out.length > 0)
        sb_wire_stream_write(c->stream, &c->out);
}

static void on_bytes(void *user, const char *bytes, size_t length)
{
    struct sb_etcd_channel *c = user;
    ssize_t count;

    if (c->state >= SB_ETCD_CHANNEL_BROKEN)
        return;
    c->heard_ms = simba_now_ms();
    c->receiving = true;
    count = nghttp2_session_mem_recv(c->session, (const uint8_t *)bytes, length);
    c->receiving = false;
    if (c->state >= SB_ETCD_CHANNEL_BROKEN)
        return;
    if (count < 0 || (size_t)count != length)
        fail(c, c->state == SB_ETCD_CHANNEL_UP ? "broke the HTTP/2 protocol"
                                               : "does not speak HTTP/2");
    else if (!nghttp2_session_want_read(c->session))
        fail(c, "ended the connection");
    else
        sb_etcd_channel_flush(c);
}

static void on_up(void *user)
{
    struct sb_etcd_channel *c = user;

    if (c->session == NULL && !create_session(c))
        fail(c, "cannot be spoken to: out of memory");
    sb_etcd_channel_flush(c);
}

/* Another address of the host is tried, from the beginning. */
static void on_again(void *user)
{
    struct sb_etcd_channel *c = user;

    nghttp2_session_del(c->session);
    c->session = NULL;
}

static void on_closed(void *user)
{
    struct sb_etcd_channel *c = user;
    void (*closed)(void *user_of) = c->config.events->closed;
    void *user_of = c->config.user;

    nghttp2_session_del(c->session);
    sb_wire_buffer_free(&c->out);
    sb_free(c);
    closed(user_of);
}

static const struct sb_wire_stream_events stream_events = {on_up, on_again, on_bytes,
                                                           on_stream_down, on_closed};

/* ---- Calls ----------------------------------------------------------------------------------- */

#define HEADER(name, value)                                                                        \
    {                                                                                              \
        (uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE   \
    }

bool sb_etcd_channel_send(struct sb_etcd_channel *c, struct sb_etcd_call *call, const char *token)
{
    /* Without a leader a member refuses at once, and ends streams: another member may have one. */
    const nghttp2_nv headers[] = {
        HEADER(":method", "POST"),
        HEADER(":scheme", c->config.tls != NULL ? "https" : "http"),
        HEADER(":path", call->path),
        HEADER(":authority", c->authority),
        HEADER("te", "trailers"),
        HEADER("content-type", "application/grpc"),
        HEADER("user-agent", "simba"),
        HEADER("hasleader", "true"),
        HEADER("token", token != NULL ? token : ""),
    };
    const nghttp2_data_provider body = {.source = {.ptr = call}, .read_callback = give_bytes};
    size_t count = sizeof headers / sizeof headers[0] - (token == NULL);

    SB_CHECK(c->state == SB_ETCD_CHANNEL_UP, "calls are sent on a channel that is up");
    call->done = 0;
    call->in.length = 0;
    call->status = -1;
    call->http_status = 0;
    call->nonsense = false;
    sb_free(call->text);
    call->text = NULL;
    call->stream = nghttp2_submit_request(c->session, NULL, headers, count, &body, call);
    if (call->stream < 0) {
        call->stream = 0;
        return false;
    }
    call->sent_ms = simba_now_ms();
    sb_etcd_call_link(&c->calls, call);
    return true;
}

void sb_etcd_channel_resume(struct sb_etcd_channel *c, struct sb_etcd_call *call)
{
    SB_CHECK(call->streams, "only a stream goes on");
    nghttp2_session_resume_data(c->session, call->stream);
}

void sb_etcd_channel_cancel(struct sb_etcd_channel *c, struct sb_etcd_call *call)
{
    nghttp2_session_set_stream_user_data(c->session, call->stream, NULL);
    nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
    sb_etcd_call_unlink(call);
    call->stream = 0;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

struct sb_etcd_channel *sb_etcd_channel_open(const struct sb_etcd_channel_config *config)
{
    struct sb_etcd_channel *c = sb_alloc_zero(sizeof *c);
    const struct sb_wire_stream_config stream = {
        .loop = config->loop,
        .endpoint = config->endpoint,
        .tls = config->tls,
        .connect_timeout_ms = config->connect_timeout_ms,
        .events = &stream_events,
        .user = c,
    };

    if (c == NULL)
        return NULL;
    c->config = *config;
    sb_wire_place_text(&config->endpoint->place, c->authority);
    c->heard_ms = simba_now_ms();
    c->stream = sb_wire_stream_open(&stream);
    if (c->stream == NULL) {
        sb_free(c);
        return NULL;
    }
    return c;
}

bool sb_etcd_channel_leave(struct sb_etcd_channel *c)
{
    return c->state == SB_ETCD_CHANNEL_UP && c->calls == NULL && sb_wire_stream_leave(c->stream);
}

void sb_etcd_channel_join(struct sb_etcd_channel *c, struct uv_loop_s *loop)
{
    c->config.loop = loop;
    sb_wire_stream_join(c->stream, loop);
}

void sb_etcd_channel_close(struct sb_etcd_channel *c)
{
    struct simba_error error;

    SB_CHECK(c->state != SB_ETCD_CHANNEL_CLOSING, "a channel is closed once");
    c->state = SB_ETCD_CHANNEL_CLOSING;
    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the connection to %s was closed", c->authority);
    end_calls(c, &error);
    sb_wire_stream_close(c->stream);
}
