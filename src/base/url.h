/*
 * url.h - takes a store's URL apart. The accessors are in simba/backend.h.
 *
 *     scheme:path?a=b                          sqlite:/var/lib/jobs.db?ttl=5s
 *     scheme://user:password@h1:1,h2:2/path?a=b
 *
 * Everything but the scheme may be percent-encoded. IPv6 hosts stand in brackets.
 */
#ifndef SB_BASE_URL_H
#define SB_BASE_URL_H

#include <simba/backend.h>

int sb_url_parse(const char *text, simba_url **ret_url, struct simba_error *error);
void sb_url_free(simba_url *url);

/* The name of a parameter that nobody has asked for, or NULL. */
const char *sb_url_unused_param(const simba_url *url);

/* Writes the URL with its password, and every parameter whose name ends in "password", replaced by
 * "***", for logs and errors. Returns `buffer`. */
const char *sb_url_redact(const char *text, char *buffer, size_t size);

#endif
