/*
 * census.c - see census.h.
 */
#include "census.h"

#include "heap.h"
#include "lib/process.h"
#include "test.h"

struct census census_take(void)
{
    struct census census = {
        .blocks = heap_live(),
        .threads = test_thread_count(),
        .descriptors = test_descriptor_count(),
    };

    assert_true(census.threads > 0 && census.descriptors > 0);
    return census;
}

void census_check(const struct census *before, const char *occasion)
{
    struct census now = census_take();

    if (now.blocks != before->blocks || now.threads != before->threads ||
        now.descriptors != before->descriptors)
        fail_msg("%s: %+ld blocks, %+d threads, %+d descriptors are left", occasion,
                 now.blocks - before->blocks, now.threads - before->threads,
                 now.descriptors - before->descriptors);
}
