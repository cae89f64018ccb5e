/*
 * listener.c - hears of releases. All on the loop thread but for the subscribing, which looks up
 * names and may take long. Owns one connection and its reconnecting; must not know the waiters.
 */
#include "backend/postgres/listener.h"

#include "backend/postgres/connection.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "base/thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 10000
#define NOTE_WEIGHT 11 /* on the wire, without its two texts */
#define UNFIT_MS 60000 /* until it is asked again whether LISTEN works by now */

enum state {
    STATE_IDLE,
    STATE_SUBSCRIBING, /* a thread is on its way */
    STATE_HEARING,
    STATE_WAITING, /* for the next attempt */
    STATE_CLOSED
};

struct watch {
    uv_poll_t poll; /* first */
    struct sb_postgres_listener *listener;
    int fd; /* a duplicate of libpq's, which may close its own at any time */
};

struct sb_postgres_listener {
    struct sb_postgres_listener_config config;
    enum state state;
    PGconn *pg;
    size_t received; /* bytes, since a release was heard of */
    size_t asked;    /* bytes of all releases that were heard of, see sb_postgres_unasked */
    struct watch *watch;
    struct sb_postgres_subscription subscription; /* the thread's, while it is on its way */
    pthread_t thread;
    struct simba_task subscribed; /* runs on the loop when the thread has ended */
    uv_timer_t timer;             /* delays the next attempt */
    bool has_timer;
    unsigned failures;
    unsigned open_handles; /* and the thread */
    uint64_t random;
    void (*closed)(void *argument);
    void *argument;
};

static void on_ready(uv_poll_t *poll, int status, int events);
static void on_timer(uv_timer_t *timer);

/* ---- Handles --------------------------------------------------------------------------------- */

static void finish_close(struct sb_postgres_listener *l)
{
    void (*closed)(void *argument) = l->closed;
    void *argument = l->argument;

    sb_free(l);
    closed(argument);
}

static void count_closed(struct sb_postgres_listener *l)
{
    SB_CHECK(l->open_handles > 0, "a handle that closes is counted");
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

static bool watch_socket(struct sb_postgres_listener *l)
{
    struct watch *watch = sb_alloc_zero(sizeof *watch);

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
    return uv_poll_start(&watch->poll, UV_READABLE, on_ready) == 0;
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

/* ---- Coming and going ------------------------------------------------------------------------ */

static void disconnect(struct sb_postgres_listener *l)
{
    if (l->watch != NULL)
        uv_close((uv_handle_t *)&l->watch->poll, on_watch_closed);
    l->watch = NULL;
    PQfinish(l->pg);
    l->pg = NULL;
}

static int64_t backoff(struct sb_postgres_listener *l)
{
    return sb_random_backoff(&l->random, BACKOFF_MIN_MS, BACKOFF_MAX_MS, l->failures);
}

static void try_later(struct sb_postgres_listener *l, int64_t delay_ms, const char *why)
{
    const struct simba_backend_host *host = l->config.host;
    bool heard = l->state == STATE_HEARING;

    if (l->failures++ == 0)
        host->log(host, SIMBA_LOG_INFO,
                  "the client polls for releases, because it cannot be woken: %.*s",
                  (int)strcspn(why, "\n"), why);
    disconnect(l);
    l->state = STATE_WAITING;
    if (heard)
        l->config.hears(l->config.user, false);
    start_timer(l, delay_ms);
}

static void *run_thread(void *argument)
{
    struct sb_postgres_listener *l = argument;

    sb_postgres_subscribe(&l->subscription);
    l->config.host->post(l->config.host, &l->subscribed);
    return NULL;
}

static void subscribe(struct sb_postgres_listener *l)
{
    SB_CHECK(l->state == STATE_IDLE || l->state == STATE_WAITING, "one attempt at a time");
    SB_CHECK(l->pg == NULL && l->watch == NULL, "an attempt begins without a connection");
    l->state = STATE_SUBSCRIBING;
    atomic_store(&l->subscription.cancelled, false);
    if (sb_thread_start(&l->thread, "simba-listener", run_thread, l) != 0)
        try_later(l, backoff(l), "cannot start a thread");
    else
        l->open_handles++;
}

static void on_timer(uv_timer_t *timer)
{
    struct sb_postgres_listener *l = timer->data;

    if (l->state == STATE_WAITING)
        subscribe(l);
}

/* ---- Hearing --------------------------------------------------------------------------------- */

/* What is told to this client alone. Anybody may send it: what does not make sense is dropped. */
static void take_note(struct sb_postgres_listener *l, char *payload)
{
    const struct simba_backend_host *host = l->config.host;
    char *id = strchr(payload, '\n');

    if (payload[0] == '\0' || id == NULL)
        return;
    *id++ = '\0';
    switch (payload[0]) {
    case SB_POSTGRES_SAYS_RELEASED:
        host->notice(host, SIMBA_NOTICE_RELEASED, payload + 1, id);
        break;
    case SB_POSTGRES_SAYS_RESERVED:
        host->notice(host, SIMBA_NOTICE_RESERVED, payload + 1, id);
        break;
    case SB_POSTGRES_SAYS_STANDBY:
        host->notice(host, SIMBA_NOTICE_STANDBY, payload + 1, id);
        break;
    case SB_POSTGRES_SAYS_CHANGED:
        host->notice(host, SIMBA_NOTICE_CHANGED, payload + 1, NULL);
        break;
    default:
        break;
    }
}

static void hear(struct sb_postgres_listener *l)
{
    const struct simba_backend_host *host = l->config.host;
    PGnotify *note;

    while ((note = PQnotifies(l->pg)) != NULL) {
        l->received = 0;
        l->asked += NOTE_WEIGHT + strlen(note->relname) + strlen(note->extra);
        if (strcmp(note->relname, SB_POSTGRES_CHANNEL) == 0)
            host->notice(host, SIMBA_NOTICE_RELEASED, note->extra, NULL);
        else
            take_note(l, note->extra);
        PQfreemem(note);
    }
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct sb_postgres_listener *l = ((struct watch *)poll)->listener;

    (void)status;
    (void)events;
    SB_CHECK(l->state == STATE_HEARING && l->pg != NULL, "a socket is watched while it is heard");
    if (sb_postgres_unasked(l->pg, l->asked) > SB_POSTGRES_UNASKED_MAX)
        try_later(l, backoff(l), SB_POSTGRES_TOO_MUCH);
    else if (!sb_postgres_consume(l->pg, &l->received))
        try_later(l, backoff(l), "the connection was lost");
    else
        hear(l);
}

/* A waiter may have missed something until now. */
static void begin_to_hear(struct sb_postgres_listener *l)
{
    const struct simba_backend_host *host = l->config.host;

    l->pg = l->subscription.pg;
    l->received = 0;
    l->asked = 0;
    if (!watch_socket(l)) {
        try_later(l, backoff(l), "the connection cannot be watched");
        return;
    }
    if (l->failures > 0)
        host->log(host, SIMBA_LOG_INFO, "the client is woken by releases again");
    l->state = STATE_HEARING;
    l->failures = 0;
    l->config.hears(l->config.user, true);
    host->notice(host, SIMBA_NOTICE_RELEASED, NULL, NULL);
    hear(l);
}

/* On the loop: the thread has nothing left to do but to return. */
static void on_subscribed(struct simba_task *task)
{
    struct sb_postgres_listener *l = SB_CONTAINER(struct sb_postgres_listener, subscribed, task);

    pthread_join(l->thread, NULL);
    SB_CHECK(l->state == STATE_SUBSCRIBING || l->state == STATE_CLOSED,
             "an attempt ends in the state that it has set, or after the close");
    if (l->state == STATE_CLOSED)
        PQfinish(l->subscription.pg);
    else if (l->subscription.outcome == SB_POSTGRES_HEARS)
        begin_to_hear(l);
    else
        try_later(l, l->subscription.outcome == SB_POSTGRES_UNFIT ? UNFIT_MS : backoff(l),
                  l->subscription.why);
    count_closed(l);
}

/* ---- Creating and destroying ----------------------------------------------------------------- */

void sb_postgres_listener_want(struct sb_postgres_listener *l)
{
    if (l->state == STATE_IDLE)
        subscribe(l);
}

int sb_postgres_listener_create(const struct sb_postgres_listener_config *config,
                                struct sb_postgres_listener **ret_listener,
                                struct simba_error *error)
{
    struct sb_postgres_listener *l = sb_alloc_zero(sizeof *l);

    if (l == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    l->config = *config;
    l->subscription.settings = config->settings;
    l->subscribed.run = on_subscribed;
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
    l->state = STATE_CLOSED;
    atomic_store(&l->subscription.cancelled, true);
    if (l->has_timer)
        uv_close((uv_handle_t *)&l->timer, on_timer_closed);
    if (l->open_handles == 0)
        finish_close(l);
}
