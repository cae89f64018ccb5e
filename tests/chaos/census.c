/*
 * census.c - counts what the kernel lists of this process.
 */
#include "census.h"

#include "journal.h"
#include "lib/process.h"

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

struct census census_take(void)
{
    struct census census = {test_thread_count(), test_descriptor_count()};

    return census;
}

void census_tell_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char target[256];
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target);

        if (length > 0)
            journal_write("descriptor %s %.*s", entry->d_name, (int)length, target);
    }
    if (folder != NULL)
        closedir(folder);
}
