/*
 * cluster.h - which master of a cluster a mutex is on.
 *
 * The map of slots is asked for when the client is opened, and again, on a thread of its own,
 * whenever something shows that it has changed. Redirections are followed at once.
 *
 * The cluster knows nodes as pointers only. Its owner makes them, and takes those down that have no
 * slot any more.
 */
#ifndef SB_REDIS_CLUSTER_H
#define SB_REDIS_CLUSTER_H

#include "backend/redis/wire/reconnecting.h"
#include "backend/redis/wire/endpoint.h"

/* ---- Slots ----------------------------------------------------------------------------------- */

#define SB_REDIS_SLOTS 16384

/* The slot that a mutex is in. */
unsigned sb_redis_slot_of(const char *mutex);

/* A map with more masters than that is refused. */
#define SB_REDIS_MASTERS_MAX 1000

/* ---- The cluster ----------------------------------------------------------------------------- */

struct sb_redis_cluster;
struct sb_redis_node;

struct sb_redis_cluster_events {
    /* Finds the node at a place, and adds it where it is new; false when memory is short or there
     * are too many. */
    bool (*find_node)(void *user, const struct sb_wire_place *place,
                      struct sb_redis_node **ret_node);
    /* A slot goes from one node to another; either may be NULL. */
    void (*slot_moved)(void *user, struct sb_redis_node *from, struct sb_redis_node *to);
    /* A map has been applied. Comes for every map but the first one. */
    void (*mapped)(void *user);
    /* Calls sb_redis_cluster_add_seed for each node that is connected to. */
    void (*add_seeds)(void *user, struct sb_redis_cluster *cluster);
    void (*closed)(void *user); /* after sb_redis_cluster_close; it is gone */
};

struct sb_redis_cluster_config {
    const struct simba_backend_host *host;
    const struct sb_redis_options *options;
    const struct sb_wire_tls *tls;
    const struct sb_redis_cluster_events *events;
    void *user;
};

/* Blocks: asks the nodes of the URL for the map. */
int sb_redis_cluster_open(const struct sb_redis_cluster_config *config,
                          struct sb_redis_cluster **ret_cluster, struct simba_error *error);

/* The node that serves the slot of a mutex; NULL: none is known. */
struct sb_redis_node *sb_redis_cluster_node(const struct sb_redis_cluster *cluster,
                                            const char *mutex);

/* The same for a request, which makes sure that a missing node is looked for. NULL, and then *error
 * (which may be NULL) says why. */
struct sb_redis_node *sb_redis_cluster_route(struct sb_redis_cluster *cluster, const char *mutex,
                                             struct simba_error *error);

/* The node that "MOVED slot host:port" or "ASK slot host:port" names, which `from` has sent;
 * *ret_asking for the latter. NULL when it names none. */
struct sb_redis_node *sb_redis_cluster_redirect(struct sb_redis_cluster *cluster, const char *text,
                                                const struct sb_wire_place *from, bool *ret_asking,
                                                struct simba_error *error);

/* A node that can be asked for the next map. Within `add_seeds` only. */
void sb_redis_cluster_add_seed(struct sb_redis_cluster *cluster, const struct sb_wire_place *place);

/* Asks for the map again, soon. */
void sb_redis_cluster_refresh(struct sb_redis_cluster *cluster);

/* The same when a node says that the cluster is down: where the map is from that node, another one
 * is asked. */
void sb_redis_cluster_doubt(struct sb_redis_cluster *cluster, const struct sb_wire_place *place);

/* Destroys it. */
void sb_redis_cluster_close(struct sb_redis_cluster *cluster);

#endif
