/*
 * session.c - keeps a session going, and gets a new one when it is over. Must not know latches.
 */
#include "backend/zookeeper/handle/session.h"

#include "backend/zookeeper/handle/call.h"
#include "backend/zookeeper/handle/probe.h"
#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "base/time.h"

#include <errno.h>
#include <string.h>

#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 2000
#define PATIENCE_MIN_MS 500

/* How long a server gets before its port is looked at. */
#define GLANCE_MS 100
#define CONFIRM_DELAY_MS 100 /* longer than a server takes with a request that it has read */
#define CONFIRM_MIN_MS 500
#define USELESS_MS 20 /* less than the library waits before it tries a server again */

static void start_handle(struct sb_zk_session *s);

int64_t sb_zk_session_lease_ms(const struct sb_zk_session *s)
{
    return sb_zk_liveness_lease_ms(&s->liveness);
}

bool sb_zk_session_is_proved(const struct sb_zk_session *s)
{
    return s->proved_ms != 0 && simba_now_ms() - s->proved_ms < sb_zk_session_lease_ms(s) / 4;
}

int64_t sb_zk_session_proof_interval_ms(const struct sb_zk_session *s)
{
    return sb_zk_liveness_short_interval_ms(&s->liveness);
}

/* ---- Handles --------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

static void start_timer(struct sb_zk_session *s, int64_t delay_ms)
{
    uv_update_time(s->host->loop);
    uv_timer_start(&s->timer, on_timer, (uint64_t)(delay_ms > 1 ? delay_ms : 1), 0);
}

static int64_t next_backoff(struct sb_zk_session *s)
{
    return sb_random_backoff(&s->random, RETRY_MIN_MS, RETRY_MAX_MS, ++s->failures);
}

static void finish_close(struct sb_zk_session *s)
{
    SB_CHECK(s->handles == 0, "a session outlives its handles");
    sb_zk_worker_stop(&s->worker);
    s->closed(s->user);
}

static void on_timer_closed(uv_handle_t *timer)
{
    struct sb_zk_session *s = timer->data;

    if (s->handles == 0)
        finish_close(s);
    else
        s->timer.data = NULL; /* the last handle ends it */
}

static void on_handle_closed(struct sb_zk_handle *handle)
{
    struct sb_zk_session *s = handle->user;
    bool replaced = handle->replaced;

    SB_CHECK(s->handles > 0 && s->handle != handle, "a handle that is closed is not in use");
    sb_zk_calls_end(handle);
    sb_zk_handle_free(handle);
    s->handles--;
    if (s->closing && s->handles == 0 && s->timer.data == NULL)
        finish_close(s);
    else if (!s->closing && replaced && s->failures > 0)
        start_timer(s, next_backoff(s));
    else if (!s->closing && replaced)
        start_handle(s);
}

/* From now on the handle's calls and watches are those of an older one. */
static struct sb_zk_handle *take_handle(struct sb_zk_session *s)
{
    struct sb_zk_handle *handle = s->handle;

    s->handle = NULL;
    s->up = false;
    s->drops = 0;
    s->rewatch = true;
    return handle;
}

static void drop_handle(struct sb_zk_session *s)
{
    struct sb_zk_handle *handle = take_handle(s);

    if (handle != NULL)
        sb_zk_handle_close(handle);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void come_up(struct sb_zk_session *s, zhandle_t *zk, int64_t begin_ms)
{
    const clientid_t *id = zoo_client_id(zk);

    SB_CHECK(!s->up && s->handle != NULL, "only a handle that was down comes up");
    if (s->id.client_id != 0 && s->id.client_id != id->client_id)
        s->tell(s->user, SB_ZK_OVER); /* the library would have said so; a new id proves it */
    if (s->id.client_id != id->client_id) {
        s->number++;
        s->proved_ms = 0;
    }
    s->id = *id;
    s->timeout_ms = zoo_recv_timeout(zk);
    sb_zk_liveness_connect(&s->liveness, s->timeout_ms, begin_ms);
    s->up = true;
    s->useful = false;
    s->synced_ms = simba_now_ms();
    s->confirm_ms = SIMBA_INFINITE;
    uv_timer_stop(&s->timer);
    s->tell(s->user, SB_ZK_UP);
}

/* How long a handle may take to come up (again) before another one is tried. The library would wait
 * for most of the session's time for a server that took a connection and does not answer. */
static int64_t patience_ms(const struct sb_zk_session *s)
{
    return sb_max(s->timeout_ms / 4, PATIENCE_MIN_MS);
}

/* When it is connected again the library sends all its watches in one packet. A server ends a
 * connection on which a packet is too large for it: for ever, unless there is a new handle, which
 * has no watches. So a handle that broke before it was of any use is replaced soon: as soon as what
 * was under way on it has been told. */
static void go_down(struct sb_zk_session *s)
{
    SB_CHECK(s->up, "only a session that is up goes down");
    if (!s->useful)
        s->failures++;
    s->up = false;
    start_timer(s, s->useful ? patience_ms(s) : USELESS_MS);
    s->tell(s->user, SB_ZK_DOWN);
}

static void end_session(struct sb_zk_session *s)
{
    bool had_one = s->id.client_id != 0;

    drop_handle(s);
    memset(&s->id, 0, sizeof s->id);
    s->number++;
    start_timer(s, next_backoff(s));
    if (had_one)
        s->tell(s->user, SB_ZK_OVER);
}

static void on_handle_changed(struct sb_zk_handle *handle)
{
    struct sb_zk_session *s = handle->user;
    int64_t making_ms;
    int64_t begin_ms;
    zhandle_t *zk;
    unsigned drops;
    int failure;
    int state;

    if (handle != s->handle || s->closing)
        return;
    pthread_mutex_lock(&handle->lock);
    zk = handle->zk;
    failure = handle->failure;
    state = handle->state;
    drops = handle->drops;
    making_ms = handle->making_ms;
    begin_ms = handle->begin_ms;
    pthread_mutex_unlock(&handle->lock);
    if (zk == NULL && failure == 0)
        return; /* the library was faster than the thread that made the handle */
    if (!handle->made && !s->up)
        start_timer(s, patience_ms(s) + 2 * making_ms);
    handle->made = true;
    if (s->up && drops != s->drops)
        go_down(s);
    s->drops = drops;
    if (failure != 0) {
        drop_handle(s);
        start_timer(s, next_backoff(s));
    } else if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
        end_session(s);
    } else if (state == ZOO_CONNECTED_STATE && !s->up) {
        come_up(s, zk, begin_ms);
    }
}

/* It came up while it was waiting to be closed: it is the session's handle again. */
static void on_handle_returned(struct sb_zk_handle *handle)
{
    struct sb_zk_session *s = handle->user;

    if (s->closing) {
        sb_zk_handle_close(handle);
        return;
    }
    SB_CHECK(s->handle == NULL, "a session has one handle at a time");
    s->handle = handle;
    start_timer(s, patience_ms(s));
    on_handle_changed(handle);
}

static void on_handle_watched(struct sb_zk_handle *handle, const char *path, bool deleted)
{
    struct sb_zk_session *s = handle->user;

    if (handle == s->handle)
        s->watched(s->user, path, deleted);
}

/* ---- Making handles -------------------------------------------------------------------------- */

static struct sb_zk_handle *create_handle(struct sb_zk_session *s)
{
    struct sb_zk_handle *handle = sb_zk_handle_create();

    if (handle == NULL)
        return NULL;
    handle->host = s->host;
    handle->options = s->options;
    handle->worker = &s->worker;
    handle->user = s;
    handle->changed = on_handle_changed;
    handle->watched = on_handle_watched;
    handle->closed = on_handle_closed;
    handle->returned = on_handle_returned;
    handle->resume = s->id;
    return handle;
}

/* The time that it may take to come up counts from when its handle is there: making one can take as
 * long as names take to be resolved, and is not made faster by beginning anew. Its thread may
 * resolve them once more. */
static void start_handle(struct sb_zk_session *s)
{
    SB_CHECK(s->handle == NULL, "a session has one handle at a time");
    s->handle = create_handle(s);
    if (s->handle == NULL) {
        start_timer(s, next_backoff(s));
        return;
    }
    s->handles++;
    sb_zk_handle_open(s->handle);
}

static bool is_connected(struct sb_zk_handle *handle)
{
    bool connected;

    pthread_mutex_lock(&handle->lock);
    connected = handle->zk != NULL && zoo_state(handle->zk) == ZOO_CONNECTED_STATE;
    pthread_mutex_unlock(&handle->lock);
    return connected;
}

/* A handle that is connected takes its session with it when it is closed. One that is not may
 * become so at that very moment: so it is closed only when no owner believes in the session. */
static void on_timer(uv_timer_t *timer)
{
    struct sb_zk_session *s = timer->data;
    int64_t left_ms =
        s->proved_ms == 0 ? 0 : s->proved_ms + sb_zk_session_lease_ms(s) - simba_now_ms();

    if (s->handle != NULL && is_connected(s->handle)) {
        start_timer(s, PATIENCE_MIN_MS); /* the news is on its way */
        return;
    }
    if (s->handle != NULL && left_ms > 0) {
        start_timer(s, left_ms);
        return;
    }
    if (s->handle != NULL)
        sb_zk_handle_replace(take_handle(s)); /* the next one follows when it is closed */
    else
        start_handle(s);
}

/* ---- Confirmation ---------------------------------------------------------------------------- */

void sb_zk_session_doubt(struct sb_zk_session *s)
{
    SB_CHECK(s->up, "only a session that is up can be confirmed");
    s->confirm_ms = simba_now_ms() + CONFIRM_DELAY_MS;
    s->asked_ms = 0;
}

int64_t sb_zk_session_confirm_time_ms(const struct sb_zk_session *s)
{
    return sb_max(sb_zk_liveness_interval_ms(&s->liveness), CONFIRM_MIN_MS);
}

void sb_zk_session_give_up(struct sb_zk_session *s)
{
    SB_CHECK(s->up, "only a session that is up is given up");
    s->confirm_ms = SIMBA_INFINITE;
    if (is_connected(s->handle))
        end_session(s);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* The library would wait for long for a server that takes a connection and does not answer. Each
 * new handle begins with any of the servers; so it gets half of the time that the others have
 * had. */
static int64_t attempt_ms(const struct sb_zk_session *s, int64_t begin_ms)
{
    int64_t half_ms = (simba_now_ms() - begin_ms) / 2;

    if (strchr(s->options->hosts, ',') == NULL)
        return s->options->connect_timeout_ms;
    return sb_max(half_ms, PATIENCE_MIN_MS);
}

/* The same as sb_zk_handle_wait, but a port on which nobody listens is told at once. */
static int wait_for(struct sb_zk_session *s, struct sb_zk_handle *handle, int64_t timeout_ms,
                    int64_t end_ms, struct simba_error *error)
{
    int code = sb_zk_handle_wait(handle, sb_earlier(timeout_ms, GLANCE_MS), end_ms, error);

    if (code != SIMBA_EUNAVAILABLE || sb_zk_handle_has_failed(handle))
        return code;
    if (sb_zk_probe_refuses(s->options->hosts))
        return sb_error_set_backend(error, SIMBA_EUNAVAILABLE, ECONNREFUSED,
                                    "ZooKeeper at %s cannot be reached: connection refused",
                                    s->options->hosts);
    return sb_zk_handle_wait(handle, timeout_ms, end_ms, error);
}

/* Tries handles until one is connected, and returns it; NULL: see the error. */
static struct sb_zk_handle *find_handle(struct sb_zk_session *s, struct simba_error *error)
{
    int64_t begin_ms = simba_now_ms();
    int64_t end_ms = begin_ms + s->options->connect_timeout_ms;
    bool again = true;

    while (again) {
        struct sb_zk_handle *handle = create_handle(s);
        int code;

        if (handle == NULL) {
            sb_error_plain(error, SIMBA_ENOMEM);
            return NULL;
        }
        handle->silent = true;
        sb_zk_handle_open(handle);
        code = wait_for(s, handle, attempt_ms(s, begin_ms), end_ms, error);
        if (code == SIMBA_OK)
            return handle;
        again = code == SIMBA_EUNAVAILABLE && !sb_zk_handle_has_failed(handle) &&
                error->backend_code != ECONNREFUSED && simba_now_ms() < end_ms;
        sb_zk_handle_close_now(handle);
    }
    return NULL;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

int sb_zk_session_open(struct sb_zk_session *s, struct simba_error *error)
{
    struct simba_error reason = {0};
    struct sb_zk_handle *handle;
    int code = sb_zk_worker_start(&s->worker, error);

    if (code != SIMBA_OK)
        return code;
    handle = find_handle(s, &reason);
    if (handle == NULL) {
        sb_zk_worker_stop(&s->worker);
        if (error != NULL)
            *error = reason;
        return reason.code;
    }
    s->random = sb_random_seed();
    s->entries[0] = (struct ACL){ZOO_PERM_ALL, ZOO_AUTH_IDS};
    s->entries[1] = (struct ACL){ZOO_PERM_READ, ZOO_ANYONE_ID_UNSAFE};
    s->creator_read = (struct ACL_vector){2, s->entries};
    s->handles = 1;
    s->handle = handle;
    uv_timer_init(s->host->loop, &s->timer);
    s->timer.data = s;
    come_up(s, handle->zk, handle->begin_ms);
    sb_zk_handle_speak(handle);
    return SIMBA_OK;
}

void sb_zk_session_close(struct sb_zk_session *s, void (*closed)(void *user))
{
    SB_CHECK(!s->closing, "a session is closed once");
    s->closing = true;
    s->closed = closed;
    drop_handle(s);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}
