/*
 * call.c - waits for the server with a deadline. Owns nothing.
 */
#include "backend/mysql/connection.h"

#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Returns what the library is to be told. TLS does not heed what the library is told: it looks at
 * the socket again, and finds that it is over. */
static int give_up(struct sb_mysql_connection *c)
{
    c->timed_out = true;
    shutdown((int)mysql_get_socket(c->mysql), SHUT_RDWR);
    return MYSQL_WAIT_TIMEOUT;
}

/* Waits for what the library waits for, and tells it what came. The library's own time-outs are
 * whole seconds and not used. */
static int await(struct sb_mysql_connection *c, int wanted)
{
    short events = (short)(((wanted & MYSQL_WAIT_READ) != 0 ? POLLIN : 0) |
                           ((wanted & MYSQL_WAIT_WRITE) != 0 ? POLLOUT : 0) |
                           ((wanted & MYSQL_WAIT_EXCEPT) != 0 ? POLLPRI : 0));
    short ready = sb_sql_wait(&c->base, (int)mysql_get_socket(c->mysql), events, c->deadline_ms);

    if (ready == 0)
        return give_up(c);
    return ((ready & (POLLIN | POLLHUP | POLLERR)) != 0 ? MYSQL_WAIT_READ : 0) |
           ((ready & (POLLOUT | POLLERR)) != 0 ? MYSQL_WAIT_WRITE : 0) |
           ((ready & POLLPRI) != 0 ? MYSQL_WAIT_EXCEPT : 0);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

/* The library agrees on TLS over a blocking socket and does not say so: only the kernel can end
 * each of those waits. To it 0 is no limit. */
static void limit_handshake(const struct sb_mysql_connection *c)
{
    int socket = (int)mysql_get_socket(c->mysql);
    int64_t left_ms = c->deadline_ms - simba_now_ms();
    struct timeval limit = {.tv_usec = 1000};

    if (left_ms > 0)
        limit = (struct timeval){(time_t)(left_ms / 1000), (suseconds_t)(left_ms % 1000 * 1000)};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* A server that sends a byte now and then begins each wait anew. So a thread ends the connection
 * when the time is up: by a descriptor of its own, as the library may close the other one. */
struct watch {
    int socket;
    int woken; /* by the end of the login; -1: the thread does not run */
    int64_t deadline_ms;
    bool late; /* the time was up */
    pthread_t thread;
};

static void *end_late(void *argument)
{
    struct watch *w = argument;
    struct pollfd woken = {.fd = w->woken, .events = POLLIN};
    int ready = -1;

    while (ready < 0) {
        int64_t left_ms = w->deadline_ms - simba_now_ms();

        ready = left_ms > 0 ? poll(&woken, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX) : 0;
    }
    w->late = ready == 0;
    if (w->late)
        shutdown(w->socket, SHUT_RDWR);
    return NULL;
}

static void close_watch(struct watch *w)
{
    if (w->socket >= 0)
        close(w->socket);
    if (w->woken >= 0)
        close(w->woken);
    w->woken = -1;
}

/* Where no thread can be had each wait has its limit still. */
static void begin_watch(struct watch *w, const struct sb_mysql_connection *c)
{
    w->deadline_ms = c->deadline_ms;
    w->socket = fcntl((int)mysql_get_socket(c->mysql), F_DUPFD_CLOEXEC, 0);
    w->woken = eventfd(0, EFD_CLOEXEC);
    if (w->socket < 0 || w->woken < 0 ||
        sb_thread_start(&w->thread, "simba-mysql-tls", end_late, w) != 0)
        close_watch(w);
}

static void end_watch(struct watch *w, struct sb_mysql_connection *c)
{
    if (w->woken < 0)
        return;
    eventfd_write(w->woken, 1);
    pthread_join(w->thread, NULL);
    c->timed_out = c->timed_out || w->late;
    close_watch(w);
}

/* ---- The greeting ---------------------------------------------------------------------------- */

#define HEADER 4
#define PROTOCOL 10
/* The number of the connection, a part of the challenge, a zero. */
#define BEHIND_VERSION (4 + 8 + 1)
#define OFFERS_TLS 0x0800

/* Behind 0xff stands the number of an error. This one announces how far a statement is, and the
 * library goes on to what follows; before a greeting it crashes. */
#define PROGRESS 0xffff

static enum sb_mysql_greeting read_refusal(const unsigned char *bytes, size_t count, size_t length)
{
    if (length < HEADER + 3)
        return SB_MYSQL_GREETING_NONE;
    if (count < HEADER + 3)
        return SB_MYSQL_GREETING_PART;
    return (bytes[HEADER + 1] | bytes[HEADER + 2] << 8) == PROGRESS ? SB_MYSQL_GREETING_WRONG
                                                                    : SB_MYSQL_GREETING_NONE;
}

/* length[3] number[1] | protocol, version as text, what stands behind it, what the server can do[2]
 * ... */
enum sb_mysql_greeting sb_mysql_read_greeting(const unsigned char *bytes, size_t count)
{
    size_t length;
    const unsigned char *end;
    size_t place;

    if (count <= HEADER)
        return SB_MYSQL_GREETING_PART;
    length = HEADER + (bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16);
    if (bytes[HEADER] == 0xff)
        return read_refusal(bytes, count, length);
    if (bytes[HEADER] != PROTOCOL)
        return SB_MYSQL_GREETING_NO_TLS;
    end = memchr(bytes + HEADER + 1, '\0', count - HEADER - 1);
    place = end != NULL ? (size_t)(end - bytes) + 1 + BEHIND_VERSION : count;
    if (place + 2 > length || place + 2 > SB_MYSQL_GREETING_MAX)
        return SB_MYSQL_GREETING_NO_TLS;
    if (end == NULL || place + 2 > count)
        return SB_MYSQL_GREETING_PART;
    return ((bytes[place] | bytes[place + 1] << 8) & OFFERS_TLS) != 0 ? SB_MYSQL_GREETING_TLS
                                                                      : SB_MYSQL_GREETING_NO_TLS;
}

/* Waits for the greeting and leaves it to the library, which would go on in the clear where the
 * server does not offer TLS. Nothing is sent before a server has greeted; and a connection is never
 * made at once, so that this comes before the library can have read it. SB_MYSQL_GREETING_PART: the
 * time is up. */
static enum sb_mysql_greeting await_greeting(const struct sb_mysql_connection *c)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    unsigned char bytes[SB_MYSQL_GREETING_MAX];
    struct pollfd socket = {.fd = mysql_get_socket(c->mysql), .events = POLLIN};
    enum sb_mysql_greeting greeting = SB_MYSQL_GREETING_PART;

    while (greeting == SB_MYSQL_GREETING_PART) {
        int64_t left_ms = c->deadline_ms - simba_now_ms();
        ssize_t count;

        if (left_ms <= 0 || poll(&socket, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX) == 0)
            return SB_MYSQL_GREETING_PART;
        count = recv(socket.fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
        if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN))
            return SB_MYSQL_GREETING_NONE; /* which the library finds out, too */
        greeting =
            count > 0 ? sb_mysql_read_greeting(bytes, (size_t)count) : SB_MYSQL_GREETING_PART;
        if (greeting == SB_MYSQL_GREETING_PART && count > 0)
            nanosleep(&pause, NULL); /* what is there already makes no poll wait */
    }
    return greeting;
}

/* What the library is told: that something came, or that it is over. Where there was no greeting
 * the library may try another address, and that one is to be looked at. */
static int check_greeting(struct sb_mysql_connection *c, bool needs_tls, int came,
                          enum sb_mysql_greeting *ret_greeting)
{
    enum sb_mysql_greeting greeting = c->timed_out ? SB_MYSQL_GREETING_NONE : await_greeting(c);

    if (greeting == SB_MYSQL_GREETING_PART)
        return give_up(c);
    *ret_greeting = greeting;
    c->lacks_tls = needs_tls && greeting == SB_MYSQL_GREETING_NO_TLS;
    c->greets_wrong = greeting == SB_MYSQL_GREETING_WRONG;
    if (!c->lacks_tls && !c->greets_wrong)
        return came;
    shutdown((int)mysql_get_socket(c->mysql), SHUT_RDWR);
    return MYSQL_WAIT_TIMEOUT;
}

bool sb_mysql_call_connect(struct sb_mysql_connection *c, const struct sb_mysql_target *target)
{
    const enum mysql_protocol_type tcp = MYSQL_PROTOCOL_TCP;
    bool is_looked_at = !target->is_local || target->needs_tls;
    enum sb_mysql_greeting greeting = SB_MYSQL_GREETING_NONE;
    struct watch watch = {.woken = -1};
    MYSQL *result = NULL;
    int status;

    if (target->is_tcp)
        mysql_optionsv(c->mysql, MYSQL_OPT_PROTOCOL, &tcp);
    status =
        mysql_real_connect_start(&result, c->mysql, target->host, target->user, target->password,
                                 target->database, target->port, target->socket, 0);
    while (status != 0) {
        int came = await(c, status);

        limit_handshake(c);
        if (is_looked_at && greeting == SB_MYSQL_GREETING_NONE)
            came = check_greeting(c, target->needs_tls, came, &greeting);
        if (greeting == SB_MYSQL_GREETING_TLS && watch.woken < 0)
            begin_watch(&watch, c);
        status = mysql_real_connect_cont(
            &result, c->mysql, c->lacks_tls || c->greets_wrong ? MYSQL_WAIT_TIMEOUT : came);
    }
    end_watch(&watch, c);
    return result != NULL;
}

/* ---- Statements ------------------------------------------------------------------------------ */

int sb_mysql_call_query(struct sb_mysql_connection *c, const char *text)
{
    int result = 0;
    int status = mysql_real_query_start(&result, c->mysql, text, strlen(text));

    while (status != 0)
        status = mysql_real_query_cont(&result, c->mysql, await(c, status));
    return result;
}

MYSQL_RES *sb_mysql_call_store(struct sb_mysql_connection *c)
{
    MYSQL_RES *result = NULL;
    int status = mysql_store_result_start(&result, c->mysql);

    while (status != 0)
        status = mysql_store_result_cont(&result, c->mysql, await(c, status));
    return result;
}

int sb_mysql_call_prepare(struct sb_mysql_connection *c, MYSQL_STMT *statement, const char *text)
{
    int result = 0;
    int status = mysql_stmt_prepare_start(&result, statement, text, strlen(text));

    while (status != 0)
        status = mysql_stmt_prepare_cont(&result, statement, await(c, status));
    return result;
}

int sb_mysql_call_execute(struct sb_mysql_connection *c, MYSQL_STMT *statement)
{
    int result = 0;
    int status = mysql_stmt_execute_start(&result, statement);

    while (status != 0)
        status = mysql_stmt_execute_cont(&result, statement, await(c, status));
    return result;
}

int sb_mysql_call_store_rows(struct sb_mysql_connection *c, MYSQL_STMT *statement)
{
    int result = 0;
    int status = mysql_stmt_store_result_start(&result, statement);

    while (status != 0)
        status = mysql_stmt_store_result_cont(&result, statement, await(c, status));
    return result;
}

/* Between two statements a server says nothing but its farewell. The library has no socket any more
 * once it has found the connection lost. */
bool sb_mysql_is_closed(const struct sb_mysql_connection *c)
{
    struct pollfd socket = {.fd = mysql_get_socket(c->mysql), .events = POLLIN | POLLRDHUP};

    return c->distrusted || socket.fd < 0 || poll(&socket, 1, 0) != 0;
}
