/*
 * terminal.c - the terminal that controls this process, and whose turn it is at it.
 */
#include "cli/terminal.h"

#include "cli/say.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int cli_terminal_open(void)
{
    return open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

/* The name of a process may hold anything, parentheses included: what is looked for stands behind the last. */
static pid_t group_of(const char *pid)
{
    char path[64];
    char text[512];
    int group = 0;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *behind = strrchr(text, ')');
    return behind != NULL && sscanf(behind, ") %*c %*d %d", &group) == 1 ? group : 0;
}

/* Whether nobody else is in the process group. */
static bool is_alone(void)
{
    size_t members = 0;
    DIR *folder = opendir("/proc");

    if (folder == NULL)
        return false;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL && members < 2;) {
        if (isdigit((unsigned char)entry->d_name[0]) && group_of(entry->d_name) == getpgrp())
            members++;
    }
    closedir(folder);
    return members == 1;
}

/* A script is in the group of what it runs, too. It is not a pipeline when all that is said goes to the
 * terminal. */
bool cli_terminal_is_ours(int fd)
{
    pid_t group = getpgrp();

    if (fd < 0 || tcgetpgrp(fd) != group)
        return false;
    return (tcgetpgrp(STDOUT_FILENO) == group && tcgetpgrp(STDERR_FILENO) == group) || is_alone();
}

void cli_terminal_give(int fd, pid_t group)
{
    if (tcsetpgrp(fd, group) != 0 && errno != ENOTTY && errno != EIO)
        cli_say("cannot hand over the terminal: %s", strerror(errno));
}
