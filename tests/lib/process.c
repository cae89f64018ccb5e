/*
 * process.c - counts what the kernel lists of this process.
 */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The kernel's PF_EXITING, set before the thread that joins is woken. */
#define FLAG_EXITING 0x4u

/* Of the entries of a folder, those that count. */
static int count(const char *path, bool (*counts)(const char *entry))
{
    DIR *folder = opendir(path);
    int sum = 0;

    if (folder == NULL)
        return -1;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        sum += entry->d_name[0] != '.' && counts(entry->d_name) ? 1 : 0;
    closedir(folder);
    return sum;
}

/* The name before the fields may hold spaces and brackets, so they are looked for from the end. */
static bool is_alive(const char *thread)
{
    char path[300];
    char line[1024] = "";
    unsigned flags = FLAG_EXITING;
    const char *fields;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%s/stat", thread);
    file = fopen(path, "re");
    if (file == NULL)
        return errno != ENOENT && errno != ESRCH; /* it has gone since it was listed */
    if (fgets(line, sizeof line, file) != NULL && (fields = strrchr(line, ')')) != NULL)
        (void)sscanf(fields, ") %*c %*d %*d %*d %*d %*d %u", &flags);
    fclose(file);
    return (flags & FLAG_EXITING) == 0;
}

static bool is_any(const char *entry)
{
    (void)entry;
    return true;
}

int test_thread_count(void)
{
    return count("/proc/self/task", is_alive);
}

int test_descriptor_count(void)
{
    return count("/proc/self/fd", is_any);
}
