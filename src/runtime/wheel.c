/*
 * wheel.c - a lock that is handed from thread to thread, and the keeper's sleep.
 *
 * Taking and laying down happen under `lock`, which is never held for longer: what one holder of the wheel
 * has done is seen by the next.
 */
#include "runtime/wheel.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* How long the wheel lies idle before the keeper takes it. Short beside the drift margin, which pays for it;
 * long beside what a program does between two calls. */
#define LOOK_MS 1

/* Its address is the name of a thread. */
static _Thread_local char self;

/* ---- What wakes the keeper ------------------------------------------------------------------ */

static int have_watched(struct sb_wheel *w, int operation, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    return epoll_ctl(w->watch_fd, operation, fd, &event) == 0 ? 0 : -errno;
}

/* The bell always wakes it, events only on demand. */
static int open_watch(struct sb_wheel *w)
{
    int code;

    w->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    if (w->watch_fd < 0)
        return -errno;
    code = have_watched(w, EPOLL_CTL_ADD, w->bell_fd, EPOLLIN);
    if (code == 0)
        code = have_watched(w, EPOLL_CTL_ADD, w->events_fd, 0);
    if (code < 0)
        close(w->watch_fd);
    return code;
}

int sb_wheel_init(struct sb_wheel *w, int events_fd)
{
    int code;

    w->events_fd = events_fd;
    w->bell_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (w->bell_fd < 0)
        return -errno;
    code = open_watch(w);
    if (code < 0) {
        close(w->bell_fd);
        return code;
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->freed, NULL);
    return 0;
}

void sb_wheel_destroy(struct sb_wheel *w)
{
    pthread_cond_destroy(&w->freed);
    pthread_mutex_destroy(&w->lock);
    close(w->watch_fd);
    close(w->bell_fd);
}

/* Says whether events wake it. To change that cannot fail, for both are in the set. */
static void watch_events(struct sb_wheel *w, bool on)
{
    if (w->sees_events != on)
        have_watched(w, EPOLL_CTL_MOD, w->events_fd, on ? EPOLLIN : 0);
    w->sees_events = on;
}

bool sb_wheel_is_mine(const struct sb_wheel *w)
{
    return atomic_load_explicit(&w->holder, memory_order_relaxed) == &self;
}

/* ---- The keeper's sleep --------------------------------------------------------------------- */

/* A bell that can be set for later: the keeper's waking does not hold up the thread that sets it. */
static void ring_in(struct sb_wheel *w, int ms)
{
    const struct itimerspec when = {.it_value = {.tv_nsec = ms > 0 ? ms * 1000000L : 1}};

    timerfd_settime(w->bell_fd, 0, &when, NULL);
}

/* Returns when the bell rings, when there is an event that it watches for, or when the time is up. A bell that is
 * set again before it is read does not ring, but then it will. */
static void sleep_lightly(struct sb_wheel *w, int timeout_ms)
{
    struct epoll_event happened[2];
    int count = epoll_wait(w->watch_fd, happened, 2, timeout_ms);
    uint64_t rings;

    for (int i = 0; i < count; i++)
        if (happened[i].data.fd == w->bell_fd)
            while (read(w->bell_fd, &rings, sizeof rings) < 0 && errno == EINTR)
                continue;
}

/* Looks again after a while as long as there are signs of a guest. One that has turned nothing since the last
 * look waits for long: it rings when it leaves. */
void sb_wheel_take(struct sb_wheel *w)
{
    pthread_mutex_lock(&w->lock);
    for (;;) {
        unsigned uses = atomic_load_explicit(&w->uses, memory_order_relaxed);
        bool used = uses != w->seen;

        if (!w->guest && (!used || w->urgent))
            break;
        w->seen = uses;
        w->keeper = used ? LOOKING : SLEEPING;
        watch_events(w, false);
        pthread_mutex_unlock(&w->lock);
        sleep_lightly(w, used ? LOOK_MS : -1);
        pthread_mutex_lock(&w->lock);
    }
    w->urgent = false;
    w->keeper = WORKING;
    atomic_store_explicit(&w->holder, &self, memory_order_relaxed);
    pthread_mutex_unlock(&w->lock);
}

void sb_wheel_watch(struct sb_wheel *w, int timeout_ms)
{
    bool wanted;

    pthread_mutex_lock(&w->lock);
    atomic_store_explicit(&w->holder, NULL, memory_order_relaxed);
    w->seen = atomic_load_explicit(&w->uses, memory_order_relaxed);
    w->keeper = WATCHING;
    wanted = w->guest;
    if (wanted)
        pthread_cond_signal(&w->freed);
    else
        watch_events(w, true);
    pthread_mutex_unlock(&w->lock);
    if (!wanted)
        sleep_lightly(w, timeout_ms);
}

void sb_wheel_hurry(struct sb_wheel *w)
{
    pthread_mutex_lock(&w->lock);
    if (!w->guest && w->keeper == LOOKING) {
        w->urgent = true;
        ring_in(w, 0);
    }
    pthread_mutex_unlock(&w->lock);
}

/* ---- Guests --------------------------------------------------------------------------------- */

bool sb_wheel_join(struct sb_wheel *w)
{
    bool guest;

    pthread_mutex_lock(&w->lock);
    guest = w->waiting++ == 0 && !sb_wheel_is_mine(w);
    if (guest) {
        w->guest = true;
        while (atomic_load_explicit(&w->holder, memory_order_relaxed) != NULL)
            pthread_cond_wait(&w->freed, &w->lock);
        atomic_store_explicit(&w->holder, &self, memory_order_relaxed);
    }
    pthread_mutex_unlock(&w->lock);
    return guest;
}

void sb_wheel_use(struct sb_wheel *w)
{
    atomic_fetch_add_explicit(&w->uses, 1, memory_order_relaxed);
}

/* With the lock held. What the guest waits for would wake the keeper as well, and on a small machine take the core from
 * who is needed next. */
static void send_to_sleep(struct sb_wheel *w)
{
    if (w->keeper == WATCHING) {
        watch_events(w, false);
        w->keeper = SLEEPING;
    }
}

void sb_wheel_dismiss(struct sb_wheel *w)
{
    pthread_mutex_lock(&w->lock);
    send_to_sleep(w);
    pthread_mutex_unlock(&w->lock);
}

/* The keeper is to begin to look. From now on it does so by itself, and the bell is not set again. */
static void have_keeper_look(struct sb_wheel *w)
{
    w->keeper = LOOKING;
    ring_in(w, LOOK_MS);
}

/* A thread that still waits must not wait for the keeper's next look. */
void sb_wheel_leave(struct sb_wheel *w, bool guest)
{
    pthread_mutex_lock(&w->lock);
    w->waiting--;
    if (guest) {
        send_to_sleep(w);
        w->guest = false;
        w->urgent = w->waiting > 0;
        atomic_store_explicit(&w->holder, NULL, memory_order_relaxed);
        sb_wheel_use(w);
        if (w->urgent)
            ring_in(w, 0);
        else if (w->keeper == SLEEPING)
            have_keeper_look(w);
    }
    pthread_mutex_unlock(&w->lock);
}
