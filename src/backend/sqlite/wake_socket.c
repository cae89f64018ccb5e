/*
 * wake_socket.c - the datagram socket by which one client is told that a contender of its own comes
 * next: the address, both ends, and the form of a message. Must not know SQLite.
 *
 *     secret, 8 bytes | notice, 1 byte | mutex, NUL | id, NUL
 */
#include "backend/sqlite/wake_socket.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SECRET_BYTES 8
#define HEAD_BYTES (SECRET_BYTES + 1)
#define MESSAGE_MAX (HEAD_BYTES + SIMBA_MUTEX_MAX + 1 + SIMBA_ID_MAX + 1)
#define RECEIVED_MAX 64 /* in one go: the loop has other things to do */

/* ---- The address ----------------------------------------------------------------------------- */

void sb_sqlite_address_write(const struct sb_sqlite_address *address,
                             char ret_client[SB_SQL_CLIENT_MAX + 1])
{
    struct sb_text text;

    sb_text_init(&text, ret_client, SB_SQL_CLIENT_MAX + 1);
    sb_text_add(&text, "%016" PRIx64 "-%016" PRIx64 "-%016" PRIx64, address->name, address->secret,
                (uint64_t)address->life);
}

struct sb_sqlite_address sb_sqlite_address_read(const char *client)
{
    struct sb_sqlite_address address = {0};
    uint64_t life = 0;

    if (sscanf(client, "%16" SCNx64 "-%16" SCNx64 "-%16" SCNx64, &address.name, &address.secret,
               &life) != 3)
        return (struct sb_sqlite_address){0};
    address.life = (int64_t)life;
    return address;
}

/* The first byte of an abstract name is zero. */
static socklen_t name_socket(uint64_t name, struct sockaddr_un *ret_name)
{
    struct sb_text text;

    memset(ret_name, 0, sizeof *ret_name);
    ret_name->sun_family = AF_UNIX;
    sb_text_init(&text, ret_name->sun_path + 1, sizeof ret_name->sun_path - 1);
    sb_text_add(&text, "simba-%016" PRIx64, name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(ret_name->sun_path + 1));
}

static void put_secret(uint64_t secret, unsigned char bytes[SECRET_BYTES])
{
    for (int i = 0; i < SECRET_BYTES; i++)
        bytes[i] = (unsigned char)(secret >> (8 * (SECRET_BYTES - 1 - i)));
}

/* ---- The receiving end ----------------------------------------------------------------------- */

void sb_sqlite_wake_socket_init(struct sb_sqlite_wake_socket *s,
                                const struct simba_backend_host *host)
{
    memset(s, 0, sizeof *s);
    s->host = host;
    atomic_init(&s->fd, -1);
    atomic_init(&s->called, false);
}

/* The kernel keeps messages that begin with the secret. The filter comes before the name: there is
 * no instant in which others could send. */
static bool set_filter(int fd, uint64_t secret)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(secret >> 32), 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)secret, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, MESSAGE_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const struct sock_fprog program = {sizeof code / sizeof code[0], code};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

static bool draw_address(struct sb_sqlite_address *ret_address)
{
    uint64_t drawn[2];

    if (getrandom(drawn, sizeof drawn, GRND_NONBLOCK) != (ssize_t)sizeof drawn)
        return false;
    ret_address->name = drawn[0] | 1; /* never 0 */
    ret_address->secret = drawn[1];
    return true;
}

static int open_socket(struct sb_sqlite_address *ret_address)
{
    struct sb_sqlite_address address = {0};
    struct sockaddr_un name;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int code;

    if (fd < 0)
        return -1;
    if (draw_address(&address) && set_filter(fd, address.secret)) {
        socklen_t length = name_socket(address.name, &name);

        if (bind(fd, (const struct sockaddr *)&name, length) == 0) {
            *ret_address = address;
            return fd;
        }
    }
    code = errno;
    close(fd);
    errno = code;
    return -1;
}

const struct sb_sqlite_address *sb_sqlite_wake_socket_open(struct sb_sqlite_wake_socket *s)
{
    if (!s->tried) {
        int fd = open_socket(&s->address);

        s->tried = true;
        atomic_store(&s->fd, fd);
        if (fd < 0)
            s->host->log(s->host, SIMBA_LOG_INFO,
                         "no socket to be woken by, so a release wakes all waiters: %s",
                         strerror(errno));
    }
    return &s->address;
}

/* What is no message of ours is passed over. */
static void take_message(struct sb_sqlite_wake_socket *s, const char *message, size_t length)
{
    const char *mutex = message + HEAD_BYTES;
    enum simba_notice notice = SIMBA_NOTICE_RELEASED;
    size_t mutex_length;

    if (length < HEAD_BYTES + 2 || message[length - 1] != '\0')
        return;
    if (message[SECRET_BYTES] == SIMBA_NOTICE_RESERVED ||
        message[SECRET_BYTES] == SIMBA_NOTICE_STANDBY)
        notice = (enum simba_notice)message[SECRET_BYTES];
    mutex_length = strlen(mutex);
    if (HEAD_BYTES + mutex_length + 1 >= length)
        return;
    if (notice == SIMBA_NOTICE_RELEASED)
        atomic_store(&s->called, true);
    s->host->notice(s->host, notice, mutex, mutex + mutex_length + 1);
}

/* What is left over comes again: the loop asks whether the socket can be read. */
void sb_sqlite_wake_socket_receive(struct sb_sqlite_wake_socket *s)
{
    char message[MESSAGE_MAX];

    for (int i = 0; i < RECEIVED_MAX; i++) {
        ssize_t length = recv(atomic_load(&s->fd), message, sizeof message, MSG_DONTWAIT);

        if (length < 0)
            return;
        take_message(s, message, (size_t)length);
    }
}

void sb_sqlite_wake_socket_close(struct sb_sqlite_wake_socket *s)
{
    int fd = atomic_exchange(&s->fd, -1);

    if (fd >= 0)
        close(fd);
}

/* ---- The sending end ------------------------------------------------------------------------- */

int sb_sqlite_wake_socket_create_sender(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

bool sb_sqlite_wake_socket_send(int fd, const struct sb_sqlite_address *to,
                                enum simba_notice notice, const char *mutex, const char *id)
{
    unsigned char message[MESSAGE_MAX];
    struct sockaddr_un name;
    socklen_t name_length = name_socket(to->name, &name);
    size_t mutex_size = strlen(mutex) + 1;
    size_t length = HEAD_BYTES + mutex_size + strlen(id) + 1;

    if (length > sizeof message)
        return false;
    put_secret(to->secret, message);
    message[SECRET_BYTES] = (unsigned char)notice;
    memcpy(message + HEAD_BYTES, mutex, mutex_size);
    memcpy(message + HEAD_BYTES + mutex_size, id, strlen(id) + 1);
    return sendto(fd, message, length, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&name,
                  name_length) == (ssize_t)length;
}
