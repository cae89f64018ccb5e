/*
 * tls.h - encryption between plain bytes and the bytes on a stream. Does no I/O itself.
 */
#ifndef SB_REDIS_TLS_H
#define SB_REDIS_TLS_H

#include "backend/redis/options.h"
#include "backend/redis/wire/resp.h"

/* What all connections share: certificates and how to check the server's. From any thread. */
struct sb_redis_tls;

int sb_redis_tls_create(const struct sb_redis_options *options, struct sb_redis_tls **ret_tls,
                        struct simba_error *error);
void sb_redis_tls_free(struct sb_redis_tls *tls);

/* One connection's. After each call sb_redis_tls_take gives what has to be sent. */
struct sb_redis_tls_session;

/* `host` is the name that the server's certificate must have, unless an option names another. NULL
 * when memory is short. */
struct sb_redis_tls_session *sb_redis_tls_session_create(const struct sb_redis_tls *tls,
                                                         const char *host);
void sb_redis_tls_session_free(struct sb_redis_tls_session *session);

/* Takes in what came from the server; false when memory is short. */
bool sb_redis_tls_feed(struct sb_redis_tls_session *session, const char *bytes, size_t length);

/* Goes on with the handshake: SIMBA_OK with *ret_done, or why it failed. */
int sb_redis_tls_handshake(struct sb_redis_tls_session *session, bool *ret_done,
                           struct simba_error *error);

/* Plain bytes that have come: their number, 0 when there are none yet, -1 when the server ended the
 * session or broke the protocol, and then *error says why. */
int sb_redis_tls_read(struct sb_redis_tls_session *session, char *target, size_t size,
                      struct simba_error *error);

bool sb_redis_tls_write(struct sb_redis_tls_session *session, const char *bytes, size_t length);

/* Moves what is to be sent into the buffer; false when memory is short. */
bool sb_redis_tls_take(struct sb_redis_tls_session *session, struct sb_redis_buffer *target);

#endif
