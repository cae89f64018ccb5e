/*
 * endpoint.h - where a server is, and whether it may be used.
 */
#ifndef SB_REDIS_ENDPOINT_H
#define SB_REDIS_ENDPOINT_H

#include "backend/redis/options.h"

/* The user names some hosts in the URL. Sentinels and nodes of a cluster tell of others, and may
 * lie. So:
 *  - A host that the URL names, by its name or by an address that a name there leads to, may be
 *    used, on any port.
 *  - With allow-hosts no other one may but those that it lists. In the mode of sentinels the URL
 *    names sentinels only: then allow-hosts alone decides about masters.
 *  - Without it, a password goes to no other one, unless TLS proves who it is: by an authority that
 *    the user names (tls-ca), or by a name that the user gives (tls-server-name). The authorities
 *    of the system vouch for every host of the world, also for the attacker's.
 *
 * The addresses that were checked are those that are connected to. */

/* SIMBA_OK when the value of allow-hosts can be understood: names, addresses, ADDRESS/BITS,
 * *.SUFFIX, with commas between. */
int sb_redis_hosts_check(const char *list, struct simba_error *error);

/* Looks a server up that is to be greeted with these credentials, and leaves out addresses that
 * must not be used. Blocks where a name has to be looked up. From any thread. */
int sb_redis_endpoint_find(const struct sb_redis_options *options,
                           const struct sb_redis_credentials *credentials,
                           const struct sb_wire_place *place, struct sb_wire_endpoint *ret_endpoint,
                           struct simba_error *error);

/* Whether that may take long. */
bool sb_redis_endpoint_find_blocks(const struct sb_redis_options *options,
                                   const struct sb_redis_credentials *credentials,
                                   const struct sb_wire_place *place);

#endif
