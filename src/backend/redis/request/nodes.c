/*
 * nodes.c - the servers and their connections. Owns the nodes and their addresses; must not know
 * what is sent to them.
 *
 * A release publishes on the node of the mutex, and PUBLISH counts the subscribers of that node
 * only. So a listener is subscribed there, and moves along when the slot does.
 */
#include "backend/redis/request/nodes.h"

#include "backend/redis/topology/cluster.h"
#include "backend/redis/topology/sentinels.h"
#include "backend/redis/wire/reconnecting.h"
#include "backend/redis/wire/endpoint.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"

#include <uv.h>

#define NODES_MAX (2 * SB_REDIS_MASTERS_MAX) /* of two maps, while one replaces the other */

/* ---- Closing --------------------------------------------------------------------------------- */

static void finish_close(struct sb_redis_nodes *nodes)
{
    if (nodes->closing && nodes->count == 0 && nodes->cluster == NULL && nodes->sentinels == NULL)
        nodes->events->closed(nodes->user);
}

static void on_part_closed(void *user)
{
    struct sb_redis_node *node = user;
    struct sb_redis_nodes *nodes = node->nodes;

    SB_CHECK(node->parts > 0 && nodes->count > 0, "a part of a node is closed once");
    if (--node->parts > 0)
        return;
    sb_free(node);
    nodes->count--;
    finish_close(nodes);
}

/* Takes the node out of the list and closes it. */
static void remove_node(struct sb_redis_node *node)
{
    struct sb_redis_node **place = &node->nodes->first;

    while (*place != NULL && *place != node)
        place = &(*place)->next;
    SB_CHECK(*place == node, "a node that is open is in the list");
    *place = node->next;
    sb_redis_quorum_abandon(&node->quorum);
    sb_redis_reconnecting_close(node->commands);
    sb_redis_subscriber_close(node->subscriber);
    sb_redis_backlog_close(node->backlog);
}

void sb_redis_nodes_close(struct sb_redis_nodes *nodes)
{
    while (nodes->first != NULL)
        remove_node(nodes->first);
    nodes->closing = true;
    if (nodes->cluster != NULL)
        sb_redis_cluster_close(nodes->cluster);
    if (nodes->sentinels != NULL)
        sb_redis_sentinels_close(nodes->sentinels);
}

void sb_redis_nodes_free(struct sb_redis_nodes *nodes)
{
    SB_CHECK(nodes->count == 0 && nodes->cluster == NULL, "what is open is closed, not freed");
    if (nodes->sentinels != NULL)
        sb_redis_sentinels_free(nodes->sentinels); /* they were not started */
}

/* ---- Where a node is ------------------------------------------------------------------------- */

/* The client does not even connect to a server that the sentinels do not confirm. */
static int where_is_master(void *user, struct sb_wire_place *ret_place, struct simba_error *error)
{
    const struct sb_redis_nodes *nodes = ((const struct sb_redis_node *)user)->nodes;

    if (nodes->sentinels == NULL) {
        *ret_place = nodes->options->places[0];
        return SIMBA_OK;
    }
    *ret_place = *sb_redis_sentinels_master(nodes->sentinels);
    return sb_redis_sentinels_check(nodes->sentinels, nodes->options->lease_ms, error);
}

static int where_is_node(void *user, struct sb_wire_place *ret_place, struct simba_error *error)
{
    (void)error;
    *ret_place = ((const struct sb_redis_node *)user)->place;
    return SIMBA_OK;
}

void sb_redis_node_drop(struct sb_redis_node *node, const struct simba_error *error)
{
    sb_redis_reconnecting_drop(node->commands, error);
    sb_redis_subscriber_drop(node->subscriber, error);
}

/* What is under way on the old master has an unknown outcome. */
static void on_master_moved(void *user)
{
    const struct sb_redis_nodes *nodes = user;
    struct sb_redis_node *node = nodes->first;
    char where[SB_WIRE_PLACE_TEXT_MAX];
    struct simba_error error;

    if (node == NULL)
        return;
    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the sentinels name another master: the server at %s",
                 sb_wire_place_text(sb_redis_sentinels_master(nodes->sentinels), where));
    sb_redis_node_drop(node, &error);
    sb_redis_reconnecting_retry(node->commands);
    sb_redis_subscriber_retry(node->subscriber);
}

static void on_sentinels_closed(void *user)
{
    struct sb_redis_nodes *nodes = user;

    nodes->sentinels = NULL;
    finish_close(nodes);
}

/* ---- A node ---------------------------------------------------------------------------------- */

static void on_room(void *user)
{
    struct sb_redis_node *node = user;

    node->nodes->events->room(node->nodes->user, node);
}

static void on_ready(void *user)
{
    struct sb_redis_node *node = user;
    bool first = !node->was_ready;

    node->was_ready = true;
    node->nodes->events->ready(node->nodes->user, node, first);
    on_room(node); /* requests that were given up before they were sent have left room */
}

static const struct sb_redis_reconnecting_events command_events = {on_ready, NULL, on_part_closed,
                                                                   on_room};

static struct sb_redis_reconnecting_config connection_config(struct sb_redis_node *node,
                                                             bool in_cluster)
{
    const struct sb_redis_nodes *nodes = node->nodes;

    return (struct sb_redis_reconnecting_config){
        .host = nodes->host,
        .options = nodes->options,
        .tls = nodes->tls,
        .master_only = nodes->options->mode == SB_REDIS_SENTINEL,
        .credentials = &nodes->options->credentials,
        .database = nodes->options->database,
        .where = in_cluster ? where_is_node : where_is_master,
        .outage = &node->outage,
        .events = &command_events,
        .user = node,
    };
}

/* Adds a node of a cluster, or (`place` NULL) the server that the URL leads to. NULL when memory is
 * short. A part that was never started closes at once, and with the last one the node. */
static struct sb_redis_node *add_node(struct sb_redis_nodes *nodes,
                                      const struct sb_wire_place *place)
{
    struct sb_redis_node *node = sb_alloc_zero(sizeof *node);
    struct sb_redis_reconnecting_config config;

    if (node == NULL)
        return NULL;
    node->nodes = nodes;
    if (place != NULL)
        node->place = *place;
    config = connection_config(node, place != NULL);
    node->subscriber = sb_redis_subscriber_create(&config, nodes->listeners, on_part_closed);
    if (node->subscriber == NULL) {
        sb_free(node);
        return NULL;
    }
    node->parts = 1;
    nodes->count++;
    node->commands = sb_redis_reconnecting_create(&config);
    if (node->commands == NULL) {
        sb_redis_subscriber_close(node->subscriber);
        return NULL;
    }
    node->parts = 2;
    node->backlog = sb_redis_backlog_create(nodes->host->loop, on_part_closed, node);
    if (node->backlog == NULL) {
        sb_redis_reconnecting_close(node->commands);
        sb_redis_subscriber_close(node->subscriber);
        return NULL;
    }
    node->parts = 3;
    node->next = nodes->first;
    nodes->first = node;
    return node;
}

/* ---- The nodes of a cluster ------------------------------------------------------------------ */

/* A node is connected to when it is first used. Redirections may name as many as they like until
 * the map is asked for again, so there is a limit. */
static bool find_node(void *user, const struct sb_wire_place *place,
                      struct sb_redis_node **ret_node)
{
    struct sb_redis_nodes *nodes = user;
    struct sb_redis_node *node = nodes->first;

    while (node != NULL && !sb_wire_place_equals(&node->place, place))
        node = node->next;
    if (node == NULL && nodes->count < NODES_MAX)
        node = add_node(nodes, place);
    if (node != NULL)
        *ret_node = node;
    return node != NULL;
}

static void on_slot_moved(void *user, struct sb_redis_node *from, struct sb_redis_node *to)
{
    (void)user;
    SB_CHECK(from == NULL || from->slots > 0, "a slot moves away from a node that has it");
    if (from != NULL)
        from->slots--;
    if (to != NULL)
        to->slots++;
}

static void move_listener(void *argument, struct sb_redis_listener *listener)
{
    const struct sb_redis_nodes *nodes = argument;
    char mutex[SIMBA_MUTEX_MAX + 1];
    struct sb_redis_node *node;

    if (!listener->wanted)
        return;
    sb_redis_listener_mutex(listener, mutex);
    node = sb_redis_cluster_node(nodes->cluster, mutex);
    if (node == NULL || node->subscriber == listener->at)
        return;
    if (listener->at != NULL)
        sb_redis_subscriber_remove(listener->at, listener);
    sb_redis_subscriber_add(node->subscriber, listener);
}

/* A listener whose slot has no node is left at one that goes. */
static void forget_subscriber(void *argument, struct sb_redis_listener *listener)
{
    if (listener->at == argument)
        listener->at = NULL;
}

static void on_mapped(void *user)
{
    struct sb_redis_nodes *nodes = user;
    struct sb_redis_node *next;

    sb_redis_listeners_each(nodes->listeners, move_listener, nodes);
    for (struct sb_redis_node *node = nodes->first; node != NULL; node = next) {
        next = node->next;
        if (node->slots > 0)
            continue;
        sb_redis_listeners_each(nodes->listeners, forget_subscriber, node->subscriber);
        remove_node(node);
    }
}

static void add_seeds(void *user, struct sb_redis_cluster *cluster)
{
    const struct sb_redis_nodes *nodes = user;

    for (const struct sb_redis_node *node = nodes->first; node != NULL; node = node->next)
        if (sb_redis_reconnecting_is_ready(node->commands))
            sb_redis_cluster_add_seed(cluster, &node->place);
}

static void on_cluster_closed(void *user)
{
    struct sb_redis_nodes *nodes = user;

    nodes->cluster = NULL;
    finish_close(nodes);
}

static const struct sb_redis_cluster_events cluster_events = {find_node, on_slot_moved, on_mapped,
                                                              add_seeds, on_cluster_closed};

/* ---- Opening --------------------------------------------------------------------------------- */

static const struct sb_redis_sentinels_events sentinels_events = {on_master_moved,
                                                                  on_sentinels_closed};

static int ask_sentinels(struct sb_redis_nodes *nodes, struct simba_error *error)
{
    struct sb_redis_votes *votes = sb_alloc(sizeof *votes);
    int code;

    if (votes == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    code = sb_redis_sentinel_query_all(nodes->options, nodes->tls, votes, error);
    if (code == SIMBA_OK) {
        nodes->sentinels = sb_redis_sentinels_create(nodes->host, nodes->options, nodes->tls, votes,
                                                     &sentinels_events, nodes);
        if (nodes->sentinels == NULL)
            code = sb_error_plain(error, SIMBA_ENOMEM);
    }
    sb_free(votes);
    return code;
}

/* Connects, authenticates and asks the server, on a loop of its own, before anything is put on the
 * client's loop. */
static int open_server(struct sb_redis_nodes *nodes, struct simba_error *error)
{
    const struct sb_redis_options *o = nodes->options;
    const struct sb_redis_ask_config config = {
        .options = o,
        .tls = nodes->tls,
        .credentials = &o->credentials,
        .database = o->database,
        .master_only = o->mode == SB_REDIS_SENTINEL,
    };
    const struct sb_redis_argument word = {"PING", 4};
    const struct sb_wire_place *place = &o->places[0];
    struct sb_wire_endpoint endpoint;
    struct sb_redis_node *node;
    int code = SIMBA_OK;

    if (o->mode == SB_REDIS_SENTINEL)
        code = ask_sentinels(nodes, error);
    if (code != SIMBA_OK)
        return code;
    if (nodes->sentinels != NULL)
        place = sb_redis_sentinels_master(nodes->sentinels);
    code = sb_redis_endpoint_find(o, &o->credentials, place, &endpoint, error);
    if (code == SIMBA_OK)
        code = sb_redis_ask(&config, &endpoint, &word, 1, NULL, NULL, error);
    if (code != SIMBA_OK)
        return code;
    node = add_node(nodes, NULL);
    if (node == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    uv_update_time(nodes->host->loop); /* the above may have taken long */
    if (nodes->sentinels != NULL)
        sb_redis_sentinels_start(nodes->sentinels);
    sb_redis_reconnecting_start(node->commands, &endpoint);
    return SIMBA_OK;
}

int sb_redis_nodes_open(struct sb_redis_nodes *nodes, struct simba_error *error)
{
    const struct sb_redis_cluster_config cluster = {nodes->host, nodes->options, nodes->tls,
                                                    &cluster_events, nodes};

    if (nodes->options->mode == SB_REDIS_CLUSTER)
        return sb_redis_cluster_open(&cluster, &nodes->cluster, error);
    return open_server(nodes, error);
}

/* ---- Use ------------------------------------------------------------------------------------- */

struct sb_redis_node *sb_redis_nodes_route(const struct sb_redis_nodes *nodes, const char *mutex,
                                           struct simba_error *error)
{
    if (nodes->cluster != NULL)
        return sb_redis_cluster_route(nodes->cluster, mutex, error);
    return nodes->first;
}

void sb_redis_nodes_subscribe(const struct sb_redis_nodes *nodes,
                              struct sb_redis_listener *listener)
{
    char mutex[SIMBA_MUTEX_MAX + 1];
    struct sb_redis_node *node;

    listener->wanted = true;
    if (listener->at != NULL)
        return;
    sb_redis_listener_mutex(listener, mutex);
    node = sb_redis_nodes_route(nodes, mutex, NULL);
    if (node != NULL) /* otherwise the next map of the cluster has a node for it */
        sb_redis_subscriber_add(node->subscriber, listener);
}

void sb_redis_nodes_suspect(const struct sb_redis_nodes *nodes)
{
    if (nodes->cluster != NULL)
        sb_redis_cluster_refresh(nodes->cluster);
}

void sb_redis_node_flush(struct sb_redis_node *node)
{
    sb_redis_quorum_ask(&node->quorum, node->commands);
    sb_redis_reconnecting_flush(node->commands);
}

void sb_redis_nodes_flush(const struct sb_redis_nodes *nodes)
{
    for (struct sb_redis_node *node = nodes->first; node != NULL; node = node->next)
        sb_redis_node_flush(node);
}
