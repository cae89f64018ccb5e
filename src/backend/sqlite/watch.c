/*
 * watch.c - the reading end of the side files. Owns the listeners of a client, the inotify instance
 * and when the files are read; must not know SQLite.
 *
 *     idle --- an observer comes, or a contender has to wait ---> armed
 *     armed -- the last listener is gone -----------------------> idle
 *
 * Between the attempt that was lost and the arming another client may have released. So arming ends
 * with one wake-up of all: a waiter that reads the database after it is told of everything that
 * follows.
 *
 * The inotify instance is kept until the end: closing one takes the kernel milliseconds. Where a
 * user has no instance left, the file is read every 50 ms instead.
 *
 * When an owner dies the kernel closes the file in which its life is locked, and tells the watchers
 * of the file; an instant later it takes the lock away. Hence a few checks in quick succession.
 */
#include "backend/sqlite/watch.h"

#include "backend/sqlite/liveness.h"
#include "backend/sqlite/wake.h"
#include "base/alloc.h"
#include "base/check.h"
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
#define RECHECKS 5 /* after 1, 3, 9, 27 and 81 ms */
#define RECHECK_MS 1
#define RECHECK_FACTOR 3

/* The contenders and observers of one mutex. */
struct listener {
    struct listener *next; /* in its slot */
    unsigned contenders;
    unsigned observers;
    char mutex[SIMBA_MUTEX_MAX + 1];
};

struct sb_sqlite_watch {
    const struct simba_backend_host *host;
    struct sb_sqlite_watch_files files;
    struct listener *slots[SB_SQLITE_WAKE_SLOTS]; /* each mutex in its slot of the side file */
    size_t mutexes;                               /* in all slots */
    size_t observers;                             /* of all mutexes */
    bool armed;
    bool telling; /* notices are being given: entries that become empty stay until they are over */
    bool complained; /* about the lack of inotify or of the file */

    int file;                /* the side file, -1: not open */
    bool heard;              /* the byte of listeners is locked */
    int64_t listen_again_ms; /* where it is not */
    uint64_t seen[SB_SQLITE_WAKE_SLOTS];
    struct timespec touched_at;
    uint64_t random;

    struct sb_sqlite_owners owners;
    int64_t recheck_ms; /* until the next check in quick succession; 0: there is none */
    unsigned rechecks;  /* that have been */

    int inotify;    /* -1: none */
    int watch;      /* in the instance, -1: none */
    int life_watch; /* the same, on the file of the lives */
    uv_poll_t poll; /* on the instance */
    struct sb_sqlite_wake_socket *wake_socket;
    uv_poll_t socket_poll; /* on that socket */
    bool polls_socket;
    uv_timer_t timer;
    bool has_timer;
    unsigned open_handles;
    void (*closed)(void *argument);
    void *argument;
};

static void disarm(struct sb_sqlite_watch *w);

/* ---- Listeners ------------------------------------------------------------------------------- */

static struct listener **find(struct sb_sqlite_watch *w, size_t slot, const char *mutex)
{
    struct listener **link = &w->slots[slot];

    while (*link != NULL && strcmp((*link)->mutex, mutex) != 0)
        link = &(*link)->next;
    return link;
}

/* False when memory is short. */
static bool add_listener(struct sb_sqlite_watch *w, size_t slot, const char *mutex, bool observer)
{
    struct listener **link = find(w, slot, mutex);

    if (*link == NULL) {
        *link = sb_alloc_zero(sizeof **link);
        if (*link == NULL)
            return false;
        sb_text_copy((*link)->mutex, sizeof(*link)->mutex, mutex);
        w->mutexes++;
    }
    (*link)->contenders += !observer;
    (*link)->observers += observer;
    w->observers += observer;
    return true;
}

/* The entry stays, so that this may be called while the slot is walked through. A count is 0 here
 * if there was no memory when the listener came. */
static void remove_listener(struct sb_sqlite_watch *w, size_t slot, const char *mutex,
                            bool observer)
{
    struct listener *listener = *find(w, slot, mutex);

    if (listener == NULL)
        return;
    if (!observer) {
        listener->contenders -= listener->contenders > 0;
    } else if (listener->observers > 0) {
        SB_CHECK(w->observers > 0, "the watch counts the observers of all mutexes");
        listener->observers--;
        w->observers--;
    }
}

/* Frees the entries of a slot that have no listeners left. */
static void trim_slot(struct sb_sqlite_watch *w, size_t slot)
{
    struct listener **link = &w->slots[slot];

    SB_CHECK(!w->telling, "no entry is freed while notices are given");
    while (*link != NULL) {
        struct listener *listener = *link;

        if (listener->contenders > 0 || listener->observers > 0) {
            link = &listener->next;
            continue;
        }
        *link = listener->next;
        sb_free(listener);
        w->mutexes--;
    }
}

enum audience { AUDIENCE_ALL, AUDIENCE_OBSERVERS };

static void tell_slot(struct sb_sqlite_watch *w, size_t slot, enum audience audience)
{
    const struct simba_backend_host *host = w->host;

    if (w->slots[slot] == NULL)
        return;
    SB_CHECK(!w->telling, "notices of one slot at a time");
    w->telling = true;
    for (const struct listener *listener = w->slots[slot]; listener != NULL;
         listener = listener->next) {
        if (audience == AUDIENCE_ALL && listener->contenders > 0)
            host->notice(host, SIMBA_NOTICE_RELEASED, listener->mutex, NULL);
        if (listener->observers > 0)
            host->notice(host, SIMBA_NOTICE_CHANGED, listener->mutex, NULL);
    }
    w->telling = false;
    trim_slot(w, slot);
    if (w->mutexes == 0)
        disarm(w);
}

static void tell_all(struct sb_sqlite_watch *w, enum audience audience)
{
    for (size_t slot = 0; slot < SB_SQLITE_WAKE_SLOTS; slot++)
        tell_slot(w, slot, audience);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* What is behind the end of the file counts as zero. */
static bool read_slots(const struct sb_sqlite_watch *w, uint64_t slots[SB_SQLITE_WAKE_SLOTS])
{
    memset(slots, 0, SB_SQLITE_WAKE_SLOTS * sizeof *slots);
    return pread(w->file, slots, SB_SQLITE_WAKE_SLOTS * sizeof *slots, 0) >= 0;
}

/* Whether the times of the file have moved since the last call. */
static bool take_touch(struct sb_sqlite_watch *w)
{
    struct timespec before = w->touched_at;
    struct stat status;

    if (fstat(w->file, &status) != 0)
        return false;
    w->touched_at = status.st_mtim;
    return before.tv_sec != w->touched_at.tv_sec || before.tv_nsec != w->touched_at.tv_nsec;
}

/* Tells those whose slot has changed, and observers when anything was touched. */
static void read_file(struct sb_sqlite_watch *w, bool touched)
{
    uint64_t now[SB_SQLITE_WAKE_SLOTS];
    uint64_t before[SB_SQLITE_WAKE_SLOTS];

    if (!read_slots(w, now))
        return;
    memcpy(before, w->seen, sizeof before);
    memcpy(w->seen, now, sizeof now);
    for (size_t slot = 0; slot < SB_SQLITE_WAKE_SLOTS; slot++)
        if (now[slot] != before[slot])
            tell_slot(w, slot, AUDIENCE_ALL);
    if (touched && w->observers > 0)
        tell_all(w, AUDIENCE_OBSERVERS);
}

static void complain(struct sb_sqlite_watch *w, const char *what, int code)
{
    if (!w->complained)
        w->host->log(w->host, SIMBA_LOG_INFO, "%s: %s (%s)", w->files.wake_path, what,
                     strerror(code));
    w->complained = true;
}

/* Observers are told of acquires, too. */
static void listen_now(struct sb_sqlite_watch *w)
{
    w->listen_again_ms = simba_now_ms() + CHECK_MS;
    w->heard = sb_sqlite_wake_listen(w->file, w->observers > 0);
    if (!w->heard)
        complain(w, "cannot be locked, so waiters of this process poll once a second", errno);
}

/* Without the lock others do not write the file. */
static void listen_again(struct sb_sqlite_watch *w)
{
    if (w->heard || simba_now_ms() < w->listen_again_ms)
        return;
    listen_now(w);
    tell_all(w, AUDIENCE_ALL);
}

static bool is_same_file(const struct sb_sqlite_watch *w)
{
    struct stat named;
    struct stat opened;

    return w->file >= 0 && lstat(w->files.wake_path, &named) == 0 && fstat(w->file, &opened) == 0 &&
           named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/* ---- inotify --------------------------------------------------------------------------------- */

static void check_owners(struct sb_sqlite_watch *w)
{
    if (sb_sqlite_owners_check(&w->owners))
        tell_all(w, AUDIENCE_ALL);
}

static void start_timer(struct sb_sqlite_watch *w);

/* A process has closed the file of the lives. */
static void on_liveness_closed(struct sb_sqlite_watch *w)
{
    check_owners(w);
    if (!w->armed || !sb_sqlite_owners_any(&w->owners))
        return;
    w->recheck_ms = RECHECK_MS;
    w->rechecks = 0;
    start_timer(w);
}

/* What has happened in the file of the wake-ups is read there. */
static void take_events(struct sb_sqlite_watch *w, const char *buffer, size_t length, bool *woken,
                        bool *closed)
{
    const struct inotify_event *event;

    for (size_t at = 0; at < length; at += sizeof *event + event->len) {
        event = (const struct inotify_event *)(const void *)(buffer + at);
        if (event->wd == w->life_watch)
            *closed = true;
        else
            *woken = true;
    }
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct sb_sqlite_watch *w = poll->data;
    char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    bool woken = false;
    bool closed = false;
    ssize_t length;

    (void)status;
    (void)events;
    while ((length = read(w->inotify, buffer, sizeof buffer)) > 0)
        take_events(w, buffer, (size_t)length, &woken, &closed);
    if (woken && w->armed)
        read_file(w, true);
    if (closed && w->armed)
        on_liveness_closed(w);
}

/* Creates the instance when it is needed first. On failure errno tells why. */
static bool ensure_inotify(struct sb_sqlite_watch *w)
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
static void watch_file(struct sb_sqlite_watch *w)
{
    uint32_t mask = IN_DONT_FOLLOW | (w->observers > 0 ? IN_MODIFY | IN_ATTRIB : IN_MODIFY);

    if (ensure_inotify(w))
        w->watch = inotify_add_watch(w->inotify, w->files.wake_path, mask);
    if (w->watch < 0)
        complain(w, "cannot be watched and is polled instead", errno);
}

static void unwatch(struct sb_sqlite_watch *w, int *watch)
{
    if (*watch >= 0)
        inotify_rm_watch(w->inotify, *watch);
    *watch = -1;
}

/* Also when it is watched already: there may be another file behind the name. */
static void watch_liveness(struct sb_sqlite_watch *w)
{
    int before = w->life_watch;

    if (w->watch < 0 || !sb_sqlite_owners_any(&w->owners))
        return;
    w->life_watch =
        inotify_add_watch(w->inotify, w->files.life.life_path, IN_CLOSE | IN_DONT_FOLLOW);
    if (before != w->life_watch)
        unwatch(w, &before);
}

/* ---- Arming ---------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

static int64_t timer_delay(struct sb_sqlite_watch *w)
{
    if (w->recheck_ms > 0)
        return w->recheck_ms;
    if (w->watch < 0 && w->file >= 0)
        return sb_random_between(sb_random_next(&w->random), POLL_MIN_MS, POLL_MAX_MS);
    return CHECK_MS;
}

static void start_timer(struct sb_sqlite_watch *w)
{
    if (!w->has_timer) {
        uv_timer_init(w->host->loop, &w->timer);
        w->timer.data = w;
        w->has_timer = true;
        w->open_handles++;
    }
    uv_timer_start(&w->timer, on_timer, (uint64_t)timer_delay(w), 0);
}

/* The watch comes first, then what it is compared with, then all listeners read the database. */
static void arm(struct sb_sqlite_watch *w)
{
    SB_CHECK(!w->armed && w->file < 0 && w->watch < 0, "an idle watch has no file open");
    w->armed = true;
    w->file = sb_sqlite_wake_open_to_read(w->files.wake_path, w->files.life.path);
    if (w->file < 0) {
        complain(w, "cannot be opened, so waiters of this process are not woken", errno);
    } else {
        watch_file(w);
        listen_now(w);
        read_slots(w, w->seen);
        take_touch(w);
    }
    watch_liveness(w);
    start_timer(w);
    tell_all(w, AUDIENCE_ALL);
}

static void disarm(struct sb_sqlite_watch *w)
{
    if (!w->armed)
        return;
    uv_timer_stop(&w->timer);
    unwatch(w, &w->watch);
    unwatch(w, &w->life_watch);
    if (w->file >= 0)
        close(w->file);
    w->file = -1;
    w->recheck_ms = 0;
    w->armed = false;
}

/* With inotify this only makes sure of the files, whose deletion is not seen while a process has
 * them open. */
static void on_timer(uv_timer_t *timer)
{
    struct sb_sqlite_watch *w = timer->data;

    SB_CHECK(w->armed, "the timer runs while the watch is armed");
    if (!is_same_file(w)) {
        disarm(w);
        arm(w);
        return;
    }
    if (w->watch < 0)
        read_file(w, take_touch(w));
    if (w->recheck_ms == 0)
        watch_liveness(w);
    else if (++w->rechecks < RECHECKS && sb_sqlite_owners_any(&w->owners))
        w->recheck_ms *= RECHECK_FACTOR;
    else
        w->recheck_ms = 0;
    check_owners(w);
    if (w->armed)
        listen_again(w);
    if (w->armed) /* the last listener may have left when it was told */
        start_timer(w);
}

bool sb_sqlite_watch_owner(struct sb_sqlite_watch *w, int64_t life)
{
    return sb_sqlite_owners_add(&w->owners, life);
}

static void on_message(uv_poll_t *poll, int status, int events)
{
    const struct sb_sqlite_watch *w = poll->data;

    (void)status;
    (void)events;
    sb_sqlite_wake_socket_receive(w->wake_socket);
}

/* Messages that came before are in the socket. It is read until the watch is closed. */
static void poll_socket(struct sb_sqlite_watch *w)
{
    int fd = atomic_load(&w->wake_socket->fd);

    if (w->polls_socket || fd < 0 || uv_poll_init(w->host->loop, &w->socket_poll, fd) < 0)
        return;
    w->polls_socket = true;
    w->socket_poll.data = w;
    w->open_handles++;
    uv_poll_start(&w->socket_poll, UV_READABLE, on_message);
}

/* The watch comes first, then a look: the owner may have died before. */
void sb_sqlite_watch_contended(struct sb_sqlite_watch *w)
{
    poll_socket(w);
    if (!w->armed && w->mutexes > 0)
        arm(w);
    if (!w->armed)
        return;
    if (w->life_watch < 0)
        watch_liveness(w);
    check_owners(w);
}

void sb_sqlite_watch_listen(struct sb_sqlite_watch *w, const char *mutex, bool observer, bool on)
{
    size_t slot = sb_sqlite_wake_slot(mutex);
    bool observed = w->observers > 0;

    if (!on)
        remove_listener(w, slot, mutex, observer);
    else if (!add_listener(w, slot, mutex, observer))
        w->host->log(w->host, SIMBA_LOG_WARN, "out of memory: %s will not be woken", mutex);
    if (!on && !w->telling)
        trim_slot(w, slot);
    if (w->mutexes == 0) {
        disarm(w);
    } else if (!w->armed && w->observers > 0) {
        arm(w);
    } else if (w->armed && w->file >= 0 && observed != (w->observers > 0)) {
        if (w->watch >= 0)
            watch_file(w);
        listen_now(w);
    }
}

/* ---- Creating and destroying ----------------------------------------------------------------- */

int sb_sqlite_watch_create(const struct simba_backend_host *host,
                           const struct sb_sqlite_watch_files *files,
                           struct sb_sqlite_wake_socket *wake_socket,
                           struct sb_sqlite_watch **ret_watch, struct simba_error *error)
{
    struct sb_sqlite_watch *w = sb_alloc_zero(sizeof *w);

    if (w == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    w->host = host;
    w->files = *files;
    w->wake_socket = wake_socket;
    w->file = -1;
    w->inotify = -1;
    w->watch = -1;
    w->life_watch = -1;
    sb_sqlite_owners_init(&w->owners, &files->life);
    w->random = sb_random_seed();
    *ret_watch = w;
    return SIMBA_OK;
}

static void finish_close(struct sb_sqlite_watch *w)
{
    void (*closed)(void *argument) = w->closed;
    void *argument = w->argument;

    SB_CHECK(!w->armed && w->open_handles == 0, "a watch ends idle, with its handles closed");
    if (w->inotify >= 0)
        close(w->inotify);
    sb_sqlite_owners_close(&w->owners);
    for (size_t slot = 0; slot < SB_SQLITE_WAKE_SLOTS; slot++) {
        while (w->slots[slot] != NULL) {
            struct listener *listener = w->slots[slot];

            w->slots[slot] = listener->next;
            sb_free(listener);
        }
    }
    sb_free(w);
    closed(argument);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct sb_sqlite_watch *w = handle->data;

    SB_CHECK(w->open_handles > 0, "a handle that closes is counted");
    if (--w->open_handles == 0)
        finish_close(w);
}

void sb_sqlite_watch_close(struct sb_sqlite_watch *w, void (*closed)(void *argument),
                           void *argument)
{
    w->closed = closed;
    w->argument = argument;
    disarm(w);
    if (w->inotify >= 0)
        uv_close((uv_handle_t *)&w->poll, on_handle_closed);
    if (w->polls_socket)
        uv_close((uv_handle_t *)&w->socket_poll, on_handle_closed);
    if (w->has_timer)
        uv_close((uv_handle_t *)&w->timer, on_handle_closed);
    if (w->open_handles == 0)
        finish_close(w);
}
