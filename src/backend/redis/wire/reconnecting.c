/*
 * reconnecting.c - when to connect. Owns the back-off and the log lines of an outage; must not know
 * the commands on a connection, nor how a server is found.
 *
 *     CONNECTED --down--> PAUSED --> SEARCHING --> CONNECTED --stable--> the outage is over
 *         ^ warns         ^                            | down
 *                         +----------------------------+ logs it for debugging
 */
#include "backend/redis/wire/reconnecting.h"

#include "backend/redis/wire/endpoint.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/random.h"

#include <string.h>
#include <uv.h>

#define DELAY_MIN_MS 20
#define DELAY_MAX_MS 2000
#define STABLE_MS 1000 /* a connection that lasted so long was a good one */

enum state { IDLE, SEARCHING, CONNECTED, PAUSED, CLOSING };

struct sb_redis_reconnecting {
    struct sb_redis_reconnecting_config config;
    enum state state;
    struct sb_redis_connection *connection; /* CONNECTED: ready, or on its way to that */
    unsigned connections;                   /* with those that are being closed */
    uv_timer_t timer;
    bool has_timer; /* the timer is open */
    uint64_t random;
    unsigned failures; /* in a row */
    bool is_down;      /* it has told so, and not of the end */
    struct simba_error last_error;

    struct sb_wire_blocking lookup;
    bool is_looking_up;
    /* The look-up's, while it runs. */
    struct sb_wire_place place;       /* that is looked up */
    struct sb_wire_endpoint endpoint; /* where the server is */
    struct sb_redis_login *login;     /* for the next connection */
    int found;                        /* its code */
    struct simba_error search_error;
};

static void search(struct sb_redis_reconnecting *r);
static void become_stable(struct sb_redis_reconnecting *r);

bool sb_redis_reconnecting_is_ready(const struct sb_redis_reconnecting *r)
{
    return r->state == CONNECTED && sb_redis_connection_is_ready(r->connection);
}

bool sb_redis_reconnecting_is_starting(const struct sb_redis_reconnecting *r)
{
    return r->state == SEARCHING && r->failures == 0;
}

bool sb_redis_reconnecting_has_room(const struct sb_redis_reconnecting *r)
{
    return r->state == CONNECTED ? sb_redis_connection_has_room(r->connection)
                                 : !sb_redis_reconnecting_is_starting(r);
}

/* ---- Pauses ---------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct sb_redis_reconnecting *r = timer->data;

    if (r->state == PAUSED)
        search(r);
    else if (r->state == CONNECTED)
        become_stable(r);
}

/* The connection has proved to be a good one. */
static void become_stable(struct sb_redis_reconnecting *r)
{
    char place[SB_WIRE_PLACE_TEXT_MAX];

    r->failures = 0;
    if (!r->is_down)
        return;
    SB_CHECK(*r->config.outage > 0, "a connection that is down is counted");
    r->is_down = false;
    if (--*r->config.outage == 0)
        r->config.host->log(r->config.host, SIMBA_LOG_INFO, "redis: connected to %s again",
                            sb_wire_place_text(&r->endpoint.place, place));
}

static void on_room(void *user)
{
    struct sb_redis_reconnecting *r = user;

    if (r->config.events->room != NULL)
        r->config.events->room(r->config.user);
}

/* A lost server is logged once, however many connections it had. */
static void pause_after(struct sb_redis_reconnecting *r, const struct simba_error *error)
{
    bool first = !r->is_down && (*r->config.outage)++ == 0;
    int64_t delay_ms;

    SB_CHECK(r->state != CLOSING && r->connection == NULL, "a pause follows a connection");
    r->failures++;
    r->is_down = true;
    r->config.host->log(r->config.host, first ? SIMBA_LOG_WARN : SIMBA_LOG_DEBUG, "redis: %s",
                        error->text);
    r->last_error = *error;
    r->state = PAUSED;
    delay_ms = sb_random_backoff(&r->random, DELAY_MIN_MS, DELAY_MAX_MS, r->failures);
    uv_timer_start(&r->timer, on_timer, (uint64_t)delay_ms, 0);
    on_room(r);
}

/* ---- Connections ----------------------------------------------------------------------------- */

static void finish_close(struct sb_redis_reconnecting *r)
{
    void (*closed)(void *user) = r->config.events->closed;
    void *user = r->config.user;

    if (r->state != CLOSING || r->connections > 0 || r->has_timer || r->is_looking_up)
        return;
    sb_redis_login_free(r->login);
    sb_free(r);
    closed(user);
}

static void on_ready(void *user)
{
    struct sb_redis_reconnecting *r = user;

    if (r->failures > 0)
        uv_timer_start(&r->timer, on_timer, STABLE_MS, 0);
    if (r->config.events->ready != NULL)
        r->config.events->ready(r->config.user);
}

static void on_pushed(void *user, const struct redisReply *reply)
{
    struct sb_redis_reconnecting *r = user;

    r->config.events->pushed(r->config.user, reply);
}

static void on_down(void *user, const struct simba_error *error)
{
    struct sb_redis_reconnecting *r = user;

    SB_CHECK(r->state == CONNECTED && r->connection != NULL, "only what is connected goes down");
    sb_redis_connection_close(r->connection);
    r->connection = NULL;
    pause_after(r, error);
}

static void on_closed(void *user)
{
    struct sb_redis_reconnecting *r = user;

    SB_CHECK(r->connections > 0, "a connection is closed once");
    r->connections--;
    finish_close(r);
}

static const struct sb_redis_connection_events command_events = {on_ready, NULL, on_down, on_closed,
                                                                 on_room};
static const struct sb_redis_connection_events push_events = {on_ready, on_pushed, on_down,
                                                              on_closed, NULL};

static void connect_to(struct sb_redis_reconnecting *r, const struct sb_wire_endpoint *endpoint)
{
    const struct sb_redis_connection_config config = {
        .loop = r->config.host->loop,
        .options = r->config.options,
        .login = r->login,
        .database = r->config.database,
        .connect_timeout_ms = r->config.options->connect_timeout_ms,
        .master_only = r->config.master_only,
        .events = r->config.events->pushed != NULL ? &push_events : &command_events,
        .user = r,
    };
    struct simba_error error;

    SB_CHECK(r->connection == NULL, "there is one connection at a time");
    r->connection = sb_redis_connection_open(&config, endpoint);
    r->login = NULL; /* it was the connection's */
    if (r->connection == NULL) {
        sb_error_plain(&error, SIMBA_ENOMEM);
        pause_after(r, &error);
        return;
    }
    r->connections++;
    r->state = CONNECTED;
    on_room(r);
}

/* What a failed attempt has read is read again. */
static int read_login(struct sb_redis_reconnecting *r, struct simba_error *error)
{
    sb_redis_login_free(r->login);
    r->login = sb_redis_login_create(r->config.options, r->config.credentials, r->config.tls);
    return r->login != NULL ? SIMBA_OK : sb_error_plain(error, SIMBA_ENOMEM);
}

/* ---- The search ------------------------------------------------------------------------------ */

static void act_on_search(struct sb_redis_reconnecting *r, int code,
                          const struct simba_error *error)
{
    if (code == SIMBA_OK)
        connect_to(r, &r->endpoint);
    else
        pause_after(r, error);
}

static int find(struct sb_redis_reconnecting *r, struct simba_error *error)
{
    int code = sb_redis_endpoint_find(r->config.options, r->config.credentials, &r->place,
                                      &r->endpoint, error);

    return code == SIMBA_OK ? read_login(r, error) : code;
}

static void run_lookup(void *user)
{
    struct sb_redis_reconnecting *r = user;

    r->found = find(r, &r->search_error);
}

/* The server may be at another place by now. */
static void on_looked_up(void *user)
{
    struct sb_redis_reconnecting *r = user;
    struct sb_wire_place place = r->place;

    SB_CHECK(r->is_looking_up, "a look-up ends once");
    r->is_looking_up = false;
    if (r->state == SEARCHING) {
        r->found = r->found == SIMBA_OK ? r->config.where(r->config.user, &place, &r->search_error)
                                        : r->found;
        if (r->found == SIMBA_OK && !sb_wire_place_equals(&place, &r->place))
            search(r);
        else
            act_on_search(r, r->found, &r->search_error);
    }
    finish_close(r);
}

static void look_up(struct sb_redis_reconnecting *r)
{
    struct simba_error error;
    int code;

    if (!sb_redis_endpoint_find_blocks(r->config.options, r->config.credentials, &r->place) &&
        !sb_wire_login_has_files(&r->config.options->trust, &r->config.credentials->password)) {
        code = find(r, &error);
        act_on_search(r, code, &error);
        return;
    }
    code = sb_wire_blocking_start(&r->lookup);
    r->is_looking_up = code == 0;
    if (code != 0) {
        sb_error_set_backend(&error, SIMBA_ENOMEM, code, "cannot start a thread: %s",
                             strerror(code));
        pause_after(r, &error);
    }
}

static void search(struct sb_redis_reconnecting *r)
{
    struct simba_error error;
    int code;

    SB_CHECK(r->state != CONNECTED && r->state != CLOSING, "a server that is lost is looked for");
    r->state = SEARCHING;
    code = r->config.where(r->config.user, &r->place, &error);
    if (code == SIMBA_OK)
        look_up(r);
    else
        pause_after(r, &error);
}

void sb_redis_reconnecting_start(struct sb_redis_reconnecting *r,
                                 const struct sb_wire_endpoint *known)
{
    struct simba_error error;

    if (r->state != IDLE)
        return;
    uv_timer_init(r->config.host->loop, &r->timer);
    r->timer.data = r;
    r->has_timer = true;
    if (known == NULL) {
        search(r);
        return;
    }
    r->endpoint = *known;
    act_on_search(r, read_login(r, &error), &error);
}

/* ---- Use ------------------------------------------------------------------------------------- */

int sb_redis_reconnecting_send(struct sb_redis_reconnecting *r, struct sb_redis_command *command,
                               const struct sb_redis_argument *arguments, size_t count,
                               struct simba_error *error)
{
    int code = SIMBA_EUNAVAILABLE;

    sb_redis_reconnecting_start(r, NULL);
    if (r->state == CONNECTED) {
        code = sb_redis_connection_send(r->connection, command, arguments, count);
        return code == SIMBA_OK ? code : sb_error_plain(error, code);
    }
    *error = r->last_error;
    if (error->code == SIMBA_OK)
        sb_error_set(error, code, "the client is still looking for the server");
    return error->code;
}

int sb_redis_reconnecting_push(struct sb_redis_reconnecting *r,
                               const struct sb_redis_argument *arguments, size_t count)
{
    if (r->state != CONNECTED)
        return SIMBA_EUNAVAILABLE;
    return sb_redis_connection_push(r->connection, arguments, count);
}

void sb_redis_reconnecting_flush(struct sb_redis_reconnecting *r)
{
    if (r->state == CONNECTED)
        sb_redis_connection_flush(r->connection);
}

void sb_redis_reconnecting_drop(struct sb_redis_reconnecting *r, const struct simba_error *error)
{
    if (r->state == CONNECTED)
        sb_redis_connection_drop(r->connection, error);
}

void sb_redis_reconnecting_retry(struct sb_redis_reconnecting *r)
{
    if (r->state != PAUSED)
        return;
    uv_timer_stop(&r->timer);
    search(r);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

struct sb_redis_reconnecting *
sb_redis_reconnecting_create(const struct sb_redis_reconnecting_config *config)
{
    struct sb_redis_reconnecting *r = sb_alloc_zero(sizeof *r);

    if (r == NULL)
        return NULL;
    r->config = *config;
    r->random = sb_random_seed();
    r->lookup.host = config->host;
    r->lookup.run = run_lookup;
    r->lookup.finished = on_looked_up;
    r->lookup.user = r;
    return r;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct sb_redis_reconnecting *r = handle->data;

    r->has_timer = false;
    finish_close(r);
}

void sb_redis_reconnecting_close(struct sb_redis_reconnecting *r)
{
    SB_CHECK(r->state != CLOSING, "a reconnecting connection is closed once");
    SB_CHECK(!r->is_down || *r->config.outage > 0, "a connection that is down is counted");
    r->state = CLOSING;
    if (r->is_down)
        --*r->config.outage;
    if (r->connection != NULL)
        sb_redis_connection_close(r->connection);
    r->connection = NULL;
    if (r->has_timer)
        uv_close((uv_handle_t *)&r->timer, on_timer_closed);
    else
        finish_close(r);
}
