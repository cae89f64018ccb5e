/*
 * notices.c - brings what a backend tells to the services that it concerns. Notices may come on any
 * thread; they are acted upon on the loop thread only.
 */
#include "runtime/service_state.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/text.h"
#include "runtime/shared_reads.h"

#include <string.h>

/* A notice on its way to the loop. An empty string stands for NULL.
 *
 * A user who may only send messages can send them faster than the loop runs. So equal notices are
 * one, in engine->notices, and what concerns no service is dropped at once: there are never more
 * than the client's own services can be told. */
struct notice {
    struct simba_task task; /* first */
    struct sb_hash_node node;
    struct sb_engine *engine;
    enum sb_event_type event;
    bool again; /* it came again while it was on its way; under engine->notices_lock */
    char mutex[SIMBA_MUTEX_MAX + 1];
    char id[SIMBA_ID_MAX + 1];
};

/* Takes the members out of the registry's lock: what a step leads to may want it. */
static void collect_member(struct sb_member *member, void *argument)
{
    struct sb_member **list = argument;

    SB_CHECK(member != *list, "a member is found once");
    sb_service_hold(sb_service_of_member(member));
    member->found = *list;
    *list = member;
}

/* Whether it makes a service read one mutex, which the sender of a message may want very often. */
static bool is_hint_to_read(const struct notice *notice, const struct sb_service *s)
{
    if (notice->mutex[0] == '\0')
        return false; /* it is about the connection */
    return (notice->event == SB_EVENT_CHANGED && sb_service_hears_changes(s)) ||
           (notice->event == SB_EVENT_WAKE && s->member.id == NULL);
}

/* Only from the inbox or a timer, never from within a step, so that there is one list of found
 * members at a time. Hints to read are told where `reads` says so. Returns whether there is any. */
static bool tell_members(const struct notice *notice, bool reads)
{
    struct sb_member *list = NULL;
    bool hinted = false;

    SB_CHECK(sb_loop_is_current(notice->engine->loop), "notices are told on the loop thread");
    sb_registry_visit(&notice->engine->registry, notice->mutex[0] != '\0' ? notice->mutex : NULL,
                      notice->id[0] != '\0' ? notice->id : NULL, collect_member, &list);
    while (list != NULL) {
        struct sb_member *member = list;
        struct sb_service *service = sb_service_of_member(member);
        bool hint = is_hint_to_read(notice, service);

        list = member->found;
        hinted |= hint;
        if (hint ? reads : notice->event != SB_EVENT_CHANGED || sb_service_hears_changes(service))
            sb_service_event(service, notice->event);
        sb_service_drop(service);
    }
    return hinted;
}

static void tell(const struct notice *notice)
{
    if (tell_members(notice, false))
        sb_reads_hint(notice->engine->reads, notice->mutex);
}

/* What came again is told again, behind the replies that were posted before it. */
static void run_notice(struct simba_task *task)
{
    struct notice *notice = (struct notice *)task;
    struct sb_engine *engine = notice->engine;
    bool again;

    SB_CHECK(sb_loop_is_current(engine->loop), "notices are told on the loop thread");
    sb_lock_take(&engine->notices_lock);
    again = notice->again;
    notice->again = false;
    if (!again)
        sb_hash_table_remove(&engine->notices, &notice->node);
    sb_lock_release(&engine->notices_lock);
    tell(notice);
    if (again)
        sb_loop_post(engine->loop, task);
    else
        sb_free(notice);
}

static struct notice make_notice(struct sb_engine *engine, enum sb_event_type event,
                                 const char *mutex, const char *id)
{
    struct notice notice = {.task.run = run_notice, .engine = engine, .event = event};

    sb_text_copy(notice.mutex, sizeof notice.mutex, mutex != NULL ? mutex : "");
    sb_text_copy(notice.id, sizeof notice.id, id != NULL ? id : "");
    return notice;
}

void sb_notices_tell_followers(void *engine, const char *mutex)
{
    struct notice notice = make_notice(engine, SB_EVENT_CHANGED, mutex, NULL);

    tell_members(&notice, true);
}

static struct notice *find_equal(struct sb_engine *engine, const struct notice *notice,
                                 uint32_t hash)
{
    struct sb_hash_node *node = NULL;

    SB_CHECK(sb_lock_is_mine(&engine->notices_lock), "notices are searched with their lock held");
    while ((node = sb_hash_table_find(&engine->notices, node, hash)) != NULL) {
        struct notice *other = SB_CONTAINER(struct notice, node, node);

        if (other->event == notice->event && strcmp(other->mutex, notice->mutex) == 0 &&
            strcmp(other->id, notice->id) == 0)
            return other;
    }
    return NULL;
}

/* False when there is no memory to carry it. */
static bool post(const struct notice *notice)
{
    struct sb_engine *engine = notice->engine;
    uint32_t hash = sb_hash(notice->mutex);
    struct notice *equal;
    struct notice *copy = NULL;

    sb_lock_take(&engine->notices_lock);
    equal = find_equal(engine, notice, hash);
    if (equal != NULL) {
        equal->again = true;
    } else if ((copy = sb_alloc(sizeof *copy)) != NULL) {
        *copy = *notice;
        sb_hash_table_add(&engine->notices, &copy->node, hash);
    }
    sb_lock_release(&engine->notices_lock);
    if (copy != NULL)
        sb_loop_post(engine->loop, &copy->task);
    return equal != NULL || copy != NULL;
}

static void note_member(struct sb_member *member, void *argument)
{
    (void)member;
    *(bool *)argument = true;
}

/* A service that is added later asks the store later. */
static bool concerns_any(const struct notice *notice)
{
    bool any = notice->mutex[0] == '\0';

    if (!any)
        sb_registry_visit(&notice->engine->registry, notice->mutex,
                          notice->id[0] != '\0' ? notice->id : NULL, note_member, &any);
    return any;
}

/* The backend may be the application's own: a kind that is not known is a hint to try. */
static enum sb_event_type event_of(enum simba_notice what)
{
    switch (what) {
    case SIMBA_NOTICE_CHANGED:
        return SB_EVENT_CHANGED;
    case SIMBA_NOTICE_RESERVED:
        return SB_EVENT_RESERVED;
    case SIMBA_NOTICE_STANDBY:
        return SB_EVENT_STANDBY;
    case SIMBA_NOTICE_RELEASED:
        break;
    }
    return SB_EVENT_WAKE;
}

void sb_notices_tell(const struct simba_backend_host *host, enum simba_notice what,
                     const char *mutex, const char *id)
{
    struct notice notice = make_notice(sb_engine_of_host(host), event_of(what), mutex, id);

    if (concerns_any(&notice))
        post(&notice); /* a courtesy: without memory the next scheduled attempt finds out */
}

void sb_notices_run_session_lost(struct simba_task *task)
{
    struct sb_engine *engine = SB_CONTAINER(struct sb_engine, session_task, task);
    struct notice notice = make_notice(engine, SB_EVENT_SESSION_LOST, NULL, NULL);

    SB_CHECK(atomic_load(&engine->session_task_posted), "a task that runs was posted");
    atomic_store(&engine->session_task_posted, false);
    tell(&notice);
}

/* This must arrive. Without memory for one mutex it is told to all: they just compete anew. */
void sb_notices_tell_session_lost(const struct simba_backend_host *host, const char *mutex)
{
    struct sb_engine *engine = sb_engine_of_host(host);
    struct notice notice = make_notice(engine, SB_EVENT_SESSION_LOST, mutex, NULL);

    if (!post(&notice) && !atomic_exchange(&engine->session_task_posted, true))
        sb_loop_post(engine->loop, &engine->session_task);
}

/* Those that listen have done so to nobody. */
void sb_notices_introduce_services(void *argument)
{
    struct sb_engine *engine = argument;
    struct sb_member *list = NULL;

    SB_CHECK(sb_loop_is_current(engine->loop), "services are introduced on the loop thread");
    sb_registry_visit(&engine->registry, NULL, NULL, collect_member, &list);
    while (list != NULL) {
        struct sb_member *member = list;
        struct sb_service *service = sb_service_of_member(member);

        list = member->found;
        sb_service_introduce(service);
        sb_service_drop(service);
    }
}

void sb_notices_destroy(struct sb_engine *engine)
{
    struct sb_hash_node *node;

    while (engine->notices.buckets != NULL &&
           (node = sb_hash_table_next(&engine->notices, NULL)) != NULL) {
        sb_hash_table_remove(&engine->notices, node);
        sb_free(SB_CONTAINER(struct notice, node, node));
    }
    sb_hash_table_free(&engine->notices);
    pthread_mutex_destroy(&engine->notices_lock);
}
