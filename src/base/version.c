/*
 * version.c - the version of the library that is running.
 */
#include <simba/simba.h>

const char *simba_version(void)
{
    return SIMBA_VERSION;
}
