/*
 * loop_owner.c - hands the loop from thread to thread, and lets the loop's thread sleep.
 *
 * Taking and giving up happen under `lock`, which is never held for longer: what one owner of the
 * loop has done is seen by the next.
 */
#include "runtime/loop_owner.h"

#include "base/check.h"
#include "runtime/lock.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* How long the loop is not used before its thread takes it. Short beside the drift margin, which
 * pays for it; long beside what a program does between two calls. */
#define CHECK_MS 1

/* Its address is the name of a thread. */
static _Thread_local char self;

/* ---- What wakes the loop's thread ------------------------------------------------------------ */

static int change_watched(struct sb_loop_owner *w, int operation, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    return epoll_ctl(w->watch_fd, operation, fd, &event) == 0 ? 0 : -errno;
}

/* wake_fd always wakes it, events only on demand. */
static int open_watch(struct sb_loop_owner *w)
{
    int code;

    w->watch_fd = epoll_create1(EPOLL_CLOEXEC);
    if (w->watch_fd < 0)
        return -errno;
    code = change_watched(w, EPOLL_CTL_ADD, w->wake_fd, EPOLLIN);
    if (code == 0)
        code = change_watched(w, EPOLL_CTL_ADD, w->events_fd, 0);
    if (code < 0)
        close(w->watch_fd);
    return code;
}

int sb_loop_owner_init(struct sb_loop_owner *w, int events_fd)
{
    int code;

    w->events_fd = events_fd;
    w->wake_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (w->wake_fd < 0)
        return -errno;
    code = open_watch(w);
    if (code < 0) {
        close(w->wake_fd);
        return code;
    }
    sb_lock_init(&w->lock);
    pthread_cond_init(&w->freed, NULL);
    return 0;
}

void sb_loop_owner_destroy(struct sb_loop_owner *w)
{
    SB_CHECK(w->waiting == 0 && !w->is_borrowed, "a loop is freed when no thread waits for it");
    pthread_cond_destroy(&w->freed);
    pthread_mutex_destroy(&w->lock);
    close(w->watch_fd);
    close(w->wake_fd);
}

/* Says whether events wake it. To change that cannot fail, for both are in the set. */
static void watch_events(struct sb_loop_owner *w, bool on)
{
    if (w->sees_events != on) {
        SB_CHECK(sb_lock_is_mine(&w->lock), "what wakes the loop's thread changes with the lock");
        change_watched(w, EPOLL_CTL_MOD, w->events_fd, on ? EPOLLIN : 0);
    }
    w->sees_events = on;
}

bool sb_loop_owner_is_me(const struct sb_loop_owner *w)
{
    return atomic_load_explicit(&w->holder, memory_order_relaxed) == &self;
}

/* ---- The sleep of the loop's thread ---------------------------------------------------------- */

/* It can be set for later: the waking does not hold up the thread that sets it. */
static void wake_in(struct sb_loop_owner *w, int ms)
{
    const struct itimerspec when = {.it_value = {.tv_nsec = ms > 0 ? ms * 1000000L : 1}};

    SB_CHECK(sb_lock_is_mine(&w->lock), "the loop's thread is woken with the lock held");
    timerfd_settime(w->wake_fd, 0, &when, NULL);
}

/* Returns when wake_fd goes off, when there is an event that it watches for, or when the time is
 * up. A wake-up that is set again before it is read does not go off, but then it will. */
static void sleep_until_woken(struct sb_loop_owner *w, int timeout_ms)
{
    struct epoll_event happened[2];
    uint64_t rings;
    int count;

    SB_CHECK(!sb_loop_owner_is_me(w), "a thread that sleeps does not own the loop");
    count = epoll_wait(w->watch_fd, happened, 2, timeout_ms);
    for (int i = 0; i < count; i++)
        if (happened[i].data.fd == w->wake_fd)
            while (read(w->wake_fd, &rings, sizeof rings) < 0 && errno == EINTR)
                continue;
}

/* Looks again after a while as long as there are signs of a borrower. One that has run nothing
 * since the last time waits for long: it wakes this thread when it leaves. */
void sb_loop_owner_take(struct sb_loop_owner *w)
{
    sb_lock_take(&w->lock);
    for (;;) {
        unsigned uses = atomic_load_explicit(&w->uses, memory_order_relaxed);
        bool used = uses != w->seen;

        if (!w->is_borrowed && (!used || w->urgent))
            break;
        w->seen = uses;
        w->thread = used ? CHECKING : SLEEPING;
        watch_events(w, false);
        sb_lock_release(&w->lock);
        sleep_until_woken(w, used ? CHECK_MS : -1);
        sb_lock_take(&w->lock);
    }
    SB_CHECK(atomic_load_explicit(&w->holder, memory_order_relaxed) == NULL,
             "a loop has one owner");
    w->urgent = false;
    w->thread = WORKING;
    atomic_store_explicit(&w->holder, &self, memory_order_relaxed);
    sb_lock_release(&w->lock);
}

void sb_loop_owner_wait(struct sb_loop_owner *w, int timeout_ms)
{
    bool wanted;

    sb_lock_take(&w->lock);
    SB_CHECK(sb_loop_owner_is_me(w), "the owner gives a loop up");
    atomic_store_explicit(&w->holder, NULL, memory_order_relaxed);
    SB_CHECK(w->thread == WORKING, "the loop's thread waits after it has worked");
    w->seen = atomic_load_explicit(&w->uses, memory_order_relaxed);
    w->thread = WATCHING;
    wanted = w->is_borrowed;
    if (wanted)
        pthread_cond_signal(&w->freed);
    else
        watch_events(w, true);
    sb_lock_release(&w->lock);
    if (!wanted)
        sleep_until_woken(w, timeout_ms);
}

void sb_loop_owner_wake(struct sb_loop_owner *w)
{
    sb_lock_take(&w->lock);
    if (!w->is_borrowed && w->thread == CHECKING) {
        w->urgent = true;
        wake_in(w, 0);
    }
    sb_lock_release(&w->lock);
}

/* ---- Borrowers ------------------------------------------------------------------------------- */

bool sb_loop_owner_join(struct sb_loop_owner *w)
{
    bool is_borrower;

    sb_lock_take(&w->lock);
    is_borrower = w->waiting++ == 0 && !sb_loop_owner_is_me(w);
    if (is_borrower) {
        SB_CHECK(!w->is_borrowed, "a loop has one borrower");
        w->is_borrowed = true;
        while (atomic_load_explicit(&w->holder, memory_order_relaxed) != NULL)
            pthread_cond_wait(&w->freed, &w->lock);
        atomic_store_explicit(&w->holder, &self, memory_order_relaxed);
    }
    sb_lock_release(&w->lock);
    return is_borrower;
}

void sb_loop_owner_note_use(struct sb_loop_owner *w)
{
    atomic_fetch_add_explicit(&w->uses, 1, memory_order_relaxed);
}

/* With the lock held. What the borrower waits for would wake the loop's thread as well, and on a
 * small machine take the core from the thread that is needed next. */
static void send_to_sleep(struct sb_loop_owner *w)
{
    SB_CHECK(sb_lock_is_mine(&w->lock), "the loop's thread is sent to sleep with the lock held");
    SB_CHECK(w->is_borrowed, "only a borrower lets the thread sleep");
    if (w->thread == WATCHING) {
        watch_events(w, false);
        w->thread = SLEEPING;
    }
}

void sb_loop_owner_let_sleep(struct sb_loop_owner *w)
{
    sb_lock_take(&w->lock);
    send_to_sleep(w);
    sb_lock_release(&w->lock);
}

/* The loop's thread is to begin to check. From now on it does so by itself, and is not woken
 * again. */
static void let_thread_check(struct sb_loop_owner *w)
{
    SB_CHECK(w->thread == SLEEPING, "a thread that sleeps begins to check");
    SB_CHECK(!w->is_borrowed, "the loop's thread checks a loop that was given back");
    w->thread = CHECKING;
    wake_in(w, CHECK_MS);
}

/* A thread that still waits must not wait until the loop's thread checks again. */
void sb_loop_owner_leave(struct sb_loop_owner *w, bool is_borrower)
{
    sb_lock_take(&w->lock);
    SB_CHECK(w->waiting > 0, "a thread that leaves has joined");
    w->waiting--;
    if (is_borrower) {
        SB_CHECK(w->is_borrowed && sb_loop_owner_is_me(w), "the borrower gives a loop back");
        send_to_sleep(w);
        w->is_borrowed = false;
        w->urgent = w->waiting > 0;
        atomic_store_explicit(&w->holder, NULL, memory_order_relaxed);
        sb_loop_owner_note_use(w);
        if (w->urgent)
            wake_in(w, 0);
        else if (w->thread == SLEEPING)
            let_thread_check(w);
    }
    sb_lock_release(&w->lock);
}
