/*
 * descriptors.c - opens descriptors and closes them again.
 */
#include "base/descriptors.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int check_next(int count)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    int code;

    if (fd < 0)
        return -errno;
    code = sb_descriptors_check(count - 1);
    close(fd);
    return code;
}

int sb_descriptors_check(int count)
{
    return count > 0 ? check_next(count) : 0;
}
