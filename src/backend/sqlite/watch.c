/*
 * watch.c - the reading end of the side file. Owns the inotify instance and who listens; must not know
 * SQLite.
 *
 *     idle --- an observer comes, or a contender has to wait ---> armed
 *     armed -- the last one that listened is gone --------------> idle
 *
 * Between the attempt that was lost and the arming somebody may have released. So arming ends with one
 * wake-up of all: whoever looks again after it is told of everything that follows.
 *
 * The inotify instance is kept until the end: closing one takes the kernel milliseconds. Where a user
 * has no instance left, the file is read every 50 ms instead.
 */
#include "backend/sqlite/watch.h"

#include "backend/sqlite/wake.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#define CHECK_MS 1000 /* how often it is made sure that the watched file is still the one */
#define POLL_MIN_MS 40
#define POLL_MAX_MS 60

struct listener {
    struct listener *next; /* in its slot */
    unsigned contenders;
    unsigned observers;
    char mutex[SIMBA_MUTEX_MAX + 1];
};

struct sb_watch {
    const struct simba_backend_host *host;
    const char *wake_path;
    const char *path;
    struct listener *slots[SB_WAKE_SLOTS];
    size_t listeners;
    size_t observers;
    bool armed;
    bool telling; /* notices are being given: entries that become empty stay until they are over */
    bool complained; /* about the lack of inotify or of the file */

    int file; /* the side file, -1: not open */
    uint64_t seen[SB_WAKE_SLOTS];
    struct timespec touched_at;
    uint64_t random;

    int inotify;    /* -1: none */
    int watch;      /* in the instance, -1: none */
    uv_poll_t poll; /* on the instance */
    uv_timer_t timer;
    bool has_timer;
    unsigned open_handles;
    void (*closed)(void *argument);
    void *argument;
};

/* ---- Who listens ---------------------------------------------------------------------------- */

static struct listener **find_listener(struct sb_watch *w, const char *mutex)
{
    struct listener **link = &w->slots[sb_wake_slot(mutex)];

    while (*link != NULL && strcmp((*link)->mutex, mutex) != 0)
        link = &(*link)->next;
    return link;
}

static void remove_empty(struct sb_watch *w, struct listener **link)
{
    while (*link != NULL) {
        struct listener *listener = *link;

        if (listener->contenders > 0 || listener->observers > 0) {
            link = &listener->next;
            continue;
        }
        *link = listener->next;
        sb_free(listener);
        w->listeners--;
    }
}

static void add_listener(struct sb_watch *w, const char *mutex, bool observer)
{
    struct listener **link = find_listener(w, mutex);

    if (*link == NULL) {
        *link = sb_alloc_zero(sizeof **link);
        if (*link == NULL) {
            w->host->log(w->host, SIMBA_LOG_WARN, "out of memory: %s will not be woken", mutex);
            return;
        }
        sb_text_copy((*link)->mutex, sizeof(*link)->mutex, mutex);
        w->listeners++;
    }
    if (observer) {
        (*link)->observers++;
        w->observers++;
    } else {
        (*link)->contenders++;
    }
}

static void remove_listener(struct sb_watch *w, const char *mutex, bool observer)
{
    struct listener **link = find_listener(w, mutex);

    if (*link == NULL)
        return;
    if (observer && (*link)->observers > 0) {
        (*link)->observers--;
        w->observers--;
    } else if (!observer && (*link)->contenders > 0) {
        (*link)->contenders--;
    }
    if (!w->telling)
        remove_empty(w, link);
}

static void disarm(struct sb_watch *w);

/* ---- Telling them --------------------------------------------------------------------------- */

enum audience { AUDIENCE_ALL, AUDIENCE_OBSERVERS };

static void tell_slot(struct sb_watch *w, size_t slot, enum audience audience)
{
    const struct simba_backend_host *host = w->host;

    if (w->slots[slot] == NULL)
        return;
    w->telling = true;
    for (const struct listener *listener = w->slots[slot]; listener != NULL;
         listener = listener->next) {
        if (audience == AUDIENCE_ALL && listener->contenders > 0)
            host->notice(host, SIMBA_NOTICE_RELEASED, listener->mutex, NULL);
        if (listener->observers > 0)
            host->notice(host, SIMBA_NOTICE_CHANGED, listener->mutex, NULL);
    }
    w->telling = false;
    remove_empty(w, &w->slots[slot]);
    if (w->listeners == 0)
        disarm(w);
}

static void tell_all(struct sb_watch *w, enum audience audience)
{
    for (size_t slot = 0; slot < SB_WAKE_SLOTS; slot++)
        tell_slot(w, slot, audience);
}

/* ---- The file ------------------------------------------------------------------------------- */

/* What is behind the end of the file counts as zero. */
static bool read_slots(const struct sb_watch *w, uint64_t slots[SB_WAKE_SLOTS])
{
    memset(slots, 0, SB_WAKE_SLOTS * sizeof *slots);
    return pread(w->file, slots, SB_WAKE_SLOTS * sizeof *slots, 0) >= 0;
}

/* Whether the times of the file have moved since the last call. */
static bool take_touch(struct sb_watch *w)
{
    struct timespec before = w->touched_at;
    struct stat status;

    if (fstat(w->file, &status) != 0)
        return false;
    w->touched_at = status.st_mtim;
    return before.tv_sec != w->touched_at.tv_sec || before.tv_nsec != w->touched_at.tv_nsec;
}

/* Tells those whose slot has changed, and observers when anything was touched. */
static void look(struct sb_watch *w, bool touched)
{
    uint64_t now[SB_WAKE_SLOTS];
    uint64_t before[SB_WAKE_SLOTS];

    if (!read_slots(w, now))
        return;
    memcpy(before, w->seen, sizeof before);
    memcpy(w->seen, now, sizeof now);
    for (size_t slot = 0; slot < SB_WAKE_SLOTS; slot++)
        if (now[slot] != before[slot])
            tell_slot(w, slot, AUDIENCE_ALL);
    if (touched && w->observers > 0)
        tell_all(w, AUDIENCE_OBSERVERS);
}

static void complain(struct sb_watch *w, const char *what, int code)
{
    if (!w->complained)
        w->host->log(w->host, SIMBA_LOG_INFO, "%s: %s (%s)", w->wake_path, what, strerror(code));
    w->complained = true;
}

static bool open_file(struct sb_watch *w)
{
    w->file = sb_wake_open_to_read(w->wake_path, w->path);
    if (w->file < 0) {
        complain(w, "cannot be opened, so nobody here is woken", errno);
        return false;
    }
    return true;
}

static void close_file(struct sb_watch *w)
{
    if (w->file >= 0)
        close(w->file);
    w->file = -1;
}

static bool is_same_file(const struct sb_watch *w)
{
    struct stat named;
    struct stat opened;

    return w->file >= 0 && lstat(w->wake_path, &named) == 0 && fstat(w->file, &opened) == 0 &&
           named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/* ---- inotify -------------------------------------------------------------------------------- */

/* What is in the buffer does not matter, only that something happened and whether to waiters too. */
static void on_event(uv_poll_t *poll, int status, int events)
{
    struct sb_watch *w = poll->data;
    char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    bool any = false;

    (void)status;
    (void)events;
    while (read(w->inotify, buffer, sizeof buffer) > 0)
        any = true;
    if (any && w->armed)
        look(w, true);
}

/* Creates the instance for the first who needs it. On failure errno tells why. */
static bool ensure_inotify(struct sb_watch *w)
{
    int code;

    if (w->inotify >= 0)
        return true;
    w->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->inotify < 0)
        return false;
    code = uv_poll_init(w->host->loop, &w->poll, w->inotify);
    if (code < 0) {
        close(w->inotify);
        w->inotify = -1;
        errno = -code;
        return false;
    }
    w->poll.data = w;
    w->open_handles++;
    uv_poll_start(&w->poll, UV_READABLE, on_event);
    return true;
}

/* Waiters sleep through acquires; with observers here, nobody does. */
static void watch_file(struct sb_watch *w)
{
    uint32_t mask = IN_DONT_FOLLOW | (w->observers > 0 ? IN_MODIFY | IN_ATTRIB : IN_MODIFY);

    if (ensure_inotify(w))
        w->watch = inotify_add_watch(w->inotify, w->wake_path, mask);
    if (w->watch < 0)
        complain(w, "cannot be watched and is polled instead", errno);
}

static void unwatch_file(struct sb_watch *w)
{
    if (w->watch >= 0)
        inotify_rm_watch(w->inotify, w->watch);
    w->watch = -1;
}

/* ---- Arming --------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

static void start_timer(struct sb_watch *w)
{
    int64_t delay_ms = CHECK_MS;

    if (!w->has_timer) {
        uv_timer_init(w->host->loop, &w->timer);
        w->timer.data = w;
        w->has_timer = true;
        w->open_handles++;
    }
    if (w->watch < 0 && w->file >= 0)
        delay_ms = sb_random_between(sb_random_next(&w->random), POLL_MIN_MS, POLL_MAX_MS);
    uv_timer_start(&w->timer, on_timer, (uint64_t)delay_ms, 0);
}

/* The watch comes first, then what it is compared with, then a look of everybody at the database. */
static void arm(struct sb_watch *w)
{
    w->armed = true;
    if (open_file(w)) {
        watch_file(w);
        read_slots(w, w->seen);
        take_touch(w);
    }
    start_timer(w);
    tell_all(w, AUDIENCE_ALL);
}

static void disarm(struct sb_watch *w)
{
    if (!w->armed)
        return;
    uv_timer_stop(&w->timer);
    unwatch_file(w);
    close_file(w);
    w->armed = false;
}

/* With inotify this only makes sure of the file, whose deletion is not seen while somebody has it
 * open. */
static void on_timer(uv_timer_t *timer)
{
    struct sb_watch *w = timer->data;

    if (!is_same_file(w)) {
        disarm(w);
        arm(w);
        return;
    }
    if (w->watch < 0)
        look(w, take_touch(w));
    if (w->armed) /* the last listener may have left when it was told */
        start_timer(w);
}

void sb_watch_contended(struct sb_watch *w)
{
    if (!w->armed && w->listeners > 0)
        arm(w);
}

void sb_watch_listen(struct sb_watch *w, const char *mutex, bool observer, bool on)
{
    bool observed = w->observers > 0;

    if (on)
        add_listener(w, mutex, observer);
    else
        remove_listener(w, mutex, observer);
    if (w->listeners == 0)
        disarm(w);
    else if (!w->armed && w->observers > 0)
        arm(w);
    else if (w->armed && w->watch >= 0 && observed != (w->observers > 0))
        watch_file(w);
}

/* ---- Life ----------------------------------------------------------------------------------- */

int sb_watch_create(const struct simba_backend_host *host, const char *wake_path, const char *path,
                    struct sb_watch **ret_watch, struct simba_error *error)
{
    struct sb_watch *w = sb_alloc_zero(sizeof *w);

    if (w == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    w->host = host;
    w->wake_path = wake_path;
    w->path = path;
    w->file = -1;
    w->inotify = -1;
    w->watch = -1;
    w->random = sb_random_seed();
    *ret_watch = w;
    return SIMBA_OK;
}

static void free_listeners(struct sb_watch *w)
{
    for (size_t slot = 0; slot < SB_WAKE_SLOTS; slot++) {
        while (w->slots[slot] != NULL) {
            struct listener *listener = w->slots[slot];

            w->slots[slot] = listener->next;
            sb_free(listener);
        }
    }
}

static void finish_close(struct sb_watch *w)
{
    void (*closed)(void *argument) = w->closed;
    void *argument = w->argument;

    if (w->inotify >= 0)
        close(w->inotify);
    free_listeners(w);
    sb_free(w);
    closed(argument);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct sb_watch *w = handle->data;

    if (--w->open_handles == 0)
        finish_close(w);
}

void sb_watch_close(struct sb_watch *w, void (*closed)(void *argument), void *argument)
{
    w->closed = closed;
    w->argument = argument;
    disarm(w);
    if (w->inotify >= 0)
        uv_close((uv_handle_t *)&w->poll, on_handle_closed);
    if (w->has_timer)
        uv_close((uv_handle_t *)&w->timer, on_handle_closed);
    if (w->open_handles == 0)
        finish_close(w);
}
