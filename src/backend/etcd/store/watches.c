/*
 * watches.c - watchers on the stream. Must not know what the keys mean.
 */
#include "backend/etcd/store/watches.h"

#include "backend/etcd/names.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/time.h"

#include <string.h>

#define RESTART_MS 100
#define REFUSALS_MAX 7 /* each doubles the pause before the next stream: 13 s at most */

/* ---- What is sent ---------------------------------------------------------------------------- */

static bool add_create(struct sb_etcd_watches *w, const struct sb_etcd_watcher *watcher)
{
    Etcd__WatchCreate__Filter no_put = ETCD__WATCH_CREATE__FILTER__NO_PUT;
    Etcd__WatchAsk message = ETCD__WATCH_ASK__INIT;
    Etcd__WatchCreate create = ETCD__WATCH_CREATE__INIT;
    size_t length = strlen(watcher->key);
    char end[SB_ETCD_KEY_SIZE];

    message.ask_case = ETCD__WATCH_ASK__ASK_CREATE;
    message.create = &create;
    create.key = (ProtobufCBinaryData){length, (uint8_t *)watcher->key};
    create.watch_id = watcher->id;
    if (watcher->key[length - 1] == '/') {
        sb_etcd_range_end(end, watcher->key);
        create.range_end = (ProtobufCBinaryData){strlen(end), (uint8_t *)end};
    } else {
        create.filters = &no_put;
        create.n_filters = 1;
    }
    if (!sb_etcd_call_add(&w->stream, &message.base))
        return false;
    w->unanswered++;
    return true;
}

static void send_cancel(struct sb_etcd_watches *w, int64_t id)
{
    Etcd__WatchAsk message = ETCD__WATCH_ASK__INIT;
    Etcd__WatchCancel cancel = ETCD__WATCH_CANCEL__INIT;

    message.ask_case = ETCD__WATCH_ASK__ASK_CANCEL;
    message.cancel = &cancel;
    cancel.watch_id = id;
    if (w->streaming && sb_etcd_call_add(&w->stream, &message.base))
        sb_etcd_link_resume(w->link, &w->stream);
}

/* ---- What comes ------------------------------------------------------------------------------ */

static struct sb_etcd_watcher *find(const struct sb_etcd_watches *w, int64_t id)
{
    struct sb_etcd_watcher *watcher = w->first;

    while (watcher != NULL && watcher->id != id)
        watcher = watcher->next;
    return watcher;
}

/* A watcher may end with each event, also another one. */
static void tell_events(struct sb_etcd_watches *w, const Etcd__WatchAnswer *answer)
{
    for (size_t i = 0; i < answer->n_events; i++) {
        const Etcd__Event *event = answer->events[i];
        struct sb_etcd_watcher *watcher = find(w, answer->watch_id);

        if (watcher == NULL || event->kv == NULL)
            return;
        watcher->changed(
            watcher->user,
            &(struct sb_etcd_watch_event){
                .change = event->type == ETCD__EVENT__TYPE__PUT ? SB_ETCD_PUT : SB_ETCD_DELETED,
                .lease = sb_etcd_lease_of(event->kv->key.data, event->kv->key.len),
                .revision = event->kv->mod_revision});
    }
}

static void tell(struct sb_etcd_watcher *watcher, enum sb_etcd_change change)
{
    const struct sb_etcd_watch_event event = {.change = change};

    watcher->changed(watcher->user, &event);
}

static void send_create(struct sb_etcd_watches *w, const struct sb_etcd_watcher *watcher)
{
    if (w->streaming && add_create(w, watcher))
        sb_etcd_link_resume(w->link, &w->stream);
    else if (!w->streaming)
        sb_etcd_watches_tend(w);
}

static void on_begun(struct sb_etcd_watches *w, const Etcd__WatchAnswer *answer)
{
    struct sb_etcd_watcher *watcher = find(w, answer->watch_id);

    if (w->unanswered > 0 && --w->unanswered == 0)
        w->refusals = 0;
    if (watcher == NULL)
        return;
    watcher->begun = true;
    tell(watcher, SB_ETCD_MISSED);
}

/* A server answers in the order in which it was asked. */
static struct sb_etcd_watcher *find_unanswered(const struct sb_etcd_watches *w)
{
    struct sb_etcd_watcher *found = NULL;

    for (struct sb_etcd_watcher *one = w->first; one != NULL; one = one->next)
        if (!one->begun && (found == NULL || one->id < found->id))
            found = one;
    return found;
}

/* Often the token with which the stream began has expired. The server names no watch where it
 * refuses one, and some versions read nothing more of the stream. So the client logs in again, and
 * the stream ends and begins anew; the next look of the watcher's owner tells any other reason. */
static void on_refused(struct sb_etcd_watches *w, struct sb_etcd_watcher *watcher)
{
    w->refused = true;
    if (w->refusals < REFUSALS_MAX)
        w->refusals++;
    sb_etcd_link_log_in_again(w->link);
    w->tend_at(w->user, simba_now_ms());
    if (watcher != NULL)
        tell(watcher, SB_ETCD_REFUSED);
}

/* What the server had not sent yet was compacted: the watch begins again. */
static void on_canceled(struct sb_etcd_watches *w, const Etcd__WatchAnswer *answer)
{
    struct sb_etcd_watcher *watcher = find(w, answer->watch_id);

    if (answer->created) {
        on_refused(w, watcher != NULL ? watcher : find_unanswered(w));
    } else if (watcher != NULL && answer->compact_revision == 0) {
        on_refused(w, watcher);
    } else if (watcher != NULL) {
        watcher->id = ++w->last_id;
        watcher->begun = false;
        send_create(w, watcher);
    }
}

static void on_answer(struct sb_etcd_call *call, const void *bytes, size_t length)
{
    struct sb_etcd_watches *w = call->user;
    Etcd__WatchAnswer *answer = sb_etcd_unpack(&etcd__watch_answer__descriptor, bytes, length);

    if (answer != NULL && answer->canceled)
        on_canceled(w, answer);
    else if (answer != NULL && answer->created)
        on_begun(w, answer);
    else if (answer != NULL)
        tell_events(w, answer);
    sb_etcd_free_message(answer);
}

static void end_stream(struct sb_etcd_watches *w)
{
    sb_etcd_call_clear(&w->stream);
    w->streaming = w->refused = false;
    w->unanswered = 0;
    w->restart_ms = simba_now_ms() + (RESTART_MS << w->refusals);
    w->tend_at(w->user, w->restart_ms);
}

static void on_ended(struct sb_etcd_call *call, const struct simba_error *error, bool maybe)
{
    (void)error;
    (void)maybe;
    end_stream(call->user);
}

/* All watchers begin again. Their ids are new: answers to the old ones mean nothing any more. */
static void restart(struct sb_etcd_watches *w)
{
    struct sb_etcd_call *call = &w->stream;

    for (struct sb_etcd_watcher *one = w->first; one != NULL; one = one->next) {
        one->id = ++w->last_id;
        one->begun = false;
        if (!add_create(w, one)) {
            end_stream(w);
            return;
        }
    }
    call->path = "/etcdserverpb.Watch/Watch";
    call->streams = true;
    call->message = on_answer;
    call->ended = on_ended;
    call->user = w;
    call->deadline_ms = SIMBA_INFINITE;
    w->streaming = true;
    sb_etcd_link_send(w->link, call);
}

int64_t sb_etcd_watches_tend(struct sb_etcd_watches *w)
{
    if (w->refused) {
        sb_etcd_link_cancel(w->link, &w->stream);
        end_stream(w);
    }
    if (w->streaming || w->first == NULL || !sb_etcd_link_is_up(w->link))
        return SIMBA_INFINITE;
    if (w->restart_ms <= simba_now_ms())
        restart(w);
    return w->streaming ? SIMBA_INFINITE : w->restart_ms;
}

/* ---- Watchers -------------------------------------------------------------------------------- */

struct sb_etcd_watcher *
sb_etcd_watch(struct sb_etcd_watches *w, const char *key,
              void (*changed)(void *user, const struct sb_etcd_watch_event *event), void *user)
{
    size_t size = strlen(key) + 1;
    struct sb_etcd_watcher *watcher = sb_alloc(sizeof *watcher + size);

    if (watcher == NULL)
        return NULL;
    *watcher = (struct sb_etcd_watcher){
        .next = w->first, .back = &w->first, .id = ++w->last_id, .changed = changed, .user = user};
    memcpy(watcher->key, key, size);
    if (watcher->next != NULL)
        watcher->next->back = &watcher->next;
    w->first = watcher;
    send_create(w, watcher);
    return watcher;
}

void sb_etcd_unwatch(struct sb_etcd_watches *w, struct sb_etcd_watcher **watcher_of)
{
    struct sb_etcd_watcher *watcher = *watcher_of;

    *watcher_of = NULL;
    if (watcher == NULL)
        return;
    *watcher->back = watcher->next;
    if (watcher->next != NULL)
        watcher->next->back = watcher->back;
    send_cancel(w, watcher->id);
    sb_free(watcher);
}

void sb_etcd_watches_free(struct sb_etcd_watches *w)
{
    SB_CHECK(w->first == NULL, "watchers end before their stream");
    sb_etcd_call_clear(&w->stream);
}
