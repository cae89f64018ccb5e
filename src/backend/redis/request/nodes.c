/*
 * nodes.c - the servers of a client. Owns their connections and when to do what on them; must not know what
 * is said there.
 */
#include "backend/redis/request/nodes.h"

#include "backend/redis/request/backlog.h"
#include "backend/redis/topology/cluster.h"
#include "backend/redis/ops/eviction.h"
#include "backend/redis/request/leave.h"
#include "backend/redis/request/quorum.h"
#include "backend/redis/request/request.h"
#include "backend/redis/topology/sentinels.h"
#include "base/alloc.h"
#include "base/error.h"

/* ---- Where a node is ------------------------------------------------------------------------ */

/* A server that the sentinels do not vouch for is not even connected to. */
static int where_is_master(void *user, struct sb_redis_place *ret_place, struct simba_error *error)
{
    const struct sb_redis_node *node = user;
    const simba_backend *store = node->store;
    int code = SIMBA_OK;

    if (store->sentinels == NULL) {
        *ret_place = store->options.places[0];
    } else {
        *ret_place = *sb_redis_sentinels_master(store->sentinels);
        code = sb_redis_sentinels_check(store->sentinels, store->options.lease_ms, error);
    }
    return code;
}

static int where_is_node(void *user, struct sb_redis_place *ret_place, struct simba_error *error)
{
    const struct sb_redis_node *node = user;

    (void)error;
    *ret_place = node->place;
    return SIMBA_OK;
}

/* What is under way on the old master has an unknown outcome. */
void sb_redis_node_follow_master(struct sb_redis_node *node)
{
    char where[SB_REDIS_PLACE_TEXT_MAX];
    struct simba_error error;

    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the sentinels name another master: the server at %s",
                 sb_redis_place_text(sb_redis_sentinels_master(node->store->sentinels), where));
    sb_redis_node_drop(node, &error);
    sb_redis_reconnecting_look_again(node->commands);
    sb_redis_subscriber_look_again(node->subscriber);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void on_part_closed(void *user)
{
    struct sb_redis_node *node = user;
    simba_backend *store = node->store;

    if (--node->parts > 0)
        return;
    sb_free(node);
    store->node_count--;
    sb_redis_store_finish_close(store);
}

static void on_room(void *user)
{
    sb_redis_request_go_on(user);
}

static void on_commands_ready(void *user)
{
    struct sb_redis_node *node = user;

    sb_redis_eviction_check(node);
    sb_redis_request_go_on(node); /* what was given up before it could be sent has left room */
}

static void on_released(void *user, struct sb_redis_listener *listener)
{
    struct sb_redis_node *node = user;

    if (listener->lingers)
        sb_redis_leave_queue(node->store, listener);
    else
        sb_redis_listener_wake(&node->store->listeners, listener);
}

static void on_due(void *user)
{
    struct sb_redis_node *node = user;

    sb_redis_request_go_on(node);
    sb_redis_reconnecting_flush(node->commands);
}

static const struct sb_redis_backlog_events backlog_events = {on_part_closed, on_due};
static const struct sb_redis_subscriber_events subscriber_events = {on_part_closed, on_released};
static const struct sb_redis_reconnecting_events command_events = {on_commands_ready, NULL,
                                                                   on_part_closed, on_room};

static struct sb_redis_reconnecting_config link_config(struct sb_redis_node *node, bool in_cluster)
{
    const simba_backend *store = node->store;

    return (struct sb_redis_reconnecting_config){
        .host = store->host,
        .options = &store->options,
        .tls = store->tls,
        .master_only = store->options.mode == SB_REDIS_SENTINEL,
        .credentials = &store->options.credentials,
        .database = store->options.database,
        .where = in_cluster ? where_is_node : where_is_master,
        .outage = &node->outage,
        .events = &command_events,
        .user = node,
    };
}

struct sb_redis_node *sb_redis_node_add(simba_backend *store, const struct sb_redis_place *place)
{
    struct sb_redis_node *node = sb_alloc_zero(sizeof *node);
    struct sb_redis_reconnecting_config config;

    if (node == NULL)
        return NULL;
    node->store = store;
    if (place != NULL)
        node->place = *place;
    config = link_config(node, place != NULL);
    node->subscriber = sb_redis_subscriber_create(&config, &store->listeners, &subscriber_events);
    if (node->subscriber == NULL) {
        sb_free(node);
        return NULL;
    }
    node->parts = 1;
    store->node_count++;
    node->commands = sb_redis_reconnecting_create(&config);
    if (node->commands == NULL) {
        sb_redis_subscriber_close(node->subscriber); /* and with it, at once, the node */
        return NULL;
    }
    node->parts = 2;
    node->backlog = sb_redis_backlog_create(store->host->loop, &backlog_events, node);
    if (node->backlog == NULL) {
        sb_redis_reconnecting_close(node->commands);
        sb_redis_subscriber_close(node->subscriber);
        return NULL;
    }
    node->parts = 3;
    node->next = store->nodes;
    store->nodes = node;
    return node;
}

void sb_redis_node_remove(struct sb_redis_node *node)
{
    struct sb_redis_node **link = &node->store->nodes;

    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    sb_redis_quorum_abandon(node);
    sb_redis_reconnecting_close(node->commands);
    sb_redis_subscriber_close(node->subscriber);
    sb_redis_backlog_close(node->backlog);
}

void sb_redis_node_drop(struct sb_redis_node *node, const struct simba_error *error)
{
    sb_redis_reconnecting_drop(node->commands, error);
    sb_redis_subscriber_drop(node->subscriber, error);
}

/* ---- All of them ---------------------------------------------------------------------------- */

struct sb_redis_node *sb_redis_store_route(simba_backend *store, const char *mutex,
                                           struct simba_error *error)
{
    if (store->cluster != NULL)
        return sb_redis_cluster_route(store->cluster, mutex, error);
    return store->nodes;
}

void sb_redis_store_subscribe(simba_backend *store, struct sb_redis_listener *listener)
{
    char mutex[SIMBA_MUTEX_MAX + 1];
    struct sb_redis_node *node;

    listener->wanted = true;
    if (listener->at != NULL)
        return;
    sb_redis_listener_mutex(listener, mutex);
    node = sb_redis_store_route(store, mutex, NULL);
    if (node != NULL) /* otherwise the next refresh of the cluster's map finds a place for it */
        sb_redis_subscriber_add(node->subscriber, listener);
}

void sb_redis_store_flush(simba_backend *store)
{
    for (struct sb_redis_node *node = store->nodes; node != NULL; node = node->next)
        sb_redis_reconnecting_flush(node->commands);
}
