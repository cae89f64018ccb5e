/*
 * cluster.h - which master of a cluster a mutex is on.
 *
 * The map of slots is asked for when the client is opened, and again, on a thread of its own, whenever
 * something shows that it has changed. Redirections are followed at once.
 */
#ifndef SB_REDIS_CLUSTER_H
#define SB_REDIS_CLUSTER_H

#include "backend/redis/request/nodes.h"

struct sb_redis_cluster;

/* Blocks: asks the nodes of the URL for the map, and adds the masters to the store. */
int sb_redis_cluster_open(simba_backend *store, struct sb_redis_cluster **ret_cluster,
                          struct simba_error *error);

/* The node that a mutex is on; NULL, and then *error (which may be NULL) says why. */
struct sb_redis_node *sb_redis_cluster_route(struct sb_redis_cluster *cluster, const char *mutex,
                                             struct simba_error *error);

/* The node that "MOVED slot host:port" or "ASK slot host:port" names, which `from` has sent; *ret_asking
 * for the latter. NULL when it names none. */
struct sb_redis_node *sb_redis_cluster_redirect(struct sb_redis_cluster *cluster, const char *text,
                                                const struct sb_redis_place *from, bool *ret_asking,
                                                struct simba_error *error);

/* Asks for the map again, soon. */
void sb_redis_cluster_refresh(struct sb_redis_cluster *cluster);

/* The same when a node says that the cluster is down: where the map is from that node, another one is asked. */
void sb_redis_cluster_doubt(struct sb_redis_cluster *cluster, const struct sb_redis_place *place);

/* Destroys it; sb_redis_store_finish_close is called when that is done, soon. */
void sb_redis_cluster_close(struct sb_redis_cluster *cluster);

#endif
