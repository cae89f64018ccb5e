/*
 * session.c - keeps a session going, and gets a new one when it is over. Must not know latches.
 */
#include "backend/zookeeper/session.h"

#include "backend/zookeeper/call.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"

#include <string.h>

#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 2000
#define PATIENCE_MIN_MS 500
#define USELESS_MS 20 /* less than the library waits before it tries a server again */

static void start_line(struct sb_zk_session *s);

int64_t sb_zk_session_lease_ms(const struct sb_zk_session *s)
{
    return sb_zk_liveness_lease_ms(&s->liveness);
}

bool sb_zk_session_is_proved(const struct sb_zk_session *s)
{
    return s->proved_ms != 0 && simba_now_ms() - s->proved_ms < sb_zk_session_lease_ms(s) / 4;
}

int64_t sb_zk_session_beat_ms(const struct sb_zk_session *s)
{
    return sb_zk_session_lease_ms(s) / 8;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

static void start_timer(struct sb_zk_session *s, int64_t delay_ms)
{
    uv_update_time(s->host->loop);
    uv_timer_start(&s->timer, on_timer, (uint64_t)(delay_ms > 1 ? delay_ms : 1), 0);
}

static int64_t retry_delay(struct sb_zk_session *s)
{
    int64_t most_ms = RETRY_MIN_MS;

    for (unsigned i = 0; i < s->failures && most_ms < RETRY_MAX_MS; i++)
        most_ms *= 2;
    s->failures++;
    return sb_random_between(sb_random_next(&s->random), most_ms / 2, most_ms);
}

static void finish_close(struct sb_zk_session *s)
{
    sb_zk_helper_stop(&s->helper);
    s->closed(s->user);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct sb_zk_session *s = handle->data;

    if (s->lines == 0)
        finish_close(s);
    else
        s->timer.data = NULL; /* the last line ends it */
}

static void on_line_closed(struct sb_zk_line *line)
{
    struct sb_zk_session *s = line->user;
    bool replaced = line->replaced;

    sb_zk_calls_end(line);
    sb_zk_line_free(line);
    s->lines--;
    if (s->closing && s->lines == 0 && s->timer.data == NULL)
        finish_close(s);
    else if (!s->closing && replaced && s->failures > 0)
        start_timer(s, retry_delay(s));
    else if (!s->closing && replaced)
        start_line(s);
}

/* From now on the line's calls and watches are those of an older one. */
static struct sb_zk_line *take_line(struct sb_zk_session *s)
{
    struct sb_zk_line *line = s->line;

    s->line = NULL;
    s->up = false;
    s->drops = 0;
    s->rewatch = true;
    return line;
}

static void drop_line(struct sb_zk_session *s)
{
    struct sb_zk_line *line = take_line(s);

    if (line != NULL)
        sb_zk_line_close(line);
}

/* ---- News ----------------------------------------------------------------------------------- */

static void come_up(struct sb_zk_session *s, zhandle_t *handle, int64_t begin_ms)
{
    const clientid_t *id = zoo_client_id(handle);

    if (s->id.client_id != 0 && s->id.client_id != id->client_id)
        s->tell(s->user, SB_ZK_OVER); /* the library would have said so; a new id proves it */
    if (s->id.client_id != id->client_id) {
        s->number++;
        s->proved_ms = 0;
    }
    s->id = *id;
    s->timeout_ms = zoo_recv_timeout(handle);
    sb_zk_liveness_connect(&s->liveness, s->timeout_ms, begin_ms);
    s->up = true;
    s->useful = false;
    s->synced_ms = simba_now_ms();
    uv_timer_stop(&s->timer);
    s->tell(s->user, SB_ZK_UP);
}

/* How long a line may take to come up (again) before another one is tried. The library would wait for most of the
 * session's time for a server that took a connection and does not answer. */
static int64_t patience_ms(const struct sb_zk_session *s)
{
    return s->timeout_ms / 4 > PATIENCE_MIN_MS ? s->timeout_ms / 4 : PATIENCE_MIN_MS;
}

/* The library sends all its watches in one packet when it is connected again, and a server ends the connection of
 * who sends one that is too large for it: for ever, unless there is a new line, which has no watches. So a line that
 * broke before it was of any use is replaced soon: as soon as what was under way on it has been told. */
static void go_down(struct sb_zk_session *s)
{
    if (!s->useful)
        s->failures++;
    s->up = false;
    start_timer(s, s->useful ? patience_ms(s) : USELESS_MS);
    s->tell(s->user, SB_ZK_DOWN);
}

static void end_session(struct sb_zk_session *s)
{
    bool had_one = s->id.client_id != 0;

    drop_line(s);
    memset(&s->id, 0, sizeof s->id);
    s->number++;
    start_timer(s, retry_delay(s));
    if (had_one)
        s->tell(s->user, SB_ZK_OVER);
}

static void on_line_changed(struct sb_zk_line *line)
{
    struct sb_zk_session *s = line->user;
    int64_t making_ms;
    int64_t begin_ms;
    zhandle_t *handle;
    unsigned drops;
    int failure;
    int state;

    if (line != s->line || s->closing)
        return;
    pthread_mutex_lock(&line->lock);
    handle = line->handle;
    failure = line->failure;
    state = line->state;
    drops = line->drops;
    making_ms = line->making_ms;
    begin_ms = line->begin_ms;
    pthread_mutex_unlock(&line->lock);
    if (handle == NULL && failure == 0)
        return; /* the library was faster than the thread that made the handle */
    if (!line->made && !s->up)
        start_timer(s, patience_ms(s) + 2 * making_ms);
    line->made = true;
    if (s->up && drops != s->drops)
        go_down(s);
    s->drops = drops;
    if (failure != 0) {
        drop_line(s);
        start_timer(s, retry_delay(s));
    } else if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
        end_session(s);
    } else if (state == ZOO_CONNECTED_STATE && !s->up) {
        come_up(s, handle, begin_ms);
    }
}

/* It came up while it was waiting to be closed: it is the session's line again. */
static void on_line_returned(struct sb_zk_line *line)
{
    struct sb_zk_session *s = line->user;

    if (s->closing) {
        sb_zk_line_close(line);
        return;
    }
    s->line = line;
    start_timer(s, patience_ms(s));
    on_line_changed(line);
}

static void on_line_watched(struct sb_zk_line *line, const char *path, bool deleted)
{
    struct sb_zk_session *s = line->user;

    if (line == s->line)
        s->watched(s->user, path, deleted);
}

/* ---- Making lines --------------------------------------------------------------------------- */

static struct sb_zk_line *create_line(struct sb_zk_session *s)
{
    struct sb_zk_line *line = sb_zk_line_create();

    if (line == NULL)
        return NULL;
    line->host = s->host;
    line->options = s->options;
    line->helper = &s->helper;
    line->user = s;
    line->changed = on_line_changed;
    line->watched = on_line_watched;
    line->closed = on_line_closed;
    line->returned = on_line_returned;
    line->resume = s->id;
    return line;
}

/* The time that it may take to come up counts from when its handle is there: making one can take as long as names
 * take to be resolved, and is not made faster by beginning anew. Its thread may resolve them once more. */
static void start_line(struct sb_zk_session *s)
{
    s->line = create_line(s);
    if (s->line == NULL) {
        start_timer(s, retry_delay(s));
        return;
    }
    s->lines++;
    sb_zk_line_open(s->line);
}

static bool is_connected(struct sb_zk_line *line)
{
    bool connected;

    pthread_mutex_lock(&line->lock);
    connected = line->handle != NULL && zoo_state(line->handle) == ZOO_CONNECTED_STATE;
    pthread_mutex_unlock(&line->lock);
    return connected;
}

/* For how long somebody may still believe in the session. */
static int64_t belief_left_ms(const struct sb_zk_session *s)
{
    return s->proved_ms == 0 ? 0 : s->proved_ms + sb_zk_session_lease_ms(s) - simba_now_ms();
}

/* A handle that is connected takes its session with it when it is closed. One that is not may become so at that very
 * moment: so it is closed only when nobody believes. */
static void on_timer(uv_timer_t *timer)
{
    struct sb_zk_session *s = timer->data;
    int64_t left_ms = belief_left_ms(s);

    if (s->line != NULL && is_connected(s->line)) {
        start_timer(s, PATIENCE_MIN_MS); /* the news is on its way */
        return;
    }
    if (s->line != NULL && left_ms > 0) {
        start_timer(s, left_ms);
        return;
    }
    if (s->line != NULL)
        sb_zk_line_replace(take_line(s)); /* the next one follows when it is closed */
    else
        start_line(s);
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* The library would wait for long for a server that takes a connection and does not answer. Each new line begins
 * with any of the servers; so it gets half of the time that the others have had. */
static int64_t attempt_ms(const struct sb_zk_session *s, int64_t begin_ms)
{
    int64_t half_ms = (simba_now_ms() - begin_ms) / 2;

    if (strchr(s->options->hosts, ',') == NULL)
        return s->options->connect_timeout_ms;
    return half_ms > PATIENCE_MIN_MS ? half_ms : PATIENCE_MIN_MS;
}

/* Tries lines until one is connected, and returns it; NULL: see the error. */
static struct sb_zk_line *find_line(struct sb_zk_session *s, struct simba_error *error)
{
    int64_t begin_ms = simba_now_ms();
    int64_t end_ms = begin_ms + s->options->connect_timeout_ms;
    bool again = true;

    while (again) {
        struct sb_zk_line *line = create_line(s);
        int code;

        if (line == NULL) {
            sb_error_plain(error, SIMBA_ENOMEM);
            return NULL;
        }
        line->silent = true;
        sb_zk_line_open(line);
        code = sb_zk_line_wait(line, attempt_ms(s, begin_ms), end_ms, error);
        if (code == SIMBA_OK)
            return line;
        again =
            code == SIMBA_EUNAVAILABLE && !sb_zk_line_has_failed(line) && simba_now_ms() < end_ms;
        sb_zk_line_close_now(line);
    }
    return NULL;
}

/* ---- Life ----------------------------------------------------------------------------------- */

int sb_zk_session_open(struct sb_zk_session *s, struct simba_error *error)
{
    struct simba_error reason = {0};
    struct sb_zk_line *line;
    int code = sb_zk_helper_start(&s->helper, error);

    if (code != SIMBA_OK)
        return code;
    line = find_line(s, &reason);
    if (line == NULL) {
        sb_zk_helper_stop(&s->helper);
        if (error != NULL)
            *error = reason;
        return reason.code;
    }
    s->random = sb_random_seed();
    s->entries[0] = (struct ACL){ZOO_PERM_ALL, ZOO_AUTH_IDS};
    s->entries[1] = (struct ACL){ZOO_PERM_READ, ZOO_ANYONE_ID_UNSAFE};
    s->creator_read = (struct ACL_vector){2, s->entries};
    s->lines = 1;
    s->line = line;
    uv_timer_init(s->host->loop, &s->timer);
    s->timer.data = s;
    come_up(s, line->handle, line->begin_ms);
    sb_zk_line_speak(line);
    return SIMBA_OK;
}

void sb_zk_session_close(struct sb_zk_session *s, void (*closed)(void *user))
{
    s->closing = true;
    s->closed = closed;
    drop_line(s);
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}
