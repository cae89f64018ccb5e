/*
 * rights.h - the user of docs/stores/redis.md, with just the rights that stand there.
 */
#ifndef SIMBA_TEST_REDIS_RIGHTS_H
#define SIMBA_TEST_REDIS_RIGHTS_H

#include "server.h"

/* Makes the user "simba" with the password "secret" on the server, from the line of the page and
 * what is to be added to it. */
void rights_grant(struct server *server, const char *more);

#endif
