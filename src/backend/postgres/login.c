/*
 * login.c - looks at what a server asks for before libpq answers it.
 *
 * A server names the way to log in, and before version 16 libpq tells it the password where it asks for that. Without
 * TLS the request can be seen: it is a message of kind 'R' that says 3. libpq takes in all that the socket has, at any
 * moment, so that a look at the socket would not be enough: more may come behind the look. Hence libpq gets the messages
 * one by one, out of another socket that stands in the place of its own for the time of a call.
 *
 *     server ---> socket ---> a message that may be answered ---> pair ---> libpq
 *     server <--- socket <----------------------------------- <--- pair <--- its answer
 */
#include "backend/postgres/login.h"

#include "backend/postgres/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEADER 5         /* kind and length */
#define MESSAGE_MAX 2048 /* of a request; libpq takes no more than 2000 */
#define ANSWER_MAX 4096
#define CLEARTEXT 3

/* What stands at the beginning of what the server has sent. */
enum first {
    FIRST_NOTHING,    /* it is not there yet */
    FIRST_OTHER,      /* libpq sends no password for it */
    FIRST_ANSWERABLE, /* of a length that is known */
    FIRST_TELLING
};

static uint32_t read_number(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
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
    return read_number(bytes + HEADER) == CLEARTEXT ? FIRST_TELLING : FIRST_ANSWERABLE;
}

/* A server that does not offer what was asked for says so with one byte, and libpq goes on in the clear. */
static enum first read_first(const PGconn *pg, const unsigned char *bytes, size_t count,
                             size_t *ret_length)
{
    if (PQstatus(pg) == CONNECTION_AWAITING_RESPONSE)
        return read_request(bytes, count, ret_length);
    *ret_length = 1;
    return bytes[0] == 'N' ? FIRST_ANSWERABLE : FIRST_OTHER;
}

/* ---- Another socket in the place of libpq's ---------------------------------------------------- */

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

/* ---- The whole ------------------------------------------------------------------------------ */

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

enum sb_postgres_login sb_postgres_login_poll(PGconn *pg, size_t *received)
{
    if (!sb_postgres_count(pg, received))
        return SB_POSTGRES_LOGIN_FLOOD;
    return has_to_look(pg) ? poll_looking(pg) : outcome_of(PQconnectPoll(pg));
}
