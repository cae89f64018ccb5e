/*
 * watch.c - what the watches are for: a contender watches the node before its own, and its own while it is the
 * second; the observers of a mutex share one on the leader's node, or on the mutex while nobody leads.
 *
 * All watches of a path are one for the library, so that one is taken back only when nobody else needs it.
 */
#include "backend/zookeeper/job.h"

#include <string.h>

bool sb_zk_watch_is_wanted(const struct sb_zk_place *place, const char *node)
{
    if (strcmp(place->watched, node) == 0)
        return true;
    for (const struct sb_zk_latch *latch = place->latches; latch != NULL; latch = latch->next)
        if (strcmp(latch->watched, node) == 0 ||
            (latch->watches_self && strcmp(latch->name, node) == 0))
            return true;
    return false;
}

static void unwatch(simba_backend *store, const struct sb_zk_place *place, const char *node)
{
    char path[SB_ZK_PATH_SIZE];

    if (!sb_zk_watch_is_wanted(place, node) &&
        sb_zk_node_path(path, store->options.base, place->mutex, node))
        sb_zk_unwatch_node(&store->session, path);
}

void sb_zk_watch_before(simba_backend *store, struct sb_zk_latch *latch)
{
    char node[SB_ZK_NODE_MAX + 1];

    if (latch->watched[0] == '\0')
        return;
    memcpy(node, latch->watched, sizeof node);
    latch->watched[0] = '\0';
    latch->second = false;
    unwatch(store, latch->place, node);
}

void sb_zk_watch_self(simba_backend *store, struct sb_zk_latch *latch)
{
    if (!latch->watches_self)
        return;
    sb_zk_latch_forget_turn(latch);
    unwatch(store, latch->place, latch->name);
}

void sb_zk_watch_observers(simba_backend *store, struct sb_zk_place *place)
{
    char node[SB_ZK_NODE_MAX + 1];
    char path[SB_ZK_PATH_SIZE];

    memcpy(node, place->watched, sizeof node);
    place->watched[0] = '\0';
    if (node[0] != '\0')
        unwatch(store, place, node);
    sb_zk_mutex_path(path, store->options.base, place->mutex);
    if (place->watches_children)
        sb_zk_unwatch_children(&store->session, path);
    if (place->watches_parent)
        sb_zk_unwatch_node(&store->session, path);
    place->watches_children = false;
    place->watches_parent = false;
}

/* Its contender is woken. From now on it may be the first: if it is not heard of, its node has to go. */
static void wake(simba_backend *store, struct sb_zk_latch *latch, bool deleted)
{
    const struct simba_backend_host *host = store->host;

    latch->watched[0] = '\0';
    latch->first = deleted && latch->second && latch->watches_self;
    latch->second = false;
    if (!latch->granted && latch->node != SB_ZK_NODE_NONE) {
        latch->withdraw_ms = simba_now_ms() + store->session.timeout_ms;
        sb_zk_store_wake_at(store, latch->withdraw_ms);
    }
    host->notice(host, SIMBA_NOTICE_RELEASED, latch->place->mutex, latch->id);
    if (latch->active != NULL && latch->active->parked)
        sb_zk_job_answer_nobody(latch->active);
}

static void wake_latches(simba_backend *store, struct sb_zk_place *place, const char *node,
                         bool deleted)
{
    struct sb_zk_latch *latch = place->latches;

    while (latch != NULL) {
        struct sb_zk_latch *next = latch->next;

        if (strcmp(latch->name, node) == 0)
            sb_zk_latch_forget_turn(latch);
        if (strcmp(latch->watched, node) == 0)
            wake(store, latch, deleted);
        latch = next;
    }
}

void sb_zk_watch_fired(simba_backend *store, const char *path, bool deleted)
{
    const struct simba_backend_host *host = store->host;
    char mutex[SIMBA_MUTEX_MAX + 1];
    struct sb_zk_place *place;
    const char *node;

    if (!sb_zk_split_path(path, store->options.base, mutex, &node))
        return;
    place = sb_zk_place_find(&store->places, mutex);
    if (place == NULL)
        return;
    place->jobs++; /* it stays meanwhile */
    if (node[0] != '\0')
        wake_latches(store, place, node, deleted);
    if (node[0] == '\0') {
        place->watches_children = false;
        place->watches_parent = false;
    }
    if (place->observers > 0 && strcmp(place->watched, node) == 0) {
        place->watched[0] = '\0';
        host->notice(host, SIMBA_NOTICE_CHANGED, mutex, NULL);
    }
    place->jobs--;
    sb_zk_place_drop(&store->places, place);
}

void sb_zk_watches_lost(simba_backend *store)
{
    for (size_t i = 0; i < store->places.size; i++)
        for (struct sb_zk_place *place = store->places.buckets[i]; place != NULL;
             place = place->next) {
            place->watches_children = false;
            place->watches_parent = false;
            place->watched[0] = '\0';
            for (struct sb_zk_latch *latch = place->latches; latch != NULL; latch = latch->next) {
                latch->watched[0] = '\0';
                sb_zk_latch_forget_turn(latch);
            }
        }
}
