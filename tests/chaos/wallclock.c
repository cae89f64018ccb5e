/*
 * wallclock.c - preloaded into a process, lets its wall clock be stepped from outside, and none of its other clocks.
 *
 * The step, in seconds, is a number in the file that SIMBA_WALLCLOCK names; the file is mapped, so that a step is
 * seen at once and costs nothing. It allocates nothing and calls the kernel directly: a server's own allocator asks
 * for the time before it can serve anybody, which libfaketime does not survive in Redis.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const _Atomic int64_t *step;

__attribute__((constructor)) static void map_step(void)
{
    const char *path = getenv("SIMBA_WALLCLOCK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory;

    if (fd < 0)
        return;
    memory = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (memory != MAP_FAILED)
        step = memory;
}

static int64_t step_seconds(void)
{
    return step != NULL ? atomic_load_explicit(step, memory_order_relaxed) : 0;
}

/* The names and types are those of the C library. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = (int)syscall(SYS_clock_gettime, clock, now);

    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += step_seconds();
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *ret_now)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret_now != NULL)
        *ret_now = now.tv_sec;
    return now.tv_sec;
}
