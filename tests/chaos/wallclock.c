/*
 * wallclock.c - preloaded into a process, lets its wall clock be stepped and slewed from outside,
 * and none of its other clocks.
 *
 * How far the clock is off stands in the file that SIMBA_WALLCLOCK names; the file is mapped, so
 * that a change is seen at once and costs nothing. Of its two settings one is valid; a writer
 * writes the other one first, and then which of them it is. Nothing is allocated and the kernel is
 * called directly: a server's own allocator asks for the time before it can serve anybody, which
 * libfaketime does not survive in Redis.
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

#define NS_PER_S 1000000000
#define PPM 1000000

/* At `since_ns` of the boot clock it was `offset_ns` ahead, and it gains `rate_ppm` since. */
struct setting {
    int64_t offset_ns;
    int64_t rate_ppm;
    int64_t since_ns;
};

struct wallclock {
    _Atomic int64_t valid; /* which of the settings */
    struct setting settings[2];
};

static const struct wallclock *wallclock;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("SIMBA_WALLCLOCK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory;

    if (fd < 0)
        return;
    memory = mmap(NULL, sizeof *wallclock, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (memory != MAP_FAILED)
        wallclock = memory;
}

static int64_t boot_ns(void)
{
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int64_t offset_ns(void)
{
    const struct setting *s;

    if (wallclock == NULL)
        return 0;
    s = &wallclock->settings[atomic_load_explicit(&wallclock->valid, memory_order_acquire) & 1];
    return s->offset_ns + (s->rate_ppm != 0 ? (boot_ns() - s->since_ns) / PPM * s->rate_ppm : 0);
}

/* The names and types are those of the C library. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = (int)syscall(SYS_clock_gettime, clock, now);

    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t told_ns = (int64_t)now->tv_sec * NS_PER_S + now->tv_nsec + offset_ns();

        now->tv_sec = told_ns / NS_PER_S;
        now->tv_nsec = told_ns % NS_PER_S;
    }
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
