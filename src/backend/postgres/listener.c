/*
 * listener.c - hears of releases. All on the loop thread. Owns one connection and its reconnecting; must not
 * know who waits.
 */
#include "backend/postgres/listener.h"

#include "backend/postgres/statement.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 10000

/* A pooler gives every transaction to some session of its own; then the process that answers is not the one
 * that we are connected to, and nobody hears us listen. */
static const char listen_and_ask[] = "LISTEN " SB_POSTGRES_CHANNEL "; SELECT pg_backend_pid()";

enum state {
    STATE_IDLE,
    STATE_CONNECTING,
    STATE_ASKING,
    STATE_HEARING,
    STATE_WAITING, /* for the next attempt */
    STATE_UNFIT    /* LISTEN does not work here */
};

/* libpq changes its socket while it connects, and libuv must not see that. */
struct watch {
    uv_poll_t poll; /* first */
    struct sb_postgres_listener *listener;
    int fd; /* a duplicate of libpq's */
};

struct sb_postgres_listener {
    struct sb_postgres_listener_config config;
    enum state state;
    PGconn *pg;
    struct watch *watch;
    uv_timer_t timer; /* bounds the connecting, and delays the next attempt */
    bool has_timer;
    bool is_direct;
    unsigned failures;
    unsigned open_handles;
    uint64_t random;
    void (*closed)(void *argument);
    void *argument;
};

static void on_ready(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);

/* ---- Handles -------------------------------------------------------------------------------- */

static void finish_close(struct sb_postgres_listener *l)
{
    void (*closed)(void *argument) = l->closed;
    void *argument = l->argument;

    sb_free(l);
    closed(argument);
}

static void count_closed(struct sb_postgres_listener *l)
{
    if (--l->open_handles == 0 && l->closed != NULL)
        finish_close(l);
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct watch *watch = (struct watch *)handle;
    struct sb_postgres_listener *l = watch->listener;

    close(watch->fd);
    sb_free(watch);
    count_closed(l);
}

static void on_timer_closed(uv_handle_t *handle)
{
    count_closed(handle->data);
}

static void unwatch(struct sb_postgres_listener *l)
{
    if (l->watch != NULL)
        uv_close((uv_handle_t *)&l->watch->poll, on_watch_closed);
    l->watch = NULL;
}

static bool watch_socket(struct sb_postgres_listener *l, int events)
{
    struct watch *watch = sb_alloc_zero(sizeof *watch);

    unwatch(l);
    if (watch == NULL)
        return false;
    watch->listener = l;
    watch->fd = fcntl(PQsocket(l->pg), F_DUPFD_CLOEXEC, 0);
    if (watch->fd < 0 || uv_poll_init(l->config.host->loop, &watch->poll, watch->fd) != 0) {
        if (watch->fd >= 0)
            close(watch->fd);
        sb_free(watch);
        return false;
    }
    l->open_handles++;
    l->watch = watch;
    return uv_poll_start(&watch->poll, events, on_ready) == 0;
}

static void start_timer(struct sb_postgres_listener *l, int64_t delay_ms)
{
    if (!l->has_timer) {
        uv_timer_init(l->config.host->loop, &l->timer);
        l->timer.data = l;
        l->has_timer = true;
        l->open_handles++;
    }
    uv_timer_start(&l->timer, on_timer, (uint64_t)delay_ms, 0);
}

/* ---- Coming and going ----------------------------------------------------------------------- */

static void disconnect(struct sb_postgres_listener *l)
{
    unwatch(l);
    PQfinish(l->pg);
    l->pg = NULL;
}

static void leave(struct sb_postgres_listener *l, enum state state)
{
    bool heard = l->state == STATE_HEARING;

    disconnect(l);
    l->state = state;
    if (heard)
        l->config.hears(l->config.user, false);
}

static void try_later(struct sb_postgres_listener *l, const char *what)
{
    const struct simba_backend_host *host = l->config.host;
    const char *message = l->pg != NULL ? PQerrorMessage(l->pg) : "out of memory";
    int64_t delay_ms = BACKOFF_MIN_MS;

    if (l->failures++ == 0)
        host->log(host, SIMBA_LOG_INFO, "releases are not heard of: %s: %.*s", what,
                  (int)strcspn(message, "\n"), message);
    for (unsigned i = 1; i < l->failures && delay_ms < BACKOFF_MAX_MS; i++)
        delay_ms *= 2;
    leave(l, STATE_WAITING);
    start_timer(l, delay_ms / 2 + sb_random_between(sb_random_next(&l->random), 0, delay_ms / 2));
}

static void be_unfit(struct sb_postgres_listener *l, const char *why)
{
    const struct simba_backend_host *host = l->config.host;

    host->log(host, SIMBA_LOG_INFO, "releases are looked for instead of heard of: %s", why);
    uv_timer_stop(&l->timer);
    leave(l, STATE_UNFIT);
}

static void connect_now(struct sb_postgres_listener *l)
{
    l->state = STATE_CONNECTING;
    l->pg = sb_postgres_settings_connect(l->config.settings);
    if (l->pg == NULL || PQstatus(l->pg) == CONNECTION_BAD || !watch_socket(l, UV_WRITABLE)) {
        try_later(l, "cannot connect");
        return;
    }
    start_timer(l, l->config.settings->address.connect_timeout_ms);
}

static void on_timer(uv_timer_t *timer)
{
    struct sb_postgres_listener *l = timer->data;

    if (l->state == STATE_WAITING)
        connect_now(l);
    else if (l->state == STATE_CONNECTING || l->state == STATE_ASKING)
        try_later(l, "cannot connect in time");
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static void ask(struct sb_postgres_listener *l)
{
    l->state = STATE_ASKING;
    l->is_direct = false;
    if (PQsendQuery(l->pg, listen_and_ask) == 0 || !watch_socket(l, UV_READABLE))
        try_later(l, "cannot listen");
}

static void go_on_connecting(struct sb_postgres_listener *l)
{
    PostgresPollingStatusType status = PQconnectPoll(l->pg);

    if (status == PGRES_POLLING_OK)
        ask(l);
    else if (status == PGRES_POLLING_FAILED ||
             !watch_socket(l, status == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE))
        try_later(l, "cannot connect");
}

/* Whoever waited until now may have missed something. */
static void begin_to_hear(struct sb_postgres_listener *l)
{
    const struct simba_backend_host *host = l->config.host;

    uv_timer_stop(&l->timer);
    l->state = STATE_HEARING;
    l->failures = 0;
    l->config.hears(l->config.user, true);
    host->notice(host, SIMBA_NOTICE_RELEASED, NULL, NULL);
}

static void take_answer(struct sb_postgres_listener *l)
{
    PGresult *result;

    while (PQisBusy(l->pg) == 0 && (result = PQgetResult(l->pg)) != NULL) {
        ExecStatusType status = PQresultStatus(result);

        if (status == PGRES_TUPLES_OK && PQntuples(result) > 0)
            l->is_direct = atoi(PQgetvalue(result, 0, 0)) == PQbackendPID(l->pg);
        PQclear(result);
        if (status == PGRES_FATAL_ERROR) {
            be_unfit(l, PQerrorMessage(l->pg));
            return;
        }
    }
    if (PQisBusy(l->pg) != 0)
        return;
    if (l->is_direct)
        begin_to_hear(l);
    else
        be_unfit(l, "a pooler is in between");
}

static void hear(struct sb_postgres_listener *l)
{
    const struct simba_backend_host *host = l->config.host;
    PGnotify *note;

    while ((note = PQnotifies(l->pg)) != NULL) {
        host->notice(host, SIMBA_NOTICE_RELEASED, note->extra, NULL);
        PQfreemem(note);
    }
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct sb_postgres_listener *l = ((struct watch *)poll)->listener;

    (void)status;
    (void)events;
    if (l->state == STATE_CONNECTING) {
        go_on_connecting(l);
        return;
    }
    if (PQconsumeInput(l->pg) == 0) {
        try_later(l, "the connection was lost");
        return;
    }
    if (l->state == STATE_ASKING)
        take_answer(l);
    if (l->state == STATE_HEARING)
        hear(l);
}

/* ---- Life ----------------------------------------------------------------------------------- */

void sb_postgres_listener_want(struct sb_postgres_listener *l)
{
    if (l->state == STATE_IDLE)
        connect_now(l);
}

int sb_postgres_listener_create(const struct sb_postgres_listener_config *config,
                                struct sb_postgres_listener **ret_listener,
                                struct simba_error *error)
{
    struct sb_postgres_listener *l = sb_alloc_zero(sizeof *l);

    if (l == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    l->config = *config;
    l->random = sb_random_seed();
    *ret_listener = l;
    return SIMBA_OK;
}

void sb_postgres_listener_close(struct sb_postgres_listener *l, void (*closed)(void *argument),
                                void *argument)
{
    l->closed = closed;
    l->argument = argument;
    disconnect(l);
    l->state = STATE_UNFIT;
    if (l->has_timer)
        uv_close((uv_handle_t *)&l->timer, on_timer_closed);
    if (l->open_handles == 0)
        finish_close(l);
}
