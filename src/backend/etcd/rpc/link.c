/*
 * link.c - when to connect, and to which member. Owns the back-off, the token, the deadlines of
 * calls and the log lines of an outage; must not know what calls are about.
 *
 *     LOOKING_UP --> CONNECTING --> LOGGING_IN --> UP
 *         ^              | failed       | failed    | down
 *         |<-- the next member ---------+-----------+
 *         |
 *     PAUSED <-- all members have failed
 *
 * A member is given up when it owes an answer and nothing has come for the command-timeout. One
 * that is cut off from its cluster answers some calls and others not: so with several members also
 * one that owes an answer for three times as long.
 */
#include "backend/etcd/rpc/link.h"

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "base/time.h"

#include <string.h>
#include <uv.h>

#define DELAY_MIN_MS 20
#define DELAY_MAX_MS 1000
#define PATIENCE 3 /* times the command-timeout */
#define TURN_MS 1  /* a timer that is due at once would run again before anything is read */

static void connect_next(struct sb_etcd_link *l);
static void take_waiting(struct sb_etcd_link *l);

bool sb_etcd_link_is_up(const struct sb_etcd_link *l)
{
    return l->state == SB_ETCD_UP;
}

const char *sb_etcd_link_place(const struct sb_etcd_link *l, char buffer[SB_WIRE_PLACE_TEXT_MAX])
{
    return sb_wire_place_text(&l->options->places[l->place], buffer);
}

/* ---- The timer ------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

static int64_t first_deadline(const struct sb_etcd_call *call, int64_t at_ms)
{
    for (; call != NULL; call = call->next)
        at_ms = sb_earlier(at_ms, call->deadline_ms);
    return at_ms;
}

/* When the member must have been heard of: what it owes, it owes since its last word. */
static int64_t silent_at(const struct sb_etcd_link *l)
{
    int64_t since_ms = sb_etcd_channel_owes_since_ms(l->channel);
    int64_t at_ms = sb_later(sb_max(since_ms, l->channel->heard_ms), l->options->silence_ms);

    if (since_ms == SIMBA_INFINITE)
        return SIMBA_INFINITE;
    if (l->options->place_count > 1)
        at_ms = sb_earlier(at_ms, sb_later(since_ms, PATIENCE * l->options->silence_ms));
    return at_ms;
}

static void schedule(struct sb_etcd_link *l)
{
    int64_t at_ms = l->due_ms;
    int64_t left_ms;

    if (!l->has_timer || l->state == SB_ETCD_CLOSING)
        return;
    at_ms = first_deadline(l->waiting, at_ms);
    if (l->channel != NULL) {
        at_ms = first_deadline(l->channel->calls, at_ms);
        at_ms = sb_earlier(at_ms, silent_at(l));
    }
    uv_timer_stop(&l->timer);
    if (at_ms == SIMBA_INFINITE)
        return;
    left_ms = sb_max(sb_time_left(at_ms, simba_now_ms()), TURN_MS);
    uv_update_time(l->loop);
    uv_timer_start(&l->timer, on_timer, (uint64_t)left_ms, 0);
}

/* A new call is rarely the first that is due, and looking at all others would cost more the more
 * there are. */
static void schedule_for(struct sb_etcd_link *l, int64_t deadline_ms)
{
    int64_t at_ms = sb_earlier(deadline_ms, sb_later(simba_now_ms(), l->options->silence_ms));
    int64_t left_ms = sb_time_left(at_ms, simba_now_ms());

    if (l->has_timer && (!uv_is_active((uv_handle_t *)&l->timer) ||
                         (int64_t)uv_timer_get_due_in(&l->timer) > left_ms)) {
        uv_update_time(l->loop);
        uv_timer_start(&l->timer, on_timer, (uint64_t)left_ms, 0);
    }
}

/* ---- Failures -------------------------------------------------------------------------------- */

static void end_waiting(struct sb_etcd_link *l, const struct simba_error *error)
{
    while (l->waiting != NULL) {
        struct sb_etcd_call *call = l->waiting;

        sb_etcd_call_unlink(call);
        call->ended(call, error, false);
    }
}

static void log_line(const struct sb_etcd_link *l, enum simba_log_level level, const char *before,
                     const char *text)
{
    if (l->host != NULL)
        l->host->log(l->host, level, "etcd: %s%s", before, text);
}

static void pause_after(struct sb_etcd_link *l)
{
    l->failures++;
    l->tried = 0;
    l->state = SB_ETCD_PAUSED;
    l->due_ms = sb_later(simba_now_ms(),
                         sb_random_backoff(&l->random, DELAY_MIN_MS, DELAY_MAX_MS, l->failures));
    schedule(l);
    if (!l->was_up)
        end_waiting(l, &l->last_error);
}

static void close_channel(struct sb_etcd_link *l)
{
    struct sb_etcd_channel *channel = l->channel;

    l->channel = NULL;
    if (channel != NULL)
        sb_etcd_channel_close(channel);
}

/* The member is of no use now. Behind the last one there is a pause; a refused login is refused by
 * all. */
static void give_up_member(struct sb_etcd_link *l, const struct simba_error *error)
{
    if (l->state == SB_ETCD_CLOSING)
        return;
    l->was_up = l->state == SB_ETCD_UP;
    l->last_error = *error;
    sb_wire_login_explain(&l->login, &l->last_error);
    log_line(l, l->is_down ? SIMBA_LOG_DEBUG : SIMBA_LOG_WARN, "", l->last_error.text);
    l->is_down = true;
    l->place = (l->place + 1) % l->options->place_count;
    l->due_ms = SIMBA_INFINITE;
    l->state = SB_ETCD_LOOKING_UP; /* calls that end now, and come again, wait */
    close_channel(l);
    if (l->state == SB_ETCD_CLOSING)
        return; /* the last call that has ended was waited for */
    if (++l->tried >= l->options->place_count || error->code == SIMBA_EDENIED)
        pause_after(l);
    else if (!l->has_channel)
        connect_next(l);
}

static void on_down(void *user, const struct simba_error *error)
{
    give_up_member(user, error);
}

/* ---- Logging in ------------------------------------------------------------------------------ */

static void come_up(struct sb_etcd_link *l)
{
    char place[SB_WIRE_PLACE_TEXT_MAX];

    l->state = SB_ETCD_UP;
    l->due_ms = SIMBA_INFINITE;
    if (l->is_down)
        log_line(l, SIMBA_LOG_INFO, "connected to ", sb_etcd_link_place(l, place));
    l->is_down = false;
    l->up(l->user);
    take_waiting(l);
    schedule(l);
}

static void on_authenticated(struct sb_etcd_call *call, const struct simba_error *error, bool maybe)
{
    struct sb_etcd_link *l = call->user;
    Etcd__AuthenticateAnswer *answer = NULL;
    struct simba_error failure = *error;

    (void)maybe;
    if (error->code == SIMBA_OK)
        answer = sb_etcd_call_unpack(call, &etcd__authenticate_answer__descriptor);
    if (answer != NULL && strlen(answer->token) <= SB_ETCD_TOKEN_MAX)
        strcpy(l->token, answer->token);
    else if (error->code == SIMBA_OK)
        sb_error_set(&failure, SIMBA_ESTORE, "etcd answers a login with no token");
    sb_etcd_free_message(answer);
    explicit_bzero(call->out.data, call->out.length);
    sb_etcd_call_clear(call);
    if (l->state == SB_ETCD_CLOSING || l->channel == NULL)
        return; /* it was lost with the channel, which is being given up */
    if (failure.code != SIMBA_OK)
        give_up_member(l, &failure);
    else if (l->state == SB_ETCD_LOGGING_IN)
        come_up(l);
    else
        take_waiting(l);
}

/* The first time, or because the token is not good any more. */
static void authenticate(struct sb_etcd_link *l)
{
    Etcd__Authenticate message = ETCD__AUTHENTICATE__INIT;
    struct sb_etcd_call *call = &l->authenticate;
    struct simba_error error;

    if (l->authenticate.back != NULL)
        return;
    message.name = l->options->user;
    message.password = (char *)l->login.password;
    call->path = "/etcdserverpb.Auth/Authenticate";
    call->ended = on_authenticated;
    call->user = l;
    call->deadline_ms = sb_later(simba_now_ms(), l->options->connect_timeout_ms);
    if (sb_etcd_call_add(call, &message.base) && sb_etcd_channel_send(l->channel, call, NULL)) {
        sb_etcd_channel_flush(l->channel);
        schedule_for(l, call->deadline_ms);
        return;
    }
    sb_error_plain(&error, SIMBA_ENOMEM);
    on_authenticated(call, &error, false);
}

static void on_channel_up(void *user)
{
    struct sb_etcd_link *l = user;

    if (l->state != SB_ETCD_CONNECTING)
        return;
    l->state = SB_ETCD_LOGGING_IN;
    if (l->options->user != NULL && l->token[0] == '\0')
        authenticate(l);
    else
        come_up(l);
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static void finish_close(struct sb_etcd_link *l)
{
    if (l->state != SB_ETCD_CLOSING || l->has_channel || l->has_timer || l->looking_up)
        return;
    explicit_bzero(l->token, sizeof l->token);
    sb_wire_login_clear(&l->login);
    l->closed(l->user);
}

static void on_channel_closed(void *user)
{
    struct sb_etcd_link *l = user;

    l->has_channel = false;
    if (l->state == SB_ETCD_LOOKING_UP && !l->looking_up)
        connect_next(l);
    finish_close(l);
}

static void on_call_ended(void *user, struct sb_etcd_call *call, const struct simba_error *error,
                          bool maybe)
{
    struct sb_etcd_link *l = user;
    enum sb_etcd_refusal refusal = SB_ETCD_REFUSAL_NONE;
    char place[SB_WIRE_PLACE_TEXT_MAX];
    struct simba_error failure = {.code = SIMBA_OK};

    if (error != NULL)
        failure = *error;
    else if (call->status != 0 || call->nonsense || (!call->streams && call->in.length == 0))
        refusal = sb_etcd_fail(call, sb_etcd_link_place(l, place), &failure, &maybe);
    else if (call->streams)
        sb_error_set(&failure, SIMBA_EUNAVAILABLE, "the server at %s ended a stream",
                     sb_etcd_link_place(l, place));
    if (refusal == SB_ETCD_REFUSAL_LOGIN && call != &l->authenticate && l->options->user != NULL) {
        l->token[0] = '\0';
        if (!call->streams && !call->retried && l->state == SB_ETCD_UP) {
            call->retried = true;
            sb_etcd_call_link(&l->waiting, call);
            authenticate(l);
            return;
        }
        if (l->state == SB_ETCD_UP)
            authenticate(l);
        failure.code = call->streams ? SIMBA_EUNAVAILABLE : failure.code;
    }
    l->leaves_member |= refusal == SB_ETCD_REFUSAL_MEMBER && l->options->place_count > 1;
    if (l->leaves_member)
        uv_timer_start(&l->timer, on_timer, 0, 0);
    call->ended(call, &failure, maybe && failure.code != SIMBA_OK);
}

static const struct sb_etcd_channel_events channel_events = {on_channel_up, on_call_ended, on_down,
                                                             on_channel_closed};

static void open_channel(struct sb_etcd_link *l)
{
    const struct sb_etcd_channel_config config = {
        .loop = l->loop,
        .endpoint = &l->endpoint,
        .tls = l->login.tls,
        .connect_timeout_ms = l->options->connect_timeout_ms,
        .events = &channel_events,
        .user = l,
    };
    struct simba_error error;

    l->state = SB_ETCD_CONNECTING;
    l->due_ms = sb_later(simba_now_ms(), l->options->connect_timeout_ms);
    l->channel = sb_etcd_channel_open(&config);
    l->has_channel = l->channel != NULL;
    if (l->channel == NULL) {
        sb_error_plain(&error, SIMBA_ENOMEM);
        give_up_member(l, &error);
    }
    schedule(l);
}

static void read_login(void *user)
{
    struct sb_etcd_link *l = user;
    struct simba_error *error = &l->lookup_error;

    sb_wire_login_clear(&l->login);
    error->code = SIMBA_OK;
    if (sb_wire_endpoint_resolve(&l->options->places[l->place], &l->endpoint, error) == SIMBA_OK &&
        sb_wire_login_read(&l->login, &l->options->trust, l->tls, &l->options->password) !=
            SIMBA_OK)
        sb_error_plain(error, SIMBA_ENOMEM);
}

static void on_login_read(void *user)
{
    struct sb_etcd_link *l = user;

    l->looking_up = false;
    if (l->state == SB_ETCD_LOOKING_UP && l->lookup_error.code == SIMBA_OK)
        open_channel(l);
    else if (l->state == SB_ETCD_LOOKING_UP)
        give_up_member(l, &l->lookup_error);
    finish_close(l);
}

static void connect_next(struct sb_etcd_link *l)
{
    struct simba_error error;
    int code = 0;

    SB_CHECK(l->channel == NULL && !l->has_channel, "there is one connection at a time");
    l->state = SB_ETCD_LOOKING_UP;
    l->due_ms = SIMBA_INFINITE;
    if (l->host == NULL || (!sb_wire_place_must_be_looked_up(&l->options->places[l->place]) &&
                            !sb_wire_login_has_files(&l->options->trust, &l->options->password))) {
        read_login(l);
        on_login_read(l);
        return;
    }
    l->looking_up = true;
    code = sb_wire_blocking_start(&l->lookup);
    if (code != 0) {
        l->looking_up = false;
        sb_error_set_backend(&error, SIMBA_ENOMEM, code, "cannot start a thread: %s",
                             strerror(code));
        give_up_member(l, &error);
    }
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

static void expire_calls(struct sb_etcd_link *l, struct sb_etcd_call *call, bool sent)
{
    int64_t now_ms = simba_now_ms();
    char place[SB_WIRE_PLACE_TEXT_MAX];
    struct simba_error error;

    while (call != NULL) {
        struct sb_etcd_call *next = call->next;

        if (call->deadline_ms > now_ms) {
            call = next;
            continue;
        }
        if (sent)
            sb_etcd_channel_cancel(l->channel, call);
        else
            sb_etcd_call_unlink(call);
        if (l->last_error.code != SIMBA_OK && !sent)
            error = l->last_error;
        else
            sb_error_set(&error, SIMBA_EUNAVAILABLE, "the server at %s has not answered in time",
                         sb_etcd_link_place(l, place));
        call->ended(call, &error, sent);
        if (l->state == SB_ETCD_CLOSING || (sent && l->channel == NULL))
            return;
        call = sent ? l->channel->calls : l->waiting; /* others may have ended */
    }
}

static void give_up_silent(struct sb_etcd_link *l)
{
    char place[SB_WIRE_PLACE_TEXT_MAX];
    struct simba_error error;

    if (l->channel->state == SB_ETCD_CHANNEL_UP && sb_wire_stream_has_unread(l->channel->stream))
        return; /* this process was late, not the server */
    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the server at %s does not answer",
                 sb_etcd_link_place(l, place));
    sb_etcd_channel_drop(l->channel, &error);
}

static void leave_member(struct sb_etcd_link *l)
{
    char place[SB_WIRE_PLACE_TEXT_MAX];
    struct simba_error error;

    l->leaves_member = false;
    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the server at %s cannot serve now, another may",
                 sb_etcd_link_place(l, place));
    if (l->channel != NULL)
        sb_etcd_channel_drop(l->channel, &error);
}

static void on_timer(uv_timer_t *timer)
{
    struct sb_etcd_link *l = timer->data;
    int64_t now_ms = simba_now_ms();
    char place[SB_WIRE_PLACE_TEXT_MAX];
    struct simba_error error;

    expire_calls(l, l->waiting, false);
    if (l->channel != NULL)
        expire_calls(l, l->channel->calls, true);
    if (l->leaves_member)
        leave_member(l);
    if (l->state == SB_ETCD_PAUSED && l->due_ms <= now_ms && !l->has_channel) {
        connect_next(l);
    } else if (l->state == SB_ETCD_PAUSED && l->due_ms <= now_ms) {
        l->due_ms = now_ms + DELAY_MIN_MS; /* the old channel is still being closed */
    } else if ((l->state == SB_ETCD_CONNECTING || l->state == SB_ETCD_LOGGING_IN) &&
               l->due_ms <= now_ms) {
        sb_error_set(&error, SIMBA_EUNAVAILABLE, "the server at %s cannot be reached in %lld ms",
                     sb_etcd_link_place(l, place), (long long)l->options->connect_timeout_ms);
        give_up_member(l, &error);
    } else if (l->channel != NULL && silent_at(l) <= now_ms) {
        give_up_silent(l);
    }
    schedule(l);
}

/* ---- Use ------------------------------------------------------------------------------------- */

static void put_on_channel(struct sb_etcd_link *l, struct sb_etcd_call *call)
{
    struct simba_error error;

    if (sb_etcd_channel_send(l->channel, call, l->token[0] != '\0' ? l->token : NULL)) {
        schedule_for(l, call->deadline_ms);
        return;
    }
    sb_error_plain(&error, SIMBA_ENOMEM);
    call->ended(call, &error, false);
}

/* In the order in which they came. */
static void take_waiting(struct sb_etcd_link *l)
{
    struct sb_etcd_call *oldest = NULL;

    if (l->authenticate.back != NULL)
        return;
    while (l->waiting != NULL) {
        struct sb_etcd_call *call = l->waiting;

        sb_etcd_call_unlink(call);
        sb_etcd_call_link(&oldest, call);
    }
    while (oldest != NULL && l->state == SB_ETCD_UP) {
        struct sb_etcd_call *call = oldest;

        sb_etcd_call_unlink(call);
        put_on_channel(l, call);
    }
    SB_CHECK(oldest == NULL, "a link stays up while it takes what waits");
    if (l->channel != NULL)
        sb_etcd_channel_flush(l->channel);
}

void sb_etcd_link_send(struct sb_etcd_link *l, struct sb_etcd_call *call)
{
    if ((l->state == SB_ETCD_PAUSED && !l->was_up) || l->state == SB_ETCD_CLOSING) {
        call->ended(call, &l->last_error, false);
        return;
    }
    if (l->state != SB_ETCD_UP || l->authenticate.back != NULL ||
        l->channel->state != SB_ETCD_CHANNEL_UP) {
        sb_etcd_call_link(&l->waiting, call);
        schedule_for(l, call->deadline_ms);
        return;
    }
    put_on_channel(l, call);
    if (!l->batching)
        sb_etcd_channel_flush(l->channel);
}

void sb_etcd_link_call(struct sb_etcd_link *l, struct sb_etcd_call *call, const char *path,
                       const ProtobufCMessage *message, int64_t deadline_ms,
                       void (*ended)(struct sb_etcd_call *call, const struct simba_error *error,
                                     bool maybe),
                       void *user)
{
    struct simba_error error;

    call->path = path;
    call->deadline_ms = deadline_ms;
    call->ended = ended;
    call->user = user;
    if (sb_etcd_call_add(call, message)) {
        sb_etcd_link_send(l, call);
        return;
    }
    sb_error_plain(&error, SIMBA_ENOMEM);
    ended(call, &error, false);
}

void sb_etcd_link_cancel(struct sb_etcd_link *l, struct sb_etcd_call *call)
{
    if (call->stream != 0 && l->channel != NULL) {
        sb_etcd_channel_cancel(l->channel, call);
        sb_etcd_channel_flush(l->channel);
    } else if (call->back != NULL) {
        sb_etcd_call_unlink(call);
    }
}

void sb_etcd_link_log_in_again(struct sb_etcd_link *l)
{
    if (l->options->user == NULL || l->state != SB_ETCD_UP)
        return;
    l->token[0] = '\0';
    log_line(l, SIMBA_LOG_DEBUG, "", "logs in again, because a watch was refused");
    authenticate(l);
}

void sb_etcd_link_resume(struct sb_etcd_link *l, struct sb_etcd_call *call)
{
    if (call->stream == 0 || l->channel == NULL)
        return; /* it waits, and takes all with it; or it is about to end */
    if (call->owed) {
        call->sent_ms = simba_now_ms();
        schedule_for(l, call->deadline_ms);
    }
    sb_etcd_channel_resume(l->channel, call);
    if (!l->batching)
        sb_etcd_channel_flush(l->channel);
}

void sb_etcd_link_begin_batch(struct sb_etcd_link *l)
{
    l->batching = true;
}

void sb_etcd_link_end_batch(struct sb_etcd_link *l)
{
    l->batching = false;
    if (l->channel != NULL)
        sb_etcd_channel_flush(l->channel);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

void sb_etcd_link_start(struct sb_etcd_link *l)
{
    l->random = sb_random_seed();
    l->lookup.host = l->host;
    l->lookup.run = read_login;
    l->lookup.finished = on_login_read;
    l->lookup.user = l;
    uv_timer_init(l->loop, &l->timer);
    l->timer.data = l;
    l->has_timer = true;
    if (l->state == SB_ETCD_UP)
        sb_etcd_channel_join(l->channel, l->loop);
    else
        connect_next(l);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct sb_etcd_link *l = handle->data;

    l->has_timer = false;
    finish_close(l);
}

void sb_etcd_link_leave(struct sb_etcd_link *l)
{
    SB_CHECK(l->waiting == NULL && !l->looking_up, "a link that leaves its loop has nothing to do");
    if (l->state != SB_ETCD_UP || !sb_etcd_channel_leave(l->channel)) {
        l->state = SB_ETCD_IDLE;
        close_channel(l);
    }
    uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}

void sb_etcd_link_close(struct sb_etcd_link *l)
{
    SB_CHECK(l->state != SB_ETCD_CLOSING, "a link is closed once");
    l->state = SB_ETCD_CLOSING;
    sb_error_set(&l->last_error, SIMBA_EUNAVAILABLE, "the client is being closed");
    end_waiting(l, &l->last_error);
    close_channel(l);
    uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}
