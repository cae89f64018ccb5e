/*
 * connection.c - RESP on a stream. Owns the steps to a server that can be used and all time limits
 * of a connection; must not know mutexes, nor which server it is and why. pipeline.c matches
 * replies with commands.
 *
 * A dead connection is silent, a slow one is not. Silence is measured from the last byte that came,
 * or from when the server began to owe a reply, and ends the connection when it lasts too long. A
 * reply that has begun must be complete within the same time, however many bytes come meanwhile.
 */
#include "backend/redis/wire/connection.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/time.h"

#include <hiredis/hiredis.h>
#include <string.h>
#include <uv.h>

#define SUSPICIOUS_MS 100 /* silence after which a missed deadline ends the connection */

/* Commands under way at once: enough to keep a server busy that is far away, and few enough that a
 * slow one (thousands a second) answers the last of them in a fraction of a second. When half of
 * them are answered as many leave together. */
#define DEPTH_MAX 2048
#define DEPTH_LOW (DEPTH_MAX / 2)

enum state { CONNECTING, GREETING, READY, DOWN, CLOSING };

struct sb_redis_connection {
    struct sb_redis_connection_config config;
    struct sb_wire_place place;
    enum state state;
    struct sb_wire_stream *stream;
    struct sb_redis_reader *reader;
    uv_timer_t timer;
    int64_t timer_at_ms; /* what it is set to */
    unsigned handles;    /* the stream and the timer */

    struct sb_redis_greeting greeting;
    struct sb_redis_pipeline pipeline;
    int64_t connect_by_ms; /* until READY */
    int64_t heard_at_ms;   /* the last byte */
    bool is_behind;        /* time is up, but something has come that is to be read first */
    int64_t owed_since_ms; /* SB_REDIS_NEVER: nothing is owed */
    int64_t begun_ms;      /* a reply that is not complete; SB_REDIS_NEVER: there is none */
    struct sb_redis_command ping;
    bool pinging;
};

static bool is_pushed_to(const struct sb_redis_connection *c)
{
    return c->config.events->pushed != NULL;
}

/* A server that wants TLS has nothing else to say to plain bytes. */
static bool may_want_tls(const struct sb_redis_connection *c)
{
    return c->state == GREETING && c->config.login->files.tls == NULL && c->place.port != 0;
}

bool sb_redis_connection_is_ready(const struct sb_redis_connection *c)
{
    return c->state == READY;
}

bool sb_redis_connection_has_room(const struct sb_redis_connection *c)
{
    return sb_redis_pipeline_depth(&c->pipeline) < DEPTH_MAX;
}

/* ---- Going down ------------------------------------------------------------------------------ */

void sb_redis_connection_drop(struct sb_redis_connection *c, const struct simba_error *error)
{
    struct simba_error why = *error;

    if (c->state >= DOWN)
        return;
    if (c->state < READY)
        sb_wire_login_explain(&c->config.login->files, &why);
    c->state = DOWN;
    sb_wire_stream_close(c->stream);
    uv_timer_stop(&c->timer);
    sb_redis_pipeline_fail(&c->pipeline, &why);
    if (c->state == DOWN)
        c->config.events->down(c->config.user, &why);
}

static void drop_because(struct sb_redis_connection *c, const char *what)
{
    char place[SB_WIRE_PLACE_TEXT_MAX];
    struct simba_error error;

    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the server at %s %s",
                 sb_wire_place_text(&c->place, place), what);
    sb_redis_connection_drop(c, &error);
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void on_timer(uv_timer_t *timer);

static int64_t next_check_ms(const struct sb_redis_connection *c)
{
    const struct sb_redis_options *o = c->config.options;
    int64_t at_ms = c->pipeline.first_due_ms;

    if (c->state < READY)
        return sb_earlier(at_ms, c->connect_by_ms);
    if (c->begun_ms != SB_REDIS_NEVER)
        at_ms = sb_earlier(at_ms, c->begun_ms + o->command_timeout_ms);
    if (c->owed_since_ms != SB_REDIS_NEVER)
        return sb_earlier(at_ms, c->owed_since_ms + o->command_timeout_ms);
    return sb_earlier(at_ms, c->heard_at_ms + o->idle_timeout_ms);
}

/* Moves the timer forward only: when it fires too early it is set again. */
static void set_timer(struct sb_redis_connection *c)
{
    int64_t at_ms = next_check_ms(c);

    if (c->state >= DOWN || at_ms >= c->timer_at_ms)
        return;
    c->timer_at_ms = at_ms;
    uv_timer_start(&c->timer, on_timer, (uint64_t)sb_time_left(at_ms, simba_now_ms()), 0);
}

/* Returns whether a command is due and the server has been silent since it was sent. If replies to
 * earlier commands still come, the server is busy, not dead. */
static bool expire(struct sb_redis_connection *c, int64_t now_ms)
{
    char place[SB_WIRE_PLACE_TEXT_MAX];
    struct simba_error error;

    if (now_ms < c->pipeline.first_due_ms)
        return false;
    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the server at %s did not answer in time",
                 sb_wire_place_text(&c->place, place));
    return sb_redis_pipeline_expire(&c->pipeline, now_ms, c->heard_at_ms, &error);
}

static void on_ping_answered(struct sb_redis_command *command, const struct sb_redis_answer *answer)
{
    struct sb_redis_connection *c = SB_CONTAINER(struct sb_redis_connection, ping, command);

    (void)answer; /* the silence rule judges */
    c->pinging = false;
}

/* Nothing was heard for long: asks whether the server is still there. */
static void ping(struct sb_redis_connection *c, int64_t now_ms)
{
    const struct sb_redis_argument word = {"PING", 4};

    if (is_pushed_to(c)) {
        sb_redis_connection_push(c, &word, 1);
    } else if (!c->pinging) {
        c->ping.answered = on_ping_answered;
        c->ping.deadline_ms = now_ms + c->config.options->command_timeout_ms;
        c->pinging = sb_redis_connection_send(c, &c->ping, &word, 1) == SIMBA_OK;
    }
    sb_redis_connection_flush(c);
}

/* A missed deadline makes silence suspicious, unless the server is silent because it was told to
 * wait. */
static void check_silence(struct sb_redis_connection *c, bool missed, int64_t now_ms)
{
    const struct sb_redis_options *o = c->config.options;
    bool suspicious = missed && !sb_redis_pipeline_waits(&c->pipeline);
    int64_t most_ms = suspicious ? SUSPICIOUS_MS : o->command_timeout_ms;

    if (c->begun_ms != SB_REDIS_NEVER && now_ms - c->begun_ms >= o->command_timeout_ms) {
        drop_because(c, "takes too long to end a reply");
    } else if (c->owed_since_ms == SB_REDIS_NEVER) {
        if (now_ms - c->heard_at_ms >= o->idle_timeout_ms)
            ping(c, now_ms);
    } else if (now_ms - c->owed_since_ms >= most_ms) {
        drop_because(c, "does not answer any more");
    }
}

/* The error names the step at which the connection failed. */
static void give_up_connecting(struct sb_redis_connection *c)
{
    if (c->state == GREETING)
        drop_because(c, "did not answer the greeting within the connect-timeout");
    else if (sb_wire_stream_is_connected(c->stream))
        drop_because(c, "did not finish the TLS handshake within the connect-timeout; does it "
                        "speak TLS there?");
    else
        drop_because(c, "could not be connected to within the connect-timeout");
}

/* Reads the socket before it gives up the server, because the loop may be late, not the server. The
 * loop reads before it looks at its timers again, so once is enough. */
static void on_timer(uv_timer_t *timer)
{
    struct sb_redis_connection *c = timer->data;
    int64_t now_ms = simba_now_ms();
    bool missed;

    SB_CHECK(c->state < DOWN, "a connection that is down has no timer");
    c->is_behind = !c->is_behind && sb_wire_stream_has_unread(c->stream);
    if (c->is_behind) {
        uv_timer_start(&c->timer, on_timer, 1, 0);
        return;
    }
    c->timer_at_ms = SB_REDIS_NEVER;
    if (c->state < READY && now_ms >= c->connect_by_ms) {
        give_up_connecting(c);
        return;
    }
    missed = expire(c, now_ms);
    if (c->state == READY)
        check_silence(c, missed, now_ms);
    set_timer(c);
}

/* ---- Sending --------------------------------------------------------------------------------- */

int sb_redis_connection_send(struct sb_redis_connection *c, struct sb_redis_command *command,
                             const struct sb_redis_argument *arguments, size_t count)
{
    SB_CHECK(command->answered != NULL, "a command says what its answer leads to");
    if (c->state >= DOWN)
        return SIMBA_EUNAVAILABLE;
    return sb_redis_pipeline_add(&c->pipeline, command, arguments, count) ? SIMBA_OK : SIMBA_ENOMEM;
}

int sb_redis_connection_push(struct sb_redis_connection *c,
                             const struct sb_redis_argument *arguments, size_t count)
{
    SB_CHECK(is_pushed_to(c), "a reply that no command waits for has a receiver");
    if (c->state != READY)
        return SIMBA_EUNAVAILABLE;
    return sb_redis_buffer_add_command(&c->pipeline.out, arguments, count) ? SIMBA_OK
                                                                           : SIMBA_ENOMEM;
}

void sb_redis_connection_flush(struct sb_redis_connection *c)
{
    if (c->state == READY && c->pipeline.out.length > 0) {
        int64_t now_ms = simba_now_ms();

        sb_wire_stream_write(c->stream, &c->pipeline.out);
        sb_redis_pipeline_mark_sent(&c->pipeline, now_ms);
        if (c->owed_since_ms == SB_REDIS_NEVER)
            c->owed_since_ms = now_ms;
    }
    set_timer(c);
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static void become_ready(struct sb_redis_connection *c)
{
    SB_CHECK(c->state == GREETING, "a connection is ready after its greeting");
    sb_wire_stream_settle(c->stream);
    sb_redis_pipeline_forget_expired(&c->pipeline);
    c->state = READY;
    c->config.events->ready(c->config.user);
    if (c->state == READY)
        sb_redis_connection_flush(c);
}

static void take_greeting(struct sb_redis_connection *c, const redisReply *reply)
{
    struct simba_error error;
    bool done = false;
    int code = sb_redis_greeting_take(&c->greeting, &c->place, reply, &done, &error);

    if (code != SIMBA_OK)
        sb_redis_connection_drop(c, &error);
    else if (done)
        become_ready(c);
}

static void take_reply(struct sb_redis_connection *c, const redisReply *reply)
{
    struct sb_redis_answer answer = {.reply = reply, .place = &c->place};

    if (c->state == GREETING) {
        take_greeting(c, reply);
    } else if (is_pushed_to(c)) {
        c->config.events->pushed(c->config.user, reply);
    } else if (!sb_redis_pipeline_answer(&c->pipeline, &answer)) {
        drop_because(c, "sent a reply that the client did not ask for");
    }
}

static void take_replies(struct sb_redis_connection *c)
{
    bool took = false;

    while (c->state == GREETING || c->state == READY) {
        redisReply *reply = NULL;

        switch (sb_redis_reader_next(c->reader, &reply)) {
        case SB_REDIS_READER_REPLY:
            take_reply(c, reply);
            freeReplyObject(reply);
            took = true;
            break;
        case SB_REDIS_READER_MORE:
            if (sb_redis_reader_is_empty(c->reader))
                c->begun_ms = SB_REDIS_NEVER;
            else if (took || c->begun_ms == SB_REDIS_NEVER)
                c->begun_ms = c->heard_at_ms;
            return;
        case SB_REDIS_READER_NONSENSE:
            drop_because(c, may_want_tls(c)
                                ? "does not speak the protocol of Redis; where it wants TLS, use "
                                  "rediss://"
                                : "does not speak the protocol of Redis");
            return;
        case SB_REDIS_READER_TOO_LONG:
            drop_because(c, "sent a reply that is too long");
            return;
        }
    }
}

/* What is owed after a byte has come: the replies of commands, or nothing that can be counted. */
static void on_data(void *user, const char *bytes, size_t length)
{
    struct sb_redis_connection *c = user;
    bool owed;

    SB_CHECK(c->state == GREETING || c->state == READY, "bytes come from a server that is greeted");
    c->heard_at_ms = simba_now_ms();
    if (!sb_redis_reader_feed(c->reader, bytes, length)) {
        drop_because(c, "sent more than there is memory for");
        return;
    }
    take_replies(c);
    if (c->state >= DOWN)
        return;
    owed = c->state == READY && !is_pushed_to(c) && sb_redis_pipeline_is_owed(&c->pipeline);
    c->owed_since_ms = owed ? c->heard_at_ms : SB_REDIS_NEVER;
    if (c->config.events->room != NULL && sb_redis_pipeline_depth(&c->pipeline) <= DEPTH_LOW)
        c->config.events->room(c->config.user);
    sb_redis_connection_flush(c);
}

/* ---- The stream ------------------------------------------------------------------------------ */

/* A new reader: what an address that was given up has said is not the beginning of what the next
 * one says. */
static void on_up(void *user)
{
    struct sb_redis_connection *c = user;
    const struct sb_redis_greeting_config config = {
        .login = c->config.login,
        .client_name = c->config.options->client_name,
        .database = c->config.database,
        .master_only = c->config.master_only,
    };
    struct sb_wire_buffer hello = {0};

    SB_CHECK(c->state == CONNECTING, "an address is greeted once");
    sb_redis_reader_free(c->reader);
    c->reader = sb_redis_reader_create();
    c->begun_ms = SB_REDIS_NEVER;
    memset(&c->greeting, 0, sizeof c->greeting);
    c->state = GREETING;
    if (c->reader == NULL || !sb_redis_greeting_write(&c->greeting, &config, &hello))
        drop_because(c, "cannot be greeted: out of memory");
    else if (hello.length == 0)
        become_ready(c);
    else
        sb_wire_stream_write(c->stream, &hello);
    sb_wire_buffer_free(&hello);
}

static void on_again(void *user)
{
    struct sb_redis_connection *c = user;

    c->state = CONNECTING;
}

static void on_down(void *user, const struct simba_error *error)
{
    struct sb_redis_connection *c = user;

    if (may_want_tls(c))
        drop_because(c, "ended the connection at the greeting; where it wants TLS, use rediss://");
    else
        sb_redis_connection_drop(c, error);
}

static void release(void *part_of)
{
    struct sb_redis_connection *c = part_of;
    void (*closed)(void *user) = c->config.events->closed;
    void *user = c->config.user;

    SB_CHECK(c->handles > 0, "a handle of a connection is closed once");
    if (--c->handles > 0)
        return;
    sb_redis_reader_free(c->reader);
    sb_redis_pipeline_free(&c->pipeline);
    sb_redis_login_free(c->config.login);
    sb_free(c);
    closed(user);
}

static void on_timer_closed(uv_handle_t *handle)
{
    release(handle->data);
}

static const struct sb_wire_stream_events stream_events = {on_up, on_again, on_data, on_down,
                                                           release};

/* ---- Opening and closing --------------------------------------------------------------------- */

struct sb_redis_connection *
sb_redis_connection_open(const struct sb_redis_connection_config *config,
                         const struct sb_wire_endpoint *endpoint)
{
    struct sb_redis_connection *c = config->login != NULL ? sb_alloc_zero(sizeof *c) : NULL;
    struct sb_wire_stream_config stream = {
        .loop = config->loop,
        .endpoint = endpoint,
        .tls = config->login != NULL ? config->login->files.tls : NULL,
        .connect_timeout_ms = config->connect_timeout_ms,
        .keep_alive_ms = config->options->keep_alive_ms,
        .events = &stream_events,
        .user = c,
    };

    if (c == NULL) {
        sb_redis_login_free(config->login);
        return NULL;
    }
    c->config = *config;
    c->place = endpoint->place;
    c->state = CONNECTING;
    c->heard_at_ms = simba_now_ms();
    c->connect_by_ms = c->heard_at_ms + config->connect_timeout_ms;
    sb_redis_pipeline_init(&c->pipeline);
    c->owed_since_ms = SB_REDIS_NEVER;
    c->begun_ms = SB_REDIS_NEVER;
    c->timer_at_ms = SB_REDIS_NEVER;
    c->stream = sb_wire_stream_open(&stream);
    if (c->stream == NULL) {
        sb_redis_login_free(config->login);
        sb_free(c);
        return NULL;
    }
    uv_timer_init(config->loop, &c->timer);
    c->timer.data = c;
    c->handles = 2;
    set_timer(c);
    return c;
}

void sb_redis_connection_close(struct sb_redis_connection *c)
{
    struct simba_error error;
    enum state before = c->state;

    SB_CHECK(before != CLOSING, "a connection is closed once");
    c->state = CLOSING;
    if (before != DOWN)
        sb_wire_stream_close(c->stream);
    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the client is being closed");
    sb_redis_pipeline_fail(&c->pipeline, &error);
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}
