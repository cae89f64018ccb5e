/*
 * zookeeper.h - the ZooKeeper backend: `zookeeper://`, and `zookeepers://` over TLS.
 */
#ifndef SB_ZK_ZOOKEEPER_H
#define SB_ZK_ZOOKEEPER_H

#include "backend/module.h"

extern const struct sb_module sb_zk_module SB_SHARED("zookeeper_module");

#endif
