/*
 * allocation_test.c - each allocation of the library fails in turn.
 *
 *     fault-allocation [STORE [PATTERN]]
 */
#include "heap.h"
#include "torture.h"

#include <simba/simba.h>

#include <stddef.h>

static struct shortage allocations = {.piece = "allocation", .code = SIMBA_ENOMEM};

int main(int argc, char **argv)
{
    const struct torture torture = {
        .shortage = &allocations,
        .scenes = scenes,
        .store = argc > 1 ? argv[1] : NULL,
        .stride = 1,
    };

    if (heap_install(&allocations) != SIMBA_OK)
        return 1;
    return torture_run(&torture, argc > 2 ? argv[2] : NULL);
}
