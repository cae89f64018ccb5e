/*
 * zookeeper.h - the ZooKeeper backend: `zookeeper://`, and `zookeepers://` over TLS.
 */
#ifndef SB_BACKEND_ZOOKEEPER_ZOOKEEPER_H
#define SB_BACKEND_ZOOKEEPER_ZOOKEEPER_H

#include <simba/backend.h>

extern const struct simba_backend_ops sb_zookeeper_ops;

#endif
