/*
 * pause.c - to be preloaded: threads pause, at random, whenever they lock or unlock a mutex.
 *
 * Most pauses are short; a few are as long as a stop timeout of the stress program. PAUSE_SEED
 * decides them, as far as the order in which threads begin is the same.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SHORTEST_NS 1000
#define SHORT_NS 100000
#define LONG_NS 5000000

typedef int lock_fn(pthread_mutex_t *mutex);

static _Atomic(lock_fn *) next_lock;
static _Atomic(lock_fn *) next_unlock;
static atomic_uint_fast64_t threads;
static _Thread_local uint64_t random_state;

static lock_fn *find(_Atomic(lock_fn *) *place, const char *name)
{
    lock_fn *function = atomic_load(place);

    if (function == NULL) {
        *(void **)&function = dlsym(RTLD_NEXT, name);
        atomic_store(place, function);
    }
    return function;
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

static uint64_t draw(void)
{
    const char *seed;

    if (random_state == 0) {
        seed = getenv("PAUSE_SEED");
        random_state = mix((seed != NULL ? strtoull(seed, NULL, 10) : 1) * 1000003 +
                           atomic_fetch_add(&threads, 1)) |
                       1;
    }
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(random_state);
}

/* By the system call itself, because nanosleep() is where a thread can be cancelled and a lock is
 * not. */
static void sleep_ns(long ns)
{
    const struct timespec pause = {0, ns};

    syscall(SYS_nanosleep, &pause, NULL);
}

static void pause_at_random(void)
{
    uint64_t number = draw();
    int before = errno;

    if (number % 1024 == 0)
        sleep_ns(SHORT_NS + (long)(number >> 32) % LONG_NS);
    else if (number % 64 == 1)
        sleep_ns(SHORTEST_NS + (long)(number >> 32) % SHORT_NS);
    else if (number % 8 == 2)
        sched_yield();
    errno = before;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int code;

    pause_at_random();
    code = find(&next_lock, "pthread_mutex_lock")(mutex);
    pause_at_random();
    return code;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    int code = find(&next_unlock, "pthread_mutex_unlock")(mutex);

    pause_at_random();
    return code;
}
