/*
 * probe.h - whether nobody listens at the addresses of the servers.
 */
#ifndef SB_ZK_PROBE_H
#define SB_ZK_PROBE_H

#include <stdbool.h>

/* Whether all of "host:port,[::1]:port" refuse a connection at once. The client library tries on
 * without telling. Blocks for the names, and up to 100 ms for each address that does not answer. */
bool sb_zk_probe_refuses(const char *hosts);

#endif
