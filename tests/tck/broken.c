/*
 * broken.c - stands between the kit and the memory backend, and does it wrong.
 *
 * The memory backend gets copies of the requests, which are changed on the way there, and its
 * answers are changed on the way back.
 */
#include "broken.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS 3600000

struct simba_backend {
    struct simba_backend_host wrapped; /* first: the memory backend's pointer leads back here */
    const struct simba_backend_host *host;
    const struct simba_backend_ops *memory;
    simba_backend *inner;
    enum broken_how how;
    pthread_mutex_t lock;
    uint64_t revision; /* the record's true one, as last heard */
};

struct copy {
    struct simba_request request; /* first: the memory backend's pointer leads back here */
    struct simba_request *original;
};

static enum broken_how chosen;

/* Requests that get no answer. They are the library's, but nobody else knows of them any more. */
static struct simba_request *unanswered;

void broken_choose(enum broken_how how)
{
    chosen = how;
}

static uint64_t true_revision(simba_backend *broken)
{
    uint64_t revision;

    pthread_mutex_lock(&broken->lock);
    revision = broken->revision;
    pthread_mutex_unlock(&broken->lock);
    return revision;
}

/* ---- On the way there ------------------------------------------------------------------------ */

static void spoil_lease(enum broken_how how, struct simba_request *request)
{
    if (how == BROKEN_LEASE_NEVER_ENDS)
        request->transition_ms = HOUR_MS;
    else if (how == BROKEN_NO_TRANSITION)
        request->transition_ms = 0;
    if (how == BROKEN_GUARD_CREATES)
        request->op = SIMBA_OP_ACQUIRE;
    if (how == BROKEN_TERMS_ALIKE)
        request->fence = 0;
}

static void spoil_release(simba_backend *broken, struct simba_request *request)
{
    if (broken->how == BROKEN_RELEASE_DOES_NOTHING)
        request->op = SIMBA_OP_READ;
    else if (broken->how == BROKEN_RELEASE_OF_ANY || broken->how == BROKEN_REVISION_STANDS)
        request->revision = true_revision(broken);
}

static void spoil_write(enum broken_how how, struct simba_request *request)
{
    if (how == BROKEN_PROPERTY_OF_ANY)
        request->id = NULL;
    if (how == BROKEN_PROPERTY_FORGETS)
        request->value = "one";
}

static struct copy *spoiled_copy(simba_backend *broken, struct simba_request *request)
{
    struct copy *copy = calloc(1, sizeof(*copy));

    assert(copy != NULL);
    copy->original = request;
    copy->request = *request;
    copy->request.next = NULL;
    if (request->op == SIMBA_OP_ACQUIRE || request->op == SIMBA_OP_GUARD)
        spoil_lease(broken->how, &copy->request);
    else if (request->op == SIMBA_OP_RELEASE)
        spoil_release(broken, &copy->request);
    else if (request->op == SIMBA_OP_SET_PROPERTY)
        spoil_write(broken->how, &copy->request);
    return copy;
}

static void broken_submit(simba_backend *broken, struct simba_request *batch)
{
    while (batch != NULL) {
        struct simba_request *next = batch->next;

        if (broken->how == BROKEN_SILENT && batch->op == SIMBA_OP_ACQUIRE) {
            batch->next = unanswered;
            unanswered = batch;
        } else {
            broken->memory->submit(broken->inner, &spoiled_copy(broken, batch)->request);
        }
        batch = next;
    }
}

/* ---- On the way back ------------------------------------------------------------------------- */

static void spoil_grant(simba_backend *broken, const struct simba_request *request,
                        struct simba_reply *reply)
{
    bool mine = reply->owner != NULL && strcmp(reply->owner, request->id) == 0;

    if (broken->how == BROKEN_EVERYBODY_OWNS && request->op == SIMBA_OP_ACQUIRE) {
        reply->owner = request->id;
        mine = true;
    }
    if (!mine)
        return;
    reply->ttl_left_ms = request->ttl_ms;
    reply->transition_left_ms = request->ttl_ms + request->transition_ms;
    if (broken->how == BROKEN_ANSWERS_TWICE_AS_MUCH)
        reply->transition_left_ms *= 2;
}

static void broken_reply(const struct simba_backend_host *wrapped, struct simba_request *request,
                         const struct simba_reply *given)
{
    simba_backend *broken = (simba_backend *)(void *)wrapped;
    struct copy *copy = (struct copy *)(void *)request;
    struct simba_request *original = copy->original;
    struct simba_reply reply = *given;
    struct simba_property property;

    if (reply.property != NULL && broken->how == BROKEN_PROPERTY_CLOCK_STANDS) {
        property = *reply.property;
        property.store_ms = 1;
        reply.property = &property;
    }
    pthread_mutex_lock(&broken->lock);
    if (reply.revision != 0)
        broken->revision = reply.revision;
    pthread_mutex_unlock(&broken->lock);
    if (original->op == SIMBA_OP_ACQUIRE || original->op == SIMBA_OP_GUARD)
        spoil_grant(broken, original, &reply);
    if (broken->how == BROKEN_REVISION_STANDS && reply.revision != 0)
        reply.revision = 7;
    if (broken->how == BROKEN_NO_REVISION)
        reply.revision = 0;
    if (broken->how == BROKEN_TERMS_ALIKE)
        reply.fence = 0;
    if (broken->how == BROKEN_RELEASE_NEVER_MISSES)
        reply.missed = false;
    free(copy);
    broken->host->reply(broken->host, original, &reply);
}

static void broken_notice(const struct simba_backend_host *wrapped, enum simba_notice notice,
                          const char *mutex, const char *id)
{
    const struct simba_backend_host *host = ((const simba_backend *)(const void *)wrapped)->host;

    host->notice(host, notice, mutex, id);
}

static void broken_session_lost(const struct simba_backend_host *wrapped, const char *mutex)
{
    const struct simba_backend_host *host = ((const simba_backend *)(const void *)wrapped)->host;

    host->session_lost(host, mutex);
}

static void broken_post(const struct simba_backend_host *wrapped, struct simba_task *task)
{
    const struct simba_backend_host *host = ((const simba_backend *)(const void *)wrapped)->host;

    host->post(host, task);
}

static void broken_log(const struct simba_backend_host *wrapped, enum simba_log_level level,
                       const char *format, ...)
{
    (void)wrapped;
    (void)level;
    (void)format;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static bool broken_serves(const char *scheme)
{
    return strcmp(scheme, "memory") == 0;
}

static int broken_open(const struct simba_backend_config *config,
                       const struct simba_backend_host *host, simba_backend **ret_backend,
                       struct simba_error *error)
{
    simba_backend *broken = calloc(1, sizeof(*broken));
    int code;

    assert(broken != NULL);
    broken->how = chosen;
    broken->host = host;
    broken->memory = simba_backend_find("memory");
    pthread_mutex_init(&broken->lock, NULL);
    broken->wrapped = *host;
    broken->wrapped.reply = broken_reply;
    broken->wrapped.notice = broken_notice;
    broken->wrapped.session_lost = broken_session_lost;
    broken->wrapped.post = broken_post;
    broken->wrapped.log = broken_log;
    code = broken->memory->open(config, &broken->wrapped, &broken->inner, error);
    if (code != SIMBA_OK)
        free(broken);
    else
        *ret_backend = broken;
    return code;
}

static void broken_listen(simba_backend *broken, const char *mutex, const char *id, bool on)
{
    if (broken->memory->listen != NULL)
        broken->memory->listen(broken->inner, mutex, id, on);
}

struct closing {
    simba_backend *broken;
    void (*closed)(void *argument);
    void *argument;
};

static void finish_close(void *argument)
{
    struct closing *closing = argument;

    pthread_mutex_destroy(&closing->broken->lock);
    free(closing->broken);
    closing->closed(closing->argument);
    free(closing);
}

static void broken_close(simba_backend *broken, void (*closed)(void *argument), void *argument)
{
    struct closing *closing = malloc(sizeof(*closing));

    assert(closing != NULL);
    closing->broken = broken;
    closing->closed = closed;
    closing->argument = argument;
    broken->memory->close(broken->inner, finish_close, closing);
}

const struct simba_backend_ops broken_backend = {
    .abi = SIMBA_BACKEND_ABI,
    .name = "broken",
    .serves = broken_serves,
    .open = broken_open,
    .submit = broken_submit,
    .listen = broken_listen,
    .close = broken_close,
    .has_properties = true,
};
