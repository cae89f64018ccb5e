/*
 * stop.c - looks at the locks of the process that was stopped, and lets it go on for a moment where
 * it has one.
 *
 * No lock is asked for: a process that opens and closes a file of SQLite gives up all its locks on
 * it. And the kernel's list of all locks is handed out in parts, between which entries move, so
 * that one may be missed.
 */
#include "stop.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define TRIES 200
#define BETWEEN_NS (10 * 1000 * 1000)

/* Whether a descriptor (of /proc/PID/fdinfo) excludes others from a part of its file. Locks of an
 * open file are not meant, which say nothing but that a process is alive: they have another
 * name. */
static bool excludes_others(int folder, const char *descriptor)
{
    int fd = openat(folder, descriptor, O_RDONLY | O_CLOEXEC);
    FILE *info = fd >= 0 ? fdopen(fd, "r") : NULL;
    char line[256];
    bool found = false;

    if (info == NULL)
        return false;
    while (!found && fgets(line, sizeof line, info) != NULL)
        found = strncmp(line, "lock:", 5) == 0 && strstr(line, "POSIX") != NULL &&
                strstr(line, "WRITE") != NULL;
    fclose(info);
    return found;
}

static bool holds_others_up(pid_t pid)
{
    char path[64];
    bool found = false;
    DIR *folder;

    snprintf(path, sizeof path, "/proc/%d/fdinfo", (int)pid);
    folder = opendir(path);
    if (folder == NULL)
        return false;
    for (const struct dirent *entry = readdir(folder); !found && entry != NULL;
         entry = readdir(folder))
        found = entry->d_name[0] != '.' && excludes_others(dirfd(folder), entry->d_name);
    closedir(folder);
    return found;
}

static bool stop(pid_t pid)
{
    siginfo_t info;

    return kill(pid, SIGSTOP) == 0 && waitid(P_PID, (id_t)pid, &info, WSTOPPED) == 0;
}

bool test_stop_child(pid_t pid)
{
    const struct timespec between = {0, BETWEEN_NS};

    for (int i = 0; i < TRIES && stop(pid); i++) {
        if (!holds_others_up(pid))
            return true;
        kill(pid, SIGCONT);
        nanosleep(&between, NULL);
    }
    return false;
}
