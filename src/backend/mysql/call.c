/*
 * call.c - waits for the server with a deadline. Owns nothing.
 */
#include "backend/mysql/call.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

short sb_mysql_wanted_events(int wanted)
{
    return (short)(((wanted & MYSQL_WAIT_READ) != 0 ? POLLIN : 0) |
                   ((wanted & MYSQL_WAIT_WRITE) != 0 ? POLLOUT : 0) |
                   ((wanted & MYSQL_WAIT_EXCEPT) != 0 ? POLLPRI : 0));
}

/* What is wrong with a socket shows when it is used. */
static int occurred(short events)
{
    return ((events & (POLLIN | POLLHUP | POLLERR)) != 0 ? MYSQL_WAIT_READ : 0) |
           ((events & (POLLOUT | POLLERR)) != 0 ? MYSQL_WAIT_WRITE : 0) |
           ((events & POLLPRI) != 0 ? MYSQL_WAIT_EXCEPT : 0);
}

/* TLS does not heed what the library is told: it looks at the socket again, and finds that it is over. */
int sb_mysql_give_up(struct sb_mysql_connection *c)
{
    c->timed_out = true;
    shutdown((int)mysql_get_socket(c->mysql), SHUT_RDWR);
    return MYSQL_WAIT_TIMEOUT;
}

/* Waits for what the library waits for, and tells it what came. The library's own time-outs are whole
 * seconds and not used. */
static int await(struct sb_mysql_connection *c, int wanted)
{
    struct pollfd socket = {.fd = mysql_get_socket(c->mysql),
                            .events = sb_mysql_wanted_events(wanted)};

    for (;;) {
        int64_t left_ms = c->deadline_ms - simba_now_ms();
        int ready = left_ms > 0 ? poll(&socket, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX) : 0;

        if (ready > 0)
            return occurred(socket.revents);
        if (ready == 0 || errno != EINTR)
            return sb_mysql_give_up(c);
    }
}

/* The library agrees on TLS over a blocking socket and does not say so: only the kernel can end each of those waits.
 * To it 0 is no limit. */
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

bool sb_mysql_call_connect(struct sb_mysql_connection *c, size_t host, const char *password)
{
    const struct sb_sql_address *a = &c->settings->address;
    const char *name = host < a->host_count ? a->hosts[host].name : NULL;
    unsigned port = host < a->host_count ? (unsigned)a->hosts[host].port : 0;
    const enum mysql_protocol_type tcp = MYSQL_PROTOCOL_TCP;
    MYSQL *result = NULL;
    int status;

    if (name == NULL && a->socket != NULL)
        name = "localhost"; /* which stands for the socket */
    else if (port != 0)
        mysql_optionsv(c->mysql, MYSQL_OPT_PROTOCOL, &tcp); /* also to localhost */
    status = mysql_real_connect_start(&result, c->mysql, name, a->user, password, a->database, port,
                                      a->socket, 0);
    while (status != 0) {
        int came = await(c, status);

        limit_handshake(c);
        status = mysql_real_connect_cont(&result, c->mysql, came);
    }
    return result != NULL;
}

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

/* Between two statements a server says nothing but its farewell. The library has no socket any more once it has found
 * the connection lost. */
bool sb_mysql_is_closed(const struct sb_mysql_connection *c)
{
    struct pollfd socket = {.fd = mysql_get_socket(c->mysql), .events = POLLIN | POLLRDHUP};

    return socket.fd < 0 || poll(&socket, 1, 0) != 0;
}
