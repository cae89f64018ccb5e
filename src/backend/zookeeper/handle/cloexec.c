/*
 * cloexec.c - finds descriptors in /proc/self/fd by what they are. A descriptor of the application
 * that looks the same is marked, too; that takes a race, or a second user of the library.
 */
#include "backend/zookeeper/handle/handle.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static void visit(void (*visitor)(int fd, void *argument), void *argument)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;

    if (folder == NULL)
        return;
    while ((entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            visitor(atoi(entry->d_name), argument);
    closedir(folder);
}

static bool is_marked(int fd)
{
    int flags = fcntl(fd, F_GETFD);

    return flags < 0 || (flags & FD_CLOEXEC) != 0;
}

static void mark(int fd)
{
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static bool is_open_pipe(int fd)
{
    struct stat status;
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_NONBLOCK) != 0 && !is_marked(fd) && fstat(fd, &status) == 0 &&
           S_ISFIFO(status.st_mode);
}

static void note_pipe(int fd, void *argument)
{
    struct sb_zk_pipes *pipes = argument;

    if (pipes->count < SB_ZK_PIPES_MAX && is_open_pipe(fd))
        pipes->fds[pipes->count++] = fd;
}

void sb_zk_pipes_note(struct sb_zk_pipes *pipes)
{
    pipes->count = 0;
    visit(note_pipe, pipes);
}

static void mark_new_pipe(int fd, void *argument)
{
    const struct sb_zk_pipes *pipes = argument;

    if (!is_open_pipe(fd))
        return;
    for (int i = 0; i < pipes->count; i++)
        if (pipes->fds[i] == fd)
            return;
    mark(fd);
}

void sb_zk_pipes_close_on_exec(const struct sb_zk_pipes *pipes)
{
    visit(mark_new_pipe, (void *)(uintptr_t)pipes);
}

struct peer {
    struct sockaddr_storage address;
    socklen_t length;
};

static void mark_socket(int fd, void *argument)
{
    const struct peer *peer = argument;
    struct sockaddr_storage address;
    socklen_t length = sizeof address;

    memset(&address, 0, sizeof address);
    if (!is_marked(fd) && getpeername(fd, (struct sockaddr *)&address, &length) == 0 &&
        length == peer->length && memcmp(&address, &peer->address, length) == 0)
        mark(fd);
}

void sb_zk_close_on_exec(zhandle_t *zk)
{
    struct peer peer = {.length = sizeof peer.address};

    if (zookeeper_get_connected_host(zk, (struct sockaddr *)&peer.address, &peer.length) != NULL)
        visit(mark_socket, &peer);
}
