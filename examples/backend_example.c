/*
 * backend_example.c - a whole backend, to copy from. It uses nothing but <simba/backend.h>.
 *
 * The store is a file on one machine: records of a fixed size, one per mutex. A process that reads
 * or changes one holds flock() on the file, which makes each request atomic (duty 5); the kernel
 * drops the lock when its holder dies. All processes of a host share the clock of simba_now_ms(),
 * so that is the store's clock. It starts anew with every boot; a lease from before is recognised
 * in lease_is_over().
 *
 *     loop thread:    submit() --> queue --.                 .--> host->reply()
 *     worker thread:                        `--> carry_out() -'
 *
 * submit() must not block, and file operations may, so a worker thread does them. A backend on
 * sockets would use host->loop instead and have no thread.
 *
 * Limits: no wake-up from other processes (waiters come back when the lease ends), and after a
 * power cut the last revisions may be lost with the page cache.
 */
#include "backend_example.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Written with one pwrite(), so that a process that is killed leaves the old one or the new one. */
struct record {
    char mutex[SIMBA_MUTEX_MAX + 1];
    char owner[SIMBA_ID_MAX + 1]; /* "" for nobody */
    uint64_t revision;
    int64_t lease_ms;
    int64_t ttl_at_ms;
    int64_t transition_at_ms;
};

struct simba_backend {
    const struct simba_backend_host *host;
    int file;
    pthread_t worker;
    pthread_mutex_t lock; /* guards the queue and `closing` */
    pthread_cond_t changed;
    struct simba_request *head;
    struct simba_request **tail;
    bool closing;
    struct simba_task ended; /* runs on the loop thread when the worker has ended */
    void (*closed)(void *argument);
    void *argument;
};

/* ---- What a request does to a record: the list of operations in backend.h -------------------- */

/* A lease cannot have more time left than its whole length: then it is from before a reboot. */
static bool lease_is_over(const struct record *record, int64_t now_ms)
{
    int64_t left_ms = record->transition_at_ms - now_ms;

    return record->owner[0] == '\0' || left_ms <= 0 || left_ms > record->lease_ms;
}

static void grant(struct record *record, const struct simba_request *request, bool mine,
                  int64_t now_ms)
{
    int64_t lease_ms = request->ttl_ms + request->transition_ms;

    /* Another contender with the same id may have been granted more (duty 12). */
    if (!mine || now_ms + lease_ms > record->transition_at_ms) {
        record->lease_ms = lease_ms;
        record->ttl_at_ms = now_ms + request->ttl_ms;
        record->transition_at_ms = now_ms + lease_ms;
    }
    snprintf(record->mutex, sizeof(record->mutex), "%s", request->mutex);
    snprintf(record->owner, sizeof(record->owner), "%s", request->id);
}

/* Returns whether the record has changed. The revision stands for the owner's term, so it stays
 * through renewals and can be shown as the fencing token. */
static bool apply(struct record *record, const struct simba_request *request, int64_t now_ms)
{
    bool over = lease_is_over(record, now_ms);
    bool mine = request->id != NULL && !over && strcmp(record->owner, request->id) == 0;
    bool its_term = request->fence == 0 || request->fence == record->revision;

    if ((request->op == SIMBA_OP_ACQUIRE && (over || mine)) ||
        (request->op == SIMBA_OP_GUARD && mine && its_term))
        grant(record, request, mine, now_ms);
    else if (request->op == SIMBA_OP_RELEASE && mine && request->revision == record->revision)
        record->owner[0] = '\0';
    else
        return false;
    if (request->op != SIMBA_OP_GUARD)
        record->revision++;
    return true;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Waits for the lock, but not longer than the request may take (duty 2): its holder may have been
 * stopped. */
static int lock_file(int file, int64_t timeout_ms)
{
    int64_t until_ms = simba_now_ms() + timeout_ms;
    const struct timespec pause = {0, 1000000};

    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return SIMBA_ESTORE;
        if (simba_now_ms() >= until_ms)
            return SIMBA_EUNAVAILABLE;
        nanosleep(&pause, NULL);
    }
    return SIMBA_OK;
}

/* Returns 1, 0 at the end of the file, -1 for an error. */
static int read_record(int file, off_t at, struct record *record)
{
    ssize_t length = pread(file, record, sizeof(*record), at);

    return length < 0 ? -1 : length == (ssize_t)sizeof(*record);
}

/* Where the record of the mutex is, or would be: then *record is one that nobody owns. -1: an
 * error, which must not be taken for "nobody". */
static off_t find_record(int file, const char *mutex, struct record *record)
{
    off_t at = 0;
    int found;

    while ((found = read_record(file, at, record)) > 0 && strcmp(record->mutex, mutex) != 0)
        at += (off_t)sizeof(*record);
    if (found <= 0)
        memset(record, 0, sizeof(*record));
    return found < 0 ? -1 : at;
}

/* An error after the record may have been written is SIMBA_EUNKNOWN (duty 4); all others certainly
 * left it as it was. */
static int carry_out(simba_backend *backend, const struct simba_request *request,
                     struct record *record, bool *ret_missed)
{
    int code = lock_file(backend->file, request->timeout_ms);
    bool changed = false;
    off_t at;

    memset(record, 0, sizeof(*record));
    if (code != SIMBA_OK)
        return code;
    at = find_record(backend->file, request->mutex, record);
    if (at < 0)
        code = SIMBA_ESTORE;
    else
        changed = apply(record, request, simba_now_ms());
    if (changed && pwrite(backend->file, record, sizeof(*record), at) != (ssize_t)sizeof(*record))
        code = SIMBA_EUNKNOWN;
    *ret_missed = request->op == SIMBA_OP_RELEASE && request->revision != 0 && !changed;
    flock(backend->file, LOCK_UN);
    return code;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* In time left by the store's clock (duty 3). From here on the request is the library's again. */
static void answer(simba_backend *backend, struct simba_request *request, int code,
                   const struct record *record, bool missed)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;
    int64_t now_ms = simba_now_ms();

    reply.code = code;
    reply.revision = record->revision;
    reply.missed = missed; /* the owner learns that its term had ended (duty 13) */
    if (!lease_is_over(record, now_ms)) {
        reply.owner = record->owner;
        reply.fence = record->revision;
        reply.ttl_left_ms = record->ttl_at_ms - now_ms;
        reply.transition_left_ms = record->transition_at_ms - now_ms;
    }
    /* A courtesy (duty 7) to the waiters of this client. Before the reply, which ends the
     * request. */
    if (request->op == SIMBA_OP_RELEASE && code == SIMBA_OK && reply.owner == NULL)
        backend->host->notice(backend->host, SIMBA_NOTICE_RELEASED, request->mutex, NULL);
    backend->host->reply(backend->host, request, &reply);
}

/* Its times are not times left, but on the clock of simba_now_ms(). */
static void fill_status(struct simba_mutex_status *status, const struct record *record)
{
    memcpy(status->mutex, record->mutex, sizeof(status->mutex));
    status->waiters = -1; /* not known */
    if (lease_is_over(record, simba_now_ms()))
        return;
    memcpy(status->owner.id, record->owner, sizeof(status->owner.id));
    status->owner.acquired_at_ms = record->transition_at_ms - record->lease_ms;
    status->owner.ttl_at_ms = record->ttl_at_ms;
    status->owner.transition_at_ms = record->transition_at_ms;
    status->owner.fence = record->revision;
}

static int by_mutex(const void *a, const void *b)
{
    return strcmp(((const struct simba_mutex_status *)a)->mutex,
                  ((const struct simba_mutex_status *)b)->mutex);
}

static void answer_list(simba_backend *backend, struct simba_request *request)
{
    struct simba_reply reply = SIMBA_REPLY_INIT;
    struct simba_mutex_status *list;
    struct record record;
    struct stat file;
    size_t most;

    most = fstat(backend->file, &file) == 0 ? (size_t)file.st_size / sizeof(record) : 0;
    list = calloc(most + 1, sizeof(*list));
    reply.code = list != NULL ? lock_file(backend->file, request->timeout_ms) : SIMBA_ENOMEM;
    if (reply.code == SIMBA_OK) {
        while (reply.list_count < most &&
               read_record(backend->file, (off_t)(reply.list_count * sizeof(record)), &record) > 0)
            fill_status(&list[reply.list_count++], &record);
        flock(backend->file, LOCK_UN);
        qsort(list, reply.list_count, sizeof(*list), by_mutex);
    }
    reply.list = list;
    backend->host->reply(backend->host, request, &reply);
    free(list);
}

/* ---- The worker thread ----------------------------------------------------------------------- */

/* The one that has waited longest; NULL when the backend closes. */
static struct simba_request *take(simba_backend *backend)
{
    struct simba_request *request;

    pthread_mutex_lock(&backend->lock);
    while (backend->head == NULL && !backend->closing)
        pthread_cond_wait(&backend->changed, &backend->lock);
    request = backend->head;
    if (request != NULL)
        backend->head = request->next;
    if (backend->head == NULL)
        backend->tail = &backend->head;
    pthread_mutex_unlock(&backend->lock);
    return request;
}

static void *work(void *argument)
{
    simba_backend *backend = argument;
    struct simba_request *request;
    struct record record;

    while ((request = take(backend)) != NULL) {
        bool missed = false;

        if (request->op == SIMBA_OP_LIST) {
            answer_list(backend, request);
        } else {
            int code = carry_out(backend, request, &record, &missed);

            answer(backend, request, code, &record, missed);
        }
    }
    backend->host->post(backend->host, &backend->ended);
    return NULL;
}

/* ---- What the library calls, on its loop thread ---------------------------------------------- */

static bool file_serves(const char *scheme)
{
    return strcmp(scheme, "file") == 0;
}

/* On the loop thread, when the worker has ended. */
static void finish_close(struct simba_task *task)
{
    simba_backend *backend = (simba_backend *)((char *)task - offsetof(simba_backend, ended));

    pthread_join(backend->worker, NULL);
    close(backend->file);
    backend->closed(backend->argument);
    free(backend);
}

static int fail(struct simba_error *error, int code, const char *path, int failure)
{
    error->code = code;
    error->backend_code = failure;
    snprintf(error->text, sizeof(error->text), "cannot use '%s': %s", path, strerror(failure));
    return code;
}

/* This one may block. The file is close-on-exec (duty 9). */
static int file_open(const struct simba_backend_config *config,
                     const struct simba_backend_host *host, simba_backend **ret_backend,
                     struct simba_error *error)
{
    const char *path = simba_url_path(config->url);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    simba_backend *backend = calloc(1, sizeof(*backend));
    int failure;

    if (file < 0 || backend == NULL) {
        failure = errno;
        free(backend);
        if (file >= 0)
            close(file);
        return fail(error, file < 0 ? SIMBA_EUNAVAILABLE : SIMBA_ENOMEM, path, failure);
    }
    backend->host = host;
    backend->file = file;
    backend->tail = &backend->head;
    backend->ended.run = finish_close;
    pthread_mutex_init(&backend->lock, NULL);
    pthread_cond_init(&backend->changed, NULL);
    failure = pthread_create(&backend->worker, NULL, work, backend);
    if (failure != 0) {
        close(file);
        free(backend);
        return fail(error, SIMBA_ENOMEM, path, failure);
    }
    *ret_backend = backend;
    return SIMBA_OK;
}

static void file_submit(simba_backend *backend, struct simba_request *batch)
{
    pthread_mutex_lock(&backend->lock);
    *backend->tail = batch;
    while (*backend->tail != NULL)
        backend->tail = &(*backend->tail)->next;
    pthread_cond_signal(&backend->changed);
    pthread_mutex_unlock(&backend->lock);
}

/* All requests have been answered, so the worker is idle and ends at once. */
static void file_close(simba_backend *backend, void (*closed)(void *argument), void *argument)
{
    backend->closed = closed;
    backend->argument = argument;
    pthread_mutex_lock(&backend->lock);
    backend->closing = true;
    pthread_cond_signal(&backend->changed);
    pthread_mutex_unlock(&backend->lock);
}

const struct simba_backend_ops backend_example = {
    .abi = SIMBA_BACKEND_ABI,
    .name = "file",
    .serves = file_serves,
    .open = file_open,
    .submit = file_submit,
    .listen = NULL, /* there are no wake-ups to subscribe to */
    .close = file_close,
    .path_is_file = true,
};
