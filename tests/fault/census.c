/*
 * census.c - see census.h.
 */
#include "census.h"

#include "heap.h"
#include "test.h"

#include <dirent.h>

static unsigned count_entries(const char *path)
{
    DIR *folder = opendir(path);
    unsigned count = 0;

    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.' ? 1 : 0;
    closedir(folder);
    return count;
}

struct census census_take(void)
{
    struct census census = {
        .blocks = heap_live(),
        .threads = count_entries("/proc/self/task"),
        .descriptors = count_entries("/proc/self/fd"),
    };

    return census;
}

static bool is_same(void *user)
{
    const struct census *before = user;
    struct census now = census_take();

    return now.blocks == before->blocks && now.threads == before->threads &&
           now.descriptors == before->descriptors;
}

void census_check(const struct census *before, const char *occasion)
{
    struct census expected = *before;
    struct census now;

    if (test_wait_within(1000, is_same, &expected))
        return;
    now = census_take();
    fail_msg("%s: %+ld blocks, %+d threads, %+d descriptors are left", occasion,
             now.blocks - before->blocks, (int)(now.threads - before->threads),
             (int)(now.descriptors - before->descriptors));
}
