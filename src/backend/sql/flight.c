/*
 * flight.c - a statement that no thread waits for. Owns the handles on the loop; must not know requests.
 *
 * The socket is not the loop's own business, because the worker's thread uses it too and may close it. It is
 * watched through an epoll descriptor, which threads may change while another waits for it. The watch stays
 * on from one flight to the next: the server says nothing unasked but its farewell.
 */
#include "backend/sql/flight.h"

#include "base/alloc.h"

#include <assert.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <uv.h>

struct sb_flight {
    struct sb_flight_config config;
    uv_poll_t ready;
    uv_timer_t late;
    int epoll_fd;
    int armed_fd; /* the socket that is watched; -1: none */
    short armed_for;
    bool haunted; /* a socket that is closed here may be watched still: see forget_closed */

    struct sb_sql_connection *connection; /* NULL: nothing is under way */
    int64_t deadline_ms;

    void (*closed)(void *argument);
    void *argument;
};

/* ---- The socket ----------------------------------------------------------------------------- */

void sb_flight_disarm(struct sb_flight *f)
{
    if (f == NULL || f->armed_fd < 0)
        return;
    epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, f->armed_fd, NULL);
    f->armed_fd = -1;
}

static bool arm(struct sb_flight *f, short wants)
{
    int fd = f->connection->driver->socket(f->connection);
    struct epoll_event event = {.events = EPOLLONESHOT | ((wants & POLLIN) != 0 ? EPOLLIN : 0) |
                                          ((wants & POLLOUT) != 0 ? EPOLLOUT : 0)};

    if (f->armed_fd == fd && f->armed_for == wants)
        return true;
    sb_flight_disarm(f);
    if (epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return false;
    f->armed_fd = fd;
    f->armed_for = wants;
    return true;
}

/* ---- The way -------------------------------------------------------------------------------- */

/* A client library that gives a connection up may close the socket, and that ends the watch: the number is
 * somebody else's from then on. But where a child of fork() has the socket too, the watch goes on, and nobody
 * can end it any more. */
static void forget_closed(struct sb_flight *f)
{
    if (f->armed_fd < 0 || f->connection->driver->socket(f->connection) == f->armed_fd)
        return;
    f->armed_fd = -1;
    f->haunted = true;
}

/* What is fetched is not shown again; that is what a watch for one shot means. It may be the right socket's,
 * which is watched anew then. */
static void fetch_event(struct sb_flight *f)
{
    struct epoll_event event;

    epoll_wait(f->epoll_fd, &event, 1, 0);
    f->armed_for = 0;
}

static void land(struct sb_flight *f, int code, struct sb_sql_failure *failure)
{
    uv_timer_stop(&f->late);
    if (code != SIMBA_OK)
        forget_closed(f);
    f->connection = NULL;
    f->config.landed(f->config.user, code, failure);
}

static void give_up(struct sb_flight *f)
{
    struct sb_sql_failure failure;
    int code = f->connection->driver->abandon(f->connection, &failure);

    land(f, code, &failure);
}

static void go_on(struct sb_flight *f, int code, short wants, struct sb_sql_failure *failure)
{
    if (wants == 0)
        land(f, code, failure);
    else if (!arm(f, wants))
        give_up(f);
}

static void on_ready(uv_poll_t *ready, int status, int events)
{
    struct sb_flight *f = ready->data;
    struct sb_sql_failure failure;
    short wants = 0;
    int code;

    (void)status;
    (void)events;
    if (f->haunted)
        fetch_event(f);
    if (f->connection == NULL) {
        f->config.stirred(f->config.user);
        return;
    }
    code = f->connection->driver->proceed(f->connection, &wants, &failure);
    go_on(f, code, wants, &failure);
}

/* The loop's idea of the time may be a bit old when a timer is set. */
static void on_late(uv_timer_t *late)
{
    struct sb_flight *f = late->data;
    int64_t left_ms = f->deadline_ms - simba_now_ms();

    if (left_ms > 0)
        uv_timer_start(late, on_late, (uint64_t)left_ms, 0);
    else
        give_up(f);
}

void sb_flight_start(struct sb_flight *f, struct sb_sql_connection *connection,
                     struct sb_sql_item *item, int64_t deadline_ms)
{
    struct sb_sql_failure failure;
    int64_t left_ms = deadline_ms - simba_now_ms();
    short wants = 0;
    int code;

    assert(f->connection == NULL);
    f->connection = connection;
    f->deadline_ms = deadline_ms;
    uv_timer_start(&f->late, on_late, left_ms > 0 ? (uint64_t)left_ms : 0, 0);
    code = connection->driver->start(connection, item, &wants, &failure);
    go_on(f, code, wants, &failure);
}

/* ---- Life ----------------------------------------------------------------------------------- */

struct sb_flight *sb_flight_create(const struct sb_flight_config *config)
{
    struct sb_flight *f = sb_alloc_zero(sizeof *f);

    if (f == NULL)
        return NULL;
    f->config = *config;
    f->armed_fd = -1;
    f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (f->epoll_fd < 0 || uv_poll_init(config->host->loop, &f->ready, f->epoll_fd) < 0) {
        if (f->epoll_fd >= 0)
            close(f->epoll_fd);
        sb_free(f);
        return NULL;
    }
    uv_timer_init(config->host->loop, &f->late);
    f->ready.data = f;
    f->late.data = f;
    uv_poll_start(&f->ready, UV_READABLE, on_ready);
    return f;
}

static void on_timer_closed(uv_handle_t *late)
{
    struct sb_flight *f = late->data;
    void (*closed)(void *argument) = f->closed;
    void *argument = f->argument;

    close(f->epoll_fd);
    sb_free(f);
    closed(argument);
}

/* One after the other, so that the last one closes all. */
static void on_poll_closed(uv_handle_t *ready)
{
    struct sb_flight *f = ready->data;

    uv_close((uv_handle_t *)&f->late, on_timer_closed);
}

void sb_flight_close(struct sb_flight *f, void (*closed)(void *argument), void *argument)
{
    if (f == NULL) {
        closed(argument);
        return;
    }
    assert(f->connection == NULL);
    f->closed = closed;
    f->argument = argument;
    uv_close((uv_handle_t *)&f->ready, on_poll_closed);
}
