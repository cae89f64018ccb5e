/*
 * notify.c - tells the service manager how this program is: the protocol of sd_notify(3).
 *
 * libsystemd is not needed for it, so that the program runs and reports alike where there is none.
 */
#include "cli/notify.h"

#include "cli/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_MAX 1024

/* Fills in the address, "@name" being one without a file. Returns its length, 0 when there is none. */
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

/* A manager that does not read must not hold up a lease, so what finds no room is dropped. */
static void send_message(const char *message)
{
    struct sockaddr_un address;
    socklen_t length = find_manager(&address);

    if (length == 0)
        return;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    ssize_t sent = sendto(fd, message, strlen(message), MSG_NOSIGNAL,
                          (const struct sockaddr *)&address, length);
    (void)sent; /* it is a courtesy */
    close(fd);
}

/* A line break in a name would begin another variable. */
static void send_sentence(const char *before, const char *format, va_list arguments)
{
    char sentence[MESSAGE_MAX / 2];
    char safe[MESSAGE_MAX / 2];
    char message[MESSAGE_MAX];

    vsnprintf(sentence, sizeof sentence, format, arguments);
    cli_text_printable(sentence, safe, sizeof safe);
    snprintf(message, sizeof message, "%sSTATUS=%s\n", before, safe);
    send_message(message);
}

void cli_notify_ready(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    send_sentence("READY=1\n", format, arguments);
    va_end(arguments);
}

void cli_notify_status(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    send_sentence("", format, arguments);
    va_end(arguments);
}

void cli_notify_stopping(void)
{
    send_message("STOPPING=1\n");
}
