/*
 * list.h - carries out LIST: all mutexes of all servers.
 */
#ifndef SB_REDIS_LIST_H
#define SB_REDIS_LIST_H

#include "backend/redis/request/nodes.h"

/* Answers the request by host->reply. */
void sb_redis_list_start(simba_backend *store, struct simba_request *request);

#endif
