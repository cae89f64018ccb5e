/*
 * reconnecting.c - when to connect. Owns the back-off and what is said of an outage; must not know
 * what is said on a connection, nor how a server is found.
 *
 *     CONNECTED --down--> PAUSED --> SEARCHING --> CONNECTED --stable--> the outage is over
 *         ^ warns         ^                            | down
 *                         +----------------------------+ logs it for debugging
 */
#include "backend/redis/wire/reconnecting.h"

#include "backend/redis/wire/endpoint.h"
#include "backend/redis/wire/blocking.h"
#include "base/alloc.h"
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

    struct sb_redis_blocking lookup;
    bool is_looking_up;
    /* The look-up's, while it runs. */
    struct sb_redis_place place;       /* that is looked up */
    struct sb_redis_endpoint endpoint; /* where the server is */
    struct sb_redis_login *login;      /* for the next connection */
    int found;                         /* its code */
    struct simba_error search_error;
};

static void search(struct sb_redis_reconnecting *l);
static void come_back(struct sb_redis_reconnecting *l);

bool sb_redis_reconnecting_is_ready(const struct sb_redis_reconnecting *l)
{
    return l->state == CONNECTED && sb_redis_connection_is_ready(l->connection);
}

bool sb_redis_reconnecting_is_starting(const struct sb_redis_reconnecting *l)
{
    return l->state == SEARCHING && l->failures == 0;
}

bool sb_redis_reconnecting_has_room(const struct sb_redis_reconnecting *l)
{
    return l->state == CONNECTED ? sb_redis_connection_has_room(l->connection)
                                 : !sb_redis_reconnecting_is_starting(l);
}

/* ---- Pauses --------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct sb_redis_reconnecting *l = timer->data;

    if (l->state == PAUSED)
        search(l);
    else if (l->state == CONNECTED)
        come_back(l);
}

static int64_t delay_ms(struct sb_redis_reconnecting *l)
{
    int64_t delay = DELAY_MIN_MS;

    for (unsigned i = 1; i < l->failures && delay < DELAY_MAX_MS; i++)
        delay *= 2;
    if (delay > DELAY_MAX_MS)
        delay = DELAY_MAX_MS;
    return delay / 2 + sb_random_between(sb_random_next(&l->random), 0, delay / 2 + 1);
}

/* One server that is gone is one event, however many connections it had. */
static void tell_down(struct sb_redis_reconnecting *l, const struct simba_error *error)
{
    bool first = !l->is_down && (*l->config.outage)++ == 0;

    l->is_down = true;
    l->config.host->log(l->config.host, first ? SIMBA_LOG_WARN : SIMBA_LOG_DEBUG, "redis: %s",
                        error->text);
}

static void tell_up(struct sb_redis_reconnecting *l)
{
    char place[SB_REDIS_PLACE_TEXT_MAX];

    l->is_down = false;
    if (--*l->config.outage == 0)
        l->config.host->log(l->config.host, SIMBA_LOG_INFO, "redis: connected to %s again",
                            sb_redis_place_text(&l->endpoint.place, place));
}

/* The connection has proved to be a good one. */
static void come_back(struct sb_redis_reconnecting *l)
{
    l->failures = 0;
    if (l->is_down)
        tell_up(l);
}

static void on_room(void *user)
{
    struct sb_redis_reconnecting *l = user;

    if (l->config.events->room != NULL)
        l->config.events->room(l->config.user);
}

static void pause_after(struct sb_redis_reconnecting *l, const struct simba_error *error)
{
    l->failures++;
    tell_down(l, error);
    l->last_error = *error;
    l->state = PAUSED;
    uv_timer_start(&l->timer, on_timer, (uint64_t)delay_ms(l), 0);
    on_room(l);
}

/* ---- Connections ---------------------------------------------------------------------------- */

static void finish_close(struct sb_redis_reconnecting *l)
{
    void (*closed)(void *user) = l->config.events->closed;
    void *user = l->config.user;

    if (l->state != CLOSING || l->connections > 0 || l->has_timer || l->is_looking_up)
        return;
    sb_redis_login_free(l->login);
    sb_free(l);
    closed(user);
}

static void on_ready(void *user)
{
    struct sb_redis_reconnecting *l = user;

    if (l->failures > 0)
        uv_timer_start(&l->timer, on_timer, STABLE_MS, 0);
    if (l->config.events->ready != NULL)
        l->config.events->ready(l->config.user);
}

static void on_pushed(void *user, const struct redisReply *reply)
{
    struct sb_redis_reconnecting *l = user;

    l->config.events->pushed(l->config.user, reply);
}

static void on_down(void *user, const struct simba_error *error)
{
    struct sb_redis_reconnecting *l = user;

    sb_redis_connection_close(l->connection);
    l->connection = NULL;
    pause_after(l, error);
}

static void on_closed(void *user)
{
    struct sb_redis_reconnecting *l = user;

    l->connections--;
    finish_close(l);
}

static const struct sb_redis_connection_events command_events = {on_ready, NULL, on_down, on_closed,
                                                                 on_room};
static const struct sb_redis_connection_events push_events = {on_ready, on_pushed, on_down,
                                                              on_closed, NULL};

static void connect_to(struct sb_redis_reconnecting *l, const struct sb_redis_endpoint *endpoint)
{
    const struct sb_redis_connection_config config = {
        .loop = l->config.host->loop,
        .options = l->config.options,
        .login = l->login,
        .database = l->config.database,
        .connect_timeout_ms = l->config.options->connect_timeout_ms,
        .master_only = l->config.master_only,
        .events = l->config.events->pushed != NULL ? &push_events : &command_events,
        .user = l,
    };
    struct simba_error error;

    l->connection = sb_redis_connection_open(&config, endpoint);
    l->login = NULL; /* it was the connection's */
    if (l->connection == NULL) {
        sb_error_plain(&error, SIMBA_ENOMEM);
        pause_after(l, &error);
        return;
    }
    l->connections++;
    l->state = CONNECTED;
    on_room(l);
}

/* ---- Credentials ---------------------------------------------------------------------------- */

/* What was left by an attempt that failed is read anew. */
static int read_login(struct sb_redis_reconnecting *l, struct simba_error *error)
{
    sb_redis_login_free(l->login);
    l->login = sb_redis_login_create(l->config.options, l->config.credentials, l->config.tls);
    return l->login != NULL ? SIMBA_OK : sb_error_plain(error, SIMBA_ENOMEM);
}

/* ---- The search ----------------------------------------------------------------------------- */

static void act_on_search(struct sb_redis_reconnecting *l, int code,
                          const struct simba_error *error)
{
    if (code == SIMBA_OK)
        connect_to(l, &l->endpoint);
    else
        pause_after(l, error);
}

static int find(struct sb_redis_reconnecting *l, struct simba_error *error)
{
    int code = sb_redis_endpoint_find(l->config.options, l->config.credentials, &l->place,
                                      &l->endpoint, error);

    return code == SIMBA_OK ? read_login(l, error) : code;
}

static void run_lookup(void *user)
{
    struct sb_redis_reconnecting *l = user;

    l->found = find(l, &l->search_error);
}

/* The server may be at another place by now. */
static void on_looked_up(void *user)
{
    struct sb_redis_reconnecting *l = user;
    struct sb_redis_place place = l->place;

    l->is_looking_up = false;
    if (l->state == SEARCHING) {
        l->found = l->found == SIMBA_OK ? l->config.where(l->config.user, &place, &l->search_error)
                                        : l->found;
        if (l->found == SIMBA_OK && !sb_redis_place_equals(&place, &l->place))
            search(l);
        else
            act_on_search(l, l->found, &l->search_error);
    }
    finish_close(l);
}

static void look_up(struct sb_redis_reconnecting *l)
{
    struct simba_error error;
    int code;

    if (!sb_redis_endpoint_find_blocks(l->config.options, l->config.credentials, &l->place) &&
        !sb_redis_login_has_files(l->config.options, l->config.credentials)) {
        code = find(l, &error);
        act_on_search(l, code, &error);
        return;
    }
    code = sb_redis_blocking_start(&l->lookup);
    l->is_looking_up = code == 0;
    if (code != 0) {
        sb_error_set_backend(&error, SIMBA_ENOMEM, code, "cannot start a thread: %s",
                             strerror(code));
        pause_after(l, &error);
    }
}

static void search(struct sb_redis_reconnecting *l)
{
    struct simba_error error;
    int code;

    l->state = SEARCHING;
    code = l->config.where(l->config.user, &l->place, &error);
    if (code == SIMBA_OK)
        look_up(l);
    else
        pause_after(l, &error);
}

void sb_redis_reconnecting_start(struct sb_redis_reconnecting *l,
                                 const struct sb_redis_endpoint *known)
{
    struct simba_error error;

    if (l->state != IDLE)
        return;
    uv_timer_init(l->config.host->loop, &l->timer);
    l->timer.data = l;
    l->has_timer = true;
    if (known == NULL) {
        search(l);
        return;
    }
    l->endpoint = *known;
    act_on_search(l, read_login(l, &error), &error);
}

/* ---- Use ------------------------------------------------------------------------------------ */

int sb_redis_reconnecting_send(struct sb_redis_reconnecting *l, struct sb_redis_command *command,
                               const struct sb_redis_argument *arguments, size_t count,
                               struct simba_error *error)
{
    int code = SIMBA_EUNAVAILABLE;

    sb_redis_reconnecting_start(l, NULL);
    if (l->state == CONNECTED) {
        code = sb_redis_connection_send(l->connection, command, arguments, count);
        return code == SIMBA_OK ? code : sb_error_plain(error, code);
    }
    *error = l->last_error;
    if (error->code == SIMBA_OK)
        sb_error_set(error, code, "the server is being looked for");
    return error->code;
}

int sb_redis_reconnecting_push(struct sb_redis_reconnecting *l,
                               const struct sb_redis_argument *arguments, size_t count)
{
    if (l->state != CONNECTED)
        return SIMBA_EUNAVAILABLE;
    return sb_redis_connection_push(l->connection, arguments, count);
}

void sb_redis_reconnecting_flush(struct sb_redis_reconnecting *l)
{
    if (l->state == CONNECTED)
        sb_redis_connection_flush(l->connection);
}

void sb_redis_reconnecting_drop(struct sb_redis_reconnecting *l, const struct simba_error *error)
{
    if (l->state == CONNECTED)
        sb_redis_connection_drop(l->connection, error);
}

void sb_redis_reconnecting_retry(struct sb_redis_reconnecting *l)
{
    if (l->state != PAUSED)
        return;
    uv_timer_stop(&l->timer);
    search(l);
}

/* ---- Life ----------------------------------------------------------------------------------- */

struct sb_redis_reconnecting *
sb_redis_reconnecting_create(const struct sb_redis_reconnecting_config *config)
{
    struct sb_redis_reconnecting *l = sb_alloc_zero(sizeof *l);

    if (l == NULL)
        return NULL;
    l->config = *config;
    l->random = sb_random_seed();
    l->lookup.host = config->host;
    l->lookup.run = run_lookup;
    l->lookup.finished = on_looked_up;
    l->lookup.user = l;
    return l;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct sb_redis_reconnecting *l = handle->data;

    l->has_timer = false;
    finish_close(l);
}

void sb_redis_reconnecting_close(struct sb_redis_reconnecting *l)
{
    l->state = CLOSING;
    if (l->is_down)
        --*l->config.outage;
    if (l->connection != NULL)
        sb_redis_connection_close(l->connection);
    l->connection = NULL;
    if (l->has_timer)
        uv_close((uv_handle_t *)&l->timer, on_timer_closed);
    else
        finish_close(l);
}
