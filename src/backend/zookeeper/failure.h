/*
 * failure.h - what an error of ZooKeeper means.
 */
#ifndef SB_ZK_FAILURE_H
#define SB_ZK_FAILURE_H

#include <simba/simba.h>

/* Writes code and sentence for a code of the client library (ZNOAUTH ...); returns the code. */
int sb_zk_fail(struct simba_error *error, int zk_code);

#endif
