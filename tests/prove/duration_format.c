/*
 * duration_format.c - any duration is written within the bytes of any buffer. What vsnprintf
 * writes, CBMC does not know: it takes any text that fits, and any length.
 */
#include "prove.h"

#include "base/time.h"

#define ROOM 4

int main(void)
{
    char buffer[ROOM];
    size_t size = (size_t)prove_between(1, ROOM);

    PROVE_THAT(simba_duration_format(nondet_int64(), buffer, size) == buffer,
               "the text stands in the buffer of the caller");
    PROVE_END();
    return 0;
}
