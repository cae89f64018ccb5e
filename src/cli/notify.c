/*
 * notify.c - reports to the service manager: the protocol of sd_notify(3), without libsystemd.
 */
#include "cli/events.h"

#include "base/time.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_MAX 1024

/* The pause between two attempts where the socket of the manager is full. */
#define RETRY_MS 100

/* Fills in the address; "@name" is one without a file. Returns its length, 0: no manager. */
static socklen_t find_manager(struct sockaddr_un *address)
{
    const char *name = getenv("NOTIFY_SOCKET");
    size_t length = name != NULL ? strlen(name) : 0;

    if (length < 2 || length >= sizeof address->sun_path || (name[0] != '/' && name[0] != '@'))
        return 0;
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, name, length);
    if (name[0] == '@')
        address->sun_path[0] = 0;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (name[0] == '/'));
}

/* A manager that does not read must not delay a renewal, so a message is dropped when the socket is
 * full. Returns false then. */
static bool send_message(const char *message)
{
    struct sockaddr_un address;
    socklen_t length = find_manager(&address);

    if (length == 0)
        return true;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true;
    ssize_t sent = sendto(fd, message, strlen(message), MSG_NOSIGNAL,
                          (const struct sockaddr *)&address, length);
    bool full = sent < 0 && (errno == EAGAIN || errno == ENOBUFS);
    close(fd);
    return !full;
}

/* ---- Readiness ------------------------------------------------------------------------------- */

static bool ready_is_due; /* the socket was full */

void cli_notify_ready(void)
{
    ready_is_due = !send_message("READY=1\n");
}

int64_t cli_notify_retry(void)
{
    if (ready_is_due)
        cli_notify_ready();
    return ready_is_due ? sb_later(simba_now_ms(), RETRY_MS) : SIMBA_INFINITE;
}

/* ---- The rest -------------------------------------------------------------------------------- */

/* A line break in a name would begin another variable. */
static void send_status(const char *before, const char *format, va_list arguments)
{
    char sentence[MESSAGE_MAX / 2];
    char safe[MESSAGE_MAX / 2];
    char message[MESSAGE_MAX];

    vsnprintf(sentence, sizeof sentence, format, arguments);
    cli_text_printable(sentence, safe, sizeof safe);
    snprintf(message, sizeof message, "%sSTATUS=%s\n", before, safe);
    send_message(message);
}

void cli_notify_status(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    send_status("", format, arguments);
    va_end(arguments);
}

void cli_notify_starting(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    send_status("EXTEND_TIMEOUT_USEC=30000000\n", format, arguments);
    va_end(arguments);
}

void cli_notify_stopping(void)
{
    send_message("STOPPING=1\n");
}

/* ---- The watchdog ---------------------------------------------------------------------------- */

static int64_t healthy_at_ms; /* 0: at once */

/* 0: the text is NULL, or no number. */
static int64_t read_number(const char *text)
{
    char *end = NULL;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return 0;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    return errno == 0 && *end == 0 ? (int64_t)number : 0;
}

/* Half of what the manager allows; 0: it does not watch this process. */
static int64_t interval_ms(void)
{
    int64_t allowed_us = read_number(getenv("WATCHDOG_USEC"));
    const char *pid = getenv("WATCHDOG_PID"); /* not set: any process */

    if (allowed_us <= 0 || (pid != NULL && read_number(pid) != getpid()))
        return 0;
    return allowed_us >= 2000 ? allowed_us / 2000 : 1;
}

void cli_notify_healthy(void)
{
    int64_t now_ms = simba_now_ms();

    if (interval_ms() == 0 || now_ms < healthy_at_ms)
        return;
    send_message("WATCHDOG=1\n");
    healthy_at_ms = now_ms + interval_ms();
}

int64_t cli_notify_healthy_at_ms(void)
{
    return interval_ms() == 0 ? SIMBA_INFINITE : healthy_at_ms;
}
