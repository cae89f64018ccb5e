/*
 * crowd.c - a command that starts many processes, each in a session of its own, and appends all
 * their pids, one in a line, to the file `pids`.
 *
 *   crowd line COUNT    each is the child of the one before
 *   crowd row COUNT     all are children of the command
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void tell(int fd)
{
    char line[16];
    int length = snprintf(line, sizeof line, "%d\n", (int)getpid());

    setsid();
    if (write(fd, line, (size_t)length) != length)
        _exit(1);
}

int main(int argc, char **argv)
{
    int fd = open("pids", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int count = argc == 3 ? atoi(argv[2]) : 0;
    int is_line = argc == 3 && strcmp(argv[1], "line") == 0;

    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid == 0)
            tell(fd);
        if ((pid == 0) != is_line)
            break;
    }
    sleep(100);
    return 0;
}
