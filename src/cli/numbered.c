/*
 * numbered.c - folders of /proc whose entries are numbers. The kernel goes by the numbers, not by places in a list.
 */
#include "cli/numbered.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

/* -1: it is no number. */
static int number_of(const char *name)
{
    int number = 0;
    const char *digit = name;

    for (; *digit >= '0' && *digit <= '9'; digit++)
        number = number * 10 + (*digit - '0');
    return *digit == 0 && digit != name ? number : -1;
}

static bool visit_some(const char *entries, size_t length, cli_numbered_visit *visit, void *user)
{
    const struct dirent64 *entry;
    bool goes_on = true;

    for (size_t at = 0; at < length && goes_on; at += entry->d_reclen) {
        entry = (const struct dirent64 *)(const void *)(entries + at);
        int number = number_of(entry->d_name);
        goes_on = number < 0 || visit(number, user);
    }
    return goes_on;
}

bool cli_numbered_each(const char *folder, cli_numbered_visit *visit, void *user)
{
    char entries[4096] __attribute__((aligned(__alignof__(struct dirent64))));
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t length = 0;

    if (fd < 0)
        return false;
    while ((length = getdents64(fd, entries, sizeof entries)) > 0) {
        if (!visit_some(entries, (size_t)length, visit, user))
            break;
    }
    close(fd);
    return length >= 0;
}
