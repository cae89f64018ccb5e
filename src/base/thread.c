/*
 * thread.c - threads, signals, descriptors and forks of the process.
 */
#include "base/thread.h"

#include "base/alloc.h"
#include "base/time.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- Threads --------------------------------------------------------------------------------- */

/* What a thread is told; it frees it. */
struct beginning {
    const char *name;
    void *(*run)(void *argument);
    void *argument;
};

/* A thread names itself: naming another thread goes through a file in /proc, which takes as long as
 * starting a thread. */
static void *begin(void *told)
{
    struct beginning beginning = *(struct beginning *)told;

    sb_free(told);
    pthread_setname_np(pthread_self(), beginning.name);
    return beginning.run(beginning.argument);
}

static int start_quietly(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    sigset_t all;
    sigset_t before;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* The long way, which needs no memory. */
static int start_and_name(pthread_t *thread, const char *name, void *(*run)(void *argument),
                          void *argument)
{
    int code = start_quietly(thread, run, argument);

    if (code == 0)
        pthread_setname_np(*thread, name);
    return code;
}

int sb_thread_start(pthread_t *thread, const char *name, void *(*run)(void *argument),
                    void *argument)
{
    struct beginning *beginning = sb_alloc(sizeof *beginning);
    int code;

    if (beginning == NULL)
        return start_and_name(thread, name, run, argument);
    *beginning = (struct beginning){name, run, argument};
    code = start_quietly(thread, begin, beginning);
    if (code != 0)
        sb_free(beginning);
    return code;
}

bool sb_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ms)
{
    int64_t left_ms = sb_time_left(until_ms, simba_now_ms());
    struct timespec until;

    if (left_ms == 0)
        return false;
    if (left_ms == SIMBA_INFINITE) {
        pthread_cond_wait(condition, lock);
        return true;
    }
    until = sb_clock_deadline(left_ms);
    pthread_cond_clockwait(condition, lock, CLOCK_MONOTONIC, &until);
    return true;
}

/* ---- Signals --------------------------------------------------------------------------------- */

static void hold_also(struct sb_signal_hold *hold, int number)
{
    if (sigismember(&hold->before, number) != 0)
        return;
    sigaddset(&hold->held, number);
    hold->any = true;
}

void sb_signal_hold_two(struct sb_signal_hold *hold, int first, int second)
{
    sigset_t both;

    sigemptyset(&both);
    sigaddset(&both, first);
    sigaddset(&both, second);
    pthread_sigmask(SIG_BLOCK, &both, &hold->before);
    sigemptyset(&hold->held);
    hold->any = false;
    hold_also(hold, first);
    hold_also(hold, second);
}

void sb_signal_hold(struct sb_signal_hold *hold, int number)
{
    sb_signal_hold_two(hold, number, number);
}

void sb_signal_let_go(const struct sb_signal_hold *hold)
{
    const struct timespec now = {0};

    if (!hold->any)
        return;
    while (sigtimedwait(&hold->held, NULL, &now) >= 0)
        continue;
    pthread_sigmask(SIG_SETMASK, &hold->before, NULL);
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

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

/* ---- Forks ----------------------------------------------------------------------------------- */

static atomic_uint forks;
static atomic_uint
    *mark; /* 1, and 0 in a copy that has not noticed; NULL: the kernel has no such pages */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static pthread_mutex_t guards_lock =
    PTHREAD_MUTEX_INITIALIZER; /* the first to be taken for a fork */
static struct sb_fork_guard *guards;

static void take_locks(void)
{
    pthread_mutex_lock(&guards_lock);
    for (struct sb_fork_guard *guard = guards; guard != NULL; guard = guard->next)
        pthread_mutex_lock(guard->lock);
}

static void give_locks_back(void)
{
    for (struct sb_fork_guard *guard = guards; guard != NULL; guard = guard->next)
        pthread_mutex_unlock(guard->lock);
    pthread_mutex_unlock(&guards_lock);
}

/* The counter first: a thread that finds the mark set again finds the new count as well. */
static void count_copy(void)
{
    atomic_fetch_add(&forks, 1);
    if (mark != NULL)
        atomic_store(mark, 1);
}

static void begin_child(void)
{
    count_copy();
    for (struct sb_fork_guard *guard = guards; guard != NULL; guard = guard->next)
        if (guard->in_child != NULL)
            guard->in_child();
    give_locks_back();
}

static void map_mark(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        munmap(page, size);
        return;
    }
    mark = page;
    atomic_store(mark, 1);
}

static void arm(void)
{
    map_mark();
    pthread_atfork(take_locks, give_locks_back, begin_child);
}

void sb_fork_watch(void)
{
    pthread_once(&once, arm);
}

unsigned sb_fork_count(void)
{
    if (mark != NULL && atomic_load_explicit(mark, memory_order_acquire) == 0)
        count_copy();
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

void sb_fork_guard(struct sb_fork_guard *guard)
{
    sb_fork_watch();
    pthread_mutex_lock(&guards_lock);
    if (!guard->added) {
        guard->added = true;
        guard->next = guards;
        guards = guard;
    }
    pthread_mutex_unlock(&guards_lock);
}
