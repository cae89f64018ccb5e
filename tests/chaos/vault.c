/*
 * vault.c - the client of the fenced resource. Requests and answers are lines:
 *
 *     read MUTEX FENCE WHO            ok COUNTER, or: stale
 *     write MUTEX FENCE WHO COUNTER   ok, or: stale
 */
#include "vault.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LINE_MAX_BYTES 256

void vault_open(struct vault *vault, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    vault->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (vault->socket < 0 ||
        connect(vault->socket, (struct sockaddr *)&address, sizeof address) != 0) {
        perror(path);
        exit(1);
    }
}

void vault_close(struct vault *vault)
{
    close(vault->socket);
}

/* The harness outlives its workers, unless it was killed: then they end as well. */
static void ask(struct vault *vault, char line[LINE_MAX_BYTES])
{
    size_t length = strlen(line);
    ssize_t got = 0;

    if (send(vault->socket, line, length, MSG_NOSIGNAL) != (ssize_t)length)
        _exit(1);
    for (length = 0; length == 0 || line[length - 1] != '\n'; length += (size_t)got) {
        got = recv(vault->socket, line + length, LINE_MAX_BYTES - 1 - length, 0);
        if (got <= 0 || length + (size_t)got >= LINE_MAX_BYTES - 1)
            _exit(1);
    }
    line[length] = '\0';
}

void vault_use(struct vault *vault, const char *mutex, const char *who, uint64_t fence,
               bool (*still_owner)(void *user), void *user)
{
    char line[LINE_MAX_BYTES];
    uint64_t counter;

    snprintf(line, sizeof line, "read %s %" PRIu64 " %s\n", mutex, fence, who);
    ask(vault, line);
    if (strncmp(line, "ok ", 3) != 0 || !still_owner(user))
        return;
    counter = strtoull(line + 3, NULL, 10) + 1;
    snprintf(line, sizeof line, "write %s %" PRIu64 " %s %" PRIu64 "\n", mutex, fence, who,
             counter);
    ask(vault, line);
}
