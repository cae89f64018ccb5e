/*
 * login.c - looks at what a server asks for before libpq answers it.
 *
 * A server names the way to log in, and before version 16 libpq tells it the password where it asks
 * for that. Without TLS the request can be seen: it is a message of kind 'R' that says 3. libpq
 * takes in all that the socket has, at any moment, so that a look at the socket would not be
 * enough: more may come behind the look. Hence libpq gets the messages one by one, out of another
 * socket that stands in the place of its own for the time of a call.
 *
 *     server ---> socket ---> a message that may be answered ---> pair ---> libpq
 *     server <--- socket <----------------------------------- <--- pair <--- its answer
 */
#include "backend/postgres/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEADER 5         /* kind and length */
#define MESSAGE_MAX 2048 /* of a request; libpq takes no more than 2000 */
#define ANSWER_MAX 4096
#define CLEARTEXT 3
#define SCRAM_CONTINUE 11
#define ITERATIONS_MAX 1000000 /* about a second; a server's own default is 4096 */

/* What stands at the beginning of what the server has sent. */
enum first {
    FIRST_NOTHING,    /* it is not there yet */
    FIRST_OTHER,      /* libpq sends no password for it */
    FIRST_ANSWERABLE, /* of a length that is known */
    FIRST_TELLING,
    FIRST_COSTLY
};

static uint32_t read_number(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The text is like "r=NONCE,s=SALT,i=4096". libpq computes as often as it says there, without a
 * look at the clock, and takes a number that is too large for an int modulo 2^32. */
static bool is_costly(const unsigned char *bytes, size_t length)
{
    char text[MESSAGE_MAX + 1];

    memcpy(text, bytes, length);
    text[length] = '\0';
    for (const char *found = text; (found = strstr(found, ",i=")) != NULL; found += 3) {
        long long count = strtoll(found + 3, NULL, 10);

        if (count < 1 || count > ITERATIONS_MAX)
            return true;
    }
    return false;
}

static enum first read_request(const unsigned char *bytes, size_t count, size_t *ret_length)
{
    size_t length;

    if (bytes[0] != 'R')
        return FIRST_OTHER;
    if (count < HEADER)
        return FIRST_NOTHING;
    length = 1 + (size_t)read_number(bytes + 1);
    if (length < HEADER + 4 || length > MESSAGE_MAX)
        return FIRST_OTHER; /* which libpq refuses */
    if (count < length)
        return FIRST_NOTHING;
    *ret_length = length;
    switch (read_number(bytes + HEADER)) {
    case CLEARTEXT:
        return FIRST_TELLING;
    case SCRAM_CONTINUE:
        return is_costly(bytes + HEADER + 4, length - HEADER - 4) ? FIRST_COSTLY : FIRST_ANSWERABLE;
    default:
        return FIRST_ANSWERABLE;
    }
}

/* A server that does not offer what was asked for says so with one byte, and libpq goes on in the
 * clear. */
static enum first read_first(const PGconn *pg, const unsigned char *bytes, size_t count,
                             size_t *ret_length)
{
    if (PQstatus(pg) == CONNECTION_AWAITING_RESPONSE)
        return read_request(bytes, count, ret_length);
    *ret_length = 1;
    return bytes[0] == 'N' ? FIRST_ANSWERABLE : FIRST_OTHER;
}

/* ---- Another socket in the place of libpq's -------------------------------------------------- */

static bool is_same(int fd, int other)
{
    struct stat status;
    struct stat other_status;

    return fstat(fd, &status) == 0 && fstat(other, &other_status) == 0 &&
           status.st_dev == other_status.st_dev && status.st_ino == other_status.st_ino;
}

/* An answer is short, and the socket empty: it takes all of it. */
static bool pass_answer(int from, int to)
{
    char answer[ANSWER_MAX];
    ssize_t count = recv(from, answer, sizeof answer, MSG_DONTWAIT);
    bool passed = count <= 0 || send(to, answer, (size_t)count, MSG_NOSIGNAL) == count;

    explicit_bzero(answer, sizeof answer);
    return passed;
}

static enum sb_postgres_login outcome_of(PostgresPollingStatusType status)
{
    switch (status) {
    case PGRES_POLLING_READING:
        return SB_POSTGRES_LOGIN_READING;
    case PGRES_POLLING_WRITING:
        return SB_POSTGRES_LOGIN_WRITING;
    case PGRES_POLLING_OK:
        return SB_POSTGRES_LOGIN_DONE;
    default:
        return SB_POSTGRES_LOGIN_FAILED;
    }
}

/* Where libpq gives up, it closes its socket, and may have another one for the next host. */
static PostgresPollingStatusType poll_pair(PGconn *pg, int server, const int pair[2])
{
    int fd = PQsocket(pg);
    PostgresPollingStatusType status;

    if (dup3(pair[0], fd, O_CLOEXEC) < 0)
        return PGRES_POLLING_FAILED;
    status = PQconnectPoll(pg);
    if (PQsocket(pg) < 0 || !is_same(PQsocket(pg), pair[0]))
        return status;
    if (dup3(server, PQsocket(pg), O_CLOEXEC) < 0 || !pass_answer(pair[1], server))
        return PGRES_POLLING_FAILED;
    return status;
}

static enum sb_postgres_login poll_with(PGconn *pg, unsigned char *bytes, size_t length)
{
    int server = fcntl(PQsocket(pg), F_DUPFD_CLOEXEC, 0);
    enum sb_postgres_login login = SB_POSTGRES_LOGIN_SHORT;
    int pair[2];

    if (server < 0)
        return SB_POSTGRES_LOGIN_SHORT;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0) {
        login = SB_POSTGRES_LOGIN_FAILED;
        if (recv(server, bytes, length, 0) == (ssize_t)length &&
            send(pair[1], bytes, length, MSG_NOSIGNAL) == (ssize_t)length)
            login = outcome_of(poll_pair(pg, server, pair));
        close(pair[0]);
        close(pair[1]);
    }
    close(server);
    return login;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static enum sb_postgres_login poll_looking(PGconn *pg)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    unsigned char bytes[MESSAGE_MAX];
    ssize_t count = recv(PQsocket(pg), bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    size_t length = 0;

    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return SB_POSTGRES_LOGIN_READING;
    if (count <= 0)
        return outcome_of(PQconnectPoll(pg));
    switch (read_first(pg, bytes, (size_t)count, &length)) {
    case FIRST_NOTHING:
        nanosleep(&pause, NULL); /* what is there already makes no poll wait */
        return SB_POSTGRES_LOGIN_READING;
    case FIRST_TELLING:
        return SB_POSTGRES_LOGIN_TELLING;
    case FIRST_COSTLY:
        return SB_POSTGRES_LOGIN_COSTLY;
    case FIRST_ANSWERABLE:
        return poll_with(pg, bytes, length);
    default:
        return outcome_of(PQconnectPoll(pg));
    }
}

/* TLS hides what is asked for. */
static bool has_to_look(PGconn *pg)
{
    ConnStatusType status = PQstatus(pg);

    return PQsslInUse(pg) == 0 && PQgssEncInUse(pg) == 0 &&
           (status == CONNECTION_AWAITING_RESPONSE || status == CONNECTION_SSL_STARTUP ||
            status == CONNECTION_GSS_STARTUP);
}

/* On a socket of the file system libpq leaves out TLS without a word. */
enum sb_postgres_login sb_postgres_login_poll(const struct sb_postgres_settings *settings,
                                              PGconn *pg, size_t *received)
{
    enum sb_postgres_login login;

    if (!sb_postgres_count(pg, received))
        return SB_POSTGRES_LOGIN_FLOOD;
    login = has_to_look(pg) ? poll_looking(pg) : outcome_of(PQconnectPoll(pg));
    if (login == SB_POSTGRES_LOGIN_DONE && sb_postgres_settings_need_tls(settings) &&
        PQsslInUse(pg) == 0)
        return SB_POSTGRES_LOGIN_PLAIN;
    return login;
}

static int log_in(struct sb_postgres_connection *c, size_t skipped, bool *ret_silent,
                  struct sb_sql_failure *failure)
{
    enum sb_postgres_login login = SB_POSTGRES_LOGIN_WRITING;
    struct simba_error unread = {.code = SIMBA_OK};
    size_t received = 0;
    int code = sb_postgres_settings_connect(c->settings, skipped, &c->pg, &unread, &failure->error);

    failure->remedy = SB_SQL_RECONNECT;
    if (code != SIMBA_OK)
        return code;
    while (login == SB_POSTGRES_LOGIN_WRITING || login == SB_POSTGRES_LOGIN_READING) {
        short events = login == SB_POSTGRES_LOGIN_WRITING ? POLLOUT : POLLIN;

        if (PQstatus(c->pg) == CONNECTION_BAD)
            break;
        if (sb_sql_wait(NULL, PQsocket(c->pg), events, c->deadline_ms) == 0) {
            *ret_silent = true;
            return sb_postgres_fail_lost(c, false, "cannot connect in time", failure);
        }
        login = sb_postgres_login_poll(c->settings, c->pg, &received);
    }
    return login == SB_POSTGRES_LOGIN_DONE ? SIMBA_OK
                                           : sb_postgres_fail_login(c, login, &unread, failure);
}

/* Each host has its share of the time that is left. */
int sb_postgres_log_in(struct sb_postgres_connection *c, struct sb_sql_failure *failure)
{
    size_t hosts = sb_postgres_settings_hosts(c->settings);
    int64_t end_ms = c->deadline_ms;
    int code = SIMBA_OK;

    for (size_t i = 0; i < hosts; i++) {
        int64_t now_ms = simba_now_ms();
        bool silent = false;

        PQfinish(c->pg);
        c->pg = NULL;
        c->deadline_ms = now_ms + (end_ms - now_ms) / (int64_t)(hosts - i);
        code = log_in(c, i, &silent, failure);
        if (!silent || simba_now_ms() >= end_ms)
            break;
    }
    c->deadline_ms = end_ms;
    return code;
}
